"""The plan: which distinct counts a backend must make, and where each of them goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from gpu_rsfd.protocols import Mechanism, Recipe, mechanism, solution_of

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AttributePlan:
    """One attribute: k values, the first of which is column `offset` of the BITS stream; distinct recipes."""

    index: int
    k: int
    offset: int
    recipes: tuple[Recipe, ...]

    @property
    def needs_assignment(self) -> bool:
        return any(r.solution != "spl" for r in self.recipes)

    @property
    def needs_value(self) -> bool:
        return any(not r.unary or r.fake == "r" for r in self.recipes)

    @property
    def needs_bits(self) -> bool:
        return any(r.unary for r in self.recipes)

    @property
    def words_per_group(self) -> int:
        """Words of the tape per 64 users, the unit of a backend's work."""
        return 24 * self.k * self.needs_bits + 64 * self.needs_value


@dataclass(frozen=True)
class Plan:
    """Every (protocol, epsilon, attribute) cell resolved to a mechanism, equal recipes merged."""

    domain: tuple[int, ...]
    protocols: tuple[str, ...]
    epsilons: tuple[float, ...]
    attributes: tuple[AttributePlan, ...]
    cells: tuple[tuple[tuple[int, ...], ...], ...]  # [protocol][epsilon][attribute] -> index into its recipes
    assignment: str = "uniform"  # how users are dealt out to attributes: uniform, balanced

    @classmethod
    def of(
        cls, domain: Sequence[int], protocols: Sequence[str], epsilons: Sequence[float], assignment: str = "uniform"
    ) -> Plan:
        d = len(domain)
        offsets = [0, *accumulate(domain)]
        recipes: list[dict[Recipe, int]] = [{} for _ in domain]
        cells = tuple(
            tuple(
                tuple(
                    recipes[j].setdefault(mechanism(p, e, d, k).recipe, len(recipes[j])) for j, k in enumerate(domain)
                )
                for e in epsilons
            )
            for p in protocols
        )
        attributes = tuple(AttributePlan(j, k, offsets[j], tuple(recipes[j])) for j, k in enumerate(domain))
        return cls(tuple(domain), tuple(protocols), tuple(epsilons), attributes, cells, assignment)

    @property
    def d(self) -> int:
        return len(self.domain)

    @property
    def values(self) -> int:
        return sum(self.domain)

    @property
    def needs_reporters(self) -> bool:
        return any(solution_of(p) == "smp" for p in self.protocols)

    def positions(self, users: int) -> int:
        """Users x values that one repetition simulates: the unit in which speed is given."""
        return users * self.values

    def mechanism(self, protocol: int, epsilon: int, attribute: int) -> Mechanism:
        return mechanism(self.protocols[protocol], self.epsilons[epsilon], self.d, self.domain[attribute])

    def spread(self, counts: Sequence[Counts]) -> Counts:
        """Per attribute [recipe, repetition, value] -> [protocol, epsilon, repetition, value of all attributes]."""
        repetitions = counts[0].shape[1]
        out = np.empty((len(self.protocols), len(self.epsilons), repetitions, self.values), np.int64)
        for attribute, table in zip(self.attributes, counts, strict=True):
            columns = slice(attribute.offset, attribute.offset + attribute.k)
            for p, row in enumerate(self.cells):
                for e, cell in enumerate(row):
                    out[p, e, :, columns] = table[cell[attribute.index]]
        return out

    def reporters(self, n: int, sampled: Counts) -> Counts:
        """[protocol, epsilon, repetition, attribute]: n, or n_j from `sampled` [repetition, attribute] for Smp."""
        shape = (len(self.protocols), len(self.epsilons), *sampled.shape)
        out = np.full(shape, n, np.int64)
        for p, protocol in enumerate(self.protocols):
            if solution_of(protocol) == "smp":
                out[p] = sampled
        return out
