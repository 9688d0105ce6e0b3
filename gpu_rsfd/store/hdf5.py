"""The results file (format 3): one HDF5 file with dimension scales, as xarray reads it.

A group for each data set has the arrays of a measurement, [protocol, epsilon, repetition, …], and a `header`: JSON with
all else about the data set, from which gpu-rsfd makes a `Header` again.  Beside it the same facts are variables with
dimensions, for others.  Every array has a checksum, as have the header and the attributes.  Text has a fixed length:
text of any length lies in HDF5's global heap, where one changed bit makes a reader loop for ever.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import h5py
import numpy as np
from h5py import h5d, h5l, h5t, h5z

from gpu_rsfd.checks import MAX_USERS, check_epsilon, integer
from gpu_rsfd.command import own_data
from gpu_rsfd.datasets.base import check_labels
from gpu_rsfd.domain import Domain
from gpu_rsfd.planning import Look, Plan, Rates
from gpu_rsfd.protocols import Mechanism, Recipe, Unsampled
from gpu_rsfd.protocols.form import noise_of
from gpu_rsfd.results.result import CELL, Column, Header, Layout, read_only
from gpu_rsfd.store.identity import digest_of
from gpu_rsfd.tape import ASSIGNMENTS, KEEP_ONE, STREAM_VERSION
from gpu_rsfd.version import __version__

FORMAT = 3  # of the file; the stream has a version of its own
LIBVER = "v110"  # from here on HDF5 has checksums for its own structures, too
CHUNK = 1 << 17  # numbers in a chunk: a megabyte
PACKED: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
FILTERS = [h5z.FILTER_SHUFFLE, h5z.FILTER_DEFLATE, h5z.FILTER_FLETCHER32]  # which is what `PACKED` and a checksum mean
OVERHEAD = 64  # bytes that deflate and the checksum may add to a chunk, beside a thousandth
MOST_ROWS = 1024  # repetitions in a chunk
MOST_PACKED = 1032  # numbers to a byte: no stream of deflate is denser
MOST_TEXT = 1 << 30  # bytes of an attribute
SMALL = 1000  # numbers; smaller arrays are not compressed
SUM_TOLERANCE = 1e-6  # frequencies of an attribute sum to 1
NUMBERS = ("base", "slope", "gain", "budget", "spent", "loss", "bits")  # of each cell and attribute
ROW = ("mechanism", "noise", "integers", "unsampled", "k", "prior", "plain", "claimed", *NUMBERS)
PRIVATE = "This file holds the true frequencies of a table of somebody's own: keep it like the table itself."
ATTRIBUTES = (
    *("format", "complete", "stream_version", "spec", "layout", "wall_time"),
    *("package_version", "numpy_version", "backend", "device"),
)
COLUMN_TEXTS = ("label", "better", "short", "axis", "field", "over", "x")  # of what tables show


class Described(NamedTuple):
    """What a file or a journal says of itself, and what a command wants."""

    spec: dict[str, Any]
    headers: dict[str, Header]
    layouts: dict[str, Layout]


# ------------------------------------------------------------------------------------------- a header as plain data


def document_of(want: Described) -> dict[str, Any]:
    """All that is known before the first repetition: what a journal begins with."""
    headers = {name: header_document(header, want.layouts[name]) for name, header in want.headers.items()}
    return {"spec": want.spec, "layout": layout_document(next(iter(want.layouts.values()))), "headers": headers}


def header_document(header: Header, layout: Layout) -> dict[str, Any]:
    """All about a data set but its repetitions, as plain data."""
    rows, index = _rows(header.plan)
    return {
        **{"users": header.n, "domain": list(header.domain), "names": list(header.names), "labels": header.labels},
        **{"frequencies": header.frequencies.tolist(), "looks": [list(look) for look in header.plan.looks]},
        **{"epsilons": list(header.epsilons), "assignment": header.plan.assignment, "rows": rows, "cells": index},
        "baselines": {name: c.baseline for name, c in layout.columns.items() if c.baseline is not None},
    }


def _rows(plan: Plan) -> tuple[list[tuple[Any, ...]], list[list[list[int]]]]:
    """What is done in each cell to each attribute: the different rows, and the number of each cell's."""
    rows: dict[tuple[Any, ...], int] = {}

    def number(p: int, e: int, j: int) -> int:
        m, rates = plan.mechanisms[p][e][j], plan.attributes[j].rates[plan.cells[p][e][j]]
        recipe = m.recipe
        others = "prior" if recipe.prior is not None else recipe.unsampled.value
        what = (m.name, recipe.noise.kind, tuple(map(int, recipe.noise.integers)), others, m.k, recipe.prior)
        row = (*what, m.plain, m.claimed, *map(float, (*rates, m.budget, m.spent, m.loss, m.bits)))
        return rows.setdefault(row, len(rows))

    every = (range(len(plan.looks)), range(len(plan.epsilons)), range(plan.d))
    index = [[[number(p, e, j) for j in every[2]] for e in every[1]] for p in every[0]]
    return list(rows), index


