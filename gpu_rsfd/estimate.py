"""Counts -> frequencies -> post-processing -> error.  Arrays end in an axis over all attributes' values in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.plan import Counts, Plan

Floats = npt.NDArray[np.float64]


def estimates(plan: Plan, counts: Counts, reporters: Counts) -> Floats:
    """Unbiased estimates, [protocol, epsilon, repetition, value].  NaN where nobody reported an attribute (Smp)."""
    out = np.empty(counts.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for p in range(len(plan.protocols)):
            for e in range(len(plan.epsilons)):
                for a in plan.attributes:
                    mechanism = plan.mechanism(p, e, a.index)
                    m = np.where(reporters[p, e, :, a.index] > 0, reporters[p, e, :, a.index], np.nan)
                    out[p, e, :, a.columns] = mechanism.estimate(counts[p, e, :, a.columns], m[:, None])
    return out


def _none(f: Floats) -> Floats:
    """The unbiased estimate itself; may be negative."""
    return f


def _clip(f: Floats) -> Floats:
    """max(f, 0)"""
    return np.maximum(f, 0)


def _clip_normalize(f: Floats) -> Floats:
    """max(f, 0) / sum max(f, 0), as in the authors' notebooks; uniform if no estimate is positive."""
    clipped = np.maximum(f, 0)
    total = clipped.sum(axis=-1, keepdims=True)
    return np.where(total == 0, 1 / f.shape[-1], clipped / np.where(total == 0, 1, total))


def _simplex(f: Floats) -> Floats:
    """The nearest point of the probability simplex (Norm-Sub): subtract one number from all, then clip."""
    descending = -np.sort(-f, axis=-1)
    surplus = np.cumsum(descending, axis=-1) - 1
    rank = np.arange(1, f.shape[-1] + 1)
    support = np.maximum((descending * rank > surplus).sum(axis=-1, keepdims=True), 1)
    return np.maximum(f - np.take_along_axis(surplus, support - 1, axis=-1) / support, 0)


POSTPROCESS: dict[str, Callable[[Floats], Floats]] = {
    "none": _none,
    "clip": _clip,
    "clip-normalize": _clip_normalize,
    "simplex": _simplex,
}


def check_postprocess(name: str) -> str:
    if name not in POSTPROCESS:
        raise InputError(f"unknown postprocess {name!r}; available: {', '.join(POSTPROCESS)}")
    return name


def postprocess(name: str, frequencies: Floats, domain: Sequence[int]) -> Floats:
    """Each attribute's estimates made plausible; an attribute that nobody reported stays NaN."""
    function = POSTPROCESS[check_postprocess(name)]
    out = np.empty_like(frequencies)
    for columns in Domain.of(domain).slices:
        out[..., columns] = function(frequencies[..., columns])
    return out


def mse_per_attribute(truth: Floats, frequencies: Floats, domain: Sequence[int]) -> Floats:
    """[..., attribute]: the mean over an attribute's values of the squared error."""
    squared = (frequencies - truth) ** 2
    return np.stack([squared[..., columns].mean(axis=-1) for columns in Domain.of(domain).slices], axis=-1)


def mse_avg(truth: Floats, frequencies: Floats, domain: Sequence[int]) -> Floats:
    """MSE_avg of Section 4.1: the mean over attributes of `mse_per_attribute`.  NaN if an attribute has no estimate."""
    average: Floats = mse_per_attribute(truth, frequencies, domain).mean(axis=-1)
    return average
