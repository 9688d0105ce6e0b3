"""All there is of a run: its results file and the journals beside it, read together, and packed into one file.

A journal grows block by block while the run goes on; in the end it is packed into the file and removed.  A file is a
full rectangle for each data set: all protocols, epsilons and the repetitions before the first gap.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import h5py
import numpy as np

from gpu_rsfd.checks import MAX_USERS, check_epsilon
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure import MEASUREMENTS
from gpu_rsfd.planning import Flags
from gpu_rsfd.results.result import CELL, Header, Layout, Result, Results
from gpu_rsfd.store.fields import Fields, encodable, first_line, shown, unreadable
from gpu_rsfd.store.files import FIGURES, StoreError, replaced
from gpu_rsfd.store.hdf5 import (
    FORMAT,
    LIBVER,
    HeaderReader,
    attach,
    create_array,
    layout_document,
    read_layout,
    write_attributes,
    write_header,
)
from gpu_rsfd.store.identity import conflicts, key_of, lacking
from gpu_rsfd.store.journal import Reading, Record
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.untrusted import check_links, open_regular
from gpu_rsfd.version import __version__

AT_ONCE = 32 << 20  # bytes of a data set that are read when it is opened
ATTRIBUTES = (
    *("format", "spec", "layout", "complete", "stream_version", "package_version", "numpy_version", "backend"),
    *("device", "wall_time"),
)
SIGNATURE = b"\x89HDF\r\n\x1a\n"  # an HDF5 file begins with it
PART = re.compile(r"\.part-(\d+)-of-(\d+)")

Place = tuple[int, int]  # protocol and epsilon of a cell


def journal_of(output: Path, part: tuple[int, int] | None = None) -> Path:
    """Where finished blocks are added while a run, or a part of it, goes on."""
    return output.with_name(output.name + (".journal" if part is None else f".part-{part[0]}-of-{part[1]}"))


def parts_beside(output: Path) -> dict[Path, tuple[int, int]]:
    """The journals of parts, each with its number and how many there are."""
    found = {}
    with contextlib.suppress(OSError):
        for path in sorted(output.parent.iterdir()):
            if path.name.startswith(output.name) and (name := PART.fullmatch(path.name[len(output.name) :])):
                found[path] = int(name[1]), int(name[2])
    return found


# ------------------------------------------------------------------------------------------------------- what is there


class Gap(NamedTuple):
    """Repetitions number `first` … `stop` - 1 that some cells, [protocol, epsilon], don't have yet."""

    first: int
    stop: int
    cells: Flags


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive repetitions of some cells of a data set, in the file or in a journal."""

    first: int
    stop: int
    cells: dict[Place, Place]  # where each cell is in its arrays
    array: Callable[[str], Any]
    where: str

    def rows(self, name: str, place: Place, first: int, stop: int) -> Any:
        p, e = self.cells[place]
        return self.array(name)[p, e, first - self.first : stop - self.first]


@dataclass
class StoredFile:
    """The results file: what it says of itself, and its data sets."""

    path: Path
    attributes: dict[str, Any]
    spec: dict[str, Any]
    layout: Layout
    headers: dict[str, Header] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    file: Any = None  # open while it is copied

    @property
    def have(self) -> dict[str, Any]:
        """The spec of what it holds, which may be less than what was asked for."""
        return had(self.spec, self.done)


def had(spec: Mapping[str, Any], done: Mapping[str, int]) -> dict[str, Any]:
    """A spec without what is not done: data sets without repetitions, repetitions that none has."""
    first, _, step = spec["repetitions"]
    datasets = [d for d in spec["datasets"] if done.get(d["name"])]
    return {**spec, "datasets": datasets, "repetitions": [first, first + step * max(done.values(), default=0), step]}


class Contents:
    """What is done of a run, in its file and in journals, seen as what is wanted."""

    def __init__(
        self,
        want: Mapping[str, Any],
        headers: Mapping[str, Header],
        layouts: Mapping[str, Layout],
        file: StoredFile | None,
        records: Iterable[Record],
    ) -> None:
        self.want, self.headers, self.layouts, self.file = dict(want), dict(headers), dict(layouts), file
        self.total = len(range(*want["repetitions"]))
        self.keys = {d["name"]: key_of(want, d) for d in want["datasets"]}
        self.seconds = {} if file is None else dict(file.seconds)
        self.backend = "" if file is None else str(file.attributes["backend"])
        self.device = "" if file is None else str(file.attributes["device"])
        self._pieces: dict[str, list[Piece]] = {name: [] for name in self.keys}
        if file is not None:
            for name, done in file.done.items():
                if name in self.keys:
                    self._pieces[name].append(self._of_file(file, name, done))
        for record in records:
            self.add(record)

    def _of_file(self, file: StoredFile, name: str, done: int) -> Piece:
        header = file.headers[name]
        cells = [(protocol, epsilon) for protocol in header.protocols for epsilon in header.epsilons]
        places = itertools.product(range(len(header.protocols)), range(len(header.epsilons)))
        known = self._known(name, dict(zip(cells, places, strict=True)))
        return Piece(0, done, known, lambda array: file.file[name][array], str(file.path))

    def _known(self, name: str, cells: Mapping[tuple[str, float], Place]) -> dict[Place, Place]:
        """The cells that are wanted, by where they are wanted."""
        header = self.headers[name]
        return {
            (header.protocols.index(protocol), header.epsilons.index(epsilon)): at
            for (protocol, epsilon), at in cells.items()
            if protocol in header.protocols and epsilon in header.epsilons
        }

    def add(self, record: Record) -> None:
        """A block of a journal; one that can't be of this run is refused."""
        key = record.key
        if key.get("kind") != "block" or key.get("dataset") not in self.keys:
            return
        name, fault = key["dataset"], self._fault(record)
        if fault is not None:
            raise InputError(f"{record.path} {fault}; remove it, or give another output")
        cells = {
            (protocol, epsilon): (p, e)
            for p, protocol in enumerate(key["protocols"])
            for e, epsilon in enumerate(key["epsilons"])
        }
        piece = Piece(key["first"], key["stop"], self._known(name, cells), record.array, str(record.path))
        if piece.cells and piece.stop <= self.total:
            self._pieces[name].append(piece)
            self.seconds[name] = self.seconds.get(name, 0.0) + key["seconds"]
            self.backend, self.device = key["backend"], key["device"]

    def _fault(self, record: Record) -> str | None:
        """Why a block can't be of this run."""
        key, name = record.key, record.key["dataset"]
        header, layout = self.headers[name], self.layouts[name]
        try:
            if key["key"] != self.keys[name]:
                return "is of another run"
            if not 0 <= key["first"] < key["stop"] or not math.isfinite(key["seconds"] + 0.0) or key["seconds"] < 0:
                return "is damaged: a block has no repetitions"
            for p, protocol in enumerate(key["protocols"]):
                for e, epsilon in enumerate(key["epsilons"]):
                    for at in self._known(name, {(protocol, epsilon): (p, e)}):
                        if header.plan.digest(*at) != key["digests"][p][e]:
                            return f"has {protocol} with different integers"
            cut = (len(key["protocols"]), len(key["epsilons"]), key["stop"] - key["first"])
            for array in layout.arrays:
                dtype, shape = key["arrays"][array]
                if np.dtype(dtype).kind not in "iuf" or tuple(shape) != (*cut, *layout.sizes(header, array)):
                    return f"is damaged: {array} has shape {shape} and type {dtype}"
            if not isinstance(key["backend"], str) or not isinstance(key["device"], str):
                return "is damaged: a block says nothing of its backend"
        except (KeyError, IndexError, TypeError, ValueError) as error:
            return f"is damaged: a block has no {first_line(error)}"
        return None

    def missing(self, name: str, first: int, stop: int) -> list[Gap]:
        """Of repetitions `first` … `stop` - 1, those that are still to be done, with the cells that lack them."""
        asked, gaps = self.headers[name].plan.asked, list[Gap]()
        has: dict[Place, list[tuple[int, int]]] = {}
        for piece in self._pieces[name]:
            for place in piece.cells:
                has.setdefault(place, []).append((piece.first, piece.stop))
        joined = {place: _joined(ranges) for place, ranges in has.items()}
        edges = {x for ranges in joined.values() for r in ranges for x in r if first < x < stop}
        for a, b in itertools.pairwise(sorted({first, stop, *edges})):
            lacks = asked.copy()
            for place, ranges in joined.items():
                lacks[place] &= not any(r[0] <= a and b <= r[1] for r in ranges)
            if lacks.any():
                if gaps and gaps[-1].stop == a and np.array_equal(gaps[-1].cells, lacks):
                    gaps[-1] = gaps[-1]._replace(stop=b)
                else:
                    gaps.append(Gap(a, b, lacks))
        return gaps

    def end(self, name: str) -> int:
        """Repetitions that all cells of a data set have, from the first on."""
        gaps = self.missing(name, 0, self.total)
        return gaps[0].first if gaps else self.total

    @property
    def ends(self) -> dict[str, int]:
        return {name: end for name in self.keys if name in self.headers and (end := self.end(name))}

    @property
    def whole(self) -> bool:
        """Whether all that the file and the journals hold is in the rectangles that would be packed."""
        held = {} if self.file is None else self.file.done
        ends = self.ends
        kept = all(ends.get(name, 0) >= done for name, done in held.items())
        return kept and all(
            piece.stop <= ends.get(name, 0) for name, pieces in self._pieces.items() for piece in pieces
        )

    def cover(self, name: str, place: Place, end: int) -> list[tuple[Piece, int, int]]:
        """The pieces that have repetitions 0 … `end` - 1 of a cell, each with those it is for."""
        chosen, at = list[tuple[Piece, int, int]](), 0
        having = (piece for piece in self._pieces[name] if place in piece.cells)
        for piece in sorted(having, key=lambda piece: (piece.first, -piece.stop)):
            if piece.first <= at < piece.stop and at < end:
                chosen.append((piece, at, min(piece.stop, end)))
                at = piece.stop
        return chosen

    def read(self, name: str, array: str, done: int) -> Any:
        """The first repetitions of an array."""
        header, layout = self.headers[name], self.layouts[name]
        cells = (len(header.protocols), len(header.epsilons))
        out: Any = None
        for place in itertools.product(range(cells[0]), range(cells[1])):
            for piece, first, stop in self.cover(name, place, done):
                rows = piece.rows(array, place, first, stop)
                if out is None:
                    out = np.empty((*cells, done, *layout.sizes(header, array)), _dtype(rows))
                p, e = place
                out[p, e, first:stop] = rows
        return out