def header_of(document: Mapping[str, Any]) -> Header:
    """A header from plain data; any error means that gpu-rsfd has not written it."""
    domain = Domain.of(document["domain"])
    made = [_cell(row, len(domain)) for row in document["rows"]]
    cells = [[[made[i] for i in row] for row in by_epsilon] for by_epsilon in document["cells"]]
    looks = tuple(Look(*map(str, look)) for look in document["looks"])
    epsilons = tuple(check_epsilon(epsilon) for epsilon in document["epsilons"])
    if len(cells) != len(looks) or any(len(by_epsilon) != len(epsilons) for by_epsilon in cells):
        raise ValueError("cells")
    rates = {(recipe, len(domain), m.k): known for recipe, known, m in made}
    recipes = [[[recipe for recipe, _, _ in row] for row in by_epsilon] for by_epsilon in cells]
    assignment = str(document["assignment"])
    plan = Plan.compiled(domain, looks, epsilons, recipes, assignment, lambda *recipe: rates[recipe])
    plan.__dict__["mechanisms"] = tuple(tuple(tuple(m for _, _, m in row) for row in rows) for rows in cells)
    frequencies = read_only(np.array(document["frequencies"], np.float64))
    sums = np.add.reduceat(frequencies, domain.offsets)
    valid = (frequencies >= 0).all() and np.abs(sums - 1).max() < SUM_TOLERANCE
    if frequencies.shape != (domain.total,) or not valid:
        raise ValueError("frequencies")
    labels = None if document["labels"] is None else check_labels(document["labels"], domain)
    names = tuple(map(str, document["names"]))
    if len(names) != len(domain) or assignment not in ASSIGNMENTS:
        raise ValueError("names or assignment")
    return Header(integer("users", document["users"], 1, MAX_USERS), domain, names, frequencies, plan, labels)


def _cell(row: Sequence[Any], d: int) -> tuple[Recipe, Rates, Mechanism]:
    name, noise, integers, others, k, prior, plain, claimed, *numbers = row
    base, slope, gain, budget, spent, loss, bits = map(float, numbers)
    if not (math.isfinite(base) and math.isfinite(slope) and 0 < gain < math.inf):
        raise ValueError("rates")
    unsampled = Unsampled.FAKE if others == "prior" else Unsampled(others)
    thresholds = None if others != "prior" else tuple(integer("prior", t, 0, KEEP_ONE) for t in prior)
    if thresholds is not None and (list(thresholds) != sorted(thresholds) or len(thresholds) != k - 1):
        raise ValueError("prior")
    recipe = Recipe(unsampled, noise_of(str(noise), [int(i) for i in integers]), thresholds)
    made = Mechanism(str(name), d, int(k), budget, recipe, spent, loss, bits, bool(plain), bool(claimed))
    return recipe, Rates(base, slope, gain), made


