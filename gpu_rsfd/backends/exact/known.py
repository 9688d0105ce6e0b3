"""What the counts of some attributes depend on, and how each recipe draws them from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gpu_rsfd.backends.exact import draws
from gpu_rsfd.backends.exact.substreams import FAKE, OWN, RECIPE, Part, Streams
from gpu_rsfd.planning import Counts
from gpu_rsfd.protocols import Bits, Keep, Recipe, Sets, Subsets, Unsampled, prior_frequencies
from gpu_rsfd.protocols.form import implementation
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
            prior = prior_frequencies(part.prior, part.k)
            fakes = draws.values_of(streams.at(FAKE, part.fake_address, row), others, prior)
        return cls(part, n, holders[:, :, None], sampled, fakes, thinning)

    def reports(self, recipe: Recipe) -> tuple[Counts, Counts | int]:
        """How many encode each value, and how many report at all."""
        match recipe.unsampled:
            case Unsampled.OWN:
                return self.holders, self.n
            case Unsampled.NOTHING:
                return self.sampled, self.sampled.sum(axis=1, keepdims=True)
            case Unsampled.ZERO:
                return self.sampled, self.n
            case Unsampled.FAKE:
                return self.sampled + self.fakes if recipe.unary else self.sampled, self.n

    def draw(self, family: list[int], streams: Streams, row: int, rows: int) -> Iterator[tuple[int, Counts]]:
        """The counts of each recipe of a family, [attribute, value, row]."""
        draw = implementation(DRAWS, self.part.recipes[family[0]].noise, "the samplers")
        return draw(self, family, streams, row, rows)

    def draw_keep(self, family: list[int], streams: Streams, row: int, rows: int) -> Iterator[tuple[int, Counts]]:
        """`Keep` and `Sets`: nothing is shared."""
        for i in family:
            recipe = self.part.recipes[i]
            keep = recipe.noise.integers[0] / KEEP_ONE
            yield i, self._keep(recipe, keep, streams.at(RECIPE, self.part.recipe_address(recipe), row), rows)

    def draw_bits(self, family: list[int], streams: Streams, row: int, rows: int) -> Iterator[tuple[int, Counts]]:
        """`Bits` of equal tp: the 1s of those who encode the value are shared."""
        recipes = self.part.recipes
        first = recipes[family[0]]
        encoded, reporters = self.reports(first)
        tp = first.noise.integers[0]
        own = draws.ones(streams.at(OWN, self.part.family_address(first), row), tp, encoded, rows)
        others = reporters - encoded
        for i in family:
            _, tq = recipes[i].noise.integers
            ones = draws.ones(streams.at(RECIPE, self.part.recipe_address(recipes[i]), row), tq, others, rows)
            ones += own
            yield i, ones

    def draw_subsets(self, family: list[int], streams: Streams, row: int, rows: int) -> Iterator[tuple[int, Counts]]:
        """`Subsets`: nothing is shared."""
        for i in family:
            recipe = self.part.recipes[i]
            draw = streams.at(RECIPE, self.part.recipe_address(recipe), row)
            yield (
                i,
                draws.subsets(
                    draw, recipe.noise.p(self.part.k), recipe.noise.integers[1], self.reports(recipe)[0], rows
                ),
            )

    def _keep(self, recipe: Recipe, keep: float, draw: np.random.Generator, rows: int) -> Counts:
        encoded, reporters = self.reports(recipe)
        if recipe.prior is not None:  # the fakes have a distribution of their own
            mine = self.sampled.sum(axis=1, keepdims=True)
            return draws.kept_or_uniform(draw, keep, encoded, mine, rows) + self.fakes
        if recipe.unsampled is Unsampled.FAKE and self.thinning is not None:
            # Sampled and kept is one thinning of the holders: NumPy is faster if p is the same row after row.
            encoded, keep = self.holders, keep * self.thinning
        if isinstance(recipe.noise, Sets):
            return draws.kept_or_any_message(draw, keep, recipe.noise.design, encoded, reporters, rows)
        return draws.kept_or_uniform(draw, keep, encoded, reporters, rows)


Draw = Callable[[Known, list[int], Streams, int, int], Iterator[tuple[int, Counts]]]
# noise class -> how its counts are drawn
DRAWS: dict[type, Draw] = {
    Keep: Known.draw_keep,
    Sets: Known.draw_keep,
    Bits: Known.draw_bits,
    Subsets: Known.draw_subsets,
}
