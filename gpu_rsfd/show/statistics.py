"""Means over repetitions with their standard errors, and which differences between protocols are significant.

All protocols see the same users in each repetition, so they are compared repetition by repetition.  That is valid with
every sampler; how much it gains depends on the random numbers that protocols share: those of the tape (`users`), who
sampled what (`counts`), nothing (`marginals`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.results.estimate import Floats
from gpu_rsfd.results.result import Column, Result

CONFIDENCE = 0.95
TIE = 1e-9  # relative: numbers closer than this are equal


class Means(NamedTuple):
    """Over the repetitions, [protocol, …] each."""

    mean: Floats
    error: Floats  # its standard error
    deviation: Floats  # [protocol, …, repetition]: what each repetition adds to the standard error, see `means`
    known: Any  # how many repetitions are behind each mean
    each: Any  # the numbers themselves, [protocol, …, repetition]

    @property
    def repeated(self) -> bool:
        """Whether there is anything to tell noise from."""
        return self.deviation.shape[-1] > 1


def means(each: Any) -> Means:
    """Of numbers [protocol, …, repetition].

    The standard error of any sum of means is the root of the sum of squares of the same sum of deviations.
    """
    count = each.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = each.sum(axis=-1) / count
        away = each - mean[..., None]
        error = np.sqrt((away**2).sum(axis=-1) / (count - 1) / count)
        return Means(mean, error, away / np.sqrt(count * (count - 1.0)), np.full(mean.shape, count), each)


def error_means(result: Result, metric: Any, postprocess: Any) -> Means:
    """Of errors of estimates, [protocol, epsilon].

    Where nobody sampled an attribute (Smp on tiny data) a repetition has no estimate of it.  Errors are therefore
    averaged attribute by attribute, over the n_j of R repetitions that have one, and then over the d attributes, as
    the theory does:

        mean = 1/d sum_j mean_j,    error^2 = sum_r (1/d sum_j (x_rj - mean_j) / sqrt(n_j (n_j - 1)))^2

    with x_rj the error of attribute j in repetition r, the inner sum over the attributes that have one.  With all n_j
    equal to R these are the mean and the standard error of `Result.error`.  An attribute without any
    estimate makes both NaN; one with a single estimate, the standard error.
    """
    each = result.error(metric, postprocess)
    found = means(each)._replace(known=with_estimate(result)[0])
    missing = np.isnan(each).any(axis=-1)
    # An error may also be missing because a post-processing is not defined: all of an attribute's, then.
    if missing.any() and result.has_counts and (missing := missing & (result.reporters == 0).any(axis=(2, 3))).any():
        own = attribute_means(result.error_per_attribute(metric, postprocess)[missing])
        found.mean[missing] = own.mean.mean(axis=-1)
        found.deviation[missing] = own.deviation.mean(axis=-2)
        found.error[missing] = _length(found.deviation[missing])
    return found


def attribute_means(each: Any) -> Means:
    """Of numbers [..., repetition, attribute], by attribute, over the repetitions that have one."""
    defined = np.isfinite(each)
    counts = defined.sum(axis=-2)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(defined, each, 0).sum(axis=-2) / counts
        deviation = np.where(defined, each - mean[..., None, :], 0) / np.sqrt(counts * (counts - 1.0))[..., None, :]
    deviation = np.swapaxes(deviation, -1, -2)
    return Means(mean, _length(deviation), deviation, counts, np.swapaxes(each, -1, -2))


def with_estimate(result: Result) -> tuple[Any, Any]:
    """[protocol, epsilon]: repetitions that estimate the attribute that fewest do; repetitions that estimate all."""
    reported = result.reporters > 0  # [protocol, epsilon, repetition, attribute]
    return reported.sum(axis=2).min(axis=-1), reported.all(axis=-1).sum(axis=-1)


def enough(protocols: int = 2) -> int:
    """Repetitions at which one sign of all paired differences is evidence by itself, as `half_width` asks for it.

    With fewer, equal differences (of a metric that takes few different values) have a standard error of 0 by chance.
    """
    return 1 + math.ceil(math.log2(max(protocols * (protocols - 1) // 2, 1) / (1 - CONFIDENCE)))


def advice(column: Column, *table: Means) -> str:
    """How many repetitions would do for a table, where there are too few for a verdict; else nothing."""
    compared = [m for m in table if m.repeated and len(m.mean) > 1 and np.isfinite(m.mean).any()]
    few = [number for m in compared if m.deviation.shape[-1] < (number := enough(len(m.mean)))]
    if column.discrete and few:
        return f"{column.label} takes few different values: no * below {max(few)} repetitions"
    needed = [_needed(m, column.better) for m in compared]
    hint = f"all are marked; about {max(needed, default=0):,} repetitions would exclude half of them"
    return f"{column.label}: {hint}" if needed and all(needed) else ""


def _needed(found: Means, better: str) -> int:
    """Repetitions that would exclude half of the protocols; 0 if some are excluded now, or if nothing would do."""
    count, known = found.deviation.shape[-1], np.isfinite(found.mean)
    for more in (count, enough(len(found.mean)), 20, 30, 50, 100, 200, 300, 500, 1000, 10_000):
        scaled = found._replace(deviation=found.deviation * math.sqrt(count / more), known=known * more)
        if more >= count and among_best(scaled, better)[known].mean() <= (0.5 if more > count else 1 - 1e-9):
            return more if more > count else 0
    return 0


def differences(found: Means, a: int, b: int, discrete: bool = False) -> dict[str, Any]:
    """Protocol `a` minus and over `b`, [epsilon] each; the ratio's standard error by the delta method."""
    difference, error = found.mean[a] - found.mean[b], _length(found.deviation[a] - found.deviation[b])
    bound = half_width(error, np.minimum(found.known[a], found.known[b]))
    with np.errstate(divide="ignore", invalid="ignore"):  # an unknown standard error: not significant
        significant = (np.abs(difference) > bound) & (np.abs(difference) > TIE * np.abs(found.mean[b]))
        agreed = discrete | (error <= TIE * np.abs(difference))
        significant &= ~(agreed & (np.minimum(found.known[a], found.known[b]) < enough()))
        ratio = np.asarray(found.mean[a] / found.mean[b])
        ratio_error = _length(found.deviation[a] - ratio[..., None] * found.deviation[b]) / np.abs(found.mean[b])
    return {
        **{"difference": difference, "standard_error": error},
        **{"ratio": ratio, "ratio_standard_error": ratio_error, "significantly_different": significant},
    }


