"""All there is of a run: its results file and the journals beside it, read together, and packed into one file.

A journal grows block by block while the run goes on; in the end it is packed into the file and removed.  A file is a
full rectangle for each data set: all protocols, epsilons and the repetitions before the first gap.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from gpu_rsfd.errors import InputError, heed_signals
from gpu_rsfd.files import FIGURES, StoreError, open_regular, replaced
from gpu_rsfd.measure import MEASUREMENTS
from gpu_rsfd.planning import Flags
from gpu_rsfd.results.result import CELL, Result, Results, read_only
from gpu_rsfd.store import hdf5
from gpu_rsfd.store.hdf5 import FORMAT, Described, attribute, described, member, stored_fault
from gpu_rsfd.store.identity import conflicts, digest_of, key_of
from gpu_rsfd.store.journal import Reading
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.version import __version__

AT_ONCE = 32 << 20  # bytes of a data set that are read when it is opened
SIGNATURE = b"\x89HDF\r\n\x1a\n"  # an HDF5 file begins with it
PART = re.compile(r"\.part-(\d+)-of-(\d+)")
AGAIN = "to make it again, run the command that made it with --overwrite"
AWAY = "remove it, or give another --output"

Place = tuple[int, int]  # protocol and epsilon of a cell
Cells = Mapping[tuple[str, float], tuple[Place, str]]  # where each cell is in the arrays, and its digest


def resolved(output: Path) -> Path:
    """The file itself, a link followed: journals and locks are beside it."""
    return Path(os.path.realpath(output)) if output.is_symlink() else output


def journal_of(output: Path, part: tuple[int, int] | None = None) -> Path:
    """Where finished blocks are added while a run, or a part of it, goes on."""
    return Path(f"{resolved(output)}{'.journal' if part is None else f'.part-{part[0]}-of-{part[1]}'}")


def parts_beside(output: Path) -> dict[Path, tuple[int, int]]:
    """The journals of parts, each with its number and how many there are; or the one that is named itself."""
    target, found = resolved(output), {}
    with contextlib.suppress(OSError):
        for path in sorted(target.parent.iterdir()):
            beside = path.name.startswith(target.name) and PART.fullmatch(path.name[len(target.name) :])
            if name := beside or (path == target and PART.search(path.name)):
                found[path] = int(name[1]), int(name[2])
    return found


# ------------------------------------------------------------------------------------------------------------- reading


class Piece(NamedTuple):
    """Consecutive repetitions of some cells of a data set, in a file or a journal that is open."""

    path: Path
    dataset: str
    first: int
    stop: int
    key: str  # of the run
    cells: Cells
    arrays: Mapping[str, Any]
    about: Mapping[str, Any]  # seconds, backend, device


class Source(NamedTuple):
    """A results file or a journal that is open."""

    path: Path
    what: Described = Described({}, {}, {})  # without a spec: it is not there, or does not say it any more
    pieces: Sequence[Piece] = ()
    end: int = 0  # of the last whole record
    note: str = ""  # what can't be used
    replaces: bool = False  # whether the file is replaced in the end, not extended

    @property
    def done(self) -> dict[str, int]:
        return {piece.dataset: piece.stop for piece in self.pieces}

    @property
    def have(self) -> dict[str, Any]:
        """The spec of what it holds, which may be less than what was asked for."""
        spec, cells = self.what.spec, [cell for piece in self.pieces for cell in piece.cells]
        most = max((piece.stop for piece in self.pieces), default=0)
        extent = {
            "datasets": [dataset for dataset in spec["datasets"] if dataset["name"] in self.done],
            "protocols": [name for name in spec["protocols"] if name in {protocol for protocol, _ in cells}],
            "epsilons": [number for number in spec["epsilons"] if number in {epsilon for _, epsilon in cells}],
        }
        first, _, step = spec["repetitions"]
        return {**spec, **extent, "repetitions": [first, first + step * most, step]}


@contextlib.contextmanager
def refusing(path: Path, hint: str = AGAIN) -> Iterator[None]:
    """Whatever is wrong with a file is one line; HDF5 and h5py raise errors of almost any class."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (MemoryError, StoreError)) or str(error).startswith(f"{path} "):
            raise
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if isinstance(error, OSError) and error.errno is not None:  # of the machine: nothing is wrong with the file
            kind = InputError if isinstance(error, (PermissionError, FileNotFoundError)) else StoreError
            raise kind(f"{path} can't be read: {error.strerror}") from error
        raise InputError(f"{path} is damaged: {why}; {hint}") from error


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[Source]:
    """A results file, or nothing where there is none."""
    with contextlib.ExitStack() as stack:
        source = Source(path)
        with refusing(path):
            if path.is_dir():
                raise InputError(f"{path} is a directory; a results file is needed")
            if path.exists():
                content = stack.enter_context(open_regular(path))
                if content.read(len(SIGNATURE)) != SIGNATURE:
                    raise InputError(f"{path} is not an HDF5 file; a results file of gpu-rsfd is needed")
                file = stack.enter_context(h5py.File(content, "r"))
                if not all(name in file.attrs for name in ("format", "spec", "stream_version")):
                    raise InputError(f"{path} is an HDF5 file, but not a results file of gpu-rsfd")
                source = _source_of(path, file, os.path.getsize(path))
        yield source