def layout_document(layout: Layout) -> dict[str, Any]:
    """A layout as plain data, without what only its class can work out."""
    columns = {name: column for name, column in layout.columns.items() if column.of is None}
    shown = {name: {text: getattr(column, text) for text in COLUMN_TEXTS} for name, column in columns.items()}
    arrays = {name: list(dims) for name, dims in layout.arrays.items()}
    return {**layout._asdict(), "arrays": arrays, "coords": dict(layout.coords), "columns": shown}


def described(spec: Any, layout: Any, headers: Mapping[str, Any]) -> Described:
    """What plain data say, checked; any error means that gpu-rsfd has not written them."""
    json.dumps([spec, layout, headers], ensure_ascii=False).encode()  # lone surrogates can't be shown anywhere
    _check_spec(spec)
    arrays = {str(name): tuple(map(str, dims)) for name, dims in layout["arrays"].items()}
    coords = {str(dim): list(values) for dim, values in layout["coords"].items()}
    texts: Any = {name: {key: str(c[key]) for key in COLUMN_TEXTS if key in c} for name, c in layout["columns"].items()}
    columns = {str(name): Column(**column) for name, column in texts.items()}
    known = {"value", "attribute", *coords}
    named = all(name.isidentifier() and set(dims) <= known for name, dims in arrays.items())
    if not (named and arrays and all(coords.values())):  # an array of no bytes may declare any number of repetitions
        raise ValueError("layout has arrays without dimensions")
    plain = all(type(x) in (int, float, str) for values in coords.values() for x in values)
    if not set(columns) <= {*arrays, "error"} or not plain:
        raise ValueError("layout has columns without arrays")
    common = Layout(str(layout["name"]), str(layout["command"]), arrays, coords, columns, str(layout["about"]))
    found = Described(spec, {}, {})
    for dataset in spec["datasets"]:
        if (document := headers.get(dataset["name"])) is None:
            continue
        header = header_of(document)
        said = [list(header.protocols), list(header.epsilons), header.n, list(header.domain)]
        if said != [spec["protocols"], [*map(float, spec["epsilons"])], dataset["users"], dataset["domain"]]:
            raise ValueError(f"the header of {dataset['name']} does not fit the spec")
        baselines = {x: b if b in arrays else float(b) for x, b in document["baselines"].items() if x in columns}
        own = {name: column._replace(baseline=baselines.get(name)) for name, column in columns.items()}
        found.headers[dataset["name"]], found.layouts[dataset["name"]] = header, common._replace(columns=own)
    return found


def _check_spec(spec: Any) -> None:
    """Refuses what is used further on and can't be there."""
    first, stop, step = spec["repetitions"]
    names = [dataset["name"] for dataset in spec["datasets"]]
    texts = [spec[key] for key in ("measurement", "assignment", "sampler", "guarantee") if key in spec]
    named = all(isinstance(text, str) and text for text in (*names, *spec["protocols"], *texts))
    if not named or "/" in "".join(names):
        raise ValueError("spec has something else than names")
    if not all(type(number) is int for number in (first, stop, step, spec.get("seed", 0))):
        raise ValueError("spec has something else than whole numbers")
    if not (0 <= first < stop < 2**63 and 1 <= step < 2**63):
        raise ValueError(f"spec has repetitions {spec['repetitions']}")
    if not all(0 < len(set(entries)) == len(entries) for entries in (names, spec["protocols"], spec["epsilons"])):
        raise ValueError("spec has an entry twice, or none")


# ------------------------------------------------------------------------------------------------------------- reading


def member(group: Any, name: str, kind: type = h5py.Dataset) -> Any:
    """What a group of HDF5 holds under a name; a ValueError if that is elsewhere, or something else."""
    if group.id.links.get_info(name.encode()).type != h5l.TYPE_HARD:
        raise ValueError(f"{name} is a link; a results file has none")
    node = group[name]
    if not isinstance(node, kind):
        raise ValueError(f"{name} is not a {kind.__name__.lower()} of HDF5")
    return node


