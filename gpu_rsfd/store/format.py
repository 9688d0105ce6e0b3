"""The layout of a results file (format 2): one HDF5 file with dimension scales, as xarray reads it.

A group for each data set has a header (all that does not grow: labels and looks of the protocols, the integers, rates
and losses of every cell, the true frequencies) and the arrays of a measurement, [protocol, epsilon, repetition, …].
Every array of numbers has a checksum; all text has one together, as have the attributes of the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from gpu_rsfd.measure.base import Array
from gpu_rsfd.planning import Counts
from gpu_rsfd.protocols import Unsampled
from gpu_rsfd.protocols.form import Thresholds
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.results.estimate import STORED
from gpu_rsfd.results.result import Header
from gpu_rsfd.store.identity import digest_of
from gpu_rsfd.tape import KEEP_ONE

FORMAT = 2  # of the file; the stream has a version of its own
LIBVER = "v110"  # from here on HDF5 has checksums for its own structures, too
CHUNK = 1 << 17  # numbers in a chunk: a megabyte
MOST_ROWS = 1024  # repetitions in a chunk
SMALL = 1000  # numbers; smaller arrays are not compressed
UNSAMPLED = (*(others.value for others in Unsampled), "prior")  # prior: fakes that follow the prior
CELL = ("protocol", "epsilon")
NUMBERS = {  # of each cell and attribute
    **dict.fromkeys(("unsampled", "noise", "plain", "claimed"), np.int8),
    **dict.fromkeys(("base", "slope", "gain", "budget", "spent", "loss", "bits"), np.float64),
}
LOOKS = ("label", "colour", "marker", "summary")  # of each protocol, as protocol_label …

Variables = dict[str, tuple[tuple[str, ...], Any]]  # name -> dimensions, content


def chunk_rows(header: Header, total: int, unit: int = 1) -> int:
    """Repetitions in a chunk; if they are drawn `unit` at a time, as many as go into that without a rest."""
    most = max(1, min(CHUNK // header.plan.values, MOST_ROWS))
    if unit > 1:
        most = max(rows for rows in range(1, min(unit, 3 * most) + 1) if unit % rows == 0)
    return min(most, total)


def create_arrays(group: Any, arrays: Sequence[Array], header: Header, repetitions: int, rows: int) -> dict[str, Any]:
    """The arrays of a measurement, still empty: a chunk has one cell, so what is not filled takes no room.

    Chunks of one file fit into another's.
    """
    cells, rows = (len(header.protocols), len(header.epsilons)), min(rows, repetitions)
    made = {}
    for array in arrays:
        tail = array.tail(header)
        made[array.name] = group.create_dataset(
            array.name,
            (*cells, repetitions, *tail),
            array.dtype,
            chunks=(1, 1, rows, *(min(size, CHUNK) for size in tail)),
            compression="gzip",
            compression_opts=1,
            shuffle=True,
            fletcher32=True,
            fillvalue=-1,  # never a count: a chunk that is lost is noticed
        )
    return made


def dimensions(array: Array) -> tuple[str, ...]:
    return (*CELL, "repetition", *([array.dimension] if array.dimension else []))


def attach(group: Any, variable: Any, names: Sequence[str]) -> None:
    for axis, name in enumerate(names):
        variable.dims[axis].attach_scale(group[name])


def write_header(group: Any, header: Header, repetitions: range) -> None:
    """All that does not grow with the repetitions.  What a data set or a protocol has more of, is added here."""
    scales, variables = _scales(header, repetitions), _variables(header)
    texts: dict[str, Any] = {}
    for name, content in scales.items():
        _create(group, name, content).make_scale(name)
        texts |= {name: content.tolist()} if content.dtype.kind == "O" else {}
    for name, (names, content) in variables.items():
        attach(group, _create(group, name, content), names)
        texts |= {name: content.tolist()} if content.dtype.kind == "O" else {}
    group.attrs["users"] = header.n
    group.attrs["noises"] = json.dumps(_noises(header))
    group.attrs["sha256"] = text_digest(header.n, _noises(header), texts)


def text_digest(users: int, noises: Sequence[str], texts: Mapping[str, Any]) -> str:
    """HDF5 keeps text apart from its arrays, without a checksum."""
    return digest_of([users, list(noises), dict(texts)])


def _create(group: Any, name: str, content: Any) -> Any:
    if content.dtype.kind == "O" or not content.size:
        return group.create_dataset(name, data=content)
    packed = {"compression": "gzip", "compression_opts": 1, "shuffle": True} if content.size > SMALL else {}
    return group.create_dataset(name, data=content, chunks=True, fletcher32=True, **packed)


def _scales(header: Header, repetitions: range) -> dict[str, Any]:
    attribute = np.repeat(np.arange(len(header.domain)), header.domain)
    return {
        "protocol": _text(header.protocols),
        "epsilon": np.array(header.epsilons),
        "repetition": np.array(repetitions, np.uint64),
        "postprocess": _text(STORED),
        "attribute": _text(header.names),
        "value": _text([f"{header.names[j]}={v}" for j, v in zip(attribute, _labels(header), strict=True)]),
    }


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
    every = (*CELL, "attribute")
    exact = np.array([[losses(ms, [1, plan.d]) for ms in row] for row in plan.mechanisms])
    variables: Variables = {
        **{f"protocol_{look}": (("protocol",), _text([getattr(x, look) for x in plan.looks])) for look in LOOKS},
        "mechanism": (every, _text(names)[index]),
        **{f"integer_{i + 1}": (every, padded[index, i]) for i in range(wide)},
        **{
            name: (every, np.array(column, dtype)[index])
            for (name, dtype), column in zip(NUMBERS.items(), columns, strict=True)
        },
        "loss_one": (CELL, exact[:, :, 0]),
        "loss_all": (CELL, exact[:, :, 1]),
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
    return np.array([str(text) for text in content], h5py.string_dtype())
