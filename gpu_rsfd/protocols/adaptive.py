"""The adaptive choice between two variants of reporting: the smaller variance at f = 0, ideal probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols.form import Unsampled
from gpu_rsfd.protocols.mechanism import support
from gpu_rsfd.protocols.noise import NoiseRule

TIE = 1e-9  # variances closer than this, relatively, are equal: floating-point noise must not decide
SMALLEST, LARGEST = 1e-7, 709.0  # budgets: below, no threshold differs; above, e^e overflows
_STEPS = 128  # between them


@dataclass(frozen=True)
class Variant:
    """A noise, and what is sent for attributes that were not sampled."""

    noise: NoiseRule
    unsampled: Unsampled
    prior: bool = False  # fakes follow the prior of the spec, if it has one

    @property
    def name(self) -> str:
        """grr, oue, …; -z for fake zero vectors, -r for fake random one-hot vectors."""
        random = self.unsampled is Unsampled.FAKE and self.noise.form.unary
        return self.noise.name + ("-z" if self.unsampled is Unsampled.ZERO else "-r" if random else "")

    def variance_at_zero(self, e: float, d: int, k: int, n: int = 1) -> float:
        """Variance of the estimate of a value that nobody holds, at budget e with uniform fakes: eq. (12)."""
        p, q = self.noise.ideal(e, k)
        base, gain = support(self.unsampled, self.noise.form.unary, p, q, d, self.noise.fakes(e, k))
        return float(base * (1 - base) / gain**2) / n


def choose(variants: tuple[Variant, ...], e: float, d: int, k: int) -> Variant:
    """The variant that a protocol takes for an attribute; `variants[-1]` wins a tie.

    Spl and Smp: GRR if k < 3 exp(e) + 2, which is the same comparison.  RS+FD: eq. (12).
    """
    if len(variants) == 1:
        return variants[0]
    first, last = variants
    return first if _gain(variants, e, d, k) > 0 else last


def _gain(variants: tuple[Variant, ...], e: float, d: int, k: int) -> float:
    """By how much the first variant has the smaller variance, relatively; a tie is less than nothing."""
    a, b = (variant.variance_at_zero(e, d, k) for variant in variants)
    return (b - a - TIE * b) / b if b > 0 else -TIE


@lru_cache(maxsize=1 << 12)
def switches(variants: tuple[Variant, ...], d: int, k: int) -> tuple[float, ...]:
    """The budgets, ascending, from which on the choice is another one: the first float of each new choice.

    Sign changes of the variances' difference over a grid.  Where it comes near 0 between neighbours of equal sign, two
    changes may hide, and the extreme itself is looked at.
    """
    if len(variants) == 1:
        return ()

    def gain(e: float) -> float:
        try:
            return _gain(variants, e, d, k)
        except (ZeroDivisionError, OverflowError, InputError):  # no probabilities at this budget
            return math.nan

    grid = [SMALLEST * (LARGEST / SMALLEST) ** (i / _STEPS) for i in range(_STEPS + 1)]
    points = [(e, g) for e in grid if not math.isnan(g := gain(e))]
    hidden = []
    for (e, g), (_, h), (f, i) in zip(points, points[1:], points[2:], strict=False):
        if (g > 0) == (h > 0) == (i > 0) and abs(h) <= min(abs(g), abs(i)):
            extreme = _nearest(lambda x, sign=1 if h > 0 else -1: sign * gain(x), e, f)  # type: ignore[misc]
            hidden.append((extreme, gain(extreme)))
    points = sorted(points + hidden)
    found = []
    for (low, g), (high, h) in pairwise(points):
        if (g > 0) != (h > 0):
            while low < (middle := (low + high) / 2) < high:
                low, high = (middle, high) if (gain(middle) > 0) == (g > 0) else (low, middle)
            found.append(high)
    return tuple(found)


def _nearest(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one minimum between two numbers is smallest, or not positive: golden-section search."""
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        left, right = function(a), function(b)
        if min(left, right) <= 0:
            return a if left <= 0 else b
        low, high = (low, b) if left <= right else (a, high)
    return (low + high) / 2
