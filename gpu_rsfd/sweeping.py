"""`sweep`: data sets x repetitions in blocks, each block saved before the next begins.  The only loop."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, SupportsIndex

import numpy as np

from gpu_rsfd.backends import open_backend
from gpu_rsfd.backends.base import Backend
from gpu_rsfd.datasets import as_dataset
from gpu_rsfd.datasets.base import Dataset, check_rows
from gpu_rsfd.errors import InputError
from gpu_rsfd.plan import Plan
from gpu_rsfd.protocols import PAPER, TERMS
from gpu_rsfd.results import Result, Results
from gpu_rsfd.spec import PAPER_EPSILONS, Spec
from gpu_rsfd.store.files import FIGURES, locked
from gpu_rsfd.store.hdf5 import save
from gpu_rsfd.store.reading import check_results_file, open_results
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.version import __version__

SAVE_EVERY = 2.0  # seconds of work that a killed run may lose, as far as blocks can be cut
SAVE_SHARE = 20  # a block takes at least this many times as long as saving it
FIRST_SPEED = 1e8  # positions per second, a guess until the first block has been timed


class Reporter(Protocol):
    """Told what happens; shows it or not."""

    def begin(self, positions: int, done: int) -> None: ...
    def dataset(self, name: str) -> None: ...
    def advance(self, positions: int) -> None: ...
    def say(self, line: str) -> None: ...
    def end(self) -> None: ...


class Silent:
    """A reporter that says nothing."""

    def begin(self, positions: int, done: int) -> None: ...
    def dataset(self, name: str) -> None: ...
    def advance(self, positions: int) -> None: ...
    def say(self, line: str) -> None: ...
    def end(self) -> None: ...


def describe(datasets: Sequence[Dataset], spec: Spec) -> dict[str, Any]:
    """The whole spec as plain data: equal descriptions mean equal results."""
    return {
        "datasets": [dataset.describe() for dataset in datasets],
        **spec.described(),
        "stream_version": STREAM_VERSION,
        # the tape is the same for ever; a sampler's draws are NumPy's, and those of one version
        **({} if spec.sampler == "users" else {"numpy_version": np.__version__}),
    }


def _identity(described: dict[str, Any]) -> dict[str, Any]:
    """What must be equal for a file to be continued: a data set's source is words, its codes have a checksum."""
    datasets = [{k: v for k, v in d.items() if k != "source"} for d in described.get("datasets", [])]
    return {**described, "datasets": datasets}


def differences(have: dict[str, Any], want: dict[str, Any]) -> list[str]:
    """What differs between two specs, a line each."""
    return [
        f"{key}: the file has {have.get(key)}, this command asks for {want.get(key)}"
        for key in dict.fromkeys([*have, *want])
        if have.get(key) != want.get(key)
    ]


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
            check_results_file(path)
        except InputError as error:
            raise InputError(f"output={path} can't be replaced: {error}; give another --output") from None
    return target


def check_datasets(datasets: object, sampler: str) -> list[Dataset]:
    """One data set or several, each as such, by its name or as a table's path; with different names."""
    single = isinstance(datasets, (str, os.PathLike, Dataset, np.ndarray)) or not isinstance(datasets, Iterable)
    found = [as_dataset(datasets)] if single else [as_dataset(data) for data in datasets]  # type: ignore[attr-defined]
    if not found:
        raise InputError("no data set given; at least one is needed")
    names = [data.name for data in found]
    for data in found:
        check_rows(data, sampler)
        if names.count(data.name) > 1:
            raise InputError(f"data set {data.name!r} is given twice")
        if "/" in data.name or not data.name:
            raise InputError(f"data set {data.name!r} can't be a group of the results file; its name must have no /")
    return found


