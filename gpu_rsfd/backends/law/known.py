"""What the counts of some attributes depend on, and how each recipe draws them from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpu_rsfd.backends.law import draws as laws
from gpu_rsfd.backends.law.substreams import FAKE, OWN, RECIPE, Part, Streams
from gpu_rsfd.plan import Counts
from gpu_rsfd.protocols import Bits, Keep, Others, Recipe, prior_frequencies
from gpu_rsfd.tape import KEEP_ONE


@dataclass(frozen=True)
class Known:
    """What the counts of a part depend on, [attribute, value, row or 1] each."""

    part: Part
    n: int
    holders: Counts  # the truth
    sampled: Counts  # s
    fakes: Counts  # the fake values
    thinning: float | None  # P(sampled) if nothing else depends on who is

    @classmethod
    def of(
        cls,
        part: Part,
        n: int,
        holders: Counts,
        sampled: Counts,
        streams: Streams,
        row: int,
        thinning: float | None = None,
    ) -> Known:
        fakes = sampled
        if part.needs_fakes:  # those who did not sample an attribute make up a value
            others = n - sampled.sum(axis=1, keepdims=True)
            law = prior_frequencies(part.prior, part.k)
            fakes = laws.values_of(streams.at(FAKE, part.fake_address, row), others, law)
        return cls(part, n, holders[:, :, None], sampled, fakes, thinning)

    def reports(self, recipe: Recipe) -> tuple[Counts, Counts | int]:
        """How many encode each value, and how many report at all."""
        match recipe.others:
            case Others.OWN:
                return self.holders, self.n
            case Others.NOTHING:
                return self.sampled, self.sampled.sum(axis=1, keepdims=True)
            case Others.ZERO:
                return self.sampled, self.n
            case Others.FAKE:
                return self.sampled + self.fakes if recipe.unary else self.sampled, self.n

    def draw(self, family: list[int], streams: Streams, row: int, rows: int) -> Iterator[tuple[int, Counts]]:
        """The counts of each recipe of a family, [attribute, value, row]."""
        recipes = self.part.recipes
        first = recipes[family[0]]
        match first.noise:
            case Keep(threshold):
                stream = streams.at(RECIPE, self.part.recipe_address(first), row)
                yield family[0], self._keep(first, threshold / KEEP_ONE, stream, rows)
            case Bits(tp, _):
                encoded, reporters = self.reports(first)
                own = laws.ones(streams.at(OWN, self.part.family_address(first), row), tp, encoded, rows)
                others = reporters - encoded
                for i in family:
                    _, _, tq = recipes[i].stored
                    ones = laws.ones(streams.at(RECIPE, self.part.recipe_address(recipes[i]), row), tq, others, rows)
                    ones += own
                    yield i, ones

    def _keep(self, recipe: Recipe, keep: float, draw: np.random.Generator, rows: int) -> Counts:
        encoded, reporters = self.reports(recipe)
        if recipe.prior is not None:  # the fakes have a law of their own
            mine = self.sampled.sum(axis=1, keepdims=True)
            return laws.kept_or_uniform(draw, keep, encoded, mine, rows) + self.fakes
        if recipe.others is Others.FAKE and self.thinning is not None:
            # Sampled and kept is one thinning of the holders: NumPy is faster if a law is the same row after row.
            encoded, keep = self.holders, keep * self.thinning
        return laws.kept_or_uniform(draw, keep, encoded, reporters, rows)