def _source_of(path: Path, file: Any, size: int) -> Source:
    version = attribute(file, "format")
    if version != FORMAT:
        newer = isinstance(version, int) and version > FORMAT
        other = "was written by a newer gpu-rsfd" if newer else f"has format {version}, which gpu-rsfd 0.2.0 reads"
        raise InputError(f"{path} {other}; this is {__version__}")
    stored: dict[str, Any] = {name: attribute(file, name) for name in hdf5.ATTRIBUTES}
    if digest_of(stored) != attribute(file, "sha256"):
        raise ValueError("sha256 does not fit the attributes: they have changed since the file was written")
    if not 1 <= stored["stream_version"] <= STREAM_VERSION:
        raise ValueError(f"stream_version is {stored['stream_version']}; this gpu-rsfd knows 1 to {STREAM_VERSION}")
    spec, seconds, headers = json.loads(stored["spec"]), json.loads(stored["wall_time"]), {}
    for name in [dataset["name"] for dataset in spec["datasets"] if dataset["name"] in file]:
        group = member(file, name, h5py.Group)
        node = _safe(group, "header", size)
        if node.shape != () or node.dtype.kind != "S":
            raise ValueError(f"{name}/header is not a text")
        if hashlib.sha256(text := node[()]).hexdigest() != attribute(group, "sha256"):
            raise ValueError(f"{name}/header has changed since the file was written")
        headers[name] = json.loads(text)
    what, pieces = described(spec, json.loads(stored["layout"]), headers), []
    for name, header in what.headers.items():
        arrays = {array: _safe(file[name], array, size) for array in what.layouts[name].arrays}
        about = {**stored, "seconds": float(seconds[name]["seconds"])}
        key = key_of(spec, next(d for d in spec["datasets"] if d["name"] == name))
        stop = next(iter(arrays.values())).shape[2]
        cells = _cells(header.protocols, header.epsilons, header.plan.digest)
        pieces.append(Piece(path, name, 0, stop, key, cells, arrays, about))
        _check_piece(pieces[-1], what)
    if not pieces:
        raise ValueError("it holds no data set")
    return Source(path, what, pieces)


def _safe(group: Any, name: str, size: int) -> Any:
    """An array of a file of so many bytes, not read yet."""
    node = member(group, name)
    if (fault := stored_fault(node, size)) is not None:
        raise ValueError(f"{group.name[1:]}/{name} {fault}")
    return node


def _cells(protocols: Iterable[str], epsilons: Iterable[float], digest: Callable[[int, int], str]) -> Cells:
    every = itertools.product(enumerate(protocols), enumerate(epsilons))
    return {(protocol, epsilon): ((p, e), digest(p, e)) for (p, protocol), (e, epsilon) in every}