def attribute(node: Any, name: str) -> int | str:
    """A whole number or a text of fixed length; a ValueError if it is anything else, which is not read."""
    found = node.attrs.get_id(name)
    kind = found.get_type()
    fixed = isinstance(kind, h5t.TypeStringID) and not kind.is_variable_str() and kind.get_size() < MOST_TEXT
    if found.get_space().get_simple_extent_npoints() != 1 or not (fixed or isinstance(kind, h5t.TypeIntegerID)):
        raise ValueError(f"{name} is not a number or a text of fixed length")
    value = node.attrs[name]
    return value.decode() if isinstance(value, bytes) else int(value)


def stored_fault(node: Any, size: int) -> str | None:
    """Why an array can't be read safely from a file of so many bytes; None if it can."""
    made = node.id.get_create_plist()
    if made.get_layout() == h5d.VIRTUAL or made.get_external_count():
        return "is stored in other files"
    stored = min(node.id.get_storage_size(), size)
    declared = max(node.size, math.prod(node.chunks or ())) * node.dtype.itemsize if node.size else 0
    if declared > MOST_PACKED * stored:
        return f"declares {declared:,} bytes, but the file has only {stored:,} for them"
    filters = [made.get_filter(i)[0] for i in range(made.get_nfilters())]
    if node.chunks and (filters != FILTERS or node.chunks[:2] != (1, 1) or math.prod(node.chunks) > CHUNK):
        return "is stored in another way than by gpu-rsfd"
    return None


