"""Durable files: written whole beside their place, then moved into it; one writer at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from gpu_rsfd.errors import InputError, RunError

FIGURES = (".png", ".pdf", ".svg")  # drawn beside a results file


class StoreError(RunError):
    """The results file can't be written now; what it held before is safe."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One sweep at a time on an output; the lock dies with its process, however that ends."""
    beside = path.with_name(path.name + ".lock")
    while True:
        try:
            handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InputError(f"output={path} can't be written: {error.strerror}: {path.parent}") from None
        if os.fstat(handle).st_size:
            os.close(handle)
            raise InputError(f"output={path} needs {beside} as its lock, but that is a file of yours: move it away")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise InputError(
                f"output={path} is in use by another gpu-rsfd; wait for it or give another output"
            ) from None
        if beside.exists() and os.path.samestat(os.fstat(handle), beside.stat()):
            break
        os.close(handle)  # its owner removed it just now: take a new one
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
        os.close(handle)


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """The new content is at `path` wholly or not at all."""
    beside = path.with_name(f".{path.name}.gpu-rsfd.tmp")  # nobody else's; what a killed run left is replaced
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise StoreError(f"can't write {path}: {error.strerror}") from error
