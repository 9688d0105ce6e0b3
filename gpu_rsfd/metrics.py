"""Metrics: how far the estimated frequencies of an attribute's values are from the true ones.

A metric is an entry of `METRICS`; help, completion, page and docs list what is there.  A plain function is accepted
wherever a name is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
        the last axis.  The first line of its docstring describes the metric.
    larger_is_better : bool
        Whether a larger number is a better one.
    label : str, optional
        What tables and figures call its average over attributes; by default the metric's name with ``_avg``.
    """

    function: Callable[[Floats, Floats], Any]
    larger_is_better: bool = False
    label: str = ""

    @property
    def summary(self) -> str:
        """One line on what it is."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]


MetricLike: TypeAlias = str | Metric | Callable[[Floats, Floats], Any]


def mse(truth: Floats, estimate: Floats) -> Floats:
    """The mean over values of the squared error."""
    average: Floats = ((estimate - truth) ** 2).mean(axis=-1)
    return average


def mae(truth: Floats, estimate: Floats) -> Floats:
    """The mean over values of the absolute error."""
    average: Floats = np.abs(estimate - truth).mean(axis=-1)
    return average


def largest(truth: Floats, estimate: Floats) -> Floats:
    """The largest absolute error of a value."""
    most: Floats = np.abs(estimate - truth).max(axis=-1)
    return most


def l1(truth: Floats, estimate: Floats) -> Floats:
    """The sum over values of the absolute error: twice the total variation distance of two distributions."""
    total: Floats = np.abs(estimate - truth).sum(axis=-1)
    return total


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
    total: Floats = terms.sum(axis=-1)
    return total


METRICS: dict[str, Metric] = {
    "mse": Metric(mse, label="MSE_avg"),
    "mae": Metric(mae, label="MAE_avg"),
    "max": Metric(largest),
    "l1": Metric(l1, label="L1_avg"),
    "kl": Metric(kl, label="KL_avg"),
    "js": Metric(js, label="JS_avg"),
}


def as_metric(metric: MetricLike) -> Metric:
    """A metric, with its label, from its name, or from a function of truth and estimate.

    Raises
    ------
    InputError
        If there is no metric of this name.
    """
    entry: Any = metric
    if isinstance(metric, str):
        if metric not in METRICS:
            raise InputError(f"unknown metric {metric!r}; available: {', '.join(METRICS)}")
        entry = METRICS[metric]
    made = entry if isinstance(entry, Metric) else Metric(entry)
    if not callable(made.function):
        raise InputError(f"metric={metric!r} must be a name or a function of truth and estimate")
    return made if made.label else replace(made, label=f"{name_of(metric)}_avg")


def name_of(entry: Any) -> str:
    """What an entry of a dictionary, given by its name or as a function, is called in a table."""
    if isinstance(entry, str):
        return entry
    if isinstance(entry, Metric):
        return next((name for name, known in METRICS.items() if known is entry), name_of(entry.function))
    name = str(getattr(entry, "__name__", type(entry).__name__))
    return "own" if name == "<lambda>" else name


def per_attribute(metric: Metric, truth: Floats, estimates: Floats, domain: Sequence[int]) -> Floats:
    """[..., value] -> [..., attribute].  NaN for an attribute that has no estimate."""
    each = []
    for columns in Domain.of(domain).slices:
        estimate = estimates[..., columns]
        error = np.asarray(metric.function(truth[columns], estimate), np.float64)
        if error.shape != estimate.shape[:-1]:
            raise InputError(
                f"metric {name_of(metric)!r} gives shape {error.shape} for estimates of shape {estimate.shape}; "
                "it must reduce the last axis"
            )
        if metric.function is not mse:  # which is NaN there by itself
            error = np.where(np.isnan(estimate).any(axis=-1), np.nan, error)
        each.append(error)
    return np.stack(each, axis=-1)


def average(metric: Metric, truth: Floats, estimates: Floats, domain: Sequence[int]) -> Floats:
    """The mean of `per_attribute` over attributes; of `mse`, the MSE_avg of Section 4.1."""
    mean: Floats = per_attribute(metric, truth, estimates, domain).mean(axis=-1)
    return mean
