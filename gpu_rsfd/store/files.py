"""One writer at a time."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from gpu_rsfd.errors import InputError, unfinished
from gpu_rsfd.files import open_regular

LOCK_SECONDS = 0.5  # so long somebody else's lock is waited for: its holder may be about to end
MARK = b"gpu-rsfd"  # a lock of ours begins with it; an empty one is ours as well


@contextlib.contextmanager
def locked(path: Path, wait: float = LOCK_SECONDS) -> Iterator[None]:
    """One writer at a time of a file; the lock ends with its process, however that ends, and says whose it is."""
    beside = path.with_name(path.name + ".lock")
    lock = FileLock(beside, timeout=wait, poll_interval=0.02, mode=0o644)
    held: os.stat_result | None = None
    if beside.is_symlink() or (beside.exists() and not _is_lock(beside)):
        raise InputError(f"output={path} needs {beside} as its lock, but that is a file of yours: move it away")
    with unfinished():
        try:
            try:
                # why it can't be made is told here
                os.close(os.open(beside, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644))
                lock.acquire()
                held = beside.stat()
                said = {"host": platform.node(), "process": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
                beside.write_bytes(MARK + f" {json.dumps(said)}\n".encode())
            except Timeout:
                other = f"another gpu-rsfd{_holder(beside)}"
                raise InputError(f"output={path} is in use by {other}; wait, or give another output") from None
            except OSError as error:
                raise InputError(f"output={path} can't be written: {error.strerror}: {path.parent}") from None
            yield
        finally:
            with contextlib.suppress(OSError, Timeout):
                if held is None:  # it was made, perhaps, but not taken when a signal or an error came
                    lock.acquire(timeout=0)
                    held = beside.stat()
                if os.path.samestat(held, beside.stat()):  # not removed and made again by others
                    beside.unlink()  # while it is held: whoever opened it just now finds it gone, and takes a new one
            lock.release(force=True)


def _is_lock(path: Path) -> bool:
    """Whether this is a lock of ours: a regular file with our mark, or an empty one."""
    try:
        with open_regular(path) as file:
            return file.read(len(MARK)) in (b"", MARK)
    except (OSError, ValueError) as error:
        return isinstance(error, OSError)  # it has just been removed, or can't be read: what follows says why


def _holder(beside: Path) -> str:
    """Who holds a lock, as far as it says so: information, no more."""
    try:
        said = json.loads(beside.read_bytes().removeprefix(MARK))
        return f" (process {int(said['process'])} on {said['host']}, since {said['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
