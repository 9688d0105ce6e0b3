"""Honest comparisons.  Repetition r of every protocol reads the same tape on the same data: differences are paired."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.estimate import Floats
from gpu_rsfd.results import Result
from gpu_rsfd.show.summary import deviations

CONFIDENCE = 0.95
TIE = 1e-9  # relative: errors closer than this are equal


class Difference(NamedTuple):
    """Of the mean MSE_avg of two protocols, [epsilon] each; standard errors are those of paired differences."""

    difference: Floats
    error: Floats
    ratio: Floats
    ratio_error: Floats
    distinct: Any  # bool: not zero, as far as the repetitions tell


def differences(result: Result, first: str, second: str, postprocess: str) -> Difference:
    """`first` minus and over `second`; the ratio's error by the delta method."""
    mean, away = deviations(result, postprocess)
    a, b = result.protocols.index(first), result.protocols.index(second)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = mean[a] / mean[b]
        error = _length(away[a] - away[b])
        ratio_error = _length(away[a] - ratio[..., None] * away[b]) / mean[b]
    difference = mean[a] - mean[b]
    bound = quantile(1 - (1 - CONFIDENCE) / 2, len(result.repetitions) - 1) * error
    distinct = (np.abs(difference) > bound) & (np.abs(difference) > TIE * mean[b])
    return Difference(difference, error, ratio, ratio_error, distinct)


def maybe_best(result: Result, postprocess: str) -> Any:
    """bool [protocol, epsilon]: the smallest mean, and all whose paired difference to it is within noise.

    The protocol with the smallest expectation is among them with a confidence of 95 %: it is left out only if it is
    behind the observed best by more than chance explains, each of the other protocols having had that chance
    (Bonferroni).  A single repetition tells nothing about chance: the smallest and its equals.
    """
    return maybe_best_of(*deviations(result, postprocess))


def maybe_best_of(mean: Floats, away: Floats) -> Any:
    """The same of any means [protocol, …] and what the repetitions add to their errors, [protocol, …, repetition]."""
    known = np.where(np.isfinite(mean), mean, np.inf)
    best = known.argmin(axis=0)
    lowest = np.take_along_axis(known, best[None], axis=0)
    of_best = np.take_along_axis(away, best[None, ..., None], axis=0)
    rivals, count = max(mean.shape[0] - 1, 1), away.shape[-1]
    error = np.nan_to_num(_length(away - of_best), nan=0.0)
    with np.errstate(invalid="ignore"):
        behind = known - lowest  # NaN if nothing is known
        close = (behind <= error * quantile(1 - (1 - CONFIDENCE) / rivals, count - 1)) | (behind <= TIE * lowest)
    return close & np.isfinite(mean)


def _length(away: Floats) -> Floats:
    length: Floats = np.sqrt((away**2).sum(axis=-1))
    return length


@lru_cache(maxsize=256)
def quantile(probability: float, freedom: int) -> float:
    """Of Student's t; 0 without a degree of freedom, since then there is no noise to speak of."""
    if freedom < 1:
        return 0.0
    low, high = 0.0, 1.0
    while t_law(high, freedom) < probability:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_law(middle, freedom) < probability else (low, middle)
    return high


def t_law(t: float, freedom: int) -> float:
    """P(T <= t) for t >= 0, by the finite series for whole degrees of freedom; from 1,000 on the normal law."""
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
