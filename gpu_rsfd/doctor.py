"""What this machine has, and whether its backends give the integers that they must give."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpu_rsfd.backends import open_backend
from gpu_rsfd.backends.base import Backend
from gpu_rsfd.backends.cpu.backend import NumpyBackend, cores
from gpu_rsfd.backends.cuda.backend import CupyBackend, Limits
from gpu_rsfd.backends.cuda.devices import about, wsl
from gpu_rsfd.backends.cuda.speed import kernel_speeds
from gpu_rsfd.backends.native import build
from gpu_rsfd.backends.reference import CASES, FAKES, GRR, PRIORS, SETS, Case, ReferenceBackend, difference
from gpu_rsfd.contract import engines
from gpu_rsfd.datasets import Dataset, SyntheticDataset
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import PAPER
from gpu_rsfd.spec import PAPER_EPSILONS
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.version import __version__

Echo = Callable[[str], None]
Section = dict[str, str]  # lines: what, and what of it

SPEED_SECONDS = 0.5
SPEED_DOMAIN = (10,) * 10
SPEED_USERS, SPEED_USERS_OF_A_DEVICE = 50_000, 1_000_000
SPEED_REPETITIONS = 100  # at a time: their counts are in memory
LITERAL_POSITIONS = 30_000  # the literal reports, user by user, are checked up to this size

# What is known of each backend before it does anything.
SECTIONS: dict[str, Callable[[], Section]] = {
    "numpy": lambda: {"NumPy": np.__version__, "cores": str(cores())},
    "native": build.describe,
    "cupy": about,
}


def report() -> dict[str, Section]:
    """The machine, what is known of each backend, and the backend that `auto` takes: a section of lines each."""
    windows = " (WSL2)" if wsl() else ""
    machine = {
        "gpu-rsfd": f"{__version__}, stream version {STREAM_VERSION}",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}{windows}",
        "Python": platform.python_version(),
    }
    sections = {"machine": machine, **{name: section() for name, section in SECTIONS.items()}}
    backend, why = open_backend("auto")
    with backend:
        sections["auto"] = {"backend": f"{why} ({backend.device})"}
    return sections


def lines_of(sections: dict[str, Section]) -> list[str]:
    """A section per paragraph."""
    return [line for name, s in sections.items() for line in (name, *(f"  {what}: {text}" for what, text in s.items()))]


# What only a device gets to do, since it takes a CPU too long to repeat it: many blocks that add to few counts.
DEVICE_CASES = (
    Case(3_000_001, (2, 3), (1.0,), FAKES, range(3)),
    Case(2_000_000, (2,), (0.5, 1.0), (*GRR, "spl-oue", "smp-sue"), range(2)),
    Case(150_001, (2500, 2), (8.0,), (*GRR, "rsfd-oue-r"), range(1)),
    Case(120_000, (5000, 3), (9.0,), GRR, range(2)),
    Case(200_000, (2500, 2), (3.0,), SETS, range(1)),
    Case(300_000, (10,) * 5, PAPER_EPSILONS, PAPER, range(2)),
    Case(500_000, (7, 5), (1.0, 2.0), PRIORS, range(2), priors=True),
    Case(500_001, (7, 5, 3), (1.0,), FAKES, range(5), little=(1500, 2)),
)


@dataclass
class Checked:
    """What became of a backend."""

    backend: str
    device: str
    cases: int = 0
    failures: list[str] = field(default_factory=list)
    speed: dict[str, Any] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        return not self.failures


def available(echo: Echo) -> Iterator[Backend]:
    """All that this machine can run: each device alone and, if there are several, all of them together."""
    for name, engine in engines():
        if isinstance(engine, str):
            echo(f"{name}: not tested, since {engine.partition(': ')[2]}")
        elif isinstance(engine, CupyBackend) and len(engine.devices) > 1:
            yield from (CupyBackend([device.index]) for device in engine.devices)
            yield engine
        else:
            yield engine


def compared(backend: Backend, case: Case, times: int = 1) -> str:
    """Where a backend differs: NumPy from the literal reports of the first cell, any other from NumPy."""
    if backend.name == "numpy":
        return difference(
            backend, replace(case, epsilons=case.epsilons[:1], repetitions=case.repetitions[:1]), ReferenceBackend()
        )
    limits: AbstractContextManager[None] = nullcontext()
    if case.little and isinstance(backend, CupyBackend):
        limits = backend.limited(Limits(*case.little))
    with limits, NumpyBackend(workers=1) as right:
        return difference(backend, case, right, times)


def self_test(
    echo: Echo,
    backends: Sequence[Backend] | None = None,
    cases: Sequence[Case] = CASES,
    speed: bool = False,
    device_cases: Sequence[Case] = DEVICE_CASES,
) -> list[Checked]:
    """Compares every backend with the reference, integer by integer.

    NumPy is compared with the literal reports of each user (the first epsilon and repetition of a case), every other
    backend with NumPy; a device, since it may give something else the second time, twice.

    Parameters
    ----------
    echo
        Gets each line as soon as it is known.
    backends
        Those to be tested; default: all that this machine can run.
    cases, device_cases
        Shapes for all backends, and more for CUDA devices.
    speed
        Measure the speed of backends without a difference.
    """
    checked = []
    for backend in available(echo) if backends is None else backends:
        devices = backend.devices if isinstance(backend, CupyBackend) else ()
        name = f"cupy device {'+'.join(str(device.index) for device in devices)}" if devices else backend.name
        tried = [*cases, *device_cases] if devices else list(cases)
        if backend.name == "numpy":
            tried = [case for case in tried if case.users * sum(case.domain) <= LITERAL_POSITIONS]
        elif len(devices) > 1:  # they share the repetitions
            tried = [case for case in tried if len(case.repetitions) > 1]
        found = Checked(name, backend.device, len(tried))
        checked.append(found)
        with backend:
            for case in tried:
                wrong = compared(backend, case, times=2 if devices else 1)
                found.failures += [wrong] * bool(wrong)
                echo(f"{name}: DIFFERENT: {wrong}" if wrong else f"{name}: {case}: equal")
            right = "the literal reports" if backend.name == "numpy" else "numpy"
            verdict = f"DIFFERENT in {len(found.failures)} of" if found.failures else f"equal to {right} in"
            echo(f"{name}: {verdict} {len(tried)} cases ({found.device})")
            if speed and found.good:
                measure(echo, backend, found)
    return checked


def measure(echo: Echo, backend: Backend, found: Checked) -> None:
    """Positions per second (users x attributes x values): by the clock and, on a device, kernel by kernel.

    Of the paper's six methods at its six epsilons.
    """
    users = SPEED_USERS_OF_A_DEVICE if isinstance(backend, CupyBackend) else SPEED_USERS
    plan, data = Plan.of(SPEED_DOMAIN, PAPER, PAPER_EPSILONS), SyntheticDataset(users, SPEED_DOMAIN)
    rate, repetitions = positions_per_second(backend, plan, data)
    found.speed["positions_per_second"] = rate
    echo(f"{found.backend}: {rate:.2e} positions/s (users x attributes x values) by the clock")
    if isinstance(backend, CupyBackend) and len(backend.devices) == 1:
        speeds = kernel_speeds(backend, plan, data, repetitions)
        found.speed["kernels"] = [speed._asdict() for speed in speeds]
        for speed in speeds:
            echo(f"{found.backend}: {speed}")


def positions_per_second(
    backend: Backend, plan: Plan, data: Dataset, seconds: float = SPEED_SECONDS
) -> tuple[float, int]:
    """With as many repetitions as take so many seconds, some at a time; and how many at a time."""
    backend.count(plan, data, 1, range(1))  # compiles, starts processes
    repetitions, done, took = 1, 0, 0.0
    while took < seconds:
        if took and repetitions < SPEED_REPETITIONS:
            repetitions, done, took = min(SPEED_REPETITIONS, 2 * repetitions), 0, 0.0
        start = time.perf_counter()
        backend.count(plan, data, 1, range(repetitions))
        took += time.perf_counter() - start
        done += repetitions
    return plan.positions(data.n) * done / took, repetitions
