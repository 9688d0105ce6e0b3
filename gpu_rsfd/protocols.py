"""The mathematics of every protocol: budgets, thresholds, p and q, estimators, variances, adaptive choice.

Equation numbers are those of the paper, "Random Sampling Plus Fake Data" (CIKM 2021):
(1) estimator of Spl and Smp, (2) and (3) approximate variances of GRR and OUE, (4) (8) (10) estimators and
(5) (9) (11) variances of RS+FD[GRR], RS+FD[OUE-z] and RS+FD[OUE-r], (12) the adaptive choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.tape import KEEP_ONE, ONE, check_assignment

SOLUTIONS = {"rsfd": "RS+FD", "spl": "Spl", "smp": "Smp"}

# name -> (solution, mechanism); a mechanism of RS+FD ends in -z (fake zero vectors) or -r (fake random one-hot vectors)
_TABLE: dict[str, tuple[str, str]] = {
    "rsfd-grr": ("rsfd", "grr"),
    "rsfd-oue-z": ("rsfd", "oue-z"),
    "rsfd-oue-r": ("rsfd", "oue-r"),
    "rsfd-adp": ("rsfd", "adp"),
    "spl-adp": ("spl", "adp"),
    "smp-adp": ("smp", "adp"),
    "rsfd-sue-z": ("rsfd", "sue-z"),
    "rsfd-sue-r": ("rsfd", "sue-r"),
    "spl-grr": ("spl", "grr"),
    "spl-oue": ("spl", "oue"),
    "spl-sue": ("spl", "sue"),
    "smp-grr": ("smp", "grr"),
    "smp-oue": ("smp", "oue"),
    "smp-sue": ("smp", "sue"),
}
PROTOCOLS: tuple[str, ...] = tuple(_TABLE)
PAPER: tuple[str, ...] = PROTOCOLS[:6]  # the six methods that the paper evaluates


def check_protocol(protocol: object) -> str:
    if protocol not in PROTOCOLS:
        raise InputError(f"unknown protocol {protocol!r}; available: {', '.join(PROTOCOLS)}")
    return str(protocol)


def label(protocol: str) -> str:
    """The paper's name of a protocol: `RS+FD[OUE-z]` for `rsfd-oue-z`."""
    solution, mechanism = _TABLE[protocol]
    name, _, fake = mechanism.partition("-")
    return f"{SOLUTIONS[solution]}[{name.upper()}{'-' + fake if fake else ''}]"


def solution_of(protocol: str) -> str:
    """`rsfd`, `spl` or `smp`."""
    return _TABLE[protocol][0]


def amplified(epsilon: float, d: int) -> float:
    """eps' = ln(d (e^eps - 1) + 1), Algorithm 1 line 1 (the amplification theorem has a misprinted sign)."""
    return math.log(d * (math.exp(epsilon) - 1) + 1)


def budget(solution: str, epsilon: float, d: int) -> float:
    """What one attribute's randomiser may spend: eps' (RS+FD), eps / d (Spl) or eps (Smp)."""
    if solution == "rsfd":
        return amplified(epsilon, d)
    return epsilon / d if solution == "spl" else epsilon


class Recipe(NamedTuple):
    """What a backend must know of a mechanism: integers only.  Equal recipes have equal counts."""

    solution: str  # rsfd, spl, smp
    fake: str  # how RS+FD fills the attributes that were not sampled: y (a value), z or r (bit vectors)
    keep: int  # GRR: the true value is reported if h < keep; -1 for unary encodings
    tp: int  # unary encodings: bit v is U < (tp if v is the encoded value else tq); -1 for GRR
    tq: int

    @property
    def unary(self) -> bool:
        return self.keep < 0


def grr_threshold(e: float, k: int) -> int:
    """P(keep) = p - q, out of 2**32; not kept means uniform over all k values (Section 2.2.1)."""
    return math.floor((math.exp(e) - 1) / (math.exp(e) + k - 1) * KEEP_ONE)


def oue_thresholds(e: float) -> tuple[int, int]:
    """p = 1/2 and q = 1 / (e^e + 1), out of 2**24 (Section 2.2.2)."""
    return ONE // 2, math.ceil(ONE / (math.exp(e) + 1))


def sue_thresholds(e: float) -> tuple[int, int]:
    """p = s / (s + 1) and q = 1 / (s + 1) with s = e^(e/2), out of 2**24 (basic RAPPOR)."""
    s = math.exp(e / 2)
    return math.floor(ONE * s / (s + 1)), math.ceil(ONE / (s + 1))


