"""Files from strangers: what HDF5 would fetch elsewhere is refused, sizes are checked before they are allocated."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from gpu_rsfd.errors import InputError

BUFFERED = 1 << 16  # bytes that are read at a time: HDF5 asks for a few hundred
MOST_PACKED = 1032  # numbers to a byte: no stream of deflate is denser


def open_regular(path: Path) -> BinaryIO:
    """A regular file; a pipe, a device or a folder is refused, and never waited for."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(number).st_mode):
        return os.fdopen(number, "rb", BUFFERED)
    os.close(number)
    raise InputError(f"{path} is not a regular file")


def stored_fault(node: Any, size: int) -> str | None:
    """Why an array can't be read safely from a file of so many bytes; None if it can."""
    from h5py import h5d

    made = node.id.get_create_plist()
    if made.get_layout() == h5d.VIRTUAL or made.get_external_count():
        return "is stored in other files"
    stored = min(node.id.get_storage_size(), size)
    declared = max(node.size, math.prod(node.chunks or ())) * node.dtype.itemsize if node.size else 0
    if declared > MOST_PACKED * stored:
        return f"declares {declared:,} bytes, but the file has only {stored:,} for them"
    return None