def _check_piece(piece: Piece, what: Described) -> None:
    """A ValueError if the arrays of a piece are not what the layout says."""
    header, layout = what.headers[piece.dataset], what.layouts[piece.dataset]
    p, e = (max(place[axis] for place, _ in piece.cells.values()) + 1 for axis in (0, 1))
    for name in layout.arrays:
        array, shape = piece.arrays[name], (p, e, piece.stop - piece.first, *layout.sizes(header, name))
        if array.shape != shape or array.dtype.kind not in "iuf" or not piece.first < piece.stop:
            found = f"shape {array.shape} and type {array.dtype}"
            raise ValueError(f"{piece.dataset}/{name} has {found}; numbers of shape {shape} are needed")


@contextlib.contextmanager
def open_journal(path: Path) -> Iterator[Source]:
    """A journal, or nothing where there is none."""
    with contextlib.ExitStack() as stack:
        source = Source(path)
        with refusing(path, AWAY), contextlib.suppress(FileNotFoundError):
            records = Reading(stack.enter_context(open_regular(path)))
            head = next((record.key for record in reversed(records) if record.key.get("kind") == "head"), {})
            what = described(head["spec"], head["layout"], head["headers"]) if head else source.what
            pieces = [_block(path, *record) for record in records if record.key.get("kind") == "block"]
            lost = f"{path} is damaged: blocks in {records.damaged} places are lost, and computed again"
            note = lost if records.damaged else ""
            source = Source(path, what, pieces, records.end, note, bool(head.get("replaces")))
        yield source


def _block(path: Path, key: Mapping[str, Any], arrays: Mapping[str, Any]) -> Piece:
    first, stop, seconds = int(key["first"]), int(key["stop"]), float(key["seconds"])
    if not 0 <= first < stop < 2**63 or not 0 <= seconds < math.inf:
        raise ValueError("a block has no repetitions")
    about = {"seconds": seconds, "backend": str(key["backend"]), "device": str(key["device"])}
    digests = key["digests"]
    cells = _cells(map(str, key["protocols"]), map(float, key["epsilons"]), lambda p, e: str(digests[p][e]))
    return Piece(path, str(key["dataset"]), first, stop, str(key["key"]), cells, arrays, about)


# ------------------------------------------------------------------------------------------------------- what is there


class Gap(NamedTuple):
    """Repetitions number `first` … `stop` - 1 that some cells, [protocol, epsilon], don't have yet."""

    first: int
    stop: int
    cells: Flags


