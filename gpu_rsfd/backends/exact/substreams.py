"""Where the samplers' random draws come from: a substream for each use, addressed by what it is for.

Draws come from `numpy.random.Generator` on `Philox(key=[seed, S], counter=[0, column, row, round])`, one
substream for each use, so that a result is a function of (seed, data set, repetition, recipe), whatever else is
simulated.  All attributes with the same domain size k have the same recipes, and are drawn together.

| S, counts | S, marginals | column                      | draws                                                     |
|-----------|--------------|-----------------------------|-----------------------------------------------------------|
| (tape)    | 20           | k                           | s: who sampled an attribute, by value                     |
| 17        | 21           | k                           | encoded fake values, the same for all their recipes       |
| 18        | 22           | hash(k, others, tp)         | unary encodings: the 1s of those who encode the value     |
| 19        | 23           | hash(k, recipe)             | unary encodings: the 1s of all others; else: the counts   |

Where fakes follow a prior of their own, the columns are hashes of that prior and the attribute as well.

What is shared is shared on the tape, too: y does not depend on epsilon, nor do the 1s of OUE at U < Tp.
The row is the repetition for counts.  Marginals draws a fixed number B of repetitions at once (`Group.block_rows`): the
row is the block, and repetition r is number r % B of block r // B.
NumPy may change how its Generator turns words into binomials: unlike the tape's, these results are promised for one
version of NumPy only.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.planning import AttributePlan, Counts, Plan
from gpu_rsfd.protocols.form import Chain, Recipe, Thresholds, Unsampled

SAMPLED, FAKE, OWN, RECIPE = range(4)  # what a draw is for

BLOCK = 100  # repetitions that marginals draws at once: as many as are usual
BLOCK_VALUES = 1 << 18  # fewer repetitions, if they have more values than this


# The words that addresses of the first fourteen protocols were made of; they stay, so that draws stay the same.
_WORDS = {Unsampled.OWN: ("spl", ""), Unsampled.NOTHING: ("smp", ""), Unsampled.ZERO: ("rsfd", "z")}


@dataclass(frozen=True)
class Part:
    """Attributes of one domain size whose counts are drawn together: all of them, or one with a prior of its own."""

    k: int
    attributes: tuple[AttributePlan, ...]
    places: slice  # of the attributes in their group
    recipes: tuple[Recipe, ...]
    prior: Thresholds | None = None

    @property
    def needs_fakes(self) -> bool:
        """Whether fake values are drawn on their own: encoded as bits, or not uniform."""
        return any(r.encodes_fakes or r.prior is not None for r in self.recipes)

    @cached_property
    def families(self) -> list[list[int]]:
        """Recipes that share draws (`Bits` of equal tp; any other recipe alone), the largest family first."""
        families: dict[object, list[int]] = {}
        for i, r in enumerate(self.recipes):
            shared = r.noise.shared_address
            families.setdefault(r if shared is None else (type(r.noise), r.unsampled, shared), []).append(i)
        return sorted(families.values(), key=len, reverse=True)

    def address_of(self, recipe: Recipe, noise: tuple[int | str, ...]) -> int:
        """The column of what is drawn for a recipe alone, or for all that share an address of the noise."""
        solution = _WORDS.get(recipe.unsampled) or ("rsfd", "r" if recipe.unary else "y")
        return address(self.k, *solution, *noise, *self._own)

    @property
    def fake_address(self) -> int:
        return self.k if self.prior is None else address(self.k, "fake", *self._own)

    @cached_property
    def _own(self) -> tuple[int | str, ...]:
        """What tells this part's draws from those of other attributes of its size: nothing, if it is all of them."""
        return () if self.prior is None else ("prior", self.attributes[0].index, *self.prior)


