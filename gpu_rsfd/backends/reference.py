"""The contract of a backend: its counts are those of the literal reports, integer by integer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_rsfd.backends.base import Backend, Progress, check_noises
from gpu_rsfd.backends.literal import LITERAL, literal, reported
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.synthetic import SyntheticDataset
from gpu_rsfd.planning import Counts, Plan
from gpu_rsfd.protocols import DEFAULT_SETTINGS, PAPER, REGISTRY, PrivacySettings, Protocol, Subsets
from gpu_rsfd.protocols.form import Thresholds
from gpu_rsfd.protocols.own import SOLUTIONS, protocol
from gpu_rsfd.spec import PAPER_EPSILONS
from gpu_rsfd.tape import ASSIGNMENTS, KEEP_ONE, ONE, Tape

SEED, FIRST = 2**63 + 12345, 3  # of every comparison, and its first repetition


class ReferenceBackend(Backend):
    """Counts what each user sends, user by user, for one cell of the plan after another: slow and obvious."""

    name = "reference"
    noises = frozenset(LITERAL)
    device = "one CPU process, user by user"

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute]."""
        check_noises(plan, self.name, self.noises)
        counts, sampled = plan.zeros(repetitions)
        cells = dict.fromkeys(cell for row in plan.cells for cell in row)  # equal cells send equal reports
        for row, repetition in enumerate(repetitions):
            for cell in cells:
                recipes = [a.recipes[i] for a, i in zip(plan.attributes, cell, strict=True)]
                values, _, assigned = literal(dataset, recipes, seed, repetition, plan.assignment)
                for a, i, sent in zip(plan.attributes, cell, values, strict=True):
                    counts[a.index][i, row] = reported(sent, a.k, a.recipes[i])
                if plan.needs_reporters:
                    sampled[row] = np.bincount(assigned, minlength=plan.d)
            if progress is not None:
                progress(plan.positions(dataset.n))
        return counts, sampled


@dataclass(frozen=True)
class Case:
    """A shape with an edge, to compare a backend on; under both assignments."""

    users: int
    domain: tuple[int, ...]
    epsilons: tuple[float, ...]
    protocols: Sequence[str | Protocol]
    repetitions: range = range(FIRST, FIRST + 5, 2)
    priors: bool = False  # fake values of protocols that have a prior follow a distribution of their own
    little: tuple[int, int] | None = None  # a device takes so many groups of 64 users and repetitions at a time

    def data(self, assignment: str) -> Dataset:
        """Synthetic, which a device draws itself; or the same codes as a data set in memory."""
        drawn = SyntheticDataset(self.users, self.domain, "uniform" if self.users % 2 else "zipf:1.1", self.users)
        if assignment == "uniform":
            return drawn
        return Dataset(np.stack([drawn.column(j, 0, drawn.n) for j in range(drawn.d)], axis=1), self.domain)

    def plan(self, assignment: str) -> Plan:
        settings = PrivacySettings(priors=tuple(map(_growing, self.domain))) if self.priors else DEFAULT_SETTINGS
        return Plan.of(self.domain, self.protocols, self.epsilons, assignment, settings)

    def __str__(self) -> str:
        domain = ",".join(map(str, self.domain[:6])) + ",…" * (len(self.domain) > 6)
        little = ", little at a time" if self.little else ""
        return f"users={self.users}, domain={domain}{', priors' * self.priors}{little}"


def difference(backend: Backend, case: Case, right: Backend, times: int = 1) -> str:
    """The first cell in which a backend's counts are not the right ones, and how many there are; empty if none is.

    `right` makes the right ones: `ReferenceBackend`, or NumPy, which was compared with it.  A device may give something
    else another time, so it may be asked several times.
    """
    for assignment in ASSIGNMENTS:
        data, plan = case.data(assignment), case.plan(assignment)
        found = [engine.count(plan, data, SEED, case.repetitions) for engine in (right, *[backend] * times)]
        tables = [(plan.expand(counts), plan.reporters(data.n, sampled)) for counts, sampled in found]
        for time, ours in enumerate(tables[1:]):
            for what, have, want in zip(("count", "reporters"), ours, tables[0], strict=True):
                wrong = np.argwhere(have != want)
                if not len(wrong):
                    continue
                cell = p, e, r, column = tuple(map(int, wrong[0]))
                a = next(a for a in plan.attributes[::-1] if column >= (a.offset if what == "count" else a.index))
                value = f", value {column - a.offset}" if what == "count" else ""
                return (
                    f"{case}, {assignment} assignment, {plan.protocols[p]}, epsilon {plan.epsilons[e]:.6g}, "
                    f"repetition {case.repetitions[r]}, attribute {a.index}{value}: {what} {have[cell]} instead of "
                    f"{want[cell]} ({len(wrong)} cell{'s' * (len(wrong) > 1)}{', right the first time' * bool(time)})"
                )
    return ""


# Draws of the first users: a threshold that equals one of them tells `<` and `<=` apart.
_WORDS = Tape(SEED).value(0, FIRST, 0, 3)
_KEEP = int(_WORDS[0]) % KEEP_ONE / KEEP_ONE
_UNIFORM = int(Tape(SEED).uniforms(0, FIRST, 0, 1)[0]) / ONE