def _dtype(rows: Any) -> type[np.generic]:
    """Whole numbers or others: an array is one of the two, whatever the type of its blocks."""
    return np.int64 if rows.dtype.kind in "iu" else np.float64


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, stop in sorted(ranges):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((first, stop))
    return joined


# ------------------------------------------------------------------------------------------------------------- packing


def head(want: Mapping[str, Any], headers: Mapping[str, Header], layouts: Mapping[str, Layout]) -> bytes:
    """What a journal begins with: a results file without repetitions."""
    image = io.BytesIO()
    with h5py.File(image, "w", libver=LIBVER) as file:
        _write_file(file, want, layouts, False, {}, "", "")
        for name, header in headers.items():
            write_header(file.create_group(name), header, range(*want["repetitions"])[:0], layouts[name])
    return image.getvalue()


def _write_file(
    file: Any, want: Mapping[str, Any], layouts: Mapping[str, Layout], complete: bool, seconds: Mapping[str, float],
    backend: str, device: str,
) -> None:  # fmt: skip
    cells = len(want["protocols"]) * len(want["epsilons"])
    # one pass serves all cells of a data set: each has an equal share
    wall_time = {name: {"seconds": s, "mean_seconds_per_cell": s / cells} for name, s in seconds.items()}
    document = layout_document(next(iter(layouts.values())))
    stored: dict[str, Any] = {
        "format": FORMAT,
        "spec": json.dumps(want),
        "layout": json.dumps(document),
        "complete": int(complete),
        "stream_version": STREAM_VERSION,
        "package_version": __version__,
        "numpy_version": np.__version__,  # what the samplers' draws depend on (the tape does not)
        "backend": backend,
        "device": device,
        "wall_time": json.dumps(wall_time),
    }
    write_attributes(file, {name: stored[name] for name in ATTRIBUTES})


