"""Metrics: how far the estimated frequencies of an attribute's values are from the true ones.

A metric is an entry of `METRICS`; help, completion, page and docs list what is there.  A plain function is accepted
wherever a name is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Metric:
    """A function of the true and the estimated frequencies of one attribute.

    Parameters
    ----------
    function : callable
        ``function(truth, estimate)`` with `truth` of shape ``(k,)`` and `estimate` of shape ``(..., k)``; it reduces
        the last axis.  With a third parameter it gets the number of users, too.  The first line of its docstring
        describes the metric.
    larger_is_better : bool
        Whether a larger number is a better one.
    label : str, optional
        What tables and figures call its average over attributes; by default the metric's name with ``_avg``.
    top : int, optional
        The K of a metric of the K most frequent values, whose function has a keyword `top`: `topk` is `topk:10`, and
        any other K can be named as well.
    discrete : bool
        Whether it takes few different values.  A few repetitions may then agree by chance, and no verdict is given.
    """

    function: Callable[..., Any]
    larger_is_better: bool = False
    label: str = ""
    top: int | None = None
    discrete: bool = False

    @property
    def summary(self) -> str:
        """One line on what it is."""
        return first_line(getattr(self.function, "func", self.function))


MetricLike: TypeAlias = str | Metric | Callable[..., Any]


def first_line(function: Any) -> str:
    """The first line of a docstring: what a metric or a post-processing is."""
    return (function.__doc__ or "").strip().partition("\n")[0]


def required(function: Callable[..., Any]) -> int:
    """How many positional arguments a function must be given; 0 if that can't be found out."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some functions written in C have no signature
        return 0
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters)


def mse(truth: Floats, estimate: Floats) -> Floats:
    """The mean over values of the squared error."""
    return ((estimate - truth) ** 2).mean(axis=-1)


def rmse(truth: Floats, estimate: Floats) -> Floats:
    """The root of the mean over values of the squared error."""
    return np.sqrt(mse(truth, estimate))


def nmse(truth: Floats, estimate: Floats, n: int) -> Floats:
    """The mean squared error times the number of users; of unbiased estimates it hardly depends on that number."""
    return n * mse(truth, estimate)


def mae(truth: Floats, estimate: Floats) -> Floats:
    """The mean over values of the absolute error."""
    return np.abs(estimate - truth).mean(axis=-1)


def largest(truth: Floats, estimate: Floats) -> Floats:
    """The largest absolute error of a value."""
    return np.abs(estimate - truth).max(axis=-1)


def l1(truth: Floats, estimate: Floats) -> Floats:
    """The sum over values of the absolute error: twice the total variation distance of two distributions."""
    return np.abs(estimate - truth).sum(axis=-1)


def l2(truth: Floats, estimate: Floats) -> Floats:
    """The root of the sum over values of the squared error: the Euclidean distance."""
    return np.sqrt(((estimate - truth) ** 2).sum(axis=-1))


def kl(truth: Floats, estimate: Floats) -> Floats:
    """The Kullback-Leibler divergence from the truth, in nats; values where either is <= 0 are left out.

    The values left out make it smaller, or even negative, where many estimates are clipped to 0.
    """
    return _relative(truth, truth, estimate)


def js(truth: Floats, estimate: Floats) -> Floats:
    """The Jensen-Shannon divergence in nats, at most ln 2 between distributions; terms of values <= 0 are left out."""
    middle = (truth + estimate) / 2
    return (_relative(truth, truth, middle) + _relative(estimate, estimate, middle)) / 2


def _relative(weight: Floats, over: Floats, under: Floats) -> Floats:
    """The sum of weight * ln(over / under) over the values where both are positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where((over > 0) & (under > 0), weight * np.log(over / under), 0.0)
    return terms.sum(axis=-1)


def emd(truth: Floats, estimate: Floats) -> Floats:
    """The earth mover's distance of ordered values, a step between neighbours being 1: cumulative errors, summed."""
    return np.abs(np.cumsum(estimate - truth, axis=-1)).sum(axis=-1)


def topk(truth: Floats, estimate: Floats, *, top: int) -> Floats:
    """The share of the K largest estimates whose values are among the K most frequent; ties count as if drawn by lot.

    Values as frequent as the K-th are among them.  An attribute with K values or fewer has all of them found.
    """
    top = min(top, len(truth))
    frequent = truth >= np.sort(truth)[-top]
    return (_chosen(estimate, top) * frequent).sum(axis=-1) / top


def ncr(truth: Floats, estimate: Floats, *, top: int) -> Floats:
    """The normalised cumulative rank: topk with weights K, K - 1, … 1 from the most frequent value on.

    Values that are equally frequent share the weights of their ranks.
    """
    top = min(top, len(truth))
    ranks = np.argsort(-truth, kind="stable")
    weights = np.zeros(len(truth))
    weights[ranks[:top]] = np.arange(top, 0, -1)
    _, equal, number = np.unique(truth, return_inverse=True, return_counts=True)
    weights = (np.bincount(equal, weights) / number)[equal]
    found = (_chosen(estimate, top) * weights).sum(axis=-1)
    return found / (_chosen(truth, top) * weights).sum()


