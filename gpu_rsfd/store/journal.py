"""The journal of a run: one file beside its output, to which finished blocks are added; nothing in it is ever changed.

A record is a mark, two lengths, a key (JSON), raw bytes and a checksum.  What follows the last whole record was being
written when somebody was killed: readers ignore it, and the next writer cuts it off.  Readers take no lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpu_rsfd.store.files import StoreError, sync_folder
from gpu_rsfd.untrusted import open_regular

MARK = b"\x89gpu-rsfd-3\r\n"
LENGTHS = struct.Struct("<QQ")  # of the key and of the bytes after it
CHECK = 16  # bytes of the checksum
MOST_KEY = 1 << 28


@dataclass(frozen=True, eq=False)
class Record:
    """A key, and where the bytes of its arrays are."""

    path: Path
    key: dict[str, Any]
    content: Any  # the bytes, as a read-only array that is mapped, not read

    def array(self, name: str) -> Any:
        """An array of the record."""
        at = 0
        for other, (dtype, shape) in self.key["arrays"].items():
            size = np.dtype(dtype).itemsize * int(np.prod(shape))
            if other == name:
                return self.content[at : at + size].view(dtype).reshape(shape)
            at += size
        raise KeyError(name)

    @property
    def size(self) -> int:
        """Bytes that its arrays take, as the key says."""
        return sum(np.dtype(d).itemsize * int(np.prod(shape)) for d, shape in self.key["arrays"].values())


class Reading(list[Record]):
    """The whole records of a journal; `end` is where the last of them ends, `damaged` how many were passed over."""

    def __init__(self, path: Path) -> None:
        self.end = self.damaged = 0
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                return
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        at = 0
        while at >= 0 and at < size:
            stop = self._take(path, mapped, at, size)
            if stop is None:
                at = mapped.find(MARK, at + 1)  # one that was changed costs itself alone
                continue
            self.damaged += at > self.end
            self.end = at = stop

    def _take(self, path: Path, mapped: mmap.mmap, at: int, size: int) -> int | None:
        """Adds the record that begins here, and says where it ends; None if there is no whole one."""
        first = at + len(MARK) + LENGTHS.size
        if mapped[at : at + len(MARK)] != MARK or first > size:
            return None
        key, rest = LENGTHS.unpack(mapped[first - LENGTHS.size : first])
        stop = first + key + rest
        if key > MOST_KEY or stop + CHECK > size:
            return None
        whole = np.frombuffer(mapped, np.uint8, stop - at, at)
        if hashlib.blake2b(whole.data, digest_size=CHECK).digest() != mapped[stop : stop + CHECK]:
            return None
        try:
            record = Record(path, json.loads(mapped[first : first + key]), whole[first + key - at :])
            if record.size != rest:
                return None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None  # whole, but not of gpu-rsfd
        self.append(record)
        return stop + CHECK


class Journal:
    """The end of a journal to which blocks are added; its owner holds the lock of the output."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            new = not path.exists()
            end = 0 if new else Reading(path).end
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            if not new:
                os.ftruncate(self._file, end)
            self.size = os.lseek(self._file, end, os.SEEK_SET)
            if new:
                sync_folder(path.parent)
        except (OSError, ValueError) as error:
            raise StoreError(f"can't write {path}: {getattr(error, 'strerror', None) or error}") from error

    def add(self, key: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """A record, on disk for good when this returns: one write, one sync."""
        made = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        shapes = {name: [array.dtype.str, list(array.shape)] for name, array in made.items()}
        text = json.dumps({**key, "arrays": shapes}).encode()
        parts: list[Any] = [MARK, LENGTHS.pack(len(text), sum(array.nbytes for array in made.values())), text]
        parts += [array.data.cast("B") for array in made.values() if array.size]
        digest = hashlib.blake2b(digest_size=CHECK)
        for part in parts:
            digest.update(part)
        parts.append(digest.digest())
        try:
            for piece in _joined(parts):
                done = 0
                while done < len(piece):
                    done += os.write(self._file, piece[done:])
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):  # what is half written is ignored in any case
                os.ftruncate(self._file, self.size)
                os.lseek(self._file, self.size, os.SEEK_SET)
            raise StoreError(f"can't write {self.path}: {error.strerror or error}") from error
        self.size += sum(len(part) for part in parts)

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _joined(parts: list[Any]) -> Iterator[memoryview]:
    """Small parts together, so that a block is one call; a large one is not copied."""
    if sum(len(part) for part in parts) <= 1 << 24:
        yield memoryview(b"".join(parts))
    else:
        yield from (memoryview(part).cast("B") for part in parts)