def pack(contents: Contents, target: Path) -> None:
    """Writes a results file with all repetitions before the first gap, and moves it into place; cell by cell."""
    ends, want = contents.ends, contents.want
    complete = all(ends.get(name) == contents.total for name in contents.keys)
    seconds = {name: contents.seconds.get(name, 0.0) for name in ends}
    with contextlib.ExitStack() as stack:
        if contents.file is not None:
            contents.file.file = stack.enter_context(open_hdf5(contents.file.path)).node
        image = stack.enter_context(replaced(target, lambda path: _check(path, target, want)))
        file = stack.enter_context(h5py.File(image, "w", libver=LIBVER))
        _write_file(file, want, contents.layouts, complete, seconds, contents.backend, contents.device)
        for name, end in ends.items():
            group, header, layout = file.create_group(name), contents.headers[name], contents.layouts[name]
            write_header(group, header, range(*want["repetitions"])[:end], layout)
            for array in layout.arrays:
                _pack_array(group, contents, name, array, end, image.check)


def _pack_array(group: Any, contents: Contents, name: str, array: str, end: int, check: Callable[[], None]) -> None:
    header, layout = contents.headers[name], contents.layouts[name]
    cells, target = (len(header.protocols), len(header.epsilons)), None
    for place in itertools.product(range(cells[0]), range(cells[1])):
        cover = contents.cover(name, place, end)
        if target is None:
            dtype = _dtype(cover[0][0].array(array))
            target = create_array(group, array, (*cells, end, *layout.sizes(header, array)), dtype)
        size = target.chunks[2]
        for first in range(0, end, size):
            stop = min(first + size, end)
            here = [(piece, max(a, first), min(b, stop)) for piece, a, b in cover if a < stop and first < b]
            try:
                if len(here) > 1 or not _copied(target, here[0][0], array, place, first):
                    parts = [piece.rows(array, place, a, b) for piece, a, b in here]
                    target[place[0], place[1], first:stop] = parts[0] if len(parts) == 1 else np.concatenate(parts)
            except (OSError, KeyError, RuntimeError, ValueError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                raise InputError(f"{here[0][0].where} is damaged: {first_line(error)}") from error
            check()  # a full disk shows here, not in HDF5
    attach(group, target, (*CELL, *layout.arrays[array]))


def _copied(target: Any, piece: Piece, array: str, place: Place, first: int) -> bool:
    """Copies chunks of the file before as they are, if they are cut and made alike; False if they are not."""
    source = piece.array(array)
    if not isinstance(source, h5py.Dataset) or _making(source) != _making(target):
        return False
    size = source.chunks[2]
    if min(source.shape[2] - first, size) < min(target.shape[2] - first, size):
        return False
    steps = [range(0, length, chunk) for length, chunk in zip(target.shape[3:], target.chunks[3:], strict=True)]
    for tail in itertools.product(*steps):
        mask, content = source.id.read_direct_chunk((*piece.cells[place], first, *tail))
        target.id.write_direct_chunk((*place, first, *tail), content, mask)
    return True


def _making(dataset: Any) -> tuple[object, ...]:
    """What must be equal for chunks of one to be chunks of another."""
    return dataset.dtype, dataset.chunks, dataset.shuffle, dataset.compression, dataset.fletcher32, dataset.shape[3:]


def _check(image: Path, target: Path, want: Mapping[str, Any]) -> None:
    """What is about to replace the file must be readable by the reader itself."""
    try:
        with open_hdf5(image) as file:
            same = read_file(file).spec == json.loads(json.dumps(want))
    except InputError as error:
        versions = f"h5py {h5py.version.version} with HDF5 {h5py.version.hdf5_version}"
        raise StoreError(
            f"can't write {target}: {versions} can't read back what it wrote ({error}); try another version of h5py"
        ) from error
    if not same:
        raise StoreError(f"can't write {target}: the new file says something else than was written")


# ------------------------------------------------------------------------------------------------------------- reading


@contextlib.contextmanager
def open_hdf5(path: Path, image: bytes | None = None) -> Iterator[Fields]:
    """An HDF5 file of ours that holds all that it names; `image`: its content, where it is part of another file."""
    with contextlib.ExitStack() as stack:
        try:
            content: Any = io.BytesIO(image) if image is not None else stack.enter_context(open_regular(path))
            begin = content.read(len(SIGNATURE))
            size = content.seek(0, os.SEEK_END)
        except ValueError as error:
            raise InputError(f"{path} {error}; a results file of gpu-rsfd is needed") from None
        except OSError as error:
            raise unreadable(path, error) from None
        try:
            file = stack.enter_context(h5py.File(content, "r"))
        except (OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the machine
                raise unreadable(path, error) from error
            raise InputError(_damaged(path, begin, str(error))) from error
        fields = Fields(path, file, size)
        fields.read("a name", lambda: check_links(file))
        try:
            ours = "spec" in file.attrs and "stream_version" in file.attrs
        except (OSError, KeyError, RuntimeError):
            ours = False
        if not ours:
            raise InputError(f"{path} is an HDF5 file, but not a results file of gpu-rsfd")
        try:
            yield fields
        except InputError as error:
            if str(error).startswith(f"{path} is damaged: ") and "--overwrite" not in str(error):
                raise InputError(f"{error}; to make it again, run the command that made it with --overwrite") from None
            raise


def _damaged(path: Path, begin: bytes, error: str) -> str:
    """What is wrong with a file that HDF5 can't open, and what to do."""
    if begin != SIGNATURE:
        return f"{path} is not an HDF5 file; a results file of gpu-rsfd is needed"
    whole = re.search(r"stored_eof = (\d+)", error)
    how = f"it ends after {path.stat().st_size:,} of {int(whole[1]):,} bytes" if whole else error.splitlines()[0]
    remove = shlex.join(["rm", str(path)])
    return (
        f"{path} is damaged: {how}, and its repetitions are lost; after `{remove}` the command that made it starts anew"
    )


def read_file(fields: Fields) -> StoredFile:
    """What a file says of itself, every part of it checked."""
    version = fields.read("format", lambda: int(fields.node.attrs["format"]))
    if version < FORMAT:
        raise InputError(f"{fields.path} has format {version}, which gpu-rsfd 0.2.0 reads; this is {__version__}")
    if version > FORMAT:
        raise InputError(f"{fields.path} was written by a newer gpu-rsfd; this is {__version__}")
    stored = fields.attributes(ATTRIBUTES)
    stream = fields.whole("stream_version", 0, MAX_USERS)
    if not 1 <= stream <= STREAM_VERSION:
        fields.refuse("stream_version", f"is {stream}, which is unknown; this gpu-rsfd knows 1 to {STREAM_VERSION}")
    spec = fields.json("spec")
    check_spec(fields, spec)
    file = StoredFile(fields.path, stored, spec, read_layout(fields, fields.json("layout")))
    wall_time, total = fields.json("wall_time"), range(*spec["repetitions"])
    for dataset in spec["datasets"]:
        name = dataset["name"]
        if not fields.has(name):
            continue
        group = HeaderReader(fields, dataset, spec)
        header = file.headers[name] = group.header()
        layout = file.layouts[name] = group.layout(file.layout)
        if not all(group.has(array) for array in layout.arrays):
            group.check_scales(header, total[:0], layout)
            continue  # the head of a journal
        shapes = {array: layout.sizes(header, array) for array in layout.arrays}
        cell = (len(header.protocols), len(header.epsilons), None)
        nodes = {array: group.array(array, "iuf", (*cell, *shape)) for array, shape in shapes.items()}
        lengths = {node.shape[2] for node in nodes.values()}
        if len(lengths) != 1 or not 1 <= (done := lengths.pop()) <= len(total):
            group.refuse(next(iter(nodes)), f"has a number of repetitions that is not from 1 to {len(total)}")
        group.check_scales(header, total[:done], layout)
        file.done[name] = done
        entry = wall_time.get(name)
        seconds = entry.get("seconds") if isinstance(entry, dict) else None
        if not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
            fields.refuse("wall_time", f"has no seconds >= 0 for {name}")
        file.seconds[name] = float(seconds)
    complete = len(file.done) == len(spec["datasets"]) and all(done == len(total) for done in file.done.values())
    if complete != bool(fields.whole("complete", 0, 1)):
        fields.refuse("complete", f"is {stored['complete']}, but the repetitions say {int(complete)}")
    return file


def check_spec(fields: Fields, spec: dict[str, Any]) -> None:
    """Refuse a spec that gpu-rsfd can't have written: every part that is used further on."""

    def refuse(key: str, value: object, needed: str) -> None:
        fields.refuse("spec", f"has {key} {shown(value)}; {needed} needed")

    for key in ("datasets", "protocols", "epsilons", "repetitions"):
        if not isinstance(spec.get(key), list) or not spec[key]:
            refuse(key, spec.get(key), "a list is")
    for key, valid in (("protocols", _name), ("epsilons", _number)):
        for i, value in enumerate(spec[key]):
            if not valid(value) or value in spec[key][:i]:
                refuse(key, value, "different names or numbers are")
    for epsilon in spec["epsilons"]:
        fields.checked("spec", lambda epsilon=epsilon: check_epsilon(epsilon))  # type: ignore[misc]
    bounds = spec["repetitions"]
    if len(bounds) != 3 or not all(_whole(b) and 0 <= b < 2**63 for b in bounds) or bounds[2] < 1:
        refuse("repetitions", bounds, "first, end and step are")
    if not range(*bounds):
        refuse("repetitions", bounds, "at least one is")
    for key in ("seed", "stream_version"):
        if not _whole(spec.get(key, 0)):
            refuse(key, spec.get(key), "a whole number is")
    for key in ("assignment", "sampler", "guarantee", "measurement"):
        if not isinstance(spec.get(key, ""), str):
            refuse(key, spec.get(key), "a name is")
    names: list[str] = []
    for dataset in spec["datasets"]:
        if not isinstance(dataset, dict):
            refuse("a data set", dataset, "a JSON object is")
        name, users = dataset.get("name"), dataset.get("users")
        if not _name(name) or name in names or "/" in str(name):
            refuse("a data set named", name, "different names are")
        if not _whole(users) or not 1 <= users <= MAX_USERS:
            fields.refuse("spec", f"has users {shown(users)} for {name}; a whole number is needed")
        if not isinstance(dataset.get("domain"), list):
            fields.refuse("spec", f"has domain {shown(dataset.get('domain'))} for {name}; a list is needed")
        fields.checked("spec", lambda sizes=dataset["domain"]: Domain.of(sizes))  # type: ignore[misc]
        names.append(str(name))


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, float) or (_whole(value) and abs(value) < 2**63)


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value) and encodable(value)


