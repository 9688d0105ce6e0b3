"""What a sweep would take, before it is run: cells, positions, time and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from gpu_rsfd.backends.base import Backend
from gpu_rsfd.cli.progress import amount, duration
from gpu_rsfd.datasets import Dataset
from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import POSTPROCESS
from gpu_rsfd.plan import Plan
from gpu_rsfd.show.tables import WIDTH
from gpu_rsfd.spec import Spec
from gpu_rsfd.sweeping import BLOCK_BYTES

DAY = 86_400.0
ALL_TIMING = 2.0  # seconds, for all data sets; those that are left are taken to be as fast as the ones before
SLOWEST = 1e6  # units of work a second that any machine does: less than a day of these needs no timing
RESULT_SECONDS = 0.5e-6  # for each count: errors after all post-processings, saving, the table


def plan_of(dataset: Dataset, spec: Spec) -> Plan:
    return _plan(dataset.domain, spec.protocols, spec.epsilons, spec.assignment, spec.terms_for(dataset))


_plan = lru_cache(maxsize=16)(Plan.of)  # each is asked for several times, and may have 65,535 attributes


def expected_seconds(datasets: Sequence[Dataset], spec: Spec, backend: Backend) -> list[float]:
    """For each data set, all repetitions."""
    repetitions = len(spec.repetitions)
    started = time.perf_counter()
    found: list[float] = []
    known = 0.0  # seconds per unit of work
    for dataset in datasets:
        plan = plan_of(dataset, spec)
        units = backend.work(dataset, plan)
        if not found or time.perf_counter() - started < ALL_TIMING:
            known = backend.seconds_per_repetition(dataset, plan, repetitions) / units
        cells = len(spec.protocols) * len(spec.epsilons) * plan.values
        found.append(repetitions * (known * units + RESULT_SECONDS * cells))
    return found


def expected_memory(datasets: Sequence[Dataset], spec: Spec, backend: Backend) -> int:
    """Bytes of all processes: what makes the counts, the counts of a block, and errors and reporters for the table."""
    repetitions, cells = len(spec.repetitions), len(spec.protocols) * len(spec.epsilons)
    engine = max(backend.memory(d, plan_of(d, spec), repetitions) for d in datasets)
    block = max(
        min(repetitions * 8 * cells * d.domain.total, max(BLOCK_BYTES, 8 * cells * d.domain.total)) for d in datasets
    )
    table = max(8 * repetitions * cells * (len(POSTPROCESS) + d.d) for d in datasets)
    return engine + 3 * block + table


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


def check_size(datasets: Sequence[Dataset], spec: Spec, backend: Backend, parts: int = 1) -> None:
    """Refuses what would take more than a day or more than the memory; a small sweep is not even timed.

    Of `parts` of a sweep, one is meant.
    """
    memory, room = expected_memory(datasets, spec, backend), available_memory()
    units = sum(backend.work(d, plan_of(d, spec)) for d in datasets) * len(spec.repetitions)
    units //= parts
    seconds = sum(expected_seconds(datasets, spec, backend)) / parts if units > DAY * SLOWEST else 0.0
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
