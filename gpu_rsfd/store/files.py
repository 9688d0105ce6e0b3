"""Durable files: written whole beside their place, then moved into it; one writer at a time."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
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
REPLACE_SECONDS = 5.0  # where an open file can't be replaced, its reader is waited for so long
READ_AGAIN = 1 << 16  # bytes: structures of HDF5, which it reads again, are no larger; chunks of arrays are
IN_MEMORY = 16 << 20  # bytes of a file that are put together in memory: one write, not hundreds
LOCK_SECONDS = 0.5  # so long somebody else's lock is waited for: whoever only looks holds it for a moment
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | NOFOLLOW | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
TEMPORARY = re.compile(r"\.([0-9a-f]{12})-([0-9a-f]{6})-(\d+)-[0-9a-f]{8}\.gpu-rsfd\.tmp")  # file, host, process
UMASK = os.umask(0o077)  # it can only be asked for by setting it: here, while there are no threads
os.umask(UMASK)


UNFINISHED: dict[Path, int] = {}  # temporary files and locks, with the process that made them


@atexit.register
def clean_up() -> None:
    """Removes what a signal has left: it may come between the making of a file and the code that would remove it."""
    for path, process in UNFINISHED.items():
        with contextlib.suppress(OSError, Timeout):
            if process == os.getpid() and path.suffix != ".lock":
                path.unlink()
            elif process == os.getpid() and stat.S_ISREG(path.lstat().st_mode) and not path.stat().st_size:
                with FileLock(path, timeout=0):  # it may be somebody else's by now
                    path.unlink()


class StoreError(RunError):
    """A file can't be written or read now; what it held before is safe."""


class GoneError(InputError):
    """The folder of a lock has been removed meanwhile."""


@contextlib.contextmanager
def locked(path: Path, beside: Path | None = None, wait: float = LOCK_SECONDS) -> Iterator[None]:
    """One sweep at a time on an output; the lock dies with its process, however that ends."""
    beside = beside or path.with_name(path.name + ".lock")
    lock = FileLock(beside, timeout=wait, poll_interval=0.02, mode=0o644)
    made = False
    try:
        if beside.is_symlink():
            raise InputError(f"output={path} needs {beside} as its lock, but that is a link of yours: move it away")
        UNFINISHED[beside] = os.getpid()
        try:
            number = os.open(beside, NEW, 0o644)  # why it can't be made is told here, not by the lock
            made = True
        except FileExistsError:
            number = os.open(beside, os.O_RDWR | os.O_CREAT | NOFOLLOW, 0o644)
        size = os.fstat(number).st_size  # not of the path: its holder may have removed it meanwhile
        os.close(number)
        if size:  # a lock is an empty file
            raise InputError(f"output={path} needs {beside} as its lock, but that is a file of yours: move it away")
        lock.acquire()
        held = beside.stat()
    except (InputError, OSError) as error:
        UNFINISHED.pop(beside, None)
        if isinstance(error, InputError):
            raise
        if isinstance(error, Timeout):
            raise InputError(
                f"output={path} is in use by another gpu-rsfd; wait for it or give another output"
            ) from None
        if isinstance(error, FileNotFoundError):
            raise GoneError(f"output={path} can't be written: {error.strerror}: {beside.parent}") from None
        if made:
            with contextlib.suppress(OSError):
                beside.unlink()
        raise InputError(f"output={path} can't be written: {error.strerror}: {path.parent}") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if os.path.samestat(held, beside.stat()):  # the folder may have been removed and made again by others
                beside.unlink()  # while it is held: whoever opened it just now finds it gone, and takes a new one
        UNFINISHED.pop(beside, None)
        lock.release()


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """The new content is at `path` wholly or not at all."""
    remove_leftovers(path.parent, path.name)
    with replaced(path) as file:
        file.write(content)


def temporary(path: Path) -> Path:
    """A name beside `path` that nobody else uses, and that says whose it is."""
    return path.with_name(f".{_digest(path.name, 12)}-{_host()}-{os.getpid()}-{secrets.token_hex(4)}.gpu-rsfd.tmp")


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:length]


