"""Formulas against those of the paper, written out once more and literally."""

import math

import numpy as np
import pytest

from gpu_rsfd.protocols import PAPER, PROTOCOLS, REGISTRY, Unsampled, label, mechanism
from gpu_rsfd.protocols.budgets import amplified
from gpu_rsfd.protocols.mechanism import mean_inverse_binomial
from gpu_rsfd.spec import PAPER_EPSILONS

RULES = {v.noise.name: v.noise for entry in REGISTRY.values() for v in entry.variants}


def possible(k):
    """All protocols, but for PGR where its tables would be too large, and the published L-GRR where it says nothing."""
    return [p for p in PROTOCOLS if not p.endswith(("pgr", "l-grr-published")) or k <= 1000]


N, COUNT = 5000, np.array([700.0, 41.0, 0.0])


@pytest.mark.parametrize("k", [2, 3, 10, 100, 65_535])
@pytest.mark.parametrize("d", [1, 2, 10, 33])
@pytest.mark.parametrize("epsilon", [0.1, math.log(3), 5.0])
def test_estimators_and_variances_as_printed(epsilon, d, k):
    f = np.array([0.0, 0.3, 1.0])
    for protocol in possible(k):
        m = mechanism(protocol, epsilon, d, k)
        p, q, n = m.p, m.q, N
        if m.recipe.unsampled.hides:
            if m.name == "grr":  # eq. (4), (5)
                estimate = (COUNT * d * k - n * (d - 1 + q * k)) / (n * k * (p - q))
                delta = (q + f * (p - q) + (d - 1) / k) / d
            elif m.name in ("hr", "pgr"):  # fakes are uniform messages
                rate = m.recipe.noise.design.size / m.recipe.noise.design.messages
                estimate = (COUNT * d - n * (q + (d - 1) * rate)) / (n * (p - q))
                delta = (q + f * (p - q) + (d - 1) * rate) / d
            elif m.name.endswith("-z"):  # eq. (8), (9)
                estimate = d * (COUNT - n * q) / (n * (p - q))
                delta = (d * q + f * (p - q)) / d
            else:  # eq. (10), (11)
                estimate = (COUNT * d * k - n * (q * k + (p - q) * (d - 1) + q * k * (d - 1))) / (n * k * (p - q))
                delta = (q + f * (p - q) + (d - 1) / k * (p + (k - 1) * q)) / d
            variance = d**2 * delta * (1 - delta) / (n * (p - q) ** 2)
        else:  # eq. (1); q(1 - q) / (n (p - q)^2) + f (1 - p - q) / (n (p - q)), Section 2.2.1
            estimate = (COUNT - n * q) / (n * (p - q))
            variance = q * (1 - q) / (n * (p - q) ** 2) + f * (1 - p - q) / (n * (p - q))
            # that form drops the user's own f (1 - f); with fixed data it is exact
            if not m.recipe.unsampled.samples:
                np.testing.assert_allclose(m.fixed_variance(f, n), variance, rtol=1e-9, atol=1e-18)
                variance = variance + f * (1 - f) / n
        np.testing.assert_allclose(m.estimate(COUNT, n), estimate, rtol=1e-8, atol=1e-8, err_msg=protocol)
        if m.recipe.unsampled is not Unsampled.NOTHING:
            np.testing.assert_allclose(m.variance(f, n), variance, rtol=1e-8, atol=1e-18, err_msg=protocol)
            np.testing.assert_allclose(m.fixed_variance(f, n), variance - f * (1 - f) / n, rtol=1e-7, atol=1e-18)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, *PAPER_EPSILONS, 4.0, 8.0, 12.0])
@pytest.mark.parametrize("k", [2, 3, 11, 500, 65_535])
def test_realised_loss_is_at_most_the_budget(epsilon, k):
    """In each mechanism's own settings: two values of GRR, two bits of a unary encoding, two hashes."""
    for protocol in possible(k):
        m = mechanism(protocol, epsilon, 4, k)
        assert m.loss <= m.spent * (1 + 1e-9), protocol
        assert m.spent <= m.budget
        if m.name in ("l-oue", "l-soue", "l-grr-published", "ololoha-published"):  # tests/protocols/test_chains.py
            continue
        ideal = RULES[m.name.removesuffix("-z").removesuffix("-r")].ideal(m.spent, k)
        assert max(abs(m.p - ideal[0]), abs(m.q - ideal[1])) < 6e-8 + 2**-24, protocol


def test_thresholds_are_the_contracts():
    m = mechanism("rsfd-grr", math.log(2), 10, 10)
    e = math.log(10 * (math.exp(math.log(2)) - 1) + 1)
    assert m.recipe.noise.threshold == math.floor((math.exp(e) - 1) / (math.exp(e) + 9) * 2**32)
    m = mechanism("spl-oue", 1.0, 4, 10)
    assert (m.recipe.noise.tp, m.recipe.noise.tq) == (2**23, math.ceil(2**24 / (math.exp(0.25) + 1)))
    m = mechanism("smp-sue", 1.0, 4, 10)
    s = math.exp(0.5)
    assert (m.recipe.noise.tp, m.recipe.noise.tq) == (math.floor(2**24 * s / (s + 1)), math.ceil(2**24 / (s + 1)))
    assert amplified(math.log(2), 10) == pytest.approx(math.log(11))


