"""One attribute's randomiser inside a protocol: everything follows from its normal form.

Equation numbers are those of the paper, "Random Sampling Plus Fake Data" (CIKM 2021): (1) estimator of Spl and Smp,
(4) (8) (10) estimators and (5) (9) (11) variances of RS+FD[GRR], RS+FD[OUE-z] and RS+FD[OUE-r].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols.form import Recipe, Unsampled, prior_frequencies
from gpu_rsfd.tape import check_assignment


def support(others: Unsampled, unary: bool, p: float, q: float, d: int, fakes: Any) -> tuple[Any, float]:
    """(base, gain): a user reports value v with probability base + gain [the user holds v].

    `fakes` is the distribution of fake values (`Sets`: P(a fake supports v)).  Base is a vector if that is one.
    """
    if not others.hides:
        return q, p - q
    return (q + (d - 1) * fake_rate(others, unary, p, q, fakes)) / d, (p - q) / d


def fake_rate(others: Unsampled, unary: bool, p: float, q: float, fakes: Any) -> Any:
    """P(v is reported for an attribute that was not sampled): the trees of Figs. 3 to 5."""
    if others is Unsampled.ZERO:
        return q
    return q + (p - q) * fakes if unary else fakes


@dataclass(frozen=True)
class Mechanism:
    """A noise at a budget, with the probabilities that its integer thresholds realise.

    A user reports value v with probability `base + gain * [the user holds v]`, taken over the user's own
    randomness (sampling included for RS+FD).  Everything below follows from these two.
    """

    name: str  # grr, oue, …; with fakes and bits also -z (zero vectors) or -r (random one-hot vectors)
    d: int
    k: int
    budget: float
    recipe: Recipe
    spent: float  # what this one report spends: the budget, or a share of it
    loss: float  # worst log-likelihood ratio between two values of a user who sampled the attribute, as realised
    bits: float  # bits in the report of this attribute
    plain: bool = True  # what is sent is the value or the bits themselves, so that p and q say all about a report
    claimed: bool = False  # the loss is what the protocol's author says: it can't be computed from p and q

    @property
    def p(self) -> float:
        """P(report v | v), as realised by the thresholds."""
        return self.recipe.noise.p(self.k)

    @property
    def q(self) -> float:
        """P(report v | not v), as realised by the thresholds."""
        return self.recipe.noise.q(self.k)

    @property
    def _fakes(self) -> Any:
        if self.recipe.prior is None:
            return self.recipe.noise.fakes(self.k)
        return prior_frequencies(self.recipe.prior, self.k)

    @cached_property
    def fake_rate(self) -> Any:
        """P(a fake attribute reports v); a vector if the prior is not uniform."""
        return fake_rate(self.recipe.unsampled, self.recipe.unary, self.p, self.q, self._fakes)

    @cached_property
    def _support(self) -> tuple[Any, float]:
        return support(self.recipe.unsampled, self.recipe.unary, self.p, self.q, self.d, self._fakes)

    @property
    def base(self) -> Any:
        """P(report v) of a user who does not hold v; a vector if the prior of fakes is not uniform."""
        return self._support[0]

    @property
    def gain(self) -> float:
        return self._support[1]

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
        balanced, others = check_assignment(assignment) == "balanced", self.recipe.unsampled
        if not others.samples or (others.hides and not balanced):
            return self.variance(f, n) - f * (1 - f) / n
        p, q = self.p, self.q
        sampled = f * p * (1 - p) + (1 - f) * q * (1 - q)  # variance of one report of a user who sampled j
        if not balanced:
            inverse = self._one_over_reporters(n)
            return sampled / self.gain**2 * inverse + f * (1 - f) * (n * inverse - 1) / max(n - 1, 1)
        m = self._group_size(n, attribute)
        holders = m * f * (1 - f) * (n - m) / max(n - 1, 1)  # Var[holders of v in a random subset of m users]
        if not others.hides:
            return (m * sampled / (p - q) ** 2 + holders) / m**2 if m else f * math.nan
        fake = self.fake_rate * (1 - self.fake_rate)
        return (m * sampled + (n - m) * fake + (p - q) ** 2 * holders) / (n * self.gain) ** 2

    def bias(self, f: Any, n: int, assignment: str = "uniform", attribute: int | None = None) -> Any:
        """E[estimate] - f: 0, but for RS+FD with `balanced` groups that cannot all be equal.

        RS+FD's estimator takes n/d users for granted; with n_j of them it is off by (d n_j / n - 1)(f - c), with
        c = (fake_rate - q) / (p - q): 0 for fake zero vectors, the frequency f~ of the fake for fakes that are
        randomised, and (f~ - q) / (p - q) for GRR, whose fakes are sent as they are (1/k if they are uniform).  With a
        prior that c may lie outside 0 … 1, and the bias exceed d/n (docs/balanced.md).
        """
        if check_assignment(assignment) != "balanced" or not self.recipe.unsampled.hides:
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
        return mean_inverse_binomial(n, self.d) if self.recipe.unsampled is Unsampled.NOTHING else 1 / n


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
