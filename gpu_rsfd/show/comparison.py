"""Comparisons of protocols, repetition by repetition: all see the same users in each repetition.

Pairing is valid with every sampler.  How much it gains depends on the random numbers that protocols share: those of the
tape (`users`), who sampled what (`counts`), nothing (`marginals`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.results.estimate import Floats, PostprocessLike
from gpu_rsfd.results.metrics import MetricLike, as_metric
from gpu_rsfd.results.result import Result
from gpu_rsfd.show.summary import deviations, with_estimate

CONFIDENCE = 0.95
TIE = 1e-9  # relative: errors closer than this are equal


class Difference(NamedTuple):
    """Of the mean errors of two protocols, [epsilon] each; standard errors are those of paired differences."""

    difference: Floats
    error: Floats
    ratio: Floats
    ratio_error: Floats
    significant: Any  # bool: significantly different from zero


def differences(
    result: Result, first: str, second: str, postprocess: PostprocessLike, metric: MetricLike = "mse"
) -> Difference:
    """`first` minus and over `second`; the ratio's standard error by the delta method."""
    mean, deviation = deviations(result, postprocess, metric)
    a, b = result.protocols.index(first), result.protocols.index(second)
    difference, error = mean[a] - mean[b], _length(deviation[a] - deviation[b])
    ratio, ratio_error = ratio_of(mean[a], mean[b], deviation[a], deviation[b])
    known = with_estimate(result)[0]
    bound = half_width(error, np.minimum(known[a], known[b]))
    with np.errstate(invalid="ignore"):  # an unknown standard error: not significant
        significant = (np.abs(difference) > bound) & (np.abs(difference) > TIE * np.abs(mean[b]))
    return Difference(difference, error, ratio, ratio_error, significant)


def ratio_of(mean: Any, other: Any, deviation: Any, other_deviation: Any) -> tuple[Any, Any]:
    """The ratio of two means with its standard error, by the delta method."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.asarray(mean / other)
        return ratio, _length(deviation - ratio[..., None] * other_deviation) / np.abs(other)


def among_best(result: Result, postprocess: PostprocessLike, metric: MetricLike = "mse") -> Any:
    """bool [protocol, epsilon]: the best mean, and all that are not significantly worse.

    With a confidence of at least 95 % (Student's t, Bonferroni's correction for all pairs of protocols) all of this
    holds at once: the protocol with the best expectation is marked; a protocol that is marked alone is the best;
    whoever is not marked is worse than the best mean's protocol.  An unknown standard error excludes nobody.  A single
    repetition says nothing about chance: the best and its equals.
    """
    mean, deviation = deviations(result, postprocess, metric)
    return among_best_of(mean, deviation, with_estimate(result)[0], as_metric(metric).larger_is_better)


def among_best_of(mean: Floats, deviation: Floats, known: Any = None, larger_is_better: bool = False) -> Any:
    """The same of any means [protocol, …] and what the repetitions add to their errors, [protocol, …, repetition].

    `known`: how many repetitions are behind each mean, where estimates are missing in some; default: all.
    """
    cost = np.where(np.isfinite(mean), -mean if larger_is_better else mean, np.inf)
    best = cost.argmin(axis=0)[None]
    lowest = np.take_along_axis(cost, best, axis=0)
    count = deviation.shape[-1]
    behind = np.where(np.isfinite(cost), cost, 0) - np.where(np.isfinite(lowest), lowest, 0)
    close = behind <= TIE * np.abs(lowest)
    if count > 1:
        known = np.full(mean.shape, count) if known is None else known
        freedom = np.minimum(known, np.take_along_axis(known, best, axis=0)) - 1
        error = _length(deviation - np.take_along_axis(deviation, best[..., None], axis=0))
        noise = half_width(error, freedom + 1, mean.shape[0])
        close |= ~(behind > noise)  # also if the noise is not known
    return close & np.isfinite(mean)


def _length(deviation: Floats) -> Floats:
    length: Floats = np.sqrt((deviation**2).sum(axis=-1))
    return length


def _quantiles(probability: float, freedom: Any) -> Floats:
    """`quantile` for an array of degrees of freedom; NaN where there are none."""
    each = {f: quantile(probability, f) if f > 0 else math.nan for f in np.unique(freedom).tolist()}
    return np.vectorize(each.__getitem__, otypes=[np.float64])(freedom)


def half_width(error: Any, count: Any, protocols: int = 2) -> Floats:
    """Half the 95 % confidence interval of a mean over `count` repetitions with this standard error.

    With more than two protocols: of the difference of any two, so that the intervals of all pairs hold at once.
    """
    pairs = max(protocols * (protocols - 1) // 2, 1)
    return np.asarray(error) * _quantiles(1 - (1 - CONFIDENCE) / 2 / pairs, np.asarray(count) - 1)


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
