"""Unbiased, and with the fixed-data variance of the mathematics: every protocol, every (attribute, value) cell."""

import functools

import numpy as np
import pytest
from stats import check_means, check_variances

import gpu_rsfd
from gpu_rsfd.protocols import PROTOCOLS

pytestmark = pytest.mark.slow

REPETITIONS = 1500
EPSILONS = (0.8, 2.5)


@functools.cache
def experiment():
    data = gpu_rsfd.SyntheticDataset(3000, (2, 5, 33), "zipf:1.0", seed=11)
    result = gpu_rsfd.simulate(data, epsilons=EPSILONS, protocols=PROTOCOLS, repetitions=REPETITIONS, seed=20211101)
    return result, result.estimates()


def variances(result, protocol, epsilon, law):
    parts = []
    for a in result.plan.attributes:
        m = result.mechanism(protocol, epsilon, a.index)
        parts.append(getattr(m, law)(result.frequencies[a.offset : a.offset + a.k], result.n))
    return np.concatenate(parts)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_unbiased_with_the_fixed_data_variance(protocol):
    result, estimates = experiment()
    for e, epsilon in enumerate(EPSILONS):
        samples = estimates[result.protocols.index(protocol), e]
        variance = variances(result, protocol, epsilon, "fixed_variance")
        what = f"{protocol} at epsilon={epsilon}"
        check_means(samples, result.frequencies, variance, what)
        check_variances(samples, variance, what)


def test_checkers_can_fail():
    """Negative controls: a bias of a third of a standard error of one report, and the variance of drawn-afresh data."""
    result, estimates = experiment()
    samples = estimates[result.protocols.index("spl-oue"), 1]
    variance = variances(result, "spl-oue", EPSILONS[1], "fixed_variance")
    biased = result.frequencies + np.where(np.arange(40) == 39, 0.3 * np.sqrt(variance), 0)
    with pytest.raises(AssertionError, match=r"cell \(np.int64\(39\),\)|cell \(39,\)"):
        check_means(samples, biased, variance, "a bias in the last cell")
    samples = estimates[result.protocols.index("smp-grr"), 1]
    with pytest.raises(AssertionError, match="times the variance"):
        check_variances(samples, variances(result, "smp-grr", EPSILONS[1], "fixed_variance") * 1.35, "wrong variance")
    samples = gpu_rsfd.simulate(
        gpu_rsfd.Dataset(np.arange(400)[:, None] % 2, (2,)), epsilons=4.0, protocols="spl-grr", repetitions=REPETITIONS
    )
    m = samples.mechanism("spl-grr", 4.0, 0)
    half = np.array([0.5, 0.5])
    check_variances(samples.estimates()[0, 0], m.fixed_variance(half, 400), "fixed data")
    with pytest.raises(AssertionError, match="times the variance"):
        check_variances(samples.estimates()[0, 0], m.variance(half, 400), "the paper's variance on fixed data")


def test_mse_of_raw_estimates_is_the_mean_variance():
    result, _ = experiment()
    mse = result.mse("none")
    for p, protocol in enumerate(PROTOCOLS):
        for e, epsilon in enumerate(EPSILONS):
            per_value = variances(result, protocol, epsilon, "fixed_variance")
            expected = np.mean([per_value[a.offset : a.offset + a.k].mean() for a in result.plan.attributes])
            error = mse[p, e].std(ddof=1) / np.sqrt(REPETITIONS)
            assert abs(mse[p, e].mean() - expected) < 6 * error, (protocol, epsilon)


def test_repetitions_and_seeds_are_different_draws():
    data = gpu_rsfd.SyntheticDataset(500, (4, 4))
    result = gpu_rsfd.simulate(data, epsilons=1.0, protocols="spl-oue", repetitions=50, seed=1)
    assert len({tuple(row) for row in result.counts[0, 0]}) == 50
    other = gpu_rsfd.simulate(data, epsilons=1.0, protocols="spl-oue", repetitions=1, seed=2)
    assert not np.array_equal(other.counts[0, 0, 0], result.counts[0, 0, 0])
