"""What this machine has, and whether its backends give the integers that they must give."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from gpu_rsfd.backends import open_backend
from gpu_rsfd.backends.base import Backend
from gpu_rsfd.backends.cpu.backend import NumpyBackend, cores
from gpu_rsfd.backends.cuda.backend import CupyBackend, Limits
from gpu_rsfd.backends.cuda.devices import probe
from gpu_rsfd.backends.literal import reports
from gpu_rsfd.datasets import Dataset, SyntheticDataset
from gpu_rsfd.plan import Counts, Plan
from gpu_rsfd.protocols import PAPER, PROTOCOLS, TERMS, Terms
from gpu_rsfd.protocols.form import Thresholds
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


NONE = Limits()


@dataclass(frozen=True)
class Case:
    """A shape with an edge."""

    users: int
    domain: tuple[int, ...]
    epsilons: tuple[float, ...]
    protocols: tuple[str, ...] = PROTOCOLS
    repetitions: range = range(3, 8, 2)
    priors: bool = False  # fake values of protocols that have a prior follow a law of their own
    limits: Limits = NONE  # a device takes so much at a time

    def data(self, assignment: str) -> Dataset:
        """Synthetic, which a device draws itself; or the same codes as a data set in memory."""
        drawn = SyntheticDataset(self.users, self.domain, "uniform" if self.users % 2 else "zipf:1.1", self.users)
        if assignment == "uniform":
            return drawn
        return Dataset(np.stack([drawn.column(j, 0, drawn.n) for j in range(drawn.d)], axis=1), self.domain)

    @property
    def terms(self) -> Terms:
        return Terms(priors=tuple(map(_growing, self.domain))) if self.priors else TERMS

    def plan(self, assignment: str) -> Plan:
        return Plan.of(self.domain, self.protocols, self.epsilons, assignment, self.terms)

    @property
    def name(self) -> str:
        limits = "" if self.limits == NONE else ", little at a time"
        return f"users={self.users}, domain={_short(self.domain)}{', priors' * self.priors}{limits}"


def _growing(k: int) -> Thresholds:
    """A prior: the larger a value, the more often it comes, and 0 never."""
    weights = np.cumsum(np.arange(k))
    return tuple(int(t) for t in weights[:-1] * 2**32 // weights[-1])


GRR = ("rsfd-grr", "spl-grr", "smp-grr")  # without unary encodings, whose work grows with the number of values
FAKES = ("rsfd-grr", "spl-grr", "rsfd-oue-r", "rsfd-sue-r", "rsfd-oue-z", "smp-oue")
PRIORS = (*FAKES, "rsrfd-grr", "rsrfd-oue-r", "rsrfd-sue-r")
FEW = Limits(groups=2, repetitions=1)

CASES = (
    Case(1, (2,), (1.0,)),
    Case(63, (3, 2), (0.05, 1.0)),
    Case(64, (31, 2, 5), (math.log(2), 2.0)),
    Case(65, (32, 4), (3.0,)),
    Case(129, (33, 2, 3, 7), (1.0, 1.5, 2.0)),
    Case(200, (63, 64, 65), (math.log(7),)),
    Case(193, (300, 2), (0.7,)),
    Case(1000, (2, 3, 5, 10), tuple(0.5 * i for i in range(1, 11))),  # more thresholds than a kernel takes at once
    Case(130, (4,) * 17, (9.0,), repetitions=range(2**64 - 2, 2**64)),
    Case(300, (7, 5), (60.0,)),
    Case(500, (6, 3), (1.0,), ("rsfd-sue-z", "spl-sue", "smp-sue")),  # the smallest kernel of pairs; no encoded fakes
    Case(90, (257, 3), (350.0,)),  # p is 1 after rounding
    Case(70, (2500, 2), (8.0,), (*GRR, "rsfd-oue-r")),  # too large for shared memory
    Case(131, (5000, 2), (9.0,), GRR),  # codes of 13 digits, which some users keep
    Case(70_000, (2,), (1.0,), PAPER, range(1)),  # more users than a block takes
    Case(4097, (10, 11), PAPER_EPSILONS, PAPER),
    Case(400, (33, 2, 9), (1.0, 3.0), PRIORS, priors=True),
    Case(401, (5, 70), (0.5, 2.0), (*FAKES, "smp-grr"), limits=FEW),
    Case(402, (6,), (0.5,), (*FAKES, "smp-grr"), limits=FEW),  # everyone reports the only attribute
    Case(333, (4, 3), (1.0,), PRIORS, priors=True, limits=FEW),
)

# What only a device gets to do, since it takes a CPU too long to repeat it: many blocks that add to few counts.
DEVICE_CASES = (
    Case(3_000_001, (2, 3), (1.0,), FAKES, range(3)),
    Case(2_000_000, (2,), (0.5, 1.0), (*GRR, "spl-oue", "smp-sue"), range(2)),
    Case(150_001, (2500, 2), (8.0,), (*GRR, "rsfd-oue-r"), range(1)),
    Case(120_000, (5000, 3), (9.0,), GRR, range(2)),
    Case(300_000, (10,) * 5, PAPER_EPSILONS, PAPER, range(2)),
    Case(500_000, (7, 5), (1.0, 2.0), PRIORS, range(2), priors=True),
    Case(500_001, (7, 5, 3), (1.0,), FAKES, range(5), limits=Limits(groups=1500, repetitions=2)),
)

STRESS_SECONDS = 180.0
STRESS_TIMES = 10  # that a device counts the same, for one time that NumPy does


def self_test(
    echo: Echo,
    backends: Sequence[Backend] | None = None,
    cases: Sequence[Case] = CASES,
    speed: bool = True,
    device_cases: Sequence[Case] = DEVICE_CASES,
    stress: float = 0.0,
) -> bool:
    """Compares every backend with the reference, integer by integer; True if all are equal.

    NumPy is compared with the literal reports of each user (the first epsilon and repetition of a case); a device with
    NumPy and, since it may give something else the second time, with itself.  Each line goes to `echo`; a difference
    names its first cell.  `backends` defaults to all that this machine can run; `stress` is for so many seconds of
    cases made at random.
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
            tried = [*cases, *(() if backend.name == "numpy" else device_cases)]
            difference = next(_differences(backend, tried), None)
            compared = sum(_is_compared(backend, case) for case in tried) * len(ASSIGNMENTS)
            echo(f"{backend.name}: {_verdict(backend, difference, f'in {compared} cases')} ({backend.device})")
            if difference is None and stress:
                difference = _stress(echo, backend, stress)
            if speed and difference is None:
                echo(f"{backend.name}: {_speed(backend)}")
            good = good and difference is None
    return good


