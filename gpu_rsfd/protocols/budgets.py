"""What one attribute's randomiser may spend of a total budget epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


def amplified(epsilon: float, d: int) -> float:
    """eps' = ln(d (e^eps - 1) + 1), Algorithm 1 line 1 (the amplification theorem has a misprinted sign)."""
    return math.log(d * (math.exp(epsilon) - 1) + 1)


def split(epsilon: float, d: int) -> float:
    return epsilon / d


def whole(epsilon: float, d: int) -> float:
    return epsilon


@dataclass(frozen=True)
class Budget:
    """A rule, and how people write it."""

    rule: Callable[[float, int], float]  # (epsilon, d) -> budget of one attribute
    text: str


AMPLIFIED = Budget(amplified, "ln(d (e^eps - 1) + 1)")
SPLIT = Budget(split, "eps / d")
WHOLE = Budget(whole, "eps")