def among_best(found: Means, better: str, discrete: bool = False) -> Any:
    """bool [protocol, …]: the best mean, and all that are not significantly worse.

    With a confidence of at least 95 % (Student's t, Bonferroni's correction for all pairs of protocols) all of this
    holds at once: the protocol with the best expectation is marked; a protocol that is marked alone is the best;
    whoever is not marked is worse than the best mean's protocol.  An unknown standard error excludes nobody.  A single
    repetition says nothing about chance: the best and its equals.  Of `discrete` numbers nobody is marked below
    `enough` repetitions; others that differ by the same number in all of them don't exclude either.
    """
    mean, _, deviation, known, _ = found
    cost = np.where(np.isfinite(mean), -mean if better == "larger" else mean, np.inf)
    best = cost.argmin(axis=0)[None]
    lowest = np.take_along_axis(cost, best, axis=0)
    behind = np.where(np.isfinite(cost), cost, 0) - np.where(np.isfinite(lowest), lowest, 0)
    close = behind <= TIE * np.abs(lowest)
    if found.repeated:
        error = _length(deviation - np.take_along_axis(deviation, best[..., None], axis=0))
        known = np.minimum(known, np.take_along_axis(known, best, axis=0))
        noise, few = half_width(error, known, mean.shape[0]), known < enough(mean.shape[0])
        close |= ~(behind > noise) | (few & (error <= TIE * behind))  # also if the noise is not known
        close &= ~((few & np.isfinite(mean)).any(axis=0) & discrete)
    return close & np.isfinite(mean)


def _length(deviation: Floats) -> Floats:
    length: Floats = np.sqrt((deviation**2).sum(axis=-1))
    return length


def half_width(error: Any, count: Any, protocols: int = 2) -> Floats:
    """Half the 95 % confidence interval of a mean over `count` repetitions with this standard error.

    With more than two protocols: of the difference of any two, so that the intervals of all pairs hold at once.
    """
    probability = 1 - (1 - CONFIDENCE) / 2 / max(protocols * (protocols - 1) // 2, 1)
    freedom = np.asarray(count) - 1
    each = {f: quantile(probability, f) if f > 0 else math.nan for f in np.unique(freedom).tolist()}
    return np.asarray(error) * np.vectorize(each.__getitem__, otypes=[np.float64])(freedom)


@lru_cache(maxsize=256)
def quantile(probability: float, freedom: int) -> float:
    """Of Student's t, with at least one degree of freedom."""
    low, high = 0.0, 1.0
    while t_distribution(high, freedom) < probability:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_distribution(middle, freedom) < probability else (low, middle)
    return high


def t_distribution(t: float, freedom: int) -> float:
    """P(T <= t) for t >= 0, by the finite series for whole degrees of freedom; from 1,000 on the normal one."""
    if freedom > 1000:
        return 0.5 * math.erfc(-t / math.sqrt(2))
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2 == 1
    term, total = (cosine if odd else 1.0), 0.0
    for i in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine**2 * (i - 1) / i
    both = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return 0.5 + both / 2
