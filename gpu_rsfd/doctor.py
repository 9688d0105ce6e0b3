"""What this machine has, and whether its backends give the integers that they must give."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpu_rsfd.backends import BackendUnavailable, open_backend
from gpu_rsfd.backends.base import Backend
from gpu_rsfd.backends.cpu.backend import NumpyBackend, cores
from gpu_rsfd.backends.cuda import about as cuda
from gpu_rsfd.backends.cuda import faults as cuda_faults
from gpu_rsfd.backends.cuda.backend import CupyBackend, Limits
from gpu_rsfd.backends.cuda.devices import probe, wsl
from gpu_rsfd.backends.cuda.speed import GOAL, kernel_speeds
from gpu_rsfd.backends.literal import reports
from gpu_rsfd.backends.native import build
from gpu_rsfd.datasets import Dataset, SyntheticDataset
from gpu_rsfd.planning import Counts, Plan
from gpu_rsfd.protocols import DEFAULT_SETTINGS, PAPER, REGISTRY, PrivacySettings
from gpu_rsfd.protocols.form import Thresholds
from gpu_rsfd.spec import PAPER_EPSILONS
from gpu_rsfd.tape import ASSIGNMENTS, STREAM_VERSION
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
    "cupy": cuda.about,
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


NONE = Limits()
ON_DEVICES = tuple(  # protocols of which the CUDA backend knows every noise
    name
    for name, entry in REGISTRY.items()
    if CupyBackend.noises.issuperset(variant.noise.form for variant in entry.variants)
)


@dataclass(frozen=True)
class Case:
    """A shape with an edge."""

    users: int
    domain: tuple[int, ...]
    epsilons: tuple[float, ...]
    protocols: tuple[str, ...] = ON_DEVICES
    repetitions: range = range(3, 8, 2)
    priors: bool = False  # fake values of protocols that have a prior follow a distribution of their own
    limits: Limits = NONE  # a device takes so much at a time

    def data(self, assignment: str) -> Dataset:
        """Synthetic, which a device draws itself; or the same codes as a data set in memory."""
        drawn = SyntheticDataset(self.users, self.domain, "uniform" if self.users % 2 else "zipf:1.1", self.users)
        if assignment == "uniform":
            return drawn
        return Dataset(np.stack([drawn.column(j, 0, drawn.n) for j in range(drawn.d)], axis=1), self.domain)

    @property
    def settings(self) -> PrivacySettings:
        return PrivacySettings(priors=tuple(map(_growing, self.domain))) if self.priors else DEFAULT_SETTINGS

    def plan(self, assignment: str) -> Plan:
        return Plan.of(self.domain, self.protocols, self.epsilons, assignment, self.settings)

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
SETS = ("spl-hr", "smp-hr", "rsfd-hr", "spl-pgr", "smp-pgr", "rsfd-pgr")
FEW = Limits(groups=2, repetitions=1)
STEPS = tuple(0.2 * i for i in range(1, 19))

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
    Case(334, (5, 40, 2), (0.5, 2.0), (*SETS, "smp-grr"), limits=FEW),
    Case(71, (2500, 2), (3.0,), ("spl-hr", "rsfd-hr", "smp-pgr")),  # messages too many for shared memory
    Case(151, (3, 2), STEPS[:4], ("spl-oue", "smp-oue", "spl-sue")),  # sizes of kernels that no other case needs
    Case(152, (3, 2), STEPS[:16], ("spl-oue",)),
    Case(153, (2, 3), STEPS, ("smp-oue",)),
)

# What only a device gets to do, since it takes a CPU too long to repeat it: many blocks that add to few counts.
DEVICE_CASES = (
    Case(3_000_001, (2, 3), (1.0,), FAKES, range(3)),
    Case(2_000_000, (2,), (0.5, 1.0), (*GRR, "spl-oue", "smp-sue"), range(2)),
    Case(150_001, (2500, 2), (8.0,), (*GRR, "rsfd-oue-r"), range(1)),
    Case(120_000, (5000, 3), (9.0,), GRR, range(2)),
    Case(200_000, (2500, 2), (3.0,), SETS, range(1)),
    Case(300_000, (10,) * 5, PAPER_EPSILONS, PAPER, range(2)),
    Case(500_000, (7, 5), (1.0, 2.0), PRIORS, range(2), priors=True),
    Case(500_001, (7, 5, 3), (1.0,), FAKES, range(5), limits=Limits(groups=1500, repetitions=2)),
)

# Several devices share repetitions, one at a time.
SHARED = Limits(repetitions=1, positions=1)

STRESS_SECONDS = 180.0
STRESS_TIMES = 10  # that a device counts the same, for one time that NumPy does


@dataclass
class Checked:
    """What became of a backend."""

    backend: str
    device: str
    cases: int = 0
    failures: list[str] = field(default_factory=list)
    kernels: Section = field(default_factory=dict)
    speed: dict[str, Any] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        return not self.failures


def available(echo: Echo) -> list[Backend]:
    """All that this machine can run: each device alone and, if there are several, all of them together."""
    backends: list[Backend] = [NumpyBackend()]
    try:
        backends.append(open_backend("native")[0])
    except BackendUnavailable as error:
        echo(f"native: not tested, since {str(error).partition(': ')[2]}")
    found = probe()
    if not found.devices:
        echo(f"cupy: not tested, since {found.reason}")
    backends += [CupyBackend([device.index]) for device in found.devices]
    if len(found.devices) > 1:
        backends.append(CupyBackend([device.index for device in found.devices]))
    return backends


def self_test(
    echo: Echo,
    backends: Sequence[Backend] | None = None,
    cases: Sequence[Case] = CASES,
    speed: bool = False,
    device_cases: Sequence[Case] = DEVICE_CASES,
    stress: float = 0.0,
    faults: bool = False,
) -> list[Checked]:
    """Compares every backend with the reference, integer by integer.

    NumPy is compared with the literal reports of each user (the first epsilon and repetition of a case), every other
    backend with NumPy and, since a device may give something else the second time, with itself.

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
    stress
        Seconds for each backend, of cases made at random.
    faults
        Provoke memory that runs out, pinned memory that can't be had, and Ctrl-C, on each device.
    """
    checked = []
    for backend in available(echo) if backends is None else backends:
        with backend:
            found = Checked(_label(backend), backend.device)
            checked.append(found)
            for case in _tried(backend, cases, device_cases):
                for line in _differences(backend, [case], echo=echo):
                    found.failures.append(line)
                found.cases += len(ASSIGNMENTS)
            echo(f"{found.backend}: {_verdict(backend, found.failures, f'in {found.cases} cases')} ({found.device})")
            if stress and found.good:
                _stress(echo, backend, found, stress)
            if faults and isinstance(backend, CupyBackend):
                _faults(echo, backend, found)
            if isinstance(backend, CupyBackend) and len(backend.devices) == 1:
                found.kernels = backend.compiled()
                for name, text in found.kernels.items():
                    echo(f"{found.backend}: {name}: {text}")
            if speed and found.good:
                measure(echo, backend, found)
    if faults and not any(found.backend.startswith("cupy") for found in checked):
        echo("faults: none provoked, since they are those of CUDA devices, and none was tested")
    return checked


def _label(backend: Backend) -> str:
    if not isinstance(backend, CupyBackend):
        return backend.name
    return f"cupy device {'+'.join(str(device.index) for device in backend.devices)}"


def _tried(backend: Backend, cases: Sequence[Case], device_cases: Sequence[Case]) -> list[Case]:
    if backend.name == "numpy":
        return [case for case in cases if case.users * sum(case.domain) <= LITERAL_POSITIONS]
    if not isinstance(backend, CupyBackend):
        return list(cases)
    every = [*cases, *device_cases]
    if len(backend.devices) == 1:
        return every
    return [replace(case, limits=SHARED) for case in every if len(case.repetitions) > 1]


def _verdict(backend: Backend, failures: Sequence[str], where: str) -> str:
    if failures:
        return f"DIFFERENT in {len(failures)} of {where.removeprefix('in ')}"
    return f"equal to {'the literal reports' if backend.name == 'numpy' else 'numpy'} {where}"


def _differences(
    backend: Backend, cases: Iterable[Case], seed: int = 2**63 + 12345, times: int = 2, echo: Echo = lambda _: None
) -> Iterator[str]:
    """A line for each case that is not what it must be.  A device counts each case so many times."""
    for case in cases:
        for assignment in ASSIGNMENTS:
            data, plan = case.data(assignment), case.plan(assignment)
            where = f"{case.name}, {assignment} assignment"

            def counted(
                engine: Backend, plan: Plan = plan, data: Dataset = data, case: Case = case
            ) -> tuple[Counts, Counts]:
                limits = engine.limited(case.limits) if isinstance(engine, CupyBackend) else nullcontext()
                with limits:
                    counts, sampled = engine.count(plan, data, seed, case.repetitions)
                return plan.expand(counts), plan.reporters(data.n, sampled)

            started = time.perf_counter()
            ours = counted(backend)
            took = time.perf_counter() - started
            if backend.name == "numpy":
                wrong = list(_cells(plan, case, ours, _literal(case, data, seed, assignment, *ours)))
                again = []
            else:
                with NumpyBackend(workers=1) as engine:
                    wrong = list(_cells(plan, case, ours, counted(engine)))
                again = [cell for _ in range(times - 1) for cell in _cells(plan, case, counted(backend), ours)]
            if wrong or again:
                line = f"{where}, {_diagnosis(wrong, again, backend.name != 'numpy' and times > 1)}"
                echo(f"{_label(backend)}: DIFFERENT: {line}")
                yield line
            else:
                echo(f"{_label(backend)}: {where}: equal ({took:.2f} s)")


def _diagnosis(wrong: Sequence[str], again: Sequence[str], repeated: bool) -> str:
    """The first cell, how many there are, and what a repeat says of them."""
    if not wrong:
        return f"the same once more, {again[0]} ({len(again)} cells; a race: the first time was right)"
    kind = " a race: it differs from itself" if again else " arithmetic: it is the same once more" if repeated else ""
    return f"{wrong[0]} ({len(wrong)} cell{'s' * (len(wrong) > 1)}{';' * bool(kind)}{kind})"


def _stress(echo: Echo, backend: Backend, found: Checked, seconds: float, seed: int = 0) -> None:
    """Cases made at random, for so many seconds or until one differs."""
    stop = time.monotonic() + seconds
    random = np.random.default_rng(seed)
    done = 0
    while found.good and (not done or time.monotonic() < stop):
        case = random_case(random, LITERAL_POSITIONS if backend.name == "numpy" else 3 * 10**7)
        found.failures += _differences(backend, [case], int(random.integers(2**63)), STRESS_TIMES)
        done += 1
    what = found.failures[0] if found.failures else ""
    text = f"DIFFERENT: {what}" if what else _verdict(backend, (), f"in {done} random cases")
    echo(f"{found.backend}: stress: {text}")


def _faults(
    echo: Echo,
    backend: CupyBackend,
    found: Checked,
    shape: tuple[int, tuple[int, ...], range] = cuda_faults.SHAPE,
    size: int = cuda_faults.POOL_BYTES,
) -> None:
    users, domain, repetitions = shape
    plan, data = Plan.of(domain, FAKES, (1.0,)), SyntheticDataset(users, domain)
    with NumpyBackend() as engine:
        right = engine.count(plan, data, 1, repetitions)
    for fault, wrong in cuda_faults.provoke(backend, plan, data, repetitions, right, size):
        echo(f"{found.backend}: {fault}: {wrong or 'counts are right'}")
        if wrong is not None:
            found.failures.append(f"{fault}: {wrong}")


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
        tuple(str(p) for p in random.permutation(ON_DEVICES)[: int(random.integers(1, 9))]),
        range(first, first + int(random.integers(1, 5))),
        priors=bool(random.integers(4) == 0),
        limits=few if random.integers(2) else NONE,
    )


def _literal(
    case: Case, data: Dataset, seed: int, assignment: str, counts: Counts, reporters: Counts
) -> tuple[Counts, Counts]:
    """The first epsilon and repetition from the literal reports; the rest as given."""
    counts, reporters = counts.copy(), reporters.copy()
    for p, protocol in enumerate(case.protocols):
        sent = reports(data, protocol, case.epsilons[0], seed, case.repetitions[0], assignment, case.settings)
        counts[p, 0, 0] = sent.counts()
        reporters[p, 0, 0] = [len(values) for values in sent.values]
    return counts, reporters


def _short(domain: tuple[int, ...]) -> str:
    return ",".join(map(str, domain[:6])) + (",…" if len(domain) > 6 else "")


def _cells(plan: Plan, case: Case, ours: tuple[Counts, Counts], right: tuple[Counts, Counts]) -> Iterator[str]:
    """A line for each cell that differs: counts first, then the users behind them."""
    for table, (have, want) in enumerate(zip(ours, right, strict=True)):
        for p, e, r, column in np.argwhere(have != want):
            attribute = max(a.index for a in plan.attributes if a.offset <= column) if table == 0 else int(column)
            cell = f"attribute {attribute}" + (
                f", value {column - plan.attributes[attribute].offset}" if table == 0 else ""
            )
            yield (
                f"{plan.protocols[p]}, epsilon {plan.epsilons[e]:.6g}, repetition {case.repetitions[r]}, {cell}: "
                f"{'count' if table == 0 else 'reporters'} {have[p, e, r, column]} instead of {want[p, e, r, column]}"
            )


def measure(echo: Echo, backend: Backend, found: Checked) -> None:
    """Positions per second (users x attributes x values): by the clock and, on a device, kernel by kernel."""
    plan, data = _speed_shape(backend)
    rate, repetitions = positions_per_second(backend, plan, data)
    found.speed["positions_per_second"] = rate
    echo(f"{found.backend}: {rate:.2e} positions/s (users x attributes x values) by the clock")
    if not isinstance(backend, CupyBackend) or len(backend.devices) > 1:
        return
    speeds = kernel_speeds(backend, plan, data, repetitions)
    found.speed["kernels"] = [speed._asdict() for speed in speeds]
    for s in speeds:
        text = f"{s.name}: {1e3 * s.seconds:.2f} ms, {s.rate:.2e}/s"
        if s.expected is not None:
            text += f" (expected from its instructions: {s.expected[0]:.1e} to {s.expected[1]:.1e})"
        if s.of_bare is not None:
            text += f", {s.of_bare:.2f} of the bare tape's (goal: {GOAL})"
        echo(f"{found.backend}: {text}")


def _speed_shape(backend: Backend) -> tuple[Plan, Dataset]:
    """The paper's six methods at its six epsilons."""
    users = SPEED_USERS_OF_A_DEVICE if isinstance(backend, CupyBackend) else SPEED_USERS
    return Plan.of(SPEED_DOMAIN, PAPER, PAPER_EPSILONS), SyntheticDataset(users, SPEED_DOMAIN)


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
