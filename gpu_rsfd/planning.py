"""The plan: a spec compiled to integers for one domain.

It says which distinct counts a backend must make, where each of them goes, and how they become estimates.  Backends,
worker processes, clusters and results files know the plan, never a `Spec`, a `Protocol` or code of the user's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.domain import Domain
from gpu_rsfd.protocols import DEFAULT_SETTINGS, Mechanism, PrivacySettings, Protocol, as_protocol, mechanisms
from gpu_rsfd.protocols.form import Recipe, Unsampled, prior_frequencies
from gpu_rsfd.protocols.mechanism import support

if TYPE_CHECKING:
    from gpu_rsfd.datasets.base import Dataset
    from gpu_rsfd.spec import Spec

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Mechanisms = tuple[tuple[tuple[Mechanism, ...], ...], ...]  # [protocol][epsilon][attribute]


class Look(NamedTuple):
    """How a protocol is named and drawn."""

    name: str
    label: str
    colour: str  # of its own, and a marker of Matplotlib; else empty
    marker: str
    summary: str = ""

    @classmethod
    def of(cls, protocol: Protocol) -> Look:
        return cls(protocol.name, protocol.label, protocol.colour, protocol.marker, protocol.summary)


class Rates(NamedTuple):
    """P(a user reports v) = base + slope * prior_v + gain * [the user holds v]."""

    base: float
    slope: float
    gain: float


@lru_cache(maxsize=1 << 16)
def rates_of(recipe: Recipe, d: int, k: int) -> Rates:
    """The rates of a recipe for an attribute of k values among d."""
    p, q = recipe.noise.p(k), recipe.noise.q(k)
    if recipe.prior is None:
        base, gain = support(recipe.unsampled, recipe.unary, p, q, d, recipe.noise.fakes(k))
        return Rates(float(base), 0.0, gain)
    base, gain = support(recipe.unsampled, recipe.unary, p, q, d, 0.0)
    top, _ = support(recipe.unsampled, recipe.unary, p, q, d, 1.0)
    return Rates(float(base), float(top - base), gain)


@dataclass(frozen=True)
class AttributePlan:
    """One attribute: k values, the first of which is column `offset` of the BITS stream; distinct recipes."""

    index: int
    k: int
    offset: int
    recipes: tuple[Recipe, ...]
    rates: tuple[Rates, ...] = ()  # of each recipe

    @property
    def columns(self) -> slice:
        """Its values among those of all attributes."""
        return slice(self.offset, self.offset + self.k)

    @property
    def needs_assignment(self) -> bool:
        return any(r.unsampled.samples for r in self.recipes)

    @property
    def needs_value(self) -> bool:
        return any(not r.unary or r.encodes_fakes for r in self.recipes)

    @property
    def needs_bits(self) -> bool:
        return any(r.unary for r in self.recipes)

    def estimate(self, recipe: int, counts: Any, reporters: Any) -> Any:
        """Unbiased frequencies from counts [..., value] of a recipe: (N / m - P(report v | not held)) / gain."""
        base, slope, gain = self.rates[recipe]
        prior = self.recipes[recipe].prior
        expected = base if prior is None else base + slope * prior_frequencies(prior, self.k)
        return (counts / reporters - expected) / gain


@dataclass(frozen=True)
class Plan:
    """Every (protocol, epsilon, attribute) cell resolved to a recipe, equal recipes merged."""

    domain: Domain
    looks: tuple[Look, ...]
    epsilons: tuple[float, ...]
    attributes: tuple[AttributePlan, ...]
    # [protocol][epsilon][attribute] -> index into its recipes; no attributes where a cell is not asked for
    cells: tuple[tuple[tuple[int, ...], ...], ...]
    partial: tuple[bool, ...]  # [protocol]: whether an attribute is reported by those alone who sampled it
    samples: tuple[bool, ...]  # [protocol]: whether a user samples an attribute
    assignment: str = "uniform"  # how users are dealt out to attributes: uniform, balanced

    @classmethod
    def of(
        cls,
        domain: Sequence[int],
        protocols: Sequence[str | Protocol],
        epsilons: Sequence[float],
        assignment: str = "uniform",
        settings: PrivacySettings = DEFAULT_SETTINGS,
    ) -> Plan:
        """The plan of protocols x epsilons for a domain."""
        domain, entries = Domain.of(domain), [as_protocol(p) for p in protocols]
        table = tuple(tuple(mechanisms(p, e, domain, settings) for e in epsilons) for p in entries)
        plan = cls.compiled(
            domain,
            tuple(map(Look.of, entries)),
            tuple(epsilons),
            [[[m.recipe for m in row] for row in rows] for rows in table],
            assignment,
        )
        plan.__dict__["mechanisms"] = table
        return plan

    @classmethod
    def compiled(
        cls,
        domain: Domain,
        looks: tuple[Look, ...],
        epsilons: tuple[float, ...],
        recipes: Sequence[Sequence[Sequence[Recipe]]],
        assignment: str,
        rates: Callable[[Recipe, int, int], Rates] = rates_of,
    ) -> Plan:
        """From the recipe of each [protocol][epsilon][attribute]."""
        known: list[dict[Recipe, int]] = [{} for _ in domain]
        cells = tuple(
            tuple(tuple(k.setdefault(r, len(k)) for k, r in zip(known, row, strict=True)) for row in rows)
            for rows in recipes
        )
        attributes = tuple(
            AttributePlan(j, k, offset, tuple(known[j]), tuple(rates(r, len(domain), k) for r in known[j]))
            for j, (k, offset) in enumerate(zip(domain, domain.offsets, strict=True))
        )
        unsampled = [rows[0][0].unsampled for rows in recipes]
        partial = tuple(others is Unsampled.NOTHING for others in unsampled)
        samples = tuple(others.samples for others in unsampled)
        return cls(domain, looks, epsilons, attributes, cells, partial, samples, assignment)

    @property
    def protocols(self) -> tuple[str, ...]:
        return tuple(look.name for look in self.looks)

    @property
    def d(self) -> int:
        return len(self.domain)

    @property
    def values(self) -> int:
        return self.domain.total

    @property
    def needs_reporters(self) -> bool:
        return any(partial for partial, row in zip(self.partial, self.cells, strict=True) if any(row))

    def positions(self, users: int) -> int:
        """Users x values that one repetition simulates: the unit in which speed is given."""
        return users * self.values

    @cached_property
    def mechanisms(self) -> Mechanisms:
        """What each protocol does to each attribute, for theory, losses and literal reports."""
        raise AttributeError("this plan was compiled from recipes, without mechanisms")

    def mechanism(self, protocol: int, epsilon: int, attribute: int) -> Mechanism:
        return self.mechanisms[protocol][epsilon][attribute]

    def recipe(self, protocol: int, epsilon: int, attribute: int) -> Recipe:
        return self.attributes[attribute].recipes[self.cells[protocol][epsilon][attribute]]

    def take(self, protocols: Sequence[int], epsilons: Sequence[int] | None = None) -> Plan:
        """The plan of some of its protocols and epsilons; recipes stay where they are."""
        chosen = range(len(self.epsilons)) if epsilons is None else epsilons

        def pick(table: Any) -> Any:
            return tuple(tuple(table[p][e] for e in chosen) for p in protocols)

        part = replace(
            self,
            looks=tuple(self.looks[p] for p in protocols),
            epsilons=tuple(self.epsilons[e] for e in chosen),
            cells=pick(self.cells),
            partial=tuple(self.partial[p] for p in protocols),
            samples=tuple(self.samples[p] for p in protocols),
        )
        if "mechanisms" in self.__dict__:
            part.__dict__["mechanisms"] = pick(self.mechanisms)
        return part

    def only(self, wanted: Flags) -> Plan:
        """The plan with some of its cells, [protocol, epsilon], alone, and with the recipes that they need."""
        if wanted.all():
            return self
        kept = [sorted({self.cells[p][e][j] for p, e in zip(*np.nonzero(wanted), strict=True)}) for j in range(self.d)]
        places = [{old: new for new, old in enumerate(indices)} for indices in kept]
        attributes = tuple(
            replace(a, recipes=tuple(a.recipes[i] for i in indices), rates=tuple(a.rates[i] for i in indices))
            for a, indices in zip(self.attributes, kept, strict=True)
        )
        cells = tuple(
            tuple(
                tuple(place[i] for place, i in zip(places, cell, strict=True)) if wanted[p, e] else ()
                for e, cell in enumerate(row)
            )
            for p, row in enumerate(self.cells)
        )
        part = replace(self, attributes=attributes, cells=cells)
        for name in {"mechanisms", "_digests"} & self.__dict__.keys():
            part.__dict__[name] = self.__dict__[name]
        return part

    @property
    def asked(self) -> Flags:
        """[protocol, epsilon]: the cells that it makes."""
        return np.array([[bool(cell) for cell in row] for row in self.cells])

    @cached_property
    def _digests(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(_digest(self.attributes, cell) for cell in row) for row in self.cells)

    def digest(self, protocol: int, epsilon: int) -> str:
        """Equal for cells whose integers are equal, whatever the protocol is called."""
        return self._digests[protocol][epsilon]

    def expand(self, counts: Sequence[Counts]) -> Counts:
        """Per attribute [recipe, repetition, …, value] -> [protocol, epsilon, repetition, …, value] of all of them."""
        out = np.zeros((*self.asked.shape, *counts[0].shape[1:-1], self.values), np.int64)
        for attribute, table in zip(self.attributes, counts, strict=True):
            for p, row in enumerate(self.cells):
                for e, cell in enumerate(row):
                    if cell:
                        out[p, e, ..., attribute.columns] = table[cell[attribute.index]]
        return out

    def zeros(self, repetitions: range) -> tuple[list[Counts], Counts]:
        """What backends fill: counts of each attribute, [recipe, repetition, value]; and who sampled it."""
        counts = [np.zeros((len(a.recipes), len(repetitions), a.k), np.int64) for a in self.attributes]
        return counts, np.zeros((len(repetitions), self.d), np.int64)

    def reporters(self, n: int, sampled: Counts) -> Counts:
        """[protocol, epsilon, repetition, attribute]: n, or n_j from `sampled` [repetition, attribute] for Smp."""
        out = np.full((len(self.looks), len(self.epsilons), *sampled.shape), n, np.int64)
        out[np.array(self.partial)] = sampled
        return out


def _digest(attributes: Iterable[AttributePlan], cell: Sequence[int]) -> str:
    integers = "\n".join(a.recipes[i].identity for a, i in zip(attributes, cell, strict=False))
    return hashlib.sha256(integers.encode()).hexdigest()[:16]


def plan_for(spec: Spec, data: Dataset, memo: bool | None = None) -> Plan:
    """A spec compiled for a data set; `memo` as in `PrivacySettings`."""
    settings = replace(spec.settings_for(data), memo=memo)
    return Plan.of(data.domain, spec.protocols, spec.epsilons, spec.assignment, settings)
