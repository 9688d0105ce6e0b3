"""Balanced assignment: exact bias and fixed-data variance, by enumeration and by simulation of every protocol."""

import functools
import math
from itertools import combinations

import numpy as np
import pytest
from stats import check_means, check_variances

import gpu_rsfd
from gpu_rsfd.protocols import PROTOCOLS, group_size, mechanism

pytestmark = pytest.mark.slow

REPETITIONS = 1500
EPSILONS = (0.8, 2.5)


@functools.cache
def experiment():
    data = gpu_rsfd.SyntheticDataset(1999, (2, 5, 33), "zipf:1.0", seed=11)  # 1999 = 3 * 666 + 1
    result = gpu_rsfd.simulate(
        data, epsilons=EPSILONS, protocols=PROTOCOLS, repetitions=REPETITIONS, seed=20211101, assignment="balanced"
    )
    return result, result.estimates()


def theory(result, protocol, epsilon, law, assignment="balanced"):
    parts = []
    for a in result.plan.attributes:
        m = result.mechanism(protocol, epsilon, a.index)
        f = result.frequencies[a.offset : a.offset + a.k]
        parts.append(getattr(m, law)(f, result.n, assignment, a.index))
    return np.concatenate(parts)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_means_and_variances(protocol):
    result, estimates = experiment()
    for e, epsilon in enumerate(EPSILONS):
        samples = estimates[result.protocols.index(protocol), e]
        variance = theory(result, protocol, epsilon, "fixed_variance")
        what = f"{protocol}, balanced, at epsilon={epsilon}"
        check_means(samples, result.frequencies + theory(result, protocol, epsilon, "bias"), variance, what)
        check_variances(samples, variance, what)


@functools.cache
def frequent():
    """600 users, 2 attributes of 10 values, the first of which nine users in ten hold."""
    codes = (np.arange(600)[:, None] % np.array([10, 10]) == 0).astype(np.uint8)
    data = gpu_rsfd.Dataset(codes, (10, 10))
    return gpu_rsfd.simulate(
        data, epsilons=5.0, protocols=FREQUENT, repetitions=REPETITIONS, seed=3, assignment="balanced"
    )


FREQUENT = ("rsfd-grr", "rsfd-sue-z", "rsfd-sue-r")


@pytest.mark.parametrize("protocol", FREQUENT)
def test_the_uniform_variance_is_rejected_on_frequent_values(protocol):
    """Negative control: uniform assignment's variance is a fifth or more above balanced's, and the checker sees it."""
    result = frequent()
    samples = result.estimates()[FREQUENT.index(protocol), 0][:, [0, 10]]
    balanced, uniform = (theory(result, protocol, 5.0, "fixed_variance", a)[[0, 10]] for a in ("balanced", "uniform"))
    check_variances(samples, balanced, protocol)
    assert (uniform > 1.2 * balanced).all()
    with pytest.raises(AssertionError, match="times the variance"):
        check_variances(samples, uniform, "uniform assignment")


def test_the_bias_of_unequal_groups_is_seen_and_is_the_derived_one():
    """30 users in six groups of 4 and two of 3: far from n/d = 3.75, so the bias is large enough to measure."""
    data = gpu_rsfd.Dataset(np.maximum(np.arange(30)[:, None] - 27, 0).repeat(8, axis=1), (3, 4) * 4)
    protocols = ("rsfd-grr", "rsfd-oue-z", "rsfd-sue-r")
    result = gpu_rsfd.simulate(
        data, epsilons=5.0, protocols=protocols, repetitions=1000, seed=1, assignment="balanced", workers=1
    )
    for protocol, samples in zip(protocols, result.estimates()[:, 0], strict=True):
        variance, bias = (theory(result, protocol, 5.0, law) for law in ("fixed_variance", "bias"))
        check_means(samples, result.frequencies + bias, variance, protocol)
        with pytest.raises(AssertionError, match="has mean"):
            check_means(samples, result.frequencies, variance, "no bias")


@pytest.mark.parametrize("n,d,held", [(1, 1, 1), (6, 3, 2), (7, 3, 7), (7, 3, 3), (8, 3, 0), (5, 4, 2), (2, 4, 1)])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_bias_and_variance_by_enumeration(protocol, n, d, held):
    """Every split of n users, `held` of whom hold v: the law of total variance, summed over the splits."""
    m = mechanism(protocol, 1.7, d, 4)
    others = m.recipe.unsampled
    p, q, fake = m.p, m.q, m.fake_rate if others.hides else 0.0
    for j in range(d):
        size = group_size(n, d, j)
        means, variances = [], []
        for group in combinations(range(n), size):
            rates = np.full(n, fake)
            if not others.samples:
                rates = np.where(np.arange(n) < held, p, q)
            else:
                rates[list(group)] = [p if user < held else q for user in group]
            reporters = n if others.hides or not others.samples else size
            if reporters:
                means.append(m.estimate(rates.sum(), reporters))
                variances.append((rates * (1 - rates)).sum() / (reporters * m.gain) ** 2)
        if not means:
            assert math.isnan(m.fixed_variance(held / n, n, "balanced", j))
            continue
        assert m.bias(held / n, n, "balanced", j) == pytest.approx(np.mean(means) - held / n, rel=1e-7, abs=1e-9)
        expected = np.mean(variances) + np.var(means)
        assert m.fixed_variance(held / n, n, "balanced", j) == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_the_gain_over_uniform_is_the_known_one():
    """Large n: balanced lowers the variance by (d - 1)(f - c)^2 / n, c = 0 (zero vectors) or 1/k (fake values)."""
    n, d, k, f = 10**9, 5, 8, np.array([0.0, 0.1, 0.5, 0.97])
    for protocol, c in (("rsfd-grr", 1 / k), ("rsfd-oue-z", 0.0), ("rsfd-oue-r", 1 / k), ("rsfd-sue-z", 0.0)):
        m = mechanism(protocol, 1.0, d, k)
        lower = m.fixed_variance(f, n) - m.fixed_variance(f, n, "balanced")
        np.testing.assert_allclose(lower * n, (d - 1) * (f - c) ** 2, rtol=1e-4, atol=1e-6)


def test_the_attribute_is_asked_for_where_it_matters():
    m = mechanism("rsfd-grr", 1.0, 3, 4)
    assert m.fixed_variance(0.2, 9, "balanced") == m.fixed_variance(0.2, 9, "balanced", 2)
    assert m.fixed_variance(0.2, 10, "balanced", 0) != m.fixed_variance(0.2, 10, "balanced", 2)
    for law in (m.fixed_variance, m.bias):
        with pytest.raises(ValueError, match="attribute=None must be given for balanced assignment: n=10 users"):
            law(0.2, 10, "balanced")
        with pytest.raises(ValueError, match="attribute=3 must be from 0 to 2"):
            law(0.2, 10, "balanced", 3)
        with pytest.raises(ValueError, match="unknown assignment 'equal'; available: uniform, balanced"):
            law(0.2, 10, "equal", 0)
