"""Files from strangers: what HDF5 would fetch elsewhere is refused, sizes are checked before they are allocated."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

import h5py
from h5py import h5d, h5l, h5t

BUFFERED = 1 << 16  # bytes that are read at a time: HDF5 asks for a few hundred
MOST_PACKED = 1032  # numbers to a byte: no stream of deflate is denser
MOST_TEXT = 1 << 30  # bytes of an attribute


def open_regular(path: Path) -> BinaryIO:
    """A regular file; a pipe, a device or a folder is a ValueError, and is never waited for."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(number).st_mode):
        return os.fdopen(number, "rb", BUFFERED)
    os.close(number)
    raise ValueError("is not a regular file")


def member(group: Any, name: str, kind: type = h5py.Dataset) -> Any:
    """What a group of HDF5 holds under a name; a ValueError if that is elsewhere, or something else."""
    if group.id.links.get_info(name.encode()).type != h5l.TYPE_HARD:
        raise ValueError(f"{name} is a link; a results file has none")
    node = group[name]
    if not isinstance(node, kind):
        raise ValueError(f"{name} is not a {kind.__name__.lower()} of HDF5")
    return node


def attribute(node: Any, name: str) -> int | str:
    """A whole number or a text of fixed length; a ValueError if it is anything else, which is not read."""
    found = node.attrs.get_id(name)
    kind = found.get_type()
    fixed = isinstance(kind, h5t.TypeStringID) and not kind.is_variable_str() and kind.get_size() < MOST_TEXT
    if found.get_space().get_simple_extent_npoints() != 1 or not (fixed or isinstance(kind, h5t.TypeIntegerID)):
        raise ValueError(f"{name} is not a number or a text of fixed length")
    value = node.attrs[name]
    return value.decode() if isinstance(value, bytes) else int(value)


def stored_fault(node: Any, size: int) -> str | None:
    """Why an array can't be read safely from a file of so many bytes; None if it can."""
    made = node.id.get_create_plist()
    if made.get_layout() == h5d.VIRTUAL or made.get_external_count():
        return "is stored in other files"
    stored = min(node.id.get_storage_size(), size)
    declared = max(node.size, math.prod(node.chunks or ())) * node.dtype.itemsize if node.size else 0
    if declared > MOST_PACKED * stored:
        return f"declares {declared:,} bytes, but the file has only {stored:,} for them"
    return None
