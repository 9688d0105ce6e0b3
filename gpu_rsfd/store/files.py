"""Durable files: written whole beside their place, then moved into it; one writer at a time."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from gpu_rsfd.errors import InputError, RunError

FIGURES = (".png", ".pdf", ".svg")  # drawn beside a results file
REPLACE_SECONDS = 5.0  # where an open file can't be replaced, its reader is waited for so long


class StoreError(RunError):
    """The results file can't be written now; what it held before is safe."""


@contextlib.contextmanager
def locked(path: Path, beside: Path | None = None) -> Iterator[None]:
    """One sweep at a time on an output; the lock dies with its process, however that ends."""
    beside = beside or path.with_name(path.name + ".lock")
    lock = FileLock(beside, timeout=0, mode=0o644)
    try:
        os.close(os.open(beside, os.O_RDWR | os.O_CREAT, 0o644))  # why it can't be made is told here, not by the lock
        if beside.stat().st_size:  # a lock is an empty file
            raise InputError(f"output={path} needs {beside} as its lock, but that is a file of yours: move it away")
        lock.acquire()
    except Timeout:
        raise InputError(f"output={path} is in use by another gpu-rsfd; wait for it or give another output") from None
    except OSError as error:
        raise InputError(f"output={path} can't be written: {error.strerror}: {path.parent}") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()  # while it is held: whoever opened it just now finds it gone, and takes a new one
        lock.release()


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """The new content is at `path` wholly or not at all."""
    with replaced(path) as file:
        file.write(content)


@contextlib.contextmanager
def replaced(path: Path, check: Callable[[Path], None] | None = None) -> Iterator[Any]:
    """A file object; what is written to it is at `path` afterwards, wholly or not at all.

    `check` may look at it, and refuse it, before it is moved into its place.
    """
    beside = path.with_name(f".{path.name}.gpu-rsfd.tmp")  # nobody else's; what a killed run left is replaced
    try:
        try:
            with open(beside, "w+b") as file:
                calm = CalmFile(file)
                try:
                    yield calm
                finally:
                    if calm.error is not None:
                        raise calm.error
                file.flush()
                os.fsync(file.fileno())
            if check is not None:
                check(beside)
            move(beside, path)
        except OSError as error:
            raise StoreError(f"can't write {path}: {error.strerror or error}") from error
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def move(beside: Path, path: Path) -> None:
    """Into its place for good.  Some systems refuse to replace a file while somebody reads it: that passes."""
    deadline = time.monotonic() + REPLACE_SECONDS
    while True:
        try:
            os.replace(beside, path)
            break
        except PermissionError:
            if os.name != "nt" or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    with contextlib.suppress(PermissionError):  # a folder can't be opened everywhere
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class CalmFile:
    """A file that remembers the first error and takes all that follows.

    HDF5 can't close a file on a full disk, and is of no use afterwards; so it is never told.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def _do(self, action: Callable[[], int | None], otherwise: int) -> int:
        if self.error is None:
            try:
                return action() or 0
            except OSError as error:
                self.error = error
        return otherwise

    def write(self, content: bytes | memoryview) -> int:
        return self._do(lambda: self._file.write(content), len(content))

    def flush(self) -> None:
        self._do(self._file.flush, 0)

    def truncate(self, size: int) -> int:
        return self._do(lambda: self._file.truncate(size), size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._do(lambda: self._file.seek(offset, whence), offset)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def readinto(self, buffer: Any) -> int:
        return self._do(lambda: self._file.readinto(buffer), len(buffer))  # type: ignore[attr-defined]
