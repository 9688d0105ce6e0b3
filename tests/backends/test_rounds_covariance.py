"""Covariance over rounds of the estimates of one value, fixed data: closed forms, enumeration, and simulation.

The closed forms are of one user, who holds `a` and then `b`, and of the indicators that the reports speak for v.
"""

import math
from itertools import permutations, product

import numpy as np
import pytest
from stats import check_means

import gpu_rsfd
from gpu_rsfd.measure import Rounds
from gpu_rsfd.protocols import Bits

D = 2
FAKING = ["memo", "independent", "fixed", "fresh"]
HASHED = ["spl-biloloha", "spl-ololoha"]
HIDING = ["rsfd-l-grr", "rsfd-l-osue-z", "rsfd-l-sue-r"]
PRIVACY = {"first_report": 0.98}
EPSILON = 2.3


def made(protocol, k, d=D):
    settings = gpu_rsfd.PrivacySettings(memo=True, **PRIVACY)
    return gpu_rsfd.mechanisms(protocol, EPSILON, (k,) * d, settings)[0]


# --------------------------------------------------------------------------------------------------- enumeration


def latents(m, encoded, v, randomised=True):
    """(probability, P(a report speaks for v)) of every memo of what is encoded; None for nothing."""
    k, (p1, q1, p2, q2) = m.k, m.recipe.noise.steps(m.k)
    if not isinstance(m.recipe.noise.memo, Bits):
        hit, miss = (p1, q1) if randomised else (1.0, 0.0)
        return [(hit if y == encoded else miss, p2 if y == v else q2) for y in range(k)]
    rates = [p1 if b == encoded else q1 for b in range(k)]
    memos = product((0, 1), repeat=k)
    return [
        (math.prod(r if x else 1 - r for r, x in zip(rates, memo, strict=True)), p2 if memo[v] else q2)
        for memo in memos
    ]


def both(first, second=None):
    """(probability, rate, rate) of two memos that are made apart, or of one memo twice."""
    if second is None:
        return [(w, r, r) for w, r in first]
    return [(w * x, r, s) for (w, r), (x, s) in product(first, second)]


def moments(cases):
    """Of both indicators, which are independent given the memos: means, and the mean of the product."""
    return np.array([[w * r, w * s, w * r * s] for w, r, s in cases]).sum(axis=0)


def of_real(m, a, b, v):
    return moments(both(latents(m, a, v), None if a == b else latents(m, b, v)))


def of_fake(m, a, b, v, fakes):
    unary, zero, k = isinstance(m.recipe.noise.memo, Bits), m.recipe.unsampled.value == "zero", m.k
    same = fakes == "fixed" or (fakes != "fresh" and a == b)  # one memo for both rounds
    if zero:
        return moments(both(latents(m, None, v), None if same else latents(m, None, v)))
    if fakes == "memo":
        each = [of_real(m, pi[a], pi[b], v) for pi in permutations(range(k))]
    else:  # a uniform value of Keep is a memo as it is
        laws = [latents(m, y, v, unary) for y in range(k)]
        each = [moments(both(x)) for x in laws] if same else [moments(both(x, y)) for x, y in product(laws, laws)]
    return np.mean(each, axis=0)


def of_hashed(m, a, b, v):
    """A user's cells are drawn once; so is the memo of each cell."""
    g, (p1, q1, p2, q2) = m.recipe.noise.cells, m.recipe.noise.steps(m.k)
    found = []
    for cells in product(range(g), repeat=m.k):
        one, other = ([(p1 if y == cells[x] else q1, p2 if y == cells[v] else q2) for y in range(g)] for x in (a, b))
        found.append(moments(both(one, None if cells[a] == cells[b] else other)))
    return np.mean(found, axis=0)


def enumerated(m, a, b, v, fakes="memo"):
    """The covariance of one user's indicators, and their means."""
    if m.recipe.noise.cells:
        x, y, xy = of_hashed(m, a, b, v)
    elif m.recipe.unsampled.hides:
        x, y, xy = (of_real(m, a, b, v) + (m.d - 1) * of_fake(m, a, b, v, fakes)) / m.d
    else:
        x, y, xy = of_real(m, a, b, v)
    return xy - x * y, x, y


