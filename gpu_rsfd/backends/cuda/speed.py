"""The speed of a device, kernel by kernel, beside that of the bare tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpu_rsfd.backends.cuda.backend import CupyBackend
from gpu_rsfd.backends.cuda.kernels import BARE
from gpu_rsfd.backends.cuda.runner import BLOCK, U32, U64, KernelTime, Runner, Stopwatch, key_of
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.planning import Plan
from gpu_rsfd.tape import LANES

GOAL = 0.5  # of the bare tape's rate
BARE_GROUPS = 1 << 20
BARE_TIMES = 3


class KernelSpeed(NamedTuple):
    """Items (users x values in kernels of unary encodings, users in others) a second on one device."""

    name: str
    seconds: float
    rate: float
    of_bare: float | None  # of unary encodings: the bare tape's rate is 1

    def __str__(self) -> str:
        bare = "" if self.of_bare is None else f", {self.of_bare:.2f} of the bare tape's (goal: {GOAL})"
        return f"{self.name}: {1e3 * self.seconds:.2f} ms, {self.rate:.2e}/s{bare}"


def kernel_times(backend: CupyBackend, do: Callable[[], object]) -> dict[str, KernelTime]:
    """What each kernel did on the only device while something was done, by CUDA events: without the host's time."""
    (runner,) = backend._runners
    runner.watch = Stopwatch()
    try:
        do()
    finally:
        times = runner.submit(runner.stop_watch).result()
    return times


def kernel_speeds(backend: CupyBackend, plan: Plan, data: Dataset, repetitions: int) -> list[KernelSpeed]:
    """The kernels of a plan and, last, the bare tape; the slowest first.  The backend has one device."""
    (runner,) = backend._runners
    times = kernel_times(backend, lambda: backend.count(plan, data, 1, range(repetitions)))
    bare = runner.submit(bare_tape, runner, int(np.mean(plan.domain))).result()
    rate = bare.items / max(bare.seconds, 1e-9)
    speeds = []
    for name, took in sorted(times.items(), key=lambda item: -item[1].seconds):
        mine = took.items / max(took.seconds, 1e-9)
        unary = name.startswith(("count_unary", "count_paired"))
        speeds.append(KernelSpeed(name, took.seconds, mine, mine / rate if unary else None))
    return [*speeds, KernelSpeed(BARE, bare.seconds, rate, None)]


def bare_tape(runner: Runner, columns: int) -> KernelTime:
    """The words of so many columns for many users, drawn by the device and not looked at."""
    groups = min(BARE_GROUPS, max(1, runner._free_words() // 2))
    args = (key_of(1), U64(columns), U32(groups), runner._cp.empty(groups, U64))
    blocks = -(-groups // BLOCK)
    runner.launch(BARE, 0, blocks, args)  # compiles
    runner.watch = Stopwatch()
    for _ in range(BARE_TIMES):
        runner.launch(BARE, groups * LANES * columns, blocks, args)
    return runner.stop_watch()[BARE]