def _growing(k: int) -> Thresholds:
    """A prior: the larger a value, the more often it comes; a few thresholds are draws, if there are enough."""
    weights = np.cumsum(np.arange(k) if k > 2 else np.array([1, 3]))
    found = [int(t) for t in weights[:-1] * KEEP_ONE // weights[-1]]
    return tuple(sorted([*found[3:], *(int(word) >> 32 for word in _WORDS)]) if k > 4 else found)


EDGES = (
    *(protocol(f"keep-{s}", solution=s, keep=lambda e, k: _KEEP) for s in SOLUTIONS if s != "rsfd-z"),
    *(protocol(f"bits-{s}", solution=s, bits=lambda e, k: (1 - 1 / ONE, _UNIFORM)) for s in SOLUTIONS),
    *(protocol(f"high-{s}", solution=s, bits=lambda e, k: (1 - 1 / ONE, 1 - 11 / ONE)) for s in SOLUTIONS),
)
WIDE = tuple(  # more messages than fit into 16 bits
    protocol(f"wide-{s}", solution=s, sets=lambda e, k: np.arange(k << 16).reshape(k, -1))
    for s in SOLUTIONS
    if s != "rsfd-z"
)
GRR = ("rsfd-grr", "spl-grr", "smp-grr")  # without unary encodings, whose work grows with the number of values
FAKES = ("rsfd-grr", "spl-grr", "rsfd-oue-r", "rsfd-sue-r", "rsfd-oue-z", "smp-oue")
PRIORS = (*FAKES, "rsrfd-grr", "rsrfd-oue-r", "rsrfd-sue-r")
SETS = ("spl-hr", "smp-hr", "rsfd-hr", "spl-pgr", "smp-pgr", "rsfd-pgr")
STEPS = tuple(0.2 * i for i in range(1, 19))
# What code is compared on before its first use: all noises, solutions and terms, every kind of tail, codes of 8 and 16
# bits, few and many thresholds, more users than counts.c takes at a time.
FIRST_USE = (
    Case(1, (2,), (1.0,), (*EDGES, *PRIORS)),
    Case(63, (5, 3, 256), (0.5, 60.0), (*EDGES, *PRIORS), range(FIRST, FIRST + 1), priors=True),
    Case(577, (5, 300), (1.0,), (*SETS, *PRIORS), range(FIRST, FIRST + 3, 2), priors=True),
    Case(1024, (20, 4), tuple(0.05 * i for i in range(1, 71)), ("spl-adp", *GRR, *EDGES), range(FIRST, FIRST + 1)),
    Case(16384 + 8 * 64 + 65, (3, 2), (1.0,), (*EDGES, *PRIORS), range(FIRST, FIRST + 1)),
)
ON_DEVICES = tuple(  # protocols without noise of a kind that CUDA and C code don't know
    name for name, entry in REGISTRY.items() if all(variant.noise.form is not Subsets for variant in entry.variants)
)
FEW = (2, 1)  # groups of users and repetitions at a time

CASES = (
    Case(1, (2,), (1.0,), ON_DEVICES),
    Case(63, (3, 2), (0.05, 1.0), ON_DEVICES),
    Case(64, (31, 2, 5), (math.log(2), 2.0), ON_DEVICES),
    Case(65, (32, 4), (3.0,), ON_DEVICES),
    Case(66, (5, 3), (1.0,), EDGES),
    Case(129, (33, 2, 3, 7), (1.0, 1.5, 2.0), ON_DEVICES),
    Case(200, (63, 64, 65), (math.log(7),), ON_DEVICES),
    Case(193, (300, 2), (0.7,), ON_DEVICES),
    Case(1000, (2, 3, 5, 10), tuple(0.5 * i for i in range(1, 11)), ON_DEVICES),  # more thresholds than a kernel takes
    Case(130, (4,) * 17, (9.0,), ON_DEVICES, range(2**64 - 2, 2**64)),
    Case(300, (7, 5), (60.0,), ON_DEVICES),
    Case(500, (6, 3), (1.0,), ("rsfd-sue-z", "spl-sue", "smp-sue")),  # the smallest kernel of pairs; no encoded fakes
    Case(90, (257, 3), (350.0,), ON_DEVICES),  # p is 1 after rounding
    Case(70, (2500, 2), (8.0,), (*GRR, "rsfd-oue-r")),  # too large for shared memory
    Case(131, (5000, 2), (9.0,), GRR),  # codes of 13 digits, which some users keep
    Case(70_000, (2,), (1.0,), PAPER, range(1)),  # more users than a block takes
    Case(4097, (10, 11), PAPER_EPSILONS, PAPER),
    Case(400, (33, 2, 9), (1.0, 3.0), PRIORS, priors=True),
    Case(401, (5, 70), (0.5, 2.0), (*FAKES, "smp-grr"), little=FEW),
    Case(402, (6,), (0.5,), (*FAKES, "smp-grr"), little=FEW),  # everyone reports the only attribute
    Case(333, (4, 3), (1.0,), PRIORS, priors=True, little=FEW),
    Case(334, (5, 40, 2), (0.5, 2.0), (*SETS, "smp-grr"), little=FEW),
    Case(150, (3, 2), (2.0, 12.0), WIDE),
    Case(71, (2500, 2), (3.0,), ("spl-hr", "rsfd-hr", "smp-pgr")),  # messages too many for shared memory
    Case(151, (3, 2), STEPS[:4], ("spl-oue", "smp-oue", "spl-sue")),  # sizes of kernels that no other case needs
    Case(152, (3, 2), STEPS[:16], ("spl-oue",)),
    Case(153, (2, 3), STEPS, ("smp-oue",)),
    Case(154, (3, 2), STEPS[:10], ("spl-oue",)),
)