def stored_file(path: Path) -> StoredFile | None:
    """The results file; None if there is none."""
    if path.is_dir():
        raise InputError(f"{path} is a directory; a results file is needed")
    if not path.exists():
        return None
    with open_hdf5(path) as fields:
        return read_file(fields)


class Journals(NamedTuple):
    """Some journals of one run: the head that was written last, and all blocks."""

    head: StoredFile | None
    blocks: list[Record]
    notes: list[str]  # what can't be used, a line each


def read_journals(paths: Iterable[Path]) -> Journals:
    """What journals hold; those that are not there are passed over."""
    heads: list[StoredFile] = []
    blocks: list[Record] = []
    notes: list[str] = []
    for path in paths:
        try:
            reading = Reading(path)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise unreadable(path, error) if isinstance(error, OSError) else InputError(f"{path} {error}") from None
        found = [record for record in reading if record.key.get("kind") == "head"]
        if reading and not found:
            raise InputError(f"{path} is damaged: it does not say what was run; remove it, or give another output")
        if found:
            with open_hdf5(path, found[-1].content.tobytes()) as fields:
                heads.append(read_file(fields))
        blocks += [record for record in reading if record.key.get("kind") == "block"]
        if reading.damaged:
            notes.append(f"{path} is damaged: blocks in {reading.damaged} places are lost, and computed again")
    largest = next((one for one in heads if not any(lacking(other.spec, one.spec) for other in heads)), None)
    if heads and largest is None:
        lines = lacking(heads[1].spec, heads[0].spec) or lacking(heads[0].spec, heads[-1].spec)
        raise InputError(f"{heads[1].path} is of another run than {heads[0].path}\n  " + "\n  ".join(lines))
    for one in heads:
        if largest is not None and (lines := conflicts(one.spec, largest.spec, one.headers, largest.headers)):
            raise InputError(f"{one.path} is of another run than {largest.path}\n  " + "\n  ".join(lines))
    return Journals(largest, blocks, notes)


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
    return results_of(contents_of(Path(path)), Path(path))


