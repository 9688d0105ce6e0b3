"""What to run: one frozen, checked object."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

from gpu_rsfd.checks import check_epsilon, check_repetitions, check_seed, check_share
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import PAPER, REGISTRY, TERMS, Terms, check_protocol
from gpu_rsfd.tape import check_assignment

SAMPLERS = ("users", "counts", "marginals")  # every user's report; or the exact law of the counts, see samplers.py
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
    ) -> Spec:
        names = _distinct("protocol", (check_protocol(p) for p in _entries(protocols)))
        share = check_share("first_report", first_report)
        if share != TERMS.first_report and not any(REGISTRY[name].memoised for name in names):
            longitudinal = ", ".join(name for name, entry in REGISTRY.items() if entry.memoised)
            raise InputError(f"first_report={share:g} needs a longitudinal protocol; available: {longitudinal}")
        return cls(
            protocols=names,
            epsilons=_distinct("epsilon", (check_epsilon(e) for e in _entries(epsilons))),
            repetitions=check_repetitions(repetitions),
            seed=check_seed(seed),
            assignment=check_assignment(assignment),
            sampler=check_sampler(sampler),
            first_report=share,
        )

    @property
    def terms(self) -> Terms:
        """What all its protocols are run under."""
        return Terms(first_report=self.first_report)

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
        }