def check_chunks(node: Any, place: Sequence[int], first: int, stop: int) -> None:
    """A ValueError if a chunk of some repetitions would not inflate to its size: HDF5 doesn't look."""
    if node.chunks is None:
        return
    size = math.prod(node.chunks) * node.dtype.itemsize
    masks = [1 << FILTERS.index(one) for one in (h5z.FILTER_DEFLATE, h5z.FILTER_FLETCHER32)]
    steps = [range(0, length, chunk) for length, chunk in zip(node.shape[3:], node.chunks[3:], strict=True)]
    for at in itertools.product(range(first // node.chunks[2] * node.chunks[2], stop, node.chunks[2]), *steps):
        found = node.id.get_chunk_info_by_coord((*place, *at))
        length = size if found.byte_offset is None else -1  # one that is not there is read as -1
        if length < 0 and found.size <= size + size // 1000 + OVERHEAD:
            mask, content = node.id.read_direct_chunk((*place, *at))
            plain, bare = (bool(mask & one) for one in masks)
            inflated = b"" if plain else zlib.decompressobj().decompress(content, size + 1)
            length = found.size - 4 * (not bare) if plain else len(inflated)
        if length != size:
            raise ValueError(f"{node.name[1:]} has a chunk of more or less than the {size:,} bytes that it declares")


# ------------------------------------------------------------------------------------------------------------- writing


def write_attributes(file: Any, want: Described, complete: bool, about: Mapping[str, Any]) -> None:
    """The attributes of a file, with one checksum of them all.  `about`: seconds, backend, device."""
    cells = len(want.spec["protocols"]) * len(want.spec["epsilons"])
    # one pass serves all cells of a data set: each has an equal share
    wall_time = {name: {"seconds": s, "mean_seconds_per_cell": s / cells} for name, s in about["seconds"].items()}
    layout = layout_document(next(iter(want.layouts.values())))
    texts = [json.dumps(document) for document in (want.spec, layout, wall_time)]
    versions = (__version__, np.__version__)  # the samplers' draws depend on NumPy (the tape does not)
    values = (FORMAT, int(complete), STREAM_VERSION, *texts, *versions, about["backend"], about["device"])
    stored = dict(zip(ATTRIBUTES, values, strict=True))
    private = {"contents": PRIVATE} if own_data(want.spec) else {}  # for whoever finds the file
    for name, value in {**stored, "sha256": digest_of(stored), **private}.items():
        file.attrs.create(name, np.bytes_(value.encode()) if isinstance(value, str) else value)


def create_array(group: Any, name: str, shape: Sequence[int], dtype: Any) -> Any:
    """An array of a measurement, still empty.  A chunk has one cell, so that one cell after the other can be filled."""
    chunks, room = list[int](), CHUNK
    for size in (*reversed(shape[3:]), min(shape[2], MOST_ROWS)):
        chunks.insert(0, max(1, min(size, room)))
        room //= chunks[0]
    # -1 is never a count: a chunk that is lost is noticed
    return group.create_dataset(name, shape, dtype, chunks=(1, 1, *chunks), fletcher32=True, fillvalue=-1, **PACKED)


def attach(group: Any, variable: Any, names: Sequence[str]) -> None:
    """Names the dimensions of a variable."""
    for axis, name in enumerate(names):
        variable.dims[axis].attach_scale(group[name])


def write_header(group: Any, header: Header, repetitions: range, layout: Layout) -> None:
    """All that does not grow with the repetitions: for us in one text, for others as variables with dimensions."""
    for name, content in _scales(header, repetitions, layout).items():
        _create(group, name, content).make_scale(name)
    others = {name: found for name, found in _variables(header).items() if name not in layout.arrays}
    for name, (names, content) in others.items():
        attach(group, _create(group, name, content), names)
    text = json.dumps(header_document(header, layout)).encode()
    group.create_dataset("header", data=np.bytes_(text))
    group.attrs["users"] = header.n
    group.attrs.create("sha256", np.bytes_(hashlib.sha256(text).hexdigest()))


def _create(group: Any, name: str, content: Any) -> Any:
    if content.dtype.kind == "U":
        encoded = np.char.encode(content, "utf-8", "surrogatepass")
        typed = encoded.astype(h5py.string_dtype("utf-8", max(1, encoded.dtype.itemsize)))
        node = group.create_dataset(name, data=typed, chunks=True, fletcher32=True)
        node.attrs.create("_Encoding", np.bytes_("utf-8"))  # xarray then gives str
        return node
    packed = PACKED if content.size > SMALL else {}
    return group.create_dataset(name, data=content, chunks=True, fletcher32=True, **packed)


def _scales(header: Header, repetitions: range, layout: Layout) -> dict[str, Any]:
    attribute = np.repeat(np.arange(len(header.domain)), header.domain)
    own = {dim: np.array(values) for dim, values in layout.coords.items()}
    return {
        "protocol": _text(header.protocols),
        "epsilon": np.array(header.epsilons),
        "repetition": np.array(repetitions, np.uint64),
        "attribute": _text(header.names),
        "value": _text([f"{header.names[j]}={v}" for j, v in zip(attribute, _labels(header), strict=True)]),
        **{dim: found if found.dtype.kind in "iuf" else _text(found) for dim, found in own.items()},
    }


def _labels(header: Header) -> list[Any]:
    return [v for row in header.labels or map(range, header.domain) for v in row]


def _variables(header: Header) -> dict[str, tuple[tuple[str, ...], Any]]:
    """Dimensions and content of each variable; the header has more."""
    plan, every = header.plan, (*CELL[:2], "attribute")
    rows, index = _rows(plan)
    columns, cells = dict(zip(ROW, zip(*rows, strict=True), strict=True)), np.array(index)
    wide = max(map(len, columns["integers"]))
    integers = np.array([[*found, *[-1] * (wide - len(found))] for found in columns["integers"]], np.int64)
    variables = {
        "protocol_label": (("protocol",), _text([look.label for look in plan.looks])),
        **{name: (every, _text(columns[name])[cells]) for name in ("mechanism", "noise", "unsampled")},
        **{name: (every, np.array(columns[name], np.float64)[cells]) for name in NUMBERS},
        **{f"integer_{i + 1}": (every, integers[cells, i]) for i in range(wide)},
        "frequency": (("value",), header.frequencies),
        "value_attribute": (("value",), np.repeat(np.arange(plan.d), header.domain).astype(np.int32)),
        "domain": (("attribute",), np.array(header.domain, np.int32)),
    }
    if header.labels:
        variables["label"] = (("value",), _text(_labels(header)))
    return variables


def _text(content: Iterable[Any]) -> Any:
    return np.array([str(text) for text in content], str)