def _verdict(backend: Backend, difference: str | None, where: str) -> str:
    if difference is not None:
        return f"DIFFERENT: {difference}"
    return f"equal to {'the literal reports' if backend.name == 'numpy' else 'numpy'} {where}"


def _is_compared(backend: Backend, case: Case) -> bool:
    return backend.name != "numpy" or case.users * sum(case.domain) <= LITERAL_POSITIONS


def _differences(backend: Backend, cases: Iterable[Case], seed: int = 2**63 + 12345, times: int = 2) -> Iterator[str]:
    """A line for each cell that is not what it must be.  A device counts each case so many times."""
    for case in cases:
        if not _is_compared(backend, case):
            continue
        for assignment in ASSIGNMENTS:
            data, plan = case.data(assignment), case.plan(assignment)
            where = f"{case.name}, {assignment} assignment"

            def counted(
                engine: Backend, plan: Plan = plan, data: Dataset = data, case: Case = case
            ) -> tuple[Counts, Counts]:
                limits = engine.limited(case.limits) if isinstance(engine, CupyBackend) else nullcontext()
                with limits:
                    counts, sampled = engine.count(plan, data, seed, case.repetitions)
                return plan.spread(counts), plan.reporters(data.n, sampled)

            ours = counted(backend)
            if backend.name == "numpy":
                yield from _cells(
                    where, plan, case.repetitions, ours, _literal(case, plan, data, seed, assignment, *ours)
                )
                continue
            with NumpyBackend(workers=1) as engine:
                yield from _cells(where, plan, case.repetitions, ours, counted(engine))
            for _ in range(times - 1):
                yield from _cells(f"{where}, the same once more", plan, case.repetitions, counted(backend), ours)


