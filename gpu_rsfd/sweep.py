"""The sweep: data sets x repetitions in blocks, each block saved before the next begins.  The only loop."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gpu_rsfd.backends.base import Backend
from gpu_rsfd.datasets.base import Dataset, check_rows
from gpu_rsfd.errors import InputError
from gpu_rsfd.plan import Plan
from gpu_rsfd.reading import Results, check_results_file, open_results
from gpu_rsfd.simulate import Result
from gpu_rsfd.spec import Spec
from gpu_rsfd.store import Part, locked, save
from gpu_rsfd.tape import STREAM_VERSION

FIGURES = (".png", ".pdf", ".svg")  # drawn beside a results file
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


def describe(datasets: Sequence[Dataset], spec: Spec) -> dict[str, Any]:
    """The whole spec as plain data: equal descriptions mean equal results."""
    return {
        "datasets": [dataset.describe() for dataset in datasets],
        "protocols": list(spec.protocols),
        "epsilons": list(spec.epsilons),
        "repetitions": [spec.repetitions.start, spec.repetitions.stop, spec.repetitions.step],
        "seed": spec.seed,
        "assignment": spec.assignment,
        "sampler": spec.sampler,
        "stream_version": STREAM_VERSION,
        # the tape is the same for ever; a sampler's draws are NumPy's, and those of one version
        **({} if spec.sampler == "users" else {"numpy_version": np.__version__}),
    }


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


def sweep(
    datasets: Sequence[Dataset],
    spec: Spec,
    path: Path,
    backend: Backend,
    reporter: Reporter,
    overwrite: bool = False,
    save_every: float = SAVE_EVERY,
) -> bool:
    """Run what the results file does not have yet.  False if it had everything already."""
    target = check_output(path)
    for dataset in datasets:
        check_rows(dataset, spec.sampler)
    want = describe(datasets, spec)
    plans = [Plan.of(d.domain, spec.protocols, spec.epsilons, spec.assignment) for d in datasets]
    with locked(target):
        have = Results()
        if path.exists() and not overwrite:
            have = open_results(path)
            if have.spec != want:
                lines = "\n  ".join(differences(have.spec, want))
                raise InputError(
                    f"output={path} holds another sweep; give another --output, or --overwrite to replace it\n  {lines}"
                )
        total = len(spec.repetitions)
        done = {name: len(result.repetitions) for name, result in have.items()}
        if all(done.get(d.name) == total for d in datasets):
            return False
        # errors are derived from the counts again: the file may be older than a post-processing or a better average
        parts = {name: Part.of(result, have.seconds[name]) for name, result in have.items()}
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
                repetitions = spec.repetitions[first : first + count]
                started = time.perf_counter()
                part = _block(dataset, plan, spec, repetitions, backend, reporter)
                parts[dataset.name] = parts[dataset.name] + part if first else part
                speed = size * count / (time.perf_counter() - started)
                first += count
                started = time.perf_counter()
                save(target, want, parts, backend.name, backend.device)
                saving = time.perf_counter() - started
        reporter.end()
        return True


def _block(dataset: Dataset, plan: Plan, spec: Spec, repetitions: range, backend: Backend, reporter: Reporter) -> Part:
    started = time.perf_counter()
    counts, sampled = backend.count(plan, dataset, spec.seed, repetitions, reporter.advance)
    result = Result.of(dataset, plan, spec, repetitions, counts, sampled)
    return Part.of(result, time.perf_counter() - started)
