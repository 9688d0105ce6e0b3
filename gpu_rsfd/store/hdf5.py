"""The layout of a results file: one HDF5 file with dimension scales, as xarray reads it."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from gpu_rsfd.estimate import POSTPROCESS
from gpu_rsfd.plan import Counts
from gpu_rsfd.protocols.form import Thresholds
from gpu_rsfd.results import Result, Results
from gpu_rsfd.store.files import StoreError, replace_file
from gpu_rsfd.store.reading import FORMAT
from gpu_rsfd.tape import KEEP_ONE, STREAM_VERSION
from gpu_rsfd.version import __version__


def save(path: Path, results: Results) -> None:
    """Write all that is done to the file, in the order of the spec."""
    spec = results.spec
    image = io.BytesIO()
    # an open file's image has wrong checksums in HDF5 1.14: the bytes are taken only after the file is closed
    with h5py.File(image, "w", libver="v108") as file:
        cells = len(spec["protocols"]) * len(spec["epsilons"])
        file.attrs["format"] = FORMAT
        file.attrs["spec"] = json.dumps(spec)
        file.attrs["complete"] = np.uint8(results.complete)
        file.attrs["stream_version"] = STREAM_VERSION
        file.attrs["package_version"] = __version__
        file.attrs["numpy_version"] = np.__version__  # what the samplers' draws depend on (the tape does not)
        file.attrs["backend"] = results.backend
        file.attrs["device"] = results.device
        file.attrs["wall_time"] = json.dumps(  # one pass serves all cells of a data set: each has an equal share
            {name: {"seconds": s, "mean_seconds_per_cell": s / cells} for name, s in results.seconds.items()}
        )
        # Groups are not copied from the file before: references between their dimensions would not survive that.
        for dataset in spec["datasets"]:
            if dataset["name"] in results:
                _write_group(file.create_group(dataset["name"]), results[dataset["name"]])
    _read_back(path, image, results)
    replace_file(path, image.getbuffer())


def _read_back(path: Path, image: io.BytesIO, results: Results) -> None:
    """What would replace the old file must be readable and say the same; every library version is tried this way."""
    try:
        with h5py.File(image, "r") as file:
            same = file.attrs["spec"] == json.dumps(results.spec) and all(
                file[name]["counts"].shape == result.counts.shape
                and np.array_equal(file[name]["counts"][:, :, -1], result.counts[:, :, -1])  # the newest
                for name, result in results.items()
            )
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        raise _unreadable(path) from error
    if not same:
        raise _unreadable(path)


def _unreadable(path: Path) -> StoreError:
    versions = f"h5py {h5py.version.version} with HDF5 {h5py.version.hdf5_version}"
    return StoreError(f"can't write {path}: {versions} can't read back what it wrote; try another version of h5py")


def _write_group(group: Any, result: Result) -> None:
    if result.errors is None:
        result = result.with_errors()
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
        "counts": ((*cell, "repetition", "value"), result.counts),
        "reporters": ((*cell, "repetition", "attribute"), result.reporters),
        "mse": (("postprocess", *cell, "repetition"), result.errors),
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
        if name == "counts":
            options["chunks"] = _chunks(content)
        dataset = group.create_dataset(name, data=content, **options)
        for axis, dimension in enumerate(dimensions):
            dataset.dims[axis].attach_scale(group[dimension])


def prior_column(priors: Sequence[Thresholds | None], domain: Sequence[int]) -> Counts:
    """The thresholds of fake values over all values in order: the last of an attribute is 2**32; -1: uniform."""
    rows = [[-1] * k if row is None else [*row, KEEP_ONE] for row, k in zip(priors, domain, strict=True)]
    return np.array([t for row in rows for t in row], np.int64)


def _chunks(counts: Counts) -> tuple[int, ...]:
    """One protocol and epsilon, and as many repetitions as make about a megabyte."""
    repetitions, values = counts.shape[2:]
    return 1, 1, max(1, min(repetitions, (1 << 17) // values)), min(values, 1 << 17)