def contents_of(path: Path) -> Contents:
    """The file and the journal beside it, as far as they make a full rectangle; the file alone if they don't."""
    for _ in range(3):
        journals = read_journals([journal_of(path)])  # first: if the file is replaced meanwhile, it is packed from it
        file = stored_file(path)
        if journals.head is None or journal_of(path).exists():
            break
    newest = journals.head
    if newest is not None and (file is None or not conflicts(file.have, newest.spec, file.headers, newest.headers)):
        both = Contents(newest.spec, newest.headers, newest.layouts, file, journals.blocks)
        held = {} if file is None else file.done
        if both.ends and all(both.ends.get(name, 0) >= done for name, done in held.items()):
            return both
    if file is None:
        raise missing(path, journals)
    return Contents(file.spec, file.headers, file.layouts, file, [])


def missing(path: Path, journals: Journals, command: str = "sweep") -> InputError:
    """What is said of results that are not there: the command that makes them, or that there is nothing to see yet."""
    quoted = shlex.quote(str(path))
    if parts := parts_beside(path):
        return InputError(f"{path} does not exist yet; {len(parts)} parts of it do: gpu-rsfd merge {quoted}")
    if journals.head is not None:
        return InputError(f"{path} does not exist yet, and {journal_of(path)} has no repetition of all cells so far")
    return InputError(f"{path} does not exist; `gpu-rsfd {command} --output {quoted}` makes it")


