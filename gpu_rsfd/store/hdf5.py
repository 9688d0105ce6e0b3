"""The results file (format 3): one HDF5 file with dimension scales, as xarray reads it.

A group for each data set has a header (all that does not grow: labels and looks of the protocols, the integers, rates
and losses of every cell, the true frequencies) and the arrays of a measurement, [protocol, epsilon, repetition, …].
Every array has a checksum; all text of a group has one together, as have the attributes of the file.  Text has a fixed
length: text of any length lies in HDF5's global heap, where one changed bit makes a reader loop for ever.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from gpu_rsfd.checks import MAX_USERS
from gpu_rsfd.datasets.base import check_labels
from gpu_rsfd.domain import Domain
from gpu_rsfd.planning import Counts, Look, Plan, Rates
from gpu_rsfd.protocols import Mechanism, Recipe, Unsampled
from gpu_rsfd.protocols.form import Thresholds, noise_of
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.results.result import CELL, Column, Header, Layout
from gpu_rsfd.store.fields import Fields, shown
from gpu_rsfd.store.identity import digest_of
from gpu_rsfd.tape import KEEP_ONE

FORMAT = 3  # of the file; the stream has a version of its own
LIBVER = "v110"  # from here on HDF5 has checksums for its own structures, too
CHUNK = 1 << 17  # numbers in a chunk: a megabyte
MOST_ROWS = 1024  # repetitions in a chunk
SMALL = 1000  # numbers; smaller arrays are not compressed
SUM_TOLERANCE = 1e-6  # frequencies of an attribute sum to 1
MOST_INTEGERS = 16  # of a noise
UNSAMPLED = (*(others.value for others in Unsampled), "prior")  # prior: fakes that follow the prior
NUMBERS = {  # of each cell and attribute
    **dict.fromkeys(("unsampled", "noise", "plain", "claimed"), np.int8),
    **dict.fromkeys(("base", "slope", "gain", "budget", "spent", "loss", "bits"), np.float64),
}
LOOKS = ("label", "colour", "marker", "summary")  # of each protocol, as protocol_label …

Variables = dict[str, tuple[tuple[str, ...], Any]]  # name -> dimensions, content
Cell = tuple[Recipe, Rates, Mechanism]

# ------------------------------------------------------------------------------------------------------------- writing


def create_array(group: Any, name: str, shape: Sequence[int], dtype: Any) -> Any:
    """An array of a measurement, still empty.  A chunk has one cell, so that one cell after the other can be filled."""
    rows = min(max(1, min(CHUNK // max(1, math.prod(shape[3:])), MOST_ROWS)), shape[2])
    return group.create_dataset(
        name,
        shape,
        dtype,
        chunks=(1, 1, rows, *(min(size, CHUNK) for size in shape[3:])),
        compression="gzip",
        compression_opts=1,
        shuffle=True,
        fletcher32=True,
        fillvalue=-1,  # never a count: a chunk that is lost is noticed
    )


def write_attributes(node: Any, attributes: Mapping[str, Any]) -> None:
    """Attributes of a file or a group, with one checksum of them all."""
    for name, value in {**attributes, "sha256": digest_of(dict(attributes))}.items():
        node.attrs.create(name, np.bytes_(value.encode()) if isinstance(value, str) else value)


def attach(group: Any, variable: Any, names: Sequence[str]) -> None:
    for axis, name in enumerate(names):
        variable.dims[axis].attach_scale(group[name])


def write_header(group: Any, header: Header, repetitions: range, layout: Layout) -> None:
    """All that does not grow with the repetitions.  What a data set or a protocol has more of, is added here."""
    for name, content in _scales(header, repetitions, layout).items():
        _create(group, name, content).make_scale(name)
    for name, (names, content) in _variables(header).items():
        attach(group, _create(group, name, content), names)
    baselines = {name: column.baseline for name, column in layout.columns.items() if column.baseline is not None}
    write_attributes(
        group, {"users": header.n, "noises": json.dumps(_noises(header)), "baselines": json.dumps(baselines)}
    )


def _create(group: Any, name: str, content: Any) -> Any:
    if content.dtype.kind == "U":
        encoded = np.char.encode(content, "utf-8", "surrogatepass")
        typed = encoded.astype(h5py.string_dtype("utf-8", max(1, encoded.dtype.itemsize)))
        node = group.create_dataset(name, data=typed, chunks=True, fletcher32=True)
        node.attrs.create("_Encoding", np.bytes_("utf-8"))  # xarray then gives str
        return node
    if not content.size:
        return group.create_dataset(name, data=content)
    packed = {"compression": "gzip", "compression_opts": 1, "shuffle": True} if content.size > SMALL else {}
    return group.create_dataset(name, data=content, chunks=True, fletcher32=True, **packed)


def _scales(header: Header, repetitions: range, layout: Layout) -> dict[str, Any]:
    attribute = np.repeat(np.arange(len(header.domain)), header.domain)
    return {
        "protocol": _text(header.protocols),
        "epsilon": np.array(header.epsilons),
        "repetition": np.array(repetitions, np.uint64),
        "attribute": _text(header.names),
        "value": _text([f"{header.names[j]}={v}" for j, v in zip(attribute, _labels(header), strict=True)]),
        **{dim: _coordinates(values) for dim, values in layout.coords.items()},
    }


def _coordinates(values: Sequence[Any]) -> Any:
    found = np.array(values)
    return found if found.dtype.kind in "iuf" else _text(values)


def _labels(header: Header) -> list[Any]:
    if header.labels:
        return [v for row in header.labels for v in row]
    return [v for k in header.domain for v in range(k)]


def _noises(header: Header) -> list[str]:
    return sorted({recipe.noise.kind for a in header.plan.attributes for recipe in a.recipes})


def _variables(header: Header) -> Variables:
    plan, noises = header.plan, _noises(header)
    # equal mechanisms are one object, mostly: each is looked at once
    kinds: dict[tuple[int, int], int] = {}
    rows: list[tuple[Any, ...]] = []
    index = np.empty((len(plan.looks), len(plan.epsilons), plan.d), np.int64)
    for p, table in enumerate(plan.mechanisms):
        for e, ms in enumerate(table):
            for j, m in enumerate(ms):
                a, r = plan.attributes[j], plan.cells[p][e][j]
                key = (id(m), id(a.rates[r]))
                if key not in kinds:
                    kinds[key] = len(rows)
                    others = "prior" if m.recipe.prior is not None else m.recipe.unsampled.value
                    codes = (UNSAMPLED.index(others), noises.index(m.recipe.noise.kind), m.plain, m.claimed)
                    rows.append((m.name, m.recipe.noise.integers, *codes, *a.rates[r], *_spending(m)))
                index[p, e, j] = kinds[key]
    names, integers, *columns = zip(*rows, strict=True)
    wide = max(map(len, integers))
    padded = np.array([[*found, *[-1] * (wide - len(found))] for found in integers], np.int64)
    cell = CELL[:2]
    every = (*cell, "attribute")
    exact = np.array([[losses(ms, [1, plan.d]) for ms in row] for row in plan.mechanisms])
    variables: Variables = {
        **{f"protocol_{look}": (("protocol",), _text([getattr(x, look) for x in plan.looks])) for look in LOOKS},
        "mechanism": (every, _text(names)[index]),
        **{f"integer_{i + 1}": (every, padded[index, i]) for i in range(wide)},
        **{
            name: (every, np.array(column, dtype)[index])
            for (name, dtype), column in zip(NUMBERS.items(), columns, strict=True)
        },
        "loss_one": (cell, exact[:, :, 0]),
        "loss_all": (cell, exact[:, :, 1]),
        "frequency": (("value",), header.frequencies),
        "value_attribute": (("value",), np.repeat(np.arange(plan.d), header.domain).astype(np.int32)),
        "domain": (("attribute",), np.array(header.domain, np.int32)),
    }
    priors = [next((r.prior for r in a.recipes if r.prior is not None), None) for a in plan.attributes]
    if any(prior is not None for prior in priors):
        variables["prior"] = (("value",), prior_column(priors, header.domain))
    if header.labels:
        variables["label"] = (("value",), _text(_labels(header)))
    return variables


def _spending(m: Any) -> tuple[float, ...]:
    return m.budget, m.spent, m.loss, m.bits


def prior_column(priors: Sequence[Thresholds | None], domain: Sequence[int]) -> Counts:
    """The thresholds of fake values over all values in order: the last of an attribute is 2**32; -1: uniform."""
    rows = [[-1] * k if row is None else [*row, KEEP_ONE] for row, k in zip(priors, domain, strict=True)]
    return np.array([t for row in rows for t in row], np.int64)


def _text(content: Sequence[Any]) -> Any:
    return np.array([str(text) for text in content], str)


# ------------------------------------------------------------------------------------------------------------- reading


class HeaderReader(Fields):
    """The group of a data set; `dataset` is what the spec says of it."""

    def __init__(self, file: Fields, dataset: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        name = dataset["name"]
        group = file.read(name, lambda: file.node[name])
        if not isinstance(group, h5py.Group):
            file.refuse(name, "is not a group of HDF5")
        super().__init__(file.path, group, file.size, name)
        self.dataset, self.spec = dataset, spec

    def header(self) -> Header:
        """All about a data set but its repetitions."""
        stored = self.attributes(("users", "noises", "baselines"))
        users, domain, noises = self.users(), self.domain(), stored["noises"]
        protocols, epsilons, d = tuple(self.spec["protocols"]), tuple(map(float, self.spec["epsilons"])), len(domain)
        shapes: dict[str, tuple[int, ...]] = {
            **{name: (len(protocols),) for name in ("protocol", *(f"protocol_{look}" for look in LOOKS))},
            "attribute": (d,),
            "value": (domain.total,),
            "mechanism": (len(protocols), len(epsilons), d),
            **({"label": (domain.total,)} if self.has("label") else {}),
        }
        texts = {field: self.texts(field, shape) for field, shape in shapes.items()}
        kinds = self.read("noises", lambda: [str(kind) for kind in json.loads(noises)])
        labels = self.labels(texts["label"], domain) if "label" in texts else None
        looks = tuple(Look(*row) for row in zip(protocols, *(texts[f"protocol_{x}"] for x in LOOKS), strict=True))
        plan = self.plan(domain, looks, epsilons, texts["mechanism"], kinds)
        return Header(users, domain, tuple(texts["attribute"]), self.frequencies(domain), plan, labels)

    def layout(self, layout: Layout) -> Layout:
        """The layout of the file, with the baselines of this data set."""
        known = self.json("baselines")
        columns = {name: column._replace(baseline=known.get(name)) for name, column in layout.columns.items()}
        return layout._replace(columns=columns)

    def check_scales(self, header: Header, repetitions: range, layout: Layout) -> None:
        """What xarray shows beside the arrays is what the spec says."""
        wanted: dict[str, Sequence[Any]] = {
            **{"protocol": header.protocols, "epsilon": header.epsilons, "repetition": repetitions},
            **layout.coords,
        }
        for field, expected in wanted.items():
            text = any(isinstance(value, str) for value in expected)
            shape = (len(expected),)
            has = self.texts(field, shape) if text else self.numbers(field, "fiu", shape).tolist()
            if list(has) != list(expected):
                self.refuse(field, f"is {shown(has)}, but spec says {shown(list(expected))}")

    def users(self) -> int:
        users = self.whole("users", 1, MAX_USERS)
        if users != self.dataset["users"]:
            self.refuse("users", f"is {users}, but spec says {self.dataset['users']}")
        return users

    def domain(self) -> Domain:
        sizes = self.numbers("domain", "iu", (len(self.dataset["domain"]),)).tolist()
        if sizes != self.dataset["domain"]:
            self.refuse("domain", f"is {shown(sizes)}, but spec says {shown(self.dataset['domain'])}")
        return Domain(sizes)

    def labels(self, texts: Sequence[str], domain: Domain) -> Any:
        return self.checked("label", lambda: check_labels([texts[columns] for columns in domain.slices], domain))

    def frequencies(self, domain: Domain) -> Any:
        frequencies = self.numbers("frequency", "f", (sum(domain),)).astype(np.float64)
        if not (np.isfinite(frequencies) & (frequencies >= 0) & (frequencies <= 1)).all():
            self.refuse("frequency", "has numbers outside 0 … 1")
        for j, columns in enumerate(domain.slices):
            if abs((total := float(frequencies[columns].sum())) - 1) > SUM_TOLERANCE:
                self.refuse("frequency", f"sums to {total:g} over attribute {j}; it must be 1")
        return frequencies

    def priors(self, domain: Domain) -> tuple[Thresholds | None, ...]:
        """The distribution of fake values, as its thresholds realise it; None where it is uniform."""
        if not self.has("prior"):
            return (None,) * len(domain)
        column = self.numbers("prior", "i", (domain.total,)).tolist()
        rows: list[Thresholds | None] = []
        for j, columns in enumerate(domain.slices):
            row = column[columns]
            uniform = all(t == -1 for t in row)
            if not uniform and (row[-1] != KEEP_ONE or row[0] < 0 or sorted(row) != row):
                self.refuse("prior", f"is {shown(row)} for attribute {j}; ascending thresholds up to 2**32 are needed")
            rows.append(None if uniform else tuple(row[:-1]))
        return tuple(rows)

    def plan(
        self, domain: Domain, looks: tuple[Look, ...], epsilons: tuple[float, ...], mechanisms: Any, noises: list[str]
    ) -> Plan:
        """The plan as its integers and rates say, whatever protocols this installation knows."""
        every = (len(looks), len(epsilons), len(domain))
        count = sum(self.has(f"integer_{i + 1}") for i in range(MOST_INTEGERS))
        columns = [self.numbers(f"integer_{i + 1}", "i", every) for i in range(count)]
        columns += [self.numbers(name, "i" if dtype is np.int8 else "f", every) for name, dtype in NUMBERS.items()]
        rows = iter(zip(*(column.ravel().tolist() for column in columns), strict=True))
        priors = self.priors(domain)
        known: dict[tuple[Any, ...], Cell] = {}

        def cell(row: tuple[Any, ...], j: int, mechanism: str) -> Cell:
            key = (j if priors[j] is not None else -1, domain[j], mechanism, row)
            if key not in known:
                known[key] = self._cell(row[:count], row[count:], mechanism, domain, j, priors[j], noises)
            return known[key]

        table = [
            [[cell(next(rows), j, text) for j, text in enumerate(texts)] for texts in by_epsilon]
            for by_epsilon in mechanisms
        ]
        rates = {(recipe, len(domain), m.k): r for recipe, r, m in known.values()}
        plan = Plan.compiled(
            domain,
            looks,
            epsilons,
            [[[one[0] for one in row] for row in by_epsilon] for by_epsilon in table],
            str(self.spec.get("assignment", "uniform")),
            lambda recipe, d, k: rates[recipe, d, k],
        )
        plan.__dict__["mechanisms"] = tuple(
            tuple(tuple(one[2] for one in row) for row in by_epsilon) for by_epsilon in table
        )
        return plan

    def _cell(
        self,
        integers: Sequence[int],
        row: Sequence[Any],
        mechanism: str,
        domain: Domain,
        j: int,
        prior: Thresholds | None,
        noises: Sequence[str],
    ) -> Cell:
        unsampled, noise, plain, claimed, base, slope, gain, budget, spent, loss, bits = row
        if not 0 <= unsampled < len(UNSAMPLED) or not 0 <= noise < len(noises):
            self.refuse("unsampled", f"has {unsampled}, or noise {noise}, which mean nothing")
        if not (math.isfinite(base) and math.isfinite(slope) and math.isfinite(gain) and gain > 0):
            self.refuse("gain", f"is {gain}, with base {base} and slope {slope}; estimates need gain > 0")
        has_prior = UNSAMPLED[unsampled] == "prior"
        if has_prior and prior is None:
            self.refuse("prior", f"is missing for attribute {j}")
        given = [i for i in integers if i >= 0]
        what = self.read("noise", lambda: noise_of(noises[noise], given))
        others = Unsampled.FAKE if has_prior else Unsampled(UNSAMPLED[unsampled])
        recipe = self.read("noise", lambda: Recipe(others, what, prior if has_prior else None))
        made = Mechanism(
            mechanism, len(domain), domain[j], budget, recipe, spent, loss, bits, bool(plain), bool(claimed)
        )
        return recipe, Rates(base, slope, gain), made


def layout_document(layout: Layout) -> dict[str, Any]:
    """A layout as plain data, without what only its class can work out."""
    shown = {name: [c.label, c.better] for name, c in layout.columns.items() if c.of is None}
    arrays = {name: list(dims) for name, dims in layout.arrays.items()}
    return {**layout._asdict(), "arrays": arrays, "coords": dict(layout.coords), "columns": shown}


def read_layout(fields: Fields, document: Any) -> Layout:
    """A layout that a file has, checked."""

    def made() -> Layout:
        arrays = {str(name): tuple(map(str, dims)) for name, dims in document["arrays"].items()}
        coords = {str(dim): list(values) for dim, values in document["coords"].items()}
        columns = {str(name): Column(str(label), str(better)) for name, (label, better) in document["columns"].items()}
        for name, dims in arrays.items():
            if not name.isidentifier() or not set(dims) <= {"value", "attribute", *coords}:
                raise ValueError(f"array {name}")
        if not set(columns) <= {*arrays, "error"}:
            raise ValueError("columns")
        if not all(isinstance(x, (int, float, str)) for values in coords.values() for x in values):
            raise ValueError("coordinates")
        return Layout(str(document["name"]), str(document["command"]), arrays, coords, columns)

    return fields.read("layout", made)