def sweep(
    datasets: Dataset | str | os.PathLike[str] | Sequence[Dataset | str | os.PathLike[str]],
    epsilons: float | Sequence[float] = PAPER_EPSILONS,
    protocols: str | Sequence[str] = PAPER,
    repetitions: SupportsIndex | range = 100,
    seed: int = 0,
    assignment: str = "uniform",
    sampler: str = "users",
    first_report: float = TERMS.first_report,
    guarantee: str = TERMS.guarantee,
    prior: object = None,
    prior_seed: int = 0,
    *,
    output: str | os.PathLike[str],
    overwrite: bool = False,
    backend: str | Backend = "auto",
    workers: int | None = None,
    devices: Sequence[int] | None = None,
    save_every: float = SAVE_EVERY,
    reporter: Reporter | None = None,
) -> Results:
    """Simulate data sets x protocols x epsilons x repetitions into one HDF5 file, and give what it then holds.

    A file that has a part of this very sweep is continued, one that has all of it is read; one with another sweep is
    refused unless `overwrite` is given.  `datasets`: one or several, as `simulate` takes them.  `backend`: a name, or
    an open backend, which stays open.  `save_every`: seconds of work between saves.  `reporter` is told what happens.
    All else is as in `simulate`.
    """
    spec = Spec.of(
        protocols, epsilons, repetitions, seed, assignment, sampler, first_report, guarantee, prior, prior_seed
    )
    if not isinstance(save_every, (int, float)) or not 0 <= save_every < math.inf:
        raise InputError(f"save_every={save_every} must be a number of seconds >= 0")
    found = check_datasets(datasets, spec.sampler)
    path = Path(output)
    target = check_output(path)
    opened = open_backend(backend, workers, devices, spec.sampler)[0] if isinstance(backend, str) else None
    engine: Any = backend if opened is None else opened
    with opened or nullcontext(), locked(target):
        return _run(found, spec, path, target, engine, reporter or Silent(), overwrite, save_every)


def _run(
    datasets: Sequence[Dataset],
    spec: Spec,
    path: Path,
    target: Path,
    backend: Backend,
    reporter: Reporter,
    overwrite: bool,
    save_every: float,
) -> Results:
    want = describe(datasets, spec)
    plans = [Plan.of(d.domain, spec.protocols, spec.epsilons, spec.assignment, spec.terms_for(d)) for d in datasets]
    results = Results(spec=want, complete=False, package_version=__version__)
    if path.exists() and not overwrite:
        results = open_results(path)
        if _identity(results.spec) != _identity(want):
            lines = "\n  ".join(differences(results.spec, want))
            raise InputError(
                f"output={path} holds another sweep; give another --output, or --overwrite to replace it\n  {lines}"
            )
        for dataset, plan in zip(datasets, plans, strict=True):
            if dataset.name in results and results[dataset.name].terms != plan.terms:
                raise InputError(
                    f"output={path} has another realised prior for {dataset.name} (drawn by another NumPy?); "
                    "give another --output, or --overwrite to replace it"
                )
        results.spec = want
    total = len(spec.repetitions)
    done = {name: len(result.repetitions) for name, result in results.items()}
    if all(done.get(d.name) == total for d in datasets):
        return results
    results.backend, results.device = backend.name, backend.device
    sizes = [plan.positions(d.n) for d, plan in zip(datasets, plans, strict=True)]
    finished = sum(size * done.get(d.name, 0) for size, d in zip(sizes, datasets, strict=True))
    reporter.begin(total * sum(sizes), finished)
    speed, saving = FIRST_SPEED, 0.0
    for dataset, plan, size in zip(datasets, plans, sizes, strict=True):
        first = done.get(dataset.name, 0)
        if first < total:
            reporter.dataset(dataset.name)
        while first < total:
            seconds = max(save_every, SAVE_SHARE * saving)
            wanted = max(1, int(seconds * speed / size))
            # whole batches for every worker, and no small rest at the end
            grain = backend.grain(dataset.n) if wanted >= backend.grain(dataset.n) else 1
            count = -(-wanted // grain) * grain
            if total - first < 1.5 * count:
                count = total - first
            started = time.perf_counter()
            block = _block(dataset, plan, spec, spec.repetitions[first : first + count], backend, reporter)
            took = time.perf_counter() - started
            before = results.get(dataset.name)
            if before is not None and before.errors is None:  # older than a post-processing
                before = before.with_errors()
            results[dataset.name] = block if before is None else before.extended(block)
            results.seconds[dataset.name] = results.seconds.get(dataset.name, 0.0) + took
            results.computed += count
            speed = size * count / took
            first += count
            results.complete = all(d.name in results and len(results[d.name].repetitions) == total for d in datasets)
            started = time.perf_counter()
            save(target, results)
            saving = time.perf_counter() - started
    reporter.end()
    return results


def _block(
    dataset: Dataset, plan: Plan, spec: Spec, repetitions: range, backend: Backend, reporter: Reporter
) -> Result:
    counts, sampled = backend.count(plan, dataset, spec.seed, repetitions, reporter.advance)
    return Result.of(dataset, plan, replace(spec, repetitions=repetitions), counts, sampled).with_errors()
