"""What is shown of results: means with their standard errors, what theory expects, where the data come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_rsfd.protocols import DEFAULT_SETTINGS
from gpu_rsfd.results.estimate import PostprocessLike
from gpu_rsfd.results.metrics import MetricLike, as_metric, mse
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.theory import expected as theory


def summary(result: Result, postprocess: PostprocessLike, metric: MetricLike = "mse") -> tuple[Any, Any]:
    """Mean and standard error of the errors, [protocol, epsilon] each.

    Where nobody sampled an attribute (Smp on tiny data) a repetition has no estimate of it.  Errors are therefore
    averaged attribute by attribute, over the n_j of R repetitions that have one, and then over the d attributes, as
    the theory does:

        mean = 1/d sum_j mean_j,    error^2 = sum_r (1/d sum_j (x_rj - mean_j) / sqrt(n_j (n_j - 1)))^2

    with x_rj the error of attribute j in repetition r, the inner sum over the attributes that have one.  With all n_j
    equal to R these are the mean and the standard error of `Result.error`.  An attribute without any
    estimate makes both NaN; one with a single estimate, the standard error.
    """
    each = result.error(metric, postprocess)
    count = each.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = each.sum(axis=-1) / count
        error = np.sqrt(((each - mean[..., None]) ** 2).sum(axis=-1) / (count - 1) / count)
        if not (missing := _unreported(result, each)).any():
            return mean, error
        means, deviation = attribute_deviations(result.error_per_attribute(metric, postprocess)[missing])
        mean[missing] = means.mean(axis=-1)
        error[missing] = np.sqrt((deviation.mean(axis=-1) ** 2).sum(axis=-1))
    return mean, error


def deviations(result: Result, postprocess: PostprocessLike, metric: MetricLike = "mse") -> tuple[Any, Any]:
    """Mean error [protocol, epsilon], and what each repetition adds to its standard error [protocol, epsilon,
    repetition]: the standard error of any sum of means is the root of the sum of squares of the same sum of these.

    Missing estimates as in `summary`, whose terms these are.
    """
    each = result.error(metric, postprocess)
    mean, _ = summary(result, postprocess, metric)
    count = each.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = (each - mean[..., None]) / np.sqrt(count * (count - 1.0))
        if (missing := _unreported(result, each)).any():
            attributes = result.error_per_attribute(metric, postprocess)[missing]
            deviation[missing] = attribute_deviations(attributes)[1].mean(axis=-1)
    return mean, deviation


def _unreported(result: Result, each: Any) -> Any:
    """bool [protocol, epsilon]: cells that have no error in some repetition because nobody reported an attribute.

    None are where there are errors alone: no attribute has its own.  An error may also be missing because a
    post-processing is not defined; then every attribute that it is not defined for lacks all of them.
    """
    missing = np.isnan(each).any(axis=-1)
    if not missing.any() or not result.has_counts:
        return np.zeros_like(missing)
    return missing & (result.reporters == 0).any(axis=(2, 3))


def attribute_deviations(each: Any) -> tuple[Any, Any]:
    """The same of each attribute: [..., repetition, attribute] -> means [..., attribute], deviations as `each`."""
    defined = np.isfinite(each)
    counts = defined.sum(axis=-2)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(defined, each, 0).sum(axis=-2) / counts
        deviation = np.where(defined, each - means[..., None, :], 0) / np.sqrt(counts * (counts - 1.0))[..., None, :]
    return means, deviation


def with_estimate(result: Result) -> tuple[Any, Any]:
    """[protocol, epsilon]: repetitions that estimate the attribute that fewest do; repetitions that estimate all."""
    reported = result.reporters > 0  # [protocol, epsilon, repetition, attribute]
    return reported.sum(axis=2).min(axis=-1), reported.all(axis=-1).sum(axis=-1)


def expected(result: Result, postprocess: PostprocessLike, metric: MetricLike = "mse") -> Any:
    """[protocol, epsilon]: the expected MSE_avg from theory; None where there is no theory."""
    if postprocess not in theory.POSTPROCESS or as_metric(metric).function is not mse:
        return None
    return _each_cell(result, theory.mse_of, postprocess)


def rough(result: Result, postprocess: PostprocessLike) -> Any:
    """[protocol, epsilon]: whether `expected` is no more than a guide there (`theory.is_rough`)."""
    return _each_cell(result, theory.is_rough, postprocess)


def _each_cell(result: Result, function: Callable[..., Any], postprocess: PostprocessLike) -> Any:
    """A function of `theory`, of each protocol and epsilon."""
    attributes = theory.attributes_of(result.domain, result.frequencies)
    terms = theory.Terms(result.n, result.plan.assignment, str(postprocess))
    return np.array([[function(ms, attributes, terms) for ms in row] for row in result.plan.mechanisms])


def source_of(results: Results, name: str) -> str | None:
    """Where the data came from, if the file says so."""
    described: dict[str, Any] = next((d for d in results.spec.get("datasets", []) if d.get("name") == name), {})
    source = described.get("source")
    return None if source is None else str(source)


# What a number depends on beside its row: a column each in CSV, JSON and data frames.
RUN = {"guarantee": DEFAULT_SETTINGS.guarantee, "assignment": "uniform", "sampler": "users", "seed": 0}


def run_of(result: Result) -> dict[str, Any]:
    """Guarantee, assignment, sampler and seed of a result."""
    return {key: result.spec.get(key, usual) for key, usual in RUN.items()}


def promised(result: Result) -> str:
    """What epsilon bounds, where that must be said: under another guarantee than the paper's, or if promises differ."""
    guarantee = str(result.spec.get("guarantee", DEFAULT_SETTINGS.guarantee))
    if guarantee != DEFAULT_SETTINGS.guarantee:
        return f"guarantee: {guarantee}"
    kinds = {(samples, partial) for samples, partial in zip(result.plan.samples, result.plan.partial, strict=True)}
    return f"guarantee: {guarantee} (unequal for Spl, Smp and RS+FD)" if len(kinds) > 1 else ""


def unusual(result: Result) -> list[str]:
    """What must be said of how the protocols were run: unequal promises, a guarantee or a prior asked for."""
    prior = result.spec.get("prior", "uniform")
    words = prior if isinstance(prior, str) else "given frequencies"
    lines = [promised(result), "" if prior == "uniform" else f"prior of fakes: {words}"]
    return [line for line in lines if line]
