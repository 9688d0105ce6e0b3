"""The plan: which distinct counts a backend must make, and where each of them goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.domain import Domain
from gpu_rsfd.protocols import REGISTRY, TERMS, Mechanism, Recipe, Terms, mechanisms
from gpu_rsfd.tape import LANES, LEVELS

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AttributePlan:
    """One attribute: k values, the first of which is column `offset` of the BITS stream; distinct recipes."""

    index: int
    k: int
    offset: int
    recipes: tuple[Recipe, ...]

    @property
    def columns(self) -> slice:
        """Its values among those of all attributes."""
        return slice(self.offset, self.offset + self.k)

    @property
    def needs_assignment(self) -> bool:
        return any(r.others.samples for r in self.recipes)

    @property
    def needs_value(self) -> bool:
        return any(not r.unary or r.encodes_fakes for r in self.recipes)

    @property
    def needs_bits(self) -> bool:
        return any(r.unary for r in self.recipes)

    @property
    def words_per_group(self) -> int:
        """Words of the tape per 64 users: what a backend's work grows with."""
        return LEVELS * self.k * self.needs_bits + LANES * self.needs_value


@dataclass(frozen=True)
class Plan:
    """Every (protocol, epsilon, attribute) cell resolved to a mechanism, equal recipes merged."""

    domain: Domain
    protocols: tuple[str, ...]
    epsilons: tuple[float, ...]
    attributes: tuple[AttributePlan, ...]
    cells: tuple[tuple[tuple[int, ...], ...], ...]  # [protocol][epsilon][attribute] -> index into its recipes
    assignment: str = "uniform"  # how users are dealt out to attributes: uniform, balanced
    terms: Terms = TERMS

    @classmethod
    def of(
        cls,
        domain: Sequence[int],
        protocols: Sequence[str],
        epsilons: Sequence[float],
        assignment: str = "uniform",
        terms: Terms = TERMS,
    ) -> Plan:
        domain = Domain.of(domain)
        recipes: list[dict[Recipe, int]] = [{} for _ in domain]
        cells = tuple(
            tuple(
                tuple(known.setdefault(m.recipe, len(known)) for known, m in zip(recipes, row, strict=True))
                for row in (mechanisms(p, e, domain, terms) for e in epsilons)
            )
            for p in protocols
        )
        attributes = tuple(
            AttributePlan(j, k, offset, tuple(recipes[j]))
            for j, (k, offset) in enumerate(zip(domain, domain.offsets, strict=True))
        )
        return cls(domain, tuple(protocols), tuple(epsilons), attributes, cells, assignment, terms)

    @property
    def d(self) -> int:
        return len(self.domain)

    @property
    def values(self) -> int:
        return self.domain.total

    @property
    def partial(self) -> tuple[bool, ...]:
        """[protocol]: whether an attribute is reported by those alone who sampled it."""
        return tuple(REGISTRY[p].partial for p in self.protocols)

    @property
    def needs_reporters(self) -> bool:
        return any(self.partial)

    def positions(self, users: int) -> int:
        """Users x values that one repetition simulates: the unit in which speed is given."""
        return users * self.values

    @cached_property
    def mechanisms(self) -> tuple[tuple[tuple[Mechanism, ...], ...], ...]:
        """[protocol][epsilon][attribute]"""
        return tuple(tuple(mechanisms(p, e, self.domain, self.terms) for e in self.epsilons) for p in self.protocols)

    def __getstate__(self) -> dict[str, Any]:
        """Without the mechanisms: a worker process needs the recipes alone."""
        return {name: value for name, value in self.__dict__.items() if name != "mechanisms"}

    def mechanism(self, protocol: int, epsilon: int, attribute: int) -> Mechanism:
        return self.mechanisms[protocol][epsilon][attribute]

    def spread(self, counts: Sequence[Counts]) -> Counts:
        """Per attribute [recipe, repetition, value] -> [protocol, epsilon, repetition, value of all attributes]."""
        repetitions = counts[0].shape[1]
        out = np.empty((len(self.protocols), len(self.epsilons), repetitions, self.values), np.int64)
        for attribute, table in zip(self.attributes, counts, strict=True):
            for p, row in enumerate(self.cells):
                for e, cell in enumerate(row):
                    out[p, e, :, attribute.columns] = table[cell[attribute.index]]
        return out

    def reporters(self, n: int, sampled: Counts) -> Counts:
        """[protocol, epsilon, repetition, attribute]: n, or n_j from `sampled` [repetition, attribute] for Smp."""
        out = np.full((len(self.protocols), len(self.epsilons), *sampled.shape), n, np.int64)
        out[np.array(self.partial)] = sampled
        return out
