"""What a run would take, before it is run: cells, positions, time and disk space."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from gpu_rsfd.datasets import Dataset
from gpu_rsfd.measure.view import measured
from gpu_rsfd.options import amount, duration
from gpu_rsfd.planning import Plan
from gpu_rsfd.results.result import Header
from gpu_rsfd.running.collect import Block, Run, shares

ALL_TIMING = 2.0  # seconds, for all data sets; those that are left are taken to be as fast as the ones before
FIRST_USERS, MOST_USERS, MORE = 1 << 12, 1 << 21, 8  # users that are tried, the next time MORE times as many
LONG = 0.5  # seconds of a repetition of which what users take is most
GROWN = 2.0  # times the seconds of fewer users: these tell what a user takes


def seconds_of(run: Run, engine: Any, data: Dataset, plan: Plan, repetitions: int) -> float:
    """Expected for some repetitions of a data set: a few of them are measured, for more and more of the users."""
    few = run.spec.repetitions[: max(engine.drawn_at_once(plan), engine.batch_multiple(data.n))]
    block, users = Block(0, 0, len(few), plan), min(data.n, FIRST_USERS) if data.has_rows else data.n
    slope, before = 0.0, 0.0
    while True:
        started = time.perf_counter()
        some = data if users == data.n else _first(data, users)
        counted = some.counts.sum() and time.perf_counter() - started  # of the users themselves: done once
        measured(engine, some, run.measurement, block, run.spec.seed, few[:1])  # and what else is done once
        started = time.perf_counter()
        measured(engine, some, run.measurement, block, run.spec.seed, few)
        each = (time.perf_counter() - started) / len(few)
        if before and each > GROWN * before:
            slope = (each - before) / (users - users / MORE)
        elif each > LONG:
            slope = each / users
        if slope or users >= min(data.n, MOST_USERS):
            return counted * data.n / users + repetitions * (each + slope * (data.n - users))
        before, users = each, min(data.n, MORE * users)


def _first(data: Dataset, users: int) -> Dataset:
    return Dataset(np.stack([data.column(j, 0, users) for j in range(data.d)], axis=1), data.domain, name=data.name)


def dry_run(run: Run, engine: Any, output: Path, part: tuple[int, int]) -> None:
    """Print what would be done."""
    spec, (number, parts) = run.spec, part
    protocols, epsilons, total = len(spec.protocols), len(spec.epsilons), len(spec.repetitions)
    sizes = [plan.positions(data.n) for data, plan in zip(run.datasets, run.plans, strict=True)]
    own = [stop - first for first, stop in shares(sizes, total, *part)]
    began, known, disk, rows = time.perf_counter(), 0.0, 0, []
    for data, plan, size, repetitions in zip(run.datasets, run.plans, sizes, own, strict=True):
        if repetitions and (not known or time.perf_counter() - began < ALL_TIMING):
            known = seconds_of(run, engine, data, plan, repetitions) / (size * repetitions)
        header = Header.of(_first(data, 1) if data.has_rows else data, plan)  # sizes follow from the domain
        layout = run.measurement.layout(header)
        row = protocols * epsilons * repetitions, size * repetitions, known * size * repetitions
        disk += 8 * row[0] * sum(math.prod(layout.sizes(header, array)) for array in layout.arrays)
        rows.append(row)
        shape = f"{data.name}: {data.n:,} users, {data.d} attributes, {plan.values:,} values"
        print(f"{shape}; {row[0]:,} cells, {amount(row[1])} positions, about {duration(row[2])}")
    cells, positions, seconds = map(sum, zip(*rows, strict=True))
    which, whole = (f", part {number} of {parts}", "for this part") if parts > 1 else ("", "in all")
    grid = f"{protocols} protocols x {epsilons} epsilons x {total} repetitions{which}"
    print(f"{grid}: {cells:,} cells, {amount(positions)} positions (users x values)")
    print(f"backend {engine.name} ({engine.device}): {engine.reason}")
    old = output.stat().st_size if output.exists() else 0
    peak = f"{amount(2 * disk + old)}B of disk space at most (the old file, the journal, the new file)"
    print(f"expected: about {duration(seconds)} {whole}, {peak}; nothing was written")
