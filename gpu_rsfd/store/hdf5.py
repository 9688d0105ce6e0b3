"""The layout of a results file: one HDF5 file with dimension scales, as xarray reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from gpu_rsfd.estimate import POSTPROCESS
from gpu_rsfd.plan import Counts
from gpu_rsfd.protocols.form import Thresholds
from gpu_rsfd.results import Result, Results
from gpu_rsfd.store.files import StoreError, replaced
from gpu_rsfd.store.pieces import InMemory, Piece, first_ones, join
from gpu_rsfd.store.reading import FORMAT
from gpu_rsfd.tape import KEEP_ONE, STREAM_VERSION
from gpu_rsfd.version import __version__

CHUNK = 1 << 17  # numbers in a chunk: a megabyte
MOST_ROWS = 1024  # repetitions in a chunk
LOOKED_AT = 8  # cells of each data set that are read back before a file is replaced


def chunk_rows(values: int, epsilons: int, total: int, unit: int = 1) -> int:
    """Repetitions in a chunk; if they are drawn `unit` at a time, as many as go into that without a rest."""
    most = max(1, min(CHUNK // values, CHUNK // epsilons, MOST_ROWS))
    if unit > 1:
        most = max(rows for rows in range(1, min(unit, 3 * most) + 1) if unit % rows == 0)
    return min(most, total)


@dataclass(frozen=True)
class Part:
    """A data set's group: all about it but the repetitions; and where these are."""

    head: Result
    pieces: Sequence[Piece]
    rows: int  # of a chunk
    counts: bool = True
    seconds: float = 0.0

    @property
    def end(self) -> int:
        """Repetitions that can be written: those from the first on without a gap."""
        return first_ones(self.pieces)[1]


@dataclass
class Run:
    """What the whole file says."""

    spec: Mapping[str, Any]
    backend: str = ""
    device: str = ""
    parts: dict[str, Part] = field(default_factory=dict)


def save(path: Path, results: Results) -> None:
    """Write results that are in memory to a file."""
    run = Run(results.spec, results.backend, results.device)
    for name, result in results.items():
        rows = chunk_rows(result.plan.values, len(result.epsilons), len(result.repetitions))
        run.parts[name] = Part(result, [InMemory(result)], rows, seconds=results.seconds.get(name, 0.0))
    write(path, run)


def write(path: Path, run: Run) -> bool:
    """Puts all pieces together into the file at `path`, in the order of the spec; says whether that is all."""
    spec = run.spec
    total = len(range(*spec["repetitions"]))
    names = [d["name"] for d in spec["datasets"] if d["name"] in run.parts and run.parts[d["name"]].end]
    complete = len(names) == len(spec["datasets"]) and all(run.parts[name].end == total for name in names)
    cells = len(spec["protocols"]) * len(spec["epsilons"])
    with (
        replaced(path, lambda beside: _read_back(path, beside, run, names)) as image,
        h5py.File(image, "w", libver="v108") as file,
    ):
        file.attrs["format"] = FORMAT
        file.attrs["spec"] = json.dumps(spec)
        file.attrs["complete"] = np.uint8(complete)
        file.attrs["stream_version"] = STREAM_VERSION
        file.attrs["package_version"] = __version__
        file.attrs["numpy_version"] = np.__version__  # what the samplers' draws depend on (the tape does not)
        file.attrs["backend"] = run.backend
        file.attrs["device"] = run.device
        seconds = {name: run.parts[name].seconds for name in names}
        file.attrs["wall_time"] = json.dumps(  # one pass serves all cells of a data set: each has an equal share
            {name: {"seconds": s, "mean_seconds_per_cell": s / cells} for name, s in seconds.items()}
        )
        # Groups are not copied from the file before: references between their dimensions would not survive that.
        for name in names:
            _write_group(file.create_group(name), run.parts[name])
    return complete


def _read_back(path: Path, image: Path, run: Run, names: Iterable[str]) -> None:
    """What would replace the old file must be readable and say the same; every library version is tried this way."""
    try:
        with h5py.File(image, "r") as file:
            same = file.attrs["spec"] == json.dumps(run.spec) and all(
                _same(file[name], run.parts[name]) for name in names
            )
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        raise _unreadable(path) from error
    if not same:
        raise _unreadable(path)


def _same(group: Any, part: Part) -> bool:
    """The newest repetition of some cells."""
    chosen, end = first_ones(part.pieces)
    head, newest = part.head, chosen[-1][0]
    shape = (len(head.protocols), len(head.epsilons), end)
    name, last = ("counts", head.plan.values) if part.counts else ("reporters", len(head.domain))
    if group[name].shape != (*shape, last) or group["mse"].shape != (len(POSTPROCESS), *shape):
        return False
    protocols = np.unique(np.linspace(0, shape[0] - 1, LOOKED_AT).astype(int)).tolist()
    for p in protocols:
        e = p % shape[1]
        if not np.array_equal(group[name][p, e, end - 1], newest.read(name, p, end - 1, end)[e, 0]):
            return False
    return True


