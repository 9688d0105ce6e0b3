"""Results in one HDF5 file that is never torn: written whole beside the output, then moved into its place."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from gpu_rsfd import estimate
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.estimate import POSTPROCESS, Floats
from gpu_rsfd.plan import Counts
from gpu_rsfd.reading import FORMAT, Results, open_results
from gpu_rsfd.simulate import Result
from gpu_rsfd.tape import STREAM_VERSION

__all__ = ["Part", "Results", "StoreError", "locked", "open_results", "replace_file", "save"]


class StoreError(RunError):
    """The results file can't be written now; what it held before is safe."""


@dataclass
class Part:
    """What is done of one data set: a result over the repetitions so far, its errors and the time it took."""

    result: Result
    mse: Floats  # [postprocess, protocol, epsilon, repetition]
    seconds: float

    @classmethod
    def of(cls, result: Result, seconds: float) -> Part:
        raw = estimate.estimates(result.plan, result.counts, result.reporters)
        mse = [
            estimate.mse_avg(result.frequencies, estimate.postprocess(name, raw, result.domain), result.domain)
            for name in POSTPROCESS
        ]
        return cls(result, np.stack(mse), seconds)

    def __add__(self, other: Part) -> Part:
        """This part, then the repetitions of `other`."""
        return Part(
            self.result.extended(other.result),
            np.concatenate([self.mse, other.mse], axis=-1),
            self.seconds + other.seconds,
        )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One sweep at a time on an output; the lock dies with its process, however that ends."""
    beside = path.with_name(path.name + ".lock")
    while True:
        try:
            handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InputError(f"output={path} can't be written: {error.strerror}: {path.parent}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise InputError(
                f"output={path} is in use by another gpu-rsfd; wait for it or give another output"
            ) from None
        if beside.exists() and os.path.samestat(os.fstat(handle), beside.stat()):
            break
        os.close(handle)  # its owner removed it just now: take a new one
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
        os.close(handle)


def save(path: Path, spec: dict[str, Any], parts: dict[str, Part], backend: str, device: str) -> None:
    """Write all parts to the file, in the order of the spec."""
    from gpu_rsfd import __version__

    image = io.BytesIO()
    # an open file's image has wrong checksums in HDF5 1.14: the bytes are taken only after the file is closed
    with h5py.File(image, "w", libver="v108") as file:
        total = len(range(*spec["repetitions"]))
        done = all(d["name"] in parts and len(parts[d["name"]].result.repetitions) == total for d in spec["datasets"])
        cells = len(spec["protocols"]) * len(spec["epsilons"])
        file.attrs["format"] = FORMAT
        file.attrs["spec"] = json.dumps(spec)
        file.attrs["complete"] = np.uint8(done)
        file.attrs["stream_version"] = STREAM_VERSION
        file.attrs["package_version"] = __version__
        file.attrs["numpy_version"] = np.__version__  # what the samplers' draws depend on (the tape does not)
        file.attrs["backend"] = backend
        file.attrs["device"] = device
        file.attrs["wall_time"] = json.dumps(  # one pass serves all cells of a data set: each has an equal share
            {name: {"seconds": p.seconds, "mean_seconds_per_cell": p.seconds / cells} for name, p in parts.items()}
        )
        # Groups are not copied from the file before: references between their dimensions would not survive that.
        for dataset in spec["datasets"]:
            if dataset["name"] in parts:
                _write_group(file.create_group(dataset["name"]), parts[dataset["name"]])
    _read_back(path, image, spec, parts)
    replace_file(path, image.getbuffer())


def _read_back(path: Path, image: io.BytesIO, spec: dict[str, Any], parts: dict[str, Part]) -> None:
    """What would replace the old file must be readable and say the same; every library version is tried this way."""
    try:
        with h5py.File(image, "r") as file:
            same = file.attrs["spec"] == json.dumps(spec) and all(
                file[name]["counts"].shape == part.result.counts.shape
                and np.array_equal(file[name]["counts"][:, :, -1], part.result.counts[:, :, -1])  # the newest
                for name, part in parts.items()
            )
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        raise _unreadable(path) from error
    if not same:
        raise _unreadable(path)


def _unreadable(path: Path) -> StoreError:
    versions = f"h5py {h5py.version.version} with HDF5 {h5py.version.hdf5_version}"
    return StoreError(f"can't write {path}: {versions} can't read back what it wrote; try another version of h5py")


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """The new content is at `path` wholly or not at all."""
    beside = path.with_name(path.name + ".tmp")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise StoreError(f"can't write {path}: {error.strerror}") from error


def _write_group(group: Any, part: Part) -> None:
    result = part.result
    group.attrs["users"] = result.n
    text = h5py.string_dtype()
    spec = result.spec
    value_attribute = np.repeat(np.arange(len(result.domain)), result.domain)
    labels = (
        [v for part in result.labels for v in part] if result.labels else [v for k in result.domain for v in range(k)]
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
    mechanisms = [
        [[result.plan.mechanism(p, e, a) for a in range(len(result.domain))] for e in range(len(spec.epsilons))]
        for p in range(len(spec.protocols))
    ]

    def of_mechanisms(read: Any, dtype: Any) -> Any:
        return np.array([[[read(m) for m in row] for row in table] for table in mechanisms], dtype)

    cell = ("protocol", "epsilon")
    variables = {
        "counts": ((*cell, "repetition", "value"), result.counts),
        "reporters": ((*cell, "repetition", "attribute"), result.reporters),
        "mse": (("postprocess", *cell, "repetition"), part.mse),
        "mechanism": ((*cell, "attribute"), of_mechanisms(lambda m: m.name, text)),
        "keep": ((*cell, "attribute"), of_mechanisms(lambda m: m.recipe.stored[0], np.int64)),
        "threshold_p": ((*cell, "attribute"), of_mechanisms(lambda m: m.recipe.stored[1], np.int32)),
        "threshold_q": ((*cell, "attribute"), of_mechanisms(lambda m: m.recipe.stored[2], np.int32)),
        "frequency": (("value",), result.frequencies),
        "value_attribute": (("value",), value_attribute.astype(np.int32)),
        "domain": (("attribute",), np.array(result.domain, np.int32)),
    }
    if result.labels:
        variables["label"] = (("value",), np.array(labels, text))
    for name, (dimensions, content) in variables.items():
        options = {"compression": "gzip", "compression_opts": 1, "shuffle": True} if content.size > 1000 else {}
        if name == "counts":
            options["chunks"] = _chunks(content)
        dataset = group.create_dataset(name, data=content, **options)
        for axis, dimension in enumerate(dimensions):
            dataset.dims[axis].attach_scale(group[dimension])


def _chunks(counts: Counts) -> tuple[int, ...]:
    """One protocol and epsilon, and as many repetitions as make about a megabyte."""
    repetitions, values = counts.shape[2:]
    return 1, 1, max(1, min(repetitions, (1 << 17) // values)), min(values, 1 << 17)
