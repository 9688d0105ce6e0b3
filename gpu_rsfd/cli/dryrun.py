"""What a sweep or an attack would take, before it is run: cells, positions, time and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from gpu_rsfd.backends.base import Backend
from gpu_rsfd.cli.progress import amount, duration
from gpu_rsfd.datasets import Dataset
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure.frequencies import BLOCK_BYTES
from gpu_rsfd.planning import Plan
from gpu_rsfd.results.estimate import STORED
from gpu_rsfd.show.tables import WIDTH
from gpu_rsfd.store.output import shares

DAY = 86_400.0
ALL_TIMING = 2.0  # seconds, for all data sets; those that are left are taken to be as fast as the ones before
SLOWEST = 1e6  # units of work a second that any machine does: less than a day of these needs no timing
RESULT_SECONDS = 0.5e-6  # for each count: errors after all post-processings, saving, the table


class Work(NamedTuple):
    """What is to be run."""

    datasets: Sequence[Dataset]
    plans: Sequence[Plan]
    repetitions: int
    engine: Backend
    noun: str = "sweep"
    part: tuple[int, int] = (1, 1)  # of the repetitions

    @property
    def cells(self) -> int:
        """Protocols x epsilons."""
        return len(self.plans[0].protocols) * len(self.plans[0].epsilons)

    def each(self) -> Iterator[tuple[Dataset, Plan]]:
        return zip(self.datasets, self.plans, strict=True)

    @property
    def shares(self) -> list[int]:
        """How many repetitions of each data set belong to the part."""
        sizes = [plan.positions(dataset.n) for dataset, plan in self.each()]
        return [stop - first for first, stop in shares(sizes, self.repetitions, *self.part)]


def expected_seconds(work: Work) -> list[float]:
    """For each data set, the repetitions of the part."""
    started = time.perf_counter()
    found: list[float] = []
    known = 0.0  # seconds per unit of work
    for (dataset, plan), repetitions in zip(work.each(), work.shares, strict=True):
        units = work.engine.work(dataset, plan)
        if not found or time.perf_counter() - started < ALL_TIMING:
            known = work.engine.seconds_per_repetition(dataset, plan, work.repetitions) / units
        found.append(repetitions * (known * units + RESULT_SECONDS * work.cells * plan.values))
    return found


def expected_memory(work: Work) -> int:
    """Bytes of all processes: what makes the counts, the counts of a block, and errors and reporters for the table."""
    repetitions, cells = work.repetitions, work.cells
    engine = max(work.engine.memory(d, plan, repetitions) for d, plan in work.each())
    block = max(
        min(repetitions * 8 * cells * d.domain.total, max(BLOCK_BYTES, 8 * cells * d.domain.total))
        for d in work.datasets
    )
    table = max(8 * repetitions * cells * (len(STORED) + d.d) for d in work.datasets)
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


def check_size(work: Work) -> None:
    """Refuses what would take more than a day or more than the memory; small work is not even timed."""
    memory, room = expected_memory(work), available_memory()
    units = sum(work.engine.work(d, plan) * share for (d, plan), share in zip(work.each(), work.shares, strict=True))
    seconds = sum(expected_seconds(work)) if units > DAY * SLOWEST else 0.0
    reasons = []
    if seconds > DAY:
        reasons.append(f"take about {duration(seconds)}")
    if room is not None and memory > room:
        reasons.append(f"need about {size(memory)} of memory ({size(room)} are free)")
    if reasons:
        why = ", and ".join(reasons)
        raise InputError(f"this {work.noun} would {why}; --yes starts it anyway, --dry-run shows more")


def size(number: int) -> str:
    """Bytes for people."""
    return f"{number / 2**20:,.0f} MiB" if number < 10 * 2**30 else f"{number / 2**30:,.0f} GiB"


def dry_run(work: Work, reason: str) -> None:
    """Print what would be done."""
    console = Console(width=WIDTH, highlight=False, markup=False)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in ("data set", "users", "d", "values", "cells", "positions", "expected time"):
        table.add_column(name, justify="left" if name == "data set" else "right", no_wrap=True)
    seconds, cells, total = expected_seconds(work), 0, 0
    for dataset, repetitions, took in zip(work.datasets, work.shares, seconds, strict=True):
        values = sum(dataset.domain)
        each, positions = work.cells * repetitions, dataset.n * values * repetitions
        cells, total = cells + each, total + positions
        row = (f"{dataset.n:,}", str(dataset.d), f"{values:,}", f"{each:,}", amount(positions), duration(took))
        table.add_row(dataset.name, *row)
    console.print(table)
    protocols, epsilons = len(work.plans[0].protocols), len(work.plans[0].epsilons)
    number, parts = work.part
    console.print(
        f"{protocols} protocols x {epsilons} epsilons x {work.repetitions} repetitions"
        f"{f', part {number} of {parts}' if parts > 1 else ''}: "
        f"{cells:,} cells, {amount(total)} positions (users x values)"
    )
    console.print(f"backend {work.engine.name} ({work.engine.device}): {reason}")
    memory, whole = expected_memory(work), "for this part" if parts > 1 else "in all"
    console.print(f"expected: about {duration(sum(seconds))} and {size(memory)} {whole}; nothing was written")
