"""Noises against the formulas that their authors print, and against a literal run of what they stand for."""

import math

import numpy as np
import pytest

from gpu_rsfd.protocols import mechanism
from gpu_rsfd.protocols.noise import rule

BUDGETS = (0.1, 0.5, math.log(2), 1.0, 2.0, math.log(7), 4.0)


@pytest.mark.parametrize("e", BUDGETS)
def test_olh(e):
    """g = round(e^e) + 1 hashes; Var at f = 0 is q (1 - q) / (p - q)^2 per user."""
    p, q = rule("olh").ideal(e, 100)
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
