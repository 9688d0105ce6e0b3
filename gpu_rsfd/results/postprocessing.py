"""Post-processings: what is done with the unbiased estimates of an attribute's values.

Names in brackets are those of Wang et al., "Locally Differentially Private Frequency Estimation with Consistency" (NDSS
2020).  A function gets estimates [..., value] and, if it needs one, a `Context`; it returns as many numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.planning import Floats, Plan
from gpu_rsfd.protocols import Mechanism, group_size, prior_frequencies
from gpu_rsfd.protocols.mechanism import mean_inverse_binomial

EXACT = 256  # counts up to this are summed one by one, those above as an integral
REACH = 12  # standard deviations on either side of an estimate that its posterior needs
FINE = 32  # posterior means per standard deviation; between them, straight lines
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


class UndefinedError(InputError):
    """A post-processing makes no sense for a protocol; says why.  There is no number then."""


@dataclass(frozen=True, eq=False)
class Context:
    """What a post-processing may know of the estimates of one attribute, for one protocol and epsilon.

    Attributes
    ----------
    n : int
        Users.
    base, gain
        A user reports value v with probability ``base + gain * [the user holds v]``; `base` is an array over the
        values if fake values have a prior that is not uniform.
    variance
        Of the unbiased estimate of a value that nobody holds, ``base * (1 - base) / (m * gain**2)`` with m reporters;
        an array if `base` is one.
    noise : str
        How a value is randomised: ``keep`` (a report supports one value), ``bits`` (a bit for each value), ``sets`` or
        ``subsets`` (a report supports several).
    """

    n: int
    base: Any
    gain: float
    variance: Any
    noise: str

    @classmethod
    def of(cls, plan: Plan, n: int, protocol: int, epsilon: int, attribute: int) -> Context:
        """Of a cell of a plan."""
        a, cell = plan.attributes[attribute], plan.cells[protocol][epsilon][attribute]
        recipe, (base, slope, gain) = a.recipes[cell], a.rates[cell]
        at_zero: Any = base if recipe.prior is None else base + slope * prior_frequencies(recipe.prior, a.k)
        inverse = 1 / n
        if plan.partial[protocol]:
            size = group_size(n, plan.d, attribute)
            inverse = mean_inverse_binomial(n, plan.d) if plan.assignment == "uniform" else 1 / size if size else np.nan
        return cls(n, at_zero, gain, at_zero * (1 - at_zero) / gain**2 * inverse, _kind(recipe.noise))

    @classmethod
    def of_mechanism(cls, m: Mechanism, n: int, reporters: int) -> Context:
        """Of the reports of an attribute by so many of n users."""
        variance = m.base * (1 - m.base) / m.gain**2 * (1 / reporters if reporters else np.nan)
        return cls(n, m.base, m.gain, variance, _kind(m.recipe.noise))


def _kind(noise: Any) -> str:
    """The kind of a noise; sets of one message, and subsets of one value, are as good as `keep`."""
    return "keep" if getattr(getattr(noise, "design", noise), "size", 0) == 1 else str(noise.kind)


def none(f: Floats) -> Floats:
    """The unbiased estimate itself, which may be negative."""
    return f


def clip(f: Floats) -> Floats:
    """Negative estimates are set to 0 (Base-Pos)."""
    return np.maximum(f, 0)


def clip_normalize(f: Floats) -> Floats:
    """Negative estimates are set to 0, then all are divided by their sum (Norm-Mul); uniform if none is positive."""
    clipped = np.maximum(f, 0)
    total = clipped.sum(axis=-1, keepdims=True)
    return np.where(total == 0, 1 / f.shape[-1], clipped / np.where(total == 0, 1, total))


def simplex(f: Floats) -> Floats:
    """The nearest frequencies that are not negative and sum to 1 (Norm-Sub): one number is subtracted, then clip."""
    descending = -np.sort(-f, axis=-1)
    surplus = np.cumsum(descending, axis=-1) - 1
    rank = np.arange(1, f.shape[-1] + 1)
    support = np.maximum((descending * rank > surplus).sum(axis=-1, keepdims=True), 1)
    return np.maximum(f - np.take_along_axis(surplus, support - 1, axis=-1) / support, 0)


def norm(f: Floats) -> Floats:
    """One number is added to every estimate so that they sum to 1 (Norm); some may be negative."""
    return f + (1 - f.sum(axis=-1, keepdims=True)) / f.shape[-1]


def norm_cut(f: Floats) -> Floats:
    """The largest estimates are kept until they sum to more than 1, the rest is 0; then clip-normalize (Norm-Cut)."""
    order = np.argsort(-f, axis=-1, kind="stable")
    clipped = np.maximum(np.take_along_axis(f, order, axis=-1), 0)
    before = np.cumsum(clipped, axis=-1) - clipped  # the sum of those that are larger
    kept = np.empty_like(f)
    np.put_along_axis(kept, order, np.where(before <= 1, clipped, 0), axis=-1)
    return clip_normalize(kept)


def base_cut(f: Floats, context: Context) -> Floats:
    """Estimates below the quantile 1 - 2 / k of the noise of a value that nobody holds are set to 0 (Base-Cut)."""
    share = 1 - 2 / f.shape[-1]
    threshold = NormalDist().inv_cdf(share) if share > 0 else -math.inf
    return np.where(f < threshold * np.sqrt(context.variance), 0, f)


def mle(f: Floats, context: Context) -> Floats:
    """The frequencies of largest likelihood; only where a report supports one value (GRR).

    They maximise the sum of s_v log(base_v + gain f_v), s_v the share of reports of v, over frequencies that are not
    negative and sum to 1: f_v = max(0, (c s_v - base_v) / gain), with the c that makes the sum 1.
    """
    if context.noise != "keep":
        raise UndefinedError("it is the likelihood of reports that support one value each, as with GRR")
    shares = np.maximum(context.base + context.gain * f, 0)
    base = np.broadcast_to(context.base, shares.shape)
    order = np.argsort(-shares / np.maximum(base, np.finfo(np.float64).tiny), axis=-1, kind="stable")
    s, b = np.take_along_axis(shares, order, axis=-1), np.take_along_axis(base, order, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        c = (context.gain + np.cumsum(b, axis=-1)) / np.cumsum(s, axis=-1)  # if these and no others are positive
        kept = np.maximum((c * s > b).sum(axis=-1, keepdims=True), 1)
        found: Floats = np.maximum((np.take_along_axis(c, kept - 1, axis=-1) * shares - base) / context.gain, 0)
    return found


def mle_apx(f: Floats, context: Context) -> Floats:
    """An approximation of the largest likelihood by normal distributions (MLE-Apx), for any noise.

    Residuals are the same multiple x of the variance for all values that stay positive; the rest is 0.
    """
    if np.ndim(context.base):
        raise UndefinedError("it needs one rate for all values, but fake values follow a prior")
    q, p = context.base, context.base + context.gain
    zero, one = q * (1 - q), p * (1 - p)  # variances of the report of a value that is not held, and of one that is
    shares, active = q + context.gain * f, np.ones(f.shape, bool)
    while True:
        m = active.sum(axis=-1, keepdims=True)
        x = (np.where(active, shares, 0).sum(axis=-1, keepdims=True) - p - (m - 1) * q) / (one + (m - 1) * zero)
        found: Floats = np.where(active, (shares - q - zero * x) / (p - q + (one - zero) * x), 0)
        if not (found < 0).any():
            return found
        active &= found >= 0


def power(f: Floats, context: Context) -> Floats:
    """The posterior mean under a power law of the counts 1 … n with mean n / k (Power)."""
    n, k = context.n, f.shape[-1]
    if n <= k:
        raise UndefinedError(f"a power law with mean n / k needs more users than values, but n = {n} and k = {k}")
    deviation = np.sqrt(np.broadcast_to(context.variance, (k,)))
    found = np.empty_like(f)
    for sigma in np.unique(deviation):
        columns = deviation == sigma
        found[..., columns] = _posterior(f[..., columns] * n, float(sigma) * n, n, _exponent(n, k)) / n
    return found


def power_ns(f: Floats, context: Context) -> Floats:
    """The posterior mean under a power law, then simplex (PowerNS)."""
    return simplex(power(f, context))


FUNCTIONS = (none, clip, clip_normalize, simplex, norm, norm_cut, base_cut, mle, mle_apx, power, power_ns)


@lru_cache(maxsize=1024)
def _exponent(n: int, k: int) -> float:
    """The a for which counts 1 … n with probabilities proportional to count ** -a have the mean n / k."""
    counts, weights = _counts(1, n, n)
    low, high = 0.0, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        prior = weights * counts**-middle
        low, high = (middle, high) if (counts * prior).sum() / prior.sum() > n / k else (low, middle)
    return (low + high) / 2


def _counts(low: float, high: float, width: float) -> tuple[Floats, Floats]:
    """Nodes and weights of a sum over the whole numbers from low (at least 1) to high.

    Those up to `EXACT` are their own nodes; the rest is an integral, by Gauss and Legendre, over intervals that are no
    wider than `width` and at most double.
    """
    first, last = max(1, math.floor(low)), math.ceil(high)
    few = np.arange(first, min(last, EXACT) + 1, dtype=np.float64)
    edges = [max(first, EXACT + 1) - 0.5]
    while edges[-1] < last + 0.5:
        edges.append(min(edges[-1] + min(width, edges[-1]), last + 0.5))
    start, half = np.array(edges[:-1]), np.diff(edges) / 2
    many = (start + half)[:, None] + half[:, None] * NODES
    return np.concatenate([few, many.ravel()]), np.concatenate([np.ones(len(few)), (half[:, None] * WEIGHTS).ravel()])


def _posterior(x: Floats, deviation: float, n: int, exponent: float) -> Floats:
    """E[count | x] for x = count + normal noise, tabulated and interpolated: good to a thousandth of the deviation."""
    if not deviation > 0:
        return np.clip(x, 1, n)
    low, step = float(x.min()), min(deviation, deviation**2) / FINE  # a step between two counts is deviation^2 wide
    size = math.ceil((float(x.max()) - low) / step) + 2
    grid = low + step * np.arange(size) if size < x.size else np.unique(x)
    parts = np.split(grid, np.flatnonzero(np.diff(np.floor((grid - low) / (16 * deviation)))) + 1)
    means = []
    for here in parts:
        first, last = np.clip(here[[0, -1]], 1, n)  # beyond the ends, the posterior is at the end
        counts, weights = _counts(max(1, first - REACH * deviation), min(n, last + REACH * deviation), deviation)
        logs = np.log(weights) - exponent * np.log(counts) - ((here[:, None] - counts) / deviation) ** 2 / 2
        likely = np.exp(logs - logs.max(axis=1, keepdims=True))
        means.append((likely * counts).sum(axis=1) / likely.sum(axis=1))
    return np.interp(x, grid, np.concatenate(means))