def _chosen(numbers: Floats, top: int) -> Floats:
    """The probability of each number to be among the `top` largest, if ties are broken by lot.

    Post-processing leaves many zeros.  Taken in their order, they would favour data whose first values are frequent.
    """
    last = np.sort(numbers, axis=-1)[..., -top, None]
    above, equal = numbers > last, numbers == last
    places = top - above.sum(axis=-1, keepdims=True)
    return above + equal * (places / np.maximum(equal.sum(axis=-1, keepdims=True), 1))


TOP = 10
METRICS: dict[str, Metric] = {
    "mse": Metric(mse, label="MSE_avg"),
    "rmse": Metric(rmse, label="RMSE_avg"),
    "nmse": Metric(nmse, label="nMSE_avg"),
    "mae": Metric(mae, label="MAE_avg"),
    "max": Metric(largest),
    "l1": Metric(l1, label="L1_avg"),
    "l2": Metric(l2, label="L2_avg"),
    "kl": Metric(kl, label="KL_avg"),
    "js": Metric(js, label="JS_avg"),
    "emd": Metric(emd, label="EMD_avg"),
    "topk": Metric(topk, larger_is_better=True, top=TOP, discrete=True),
    "ncr": Metric(ncr, larger_is_better=True, top=TOP, discrete=True),
}


def metric_names() -> list[str]:
    """The names that are listed: `topk:10` for a metric that has a K."""
    return [name_of(name) for name in METRICS]


def as_metric(metric: MetricLike) -> Metric:
    """A metric, with its label, from its name, or from a function of truth and estimate.

    Raises
    ------
    InputError
        If there is no metric of this name.
    """
    name, entry = name_of(metric), metric
    if isinstance(metric, str):
        base, _, top = metric.partition(":")
        if metric in METRICS:
            entry = METRICS[metric]
        elif getattr(METRICS.get(base), "top", None) is None:
            raise InputError(f"unknown metric {metric!r}; available: {', '.join(metric_names())}")
        elif not top.isdecimal() or int(top) < 1:
            raise InputError(f"metric={metric} must end in a number of values >= 1, such as {base}:{TOP}")
        else:
            entry = replace(METRICS[base], top=int(top))
    made = entry if isinstance(entry, Metric) else Metric(entry)  # type: ignore[arg-type]
    if not callable(made.function):
        raise InputError(f"metric={metric!r} must be a name or a function of truth and estimate")
    if made.top is not None:
        made = replace(made, function=_bound(made.function, made.top), top=None)
    return made if made.label else replace(made, label=f"{name}_avg")


@lru_cache(maxsize=256)
def _bound(function: Callable[..., Any], top: int) -> Callable[..., Any]:
    """A function of truth and estimate; the same object each time, by which errors are found again."""
    return partial(function, top=top)


def name_of(entry: Any) -> str:
    """What an entry of a dictionary, given by its name or as a function, is called in a table."""
    if isinstance(entry, str):
        top = getattr(METRICS.get(entry), "top", None)
        return entry if top is None else f"{entry}:{top}"
    if isinstance(entry, Metric):
        return next((name_of(name) for name, known in METRICS.items() if known is entry), name_of(entry.function))
    name = str(getattr(entry, "__name__", type(entry).__name__))
    return "own" if name == "<lambda>" else name


def per_attribute(metric: Metric, truth: Floats, estimates: Floats, domain: Sequence[int], n: int = 0) -> Floats:
    """[..., value] -> [..., attribute].  NaN for an attribute that has no estimate."""
    each, users = [], (n,) if required(metric.function) > 2 else ()
    for columns in Domain.of(domain).slices:
        estimate = estimates[..., columns]
        error = np.asarray(metric.function(truth[columns], estimate, *users), np.float64)
        if error.shape != estimate.shape[:-1]:
            raise InputError(
                f"metric {metric.label.removesuffix('_avg')!r} gives shape {error.shape} for estimates of shape "
                f"{estimate.shape}; it must reduce the last axis"
            )
        if metric.function is not mse:  # which is NaN there by itself
            error = np.where(np.isnan(estimate).any(axis=-1), np.nan, error)
        each.append(error)
    return np.stack(each, axis=-1)


def average(metric: Metric, truth: Floats, estimates: Floats, domain: Sequence[int], n: int = 0) -> Floats:
    """The mean of `per_attribute` over attributes; of `mse`, the MSE_avg of Section 4.1."""
    return per_attribute(metric, truth, estimates, domain, n).mean(axis=-1)
