"""Checks of random results: fixed seeds, false-alarm rate ALPHA a check, bounds derived here and printed on failure."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

ALPHA = 1e-6


def normal_bound(cells: int) -> float:
    """|z| that none of `cells` standard normals exceeds, but with probability ALPHA (Bonferroni)."""
    return NormalDist().inv_cdf(1 - ALPHA / (2 * cells))


def check_means(samples: npt.NDArray, expected: npt.NDArray, variance: npt.NDArray, what: str) -> None:
    """Every cell's mean over the first axis is `expected`, given the cells' true variance."""
    repetitions = len(samples)
    z = (samples.mean(axis=0) - expected) / np.sqrt(variance / repetitions)
    bound = normal_bound(z.size)
    worst = np.unravel_index(np.argmax(np.abs(z)), z.shape)
    assert abs(z[worst]) < bound, (
        f"{what}: cell {worst} has mean {samples.mean(axis=0)[worst]:.6g}, expected {expected[worst]:.6g} "
        f"(z={z[worst]:.1f}, bound {bound:.1f}, R={repetitions})"
    )


def check_variances(samples: npt.NDArray, variance: npt.NDArray, what: str) -> None:
    """Every cell's sample variance is `variance` (nearly normal samples; Wilson-Hilferty for the chi-squared law)."""
    freedom = len(samples) - 1
    ratio = samples.var(axis=0, ddof=1) / variance
    spread = 2 / (9 * freedom)
    z = (np.cbrt(ratio) - (1 - spread)) / math.sqrt(spread)
    bound = normal_bound(z.size) * 1.1  # room for the skewness of counts
    worst = np.unravel_index(np.argmax(np.abs(z)), z.shape)
    assert abs(z[worst]) < bound, (
        f"{what}: cell {worst} has {ratio[worst]:.3f} times the variance {variance[worst]:.6g} "
        f"(z={z[worst]:.1f}, bound {bound:.1f}, R={freedom + 1})"
    )


def check_uniform(counts: npt.NDArray, what: str) -> None:
    """Pearson's chi-squared test against the uniform law, over the last axis."""
    k = counts.shape[-1]
    expected = counts.sum(axis=-1, keepdims=True) / k
    chi2 = ((counts - expected) ** 2 / expected).sum(axis=-1)
    freedom = k - 1
    spread = 2 / (9 * freedom)
    z = (np.cbrt(chi2 / freedom) - (1 - spread)) / math.sqrt(spread)
    bound = normal_bound(z.size)
    assert np.max(z) < bound, (
        f"{what}: chi2={np.max(chi2):.1f} with {freedom} degrees (z={np.max(z):.1f} > {bound:.1f})"
    )
