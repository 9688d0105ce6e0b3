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
            with os.fdopen(os.open(beside, NEW, 0o600), "w+b") as file:
                image = FileImage(file)
                try:
                    yield image
                finally:
                    if image.error is not None:
                        raise image.error
                image.spill()
                file.flush()
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
    """What becomes of a file, in memory while it is small; remembers the first error and takes all that follows.

    HDF5 can't close a file on a full disk, and is of no use afterwards; so it is never told.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._disk = file
        self._file: BinaryIO = io.BytesIO()
        self.error: OSError | None = None

    def _do(self, action: Callable[[], int | None], otherwise: int) -> int:
        if self.error is None:
            try:
                return action() or 0
            except OSError as error:
                self.error = error
        return otherwise

    def spill(self) -> None:
        """From memory to the disk, for good."""
        memory, self._file = self._file, self._disk
        if isinstance(memory, io.BytesIO):
            self._disk.write(memory.getbuffer())
            self._disk.seek(memory.tell())

    def _write(self, content: bytes | memoryview) -> int:
        if self._file is not self._disk and self._file.tell() + len(content) > IN_MEMORY:
            self.spill()
        return self._file.write(content)

    def write(self, content: bytes | memoryview) -> int:
        return self._do(lambda: self._write(content), len(content))

    def flush(self) -> None:
        self._do(self._file.flush, 0)

    def truncate(self, size: int) -> int:
        return self._do(lambda: self._truncate(size), size)

    def _truncate(self, size: int) -> int:
        if self._file.seek(0, os.SEEK_END) < size:  # memory does not grow by that
            self._file.seek(size - 1)
            self._file.write(b"\0")
        return self._file.truncate(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._do(lambda: self._file.seek(offset, whence), offset)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def readinto(self, buffer: Any) -> int:
        return self._do(lambda: self._file.readinto(buffer), len(buffer))  # type: ignore[attr-defined]
