"""What the CUDA kernels count for an attribute, and how its recipes' counts follow from it.  Plain NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends.cuda.kernels import PAIRED, UNARY
from gpu_rsfd.planning import AttributePlan, Counts
from gpu_rsfd.protocols.designs import Design
from gpu_rsfd.protocols.form import Bits, Keep, Recipe, Sets, Thresholds, Unsampled
from gpu_rsfd.tape import LEVELS, ONE

_ROUNDS, _WEYL = 10, 0x9E3779B97F4A7C15
_MAX = max(UNARY)

# Kernel arguments that are structures, as the .cu files declare them.
KEY = np.dtype([("rounds", np.uint64, _ROUNDS)])
PASS = np.dtype(
    [
        ("key_rounds", np.uint64, _ROUNDS),
        ("digit", np.uint32, (LEVELS, _MAX + 2)),
        ("own", np.uint32, _MAX),
        ("partial", np.uint32, _MAX),
    ]
)


def digits_of(k: int) -> int:
    """Binary digits of the codes 0 … k - 1."""
    return (k - 1).bit_length()


def key_rounds(seed: int) -> npt.NDArray[np.uint64]:
    """The first half of the Philox key in each round."""
    return np.array([(seed + i * _WEYL) % 2**64 for i in range(_ROUNDS)], np.uint64)


Slot = tuple[str, int, int]  # who reports (own, partial, hiding), tq, tp


@dataclass(frozen=True)
class ValuePass:
    """One pass over the VALUE stream: counts of `Keep` at every threshold, and fake values to encode as bits.

    Or, with a design, counts of the messages of `Sets`.  Rows of `count_values`: what is sent if nobody keeps (y of
    those who sampled the attribute, a fake of the others); y of those who sampled it; then a row per keep threshold.
    """

    prior: Thresholds | None  # of the fakes; None: uniform, y itself
    mine: tuple[int, ...]  # thresholds of those who sampled the attribute, ascending
    all: tuple[int, ...]  # thresholds of everyone (no sampling), ascending
    encodes: bool
    messages: int  # the columns of a row
    design: Design | None = None

    @classmethod
    def of(cls, attribute: AttributePlan, prior: Thresholds | None, design: Design | None = None) -> ValuePass | None:
        """What an attribute's recipes with this prior and design need; None if that is nothing."""
        recipes = [r for r in attribute.recipes if r.prior == prior]
        keeps = [
            (r.unsampled.samples, r.noise.threshold)
            for r in recipes
            if isinstance(r.noise, (Keep, Sets)) and r.noise.design == design
        ]
        encodes = design is None and any(r.encodes_fakes for r in recipes)
        if not keeps and not encodes:
            return None
        mine, everyone = (tuple(sorted({t for s, t in keeps if s is samples})) for samples in (True, False))
        return cls(prior, mine, everyone, encodes, attribute.k if design is None else design.messages, design)

    @property
    def rows(self) -> int:
        return 2 + len(self.mine) + len(self.all) if self.mine or self.all else 0

    def places(self, attribute: AttributePlan) -> Iterator[tuple[int, int, int]]:
        """(recipe, row if nobody keeps, row of those who keep), of the recipes of this pass."""
        for i, r in enumerate(attribute.recipes):
            if isinstance(r.noise, (Keep, Sets)) and r.noise.design == self.design and r.prior == self.prior:
                t = r.noise.threshold
                kept = self.mine.index(t) if r.unsampled.samples else len(self.mine) + self.all.index(t)
                yield i, int(r.unsampled is Unsampled.NOTHING), 2 + kept

    def accumulate(self, bins: Counts) -> None:
        """bins [row, …]: a row per threshold has what changes from the one below; make it the whole change."""
        ends = 2 + len(self.mine)
        for row in (*range(3, ends), *range(ends + 1, self.rows)):
            bins[row] += bins[row - 1]


def _slot(recipe: Recipe) -> Slot | None:
    """The slot of a unary recipe."""
    noise, others = recipe.noise, recipe.unsampled
    who = "hiding" if others.hides else "partial" if others.samples else "own"
    return (who, noise.tq, noise.tp) if isinstance(noise, Bits) else None


@dataclass(frozen=True)
class UnaryPass:
    """One pass over the BITS stream: the slots of one kernel."""

    slots: tuple[Slot, ...]
    paired: bool
    prior: Thresholds | None  # of the fakes that it encodes, if any

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
        step = 1 + self.paired
        thresholds = np.array([slot[1 : 1 + step] for slot in self.slots], np.int64).ravel()
        digits = (thresholds - 1) >> np.arange(LEVELS)[:, None] & 1
        pack["digit"][0, :, : len(thresholds)] = digits * 0xFFFFFFFF
        for who in ("own", "partial"):
            pack[who][0, : len(thresholds) : step] = [0xFFFFFFFF * (slot[0] == who) for slot in self.slots]
        return pack

    def places(self, attribute: AttributePlan) -> Iterator[tuple[int, int]]:
        """(recipe, cell), of the recipes of this pass."""
        for i, r in enumerate(attribute.recipes):
            slot = _slot(r)
            if slot in self.slots and r.prior == self.prior:
                yield i, 2 * self.slots.index(slot) + (r.unsampled is Unsampled.FAKE)


