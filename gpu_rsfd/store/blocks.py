"""Blocks: while a run goes on, what is finished lies in a folder beside its output, each block a small durable file.

`results.h5.blocks/sweep.json` says what is run, `DATASET.h5` is the header of a data set, and
`DATASET-FIRST-STOP-CELLS.h5` has repetitions number FIRST … STOP - 1 of some of its cells; DATASET and CELLS are
digests.  A block says itself what it holds, so that a run with another extent can use it.  Any number of processes may
add blocks.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import h5py

from gpu_rsfd.errors import InputError
from gpu_rsfd.measure.base import Array, Arrays, Measurement
from gpu_rsfd.results.result import Header
from gpu_rsfd.store.fields import first_line, unreadable
from gpu_rsfd.store.files import StoreError, locked, remove_leftovers, replace_file, replaced
from gpu_rsfd.store.folder import (
    ASIDE,
    BEGIN,
    BEGINNING_SECONDS,
    MANIFEST,
    NAME,
    busy,
    clear,
    folder_of,
    headers_of,
    manifest_of,
    parts_of,
    short,
    spec_of,
)
from gpu_rsfd.store.format import LIBVER, create_arrays, write_header
from gpu_rsfd.store.identity import conflicts, digest_of, key_of, lacking
from gpu_rsfd.untrusted import check_links, one_value, read_regular, stored_fault
from gpu_rsfd.version import __version__


@dataclass(frozen=True)
class Block:
    """What a block holds: repetitions number `first` … `stop` - 1 of some cells of a data set."""

    dataset: str
    key: str  # of the run and the data set (identity.py)
    first: int
    stop: int
    cells: dict[tuple[str, float], tuple[int, int]]  # (protocol, epsilon) -> place in the block's arrays
    digests: dict[tuple[str, float], str]  # of the integers of each cell

    @classmethod
    def of(cls, header: Header, dataset: str, key: str, first: int, stop: int) -> Block:
        """The cells that the header's plan asks for."""
        plan = header.plan
        named = {
            (plan.protocols[p], plan.epsilons[e]): (p, e)
            for p, row in enumerate(plan.cells)
            for e, cell in enumerate(row)
            if cell
        }
        return cls(dataset, key, first, stop, named, {name: plan.digest(*at) for name, at in named.items()})

    @property
    def document(self) -> dict[str, Any]:
        """As plain data."""
        cells = [[p, e, *at, self.digests[p, e]] for (p, e), at in self.cells.items()]
        return {"dataset": self.dataset, "key": self.key, "first": self.first, "stop": self.stop, "cells": cells}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Block:
        rows = [(str(p), float(e), int(i), int(j), str(digest)) for p, e, i, j, digest in document["cells"]]
        return cls(
            str(document["dataset"]),
            str(document["key"]),
            int(document["first"]),
            int(document["stop"]),
            {(p, e): (i, j) for p, e, i, j, _ in rows},
            {(p, e): digest for p, e, _, _, digest in rows},
        )

    @property
    def name(self) -> str:
        """Of its file."""
        cells = sorted(f"{p} {e!r} {digest}" for (p, e), digest in self.digests.items())
        return f"{short(self.dataset)}-{self.first}-{self.stop}-{short(cells)}.h5"


class StoredBlock(NamedTuple):
    """A block on disk."""

    path: Path
    block: Block
    seconds: float
    backend: str
    device: str


