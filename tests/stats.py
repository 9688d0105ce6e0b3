"""Checks of random results: fixed seeds, false-alarm rate ALPHA a check, bounds derived here and printed on failure."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
    """Every cell's sample variance is `variance` (nearly normal samples; Wilson-Hilferty approximation)."""
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
    """Pearson's chi-squared test against the uniform distribution, over the last axis."""
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


def two_sample_z(a: Mapping[str, int], b: Mapping[str, int], few: int = 20) -> float:
    """How far two samples of anything are from having one distribution, as a normal z: Pearson's chi-squared.

    What fewer than `few` of both samples hold is taken together (Wilson-Hilferty approximation).
    """
    pairs = [(a.get(key, 0), b.get(key, 0)) for key in {*a, *b}]
    rare = np.sum([pair for pair in pairs if sum(pair) < few] or [(0, 0)], axis=0)
    table = np.array([*(pair for pair in pairs if sum(pair) >= few), *([rare] if rare.sum() >= few else [])], float)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    freedom = len(table) - 1
    spread = 2 / (9 * freedom)
    return float((np.cbrt(((table - expected) ** 2 / expected).sum() / freedom) - (1 - spread)) / math.sqrt(spread))


def check_same_moments(x: npt.NDArray, y: npt.NDArray, what: str) -> None:
    """Two samples [repetition, cell] have the same means, variances and covariances, every one of them."""
    center = (x.mean(axis=0) + y.mean(axis=0)) / 2
    i, j = np.triu_indices(x.shape[1])

    def features(sample: npt.NDArray) -> npt.NDArray:
        away = sample - center
        return np.concatenate([away, away[:, i] * away[:, j]], axis=1)

    a, b = features(x), features(y)
    error = np.sqrt(a.var(axis=0, ddof=1) / len(a) + b.var(axis=0, ddof=1) / len(b))
    gap = a.mean(axis=0) - b.mean(axis=0)
    z = np.divide(gap, error, out=np.where(np.abs(gap) > 1e-9, np.inf, 0.0), where=error > 1e-9)
    bound = normal_bound(z.size)
    worst = int(np.argmax(np.abs(z)))
    names = [f"mean of {c}" for c in range(x.shape[1])]
    names += [f"covariance of {p} and {q}" for p, q in zip(i, j, strict=True)]
    assert abs(z[worst]) < bound, (
        f"{what}: {names[worst]} differs by {gap[worst]:.4g} "
        f"(z={z[worst]:.1f}, bound {bound:.1f}, R={len(x)} and {len(y)})"
    )


def check_same_law(x: npt.NDArray, y: npt.NDArray, what: str) -> None:
    """Two samples [repetition, cell] of integer vectors have one distribution (chi-squared, rare vectors pooled)."""
    _, which = np.unique(np.concatenate([x, y]), axis=0, return_inverse=True)
    which = which.reshape(-1)  # NumPy 2.0.0 gives a column
    table = np.stack([np.bincount(part, minlength=which.max() + 1) for part in (which[: len(x)], which[len(x) :])])
    rare = table.sum(axis=0) < 20
    table = np.concatenate([table[:, ~rare], table[:, rare].sum(axis=1, keepdims=True)], axis=1)
    table = table[:, table.sum(axis=0) > 0]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    chi2, freedom = ((table - expected) ** 2 / expected).sum(), table.shape[1] - 1
    assert freedom > 0, f"{what}: the distribution has only one outcome"
    spread = 2 / (9 * freedom)
    z = (np.cbrt(chi2 / freedom) - (1 - spread)) / math.sqrt(spread)
    bound = normal_bound(1)
    assert z < bound, f"{what}: chi2={chi2:.1f} with {freedom} degrees (z={z:.1f} > {bound:.1f})"