def unary_passes(attribute: AttributePlan) -> list[UnaryPass]:
    """As few passes as the kernels' sizes allow, of about equal length; each encodes fakes of one prior at most."""
    passes = []
    for prior in dict.fromkeys(r.prior for r in attribute.recipes if r.unary):
        slots = list(dict.fromkeys(s for r in attribute.recipes if r.prior == prior and (s := _slot(r)) is not None))
        plain = [s for s in slots if s[2] == ONE // 2]
        pairs = [s for s in slots if s[2] != ONE // 2]
        passes += [UnaryPass(part, False, prior) for part in _parts(plain, _MAX)]
        passes += [UnaryPass(part, True, prior) for part in _parts(pairs, max(PAIRED) // 2)]
    return passes


def _parts(slots: Sequence[Slot], most: int) -> list[tuple[Slot, ...]]:
    parts = -(-len(slots) // most)
    size = -(-len(slots) // parts) if parts else 0
    return [tuple(slots[i : i + size]) for i in range(0, len(slots), size)] if parts else []


def _runs(pairs: Sequence[tuple[int, int]]) -> list[tuple[slice, slice]]:
    """Pairs as few slices: neighbours on the left that stand equally far apart on the right are one run."""
    runs: list[tuple[slice, slice]] = []
    at = 0
    while at < len(pairs):
        (i, row), stop = pairs[at], at + 1
        step = pairs[stop][1] - row if stop < len(pairs) else 1
        while stop < len(pairs) and step > 0 and pairs[stop] == (i + stop - at, row + (stop - at) * step):
            stop += 1
        count = stop - at
        step = step if count > 1 else 1
        runs.append((slice(i, i + count), slice(row, row + (count - 1) * step + 1, step)))
        at = stop
    return runs


@dataclass(frozen=True)
class AttributeJob:
    """All that a device does for an attribute in a batch of repetitions."""

    plan: AttributePlan
    digits: int
    values: tuple[ValuePass, ...]
    passes: tuple[UnaryPass, ...]
    designs: tuple[ValuePass, ...]
    sums: tuple[tuple[slice, int, slice], ...]  # (recipes, row, rows): a recipe's counts are the sum of two rows
    copies: tuple[tuple[slice, slice], ...]  # (recipes, rows)

    @classmethod
    def of(cls, attribute: AttributePlan) -> AttributeJob:
        priors = dict.fromkeys(r.prior for r in attribute.recipes)
        values = tuple(v for prior in priors if (v := ValuePass.of(attribute, prior)) is not None)
        passes = tuple(unary_passes(attribute))
        sets = dict.fromkeys(r.noise.design for r in attribute.recipes if isinstance(r.noise, Sets))
        designs = tuple(v for design in sets if (v := ValuePass.of(attribute, None, design)) is not None)
        sums: list[tuple[slice, int, slice]] = []
        copies: list[tuple[slice, slice]] = []
        at = 0
        for v in values:
            for row in (0, 1):
                kept = [(i, at + kept) for i, none, kept in v.places(attribute) if none == row]
                sums += [(recipes, at + row, rows) for recipes, rows in _runs(kept)]
            at += v.rows
        for p in passes:
            copies += _runs([(i, at + cell) for i, cell in p.places(attribute)])
            at += p.cells
        return cls(attribute, digits_of(attribute.k), values, passes, designs, tuple(sums), tuple(copies))

    @property
    def encoded_digits(self) -> int:
        """Binary digits of encoded fakes that are on the device at a time."""
        return self.digits * sum(v.encodes for v in self.values)

    @property
    def rows(self) -> int:
        """Rows of counts, k in each, that come back from the device for a repetition; those of messages follow."""
        return sum(v.rows for v in self.values) + sum(p.cells for p in self.passes)

    @property
    def cells(self) -> int:
        """Counts per repetition that come back from the device."""
        return self.plan.k * self.rows + sum(v.rows * v.messages for v in self.designs)

    def unpack(self, words: Counts, out: Counts, add: bool) -> None:
        """[row, repetition, value or message] -> out [recipe, repetition, value], set or added to.  Changes `words`.

        Few calls on long runs of memory: this is the host's work while the device counts.
        """
        repetitions, k = out.shape[1:]
        rows = words[: self.rows * repetitions * k].reshape(self.rows, repetitions, k)
        at = rows.size
        for v in self.designs:
            size = v.rows * repetitions * v.messages
            self._unpack_design(v, words[at : at + size].reshape(v.rows, repetitions, v.messages), out, add)
            at += size
        at = 0
        for v in self.values:
            if v.rows:
                v.accumulate(rows[at : at + v.rows])
            at += v.rows
        for recipes, none, kept in self.sums:
            if add:
                out[recipes] += rows[none]
                out[recipes] += rows[kept]
            else:
                np.add(rows[none], rows[kept], out=out[recipes])
        for recipes, copied in self.copies:
            out[recipes] = out[recipes] + rows[copied] if add else rows[copied]

    def _unpack_design(self, v: ValuePass, bins: Counts, out: Counts, add: bool) -> None:
        """From messages to the values that they support."""
        assert v.design is not None
        v.accumulate(bins)
        for i, none, kept in v.places(self.plan):
            found = v.design.supported(bins[none] + bins[kept], self.plan.k)
            out[i] = out[i] + found if add else found