def _host() -> str:
    return _digest(platform.node(), 6)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Removes what killed processes of this machine left of a file that they wrote; without a name, of any file."""
    with contextlib.suppress(OSError):
        for path in list(folder.glob(".*.gpu-rsfd.tmp")):
            found = TEMPORARY.fullmatch(path.name)
            if found is None or found[2] != _host() or _alive(int(found[3])):
                continue
            if name is None or found[1] == _digest(name, 12):
                with contextlib.suppress(OSError):
                    path.unlink()


def _alive(process: int) -> bool:
    """Whether there is such a process; where one can't ask, yes."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


@contextlib.contextmanager
def replaced(path: Path, check: Callable[[Path], None] | None = None) -> Iterator[Any]:
    """A file object; what is written to it is at `path` afterwards, wholly or not at all.

    `check` may look at it, and refuse it, before it is moved into its place.
    """
    beside = temporary(path)
    UNFINISHED[beside] = os.getpid()
    try:
        try:
            with os.fdopen(os.open(beside, NEW, 0o600), "w+b", buffering=0) as file:
                image = FileImage(file)
                try:
                    yield image
                finally:
                    if image.error is not None:
                        raise image.error
                image.spill()
                if image.error is not None:
                    raise image.error
                os.fsync(file.fileno())
            if check is not None:
                check(beside)
            with contextlib.suppress(OSError):  # some file systems have no modes
                beside.chmod(_mode(path))
            move(beside, path)
        except OSError as error:
            raise StoreError(f"can't write {path}: {error.strerror or error}") from error
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    finally:
        UNFINISHED.pop(beside, None)


def _mode(path: Path) -> int:
    """Of the file that is replaced; of a new one, as for any other."""
    try:
        return stat.S_IMODE(path.lstat().st_mode) & 0o666
    except OSError:
        return 0o666 & ~UMASK


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


class FileImage:
    """A file while it is made: in memory if it is small, else on disk; the first error is remembered, not raised.

    HDF5 can't close a file on a full disk, and is of no use afterwards; so it is never told.  What it may read again,
    it then finds in memory: were it given anything else, it could crash.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._disk = file  # unbuffered: what fails is what is being written
        self._memory: io.BytesIO | None = io.BytesIO()
        self._size = self._at = 0
        self._afterwards: list[tuple[int, bytes]] = []  # place and content of what was written after the error
        self.error: OSError | None = None

    def spill(self) -> None:
        """From memory to the disk, for good."""
        if self._memory is not None:
            content, self._memory = self._memory.getbuffer(), None
            self._put(0, content)
            if len(content) < self._size:  # memory does not grow by `truncate`
                self.truncate(self._size)

    def _put(self, at: int, content: memoryview) -> None:
        if self.error is None:
            try:
                self._disk.seek(at)
                done = 0
                while done < len(content):
                    done += self._disk.write(content[done:])
                return
            except OSError as error:
                self.error = error
        if len(content) <= READ_AGAIN or not at:
            self._afterwards.append((at, bytes(content)))

    def write(self, content: bytes | memoryview) -> int:
        view = memoryview(content).cast("B")
        if self._memory is not None and self._at + len(view) > IN_MEMORY:
            self.spill()
        if self._memory is None:
            self._put(self._at, view)
        else:
            self._memory.seek(self._at)
            self._memory.write(view)
        self._at += len(view)
        self._size = max(self._size, self._at)
        return len(view)

    def flush(self) -> None:
        """There is no buffer."""

    def truncate(self, size: int) -> int:
        if self._memory is not None:
            self._memory.truncate(size)
        elif self.error is None:
            try:
                self._disk.truncate(size)
            except OSError as error:
                self.error = error
        self._size = size
        return size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        buffer = bytearray(max(self._size - self._at, 0) if size < 0 else size)
        return bytes(buffer[: self.readinto(buffer)])

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        length = min(len(view), max(self._size - self._at, 0))
        view[:] = bytes(len(view))  # holes, and what was lost: never what happens to be in the buffer
        if self._memory is not None:
            self._memory.seek(self._at)
            self._memory.readinto(view[:length])
        else:
            self._read(view[:length])
        self._at += length
        return length

    def _read(self, view: memoryview) -> None:
        try:
            self._disk.seek(self._at)
            done = 0
            while done < len(view) and (more := self._disk.readinto(view[done:])):  # type: ignore[attr-defined]
                done += more
        except OSError as error:
            self.error = self.error or error
        for place, content in self._afterwards:
            first, stop = max(place, self._at), min(place + len(content), self._at + len(view))
            if first < stop:
                view[first - self._at : stop - self._at] = content[first - place : stop - place]
