"""The plan of a sweep: cells, positions, the memory and time that it expects."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from gpu_rsfd.backends.base import Backend
from gpu_rsfd.backends.engine import Task, run
from gpu_rsfd.backends.numpy import NumpyBackend
from gpu_rsfd.backends.worker import Columns
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.plan import AttributePlan, Plan
from gpu_rsfd.progress import amount
from gpu_rsfd.spec import Spec
from gpu_rsfd.tables import WIDTH

SAMPLE_POSITIONS = 1 << 23  # timed to tell the speed


def seconds_per_repetition(dataset: Dataset, plan: Plan, backend: Backend) -> float:
    """Expected from a timed sample: the users and attributes that make up SAMPLE_POSITIONS, at most all of them."""
    if not isinstance(backend, NumpyBackend):  # fast enough to be tried
        tried = backend.grain(dataset.n)
        started = time.perf_counter()
        backend.count(plan, dataset, 0, range(tried))
        return (time.perf_counter() - started) / tried
    users = min(dataset.n, 1 << 16)
    values = 0
    attributes: list[AttributePlan] = []
    for attribute in plan.attributes:
        if not attributes or users * (values + attribute.k) <= SAMPLE_POSITIONS:
            attributes.append(attribute)
            values += attribute.k
    repetitions = tuple(range(max(1, min(SAMPLE_POSITIONS // (users * values), (1 << 18) // users))))
    task = Task(0, users, dataset.n, dataset.d, plan.assignment, repetitions, tuple(attributes), plan.needs_reporters)
    columns = Columns(dataset)
    run(task, 0, columns)  # the first run also warms the caches up
    started = time.perf_counter()
    run(task, 0, columns)
    speed = users * values * len(repetitions) / (time.perf_counter() - started)
    return plan.positions(dataset.n) / speed / backend.workers


def dry_run(datasets: Sequence[Dataset], spec: Spec, backend: Backend, reason: str) -> None:
    """Print what a sweep would do."""
    console = Console(width=WIDTH, highlight=False, markup=False)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in ("data set", "users", "d", "values", "cells", "positions", "expected time"):
        table.add_column(name, justify="left" if name == "data set" else "right", no_wrap=True)
    total = cells = 0
    seconds = 0.0
    for dataset in datasets:
        plan = Plan.of(dataset.domain, spec.protocols, spec.epsilons, spec.assignment)
        work = plan.positions(dataset.n) * len(spec.repetitions)
        each = len(spec.protocols) * len(spec.epsilons) * len(spec.repetitions)
        took = seconds_per_repetition(dataset, plan, backend) * len(spec.repetitions)
        table.add_row(
            dataset.name,
            f"{dataset.n:,}",
            str(dataset.d),
            f"{plan.values:,}",
            f"{each:,}",
            amount(work),
            duration(took),
        )
        total, cells, seconds = total + work, cells + each, seconds + took
    console.print(table)
    memory = max(
        backend.memory(d.n, Plan.of(d.domain, spec.protocols, spec.epsilons), len(spec.repetitions)) for d in datasets
    )
    console.print(
        f"{len(spec.protocols)} protocols x {len(spec.epsilons)} epsilons x {len(spec.repetitions)} repetitions: "
        f"{cells:,} cells, {amount(total)} positions (users x values)"
    )
    console.print(f"backend {backend.name} ({backend.device}): {reason}")
    console.print(f"expected: about {duration(seconds)} and {memory / 2**20:,.0f} MiB per process; nothing was written")


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
