"""Where the samplers' random draws come from: a substream for each use, addressed by what it is for.

Draws come from `numpy.random.Generator` on `Philox(key=[seed, S], counter=[0, column, row, 0])`, one
substream for each use, so that a result is a function of (seed, data set, repetition, recipe), whatever else is
simulated.  All attributes with the same domain size k have the same recipes, and are drawn together.

| S, counts | S, marginals | column                      | draws                                                     |
|-----------|--------------|-----------------------------|-----------------------------------------------------------|
| (tape)    | 20           | k                           | s: who sampled an attribute, by value                     |
| 17        | 21           | k                           | fake values of UE-r, the same for all its recipes         |
| 18        | 22           | hash(k, solution, fake, tp) | unary encodings: the 1s of those who encode the value     |
| 19        | 23           | hash(k, recipe)             | GRR: the counts; unary encodings: the 1s of all others    |

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

from gpu_rsfd.plan import AttributePlan, Plan
from gpu_rsfd.protocols import Recipe

COUNTS, MARGINALS = 16, 20  # the samplers' first streams
SAMPLED, FAKE, OWN, RECIPE = range(4)  # what a draw is for

BLOCK = 100  # repetitions that marginals draws at once: as many as are usual
BLOCK_VALUES = 1 << 18  # fewer repetitions, if they have more values than this


@dataclass(frozen=True)
class Group:
    """All attributes of one domain size."""

    k: int
    attributes: tuple[AttributePlan, ...]
    recipes: tuple[Recipe, ...]  # the same for all of them, since a recipe follows from k

    @property
    def columns(self) -> npt.NDArray[np.intp]:
        """[attribute, value]: where the values are among those of all attributes."""
        return np.array([a.offset for a in self.attributes])[:, None] + np.arange(self.k)

    @property
    def needs_assignment(self) -> bool:
        return self.attributes[0].needs_assignment

    @property
    def needs_fakes(self) -> bool:
        return any(r.fake == "r" for r in self.recipes)

    @cached_property
    def families(self) -> list[list[int]]:
        """Recipes that share the 1s of those who encode a value (GRR: one recipe each), the largest family first."""
        families: dict[tuple[int | str, ...], list[int]] = {}
        for i, r in enumerate(self.recipes):
            families.setdefault((r.solution, r.fake, r.tp) if r.unary else r, []).append(i)
        return sorted(families.values(), key=len, reverse=True)

    @property
    def block_rows(self) -> int:
        """Repetitions in a block of marginals: a function of the data set alone."""
        return max(1, min(BLOCK, BLOCK_VALUES // (self.k * len(self.attributes))))


def groups_of(plan: Plan) -> list[Group]:
    by_size: dict[int, list[AttributePlan]] = {}
    for a in plan.attributes:
        by_size.setdefault(a.k, []).append(a)
    return [Group(k, tuple(attributes), attributes[0].recipes) for k, attributes in by_size.items()]


@lru_cache(maxsize=1 << 16)
def address(*parts: int | str) -> int:
    """The column of a substream: 64 bits of sha256 of what it is for, so that it depends on nothing else."""
    return int.from_bytes(hashlib.sha256(" ".join(map(str, parts)).encode()).digest()[:8], "little")


class Streams:
    """Generators at the start of a substream: one object, moved by its state.  Not to be shared between threads."""

    def __init__(self, seed: int, first: int) -> None:
        self._seed, self._first = seed, first
        self._philox = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._philox)
        self._state: Any = self._philox.state

    def at(self, use: int, column: int, row: int) -> np.random.Generator:
        self._state["state"]["key"][:] = self._seed, self._first + use
        self._state["state"]["counter"][:] = 0, column, row, 0
        self._philox.state = self._state
        return self._generator
