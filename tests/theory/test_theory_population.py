"""The error against the population that the users come from; the clipped error where values are hardly reported."""

import itertools
import math

import numpy as np
import pytest
from stats import normal_bound

from gpu_rsfd import CountedDataset, simulate
from gpu_rsfd.protocols import PROTOCOLS, mechanism, mechanisms
from gpu_rsfd.theory import expected as theory

DOMAIN = (3, 2)
FREQUENCIES = np.array([0.6, 0.3, 0.1, 0.9, 0.1])


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_the_population_adds_what_drawing_the_users_does(n):
    drawn = FREQUENCIES * (1 - FREQUENCIES) / n
    more = (drawn[:3].mean() + drawn[3:].mean()) / 2
    for protocol in (p for p in PROTOCOLS if not p.startswith("smp")):
        options = (protocol, 1.0, n, DOMAIN, FREQUENCIES)
        gap = theory.expected_mse(*options, against="population") - theory.expected_mse(*options)
        assert gap == pytest.approx(more, rel=1e-9), protocol


@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
def test_the_population_by_the_law_of_total_expectation(assignment):
    """Every data set that n users may turn out to be, weighted: its own error, and how far it is off itself."""
    n, f = 5, 0.3
    d = 2
    for protocol, attribute in itertools.product(PROTOCOLS, range(d)):
        m = mechanism(protocol, 1.0, d, 2)
        expected = 0.0
        for holders in range(n + 1):
            weight = math.comb(n, holders) * f**holders * (1 - f) ** (n - holders)
            moments = theory.estimate_moments(m, np.array([holders / n]), n, assignment, attribute)
            expected += weight * (moments.variance[0] + (holders / n + moments.bias[0] - f) ** 2)
        moments = theory.estimate_moments(m, np.array([f]), n, assignment, attribute, "population")
        assert moments.variance[0] + moments.bias[0] ** 2 == pytest.approx(expected, rel=1e-12), protocol


@pytest.mark.parametrize("protocol", ["spl-grr", "rsfd-oue-z"])
def test_the_clipped_error_against_the_population(protocol):
    """Against the exact distribution of a count: binomial, since all reports are independent."""
    n, f = 3000, 0.004
    m = mechanism(protocol, 1.0, 2, 4)
    rate = m.base + f * m.gain
    counts = np.arange(n + 1)
    logs = [math.lgamma(n + 1) - math.lgamma(c + 1) - math.lgamma(n - c + 1) for c in counts.tolist()]
    law = np.exp(np.array(logs) + counts * math.log(rate) + (n - counts) * math.log1p(-rate))
    exact = law @ (np.maximum(m.estimate(counts, n), 0) - f) ** 2
    moments = theory.estimate_moments(m, np.array([f]), n, against="population")
    assert theory.squared_error(np.array([f]), moments, "clip")[0] == pytest.approx(exact, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
@pytest.mark.parametrize("against", ["users", "population"])
def test_clipping_never_adds_an_error(assignment, against):
    for protocol in PROTOCOLS:
        for n in (8, 20, 50, 200, 3000):
            for epsilon in (0.3, 2.0, 6.0):
                for frequencies in (None, [0.97, 0.01, 0.01, 0.01] * 2):
                    options = (protocol, epsilon, n, (4, 4), frequencies, assignment)
                    clipped = theory.expected_mse(*options, "clip", against)
                    assert clipped <= theory.expected_mse(*options, "none", against), (protocol, n, epsilon)


@pytest.mark.parametrize("protocol", ["spl-oue", "rsfd-grr", "smp-grr"])
@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
def test_fewest_reports_are_the_simulated_ones(protocol, assignment):
    data = CountedDataset(600, DOMAIN, [[0.6, 0.3, 0.1], [0.9, 0.1]])
    result = simulate(
        data, epsilons=1.0, protocols=protocol, repetitions=400, assignment=assignment, sampler="marginals"
    )
    counts = result.counts[0, 0]
    expected = theory.fewest_reports(
        mechanisms(protocol, 1.0, DOMAIN),
        theory.attributes_of(DOMAIN, data.frequencies),
        theory.Terms(data.n, assignment),
    )
    error = counts.std(axis=0, ddof=1) / math.sqrt(400)
    least = counts.mean(axis=0).argmin()
    assert abs(counts.mean(axis=0)[least] - expected) < normal_bound(1) * error[least]


def test_unknown_against():
    with pytest.raises(ValueError, match="unknown against 'all'; available: users, population"):
        theory.expected_mse("spl-grr", 1.0, 10, (2,), against="all")
