"""The speed of a device, kernel by kernel, beside what its instructions let one expect and beside the bare tape."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.backends.cuda.backend import CupyBackend
from gpu_rsfd.backends.cuda.devices import Device
from gpu_rsfd.backends.cuda.kernels import BARE
from gpu_rsfd.backends.cuda.passes import KEY, key_rounds
from gpu_rsfd.backends.cuda.runner import BLOCK, U32, U64, KernelTime, Runner, Stopwatch
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.planning import Plan
from gpu_rsfd.tape import LANES

GOAL = 0.5  # of the bare tape's rate
BARE_GROUPS = 1 << 20
BARE_TIMES = 3
# Logic instructions that a multiprocessor issues in a cycle, for 32 lanes: half of its warps'.  Some cycles are lost.
LANES_A_CYCLE, LEAST, MOST = 64, 0.74, 0.96


class KernelSpeed(NamedTuple):
    """Items (users x values in kernels of unary encodings, users in others) a second on one device."""

    name: str
    seconds: float
    rate: float
    expected: tuple[float, float] | None  # from instructions, processors and clock
    of_bare: float | None  # the bare tape's rate is 1


def instructions(kernel: str) -> float | None:
    """That a position takes in a kernel of unary encodings, with ten values: as compiled, within five in a hundred."""
    found = re.fullmatch(r"count_(unary|paired)_(\d+)", kernel)
    if found is None:
        return None
    return 19.4 + 1.28 * int(found[2]) if found[1] == "unary" else 19.2 + 1.15 * int(found[2])


def expected(kernel: str, processors: int, hertz: float) -> tuple[float, float] | None:
    """Positions a second, from few to many; a device that gets hot does not keep its clock."""
    needed = instructions(kernel)
    if needed is None:
        return None
    most = processors * hertz * LANES_A_CYCLE / needed
    return LEAST * most, MOST * most


def kernel_speeds(backend: CupyBackend, plan: Plan, data: Dataset, repetitions: int) -> list[KernelSpeed]:
    """The kernels of a plan and, last, the bare tape; the slowest first.  The backend has one device."""
    (runner,) = backend._runners
    times = backend.kernel_times(lambda: backend.count(plan, data, 1, range(repetitions)))
    bare = runner.submit(bare_tape, runner, int(np.mean(plan.domain))).result()
    processors, hertz = _processors(runner.device)
    rate = bare.items / max(bare.seconds, 1e-9)
    speeds = []
    for name, took in sorted(times.items(), key=lambda item: -item[1].seconds):
        range_ = expected(name, processors, hertz)
        mine = took.items / max(took.seconds, 1e-9)
        speeds.append(KernelSpeed(name, took.seconds, mine, range_, mine / rate if range_ else None))
    return [*speeds, KernelSpeed(BARE, bare.seconds, rate, None, None)]


def bare_tape(runner: Runner, columns: int) -> KernelTime:
    """The words of so many columns for many users, drawn by the device and not looked at."""
    cp: Any = runner._cp
    groups = min(BARE_GROUPS, max(1, runner._free_words() // 2))
    key, sums = np.zeros(1, KEY), cp.empty(groups, U64)
    key["rounds"][0] = key_rounds(1)
    args = (key, U64(columns), U32(groups), sums)
    blocks = -(-groups // BLOCK)
    runner.kernel(BARE)((blocks,), (BLOCK,), args)  # compiles
    watch = Stopwatch()
    for _ in range(BARE_TIMES):
        watch.around(
            cp, BARE, groups * LANES * columns, lambda: runner.kernel(BARE)((blocks,), (BLOCK,), args, shared_mem=0)
        )
    cp.cuda.Device(runner.device.index).synchronize()
    return watch.times(cp)[BARE]


def _processors(device: Device) -> tuple[int, float]:
    """How many, and their clock."""
    import cupy

    runtime = cupy.cuda.runtime
    number = runtime.deviceGetAttribute(runtime.cudaDevAttrMultiProcessorCount, device.index)
    return int(number), 1000.0 * runtime.deviceGetAttribute(runtime.cudaDevAttrClockRate, device.index)