class Blocks:
    """The blocks of a run."""

    def __init__(
        self,
        target: Path,
        want: Mapping[str, Any],
        measurement: Measurement | None = None,
        headers: Sequence[Header] = (),
    ) -> None:
        self.folder, self.want, self._measurement = folder_of(target), want, measurement
        self._headers = dict(zip((d["name"] for d in want["datasets"]), headers, strict=False))
        self._known: dict[str, StoredBlock] = {}
        self.notes: list[str] = []  # what was set aside, a line each

    def check(self, overwrite: bool = False) -> None:
        """Refuses the blocks of another run, or throws them away if so asked for."""
        have = spec_of(self.folder)
        if have is None:
            return
        if overwrite:
            with locked(self.folder, self.folder / BEGIN, BEGINNING_SECONDS):
                if busy(self.folder):
                    raise InputError(
                        f"{self.folder} is in use by a part of a sweep; wait for it or give another output"
                    )
                clear(self.folder)
        elif lines := [*conflicts(have, self.want), *lacking(have, self.want)]:
            raise InputError(
                f"{self.folder} holds blocks of another run, which was not finished; give another --output, "
                "or --overwrite to throw them away\n  " + "\n  ".join(lines)
            )

    def begin(self, headers: Iterable[Header], parts: int = 0) -> None:
        """Makes the folder, if it is not there.  Parts of a run may come at the same time."""
        try:
            self.folder.mkdir(exist_ok=True)
            with locked(self.folder, self.folder / BEGIN, BEGINNING_SECONDS):
                remove_leftovers(self.folder)
                names = [self.folder / f"{short(dataset['name'])}.h5" for dataset in self.want["datasets"]]
                manifest = manifest_of(self.folder)
                known = isinstance(manifest, dict) and manifest.get("spec") == self.want
                if known and all(name.is_file() for name in names):
                    return
                total = range(*self.want["repetitions"])
                for name, header in zip(names, headers, strict=True):
                    with replaced(name) as image, h5py.File(image, "w", libver=LIBVER) as file:
                        write_header(file, header, total[:0])
                manifest = {"gpu-rsfd": __version__, "spec": self.want, "parts": parts or parts_of(self.folder)}
                replace_file(self.folder / MANIFEST, json.dumps(manifest).encode())
        except OSError as error:
            raise StoreError(f"can't write {self.folder}: {error.strerror or error}") from error

    def found(self) -> list[StoredBlock]:
        """The blocks of this run that are on disk.  What is damaged is set aside: it is computed again."""
        if not self.folder.is_dir():
            return []
        keys = {d["name"]: key_of(self.want, d) for d in self.want["datasets"]}
        names = sorted(path.name for path in self.folder.iterdir() if NAME.fullmatch(path.name))
        for name in names:
            if name not in self._known:
                path = self.folder / name
                try:
                    found = self._read(path)
                except FileNotFoundError:
                    continue  # somebody has put it into the file meanwhile
                except MemoryError:
                    raise
                except Exception as error:  # HDF5 and h5py raise errors of almost any class
                    if isinstance(error, OSError) and error.errno is not None:
                        raise unreadable(path, error) from error
                    self._aside(path, error)
                    continue
                if keys.get(found.block.dataset) != found.block.key:
                    raise InputError(f"{path} is of another run; remove it")
                self._known[name] = found
        for name in set(self._known) - set(names):
            del self._known[name]
        return list(self._known.values())

    def add(self, path: Path, block: Block, about: Mapping[str, Any]) -> None:
        """A block that was written just now: it need not be read again."""
        self._known[path.name] = StoredBlock(path, block, about["seconds"], about["backend"], about["device"])

    def _read(self, path: Path) -> StoredBlock:
        """A block, all of it read once: every checksum holds, and every number can be right."""
        image = read_regular(path)  # what the machine refuses shows here; all that follows is the block's fault
        with h5py.File(io.BytesIO(image), "r") as file:
            check_links(file)
            document = json.loads(one_value(file, "block"))
            if digest_of(document) != one_value(file, "sha256"):
                raise ValueError("its description has changed")
            block, seconds = Block.read(document), float(document["seconds"])
            if block.name != path.name:
                raise ValueError(f"it holds what belongs in {block.name}")
            if not 0 <= seconds < float("inf"):
                raise ValueError(f"it says that it took {seconds} seconds")
            header, measurement = self._headers.get(block.dataset), self._measurement
            if header is not None and measurement is not None:
                self._check(file, block, header, measurement, len(image))
            return StoredBlock(path, block, seconds, str(document["backend"]), str(document["device"]))

    def _check(self, file: Any, block: Block, header: Header, measurement: Measurement, size: int) -> None:
        """Every number of a block."""
        arrays, rows = measurement.arrays(), block.stop - block.first
        for array in arrays:
            node = file[array.name]
            if node.dtype != array.dtype or node.shape[2:] != (rows, *array.tail(header)):
                raise ValueError(f"{array.name} has another shape than the name of the block says")
            if (fault := stored_fault(node, size, node.shape[0] * node.shape[1])) is not None:
                raise ValueError(f"{array.name} {fault}")
        for place in block.cells.values():
            if (wrong := measurement.check(header, {a.name: file[a.name][place] for a in arrays})) is not None:
                raise ValueError(" ".join(wrong))

    def _aside(self, path: Path, error: Exception) -> None:
        line = first_line(error)
        try:
            path.replace(path.with_name(path.name + ASIDE))
        except OSError as refused:
            raise InputError(f"{path} is damaged ({line}), and can't be set aside: {refused.strerror}") from None
        self.notes.append(
            f"{path} is damaged ({line}): {self._held(path.name)} are lost, and computed again by the command or part "
            f"that they belong to; it was renamed to …{ASIDE}"
        )

    def _held(self, name: str) -> str:
        """The repetitions of a block, as its name has them."""
        digest, first, stop = NAME.fullmatch(name).groups()[:3]  # type: ignore[union-attr]
        names = [d["name"] for d in self.want["datasets"] if short(d["name"]) == digest]
        return f"repetitions {first} … {int(stop) - 1} of {names[0] if names else 'another data set'}"

    def end(self) -> None:
        """Removes the folder, unless it has blocks or somebody may still add some."""
        if not self.folder.is_dir() or self._filled():
            return
        with contextlib.suppress(InputError), locked(self.folder, self.folder / BEGIN):
            if not self._filled() and not busy(self.folder):
                clear(self.folder)

    def _filled(self) -> bool:
        return any(NAME.fullmatch(path.name) for path in self.folder.iterdir())