class Contents:
    """What is done of a run, in its file and in journals that are open, seen as what is wanted."""

    def __init__(self, want: Described, sources: Iterable[Source]) -> None:
        self.want, self.total = want, len(range(*want.spec["repetitions"]))
        self.keys = {d["name"]: key_of(want.spec, d) for d in want.spec["datasets"]}
        self.seconds: dict[str, float] = {}
        self.about: Mapping[str, Any] = {"backend": "", "device": ""}  # of the last block
        self._pieces: dict[str, list[tuple[Piece, dict[Place, Place]]]] = {name: [] for name in self.keys}
        cells = {name: _cells(h.protocols, h.epsilons, h.plan.digest) for name, h in want.headers.items()}
        for piece in (piece for source in sources for piece in source.pieces if piece.dataset in cells):
            self._add(piece, cells[piece.dataset])
        for pieces in self._pieces.values():
            pieces.sort(key=lambda one: (one[0].first, -one[0].stop))

    def _add(self, piece: Piece, cells: Cells) -> None:
        known = [(*cells[cell], *found) for cell, found in piece.cells.items() if cell in cells]
        if piece.key != self.keys[piece.dataset] or any(want != has for _, want, _, has in known):
            raise InputError(f"{piece.path} is of another run")
        if known:
            with refusing(piece.path, AWAY):
                _check_piece(piece, self.want)
            self._pieces[piece.dataset].append((piece, {place: own for place, _, own, _ in known}))
            self.seconds[piece.dataset] = self.seconds.get(piece.dataset, 0.0) + piece.about["seconds"]
            self.about = piece.about

    def missing(self, name: str, first: int, stop: int) -> list[Gap]:
        """Of repetitions `first` … `stop` - 1, those that are still to be done, with the cells that lack them."""
        asked, gaps = self.want.headers[name].plan.asked, list[Gap]()
        here = [(max(x.first, first), min(x.stop, stop), places) for x, places in self._pieces[name]]
        here = [(a, b, places) for a, b, places in here if a < b]
        edges = sorted({first, stop, *(x for a, b, _ in here for x in (a, b))})
        number = {edge: i for i, edge in enumerate(edges)}
        depth = np.zeros((len(edges), *asked.shape), np.int32)  # pieces that begin, or have ended, at each edge
        for a, b, places in here:
            cells = tuple(zip(*places, strict=True))
            depth[number[a]][cells] += 1
            depth[number[b]][cells] -= 1
        for (a, b), held in zip(itertools.pairwise(edges), depth.cumsum(axis=0) > 0, strict=False):
            lacks = asked & ~held
            if gaps and gaps[-1].stop == a and np.array_equal(gaps[-1].cells, lacks):
                gaps[-1] = gaps[-1]._replace(stop=b)
            elif lacks.any():
                gaps.append(Gap(a, b, lacks))
        return gaps

    @functools.cached_property
    def ends(self) -> dict[str, int]:
        """Repetitions that all cells of a data set have, from the first on; where there are any."""
        gaps = {name: self.missing(name, 0, self.total) for name in self.want.headers}
        ends = {name: found[0].first if found else self.total for name, found in gaps.items()}
        return {name: end for name, end in ends.items() if end}

    @property
    def complete(self) -> bool:
        return all(self.ends.get(name) == self.total for name in self.keys)

    @property
    def whole(self) -> bool:
        """Whether all that the file and the journals hold is in the rectangles that would be packed."""
        return all(p.stop <= self.ends.get(name, 0) for name, pieces in self._pieces.items() for p, _ in pieces)

    def cover(self, name: str, place: Place, end: int) -> list[tuple[Piece, Place, int, int]]:
        """The pieces that have repetitions 0 … `end` - 1 of a cell, each with where it is and those it is for."""
        chosen, at = list[tuple[Piece, Place, int, int]](), 0
        for piece, places in self._pieces[name]:
            if place in places and piece.first <= at < min(piece.stop, end):
                chosen.append((piece, places[place], at, min(piece.stop, end)))
                at = piece.stop
        return chosen

    def empty(self, name: str, array: str, end: int) -> tuple[tuple[int, ...], Any]:
        """Shape and type of an array: whole numbers or others, whatever the type of its blocks."""
        header, layout = self.want.headers[name], self.want.layouts[name]
        kind = self._pieces[name][0][0].arrays[array].dtype.kind
        cells = (len(header.protocols), len(header.epsilons))
        return (*cells, end, *layout.sizes(header, array)), np.int64 if kind in "iu" else np.float64

    def read(self, name: str, array: str, end: int) -> Any:
        """The first repetitions of an array."""
        out = np.empty(*self.empty(name, array, end))
        for place in itertools.product(range(out.shape[0]), range(out.shape[1])):
            for piece, own, first, stop in self.cover(name, place, end):
                out[place][first:stop] = rows_of(piece, own, array, first, stop)
        return out


def rows_of(piece: Piece, place: Place, array: str, first: int, stop: int) -> Any:
    """Some repetitions of a cell."""
    with refusing(piece.path):
        if isinstance(piece.arrays[array], h5py.Dataset):
            hdf5.check_chunks(piece.arrays[array], place, first - piece.first, stop - piece.first)
        return piece.arrays[array][place[0], place[1], first - piece.first : stop - piece.first]


