"""What a sweep would take, before it is run: cells, positions, time and memory.

Time is that of a small sample, scaled up: some attributes with some of their values, and so few users that it takes a
fraction of a second, whatever the sweep's size.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from gpu_rsfd.backends.base import Backend
from gpu_rsfd.backends.engine import Task, run
from gpu_rsfd.backends.numpy import NumpyBackend
from gpu_rsfd.backends.worker import Columns
from gpu_rsfd.datasets import CountedDataset, Dataset, SyntheticDataset
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.plan import Plan
from gpu_rsfd.progress import amount, duration
from gpu_rsfd.samplers import CountsSampler, MarginalsSampler
from gpu_rsfd.spec import Spec
from gpu_rsfd.tables import WIDTH

DAY = 86_400.0
SAMPLE_POSITIONS = 1 << 23  # of the NumPy backend: a twentieth of a second or so
SAMPLE_ATTRIBUTES, SAMPLE_VALUES = 4, 256  # of the other engines
MOST_USERS = 1 << 21
LONG_ENOUGH = 0.05  # seconds that tell a speed
ALL_TIMING = 2.0  # seconds, for all data sets; those that are left are taken to be as fast as the ones before
SLOWEST = 1e6  # units of work a second that any machine does: less than a day of these needs no timing
RESULT_SECONDS = 0.5e-6  # for each count: errors after all post-processings, saving, the table


@dataclass(frozen=True)
class Expected:
    """Per data set: seconds.  For the whole sweep: bytes."""

    seconds: list[float]
    memory: int


def small(plan: Plan, attributes: int, values: int) -> Plan:
    """A plan of a few attributes with a few values, and the recipes of the whole one."""
    some = plan.attributes[:: -(-plan.d // attributes)]
    sizes = Domain(min(a.k, max(2, values // len(some))) for a in some)
    return replace(
        plan,
        domain=sizes,
        attributes=tuple(
            replace(a, index=j, k=k, offset=sizes.offsets[j]) for j, (a, k) in enumerate(zip(some, sizes, strict=True))
        ),
        cells=tuple(tuple(tuple(cell[a.index] for a in some) for cell in row) for row in plan.cells),
    )


def words(plan: Plan) -> int:
    """Of the tape, per 64 users: what a backend's work grows with."""
    return sum(a.words_per_group for a in plan.attributes)


def draws(plan: Plan) -> int:
    """Counts that a sampler draws in a repetition."""
    return sum(a.k * len(a.recipes) for a in plan.attributes)


def work(dataset: Dataset, plan: Plan, backend: Backend) -> int:
    """Units of a repetition's work: positions, or what a sampler looks at and draws."""
    if isinstance(backend, MarginalsSampler):
        return draws(plan)
    return dataset.n + draws(plan) if isinstance(backend, CountsSampler) else plan.positions(dataset.n)


def timed(do: Callable[[], object]) -> float:
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


def growing(n: int, time_of: Callable[[int], float]) -> tuple[int, float]:
    """As many users as take long enough to tell, within bounds; and their seconds."""
    most = min(n, MOST_USERS)
    users = min(most, 1 << 12)
    while (seconds := time_of(users)) < LONG_ENOUGH and users < most:
        users = min(most, 8 * users)
    return users, seconds


