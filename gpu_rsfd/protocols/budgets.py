"""What one attribute's randomiser may spend, so that a guarantee of epsilon holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gpu_rsfd.errors import InputError

# What epsilon bounds: what the paper's budgets give (not the same for all solutions); the loss between any two users;
# the loss between two users who differ in one attribute.
GUARANTEES = ("paper", "user", "attribute")

Rule = Callable[[float, int], float]  # (epsilon, d) -> budget of one attribute


_GRID = 64  # budgets that are tried where adaptive choices may change


def check_guarantee(guarantee: object) -> str:
    if guarantee not in GUARANTEES:
        raise InputError(f"unknown guarantee {guarantee!r}; available: {', '.join(GUARANTEES)}")
    return str(guarantee)


def amplified(epsilon: float, d: int) -> float:
    """eps' = ln(d (e^eps - 1) + 1), Algorithm 1 line 1 (the amplification theorem has a misprinted sign)."""
    return math.log(d * (math.exp(epsilon) - 1) + 1)


def split(epsilon: float, d: int) -> float:
    return epsilon / d


def whole(epsilon: float, d: int) -> float:
    return epsilon


@dataclass(frozen=True)
class Budget:
    """The rule of each guarantee, and how people write the paper's."""

    rule: Rule  # paper
    text: str
    user: Rule
    attribute: Rule | None  # None: the largest budget whose exact loss for one attribute is at most epsilon

    def by(self, guarantee: str) -> Rule | None:
        return {"paper": self.rule, "user": self.user, "attribute": self.attribute}[check_guarantee(guarantee)]


AMPLIFIED = Budget(amplified, "ln(d (e^eps - 1) + 1)", user=whole, attribute=None)
SPLIT = Budget(split, "eps / d", user=split, attribute=whole)
WHOLE = Budget(whole, "eps", user=whole, attribute=whole)


def largest(fits: Callable[[float], bool], epsilon: float, smooth: bool) -> float:
    """The largest budget that fits, by bisection.

    `smooth`: what fits is an interval from 0.  Otherwise (adaptive choices change with the budget) a grid is looked at
    from above first.
    """
    low, high = (epsilon, 2 * epsilon) if fits(epsilon) else (0.0, epsilon)
    while fits(high):
        low, high = high, 2 * high
    if not smooth:
        top = 2 * high
        grid = [low + (top - low) * i / _GRID for i in range(_GRID + 1)]
        last = next(i for i in range(_GRID, -1, -1) if i == 0 or fits(grid[i]))
        low, high = grid[last], grid[min(last + 1, _GRID)]
    while low < (middle := (low + high) / 2) < high and high - low > 1e-13 * high:
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