# -------------------------------------------------------------------------------------------------- closed forms


def closed(m, a, b, v, fakes="memo"):
    """The same in closed form."""
    k, (p1, q1, p2, q2) = m.k, m.recipe.noise.steps(m.k)
    slope, given = (p2 - q2) ** 2, [p1 if x == v else q1 for x in (a, b)]
    if g := m.recipe.noise.cells:
        p = q2 + p1 * (p2 - q2)
        c1, c2 = p**2 + (g - 1) * ((1 - p) / (g - 1)) ** 2, p2**2 + (g - 1) * q2**2
        if a == b:
            return slope * p1 * (1 - p1) if a == v else c2 / g - 1 / g**2
        return slope * p1 * (1 - p1) / g if v in (a, b) else (c2 - c1) / g**2
    if not m.recipe.unsampled.hides:
        return slope * given[0] * (1 - given[0]) * (a == b)
    zero = m.recipe.unsampled.value == "zero"
    d, fake = m.d, q1 if zero else (p1 + (k - 1) * q1) / k
    between = (1 / d) * (1 - 1 / d) * (given[0] - fake) * (given[1] - fake)
    if a == b:
        kept = 0.0 if fakes == "fresh" else (1 - 1 / d) * fake * (1 - fake)
        return slope * (given[0] * (1 - given[0]) / d + kept + between)
    alike = {"memo": 0.0 if zero else -(((p1 - q1) / k) ** 2), "fixed": fake * (1 - fake)}
    return slope * (between + (1 - 1 / d) * alike.get(fakes, 0.0))


@pytest.mark.parametrize("k", [2, 3])
def test_closed_forms_are_those_of_enumeration(k):
    cells = list(product(range(k), repeat=3))
    for name in ("spl-l-grr", "spl-l-osue", "spl-l-sue", *HASHED):
        m = made(name, k)
        for a, b, v in cells:
            assert closed(m, a, b, v) == pytest.approx(enumerated(m, a, b, v)[0], abs=1e-9), (name, a, b, v)
    for name in HIDING:
        m = made(name, k)
        for fakes, (a, b, v) in product(FAKING, cells):
            covariance, *rates = enumerated(m, a, b, v, fakes)
            assert closed(m, a, b, v, fakes) == pytest.approx(covariance, abs=1e-9), (name, fakes, a, b, v)
            assert rates == pytest.approx([m.base + m.gain * (x == v) for x in (a, b)], abs=1e-6)  # of one report
    for fakes in FAKING[1:]:  # memo fakes are told from all others
        m = made("rsfd-l-grr", k)
        assert max(abs(closed(m, *x) - enumerated(m, *x, fakes)[0]) for x in cells) > 1e-3
    m = made("spl-ololoha", 3)
    assert max(abs(enumerated(m, a, b, v)[0]) for a, b, v in product(range(3), repeat=3) if a != b) > 1e-3


def of_shares(first, second, n, d, m, v):
    """Smp: E[1 / m] times the covariance of those who report, and what sampling them adds; of estimates of v."""
    sizes = np.arange(1, n + 1)
    weights = np.array([math.comb(n, s) for s in sizes]) * (1 / d) ** sizes * (1 - 1 / d) ** (n - sizes)
    inverse = float(weights @ (1 / sizes) / weights.sum())
    each = np.mean([closed(m, a, b, v) for a, b in zip(first, second, strict=True)])
    f = np.mean(first == v), np.mean(second == v), np.mean((first == v) & (second == v))
    return inverse * each / (m.p - m.q) ** 2 + (n * inverse - 1) / (n - 1) * (f[2] - f[0] * f[1])