def seconds_per_repetition(dataset: Dataset, plan: Plan, backend: Backend, repetitions: int) -> float:
    """Expected from a timed sample, warmed up: what is compiled once is not timed."""
    n = dataset.n
    if isinstance(backend, NumpyBackend):
        size, batch = backend.shape(n, repetitions)
        batch = min(batch, repetitions)
        part = small(plan, SAMPLE_ATTRIBUTES, SAMPLE_POSITIONS // (size * batch))
        stop = min(size, n)
        task = Task(0, stop, n, part.d, plan.assignment, tuple(range(batch)), part.attributes, plan.needs_reporters)
        columns = Columns(SyntheticDataset(stop, part.domain))
        run(task, 0, columns)
        each = timed(lambda: run(task, 0, columns)) / batch / stop
        return each * n * words(plan) / words(part) / backend.workers

    part = small(plan, SAMPLE_ATTRIBUTES, SAMPLE_VALUES)
    if isinstance(backend, MarginalsSampler):
        counted = CountedDataset.of_distribution(n, part.domain)
        some = range(min(backend.grain(n), repetitions))
        backend.count(part, counted, 0, some)
        return timed(lambda: backend.count(part, counted, 0, some)) / len(some) * draws(plan) / draws(part)

    if isinstance(backend, CountsSampler):
        reading = 0.0
        with CountsSampler(workers=1) as one:

            def again(users: int) -> float:
                nonlocal reading
                data = SyntheticDataset(users, part.domain)
                first = timed(lambda: one.count(part, data, 0, range(1)))  # reads the users' values, then kept
                second = timed(lambda: one.count(part, data, 0, range(1)))
                reading = max(first - second, 0.0) / users / part.d
                return second

            fixed = again(1)
            users, seconds = growing(n, again)
        each = max(seconds - fixed, 0.0) / users * n
        once = 2 * reading * n * plan.d * isinstance(dataset, SyntheticDataset)  # by this process, then by workers
        workers = min(backend.workers, repetitions)
        return (fixed * draws(plan) / draws(part) + each) / workers + once / repetitions

    some = range(min(backend.grain(n), repetitions))  # a GPU

    def warm(users: int) -> float:
        data = SyntheticDataset(users, part.domain)
        backend.count(part, data, 0, some)
        return timed(lambda: backend.count(part, data, 0, some))

    users, seconds = growing(n, warm)
    return seconds / len(some) * n / users * words(plan) / words(part)


def plan_of(dataset: Dataset, spec: Spec) -> Plan:
    return Plan.of(dataset.domain, spec.protocols, spec.epsilons, spec.assignment)


def expected_seconds(datasets: Sequence[Dataset], spec: Spec, backend: Backend) -> list[float]:
    """For each data set, all repetitions."""
    repetitions = len(spec.repetitions)
    started = time.perf_counter()
    found: list[float] = []
    known = 0.0  # seconds per unit of work
    for dataset in datasets:
        plan = plan_of(dataset, spec)
        units = work(dataset, plan, backend)
        if not found or time.perf_counter() - started < ALL_TIMING:
            known = seconds_per_repetition(dataset, plan, backend, repetitions) / units
        cells = len(spec.protocols) * len(spec.epsilons) * plan.values
        found.append(repetitions * (known * units + RESULT_SECONDS * cells))
    return found


def expected_memory(datasets: Sequence[Dataset], spec: Spec, backend: Backend) -> int:
    """Bytes of all processes: what makes the counts, the results of all data sets, and what their table takes."""
    repetitions, cells = len(spec.repetitions), len(spec.protocols) * len(spec.epsilons)
    engine = max(backend.memory(d, plan_of(d, spec), repetitions) for d in datasets)
    results = [8 * repetitions * cells * sum(d.domain) for d in datasets]
    return engine + sum(results) + max(results) * 27 // 10


def available_memory() -> int | None:
    """Bytes that could be had now; None if the system does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_size(datasets: Sequence[Dataset], spec: Spec, backend: Backend) -> None:
    """Refuses what would take more than a day or more than the memory; a small sweep is not even timed."""
    memory, room = expected_memory(datasets, spec, backend), available_memory()
    units = sum(work(d, plan_of(d, spec), backend) for d in datasets) * len(spec.repetitions)
    seconds = sum(expected_seconds(datasets, spec, backend)) if units > DAY * SLOWEST else 0.0
    reasons = []
    if seconds > DAY:
        reasons.append(f"take about {duration(seconds)}")
    if room is not None and memory > room:
        reasons.append(f"need about {size(memory)} of memory ({size(room)} are free)")
    if reasons:
        raise InputError(f"this sweep would {', and '.join(reasons)}; --yes goes on anyway, --dry-run shows more")


def size(number: int) -> str:
    """Bytes for people."""
    return f"{number / 2**20:,.0f} MiB" if number < 10 * 2**30 else f"{number / 2**30:,.0f} GiB"


def dry_run(datasets: Sequence[Dataset], spec: Spec, backend: Backend, reason: str) -> None:
    """Print what a sweep would do."""
    console = Console(width=WIDTH, highlight=False, markup=False)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in ("data set", "users", "d", "values", "cells", "positions", "expected time"):
        table.add_column(name, justify="left" if name == "data set" else "right", no_wrap=True)
    each = len(spec.protocols) * len(spec.epsilons) * len(spec.repetitions)
    seconds = expected_seconds(datasets, spec, backend)
    total = 0
    for dataset, took in zip(datasets, seconds, strict=True):
        values = sum(dataset.domain)
        positions = dataset.n * values * len(spec.repetitions)
        total += positions
        row = (f"{dataset.n:,}", str(dataset.d), f"{values:,}", f"{each:,}", amount(positions), duration(took))
        table.add_row(dataset.name, *row)
    console.print(table)
    console.print(
        f"{len(spec.protocols)} protocols x {len(spec.epsilons)} epsilons x {len(spec.repetitions)} repetitions: "
        f"{each * len(datasets):,} cells, {amount(total)} positions (users x values)"
    )
    console.print(f"backend {backend.name} ({backend.device}): {reason}")
    memory = expected_memory(datasets, spec, backend)
    console.print(f"expected: about {duration(sum(seconds))} and {size(memory)} in all; nothing was written")
