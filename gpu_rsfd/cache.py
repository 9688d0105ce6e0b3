"""Files in the user's cache folder, made once.

A file is named after what it was made from and after its own content, so that one that is not whole is never used.  It
is written under a name of its own, then renamed: processes that make it at the same time don't disturb each other.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path


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


def kept(folder: Path, name: str, make: Callable[[Path], Path]) -> Path:
    """The file of this name in the cache; `make` makes it in an empty folder unless it is there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_owner(folder)
        for path in sorted(folder.glob(f"{name}-*")):
            if path.is_symlink() or not path.is_file():
                continue
            _check_owner(path)
            if path.stem == f"{name}-{_digest(path)}":
                return path
        with tempfile.TemporaryDirectory(prefix="building-", dir=folder) as temporary:
            made = make(Path(temporary))
            made.chmod(0o700)
            path = folder / f"{name}-{_digest(made)}{made.suffix}"
            made.replace(path)  # whole, or not at all
        return path
    except OSError as error:
        raise CacheError(f"the cache {folder} can't be used: {last_line(error)}") from None


def _check_owner(path: Path) -> None:
    """What another user wrote, or could write, is not used."""
    if not hasattr(os, "geteuid"):
        return
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise CacheError(f"{path} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheError(f"{path} can be written by other users")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