def _stress(echo: Echo, backend: Backend, seconds: float, seed: int = 0) -> str | None:
    """Cases made at random, for so many seconds; what differs first."""
    stop = time.monotonic() + seconds
    random = np.random.default_rng(seed)
    done = 0
    difference = None
    while difference is None and (not done or time.monotonic() < stop):
        case = random_case(random, LITERAL_POSITIONS if backend.name == "numpy" else 3 * 10**7)
        difference = next(_differences(backend, [case], int(random.integers(2**63)), STRESS_TIMES), None)
        done += 1
    echo(f"{backend.name}: stress: {_verdict(backend, difference, f'in {done} random cases')}")
    return difference


def random_case(random: np.random.Generator, positions: int) -> Case:
    """A case of at most so many users x values."""
    d = int(random.choice([1, 2, 3, 5, 17]))
    domain = tuple(int(k) for k in np.exp(random.uniform(math.log(2), math.log(300), d)).astype(int))
    most = positions // sum(domain)
    users = int(np.exp(random.uniform(math.log(min(64, most)), math.log(most))))
    first = int(random.integers(2**40))
    few = Limits(int(random.integers(1, users // 64 + 2)), int(random.integers(1, 4)))
    return Case(
        max(1, users),
        domain,
        tuple(float(e) for e in random.uniform(0.05, 6, int(random.integers(1, 7)))),
        tuple(str(p) for p in random.permutation(PROTOCOLS)[: int(random.integers(1, 9))]),
        range(first, first + int(random.integers(1, 5))),
        priors=bool(random.integers(4) == 0),
        limits=few if random.integers(2) else NONE,
    )


def _literal(
    case: Case, plan: Plan, data: Dataset, seed: int, assignment: str, counts: Counts, reporters: Counts
) -> tuple[Counts, Counts]:
    """The first epsilon and repetition from the literal reports; the rest as given."""
    counts, reporters = counts.copy(), reporters.copy()
    for p, protocol in enumerate(case.protocols):
        sent = reports(data, protocol, case.epsilons[0], seed, case.repetitions[0], assignment, case.terms)
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


def _speed(backend: Backend) -> str:
    """Positions per second: by the clock and, on a device, in its kernels alone."""
    wall, repetitions = positions_per_second(backend)
    text = f"{wall:.2e} positions/s (users x attributes x values)"
    if not isinstance(backend, CupyBackend):
        return text
    plan, data = _speed_shape()
    kernels = backend.kernel_seconds(lambda: backend.count(plan, data, 1, range(repetitions)))
    took = sum(kernels.values()) / len(backend.devices)
    slowest = max(kernels, key=lambda name: kernels[name])
    inside = plan.positions(data.n) * repetitions / max(took, 1e-9)
    return f"{text} by the clock; {inside:.2e} in the kernels, by CUDA events, most of it in {slowest}"


def _speed_shape() -> tuple[Plan, Dataset]:
    users, domain = SPEED_SHAPE
    return Plan.of(domain, PAPER, PAPER_EPSILONS), SyntheticDataset(users, domain)


def positions_per_second(backend: Backend, seconds: float = SPEED_SECONDS) -> tuple[float, int]:
    """The paper's six methods at its six epsilons, with as many repetitions as take so many seconds; and how many."""
    plan, data = _speed_shape()
    backend.count(plan, data, 1, range(1))  # compiles, starts processes
    repetitions = 1
    while True:
        start = time.perf_counter()
        backend.count(plan, data, 1, range(repetitions))
        took = time.perf_counter() - start
        if took >= seconds:
            return plan.positions(data.n) * repetitions / took, repetitions
        repetitions = max(2 * repetitions, math.ceil(1.2 * repetitions * seconds / max(took, 1e-3)))
