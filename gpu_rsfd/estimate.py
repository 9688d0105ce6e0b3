"""Counts -> frequencies -> post-processing -> error.  Arrays end in an axis over all attributes' values in order."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.metrics import METRICS, Metric, average, name_of, per_attribute
from gpu_rsfd.planning import Counts, Plan
from gpu_rsfd.protocols import group_size, mean_inverse_binomial, prior_frequencies

Floats = npt.NDArray[np.float64]


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
        How a value is randomised: ``keep`` (one value is sent) or ``bits`` (a bit for each value).
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
        return cls(n, at_zero, gain, at_zero * (1 - at_zero) / gain**2 * inverse, recipe.noise.kind)


PostprocessLike: TypeAlias = str | Callable[..., Any]
Contexts: TypeAlias = Callable[[int, int, int], Context]  # of a protocol, epsilon and attribute


def estimates(plan: Plan, counts: Counts, reporters: Counts) -> Floats:
    """Unbiased estimates, [protocol, epsilon, repetition, value].  NaN where nobody reported an attribute (Smp)."""
    out = np.full(counts.shape, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        for p, row in enumerate(plan.cells):
            for e, cell in enumerate(row):
                m = np.where(reporters[p, e] > 0, reporters[p, e], np.nan)
                for a, recipe in zip(plan.attributes, cell, strict=False):  # no recipes: the cell is not asked for
                    columns = a.columns
                    out[p, e, :, columns] = a.estimate(recipe, counts[p, e, :, columns], m[:, a.index, None])
    return out


def processed(plan: Plan, n: int, counts: Counts, reporters: Counts, how: PostprocessLike) -> Floats:
    """Estimates after a post-processing, [protocol, epsilon, repetition, value]."""
    raw = estimates(plan, counts, reporters)
    return postprocess(how, raw, plan.domain, lambda p, e, j: Context.of(plan, n, p, e, j))


def errors(
    plan: Plan, n: int, truth: Floats, counts: Counts, reporters: Counts, metric: Metric, how: PostprocessLike
) -> Floats:
    """[protocol, epsilon, repetition, attribute]: worked out protocol by protocol, which takes less memory."""
    parts = []
    for p in range(len(plan.cells)):
        here = slice(p, p + 1)
        found = processed(plan.take([p]), n, counts[here], reporters[here], how)
        parts.append(per_attribute(metric, truth, found, plan.domain))
    return np.concatenate(parts)


def errors_of(plan: Plan, frequencies: Floats, counts: Counts, reporters: Counts) -> Floats:
    """MSE_avg after each post-processing that a file keeps, [protocol, epsilon, repetition, postprocess]."""
    raw = estimates(plan, counts, reporters)
    each = [average(MSE, frequencies, postprocess(name, raw, plan.domain), plan.domain) for name in STORED]
    return np.stack(each, axis=-1)


def _none(f: Floats, context: Context | None = None) -> Floats:
    """The unbiased estimate itself, which may be negative."""
    return f


def _clip(f: Floats, context: Context | None = None) -> Floats:
    """Negative estimates are set to 0 (Base-Pos)."""
    return np.maximum(f, 0)


def _clip_normalize(f: Floats, context: Context | None = None) -> Floats:
    """Negative estimates are set to 0, then all are divided by their sum (Norm-Mul); uniform if none is positive."""
    clipped = np.maximum(f, 0)
    total = clipped.sum(axis=-1, keepdims=True)
    return np.where(total == 0, 1 / f.shape[-1], clipped / np.where(total == 0, 1, total))


def _simplex(f: Floats, context: Context | None = None) -> Floats:
    """The nearest frequencies that are not negative and sum to 1 (Norm-Sub): one number is subtracted, then clip."""
    descending = -np.sort(-f, axis=-1)
    surplus = np.cumsum(descending, axis=-1) - 1
    rank = np.arange(1, f.shape[-1] + 1)
    support = np.maximum((descending * rank > surplus).sum(axis=-1, keepdims=True), 1)
    return np.maximum(f - np.take_along_axis(surplus, support - 1, axis=-1) / support, 0)


# estimate [..., value] of one attribute, and its context -> as many numbers; the first line of the docstring describes
# it.  One that needs no context gets the estimates of all protocols and epsilons at once.
POSTPROCESS: dict[str, Callable[..., Any]] = {
    "none": _none,
    "clip": _clip,
    "clip-normalize": _clip_normalize,
    "simplex": _simplex,
}

MSE = METRICS["mse"]
STORED = ("none", "clip", "clip-normalize", "simplex")  # after which a results file keeps MSE_avg
DEFAULT = "clip-normalize"  # of errors: the paper's figures


def check_postprocess(how: PostprocessLike) -> Callable[..., Any]:
    """The function of a post-processing, which is given by its name or as a function.

    Raises
    ------
    InputError
        If there is no post-processing of this name.
    """
    if callable(how):
        return how
    if how not in POSTPROCESS:
        raise InputError(f"unknown postprocess {how!r}; available: {', '.join(POSTPROCESS)}")
    return POSTPROCESS[how]


def described(function: Any) -> str:
    """One line on what a post-processing does."""
    return (function.__doc__ or "").strip().partition("\n")[0]


def needs_context(function: Callable[..., Any]) -> bool:
    """Whether a post-processing must be called with a context, too."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some functions written in C have none
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters) > 1


def postprocess(
    how: PostprocessLike, frequencies: Floats, domain: Sequence[int], contexts: Contexts | None = None
) -> Floats:
    """Each attribute's estimates after a post-processing; an attribute that nobody reported stays NaN."""
    function = check_postprocess(how)
    contextual = contexts is not None and needs_context(function)
    out = np.empty_like(frequencies)
    for j, columns in enumerate(Domain.of(domain).slices):
        f, done = frequencies[..., columns], out[..., columns]
        if contexts is None or not contextual:
            done[...] = _same_shape(how, f, function(f))
        else:
            for p, e in np.ndindex(f.shape[:2]):
                done[p, e] = _same_shape(how, f[p, e], function(f[p, e], contexts(p, e, j)))
        done[np.isnan(f[..., 0])] = np.nan
    return out


def _same_shape(how: PostprocessLike, before: Floats, after: Any) -> Floats:
    if np.shape(after) != before.shape:
        raise InputError(
            f"postprocess {name_of(how)!r} gives shape {np.shape(after)} for estimates of shape {before.shape}; "
            "it must keep the shape"
        )
    return np.asarray(after)
