"""What to run: one frozen, checked object.  All checks of user input that need no data live here."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

from gpu_rsfd.protocols import PAPER, PROTOCOLS
from gpu_rsfd.tape import ASSIGNMENTS

MAX_WORD = 2**64 - 1
MAX_USERS = 2**53  # counts stay exact as floats
MIN_DOMAIN, MAX_DOMAIN = 2, 65_535
MAX_ATTRIBUTES = 65_535
SAMPLERS = ("users", "counts", "marginals")  # every user's report; or the exact law of the counts, see samplers.py
PAPER_EPSILONS = tuple(math.log(i) for i in range(2, 8))


def integer(name: str, value: object, low: int, high: int) -> int:
    """`value` as an int in low … high, or a ValueError that says what is valid."""
    if high == MAX_WORD:
        valid = f"must be a whole number >= {low} and < 2**64"
    elif high == MAX_USERS:
        valid = f"must be a whole number >= {low} and <= 2**53"
    else:
        valid = f"must be a whole number from {low:,} to {high:,}"
    if isinstance(value, bool):
        raise ValueError(f"{name}={value!r} {valid}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"{name}={value!r} {valid}") from None
    if not low <= number <= high:
        raise ValueError(f"{name}={number} {valid}")
    return number


def check_seed(seed: object) -> int:
    return integer("seed", seed, 0, MAX_WORD)


def check_users(n: object) -> int:
    return integer("users", n, 1, MAX_USERS)


def check_domain(domain: Iterable[object]) -> tuple[int, ...]:
    """Domain sizes, one per attribute."""
    sizes = tuple(integer(f"domain[{j}]", k, MIN_DOMAIN, MAX_DOMAIN) for j, k in enumerate(domain))
    if not 1 <= len(sizes) <= MAX_ATTRIBUTES:
        raise ValueError(f"domain has {len(sizes)} attributes; valid: 1 to {MAX_ATTRIBUTES:,}")
    return sizes


def check_epsilon(epsilon: object) -> float:
    try:
        value = float(epsilon)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"epsilon={epsilon!r} must be a number > 0") from None
    if not 0 < value < math.inf:
        raise ValueError(f"epsilon={value} must be finite and > 0")
    return value


def check_protocol(protocol: object) -> str:
    if protocol not in PROTOCOLS:
        raise ValueError(f"unknown protocol {protocol!r}; available: {', '.join(PROTOCOLS)}")
    return str(protocol)


def check_assignment(assignment: object) -> str:
    if assignment not in ASSIGNMENTS:
        raise ValueError(f"unknown assignment {assignment!r}; available: {', '.join(ASSIGNMENTS)}")
    return str(assignment)


def check_sampler(sampler: object) -> str:
    if sampler not in SAMPLERS:
        raise ValueError(f"unknown sampler {sampler!r}; available: {', '.join(SAMPLERS)}")
    return str(sampler)


def check_repetitions(repetitions: SupportsIndex | range) -> range:
    """A count R means repetitions 0 … R - 1; a range means itself."""
    if not isinstance(repetitions, range):
        return range(integer("repetitions", repetitions, 1, MAX_WORD))
    if not repetitions or repetitions.step < 1 or repetitions.start < 0 or repetitions[-1] > MAX_WORD:
        raise ValueError(f"repetitions={repetitions} must be a non-empty, ascending range of numbers >= 0 and < 2**64")
    return repetitions


def _distinct(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    result = tuple(values)
    if not result:
        raise ValueError(f"no {name} given; at least one is needed")
    for i, value in enumerate(result):
        if value in result[:i]:
            raise ValueError(f"{name} {value!r} is given twice")
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

    @classmethod
    def of(
        cls,
        protocols: str | Sequence[str] = PAPER,
        epsilons: float | Sequence[float] = PAPER_EPSILONS,
        repetitions: SupportsIndex | range = 100,
        seed: int = 0,
        assignment: str = "uniform",
        sampler: str = "users",
    ) -> Spec:
        names = [protocols] if isinstance(protocols, str) else protocols
        values = [epsilons] if isinstance(epsilons, (int, float, str)) else epsilons
        return cls(
            protocols=_distinct("protocol", (check_protocol(p) for p in names)),
            epsilons=_distinct("epsilon", (check_epsilon(e) for e in values)),
            repetitions=check_repetitions(repetitions),
            seed=check_seed(seed),
            assignment=check_assignment(assignment),
            sampler=check_sampler(sampler),
        )
