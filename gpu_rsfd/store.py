"""Results in one HDF5 file that is never torn: written whole beside the output, then moved into its place."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import h5py
import numpy as np

from gpu_rsfd import estimate
from gpu_rsfd.datasets.base import Labels
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.estimate import POSTPROCESS, Floats
from gpu_rsfd.plan import Counts
from gpu_rsfd.simulate import Result
from gpu_rsfd.spec import Spec
from gpu_rsfd.tape import STREAM_VERSION

FORMAT = 1  # of the file; the stream has a version of its own


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


class Results(dict[str, Result]):
    """Results per data set, as `simulate` gives them, with what the file says about the run."""

    def __init__(
        self,
        results: Mapping[str, Result] = MappingProxyType({}),
        *,
        spec: Mapping[str, Any] = MappingProxyType({}),
        complete: bool = True,
        stream_version: int = STREAM_VERSION,
        package_version: str = "",
        backend: str = "",
        device: str = "",
        seconds: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        super().__init__(results)
        self.spec, self.complete = dict(spec), complete
        self.stream_version, self.package_version = stream_version, package_version
        self.backend, self.device = backend, device
        self.seconds = dict(seconds)  # simulated, per data set


# ---------------------------------------------------------------------------------------------------------- reading


def open_results(path: str | os.PathLike[str]) -> Results:
    """The results in a file, per data set; a file of an unfinished sweep gives the repetitions that are done."""
    with _reading(Path(path)) as file:
        attributes = file.attrs
        spec = json.loads(attributes["spec"])
        results = Results(
            spec=spec,
            complete=bool(attributes["complete"]),
            stream_version=int(attributes["stream_version"]),
            package_version=str(attributes["package_version"]),
            backend=str(attributes["backend"]),
            device=str(attributes["device"]),
            seconds={name: entry["seconds"] for name, entry in json.loads(attributes["wall_time"]).items()},
        )
        names = [dataset["name"] for dataset in spec["datasets"]]
        results.update({name: _read_group(file[name], spec) for name in names if name in file})
    return results


def read_parts(path: Path) -> tuple[dict[str, Any], dict[str, Part]]:
    """The spec of a results file and what is done of each data set."""
    results = open_results(path)
    with _reading(path) as file:
        mse = {name: file[name]["mse"][()] for name in results}
    return results.spec, {name: Part(result, mse[name], results.seconds[name]) for name, result in results.items()}


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[Any]:
    if path.is_dir():
        raise InputError(f"{path} is a directory; a results file is needed")
    if not path.exists():
        raise InputError(f"{path} does not exist; `gpu-rsfd sweep --output {path}` makes it")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        if not os.access(path, os.R_OK):
            raise InputError(f"{path} can't be read: permission denied") from None
        raise InputError(f"{path} is not an HDF5 file; a results file of gpu-rsfd is needed") from error
    with file, _damage(path):
        if "spec" not in file.attrs or "stream_version" not in file.attrs:
            raise InputError(f"{path} is an HDF5 file, but not a results file of gpu-rsfd")
        if file.attrs["format"] > FORMAT:
            raise InputError(f"{path} was written by a newer gpu-rsfd ({file.attrs['package_version']})")
        yield file


@contextlib.contextmanager
def _damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, KeyError, RuntimeError) as error:
        raise InputError(f"{path} is damaged: {str(error).splitlines()[0]}") from error


def _read_group(group: Any, spec: dict[str, Any]) -> Result:
    first, _, step = spec["repetitions"]
    done = group["counts"].shape[2]
    return Result(
        n=int(group.attrs["users"]),
        domain=tuple(int(k) for k in group["domain"][()]),
        names=tuple(group["attribute"].asstr()[()]),
        frequencies=group["frequency"][()],
        spec=Spec(
            protocols=tuple(spec["protocols"]),
            epsilons=tuple(spec["epsilons"]),
            repetitions=range(first, first + done * step, step),
            seed=spec["seed"],
            assignment=spec["assignment"],
            sampler=spec["sampler"],
        ),
        counts=group["counts"][()],
        reporters=group["reporters"][()],
        labels=_labels(group),
    )


def _labels(group: Any) -> Labels | None:
    if "label" not in group:
        return None
    ends = np.cumsum(group["domain"][()])[:-1]
    return tuple(tuple(map(str, part)) for part in np.split(group["label"].asstr()[()], ends))


# ---------------------------------------------------------------------------------------------------------- writing


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

    with h5py.File("image", "w", driver="core", backing_store=False, libver="v108") as file:
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
        file.flush()
        image = file.id.get_file_image()
    _replace(path, image)


def _replace(path: Path, content: bytes) -> None:
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