@dataclass(frozen=True)
class Mechanism:
    """One attribute's randomiser inside a solution, with the probabilities that its integer thresholds realise.

    A user reports value v with probability `base + gain * [the user holds v]`, taken over the user's own
    randomness (sampling included for RS+FD).  Everything below follows from these two numbers.
    """

    name: str  # grr, oue, sue, oue-z, oue-r, sue-z, sue-r
    d: int
    k: int
    budget: float
    recipe: Recipe

    @property
    def p(self) -> float:
        """P(report v | v), as realised by the thresholds."""
        r = self.recipe
        return r.tp / ONE if r.unary else self.q + r.keep / KEEP_ONE

    @property
    def q(self) -> float:
        """P(report v | not v), as realised by the thresholds."""
        r = self.recipe
        return r.tq / ONE if r.unary else (1 - r.keep / KEEP_ONE) / self.k

    @property
    def fake_rate(self) -> float:
        """P(a fake attribute reports v): 1/k, q, or (p + (k - 1) q) / k (the trees of Figs. 3 to 5)."""
        return {"y": 1 / self.k, "z": self.q, "r": (self.p + (self.k - 1) * self.q) / self.k}[self.recipe.fake]

    @property
    def gain(self) -> float:
        return (self.p - self.q) / (self.d if self.recipe.solution == "rsfd" else 1)

    @property
    def base(self) -> float:
        if self.recipe.solution == "rsfd":
            return (self.q + (self.d - 1) * self.fake_rate) / self.d
        return self.q

    def estimate(self, counts: Any, reporters: Any) -> Any:
        """Unbiased frequency of each value from its count N: (N / m - base) / gain.

        Eq. (1) for Spl (m = n) and Smp (m = n_j); eq. (4), (8) or (10) for RS+FD (m = n), after division by n d k:
        e.g. (4) is (N d k - n (d - 1 + q k)) / (n k (p - q)) = (N/n - (q + (d - 1)/k)/d) / ((p - q)/d).
        """
        return (counts / reporters - self.base) / self.gain

    def variance(self, f: Any, n: int) -> Any:
        """The paper's variance: each user's value is drawn afresh, too.  Eq. (5), (9), (11); D (1 - D) / (m gain^2)."""
        rate = self.base + f * self.gain
        return rate * (1 - rate) / self.gain**2 * self._one_over_reporters(n)

    def fixed_variance(self, f: Any, n: int, assignment: str = "uniform", attribute: int | None = None) -> Any:
        """The variance over the protocol's randomness alone, the data set kept fixed: what a simulation shows.

        Spl and RS+FD: the paper's minus f (1 - f) / n.  Smp: the n_j users of an attribute are a random subset of
        the n, so the error of sampling without replacement comes on top of the mechanism's.  With `balanced`
        assignment n_j is fixed, and the holders of v among those n_j users are hypergeometric (docs/balanced.md);
        `attribute` (from 0) is then needed if d does not divide n, since n_j depends on it.
        """
        balanced = _is_balanced(assignment)
        if self.recipe.solution == "spl" or (self.recipe.solution == "rsfd" and not balanced):
            return self.variance(f, n) - f * (1 - f) / n
        p, q = self.p, self.q
        sampled = f * p * (1 - p) + (1 - f) * q * (1 - q)  # variance of one report of a user who sampled j
        if not balanced:
            inverse = self._one_over_reporters(n)
            return sampled / self.gain**2 * inverse + f * (1 - f) * (n * inverse - 1) / max(n - 1, 1)
        m = self._group_size(n, attribute)
        holders = m * f * (1 - f) * (n - m) / max(n - 1, 1)  # Var[holders of v in a random subset of m users]
        if self.recipe.solution == "smp":
            return (m * sampled / (p - q) ** 2 + holders) / m**2 if m else f * math.nan
        fake = self.fake_rate * (1 - self.fake_rate)
        return (m * sampled + (n - m) * fake + (p - q) ** 2 * holders) / (n * self.gain) ** 2

    def bias(self, f: Any, n: int, assignment: str = "uniform", attribute: int | None = None) -> Any:
        """E[estimate] - f: 0, but for RS+FD with `balanced` groups that cannot all be equal.

        RS+FD's estimator takes n/d users for granted; with n_j of them it is off by (d n_j / n - 1)(f - c), c = 0 for
        fake zero vectors and 1/k for fake values: less than d/n in all (docs/balanced.md).
        """
        if not _is_balanced(assignment) or self.recipe.solution != "rsfd":
            return f * 0.0
        excess = self.d * self._group_size(n, attribute) / n - 1
        return excess * (f - (self.fake_rate - self.q) / (self.p - self.q))

    def _group_size(self, n: int, attribute: int | None) -> int:
        if attribute is None and n % self.d:
            raise InputError(
                f"attribute=None must be given for balanced assignment: n={n} users are not a multiple of d={self.d}, "
                "so the size of a group depends on its attribute"
            )
        if attribute is not None and not 0 <= attribute < self.d:
            raise InputError(f"attribute={attribute} must be from 0 to {self.d - 1}")
        return group_size(n, self.d, attribute or 0)

    def _one_over_reporters(self, n: int) -> float:
        return mean_inverse_binomial(n, self.d) if self.recipe.solution == "smp" else 1 / n