def test_adaptive_choice():
    for epsilon in (0.1, 1.0, 3.0):
        for k in (2, 5, 6, 10, 50, 200):
            assert mechanism("smp-adp", epsilon, 7, k).name == ("grr" if k < 3 * math.exp(epsilon) + 2 else "oue")
            assert mechanism("spl-adp", epsilon, 7, k).name == ("grr" if k < 3 * math.exp(epsilon / 7) + 2 else "oue")
            grr, oue = (mechanism(p, epsilon, 7, k) for p in ("rsfd-grr", "rsfd-oue-z"))
            better = "grr" if grr.variance(0.0, 1) <= oue.variance(0.0, 1) else "oue-z"
            assert mechanism("rsfd-adp", epsilon, 7, k).name == better
    oue, grr = (way.variance_at_zero(math.log(3), 3, 10, 20_000) for way in REGISTRY["rsfd-adp"].variants)
    assert grr > oue  # the paper: from k = 10 on, OUE-z even at d = 3


@pytest.mark.parametrize("power,k", [(3, 11), (9, 29), (10, 32), (11, 35), (2, 8), (7, 23)])
def test_a_tie_is_a_tie_whatever_the_last_digit(power, k):
    """k = 3 e^eps + 2 takes OUE, as in the paper; 3 * exp(log(3)) + 2 is 11.000000000000002 in floats."""
    assert mechanism("smp-adp", math.log(power), 6, k).name == "oue"
    assert mechanism("spl-adp", 6 * math.log(power), 6, k).name == "oue"
    assert mechanism("smp-adp", math.log(power), 6, k - 1).name == "grr"
    assert mechanism("smp-adp", math.log(power) * (1 + 1e-6), 6, k).name == "grr"


def test_one_attribute_is_the_plain_mechanism():
    for name in ("grr", "oue", "sue"):
        plain = mechanism(f"spl-{name}", 1.0, 1, 10)
        others = [f"smp-{name}", *([f"rsfd-{name}"] if name == "grr" else [f"rsfd-{name}-z", f"rsfd-{name}-r"])]
        for protocol in others:
            m = mechanism(protocol, 1.0, 1, 10)
            assert m.recipe.noise == plain.recipe.noise
            assert m.estimate(300, 1000) == pytest.approx(plain.estimate(300, 1000))
            assert m.fixed_variance(0.2, 1000) == pytest.approx(plain.fixed_variance(0.2, 1000))


@pytest.mark.parametrize("n,d", [(1, 2), (5, 3), (100, 7), (3000, 4)])
def test_mean_inverse_binomial(n, d):
    mass = [math.comb(n, m) * (d - 1) ** (n - m) / d**n for m in range(1, n + 1)]
    exact = sum(w / m for m, w in enumerate(mass, 1)) / sum(mass)
    assert mean_inverse_binomial(n, d) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("n", [14_990, 15_000, 15_010, 400_000])
def test_mean_inverse_binomial_by_sum_and_by_series(n):
    mass = {m: math.exp(_log_binomial(n, m, 1 / 3)) for m in range(int(n / 3 - 15 * n**0.5), int(n / 3 + 15 * n**0.5))}
    exact = math.fsum(w / m for m, w in mass.items()) / math.fsum(mass.values())
    assert mean_inverse_binomial(n, 3) == pytest.approx(exact, rel=1e-11)


def _log_binomial(n, m, p):
    ways = math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)
    return ways + m * math.log(p) + (n - m) * math.log1p(-p)


def test_labels():
    assert [label(p) for p in PAPER] == [
        "RS+FD[GRR]",
        "RS+FD[OUE-z]",
        "RS+FD[OUE-r]",
        "RS+FD[ADP]",
        "Spl[ADP]",
        "Smp[ADP]",
    ]


def test_budgets_that_cannot_be_spent():
    with pytest.raises(ValueError, match=r"epsilon=1e-09 is too small for spl-oue with d=10"):
        mechanism("spl-oue", 1e-9, 10, 5)
    with pytest.raises(ValueError, match=r"epsilon=1e-17 is too small for rsfd-adp"):
        mechanism("rsfd-adp", 1e-17, 10, 5)
    with pytest.raises(ValueError, match=r"epsilon=1e-13 is too small for smp-grr"):
        mechanism("smp-grr", 1e-13, 10, 5)
    for protocol in PROTOCOLS:
        with pytest.raises(ValueError, match="too large"):
            mechanism(protocol, 8000.0, 10, 5)
        mechanism(protocol, 60.0, 10, 5)
