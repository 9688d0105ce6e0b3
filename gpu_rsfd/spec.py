"""What to run: one frozen, checked object."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

from gpu_rsfd.checks import check_epsilon, check_repetitions, check_seed, check_share
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import PAPER, REGISTRY, TERMS, Terms, check_protocol
from gpu_rsfd.protocols.budgets import check_guarantee
from gpu_rsfd.protocols.form import Thresholds
from gpu_rsfd.protocols.priors import Prior
from gpu_rsfd.tape import check_assignment

SAMPLERS = ("users", "counts", "marginals")  # every user's report; or the exact law of the counts, see samplers.py
UNIFORM = Prior()
PAPER_EPSILONS = tuple(math.log(i) for i in range(2, 8))


def check_sampler(sampler: object) -> str:
    if sampler not in SAMPLERS:
        raise InputError(f"unknown sampler {sampler!r}; available: {', '.join(SAMPLERS)}")
    return str(sampler)


def _entries(values: Any) -> list[Any]:
    """A list of what is given as one, or as a single text or number; NumPy's scalars become Python's."""
    single = isinstance(values, str) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0
    entries = [values] if single else list(values)
    return [value.item() if getattr(value, "ndim", None) == 0 else value for value in entries]


def _distinct(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    result = tuple(values)
    if not result:
        raise InputError(f"no {name} given; at least one is needed")
    for i, value in enumerate(result):
        if value in result[:i]:
            raise InputError(f"{name} {value!r} is given twice")
    return result


@dataclass(frozen=True)
class Spec:
    """Protocols x epsilons x repetitions under one seed.  Make it with `Spec.of`, which checks."""

    protocols: tuple[str, ...] = PAPER
    epsilons: tuple[float, ...] = PAPER_EPSILONS
    repetitions: range = range(100)
    seed: int = 0
    assignment: str = "uniform"
    sampler: str = "users"
    first_report: float = TERMS.first_report
    guarantee: str = TERMS.guarantee
    prior: Prior = UNIFORM
    prior_seed: int = 0

    @classmethod
    def of(
        cls,
        protocols: str | Sequence[str] = PAPER,
        epsilons: float | Sequence[float] = PAPER_EPSILONS,
        repetitions: SupportsIndex | range = 100,
        seed: int = 0,
        assignment: str = "uniform",
        sampler: str = "users",
        first_report: float = TERMS.first_report,
        guarantee: str = TERMS.guarantee,
        prior: object = None,
        prior_seed: int = 0,
    ) -> Spec:
        names = _distinct("protocol", (check_protocol(p) for p in _entries(protocols)))
        share = check_share("first_report", first_report)
        if share != TERMS.first_report and not any(REGISTRY[name].memoised for name in names):
            longitudinal = ", ".join(name for name, entry in REGISTRY.items() if entry.memoised)
            raise InputError(f"first_report={share:g} needs a longitudinal protocol; available: {longitudinal}")
        law, drawn = Prior.of(prior), check_seed(prior_seed, "prior_seed")
        if prior is not None and not any(REGISTRY[name].prior for name in names):
            realistic = ", ".join(name for name, entry in REGISTRY.items() if entry.prior)
            raise InputError(f"prior={law.short} needs a protocol whose fakes follow a prior; available: {realistic}")
        if drawn and not law.needs_seed:
            raise InputError(f"prior_seed={drawn} needs a prior that is drawn at random: noisy:EPS or dirichlet:A")
        return cls(
            protocols=names,
            epsilons=_distinct("epsilon", (check_epsilon(e) for e in _entries(epsilons))),
            repetitions=check_repetitions(repetitions),
            seed=check_seed(seed),
            assignment=check_assignment(assignment),
            sampler=check_sampler(sampler),
            first_report=share,
            guarantee=check_guarantee(guarantee),
            prior=law,
            prior_seed=drawn,
        )

    def terms_for(self, data: Dataset) -> Terms:
        """What all its protocols are run under: a prior may depend on the data set."""
        counts = data.counts if self.prior.needs_data else None
        return self.terms_with(self.prior.thresholds(data.domain, counts, self.prior_seed))

    def terms_with(self, priors: tuple[Thresholds | None, ...] | None) -> Terms:
        """The same, where the realised prior is known."""
        return Terms(self.first_report, priors, self.guarantee)

    def described(self) -> dict[str, Any]:
        """As plain data.  What only some protocols need is left out where it means nothing."""
        longitudinal = any(REGISTRY[name].memoised for name in self.protocols)
        return {
            "protocols": list(self.protocols),
            "epsilons": list(self.epsilons),
            "repetitions": [self.repetitions.start, self.repetitions.stop, self.repetitions.step],
            "seed": self.seed,
            "assignment": self.assignment,
            "sampler": self.sampler,
            **({"first_report": self.first_report} if longitudinal else {}),
            **({"guarantee": self.guarantee} if self.guarantee != TERMS.guarantee else {}),
            **({"prior": self.prior.plain} if self.prior != UNIFORM else {}),
            **({"prior_seed": self.prior_seed} if self.prior.needs_seed else {}),
        }