@dataclass(frozen=True)
class Group:
    """All attributes of one domain size."""

    k: int
    attributes: tuple[AttributePlan, ...]
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, k: int, attributes: tuple[AttributePlan, ...]) -> Group:
        """Recipes without a prior follow from k: all attributes draw them, so that none depends on another's prior."""
        shared = tuple(dict.fromkeys(r for a in attributes for r in a.recipes if r.prior is None))
        parts = [Part(k, attributes, slice(None), shared)] if shared else []
        for i, a in enumerate(attributes):
            for prior in dict.fromkeys(r.prior for r in a.recipes if r.prior is not None):
                recipes = tuple(r for r in a.recipes if r.prior == prior)
                parts.append(Part(k, (a,), slice(i, i + 1), recipes, prior))
        return cls(k, attributes, tuple(parts))

    @property
    def columns(self) -> npt.NDArray[np.intp]:
        """[attribute, value]: where the values are among those of all attributes."""
        return np.array([a.offset for a in self.attributes])[:, None] + np.arange(self.k)

    @property
    def needs_assignment(self) -> bool:
        return any(a.needs_assignment for a in self.attributes)

    @property
    def block_rows(self) -> int:
        """Repetitions in a block of marginals: a function of the data set alone."""
        if any(isinstance(r.noise, Chain) for part in self.parts for r in part.recipes):
            return 1  # it has rounds, which are many draws already
        return max(1, min(BLOCK, BLOCK_VALUES // (self.k * len(self.attributes))))


def groups_of(plan: Plan) -> list[Group]:
    by_size: dict[int, list[AttributePlan]] = {}
    for a in plan.attributes:
        by_size.setdefault(a.k, []).append(a)
    return [Group.of(k, tuple(attributes)) for k, attributes in by_size.items()]


class Job:
    """A call of `count`: what is asked for, and the arrays that it fills."""

    def __init__(self, plan: Plan, dataset: Dataset, seed: int, repetitions: range) -> None:
        self.plan, self.dataset, self.seed, self.repetitions = plan, dataset, seed, repetitions
        self.groups, rows = groups_of(plan), len(repetitions)
        self.sampled = np.zeros((rows, plan.d), np.int64)  # [repetition, attribute]
        self.tables = [  # of each part of each group, [attribute, recipe, repetition, value]
            [np.empty((len(p.attributes), len(p.recipes), rows, g.k), np.int64) for p in g.parts] for g in self.groups
        ]

    def counts(self) -> list[Counts]:
        """Per attribute [recipe, repetition, value], the recipes in its own order."""
        out: dict[int, Counts] = {}
        for group, tables in zip(self.groups, self.tables, strict=True):
            for i, a in enumerate(group.attributes):
                if len(group.parts) == 1 and a.recipes == group.parts[0].recipes:
                    out[a.index] = tables[0][i]
                    continue
                found = {
                    recipe: table[i if part.prior is None else 0, r]
                    for part, table in zip(group.parts, tables, strict=True)
                    if a in part.attributes
                    for r, recipe in enumerate(part.recipes)
                }
                out[a.index] = np.stack([found[recipe] for recipe in a.recipes])
        return [out[j] for j in range(self.plan.d)]


@lru_cache(maxsize=1 << 16)
def address(*parts: int | str) -> int:
    """The column of a substream: 64 bits of sha256 of what it is for, so that it depends on nothing else."""
    return int.from_bytes(hashlib.sha256(" ".join(map(str, parts)).encode()).digest()[:8], "little")


class Streams:
    """Generators at the start of a substream: one object, moved by its state.  Not to be shared between threads."""

    def __init__(self, seed: int, first: int, round: int = 0) -> None:
        self._seed, self._first, self._round = seed, first, round
        self._philox = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._philox)
        self._state: Any = self._philox.state

    def at(self, use: int, column: int, row: int) -> np.random.Generator:
        self._state["state"]["key"][:] = self._seed, self._first + use
        self._state["state"]["counter"][:] = 0, column, row, self._round
        self._philox.state = self._state
        return self._generator