def _unreadable(path: Path) -> StoreError:
    versions = f"h5py {h5py.version.version} with HDF5 {h5py.version.hdf5_version}"
    return StoreError(f"can't write {path}: {versions} can't read back what it wrote; try another version of h5py")


def create_variables(group: Any, head: Result, repetitions: int, rows: int, counts: bool) -> dict[str, Any]:
    """The variables that grow with the repetitions, still empty.  Chunks of one file fit into another's."""
    protocols, epsilons, posts = len(head.protocols), len(head.epsilons), len(POSTPROCESS)
    rows = min(rows, repetitions)
    values, d = head.plan.values, len(head.domain)
    made = {
        "counts": ((protocols, epsilons, repetitions, values), (1, 1, rows, min(values, CHUNK)), np.int64),
        "reporters": ((protocols, epsilons, repetitions, d), (1, 1, rows, min(d, CHUNK)), np.int64),
        "mse": ((posts, protocols, epsilons, repetitions), (posts, 1, epsilons, rows), np.float64),
    }
    if not counts:
        del made["counts"]
    return {
        name: group.create_dataset(
            name, shape, dtype, chunks=chunks, compression="gzip", compression_opts=1, shuffle=True
        )
        for name, (shape, chunks, dtype) in made.items()
    }


def _write_group(group: Any, part: Part) -> None:
    chosen, end = first_ones(part.pieces)
    spec = part.head.spec
    write_head(group, replace(part.head, spec=replace(spec, repetitions=spec.repetitions[:end])))
    cell = ("protocol", "epsilon")
    dimensions = {
        "counts": (*cell, "repetition", "value"),
        "reporters": (*cell, "repetition", "attribute"),
        "mse": ("postprocess", *cell, "repetition"),
    }
    for name, variable in create_variables(group, part.head, end, part.rows, part.counts).items():
        join(variable, name, chosen)
        _attach(group, variable, dimensions[name])


def write_head(group: Any, result: Result) -> None:
    """All that does not grow with the repetitions.  What a spec or a data set has more of, is added here."""
    group.attrs["users"] = result.n
    text = h5py.string_dtype()
    spec = result.spec
    value_attribute = np.repeat(np.arange(len(result.domain)), result.domain)
    labels = (
        [v for row in result.labels for v in row] if result.labels else [v for k in result.domain for v in range(k)]
    )
    scales = {
        "protocol": np.array(spec.protocols, text),
        "epsilon": np.array(spec.epsilons),
        "repetition": np.array(spec.repetitions, np.uint64),
        "postprocess": np.array(list(POSTPROCESS), text),
        "attribute": np.array(result.names, text),
        "value": np.array([f"{result.names[j]}={v}" for j, v in zip(value_attribute, labels, strict=True)], text),
    }
    for name, content in scales.items():
        group.create_dataset(name, data=content).make_scale(name)

    def of_mechanisms(read: Any, dtype: Any) -> Any:
        return np.array([[[read(m) for m in row] for row in table] for table in result.plan.mechanisms], dtype)

    cell = ("protocol", "epsilon")
    variables = {
        "mechanism": ((*cell, "attribute"), of_mechanisms(lambda m: m.name, text)),
        "keep": ((*cell, "attribute"), of_mechanisms(lambda m: m.recipe.stored[0], np.int64)),
        "threshold_p": ((*cell, "attribute"), of_mechanisms(lambda m: m.recipe.stored[1], np.int32)),
        "threshold_q": ((*cell, "attribute"), of_mechanisms(lambda m: m.recipe.stored[2], np.int32)),
        "frequency": (("value",), result.frequencies),
        "value_attribute": (("value",), value_attribute.astype(np.int32)),
        "domain": (("attribute",), np.array(result.domain, np.int32)),
    }
    if result.terms.priors is not None:
        variables["prior"] = (("value",), prior_column(result.terms.priors, result.domain))
    if result.labels:
        variables["label"] = (("value",), np.array(labels, text))
    for name, (dimensions, content) in variables.items():
        options = {"compression": "gzip", "compression_opts": 1, "shuffle": True} if content.size > 1000 else {}
        _attach(group, group.create_dataset(name, data=content, **options), dimensions)


def prior_column(priors: Sequence[Thresholds | None], domain: Sequence[int]) -> Counts:
    """The thresholds of fake values over all values in order: the last of an attribute is 2**32; -1: uniform."""
    rows = [[-1] * k if row is None else [*row, KEEP_ONE] for row, k in zip(priors, domain, strict=True)]
    return np.array([t for row in rows for t in row], np.int64)


def _attach(group: Any, dataset: Any, dimensions: Sequence[str]) -> None:
    for axis, dimension in enumerate(dimensions):
        dataset.dims[axis].attach_scale(group[dimension])
