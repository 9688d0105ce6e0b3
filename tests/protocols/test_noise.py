"""Noises against the formulas that their authors print, and against a literal run of what they stand for."""

import math

import numpy as np
import pytest

from gpu_rsfd.protocols import REGISTRY, PrivacySettings, mechanism, mechanisms

RULES = {v.noise.name: v.noise for entry in REGISTRY.values() for v in entry.variants}

BUDGETS = (0.1, 0.5, math.log(2), 1.0, 2.0, math.log(7), 4.0)


@pytest.mark.parametrize("e", BUDGETS)
def test_olh(e):
    """g = round(e^e) + 1 hashes; Var at f = 0 is q (1 - q) / (p - q)^2 per user."""
    p, q = RULES["olh"].ideal(e, 100)
    g = round(math.exp(e)) + 1
    assert p == pytest.approx(math.exp(e) / (math.exp(e) + g - 1))
    assert q == 1 / g
    m = mechanism("smp-olh", e, 1, 100)
    assert m.variance(0.0, 1) == pytest.approx(q * (1 - q) / (p - q) ** 2, rel=1e-4)
    assert m.bits == math.log2(g)
    assert m.loss <= e  # of hashes: p / ((1 - p) / (g - 1))
    assert math.exp(m.loss) == pytest.approx(m.p * (g - 1) / (1 - m.p))


def test_local_hashing_user_by_user():
    """A literal run: each user hashes with a random function, GRR on the hash; the server supports what it hits."""
    k, users, e = 6, 40_000, 1.0
    g = round(math.exp(e)) + 1
    random = np.random.default_rng(7)
    hashes = random.integers(0, g, (users, k))  # an ideal hash function for each user
    mine = hashes[:, 2]  # all hold value 2
    p = math.exp(e) / (math.exp(e) + g - 1)
    sent = np.where(random.random(users) < p, mine, (mine + random.integers(1, g, users)) % g)
    supported = (hashes == sent[:, None]).mean(axis=0)
    m = mechanism("smp-olh", e, 1, k)
    expected = np.where(np.arange(k) == 2, m.p, m.q)
    assert np.abs(supported - expected).max() < 5.5 * math.sqrt(0.25 / users)  # six cells, 1e-6 in all
    pairs = np.corrcoef((hashes == sent[:, None])[:, [0, 1, 3]].T)  # supports of other values are independent
    assert np.abs(pairs[np.triu_indices(3, 1)]).max() < 5.5 / math.sqrt(users)


@pytest.mark.parametrize("e", BUDGETS)
def test_blh(e):
    p, q = RULES["blh"].ideal(e, 100)
    assert (p, q) == (pytest.approx(math.exp(e) / (math.exp(e) + 1)), 0.5)
    m = mechanism("spl-blh", e, 1, 100)
    assert (m.bits, m.loss <= e) == (1, True)
    assert m.variance(0.0, 1) == pytest.approx((math.exp(e) + 1) ** 2 / (math.exp(e) - 1) ** 2, rel=1e-4)


@pytest.mark.parametrize("e", BUDGETS)
def test_the(e):
    """Thresholded histogram encoding: Laplace noise of scale 2 / e on 0 and 1, above theta."""
    p, q = RULES["the"].ideal(e, 100)
    m = mechanism("smp-the", e, 1, 100)
    assert m.bits == 100
    assert m.loss <= e
    theta = -2 * math.log(2 * q) / e
    assert 0.5 <= theta <= 1
    assert p == pytest.approx(1 - math.exp(e * (theta - 1) / 2) / 2)
    best = min(
        b * (1 - b) / (a - b) ** 2
        for t in np.linspace(0.5, 1, 20_001)
        for a, b in [(1 - math.exp(e * (t - 1) / 2) / 2, math.exp(-e * t / 2) / 2)]
    )
    assert q * (1 - q) / (p - q) ** 2 == pytest.approx(best, rel=1e-6)


def test_the_is_laplace_noise_above_a_threshold():
    users, e = 400_000, 1.5
    p, q = RULES["the"].ideal(e, 5)
    theta = -2 * math.log(2 * q) / e
    noise = np.random.default_rng(3).laplace(scale=2 / e, size=users)
    for rate, expected in (((1 + noise > theta).mean(), p), ((noise > theta).mean(), q)):
        assert abs(rate - expected) < 5.2 * math.sqrt(expected * (1 - expected) / users)


@pytest.mark.parametrize("e", BUDGETS)
@pytest.mark.parametrize("k", [2, 5, 100])
def test_rue_has_the_least_error_over_all_values(e, k):
    """Among all p, q with odds e^e: p (1 - p) + (k - 1) q (1 - q) over (p - q)^2 is smallest."""

    def error(p, q):
        return (p * (1 - p) + (k - 1) * q * (1 - q)) / (p - q) ** 2

    p, q = RULES["rue"].ideal(e, k)
    assert p * (1 - q) / (q * (1 - p)) == pytest.approx(math.exp(e))
    for other in np.linspace(0.01, 0.99, 199):
        odds = other / (1 - other) / math.exp(e)
        assert error(p, q) <= error(other, odds / (1 + odds)) * (1 + 1e-12)
    assert error(p, q) <= min(error(*RULES[name].ideal(e, k)) for name in ("oue", "sue")) * (1 + 1e-12)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("e", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("k", [2, 3, 10])
def test_one_report_of_a_longitudinal_protocol_is_both_steps_in_one(e, k, share):
    """Memoised p1, q1 at budget e; p2, q2 for each report, such that the first report loses share * e."""
    first = share * e
    # l-grr: keep probabilities multiply; ps = p1 p2 + (k - 1) q1 q2, qs = p1 q2 + q1 p2 + (k - 2) q1 q2
    p1, q1 = RULES["grr"].ideal(e, k)
    keep2 = (math.exp(first) - 1) / (math.exp(first) + k - 1) / (p1 - q1)
    assert 0 < keep2 < 1
    p2, q2 = keep2 + (1 - keep2) / k, (1 - keep2) / k
    ps, qs = p1 * p2 + (k - 1) * q1 * q2, p1 * q2 + q1 * p2 + (k - 2) * q1 * q2
    assert (ps, qs) == pytest.approx(RULES["l-grr"].ideal(first, k))
    assert ps / qs == pytest.approx(math.exp(first))
    # l-sue and l-osue: ps = p1 p2 + (1 - p1) q2, qs = q1 p2 + (1 - q1) q2, the second step a symmetric one
    for name, step in (("l-sue", "sue"), ("l-osue", "oue")):
        p1, q1 = RULES[step].ideal(e, k)
        ideal = RULES[name].ideal(first, k)
        p2 = (1 - q1 - ideal[1]) / (1 - 2 * q1)
        assert 0.5 < p2 < 1
        q2 = 1 - p2
        assert (p1 * p2 + (1 - p1) * q2, q1 * p2 + (1 - q1) * q2) == pytest.approx(ideal)
        odds = ideal[0] * (1 - ideal[1]) / (ideal[1] * (1 - ideal[0]))
        assert odds == pytest.approx(math.exp(first))


def test_the_first_report_spends_its_share():
    for name in ("smp-l-grr", "smp-l-sue", "smp-l-osue"):
        for share in (0.25, 0.5, 1.0):
            (m,) = mechanisms(name, 2.0, (7,), PrivacySettings(first_report=share))
            assert m.budget == 2.0
            assert m.spent == 2.0 * share
            assert m.loss == pytest.approx(2.0 * share, rel=1e-5)
    assert mechanism("smp-l-grr", 2.0, 3, 7).recipe == mechanism("smp-grr", 1.0, 3, 7).recipe
