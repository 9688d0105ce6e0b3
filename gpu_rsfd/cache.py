"""Files in the user's cache folder, made once.

A file is named after what it was made from and after its own content, so that one that is not whole is never used.  It
is written under a name of its own, then renamed: processes that make it at the same time don't disturb each other.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

BUILDING = "building-"  # folders in which something is made
ABANDONED = 3600.0  # seconds after which such a folder is of a process that was killed
OTHERS = stat.S_IWGRP | stat.S_IWOTH
SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC  # a folder need not be readable


class CacheError(Exception):
    """Why the cache can't be used."""


def last_line(error: object) -> str:
    """The last line of what went wrong, without control characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "".join(c if c.isprintable() else " " for c in lines[-1])[:300] if lines else type(error).__name__


def cache_folder() -> Path:
    """$GPU_RSFD_CACHE, else gpu-rsfd in the user's cache."""
    if own := os.environ.get("GPU_RSFD_CACHE"):
        return Path(own)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-rsfd"
    except RuntimeError as error:  # no home
        raise CacheError(f"there is no cache folder: {last_line(error)}") from None


class Kept(NamedTuple):
    """A file of the cache, and its bytes as they were when they were checked."""

    path: Path
    content: bytes


def kept(folder: Path, name: str, make: Callable[[Path], Path]) -> Kept:
    """The file of this name in the cache; `make` makes it in an empty folder unless it is there."""
    folder = Path(os.path.realpath(folder))  # once: a link may be turned at any moment
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _opened(folder) as number:
            for entry in sorted(os.listdir(number)):
                content = _content(number, entry, folder / entry) if entry.startswith(f"{name}-") else None
                if content is not None and Path(entry).stem == f"{name}-{_digest(content)}":
                    return Kept(folder / entry, content)
                if entry.startswith(BUILDING) and time.time() - os.stat(entry, dir_fd=number).st_mtime > ABANDONED:
                    shutil.rmtree(folder / entry, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=BUILDING, dir=folder) as temporary:
                made = make(Path(temporary))
                made.chmod(0o700)
                content = made.read_bytes()
                path = folder / f"{name}-{_digest(content)}{made.suffix}"
                made.replace(path)  # whole, or not at all
        return Kept(path, content)
    except OSError as error:
        raise CacheError(f"the cache {folder} can't be used: {last_line(error)}") from None


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A folder, opened step by step from the root and without links: nobody else can put another in its place."""
    at, place = os.open("/", SEARCH), Path("/")
    try:
        *above, last = folder.parts[1:]
        for part, flags in [*((part, SEARCH) for part in above), (last, os.O_RDONLY | os.O_DIRECTORY)]:
            found = os.fstat(at)
            sticky = found.st_mode & stat.S_ISVTX and found.st_uid == 0  # /tmp: only owners rename what is in it
            _check_owner(place, found, (0, os.geteuid()), 0 if sticky else OTHERS)
            inner, place = os.open(part, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at), place / part
            os.close(at)
            at = inner
        _check_owner(folder, os.fstat(at), (os.geteuid(),))
        yield at
    finally:
        os.close(at)


def _content(number: int, entry: str, path: Path) -> bytes | None:
    """The bytes of a regular file in an open folder; None if it is something else."""
    if not stat.S_ISREG(os.stat(entry, dir_fd=number, follow_symlinks=False).st_mode):
        return None
    with os.fdopen(os.open(entry, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=number), "rb") as file:
        _check_owner(path, os.fstat(file.fileno()), (os.geteuid(),))
        return file.read()


def _check_owner(path: Path, found: os.stat_result, owners: tuple[int, ...], others: int = OTHERS) -> None:
    """What another user wrote, or could write, is not used."""
    if found.st_uid not in owners:
        raise CacheError(f"{path} belongs to another user")
    if found.st_mode & others:
        raise CacheError(f"{path} can be written by other users")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