def results_of(contents: Contents, path: Path) -> Results:
    """What users get: a result for each data set, large arrays being read when they are asked for."""
    ends, spec = contents.ends, contents.want
    plain = {key: value for key, value in spec.items() if key != "datasets"}
    stored = {} if contents.file is None else contents.file.attributes
    results = Results(
        spec=spec,
        complete=all(ends.get(name) == contents.total for name in contents.keys),
        package_version=stored.get("package_version", __version__),
        backend=contents.backend,
        device=contents.device,
        seconds={name: contents.seconds.get(name, 0.0) for name in ends},
    )
    kind = MEASUREMENTS.get(spec["measurement"])
    fields = {} if kind is None else {name: spec[name] for name in kind.__dataclass_fields__ if name in spec}
    for name, end in ends.items():
        header, layout = contents.headers[name], contents.layouts[name]
        columns = {} if kind is None else {n: c for n, c in kind.columns.items() if not isinstance(c, str) and c.of}
        late = _Late(path.absolute(), contents.keys[name], name, header, end)
        result = results[name] = Result.made(
            header,
            range(*spec["repetitions"])[:end],
            plain,
            layout._replace(columns={**layout.columns, **columns}),
            {array: late.of(array) for array in layout.arrays},
        )
        cells = len(header.protocols) * len(header.epsilons) * end
        sizes = sum(8 * cells * math.prod(layout.sizes(header, array)) for array in layout.arrays)
        if sizes <= AT_ONCE:
            with reading(contents):
                read = result.__dict__.setdefault("_read", {})
                read |= {array: contents.read(name, array, end) for array in layout.arrays}
            wrong = None if kind is None else kind(**fields).check(result)
            if wrong is not None:
                raise InputError(f"{path} is damaged: {name}/{wrong[0]} {wrong[1]}; "
                                 "to make it again, run the command that made it with --overwrite")  # fmt: skip
    return results


