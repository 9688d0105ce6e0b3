"""The folder of blocks beside an output: what it is of, who uses it, and what in it is ours."""

from __future__ import annotations

import contextlib
import json
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from gpu_rsfd.errors import InputError
from gpu_rsfd.results.result import Header
from gpu_rsfd.store.fields import Fields, unreadable
from gpu_rsfd.store.files import TEMPORARY, GoneError, locked
from gpu_rsfd.store.identity import digest_of
from gpu_rsfd.store.reading import read_header
from gpu_rsfd.store.specs import check_spec
from gpu_rsfd.untrusted import read_regular

MANIFEST = "sweep.json"
BEGIN = "begin.lock"  # held while the folder is made, entered or removed
BEGINNING_SECONDS = 60.0  # how long another part may take to make the folder
MOST_PARTS = 100_000
MOST_MANIFEST = 64 << 20  # bytes
NAME = re.compile(r"([0-9a-f]{12})-(\d+)-(\d+)-([0-9a-f]{12})\.h5")
HEADER = re.compile(r"[0-9a-f]{12}\.h5")
LOCK = re.compile(r"begin\.lock|part-\d+-of-\d+\.lock")
ASIDE = ".damaged"  # what a block's name ends in that can't be used


def short(document: object) -> str:
    """A digest for a file's name."""
    return digest_of(document)[:12]


def folder_of(target: Path) -> Path:
    return target.with_name(target.name + ".blocks")


@contextlib.contextmanager
def claimed(target: Path, part: str) -> Iterator[None]:
    """The folder of blocks, made if need be, for a part of the run: nobody removes it meanwhile."""
    folder = folder_of(target)
    spec_of(folder)  # refuses what is not ours
    with contextlib.ExitStack() as stack:
        for left in reversed(range(100)):
            try:
                folder.mkdir(exist_ok=True)
                with locked(target, folder / BEGIN, BEGINNING_SECONDS):
                    stack.enter_context(locked(target, folder / f"part-{part}.lock"))
                break
            except GoneError:  # another process has just finished, and removed the folder
                if not left:
                    raise
            except OSError as error:
                raise InputError(f"output={target} can't be written: {error.strerror}: {folder}") from None
        yield


def clear(folder: Path) -> None:
    """Removes what gpu-rsfd made in a folder of blocks, and the folder if that was all.

    Blocks go first, then the manifest, then all it needs: wherever that is cut off, the rest is known for what it is.
    """
    with contextlib.suppress(OSError):
        for path in sorted(filter(ours, folder.iterdir()), key=_removal_order):
            path.unlink()
        folder.rmdir()


def _removal_order(path: Path) -> int:
    """When a file of the folder may be removed."""
    if NAME.fullmatch(path.name):
        return 0
    return 1 if path.name == MANIFEST else 3 if path.name == BEGIN else 2


def ours(path: Path) -> bool:
    """Whether a file in a folder of blocks was made by gpu-rsfd."""
    name = path.name
    patterns = (HEADER, LOCK, TEMPORARY)
    known = name == MANIFEST or NAME.fullmatch(name.removesuffix(ASIDE)) or any(p.fullmatch(name) for p in patterns)
    try:
        if not known or not stat.S_ISREG(path.lstat().st_mode):
            return False
        return not LOCK.fullmatch(name) or not path.stat().st_size  # a lock is an empty file
    except FileNotFoundError:
        return True  # another run has just removed it
    except OSError:
        return False


def manifest_of(folder: Path) -> Any:
    """What the manifest of a folder says; None if it is not there."""
    try:
        return json.loads(read_regular(folder / MANIFEST, MOST_MANIFEST)) or False
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(folder / MANIFEST, error) from None
    except (ValueError, RecursionError):
        return False


def spec_of(folder: Path) -> dict[str, Any] | None:
    """What the blocks of a folder are of; None if there are none yet.  Refuses a folder that is somebody else's."""
    if not folder.exists():
        return None
    document = manifest_of(folder)
    if document is None:
        if not all(map(ours, folder.iterdir())):
            raise InputError(f"{folder} is needed for blocks of results, but it is a folder of yours: move it away")
        return None
    spec = document.get("spec") if isinstance(document, dict) else None
    if not isinstance(spec, dict):
        raise InputError(f"{folder} is needed for blocks of results, but has no valid {MANIFEST}: move it away")
    check_spec(Fields(folder / MANIFEST, None), spec)
    return spec


def parts_of(folder: Path) -> int:
    """How many parts the run is cut into; 0 if it is not, or if that is not known."""
    document = manifest_of(folder)
    parts = document.get("parts") if isinstance(document, dict) else None
    return parts if isinstance(parts, int) and 1 <= parts <= MOST_PARTS else 0


def headers_of(folder: Path, spec: Mapping[str, Any]) -> list[Header]:
    """All about the data sets of a folder of blocks, but their repetitions."""
    return [read_header(folder / f"{short(d['name'])}.h5", spec, d) for d in spec["datasets"]]


def busy(folder: Path) -> bool:
    """Whether a part is under way; locks that killed processes left are removed."""
    try:
        for lock in folder.glob("part-*.lock"):
            if ours(lock):
                with FileLock(lock, timeout=0):
                    lock.unlink()
    except (Timeout, OSError):
        return True
    return False
