"""A results file that grows: blocks are added beside it, and now and then they are compacted into the file."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.measure.base import Measurement
from gpu_rsfd.planning import Flags
from gpu_rsfd.results import Header, Results
from gpu_rsfd.store.blocks import Blocks, Found
from gpu_rsfd.store.files import StoreError, replaced
from gpu_rsfd.store.format import FORMAT, LIBVER, attach, create_arrays, dimensions, write_header
from gpu_rsfd.store.reading import attributes_digest, open_hdf5, open_results, unreadable
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.version import __version__

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
    found: Found | None = None


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


def _damaged(piece: Piece, error: Exception) -> InputError:
    if isinstance(error, OSError) and error.errno is not None:
        return unreadable(piece.path, error)
    hint = "; without it, its repetitions are simulated again" if piece.found is not None else ""
    return InputError(f"{piece.path} is damaged: {(str(error).splitlines() or [''])[0]}{hint}")


class Store:
    """What is done of a run, on disk; nothing that grows with it is in memory."""

    def __init__(
        self,
        target: Path,
        want: Mapping[str, Any],
        headers: Sequence[Header],
        measurement: Measurement,
        rows: Sequence[int],
        existing: Results | None = None,
    ) -> None:
        self.target, self.want, self.headers, self.rows = target, want, headers, rows
        self.measurement = measurement
        self.blocks = Blocks(target, want, measurement, headers)
        self.backend, self.device = ("", "") if existing is None else (existing.backend, existing.device)
        self._names = [dataset["name"] for dataset in want["datasets"]]
        self._index = {name: i for i, name in enumerate(self._names)}
        self._file: dict[str, Piece] = {}
        self._seconds: dict[str, float] = {}
        self._spec = None
        if existing is not None:
            self._seconds, self._spec = dict(existing.seconds), existing.spec
            for name, result in existing.items():
                places = {
                    (p, e): (i, j)
                    for i, protocol in enumerate(result.protocols)
                    for j, epsilon in enumerate(result.epsilons)
                    for p, e in self._places(self._index[name], protocol, epsilon)
                }
                self._file[name] = Piece(target, name, 0, len(result.repetitions), places)

    @property
    def total(self) -> int:
        """Repetitions that are wanted."""
        return len(range(*self.want["repetitions"]))

    def _places(self, index: int, protocol: str, epsilon: float) -> Iterable[Place]:
        header = self.headers[index]
        if protocol in header.protocols and epsilon in header.epsilons:
            yield header.protocols.index(protocol), header.epsilons.index(epsilon)

    def _pieces(self, index: int) -> list[Piece]:
        """Where the repetitions of a data set are."""
        name, plan = self._names[index], self.headers[index].plan
        pieces = [self._file[name]] if name in self._file else []
        for found in self.blocks.found():
            block = found.block
            if block.dataset == name and block.stop <= self.total:
                cells = {}
                for (protocol, epsilon), place in block.cells.items():
                    for at in self._places(index, protocol, epsilon):
                        if plan.digest(*at) != block.digests[protocol, epsilon]:
                            raise InputError(f"{found.path} has {protocol} of other integers than now; remove it")
                        cells[at] = place
                pieces.append(Piece(found.path, "/", block.first, block.stop, cells, found))
        return pieces

    def missing(self, index: int, first: int, stop: int) -> list[Gap]:
        """Of repetitions `first` … `stop` - 1, those that are still to be done, with the cells that lack them."""
        return _gaps(self.headers[index].plan.asked, self._pieces(index), first, stop)

    @property
    def outdated(self) -> bool:
        """Whether the file would say more, or another spec, if it were written now."""
        if self._spec is not None and self._spec != self.want:
            return self._can_compact()
        return any(
            self._end(index) > (self._file[name].stop if name in self._file else 0)
            for index, name in enumerate(self._names)
        )

    def _end(self, index: int) -> int:
        """Repetitions that can be written: those that all cells have from the first on."""
        gaps = self.missing(index, 0, self.total)
        return gaps[0].first if gaps else self.total

    def _can_compact(self) -> bool:
        """Whether all that the file holds would be in the one that replaces it: it must be a full rectangle."""
        return all(self._end(self._index[name]) >= piece.stop for name, piece in self._file.items())

    def compact(self) -> bool:
        """Puts the blocks into the file, as far as none is missing before them; says whether that is all."""
        ends = [self._end(index) for index in range(len(self._names))]
        if not any(ends) or not self._can_compact():
            return False
        complete = all(end == self.total for end in ends)
        pieces = [self._pieces(index) for index in range(len(self._names))]
        fresh = [
            [p.found for p in each if p.found is not None and p.first < end and not self._has(name, p)]
            for name, each, end in zip(self._names, pieces, ends, strict=True)
        ]
        seconds = {
            name: self._seconds.get(name, 0.0) + sum(found.seconds for found in own)
            for name, own, end in zip(self._names, fresh, ends, strict=True)
            if end
        }
        used = [found for own in fresh for found in own]
        if used and not self.backend:  # parts are joined: say what made one of them
            self.backend, self.device = used[0].backend, used[0].device
        with (
            OpenFiles() as files,
            replaced(self.target, self._check) as image,
            h5py.File(image, "w", libver=LIBVER) as file,
        ):
            attributes = self._attributes(complete, seconds)
            for name, value in attributes.items():
                file.attrs[name] = value
            file.attrs["sha256"] = attributes_digest(attributes)
            # Groups are not copied from the file before: references between dimensions would not survive that.
            for index, end in enumerate(ends):
                if end:
                    self._write(file.create_group(self._names[index]), index, pieces[index], end, files)
        for index, end in enumerate(ends):
            if end:
                name, header = self._names[index], self.headers[index]
                every = itertools.product(range(len(header.protocols)), range(len(header.epsilons)))
                self._file[name] = Piece(self.target, name, 0, end, {place: place for place in every})
                self._seconds[name] = seconds[name]
        self._spec = dict(self.want)
        for piece, end in ((piece, end) for each, end in zip(pieces, ends, strict=True) for piece in each):
            if piece.found is not None and piece.stop <= end:
                with contextlib.suppress(OSError):
                    piece.path.unlink()
        return complete

    def _has(self, name: str, piece: Piece) -> bool:
        """Whether the file holds a block already: a run was killed before it could remove it."""
        file = self._file.get(name)
        return file is not None and piece.stop <= file.stop and piece.cells.keys() <= file.cells.keys()

    def _attributes(self, complete: bool, seconds: Mapping[str, float]) -> dict[str, Any]:
        cells = len(self.want["protocols"]) * len(self.want["epsilons"])
        # one pass serves all cells of a data set: each has an equal share
        wall_time = {name: {"seconds": s, "mean_seconds_per_cell": s / cells} for name, s in seconds.items()}
        return {
            "format": FORMAT,
            "spec": json.dumps(self.want),
            "complete": int(complete),
            "stream_version": STREAM_VERSION,
            "package_version": __version__,
            "numpy_version": np.__version__,  # what the samplers' draws depend on (the tape does not)
            "backend": self.backend,
            "device": self.device,
            "wall_time": json.dumps(wall_time),
        }

    def _write(self, group: Any, index: int, pieces: Sequence[Piece], end: int, files: OpenFiles) -> None:
        header, arrays = self.headers[index], self.measurement.arrays()
        write_header(group, header, range(*self.want["repetitions"])[:end])
        variables = create_arrays(group, arrays, header, end, self.rows[index])
        chosen: dict[tuple[int, ...], tuple[list[tuple[Piece, int, int]], list[Place]]] = {}
        for place in itertools.product(range(len(header.protocols)), range(len(header.epsilons))):
            have = tuple(i for i, piece in enumerate(pieces) if place in piece.cells)
            if have not in chosen:
                chosen[have] = (contiguous_prefix([pieces[i] for i in have], end), [])
            chosen[have][1].append(place)
        for array in arrays:
            for cover, places in chosen.values():
                _join(variables[array.name], array.name, cover, places, end, files)
            attach(group, variables[array.name], dimensions(array))

    def _check(self, image: Path) -> None:
        """What is about to replace the file must be readable by the reader itself."""
        try:
            results = open_results(image)
            same = results.spec == json.loads(json.dumps(self.want))
        except InputError as error:
            versions = f"h5py {h5py.version.version} with HDF5 {h5py.version.hdf5_version}"
            raise StoreError(
                f"can't write {self.target}: {versions} can't read back what it wrote ({error}); "
                "try another version of h5py"
            ) from error
        if not same:
            raise StoreError(f"can't write {self.target}: the new file says something else than was written")

    def end(self) -> None:
        """Nothing is left to do: removes blocks that the file holds, and the folder if it is of no more use."""
        for index, name in enumerate(self._names):
            for piece in self._pieces(index):
                if piece.found is not None and self._has(name, piece):
                    with contextlib.suppress(OSError):
                        piece.path.unlink()
        self.blocks.end()

    def keep_what_is_done(self) -> None:
        """After something went wrong: blocks that can't be put into the file now stay where they are."""
        with contextlib.suppress(StoreError, MemoryError, InputError):
            if self.outdated:
                self.compact()
            self.end()


def _gaps(asked: Flags, pieces: Sequence[Piece], first: int, stop: int) -> list[Gap]:
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


def _join(
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