@contextlib.contextmanager
def reading(contents: Contents) -> Iterator[None]:
    """The file is open meanwhile; what HDF5 finds wrong with it is one line."""
    if contents.file is None:
        yield
        return
    with open_hdf5(contents.file.path) as fields:
        contents.file.file = fields.node
        fields.read("an array", lambda: None)
        try:
            yield
        except (OSError, KeyError, RuntimeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            if isinstance(error, OSError) and error.errno is not None:
                raise unreadable(contents.file.path, error) from error
            fields.refuse("an array", f"can't be read ({first_line(error)})")


@dataclass(frozen=True)
class _Late:
    """Reads a large array when it is asked for, from whatever is at the path then."""

    path: Path
    key: str
    name: str
    header: Header
    done: int

    def of(self, array: str) -> Callable[[], Any]:
        return lambda: self.read(array)

    def read(self, array: str) -> Any:
        contents = contents_of(self.path)
        if contents.keys.get(self.name) != self.key:
            raise self._another()
        header, mine = contents.headers[self.name], self.header
        if not set(mine.protocols) <= set(header.protocols) or not set(mine.epsilons) <= set(header.epsilons):
            raise self._another()
        rows = [header.protocols.index(protocol) for protocol in mine.protocols]
        columns = [header.epsilons.index(epsilon) for epsilon in mine.epsilons]
        for (p, row), (e, column) in itertools.product(enumerate(rows), enumerate(columns)):
            if mine.plan.digest(p, e) != header.plan.digest(row, column):
                raise self._another()
        with reading(contents):
            return contents.read(self.name, array, self.done)[np.ix_(rows, columns)]

    def _another(self) -> InputError:
        return InputError(f"{self.path} holds another run than when it was opened")


def check_output(path: Path, inputs: Iterable[Path] = ()) -> Path:
    """The file that is written, a link followed; refused if it holds anything but results of gpu-rsfd."""
    if path.is_dir():
        raise InputError(f"output={path} is a directory; a file name such as {path / 'results.h5'} is needed")
    if path.suffix.lower() in FIGURES:
        raise InputError(
            f"output={path} ends like a figure; a results file, such as {path.with_suffix('.h5')}, is needed"
        )
    if not path.parent.is_dir():
        raise InputError(f"output={path}: the folder {path.parent} does not exist")
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if not target.parent.is_dir():
        raise InputError(f"output={path} is a link into {target.parent}, a folder that does not exist")
    if path.exists():
        for given in inputs:
            if given.exists() and path.samefile(given):
                raise InputError(f"output={path} is {given}, which this command reads; give another --output")
        try:
            with open_hdf5(path):
                pass
        except InputError as error:
            raise InputError(f"output={path} can't be replaced: {error}; give another --output") from None
    return target
