"""Files from strangers: what HDF5 would fetch elsewhere is refused, sizes are checked before they are allocated."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from h5py import Group, h5d, h5l

BUFFERED = 1 << 16  # bytes that are read at a time: HDF5 asks for a few hundred
MOST_PACKED = 1032  # numbers to a byte: no stream of deflate is denser


def open_regular(path: Path) -> BinaryIO:
    """A regular file; a pipe, a device or a folder is a ValueError, and is never waited for."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if stat.S_ISREG(os.fstat(number).st_mode):
        return os.fdopen(number, "rb", BUFFERED)
    os.close(number)
    raise ValueError("is not a regular file")


def read_regular(path: Path, most: int | None = None) -> bytes:
    """The content of a regular file."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise ValueError(f"has {size:,} bytes; at most {most:,} are valid")
        return file.read()


def check_links(file: Any) -> None:
    """All that an HDF5 file names is in itself: a ValueError names a link that leads elsewhere.

    Groups are looked at one by one, as deep as results go: HDF5's own walk ends the process on some damaged files.
    """
    groups = [("", file)]
    for name in file:
        if file.id.links.get_info(name.encode(errors="surrogateescape")).type == h5l.TYPE_HARD:
            node = file[name]
            groups += [(f"{name}/", node)] if isinstance(node, Group) else []
    for prefix, group in groups:
        for name in group:
            if group.id.links.get_info(name.encode(errors="surrogateescape")).type != h5l.TYPE_HARD:
                shown = f"{prefix}{name}".encode(errors="backslashreplace").decode()
                raise ValueError(f"{shown} is a link; a results file has none")


def one_value(holder: Any, name: str) -> Any:
    """An attribute; a ValueError if it is not one value, of which there may be more than memory has room for."""
    if holder.attrs.get_id(name).get_space().get_simple_extent_npoints() != 1:
        raise ValueError("is not one value")
    return holder.attrs[name]


def stored_fault(node: Any, size: int, cells: int = 1) -> str | None:
    """Why an array can't be read safely from a file of so many bytes; None if it can.

    Only one of `cells` equal parts of it need be there.
    """
    made = node.id.get_create_plist()
    if made.get_layout() == h5d.VIRTUAL or made.get_external_count():
        return "is stored in other files"
    stored = min(node.id.get_storage_size(), size)
    declared = max(node.size // max(cells, 1), math.prod(node.chunks or ())) * node.dtype.itemsize if node.size else 0
    if declared > MOST_PACKED * stored:
        return f"declares {declared:,} bytes, but the file has only {stored:,} for them"
    return None