def adopt(target: Path, other: Path) -> None:
    """Copies the blocks of another folder, which must be of the same run; the one with the larger extent counts."""
    folder, have = folder_of(target), spec_of(other)
    if have is None:
        raise InputError(f"{other} does not exist, or has no blocks of gpu-rsfd")
    want = spec_of(folder)
    lines = [] if want is None else conflicts(have, want)
    if want is not None and lacking(have, want) and lacking(want, have):
        lines += [*lacking(have, want), *lacking(want, have)]
    if lines:
        raise InputError(f"{other} has blocks of another run than {folder}\n  " + "\n  ".join(lines))
    if want is None or lacking(have, want):
        Blocks(target, have).begin(headers_of(other, have), parts_of(other))
    for path in sorted(other.iterdir()):
        if NAME.fullmatch(path.name) and not (folder / path.name).exists():
            try:
                content = read_regular(path)
            except OSError as error:
                raise unreadable(path, error) from None
            except ValueError as error:
                raise InputError(f"{path} {error}") from None
            with replaced(folder / path.name) as image:
                image.write(content)


def write_block(
    image: Any,
    block: Block,
    header: Header,
    arrays: Sequence[Array],
    rows: int,
    made: Iterator[tuple[int, Arrays]],
    about: Mapping[str, Any],
) -> None:
    """Writes a block, the arrays of one protocol after the other; `about` may be filled while they are made."""
    asked = header.plan.asked
    with h5py.File(image, "w", libver=LIBVER) as file:
        variables = create_arrays(file, arrays, header, block.stop - block.first, rows)
        for p, content in made:
            for name, numbers in content.items():
                if asked[p].all():
                    variables[name][p] = numbers
                    continue
                for e in range(len(header.epsilons)):
                    if asked[p, e]:
                        variables[name][p, e] = numbers[e]
        document = {**block.document, **about}
        file.attrs["block"], file.attrs["sha256"] = json.dumps(document), digest_of(document)
