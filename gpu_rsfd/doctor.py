"""What this machine has, and whether its backends give the integers that they must give."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_rsfd.backends import open_backend
from gpu_rsfd.backends.base import Backend
from gpu_rsfd.backends.cpu.backend import NumpyBackend, cores
from gpu_rsfd.backends.cuda.devices import probe
from gpu_rsfd.backends.literal import reports
from gpu_rsfd.datasets import Dataset, SyntheticDataset
from gpu_rsfd.plan import Counts, Plan
from gpu_rsfd.protocols import PAPER, PROTOCOLS
from gpu_rsfd.spec import PAPER_EPSILONS
from gpu_rsfd.tape import ASSIGNMENTS, STREAM_VERSION
from gpu_rsfd.version import __version__

Echo = Callable[[str], None]

SPEED_SECONDS = 0.5
SPEED_SHAPE = (50_000, (10,) * 5)  # users and domain sizes of syn1
LITERAL_POSITIONS = 30_000  # the literal reports, user by user, are checked up to this size


def report() -> list[str]:
    """Versions, devices, and the backend that `auto` takes, line by line."""
    found = probe()
    lines = [
        f"gpu-rsfd {__version__}, stream version {STREAM_VERSION}",
        f"Python {platform.python_version()}, NumPy {np.__version__}, {cores()} cores, {platform.machine()}",
        _cupy_line(),
    ]
    lines += [f"device {d.index}: {d.name}, {_gib(d.memory)}, sm_{d.capability}" for d in found.devices]
    lines += [f"problem: {problem}" for problem in found.problems]
    backend, why = open_backend("auto")
    with backend:
        lines.append(f"backend auto: {why} ({backend.device})")
    return lines


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _cupy_line() -> str:
    try:
        import cupy
    except Exception as error:
        return f"CuPy: {'not installed' if isinstance(error, ModuleNotFoundError) else error}"
    try:
        driver, runtime = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    except Exception as error:  # no driver: which exception is not promised
        return f"CuPy {cupy.__version__}, no CUDA: {error}"
    return (
        f"CuPy {cupy.__version__}, CUDA runtime {_cuda(runtime)}, driver for CUDA {_cuda(driver) if driver else 'none'}"
    )


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


@dataclass(frozen=True)
class Case:
    """A shape with an edge."""

    users: int
    domain: tuple[int, ...]
    epsilons: tuple[float, ...]
    protocols: tuple[str, ...] = PROTOCOLS
    repetitions: range = range(3, 8, 2)

    def data(self, assignment: str) -> Dataset:
        """Synthetic, which a device draws itself; or the same codes as a data set in memory."""
        drawn = SyntheticDataset(self.users, self.domain, "uniform" if self.users % 2 else "zipf:1.1", self.users)
        if assignment == "uniform":
            return drawn
        return Dataset(np.stack([drawn.column(j, 0, drawn.n) for j in range(drawn.d)], axis=1), self.domain)


CASES = (
    Case(1, (2,), (1.0,)),
    Case(63, (3, 2), (0.05, 1.0)),
    Case(64, (31, 2, 5), (math.log(2), 2.0)),
    Case(65, (32, 4), (3.0,)),
    Case(129, (33, 2, 3, 7), (1.0, 1.5, 2.0)),
    Case(200, (63, 64, 65), (math.log(7),)),
    Case(193, (300, 2), (0.7,)),
    Case(96, (6, 2), (1.0,), ("rsfd-sue-r", "spl-sue")),  # few thresholds
    Case(1000, (2, 3, 5, 10), tuple(0.5 * i for i in range(1, 11))),  # more thresholds than a kernel takes at once
    Case(130, (4,) * 17, (9.0,), repetitions=range(2**64 - 2, 2**64)),
    Case(300, (7, 5), (60.0,)),
    Case(500, (6, 3), (1.0,), ("rsfd-sue-z", "spl-sue", "smp-sue")),  # the smallest kernel of pairs
    Case(90, (257, 3), (350.0,)),  # p is 1 after rounding
    Case(70, (2500, 2), (1.0,), ("rsfd-grr", "spl-grr", "smp-grr", "rsfd-oue-r")),  # too large for shared memory
    Case(70_000, (2,), (1.0,), PAPER, range(1)),  # more users than a block takes
    Case(4097, (10, 11), PAPER_EPSILONS, PAPER),
)


def self_test(
    echo: Echo, backends: Sequence[Backend] | None = None, cases: Sequence[Case] = CASES, speed: bool = True
) -> bool:
    """Compares every backend with the reference, integer by integer; True if all are equal.

    NumPy is compared with the literal reports of each user (the first epsilon and repetition of a case), other
    backends with NumPy.  Each line goes to `echo`; a
    difference names its first cell.  `backends` defaults to all that this machine can run.
    """
    if backends is None:
        backends = [NumpyBackend()]
        if probe().devices:
            backends.append(open_backend("cupy")[0])
        else:
            echo(f"cupy: not tested, since {probe().reason}")
    good = True
    for backend in backends:
        with backend:
            difference = next(_differences(backend, cases), None)
            good = good and difference is None
            compared = sum(_is_compared(backend, case) for case in cases) * len(ASSIGNMENTS)
            against = "the literal reports" if backend.name == "numpy" else "numpy"
            verdict = f"equal to {against} in {compared} cases" if difference is None else f"DIFFERENT: {difference}"
            echo(f"{backend.name}: {verdict} ({backend.device})")
            if speed and difference is None:
                echo(f"{backend.name}: {positions_per_second(backend):.2e} positions/s (users x attributes x values)")
    return good


def _is_compared(backend: Backend, case: Case) -> bool:
    return backend.name != "numpy" or case.users * sum(case.domain) <= LITERAL_POSITIONS


def _differences(backend: Backend, cases: Sequence[Case], seed: int = 2**63 + 12345) -> Iterator[str]:
    for case in cases:
        for assignment in ASSIGNMENTS:
            data = case.data(assignment)
            plan = Plan.of(case.domain, case.protocols, case.epsilons, assignment)
            counts, sampled = backend.count(plan, data, seed, case.repetitions)
            ours = plan.spread(counts), plan.reporters(data.n, sampled)
            where = f"users={case.users}, domain={_short(case.domain)}, {assignment} assignment"
            if backend.name != "numpy":
                with NumpyBackend(workers=1) as engine:
                    counts, sampled = engine.count(plan, data, seed, case.repetitions)
                yield from _cells(
                    where, plan, case.repetitions, ours, (plan.spread(counts), plan.reporters(data.n, sampled))
                )
            elif _is_compared(backend, case):
                yield from _cells(
                    where, plan, case.repetitions, ours, _literal(case, plan, data, seed, assignment, *ours)
                )


def _literal(
    case: Case, plan: Plan, data: Dataset, seed: int, assignment: str, counts: Counts, reporters: Counts
) -> tuple[Counts, Counts]:
    """The first epsilon and repetition from the literal reports; the rest as given."""
    counts, reporters = counts.copy(), reporters.copy()
    for p, protocol in enumerate(case.protocols):
        sent = reports(data, protocol, case.epsilons[0], seed, case.repetitions[0], assignment)
        counts[p, 0, 0] = sent.counts()
        reporters[p, 0, 0] = [len(values) for values in sent.values]
    return counts, reporters


def _short(domain: tuple[int, ...]) -> str:
    return ",".join(map(str, domain[:6])) + (",…" if len(domain) > 6 else "")


def _cells(
    where: str, plan: Plan, repetitions: range, ours: tuple[Counts, Counts], right: tuple[Counts, Counts]
) -> Iterator[str]:
    """A line for each cell that differs: counts first, then the users behind them."""
    for table, (have, want) in enumerate(zip(ours, right, strict=True)):
        for p, e, r, column in np.argwhere(have != want):
            attribute = max(a.index for a in plan.attributes if a.offset <= column) if table == 0 else int(column)
            cell = f"attribute {attribute}" + (
                f", value {column - plan.attributes[attribute].offset}" if table == 0 else ""
            )
            yield (
                f"{where}, {plan.protocols[p]}, epsilon {plan.epsilons[e]:.6g}, repetition {repetitions[r]}, {cell}: "
                f"{'count' if table == 0 else 'reporters'} {have[p, e, r, column]} instead of {want[p, e, r, column]}"
            )


def positions_per_second(backend: Backend, seconds: float = SPEED_SECONDS) -> float:
    """The paper's six methods at its six epsilons, with as many repetitions as take so many seconds."""
    users, domain = SPEED_SHAPE
    data = SyntheticDataset(users, domain)
    plan = Plan.of(domain, PAPER, PAPER_EPSILONS)
    backend.count(plan, data, 1, range(1))  # compiles, starts processes
    repetitions = 1
    while True:
        start = time.perf_counter()
        backend.count(plan, data, 1, range(repetitions))
        took = time.perf_counter() - start
        if took >= seconds:
            return plan.positions(users) * repetitions / took
        repetitions = max(2 * repetitions, math.ceil(1.2 * repetitions * seconds / max(took, 1e-3)))
