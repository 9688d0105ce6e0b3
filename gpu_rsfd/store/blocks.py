"""Blocks: while a sweep runs, what is finished lies in a folder beside its output, a small durable file for each block.

`results.h5.blocks/sweep.json` says whose they are, `N.h5` has all about data set N but its repetitions, and
`N-FIRST-STOP.h5` has repetitions number FIRST … STOP - 1 of it.  Any number of processes may add blocks.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from filelock import FileLock, Timeout

from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import POSTPROCESS
from gpu_rsfd.plan import Counts, Plan
from gpu_rsfd.results import Result, errors_of, of_protocols
from gpu_rsfd.store.files import StoreError, replace_file, replaced
from gpu_rsfd.store.hdf5 import create_variables, write_head
from gpu_rsfd.store.identity import continues, differences, key_of
from gpu_rsfd.store.reading import read_head
from gpu_rsfd.version import __version__

MARK = "sweep.json"
BEGINNING_SECONDS = 60.0  # how long another part may take to make the folder
NAME = re.compile(r"(\d+)-(\d+)-(\d+)\.h5")
NUMBERS_AT_ONCE = 1 << 20  # estimates that are worked out at a time


class Found(NamedTuple):
    """A block on disk."""

    path: Path
    number: int  # of the data set in the spec
    first: int
    stop: int


def folder_of(target: Path) -> Path:
    return target.with_name(target.name + ".blocks")


class Blocks:
    """The blocks of a sweep."""

    def __init__(self, target: Path, want: Mapping[str, Any]) -> None:
        self.folder, self.want, self.key = folder_of(target), want, key_of(want)

    def check(self, overwrite: bool = False) -> None:
        """Refuses the blocks of another sweep, or throws them away if so asked for."""
        have = spec_of(self.folder)
        if have is None:
            return
        if overwrite:
            if self._busy():
                raise InputError(f"{self.folder} is in use by a part of a sweep; wait for it or give another output")
            clear(self.folder)
        elif not continues(self.want, have):
            lines = "\n  ".join(differences(have, self.want))
            raise InputError(
                f"{self.folder} holds blocks of another sweep, which was not finished; give another --output, "
                f"or --overwrite to throw them away\n  {lines}"
            )

    def begin(self, heads: Iterable[Result], parts: int = 0) -> None:
        """Makes the folder, if it is not there.  Parts of a sweep may come at the same time."""
        try:
            self.folder.mkdir(exist_ok=True)
            with FileLock(self.folder / "begin.lock", timeout=BEGINNING_SECONDS):
                if spec_of(self.folder) == self.want:
                    return
                for index, head in enumerate(heads):
                    with replaced(self.folder / f"{index}.h5") as image, h5py.File(image, "w", libver="v108") as file:
                        write_head(file, head)
                mark = {"gpu-rsfd": __version__, "spec": self.want, "parts": parts or parts_of(self.folder)}
                replace_file(self.folder / MARK, json.dumps(mark).encode())
        except (OSError, Timeout) as error:
            raise StoreError(f"can't write {self.folder}: {getattr(error, 'strerror', None) or error}") from error

    def found(self) -> list[Found]:
        if not self.folder.is_dir():
            return []
        names = ((path, NAME.fullmatch(path.name)) for path in self.folder.iterdir())
        return sorted(Found(path, *map(int, match.groups())) for path, match in names if match is not None)

    def path(self, number: int, first: int, stop: int) -> Path:
        return self.folder / f"{number}-{first}-{stop}.h5"

    def end(self) -> None:
        """Removes the folder, unless it has blocks or somebody may still add some."""
        if self.folder.is_dir() and not self.found() and not self._busy():
            clear(self.folder)

    def _busy(self) -> bool:
        """Whether a part is under way; locks that killed processes left are removed."""
        try:
            for lock in self.folder.glob("*.lock"):
                with FileLock(lock, timeout=0):
                    lock.unlink()
        except (Timeout, OSError):
            return True
        return False


def clear(folder: Path) -> None:
    """Removes a folder of blocks, the mark last: what is left half removed is still known as ours."""
    with contextlib.suppress(OSError):
        for path in sorted(folder.iterdir(), key=lambda path: path.name == MARK):
            path.unlink()
        folder.rmdir()


def spec_of(folder: Path) -> dict[str, Any] | None:
    """Whose blocks a folder has; None if there is none yet.  Refuses a folder that is somebody else's."""
    if not folder.exists():
        return None
    try:
        document = json.loads((folder / MARK).read_text(encoding="utf-8"))
        spec = document["spec"]
        key_of(spec)
        return dict(spec)
    except FileNotFoundError:
        others = [p.name for p in folder.iterdir() if not p.name.endswith((".lock", ".tmp")) and not _head(p)]
        if others:
            raise InputError(
                f"{folder} is needed for blocks of results, but it is a folder of yours: move it away"
            ) from None
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{folder} is needed for blocks of results, but has no valid {MARK}: move it away") from None


