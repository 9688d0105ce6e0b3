"""Where repetitions lie, in the file and in blocks: what is missing, and how they are joined."""

from __future__ import annotations

import contextlib
import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.planning import Flags
from gpu_rsfd.store.blocks import StoredBlock
from gpu_rsfd.store.fields import first_line, unreadable
from gpu_rsfd.store.files import StoreError
from gpu_rsfd.store.reading import open_hdf5

MOST_OPEN = 64  # files at a time

Place = tuple[int, int]  # protocol and epsilon of a cell
Ranges = list[tuple[int, int]]


class Gap(NamedTuple):
    """Repetitions number `first` … `stop` - 1 that some cells, [protocol, epsilon], don't have yet."""

    first: int
    stop: int
    cells: Flags


@dataclass(frozen=True)
class Piece:
    """Consecutive repetitions of some cells, in a block or in the file; `cells`: where in its arrays each is."""

    path: Path
    group: str
    first: int
    stop: int
    cells: dict[Place, Place]
    found: StoredBlock | None = None


class OpenFiles:
    """HDF5 files opened when they are needed; the one that was needed longest ago makes room for another."""

    def __init__(self) -> None:
        self._files: OrderedDict[Path, tuple[contextlib.ExitStack, Any]] = OrderedDict()

    def __enter__(self) -> OpenFiles:
        return self

    def __exit__(self, *_: object) -> None:
        while self._files:
            self._files.popitem()[1][0].close()

    def __call__(self, piece: Piece, name: str) -> Any:
        """An array of a piece."""
        try:
            if piece.path not in self._files:
                if len(self._files) >= MOST_OPEN:
                    self._files.popitem(last=False)[1][0].close()
                stack = contextlib.ExitStack()
                self._files[piece.path] = (stack, stack.enter_context(open_hdf5(piece.path)))
            self._files.move_to_end(piece.path)
            return self._files[piece.path][1][piece.group][name]
        except (OSError, KeyError, RuntimeError, ValueError) as error:
            raise _damaged(piece, error) from error


def _damaged(piece: Piece, error: Exception) -> InputError | StoreError:
    if isinstance(error, OSError) and error.errno is not None:
        return unreadable(piece.path, error)
    hint = "; without it, its repetitions are simulated again" if piece.found is not None else ""
    return InputError(f"{piece.path} is damaged: {first_line(error)}{hint}")


def gaps_of(asked: Flags, pieces: Sequence[Piece], first: int, stop: int) -> list[Gap]:
    by_cells: dict[bytes, tuple[Flags, Ranges]] = {}
    for piece in pieces:
        has = np.zeros_like(asked)
        for place in piece.cells:
            has[place] = True
        by_cells.setdefault(has.tobytes(), (has, []))[1].append((piece.first, piece.stop))
    kinds = [(has, _joined(ranges)) for has, ranges in by_cells.values()]
    edges = sorted({first, stop, *(x for _, ranges in kinds for r in ranges for x in r if first < x < stop)})
    gaps: list[Gap] = []
    for a, b in itertools.pairwise(edges):
        lacks = asked.copy()
        for has, ranges in kinds:
            if any(r[0] <= a and b <= r[1] for r in ranges):
                lacks &= ~has
        if lacks.any():
            if gaps and gaps[-1].stop == a and np.array_equal(gaps[-1].cells, lacks):
                gaps[-1] = Gap(gaps[-1].first, b, lacks)
            else:
                gaps.append(Gap(a, b, lacks))
    return gaps


def _joined(ranges: Ranges) -> Ranges:
    joined: Ranges = []
    for first, stop in sorted(ranges):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((first, stop))
    return joined


def contiguous_prefix(pieces: Sequence[Piece], end: int) -> list[tuple[Piece, int, int]]:
    """The pieces that cover repetitions 0 … `end` - 1, each with those it is for."""
    chosen: list[tuple[Piece, int, int]] = []
    at = 0
    for piece in sorted(pieces, key=lambda piece: (piece.first, -piece.stop)):
        if at >= end:
            break
        if piece.first <= at < piece.stop:
            chosen.append((piece, at, min(piece.stop, end)))
            at = piece.stop
    return chosen


def join(
    target: Any,
    name: str,
    cover: Sequence[tuple[Piece, int, int]],
    places: Sequence[Place],
    end: int,
    files: OpenFiles,
) -> None:
    """Fills some cells: chunks are copied as they are where one piece has them, all others are read and written."""
    size, start = target.chunks[2], 0
    for first in range(0, end, size):
        stop = min(first + size, end)
        while cover[start][2] <= first:
            start += 1
        here = [entry for entry in cover[start : start + size] if entry[1] < stop]
        piece = here[0][0]
        for place in places:
            try:
                if len(here) == 1:
                    source, origin = files(piece, name), piece.cells[place]
                    if _copied(target, source, place, origin, first, piece.first):
                        continue
                parts = [_rows(files(p, name), p.cells[place], max(a, first) - p.first, min(b, stop) - p.first)
                         for p, a, b in here]  # fmt: skip
            except (OSError, KeyError, RuntimeError, ValueError) as error:
                raise _damaged(piece, error) from error
            p, e = place
            target[p, e, first:stop] = parts[0] if len(parts) == 1 else np.concatenate(parts)


def _rows(source: Any, place: Place, first: int, stop: int) -> Any:
    p, e = place
    return source[p, e, first:stop]


def _copied(target: Any, source: Any, place: Place, origin: Place, first: int, begins: int) -> bool:
    """Copies the chunks of repetitions `first` … of a cell if they are cut and made alike; False if they are not."""
    if _making(source) != _making(target) or (first - begins) % source.chunks[2]:
        return False
    size = source.chunks[2]
    if min(source.shape[2] - (first - begins), size) < min(target.shape[2] - first, size):
        return False
    steps = [range(0, length, chunk) for length, chunk in zip(target.shape[3:], target.chunks[3:], strict=True)]
    for tail in itertools.product(*steps):
        mask, content = source.id.read_direct_chunk((*origin, first - begins, *tail))
        target.id.write_direct_chunk((*place, first, *tail), content, mask)
    return True


def _making(dataset: Any) -> tuple[object, ...]:
    """What must be equal for chunks of one to be chunks of another."""
    return dataset.dtype, dataset.chunks, dataset.shuffle, dataset.compression, dataset.fletcher32, dataset.shape[3:]