@contextlib.contextmanager
def contents_of(path: Path) -> Iterator[Contents]:
    """The file and the journal beside it, as far as they make a full rectangle; the file alone if they don't.

    The journal is opened first: if it is packed meanwhile, the file has all of it.
    """
    with open_journal(journal_of(path)) as journal, open_file(path) as file:
        old, new = file.what, journal.what
        other = old.spec and new.spec and (journal.replaces or conflicts(old.spec, new.spec, old.headers, new.headers))
        if new.spec and not other:
            both = Contents(new, [file, journal])
            if both.ends and all(both.ends.get(name, 0) >= done for name, done in file.done.items()):
                yield both
                return
        if not old.spec:
            raise _missing(path, bool(new.spec))
        yield Contents(old, [file])


def _missing(path: Path, begun: bool) -> InputError:
    """What is said of results that are not there: that there is nothing to see, or not yet."""
    what = "does not exist"
    if parts := parts_beside(path):
        what = f"does not exist yet; {len(parts)} parts of it do: gpu-rsfd merge {shlex.quote(str(path))}"
    elif begun:
        what = f"does not exist yet, and {journal_of(path)} has no repetition of all cells so far"
    return InputError(f"{path} {what}")


def open_results(path: str | os.PathLike[str]) -> Results:
    """Open a results file; of a run that is under way, or was killed, the repetitions that are done.

    Parameters
    ----------
    path : str or path-like
        A file that `sweep`, `attack`, `run` or the command line wrote, or will write in the end.

    Returns
    -------
    Results
        A `Result` for each data set.
    """
    with contents_of(Path(path)) as contents:
        return results_of(contents, Path(path))


def results_of(contents: Contents, path: Path) -> Results:
    """What users get: a result for each data set, large arrays being read when they are asked for."""
    spec = contents.want.spec
    known = {"package_version": __version__, **contents.about}
    about = {name: known[name] for name in ("package_version", "backend", "device")}
    results = Results(spec=spec, complete=contents.complete, seconds=contents.seconds, **about)
    kind = MEASUREMENTS.get(spec["measurement"])
    for name, end in contents.ends.items():
        header, layout = contents.want.headers[name], contents.want.layouts[name]
        with refusing(path):
            measurement = kind(**{f.name: spec[f.name] for f in fields(kind) if f.name in spec}) if kind else None
            shown = {} if measurement is None else measurement.layout(header).columns
        late = {a: functools.partial(_late, path.absolute(), contents.want, name, a, end) for a in layout.arrays}
        own = layout._replace(columns={**layout.columns, **{x: c for x, c in shown.items() if c.of is not None}})
        result = results[name] = Result.made(header, range(*spec["repetitions"])[:end], spec, own, late, name)
        if sum(8 * math.prod(contents.empty(name, array, end)[0]) for array in layout.arrays) <= AT_ONCE:
            result.__dict__["_read"] = {a: read_only(contents.read(name, a, end)) for a in layout.arrays}
            with refusing(path):
                if measurement is not None and (wrong := measurement.check(result)) is not None:
                    raise ValueError(f"{name}/{wrong[0]} {wrong[1]}")
    return results


def _late(path: Path, want: Described, name: str, array: str, end: int) -> Any:
    """A large array, read when it is asked for, from whatever is at the path then."""
    with open_journal(journal_of(path)) as journal, open_file(path) as file:
        contents = Contents(want, [file, journal])
        if contents.ends.get(name, 0) < end:
            raise InputError(f"{path} has fewer repetitions than when it was opened")
        return contents.read(name, array, end)


# ------------------------------------------------------------------------------------------------------------- packing


