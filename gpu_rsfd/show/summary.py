"""What is shown of results: means with their errors, what theory expects, where the data come from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpu_rsfd.protocols import TERMS
from gpu_rsfd.results import Result, Results
from gpu_rsfd.spec import UNIFORM, Spec
from gpu_rsfd.theory import expected as theory


def summary(result: Result, postprocess: str) -> tuple[Any, Any]:
    """Mean and standard error of MSE_avg, [protocol, epsilon] each.

    Where nobody sampled an attribute (Smp on tiny data) a repetition has no estimate of it.  Errors are therefore
    averaged attribute by attribute, over the n_j of R repetitions that have one, and then over the d attributes, as
    the theory does:

        mean = 1/d sum_j mean_j,    error^2 = sum_r (1/d sum_j (x_rj - mean_j) / sqrt(n_j (n_j - 1)))^2

    with x_rj the error of attribute j in repetition r, the inner sum over the attributes that have one.  With all n_j
    equal to R these are the mean and the standard error of the repetitions' MSE_avg.  An attribute without any
    estimate makes both NaN; one with a single estimate, the standard error.
    """
    mse = result.mse(postprocess)
    count = mse.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = mse.sum(axis=-1) / count
        error = np.sqrt(((mse - mean[..., None]) ** 2).sum(axis=-1) / (count - 1) / count)
        if not (missing := np.isnan(mean)).any() or not result.has_counts:  # errors alone: no attribute has its own
            return mean, error
        means, away = attribute_deviations(result.mse_per_attribute(postprocess)[missing])  # [cell, …, attribute]
        mean[missing] = means.mean(axis=-1)
        error[missing] = np.sqrt((away.mean(axis=-1) ** 2).sum(axis=-1))
    return mean, error


def deviations(result: Result, postprocess: str) -> tuple[Any, Any]:
    """Mean of MSE_avg [protocol, epsilon], and what each repetition adds to its standard error [protocol, epsilon,
    repetition]: the error of any sum of means is the root of the sum of squares of the same sum of these.

    Missing estimates as in `summary`, whose terms these are.
    """
    mse = result.mse(postprocess)
    mean, _ = summary(result, postprocess)
    count = mse.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        away = (mse - mean[..., None]) / np.sqrt(count * (count - 1.0))
        if (missing := np.isnan(mse).any(axis=-1)).any() and result.has_counts:
            each = result.mse_per_attribute(postprocess)[missing]
            away[missing] = attribute_deviations(each)[1].mean(axis=-1)
    return mean, away


def attribute_deviations(each: Any) -> tuple[Any, Any]:
    """The same of each attribute: [..., repetition, attribute] -> means [..., attribute], deviations as `each`."""
    defined = np.isfinite(each)
    counts = defined.sum(axis=-2)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(defined, each, 0).sum(axis=-2) / counts
        away = np.where(defined, each - means[..., None, :], 0) / np.sqrt(counts * (counts - 1.0))[..., None, :]
    return means, away


def with_estimate(result: Result) -> tuple[Any, Any]:
    """[protocol, epsilon]: repetitions that estimate the attribute that fewest do; repetitions that estimate all."""
    reported = result.reporters > 0  # [protocol, epsilon, repetition, attribute]
    return reported.sum(axis=2).min(axis=-1), reported.all(axis=-1).sum(axis=-1)


def expected(result: Result, postprocess: str) -> Any:
    """[protocol, epsilon]: the expectation of MSE_avg from theory; None where there is no theory."""
    if postprocess not in theory.POSTPROCESS:
        return None
    attributes = theory.attributes_of(result.domain, result.frequencies)
    return np.array(
        [
            [
                theory.mse_of(p, e, result.n, attributes, result.spec.assignment, postprocess, terms=result.terms)
                for e in result.epsilons
            ]
            for p in result.protocols
        ]
    )


def rough(result: Result, postprocess: str) -> Any:
    """[protocol, epsilon]: whether `expected` is no more than a guide there (`theory.is_rough`)."""
    attributes = theory.attributes_of(result.domain, result.frequencies)
    return np.array(
        [
            [
                theory.is_rough(p, e, result.n, attributes, result.spec.assignment, postprocess, result.terms)
                for e in result.epsilons
            ]
            for p in result.protocols
        ]
    )


def source_of(results: Results, name: str) -> str | None:
    """Where the data came from, if the file says so."""
    described: dict[str, Any] = next((d for d in results.spec.get("datasets", []) if d.get("name") == name), {})
    source = described.get("source")
    return None if source is None else str(source)


def unusual(spec: Spec) -> list[str]:
    """What the protocols were run under, where it is not what the paper does."""
    lines = [] if spec.guarantee == TERMS.guarantee else [f"guarantee: {spec.guarantee}"]
    return lines if spec.prior == UNIFORM else [*lines, f"prior of fakes: {spec.prior.short}"]


def show_epsilon(epsilon: float) -> str:
    """`ln 2` for logarithms of whole numbers, else the number."""
    power = round(math.exp(epsilon)) if epsilon < 10 else 0
    if power >= 2 and math.isclose(epsilon, math.log(power), rel_tol=1e-12):
        return f"ln {power}"
    return f"{epsilon:g}"