@pytest.mark.parametrize("name", ["smp-l-grr", "smp-l-osue", "smp-l-sue"])
def test_a_sample_of_users_is_a_part_of_the_covariance(name):
    """Over all sets of users who may sample the attribute, at least one; each has the moments of its memos."""
    first, second, d = np.array([0, 0, 1, 2, 0]), np.array([0, 1, 1, 0, 0]), 3
    m, n = made(name, 3, d), len(first)
    for v in range(3):
        each = np.array([enumerated(m, a, b, v) for a, b in zip(first, second, strict=True)])
        total = np.zeros(4)
        for chosen in product((False, True), repeat=n):
            size = sum(chosen)
            if size:
                weight = (1 / d) ** size * (1 - 1 / d) ** (n - size)
                covariance, x, y = each[list(chosen)].sum(axis=0) / (size**2, size, size)
                total += weight * np.array([1, x, y, x * y + covariance])
        weight, x, y, xy = total / total[0]
        found = (xy - x * y) / (m.p - m.q) ** 2
        assert of_shares(first, second, n, d, m, v) == pytest.approx(found, abs=1e-9)


# ---------------------------------------------------------------------------------------------------- simulation

N, REPETITIONS = 60, 1500


def held(k):
    """[attribute][user, round]: of one all keep their values, of the other all change them, to all others alike."""
    first = np.arange(N) % k
    return [np.stack([first, x], axis=1) for x in (first, (first + 1 + np.arange(N) // k % (k - 1)) % k)]


def products(protocol, k, fakes=("memo",), **options):
    """[fakes][repetition, value]: products of what the estimates of both rounds are away from their means."""
    data = gpu_rsfd.EvolvingDataset(np.stack(held(k), axis=1), (k, k), name="two")
    spec = {"protocols": protocol, "epsilons": EPSILON, "repetitions": REPETITIONS, "seed": 5, "workers": 1, **PRIVACY}
    found = gpu_rsfd.run(Rounds(rounds=2, keep="counts", fakes=list(fakes), **options), data, **spec)["two"]
    counts = found.counts[0, 0].reshape(REPETITIONS, len(fakes), 2, 2 * k)
    shares = counts / np.repeat(found.reporters[0, 0], k, axis=-1)[:, None]
    away = (shares - shares.mean(axis=0)) / made(protocol, k).gain
    return np.moveaxis(away[:, :, 0] * away[:, :, 1] * REPETITIONS / (REPETITIONS - 1), 1, 0)


def expected(protocol, k, fakes="memo"):
    """[value]"""
    m, found = made(protocol, k), []
    for codes, v in product(held(k), range(k)):
        if protocol.startswith("smp"):
            found.append(of_shares(*codes.T, N, D, m, v))
        else:
            found.append(sum(closed(m, a, b, v, fakes) for a, b in codes.tolist()) / (N * m.gain) ** 2)
    return np.array(found)


def check(found, wanted, what):
    check_means(found, wanted, found.var(axis=0), what)


def refused(found, wanted, what):
    with pytest.raises(AssertionError, match="expected"):
        check(found, wanted, what)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["spl-l-grr", "spl-l-osue", "smp-l-grr", "smp-l-osue", *HASHED])
def test_simulated_covariances(protocol):
    """A hash that is kept correlates all users; sampling afresh and no memo give others."""
    found, wanted = products(protocol, 3)[0], expected(protocol, 3)
    check(found, wanted, protocol)
    if protocol in HASHED:
        refused(found[:, 3:], 0 * wanted[3:], "who changes has another memo")
    elif protocol.endswith("osue"):
        for options in [{"memo": "off"}, {"sampling": "fresh"}][: 1 + protocol.startswith("smp")]:
            refused(products(protocol, 3, **options)[0], wanted, str(options))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", HIDING)
def test_simulated_covariances_of_fakes(protocol):
    """Each way of making fakes has its covariance; what memo fakes have, the others have not."""
    for fakes, each in zip(FAKING, products(protocol, 2, FAKING), strict=True):
        check(each, expected(protocol, 2, fakes), f"{protocol}, {fakes}")
        if fakes != "memo" and (protocol, fakes) != ("rsfd-l-osue-z", "independent"):  # for zero vectors, the same
            refused(each, expected(protocol, 2), f"{protocol}, {fakes}")