def _is_balanced(assignment: str) -> bool:
    return check_assignment(assignment) == "balanced"


def group_size(n: int, d: int, attribute: int) -> int:
    """Users who sample an attribute (from 0) under `balanced` assignment: positions below n that equal it modulo d."""
    return (n - attribute + d - 1) // d


@lru_cache(maxsize=4096)
def mean_inverse_binomial(n: int, d: int) -> float:
    """E[1 / m | m > 0] for m ~ Binomial(n, 1/d), to 12 digits: by its series in d / n, or by its sum."""
    mean, r = n / d, 1 - 1 / d
    if mean > 5000:
        second, third = r * (1 + r), r * (1 - 6 * r * (1 - r)) - 10 * r**2 * (2 * r - 1) + 15 * r**3
        return (1 + (r + (second + third / mean) / mean) / mean) / mean
    if d == 1:
        return 1 / n
    m = np.arange(max(1, int(mean - 12 * math.sqrt(mean) - 40)), min(n, int(mean + 12 * math.sqrt(mean) + 40)) + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log((n - m[:-1]) / (m[1:] * (d - 1.0))))])
    weights = np.exp(logs - logs.max())
    return float((weights / m).sum() / weights.sum())


def grr_probabilities(e: float, k: int) -> tuple[float, float]:
    """The ideal p and q of GRR."""
    p = math.exp(e) / (math.exp(e) + k - 1)
    return p, (1 - p) / (k - 1)


def approximate_variances(e: float, d: int, k: int, n: int = 1) -> tuple[float, float]:
    """VAR1 of RS+FD[GRR] and VAR2 of RS+FD[OUE-z] at f = 0 and amplified budget e: both sides of eq. (12)."""
    p1, q1 = grr_probabilities(e, k)
    p2, q2 = 0.5, 1 / (math.exp(e) + 1)
    delta1, delta2 = (q1 + (d - 1) / k) / d, q2
    return (
        d**2 * delta1 * (1 - delta1) / (n * (p1 - q1) ** 2),
        d**2 * delta2 * (1 - delta2) / (n * (p2 - q2) ** 2),
    )


def adaptive_choice(solution: str, e: float, d: int, k: int) -> str:
    """The mechanism that ADP takes for an attribute: eq. (12) for RS+FD, k < 3 e^e + 2 for Spl and Smp."""
    if solution == "rsfd":
        var1, var2 = approximate_variances(e, d, k)
        return "grr" if var1 <= var2 else "oue-z"
    return "grr" if k < 3 * math.exp(e) + 2 else "oue"


@lru_cache(maxsize=1 << 16)
def mechanism(protocol: str, epsilon: float, d: int, k: int) -> Mechanism:
    """What `protocol` does to an attribute of k values among d, at a total budget of epsilon."""
    solution, name = _TABLE[protocol]
    try:
        e = budget(solution, epsilon, d)
        if not math.exp(e) < math.inf:
            raise OverflowError
        if name == "adp":
            name = adaptive_choice(solution, e, d, k)
        keep, tp, tq = -1, -1, -1
        if name == "grr":
            keep = grr_threshold(e, k)
        else:
            tp, tq = (oue_thresholds if name.startswith("oue") else sue_thresholds)(e)
    except OverflowError:
        raise InputError(f"epsilon={epsilon} is too large for {protocol} with d={d}: e^epsilon overflows") from None
    except ZeroDivisionError:  # the budget rounds to nothing inside the adaptive choice
        keep, tp, tq = 0, -1, -1
    if keep == 0 or (keep < 0 and tp <= tq):
        raise InputError(
            f"epsilon={epsilon} is too small for {protocol} with d={d} and k={k}: at a budget of {e:.3g} per attribute "
            "the report no longer depends on the value (p = q after rounding towards privacy)"
        )
    fake = "" if solution != "rsfd" else "y" if name == "grr" else name[-1]
    return Mechanism(name, d, k, e, Recipe(solution, fake, keep, tp, tq))
