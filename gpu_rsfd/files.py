"""Files on disk: ours are written whole beside their place, then moved into it; others' must be regular ones."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import io
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from gpu_rsfd.errors import InputError, RunError, unfinished

FIGURES = (".png", ".pdf", ".svg")  # drawn beside a results file
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
BUFFERED = 1 << 16  # bytes that are read at a time: HDF5 asks for a few hundred


class StoreError(RunError):
    """A file can't be written or read now; what it held before is safe."""


def open_regular(path: Path) -> BinaryIO:
    """A regular file; a pipe, a device or a folder is refused, and never waited for."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(number).st_mode):
        return os.fdopen(number, "rb", BUFFERED)
    os.close(number)
    raise InputError(f"{path} is not a regular file")


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """The new content is at `path` wholly or not at all."""
    with replaced(path) as file:
        file.write(content)


@contextlib.contextmanager
def replaced(path: Path, check: Callable[[Path], None] | None = None) -> Iterator[FileImage]:
    """A file object; what is written to it is at `path` afterwards, wholly or not at all.

    `check` may look at it, and refuse it, before it is moved into its place.
    """
    with unfinished():
        remove_leftovers(path)
        beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.gpu-rsfd.tmp")
        try:
            mode = stat.S_IMODE(path.lstat().st_mode) & 0o666 if path.exists() else None
            with _locked(beside, 0o666 if mode is None else 0o600) as file:
                image = FileImage(file)
                yield image
                image.check()
                os.fsync(file.fileno())
            if check is not None:
                check(beside)
            if mode is not None:
                with contextlib.suppress(OSError):  # some file systems have no modes
                    beside.chmod(mode)
            os.replace(beside, path)
            sync_folder(path.parent)
        except BaseException as error:
            with contextlib.suppress(OSError):
                beside.unlink()
            if isinstance(error, OSError):
                raise StoreError(f"can't write {path}: {error.strerror or error}") from error
            raise


def _locked(path: Path, mode: int) -> IO[bytes]:
    """A new file, locked as long as it is open; made again if it was taken for a leftover before it was locked."""
    while True:
        file = os.fdopen(os.open(path, NEW, mode), "w+b", buffering=0)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if path.exists():
            return file
        file.close()


def remove_leftovers(path: Path) -> None:
    """Removes temporary files that nobody writes any more: no process has them locked, on whatever host."""
    with contextlib.suppress(OSError):
        for other in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.gpu-rsfd.tmp"):
            with open_regular(other) as file, contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                other.unlink()


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable, where a folder can be opened."""
    with contextlib.suppress(PermissionError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


class FileImage(io.RawIOBase):
    """A file while HDF5 makes it: the first error is remembered, and raised by `check`, not by HDF5.

    HDF5 can't close a file on a full disk, and is of no use afterwards; so it is never told.  What it writes after the
    error is kept in memory, where it finds it again: whoever writes much must call `check` now and then.
    """

    def __init__(self, file: Any) -> None:
        self._file, self._at, self._size = file, 0, 0
        self._lost: list[tuple[int, bytes]] = []  # place and content of what was written since the error
        self.error: OSError | None = None

    def check(self) -> None:
        """Raises the first error."""
        if self.error is not None:
            raise self.error

    def _try(self, work: Callable[..., object], *given: Any) -> None:
        if self.error is None:
            try:
                work(*given)
            except (OSError, ValueError) as error:  # or it is closed: a signal came while HDF5 was closing it
                self.error = error if isinstance(error, OSError) else OSError(str(error))

    def _put(self, view: memoryview) -> None:
        self._file.seek(self._at)
        while view:
            view = view[self._file.write(view) :]

    def write(self, content: Any) -> int:
        view = memoryview(content).cast("B")
        self._try(self._put, view)
        if self.error is not None:
            self._lost.append((self._at, bytes(view)))
        self._at += len(view)
        self._size = max(self._size, self._at)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        self._size = self._at if size is None else size
        self._try(self._file.truncate, self._size)
        return self._size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        length = min(len(view), max(self._size - self._at, 0))
        view[:] = bytes(len(view))  # holes are zeros
        try:
            self._file.seek(done := self._at)
            while done < self._at + length and (read := self._file.readinto(view[done - self._at : length])):
                done += read
        except (OSError, ValueError) as error:
            self.error = self.error or OSError(str(error))
        for at, lost in self._lost:
            first, last = max(at, self._at), min(at + len(lost), self._at + length)
            if first < last:
                view[first - self._at : last - self._at] = lost[first - at : last - at]
        self._at += length
        return length
