"""What the CUDA kernels count for an attribute, and how its recipes' counts follow from it.  Plain NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.kernels import PAIRED, UNARY
from gpu_rsfd.plan import AttributePlan, Counts
from gpu_rsfd.tape import LEVELS, ONE

_ROUNDS, _WEYL = 10, 0x9E3779B97F4A7C15
_MAX = max(UNARY)

# Kernel arguments that are structures, as the .cu files declare them.
KEY = np.dtype([("rounds", np.uint64, _ROUNDS)])
PASS = np.dtype(
    [
        ("key_rounds", np.uint64, _ROUNDS),
        ("digit", np.uint32, (LEVELS, _MAX + 2)),
        ("spl", np.uint32, _MAX),
        ("smp", np.uint32, _MAX),
    ]
)


def digits_of(k: int) -> int:
    """Binary digits of the codes 0 … k - 1."""
    return (k - 1).bit_length()


def key_rounds(seed: int) -> npt.NDArray[np.uint64]:
    """The first half of the Philox key in each round."""
    return np.array([(seed + i * _WEYL) % 2**64 for i in range(_ROUNDS)], np.uint64)


@dataclass(frozen=True)
class GrrRows:
    """Rows of `count_values`: y of all, y of those who sampled the attribute, then a row per keep threshold."""

    own: tuple[int, ...]  # thresholds of RS+FD and Smp, ascending
    all: tuple[int, ...]  # thresholds of Spl, ascending

    @classmethod
    def of(cls, attribute: AttributePlan) -> GrrRows | None:
        recipes = [r for r in attribute.recipes if not r.unary]
        own = sorted({r.keep for r in recipes if r.solution != "spl"})
        every = sorted({r.keep for r in recipes if r.solution == "spl"})
        return cls(tuple(own), tuple(every)) if recipes else None

    @property
    def rows(self) -> int:
        return 2 + len(self.own) + len(self.all)

    def counts(self, attribute: AttributePlan, bins: Counts, out: Counts) -> None:
        """bins [repetition, row, value] -> out [recipe, repetition, value], GRR recipes only."""
        own = np.cumsum(bins[:, 2 : 2 + len(self.own)], axis=1)
        every = np.cumsum(bins[:, 2 + len(self.own) :], axis=1)
        for i, r in enumerate(attribute.recipes):
            if not r.unary:
                kept = every[:, self.all.index(r.keep)] if r.solution == "spl" else own[:, self.own.index(r.keep)]
                out[i] = bins[:, int(r.solution == "smp")] + kept


@dataclass(frozen=True)
class UnaryPass:
    """One pass over the BITS stream: slots (solution, tq, tp) of one kernel."""

    slots: tuple[tuple[str, int, int], ...]
    paired: bool

    @property
    def thresholds(self) -> int:
        """The kernel's number of thresholds: the smallest that is enough."""
        needed = len(self.slots) * (1 + self.paired)
        return min(n for n in (PAIRED if self.paired else UNARY) if n >= needed)

    @property
    def kernel(self) -> str:
        return f"count_{'paired' if self.paired else 'unary'}_{self.thresholds}"

    @property
    def cells(self) -> int:
        """Counts of a column: two per slot of the kernel."""
        return 2 * self.thresholds // (1 + self.paired)

    def argument(self, seed: int) -> npt.NDArray[Any]:
        """The kernel's first argument."""
        pack = np.zeros(1, PASS)
        pack["key_rounds"][0] = key_rounds(seed)
        for i, (solution, tq, tp) in enumerate(self.slots):
            at = i * (1 + self.paired)
            for t, threshold in enumerate((tq, tp) if self.paired else (tq,)):
                digits = (threshold - 1) >> np.arange(LEVELS) & 1
                pack["digit"][0, :, at + t] = np.where(digits == 1, 0xFFFFFFFF, 0)
            if solution in ("spl", "smp"):
                pack[solution][0, at] = 0xFFFFFFFF
        return pack

    def counts(self, attribute: AttributePlan, cells: Counts, out: Counts) -> None:
        """cells [repetition, value, cell] -> out [recipe, repetition, value], the recipes of this pass only."""
        for i, r in enumerate(attribute.recipes):
            if r.unary and (r.solution, r.tq, r.tp) in self.slots:
                out[i] = cells[:, :, 2 * self.slots.index((r.solution, r.tq, r.tp)) + (r.fake == "r")]


def unary_passes(attribute: AttributePlan) -> list[UnaryPass]:
    """As few passes as the kernels' sizes allow, of about equal length."""
    slots = dict.fromkeys((r.solution, r.tq, r.tp) for r in attribute.recipes if r.unary)
    plain = [s for s in slots if s[2] == ONE // 2]
    pairs = [s for s in slots if s[2] != ONE // 2]
    return [UnaryPass(part, False) for part in _parts(plain, _MAX)] + [
        UnaryPass(part, True) for part in _parts(pairs, max(PAIRED) // 2)
    ]


def _parts(slots: Sequence[tuple[str, int, int]], most: int) -> list[tuple[tuple[str, int, int], ...]]:
    parts = -(-len(slots) // most)
    size = -(-len(slots) // parts) if parts else 0
    return [tuple(slots[i : i + size]) for i in range(0, len(slots), size)] if parts else []


@dataclass(frozen=True)
class AttributeJob:
    """All that a device does for an attribute in a batch of repetitions."""

    plan: AttributePlan
    digits: int
    grr: GrrRows | None
    passes: tuple[UnaryPass, ...]

    @classmethod
    def of(cls, attribute: AttributePlan) -> AttributeJob:
        return cls(attribute, digits_of(attribute.k), GrrRows.of(attribute), tuple(unary_passes(attribute)))

    @property
    def encodes_fakes(self) -> bool:
        return any(r.fake == "r" for r in self.plan.recipes)

    @property
    def cells(self) -> int:
        """Counts per repetition that come back from the device."""
        return self.plan.k * ((self.grr.rows if self.grr else 0) + sum(p.cells for p in self.passes))
