"""What the counts of a group of attributes depend on, and how each recipe draws them from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_rsfd import laws
from gpu_rsfd.plan import Counts
from gpu_rsfd.protocols import Recipe
from gpu_rsfd.substreams import FAKE, OWN, RECIPE, Group, Streams, address
from gpu_rsfd.tape import KEEP_ONE


@dataclass(frozen=True)
class Known:
    """What the counts of a group depend on, [attribute, value, row or 1] each."""

    group: Group
    n: int
    holders: Counts  # the truth
    sampled: Counts  # s
    fakes: Counts  # UE-r: the fake values
    thinning: float | None  # P(sampled) if nothing else depends on who is

    @classmethod
    def of(
        cls,
        group: Group,
        n: int,
        holders: Counts,
        sampled: Counts,
        streams: Streams,
        row: int,
        thinning: float | None = None,
    ) -> Known:
        fakes = sampled
        if group.needs_fakes:  # those who did not sample an attribute make up a uniform value
            others = n - sampled.sum(axis=1, keepdims=True)
            fakes = laws.uniform_values(streams.at(FAKE, group.k, row), others, group.k)
        return cls(group, n, holders[:, :, None], sampled, fakes, thinning)

    def reports(self, recipe: Recipe) -> tuple[Counts, Counts | int]:
        """How many encode each value, and how many report at all."""
        if recipe.solution == "spl":
            return self.holders, self.n
        if recipe.solution == "smp":
            return self.sampled, self.sampled.sum(axis=1, keepdims=True)
        return self.sampled + self.fakes if recipe.fake == "r" else self.sampled, self.n

    def draw(self, family: list[int], streams: Streams, row: int, rows: int) -> Iterator[tuple[int, Counts]]:
        """The counts of each recipe of a family, [attribute, value, row]."""
        k, recipes = self.group.k, self.group.recipes
        first = recipes[family[0]]
        encoded, reporters = self.reports(first)
        if not first.unary:
            keep = first.keep / KEEP_ONE
            if first.solution == "rsfd" and self.thinning is not None:
                # Sampled and kept is one thinning of the holders: NumPy is faster if a law is the same row after row.
                encoded, keep = self.holders, keep * self.thinning
            yield family[0], laws.grr(streams.at(RECIPE, address(k, *first), row), keep, encoded, reporters, rows)
            return
        place = address(k, first.solution, first.fake, first.tp)
        own = laws.unary_own(streams.at(OWN, place, row), first.tp, encoded, rows)
        others = reporters - encoded
        for i in family:
            ones = laws.unary_others(streams.at(RECIPE, address(k, *recipes[i]), row), recipes[i], others, rows)
            ones += own
            yield i, ones