def parts_of(folder: Path) -> int:
    """How many parts the sweep is cut into; 0 if it is not, or if that is not known."""
    try:
        parts = json.loads((folder / MARK).read_text(encoding="utf-8"))["parts"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return parts if isinstance(parts, int) else 0


def _head(path: Path) -> bool:
    return re.fullmatch(r"\d+\.h5", path.name) is not None


def heads_of(folder: Path, spec: Mapping[str, Any]) -> list[Result]:
    """All about the data sets of a folder of blocks, but their repetitions."""
    return [read_head(folder / f"{index}.h5", spec, dataset) for index, dataset in enumerate(spec["datasets"])]


def adopt(target: Path, other: Path) -> None:
    """Copies the blocks of another folder, which must be of the same sweep."""
    folder, have = folder_of(target), spec_of(other)
    if have is None:
        raise InputError(f"{other} does not exist, or has no blocks of gpu-rsfd")
    want = spec_of(folder)
    if want is None:
        Blocks(target, have).begin(heads_of(other, have), parts_of(other))
    elif key_of(have) != key_of(want):
        lines = "\n  ".join(differences(have, want))
        raise InputError(f"{other} has blocks of another sweep than {folder}\n  {lines}")
    for path in sorted(other.iterdir()):
        if NAME.fullmatch(path.name) and not (folder / path.name).exists():
            with replaced(folder / path.name) as image, path.open("rb") as file:
                shutil.copyfileobj(file, image, 1 << 20)


class BlockFile:
    """A block while it is written: the counts of some protocols after others, so that few are in memory."""

    def __init__(self, image: Any, head: Result, repetitions: int, rows: int, counts: bool, key: str) -> None:
        self._head, self._repetitions = head, repetitions
        self._file = h5py.File(image, "w", libver="v108")
        self._variables = create_variables(self._file, head, repetitions, rows, counts)
        self._file.attrs["key"] = key
        self._file.attrs["postprocess"] = json.dumps(list(POSTPROCESS))

    def __enter__(self) -> BlockFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def put(self, first: int, plan: Plan, counts: list[Counts], sampled: Counts) -> None:
        """What a backend counted for protocols number `first` …, which `plan` is of."""
        head = self._head
        for p in range(len(plan.protocols)):
            one = of_protocols(plan, slice(p, p + 1))
            table, reporters = one.spread(counts), one.reporters(head.n, sampled)
            rows = max(1, NUMBERS_AT_ONCE // (table.shape[1] * table.shape[3]))
            errors = [
                errors_of(one, head.frequencies, table[:, :, i : i + rows], reporters[:, :, i : i + rows])
                for i in range(0, self._repetitions, rows)
            ]
            if "counts" in self._variables:
                self._variables["counts"][first + p] = table[0]
            self._variables["reporters"][first + p] = reporters[0]
            self._variables["mse"][:, first + p] = np.concatenate(errors, axis=-1)[:, 0]

    def end(self, seconds: float, backend: str, device: str) -> None:
        self._file.attrs["seconds"], self._file.attrs["backend"], self._file.attrs["device"] = seconds, backend, device
