"""A results file that grows: blocks are added beside it, and now and then they are compacted into the file."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.measure.base import Measurement
from gpu_rsfd.results.result import Header, Results
from gpu_rsfd.store.blocks import Blocks
from gpu_rsfd.store.files import StoreError, replaced
from gpu_rsfd.store.format import FORMAT, LIBVER, attach, create_arrays, dimensions, write_header
from gpu_rsfd.store.pieces import Gap, OpenFiles, Piece, Place, contiguous_prefix, gaps_of, join
from gpu_rsfd.store.reading import attributes_digest, open_results
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.version import __version__


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
                            raise InputError(f"{found.path} has {protocol} with different integers; remove it")
                        cells[at] = place
                pieces.append(Piece(found.path, "/", block.first, block.stop, cells, found))
        return pieces

    def missing(self, index: int, first: int, stop: int) -> list[Gap]:
        """Of repetitions `first` … `stop` - 1, those that are still to be done, with the cells that lack them."""
        return gaps_of(self.headers[index].plan.asked, self._pieces(index), first, stop)

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
                join(variables[array.name], array.name, cover, places, end, files)
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
