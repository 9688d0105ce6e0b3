"""Consecutive repetitions of a data set, wherever they are: in memory, in a block, in a results file."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import POSTPROCESS
from gpu_rsfd.results import Result, errors_of, of_protocols

MOST_OPEN = 64  # files at a time
AXIS = {"counts": 2, "reporters": 2, "mse": 3}  # of the repetitions, in what grows with them


class OpenFiles:
    """HDF5 files opened when they are needed; the one that was needed longest ago makes room for another."""

    def __init__(self) -> None:
        self._files: OrderedDict[Path, Any] = OrderedDict()

    def __enter__(self) -> OpenFiles:
        return self

    def __exit__(self, *_: object) -> None:
        while self._files:
            self._files.popitem()[1].close()

    def __call__(self, path: Path) -> Any:
        if path not in self._files:
            if len(self._files) >= MOST_OPEN:
                self._files.popitem(last=False)[1].close()
            self._files[path] = h5py.File(path, "r")
        self._files.move_to_end(path)
        return self._files[path]


class Piece(Protocol):
    """Repetitions number `first` … `stop` - 1 of a spec."""

    @property
    def first(self) -> int: ...

    @property
    def stop(self) -> int: ...

    def node(self, name: str) -> Any:
        """The data set of HDF5 that holds a variable, to copy chunks from; None if it must be read."""

    def read(self, name: str, p: int, first: int, stop: int) -> Any:
        """Some repetitions of a variable for protocol p: [epsilon, repetition, …], mse [postprocess, epsilon, …]."""


@dataclass(frozen=True)
class InMemory:
    """All repetitions of a result."""

    result: Result
    first: int = 0

    @property
    def stop(self) -> int:
        return self.first + len(self.result.repetitions)

    @cached_property
    def _errors(self) -> Any:
        errors = self.result.errors
        return self.result.with_errors().errors if errors is None else errors

    def node(self, name: str) -> Any:
        return None

    def read(self, name: str, p: int, first: int, stop: int) -> Any:
        rows = slice(first - self.first, stop - self.first)
        if name == "mse":
            return self._errors[:, p, :, rows]
        return getattr(self.result, name)[p, :, rows]


@dataclass(frozen=True)
class OnDisk:
    """Repetitions in a group of a file; `head` is the data set without any."""

    path: Path
    group: str
    first: int
    stop: int
    head: Result
    files: OpenFiles
    key: str = ""  # a block's

    def _group(self) -> Any:
        try:
            file = self.files(self.path)
            if self.key and file.attrs["key"] != self.key:
                raise InputError(f"{self.path} is of another sweep; remove it")
            return file[self.group]
        except (OSError, KeyError, RuntimeError, ValueError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> InputError:
        what = "; without it, its repetitions are simulated again" if self.key else ""
        return InputError(f"{self.path} is damaged: {(str(error).splitlines() or [''])[0]}{what}")

    @property
    def seconds(self) -> float:
        """A block's: what simulating it took."""
        return float(self.attribute("seconds"))

    def attribute(self, name: str) -> Any:
        try:
            return self._group().attrs[name]
        except (OSError, KeyError, ValueError) as error:
            raise self._damaged(error) from error

    @cached_property
    def _same_errors(self) -> bool:
        """Whether its errors are those of today's post-processings."""
        group = self._group()
        if "mse" not in group:
            return False
        if self.key:
            return bool(json.loads(group.attrs["postprocess"]) == list(POSTPROCESS))
        return "postprocess" in group and group["postprocess"].asstr()[()].tolist() == list(POSTPROCESS)

    def node(self, name: str) -> Any:
        return None if name == "mse" and not self._same_errors else self._group()[name]

    def read(self, name: str, p: int, first: int, stop: int) -> Any:
        rows = slice(first - self.first, stop - self.first)
        try:
            if name != "mse":
                return self._group()[name][p, :, rows]
            if self._same_errors:
                return self._group()["mse"][:, p, :, rows]
            if "counts" not in self._group():
                raise InputError(
                    f"{self.path} has errors without counts (--keep mse), of other post-processings than this "
                    "gpu-rsfd has: it can't be continued"
                )
            group, plan = self._group(), of_protocols(self.head.plan, slice(p, p + 1))
            counts, reporters = (group[n][p : p + 1, :, rows] for n in ("counts", "reporters"))
            return errors_of(plan, self.head.frequencies, counts, reporters)[:, 0]
        except (OSError, KeyError, RuntimeError) as error:
            raise self._damaged(error) from error


def first_ones(pieces: Sequence[Piece]) -> tuple[list[tuple[Piece, int, int]], int]:
    """The pieces that cover repetitions 0, 1, …, each with those it is for; and where they end."""
    chosen: list[tuple[Piece, int, int]] = []
    end = 0
    for piece in sorted(pieces, key=lambda piece: (piece.first, -piece.stop)):
        if piece.first > end:
            break
        if piece.stop > end:
            chosen.append((piece, end, piece.stop))
            end = piece.stop
    return chosen, end


def join(target: Any, name: str, chosen: Sequence[tuple[Piece, int, int]]) -> None:
    """Fills a variable: chunks are copied as they are where one piece has them, all others are read and written."""
    axis = AXIS[name]
    size, end = target.chunks[axis], target.shape[axis]
    protocols = target.shape[axis - 2]
    start = 0
    for first in range(0, end, size):
        stop = min(first + size, end)
        while chosen[start][2] <= first:
            start += 1
        here = []
        for entry in chosen[start:]:
            if entry[1] >= stop:
                break
            here.append(entry)
        if len(here) == 1 and _copied(target, axis, here[0][0].node(name), first, here[0][0].first):
            continue
        for p in range(protocols):
            parts = [piece.read(name, p, max(a, first), min(b, stop)) for piece, a, b in here]
            rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis - 1)
            if name == "mse":
                target[:, p, :, first:stop] = rows
            else:
                target[p, :, first:stop] = rows


def _copied(target: Any, axis: int, source: Any, first: int, begins: int) -> bool:
    """Copies the chunks of repetitions `first` … if they are cut and made alike; False if they are not."""
    if source is None or _making(source) != _making(target) or (first - begins) % source.chunks[axis]:
        return False
    size = source.chunks[axis]
    if min(source.shape[axis] - (first - begins), size) < min(target.shape[axis] - first, size):
        return False
    steps = [range(0, length, chunk) for length, chunk in zip(target.shape, target.chunks, strict=True)]
    steps[axis] = range(first, first + 1)
    read, write = source.id.read_direct_chunk, target.id.write_direct_chunk
    for place in _places(steps):
        mask, content = read(tuple(x - begins * (i == axis) for i, x in enumerate(place)))
        write(place, content, mask)
    return True


def _making(dataset: Any) -> tuple[object, ...]:
    """What must be equal for chunks of one to be chunks of another."""
    cut = tuple(np.delete(dataset.shape, AXIS[dataset.name.rpartition("/")[2]]))
    return dataset.dtype, dataset.chunks, dataset.shuffle, dataset.compression, dataset.fletcher32, cut


def _places(steps: Sequence[range]) -> Any:
    import itertools

    return itertools.product(*steps)
