"""What one attribute's randomiser may spend, so that a guarantee of epsilon holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_rsfd.checks import GUARANTEES, one_of

Rule = Callable[[float, int], float]  # (epsilon, d) -> budget of one attribute


def check_guarantee(guarantee: object) -> str:
    return one_of("guarantee", guarantee, GUARANTEES)


def amplified(epsilon: float, d: int) -> float:
    """eps' = ln(d (exp(eps) - 1) + 1), Algorithm 1 line 1 (the amplification theorem has a misprinted sign)."""
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
    # None: the largest budget whose exact loss (any two users; users who differ in one attribute) is at most epsilon
    user: Rule | None = None
    attribute: Rule | None = None

    def by(self, guarantee: str) -> Rule | None:
        return {"paper": self.rule, "user": self.user, "attribute": self.attribute}[check_guarantee(guarantee)]


AMPLIFIED = Budget(amplified, "ln(d (exp(eps) - 1) + 1)", user=whole, attribute=None)
SPLIT = Budget(split, "eps / d", user=split, attribute=whole)
WHOLE = Budget(whole, "eps", user=whole, attribute=whole)


def largest(fits: Callable[[float], bool], epsilon: float, switches: Sequence[float] = ()) -> float:
    """The largest budget that fits, by bisection; 0 if none does.

    `switches` are the budgets, ascending, from which an adaptive protocol makes another choice.  From one switch to the
    next the loss only grows, so what fits is an interval that starts there; at a switch it may fall.
    """
    for start, end in zip((*switches[::-1], 0.0), (math.inf, *switches[::-1]), strict=True):
        if start > 0 and not fits(start):
            continue
        low, high = start, max(epsilon, 2 * start)
        while high < end and fits(high):
            low, high = high, 2 * high
        high = min(high, end)
        while low < (middle := (low + high) / 2) < high and high - low > 1e-13 * high:
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low
    return 0.0
