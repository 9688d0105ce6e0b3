"""The journal of a run: one file beside its output, to which finished blocks are added; nothing in it is ever changed.

A record is a mark, two lengths, a key (JSON), the bytes of some arrays and a checksum.  What follows the last whole
record was being written when somebody was killed: readers ignore it, and the next writer cuts it off.  Readers take no
lock, and read with calls that fail in one line where a mapped file would end the process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import json
import math
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from gpu_rsfd.errors import InputError, heed_signals
from gpu_rsfd.files import StoreError, sync_folder

MARK = b"\x89gpu-rsfd-3\r\n"
HEAD = struct.Struct(f"<{len(MARK)}sQQ")  # the mark, the lengths of the key and of the bytes after it
CHECK = 4  # bytes of the checksum
MOST_KEY = 1 << 28
AT_ONCE = 1 << 16  # bytes that are read at a time
WASTED = 8  # times its size may be read in vain: lengths that lie make every mark as long as the file
TOGETHER = 1 << 24  # a record of fewer bytes is one call


@dataclass(frozen=True)
class Stored:
    """An array of a record, on disk: some repetitions of a cell are read at a time."""

    file: BinaryIO
    at: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __getitem__(self, place: tuple[int, int, slice]) -> Any:
        p, e, rows = place
        each = math.prod(self.shape[3:]) * self.dtype.itemsize
        first = ((p * self.shape[1] + e) * self.shape[2] + rows.start) * each
        size = (rows.stop - rows.start) * each
        content = _read(self.file, self.at + first, size)
        if len(content) < size:
            raise OSError(errno.EIO, "it became shorter while it was read")
        return np.frombuffer(content, self.dtype).reshape(-1, *self.shape[3:])


class Record(NamedTuple):
    """A key, and the arrays that it names."""

    key: dict[str, Any]
    arrays: dict[str, Stored]


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    """So many bytes; fewer at the end of the file only."""
    parts = list[bytes]()
    while size > 0 and (part := os.pread(file.fileno(), size, at)):
        parts.append(part)
        at, size = at + len(part), size - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class Reading(list[Record]):
    """The whole records of a journal, as long as it is open.

    `end` is where the last of them ends, `damaged` how often something else than a record lies before one.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.end, self.damaged = file, 0, 0
        at, size = 0, os.fstat(file.fileno()).st_size
        self._spare = WASTED * size + AT_ONCE
        while at < size:
            heed_signals()
            stop = self._take(at, size)
            if stop is None:
                if self._spare < 0:
                    raise ValueError("most of it is no record")
                at = self._mark_after(at + 1, size)  # a record that was changed costs itself alone
            else:
                self.damaged += at > self.end
                self.end = at = stop

    def _mark_after(self, at: int, size: int) -> int:
        for place in range(at, size, AT_ONCE):
            found = _read(self.file, place, AT_ONCE + len(MARK) - 1).find(MARK)
            if found >= 0:
                return place + found
        return size

    def _take(self, at: int, size: int) -> int | None:
        """Adds the record that begins here, and says where it ends; None if there is no whole one."""
        begin = _read(self.file, at, HEAD.size)
        if len(begin) < HEAD.size or not begin.startswith(MARK):
            return None
        _, length, rest = HEAD.unpack(begin)
        first = at + HEAD.size + length
        if length > MOST_KEY or first + rest + CHECK > size:
            return None
        self._spare -= first + rest - at
        text = _read(self.file, at + HEAD.size, length)
        check = zlib.crc32(text, zlib.crc32(begin))
        for place in range(first, first + rest, AT_ONCE):
            check = zlib.crc32(_read(self.file, place, min(AT_ONCE, first + rest - place)), check)
        if check.to_bytes(CHECK, "little") != _read(self.file, first + rest, CHECK):
            return None
        try:
            key, arrays, place = json.loads(text), {}, first
            for name, (dtype, shape) in key["arrays"].items():
                array = arrays[name] = Stored(self.file, place, np.dtype(dtype), tuple(map(int, shape)))
                place += array.dtype.itemsize * math.prod(array.shape)
                if array.dtype.kind not in "iuf" or min(array.shape, default=0) < 0:
                    return None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None  # whole, but not of gpu-rsfd
        if place != first + rest:
            return None
        self._spare += first + rest - at
        self.append(Record(key, arrays))
        return place + CHECK


class Journal:
    """The end of a journal to which blocks are added, after its last whole record.

    Its owner has the lock of the output; a lock of the journal itself is for the case that somebody removes that one.
    """

    def __init__(self, path: Path, end: int = 0) -> None:
        self.path, self.size, self._file = path, end, -1
        try:
            new = not path.exists()
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._file, end)
            os.lseek(self._file, end, os.SEEK_SET)
            if new:
                sync_folder(path.parent)
        except OSError as error:
            self.close()
            if isinstance(error, BlockingIOError):
                raise InputError(f"{path} is being written by another gpu-rsfd; wait for it") from None
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> StoreError:
        return StoreError(f"can't write {self.path}: {error.strerror or error}")

    def add(self, key: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """A record, on disk for good when this returns: one write, one sync."""
        made = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        shapes = {name: [array.dtype.str, list(array.shape)] for name, array in made.items()}
        text = json.dumps({**key, "arrays": shapes}).encode()
        parts: list[Any] = [HEAD.pack(MARK, len(text), sum(array.nbytes for array in made.values())), text]
        parts += [array.reshape(-1).view(np.uint8).data for array in made.values() if array.size]
        check = functools.reduce(lambda before, part: zlib.crc32(part, before), parts, 0)
        parts.append(check.to_bytes(CHECK, "little"))
        size = sum(map(len, parts))
        try:
            # a small record is one call; a large one is not copied
            for part in [b"".join(parts)] if size <= TOGETHER else parts:
                left = memoryview(part)
                while left:
                    left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):  # what is half written is ignored in any case
                os.ftruncate(self._file, self.size)
                os.lseek(self._file, self.size, os.SEEK_SET)
            raise self._failed(error) from error
        self.size += size

    def close(self) -> None:
        """Everything in it is on disk already."""
        with contextlib.suppress(OSError):
            os.close(self._file)