def pack(contents: Contents, target: Path) -> None:
    """Writes a results file with all repetitions before the first gap, and moves it into place; cell by cell."""
    want = contents.want
    with (
        replaced(target, lambda path: _check(path, target, contents)) as image,
        h5py.File(image, "w", libver=hdf5.LIBVER) as file,
    ):
        hdf5.write_attributes(file, want, contents.complete, {**contents.about, "seconds": contents.seconds})
        for name, end in contents.ends.items():
            group, header, layout = file.create_group(name), want.headers[name], want.layouts[name]
            hdf5.write_header(group, header, range(*want.spec["repetitions"])[:end], layout)
            for array in layout.arrays:
                node = hdf5.create_array(group, array, *contents.empty(name, array, end))
                for place in itertools.product(range(node.shape[0]), range(node.shape[1])):
                    for _ in _pack_cell(node, place, contents.cover(name, place, end), array):
                        image.check()  # a full disk shows here, not in HDF5
                        heed_signals()
                hdf5.attach(group, node, (*CELL, *layout.arrays[array]))


def _pack_cell(node: Any, place: Place, cover: Sequence[tuple[Piece, Place, int, int]], array: str) -> Iterator[None]:
    for first in range(0, node.shape[2], node.chunks[2]):
        stop = min(first + node.chunks[2], node.shape[2])
        here = [(piece, own, max(a, first), min(b, stop)) for piece, own, a, b in cover if a < stop and first < b]
        if len(here) > 1 or not _copied(node, place, here[0][0].arrays[array], here[0][1], first, here[0][0].path):
            parts = [rows_of(piece, own, array, a, b) for piece, own, a, b in here]
            node[place[0], place[1], first:stop] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        yield


def _copied(node: Any, place: Place, source: Any, own: Place, first: int, path: Path) -> bool:
    """Copies chunks of the file before as they are, if they are cut and made alike; False if they are not."""
    if not isinstance(source, h5py.Dataset) or _making(source) != _making(node):
        return False
    if min(source.shape[2] - first, source.chunks[2]) < min(node.shape[2] - first, source.chunks[2]):
        return False
    steps = [range(0, length, chunk) for length, chunk in zip(node.shape[3:], node.chunks[3:], strict=True)]
    for tail in itertools.product(*steps):
        with refusing(path):
            mask, content = source.id.read_direct_chunk((*own, first, *tail))
        node.id.write_direct_chunk((*place, first, *tail), content, mask)
    return True


def _making(node: Any) -> tuple[object, ...]:
    """What must be equal for chunks of one to be chunks of another."""
    return node.dtype, node.chunks, node.shuffle, node.compression, node.fletcher32, node.shape[3:]


def _check(image: Path, target: Path, contents: Contents) -> None:
    """What is about to replace the file must be readable by the reader itself, and say the same."""
    try:
        with open_file(image) as file:
            results_of(Contents(file.what, [file]), image)
            if (file.what.spec, file.done) != (contents.want.spec, contents.ends):
                raise InputError("it says something else")
    except InputError as error:
        raise StoreError(f"can't write {target}: what was written can't be read back ({error})") from error


def check_output(path: Path, inputs: Iterable[Path] = ()) -> Path:
    """The file that is written, a link followed; refused if it holds anything but results of gpu-rsfd."""
    target = resolved(path)
    if path.is_dir():
        raise InputError(f"output={path} is a directory; a file name such as {path / 'results.h5'} is needed")
    if path.suffix.lower() in FIGURES:
        raise InputError(f"output={path} ends like a figure; a file such as {path.with_suffix('.h5')} is needed")
    if not path.parent.is_dir():
        raise InputError(f"output={path}: the folder {path.parent} does not exist")
    if not target.parent.is_dir():
        raise InputError(f"output={path} is a link into {target.parent}, a folder that does not exist")
    if path.exists():
        for given in inputs:
            if given.exists() and path.samefile(given):
                raise InputError(f"output={path} is {given}, which this command reads; give another --output")
        try:
            with open_file(path):
                pass
        except InputError as error:
            if not any(f"{path} {ours}" in str(error) for ours in ("is damaged: ", "has format ")):
                raise InputError(f"output={path} can't be replaced: {error}; give another --output") from None
    return target
