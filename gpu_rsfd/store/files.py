"""Durable files: written whole beside their place, then moved into it; one writer at a time."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import platform
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from gpu_rsfd.errors import InputError, RunError

FIGURES = (".png", ".pdf", ".svg")  # drawn beside a results file
LOCK_SECONDS = 0.5  # so long somebody else's lock is waited for: whoever only looks holds it for a moment
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MARK = "gpu-rsfd"  # a lock of ours begins with it; an empty one is ours as well
MOST_LOCK = 4096  # bytes of a lock
TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{16}\.gpu-rsfd\.tmp")
UMASK = os.umask(0o077)  # it can only be asked for by setting it: here, while there are no threads
os.umask(UMASK)

UNFINISHED: dict[Path, int] = {}  # temporary files and locks, with the process that made them


class StoreError(RunError):
    """A file can't be written or read now; what it held before is safe."""


@atexit.register
def clean_up() -> None:
    """Removes what a signal has left: it may come between the making of a file and the code that would remove it."""
    for path, process in UNFINISHED.items():
        with contextlib.suppress(OSError, Timeout):
            if process == os.getpid() and path.suffix != ".lock":
                path.unlink()
            elif process == os.getpid() and _is_lock(path):
                with FileLock(path, timeout=0):  # it may be somebody else's by now
                    path.unlink()


def _is_lock(path: Path) -> bool:
    """Whether this is a lock of ours: a small regular file with our mark, or an empty one."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_LOCK:
        return False
    return not found.st_size or path.read_bytes().startswith(MARK.encode())


def is_locked(path: Path) -> bool:
    """Whether somebody is writing a file now."""
    beside = path.with_name(path.name + ".lock")
    try:
        with FileLock(beside, timeout=0) if beside.exists() else contextlib.nullcontext():
            return False
    except (Timeout, OSError):
        return True


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One writer at a time of a file; the lock ends with its process, however that ends, and says whose it is."""
    beside = path.with_name(path.name + ".lock")
    lock = FileLock(beside, timeout=LOCK_SECONDS, poll_interval=0.02, mode=0o644)
    try:
        if os.path.lexists(beside) and not _is_lock(beside):
            raise InputError(f"output={path} needs {beside} as its lock, but that is a file of yours: move it away")
        UNFINISHED[beside] = os.getpid()
        os.close(os.open(beside, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644))  # why it can't be made is told here
        lock.acquire()
        held = beside.stat()
        holder = {"host": platform.node(), "process": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        beside.write_text(f"{MARK} {json.dumps(holder)}\n")
    except Timeout:
        UNFINISHED.pop(beside, None)
        raise InputError(
            f"output={path} is in use by another gpu-rsfd{_holder(beside)}; wait for it or give another output"
        ) from None
    except (InputError, OSError) as error:
        if lock.is_locked:
            with contextlib.suppress(OSError):
                beside.unlink()
            lock.release()
        UNFINISHED.pop(beside, None)
        if isinstance(error, InputError):
            raise
        raise InputError(f"output={path} can't be written: {error.strerror}: {path.parent}") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if os.path.samestat(held, beside.stat()):  # the folder may have been removed and made again by others
                beside.unlink()  # while it is held: whoever opened it just now finds it gone, and takes a new one
        UNFINISHED.pop(beside, None)
        lock.release()


def _holder(beside: Path) -> str:
    """Who holds a lock, as far as it says so: information, no more."""
    try:
        said = json.loads(beside.read_text().removeprefix(MARK))
        return f" (process {int(said['process'])} on {said['host']}, since {said['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def remove_leftovers(path: Path) -> None:
    """Removes temporary files of a killed writer; only whoever holds the lock of a file may call this."""
    with contextlib.suppress(OSError):
        for other in path.parent.glob(".*.gpu-rsfd.tmp"):
            found = TEMPORARY.fullmatch(other.name)
            if found is not None and found[1] == path.name:
                with contextlib.suppress(OSError):
                    other.unlink()


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """The new content is at `path` wholly or not at all."""
    with replaced(path) as file:
        file.write(content)
        file.check()


@contextlib.contextmanager
def replaced(path: Path, check: Callable[[Path], None] | None = None) -> Iterator[Shielded]:
    """A file object; what is written to it is at `path` afterwards, wholly or not at all.

    `check` may look at it, and refuse it, before it is moved into its place.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.gpu-rsfd.tmp")
    UNFINISHED[beside] = os.getpid()
    try:
        with os.fdopen(os.open(beside, NEW, 0o600), "w+b", buffering=0) as file:
            shielded = Shielded(file)
            try:
                yield shielded
            finally:
                shielded.check()
            os.fsync(file.fileno())
        if check is not None:
            check(beside)
        with contextlib.suppress(OSError):  # some file systems have no modes
            beside.chmod(_mode(path))
        os.replace(beside, path)
        sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError):
            raise StoreError(f"can't write {path}: {error.strerror or error}") from error
        raise
    finally:
        UNFINISHED.pop(beside, None)


def _mode(path: Path) -> int:
    """Of the file that is replaced; of a new one, as for any other."""
    try:
        return stat.S_IMODE(path.lstat().st_mode) & 0o666
    except OSError:
        return 0o666 & ~UMASK


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable, where a folder can be opened."""
    with contextlib.suppress(PermissionError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


class Shielded:
    """A file while HDF5 makes it: the first error is remembered, and raised by `check`, not by HDF5.

    HDF5 can't close a file on a full disk, and is of no use afterwards; so it is never told.  What it writes after the
    error is kept in memory, where it finds it again: whoever writes much must call `check` now and then.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._at, self._size = file, 0, 0
        self._lost: list[tuple[int, bytes]] = []  # place and content of what was written since the error
        self.error: OSError | None = None

    def check(self) -> None:
        """Raises the first error."""
        if self.error is not None:
            raise self.error

    def _try(self, do: Callable[[], object]) -> bool:
        if self.error is None:
            try:
                do()
            except OSError as error:
                self.error = error
        return self.error is None

    def write(self, content: Any) -> int:
        view = memoryview(content).cast("B")
        if not self._try(lambda: self._put(view)):
            self._lost.append((self._at, bytes(view)))
        self._at += len(view)
        self._size = max(self._size, self._at)
        return len(view)

    def _put(self, view: memoryview) -> None:
        self._file.seek(self._at)
        done = 0
        while done < len(view):
            done += self._file.write(view[done:])

    def flush(self) -> None:
        """There is no buffer."""

    def truncate(self, size: int) -> int:
        self._try(lambda: self._file.truncate(size))
        self._size = size
        return size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        length = min(len(view), max(self._size - self._at, 0))
        content = bytearray(length)  # holes, and what was lost, are zeros
        with contextlib.suppress(OSError):
            self._file.seek(self._at)
            read = self._file.read(length)
            content[: len(read)] = read
        for at, lost in self._lost:
            first, last = max(at, self._at), min(at + len(lost), self._at + length)
            if first < last:
                content[first - self._at : last - self._at] = lost[first - at : last - at]
        view[:length] = content
        view[length:] = bytes(len(view) - length)
        self._at += length
        return length

    def read(self, size: int = -1) -> bytes:
        buffer = bytearray(max(self._size - self._at, 0) if size < 0 else size)
        return bytes(buffer[: self.readinto(buffer)])
