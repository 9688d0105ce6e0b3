"""Counts -> frequencies -> post-processing -> error.  Arrays end in an axis over all attributes' values in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.planning import Counts, Plan
from gpu_rsfd.results import postprocessing
from gpu_rsfd.results.metrics import METRICS, Metric, average, name_of, per_attribute, required
from gpu_rsfd.results.postprocessing import Context, UndefinedError

Floats = npt.NDArray[np.float64]


PostprocessLike: TypeAlias = str | Callable[..., Any]
Contexts: TypeAlias = Callable[[int, int, int], Context]  # of a protocol, epsilon and attribute


def estimates(plan: Plan, counts: Counts, reporters: Counts) -> Floats:
    """Unbiased estimates, [protocol, epsilon, repetition, …, value].  NaN where nobody reported an attribute (Smp)."""
    out = np.full(counts.shape, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        for p, row in enumerate(plan.cells):
            for e, cell in enumerate(row):
                m = np.where(reporters[p, e] > 0, reporters[p, e], np.nan)
                for a, recipe in zip(plan.attributes, cell, strict=False):  # no recipes: the cell is not asked for
                    out[p, e, ..., a.columns] = a.estimate(recipe, counts[p, e, ..., a.columns], m[..., a.index, None])
    return out


def processed(plan: Plan, n: int, counts: Counts, reporters: Counts, how: PostprocessLike) -> Floats:
    """Estimates after a post-processing, [protocol, epsilon, repetition, value]."""
    if counts.ndim != 4:  # of rounds, whose estimates are not kept
        raise InputError("the counts of several rounds give no estimates; result['mse'] has the errors of each round")
    raw = estimates(plan, counts, reporters)
    return postprocess(how, raw, plan.domain, lambda p, e, j: Context.of(plan, n, p, e, j))


def errors(
    plan: Plan,
    n: int,
    truth: Floats,
    counts: Counts,
    reporters: Counts,
    metrics: Sequence[Metric],
    how: PostprocessLike,
) -> list[Floats]:
    """[protocol, epsilon, repetition, attribute] for each metric; protocol by protocol, which takes less memory."""
    parts: list[list[Floats]] = [[] for _ in metrics]
    for p in range(len(plan.cells)):
        here = slice(p, p + 1)
        found = processed(plan.take([p]), n, counts[here], reporters[here], how)
        for metric, part in zip(metrics, parts, strict=True):
            part.append(per_attribute(metric, truth, found, plan.domain, n))
    return [np.concatenate(part) for part in parts]


def errors_of(plan: Plan, frequencies: Floats, counts: Counts, reporters: Counts) -> Floats:
    """MSE_avg after each post-processing that a file keeps, [protocol, epsilon, repetition, …, postprocess]."""
    raw = estimates(plan, counts, reporters)
    each = [average(MSE, frequencies, postprocess(name, raw, plan.domain), plan.domain) for name in STORED]
    return np.stack(each, axis=-1)


# estimate [..., value] of one attribute, and its context -> as many numbers; the first line of the docstring describes
# it.  One that needs no context gets the estimates of all protocols and epsilons at once.
POSTPROCESS: dict[str, Callable[..., Any]] = {f.__name__.replace("_", "-"): f for f in postprocessing.FUNCTIONS}
# The literature's names, in any case; `Norm-Cut` and others are names as they are.
ALIASES = {
    **{"raw": "none", "base": "none", "base-pos": "clip", "norm-mul": "clip-normalize", "norm-sub": "simplex"},
    "powerns": "power-ns",
}
NOT_NEGATIVE = ("clip", "power", "clip-normalize", "simplex", "norm-cut", "mle", "mle-apx", "power-ns")
SUM_TO_ONE = NOT_NEGATIVE[2:]  # and not negative: frequencies

MSE = METRICS["mse"]
STORED = ("none", "clip", "clip-normalize", "simplex")  # after which a results file keeps MSE_avg
DEFAULT = "clip-normalize"  # of errors: the paper's figures


def as_postprocess(how: PostprocessLike) -> PostprocessLike:
    """The name of a post-processing in the dictionary, whichever of its names is given; a function as it is.

    Raises
    ------
    InputError
        If there is no post-processing of this name.
    """
    if callable(how) or how in POSTPROCESS:
        return how
    name = str(how).lower()
    name = ALIASES.get(name, name)
    if name not in POSTPROCESS:
        raise InputError(
            f"unknown postprocess {how!r}; available: {', '.join(POSTPROCESS)}; also: {', '.join(ALIASES)}"
        )
    return name


def function_of(how: PostprocessLike) -> Callable[..., Any]:
    """What a post-processing calls."""
    known = as_postprocess(how)
    return known if callable(known) else POSTPROCESS[known]


def needs_context(function: Callable[..., Any]) -> bool:
    """Whether a post-processing must be called with a context, too."""
    return required(function) > 1


def why_undefined(how: PostprocessLike, k: int, context: Context) -> str | None:
    """Why a post-processing gives no number for an attribute of k values; None if it gives one."""
    function = function_of(how)
    tried = _applied(how, function, np.full((1, k), 1 / k), context) if needs_context(function) else None
    return tried if isinstance(tried, str) else None


def undefined(plan: Plan, n: int, how: PostprocessLike) -> dict[str, str]:
    """Why a post-processing gives no number, by the protocols' labels; {} if it gives one for all."""
    reasons: dict[str, str] = {}
    known: dict[Any, str | None] = {}  # equal attributes have equal reasons
    for p, e, j in np.ndindex(len(plan.looks), len(plan.epsilons), plan.d if needs_context(function_of(how)) else 0):
        kind = plan.domain[j], plan.recipe(p, e, j)
        if kind not in known:
            known[kind] = why_undefined(how, plan.domain[j], Context.of(plan, n, p, e, j))
        if (reason := known[kind]) is not None:
            reasons.setdefault(plan.looks[p].label, reason)
    return reasons


def postprocess(
    how: PostprocessLike, frequencies: Floats, domain: Sequence[int], contexts: Contexts | None = None
) -> Floats:
    """Each attribute's estimates after a post-processing.

    An attribute that nobody reported stays NaN, and one for which the post-processing is undefined becomes NaN.
    """
    function = function_of(how)
    contextual = needs_context(function)
    if contextual and contexts is None:
        raise InputError(f"postprocess {name_of(how)!r} needs to know the protocol; estimates alone are not enough")
    out = np.empty_like(frequencies)
    for j, columns in enumerate(Domain.of(domain).slices):
        f, done = frequencies[..., columns], out[..., columns]
        if contexts is None or not contextual:
            done[...] = _same_shape(how, f, function(f))
        else:
            for p, e in np.ndindex(f.shape[:2]):
                reported = ~np.isnan(f[p, e, :, 0])
                if reported.any():
                    found = _applied(how, function, f[p, e, reported], contexts(p, e, j))
                    done[p, e, reported] = np.nan if isinstance(found, str) else found
        done[np.isnan(f[..., 0])] = np.nan
    return out


def _applied(how: PostprocessLike, function: Callable[..., Any], f: Floats, context: Context) -> Floats | str:
    """What a post-processing makes of estimates, or why it makes nothing of them."""
    try:
        return _same_shape(how, f, function(f, context))
    except UndefinedError as error:
        return str(error)


def _same_shape(how: PostprocessLike, before: Floats, after: Any) -> Floats:
    if np.shape(after) != before.shape:
        raise InputError(
            f"postprocess {name_of(how)!r} gives shape {np.shape(after)} for estimates of shape {before.shape}; "
            "it must keep the shape"
        )
    return np.asarray(after)
