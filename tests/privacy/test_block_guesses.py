"""The attacker over rounds: his posteriors against enumeration, his success against exact numbers and simulation."""

import math
from itertools import permutations, product

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd import PrivacySettings
from gpu_rsfd.measure.block_guesses import Seen, right
from gpu_rsfd.protocols import Bits, Unsampled, mechanisms
from gpu_rsfd.protocols.priors import Prior


def made(protocol, epsilon, domain, share=0.5, memo=True, prior=None):
    priors = Prior.of(prior).thresholds(domain)
    return mechanisms(protocol, epsilon, domain, PrivacySettings(memo=memo, first_report=share, priors=priors))


def likelihood(m, encoded, reports):
    """P(reports of one memo | what it encodes), over all memos; None encodes nothing."""
    chain, k = m.recipe.noise, m.k
    p1, q1, p2, q2 = chain.steps(k)
    total = 0.0
    if isinstance(chain.memo, Bits):
        for memo in product((0, 1), repeat=k):
            rates = [p1 if v == encoded else q1 for v in range(k)]
            one = math.prod(r if b else 1 - r for r, b in zip(rates, memo, strict=True))
            for report in reports:
                on = [p2 if b else q2 for b in memo]
                one *= math.prod(x if b else 1 - x for x, b in zip(on, report, strict=True))
            total += one
        return total
    for memo in range(k):
        total += (p1 if memo == encoded else q1) * math.prod(p2 if y == memo else q2 for y in reports)
    return total


def of_fake(m, blocks, fakes):
    """P(all reports | not sampled), blocks as independent of each other."""
    k = m.k
    prior = np.full(k, 1 / k) if m.recipe.prior is None else np.diff([0, *m.recipe.prior, 2**32]) / 2**32
    zero = m.recipe.unsampled is Unsampled.ZERO
    if fakes == "fixed":
        blocks = [[y for block in blocks for y in block]]
    if fakes == "fresh":
        blocks = [[y] for block in blocks for y in block]
    if fakes == "fresh" and not isinstance(m.recipe.noise.memo, Bits):
        return (1 / k) ** len(blocks)

    def of(block):
        if zero:
            return likelihood(m, None, block)
        if not isinstance(m.recipe.noise.memo, Bits):
            return np.mean([likelihood(m, v, block) for v in range(k)])
        return sum(prior[v] * likelihood(m, v, block) for v in range(k))

    return math.prod(of(block) for block in blocks)


@pytest.mark.parametrize("fakes", ["memo", "independent", "fixed", "fresh"])
@pytest.mark.parametrize("protocol", ["rsfd-l-grr", "rsfd-l-osue-z", "rsfd-l-sue-r", "rsrfd-l-osue-r", "smp-l-oue"])
def test_posteriors_are_those_of_enumeration(protocol, fakes):
    """A user who holds one value, another one, and the first one again; the marginal is not uniform."""
    f, began, draw = np.array([0.5, 0.3, 0.2]), [0, 0, 2, 0, 2], np.random.default_rng(3)
    (m, _) = made(protocol, 2.0, (3, 3), prior=[(0.6, 0.3, 0.1)] * 2 if protocol.startswith("rsrfd") else None)
    unary, users = isinstance(m.recipe.noise.memo, Bits), 6
    seen = Seen(m.recipe, fakes, 3, users, 5)
    sent = [draw.integers(0, 2, (3, users)) > 0 if unary else draw.integers(0, 3, users) for _ in began]
    for r, block in enumerate(began):
        look = seen.add(f, np.full(users, block), sent[r])
        np.testing.assert_allclose(np.exp(look.likely).sum(axis=1), 1, rtol=1e-12)
        for u in range(users):
            rows = [
                (b, tuple(x[:, u].tolist()) if unary else int(x[u])) for b, x in zip(began[: r + 1], sent, strict=False)
            ]
            blocks = [[y for b, y in rows if b == first] for first in sorted({b for b, _ in rows})]
            now = blocks[0] if block == 0 else blocks[-1]
            posterior = f * [likelihood(m, v, now) for v in range(3)]
            np.testing.assert_allclose(np.exp(look.likely[u]), posterior / posterior.sum(), atol=1e-9)
            if not m.recipe.unsampled.hides or (fakes == "independent" and not unary):
                continue
            real = math.prod(sum(f[v] * likelihood(m, v, b) for v in range(3)) for b in blocks)
            assert look.evidence[u] == pytest.approx(math.log(real / of_fake(m, blocks, fakes)), abs=1e-9)


@pytest.mark.parametrize("name", ["biloloha", "ololoha-published"])
def test_posteriors_of_hashed_values_are_those_of_enumeration(name):
    """The attacker knows each user's hash; the memo of a cell, by all memos."""
    f, k, users, draw = np.array([0.4, 0.3, 0.2, 0.1]), 4, 8, np.random.default_rng(1)
    (m,) = made(f"smp-{name}", 3.0, (k,), share=0.8)
    g, (p1, q1, p2, q2) = m.recipe.noise.cells, m.recipe.noise.steps(k)
    cells, sent = draw.integers(0, g, (k, users)), draw.integers(0, g, (3, users))
    seen = Seen(m.recipe, "memo", k, users, 3, cells)
    for r in range(3):
        look = seen.add(f, np.zeros(users, int), sent[r])
        for u, v in product(range(users), range(k)):
            each = [
                sum(
                    (p1 if y == cells[x, u] else q1) * math.prod(p2 if z == y else q2 for z in sent[: r + 1, u])
                    for y in range(g)
                )
                for x in range(k)
            ]
            assert math.exp(look.likely[u, v]) == pytest.approx(f[v] * each[v] / np.dot(f, each), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("k,values", [(3, 2), (4, 4), (5, 3), (6, 5)])
def test_distinct_values_tell_real_ones_from_independent_fakes(k, values):
    """Memos that are known (no second step): the mean over all injections, over all memos."""
    (m, _) = made("rsfd-l-grr", 2.0, (k, k), share=1.0)
    p1, q1, _, _ = m.recipe.noise.steps(k)
    memos = np.array(list(product(range(k), repeat=values)))[:: max(1, k**values // 100)]
    seen = Seen(m.recipe, "independent", k, len(memos), values)
    for r in range(values):
        look = seen.add(np.full(k, 1 / k), np.full(len(memos), r), memos[:, r])
    for row, evidence in zip(memos, look.evidence, strict=True):
        each = [
            math.prod(p1 if y == memo else q1 for y, memo in zip(injection, row, strict=True))
            for injection in permutations(range(k), values)
        ]
        assert evidence == pytest.approx(math.log(np.mean(each) * k**values), abs=1e-9)
    seen = Seen(m.recipe, "memo", k, len(memos), values)
    for r in range(values):
        look = seen.add(np.full(k, 1 / k), np.full(len(memos), r), memos[:, r])
    np.testing.assert_allclose(look.evidence, 0, atol=1e-9)  # one law: nothing to be found


def attacked(protocol, codes, k, fakes="memo", epsilon=2.0, share=0.5, memo=True, seed=0):
    """Success after each round, [sampled, value, claim], of users who hold `codes` [attribute][user, round]."""
    rng, d, (n, rounds) = np.random.default_rng(seed), len(codes), codes[0].shape
    ms, sampled = made(protocol, epsilon, (k,) * d, share, memo), rng.integers(0, d, n)
    users, others, found, looks = np.arange(n), ms[0].recipe.unsampled, [], [[] for _ in range(rounds)]
    f = np.full(k, 1 / k)
    for j, (m, x) in enumerate(zip(ms, codes, strict=True)):
        chain = m.recipe.noise
        p1, q1, p2, q2 = chain.steps(k)
        size, unary = chain.cells or k, isinstance(chain.memo, Bits)
        cells = rng.integers(0, size, (k, n)) if chain.cells else None
        mine = (sampled == j) | (not others.hides)
        image = np.argsort(rng.random((n, k)), axis=1)
        memos, seen = np.zeros((n, rounds, size), bool), Seen(m.recipe, fakes, k, n, rounds, cells)
        for r in range(rounds):
            block = np.argmax(x == x[:, r : r + 1], axis=1)
            row = block if fakes in ("memo", "independent") else np.where(mine, block, 0 if fakes == "fixed" else r)
            new = np.flatnonzero(row == r)
            made_up = image[new, x[new, r]] if fakes == "memo" else rng.integers(0, size, len(new))
            encoded = np.where(mine[new], x[new, r] if cells is None else cells[x[new, r], new], made_up)
            if unary:
                rate = np.full((len(new), k), q1)
                some = np.flatnonzero(mine[new] | (others is not Unsampled.ZERO))
                rate[some, encoded[some]] = p1
                memos[new, r] = rng.random(rate.shape) < rate
            else:
                keep = (rng.random(len(new)) < (p1 - q1)) & (mine[new] | (fakes == "memo"))
                memos[new, r, np.where(keep, encoded, rng.integers(0, size, len(new)))] = True
            memo = memos[users, row]
            if unary:
                report = (rng.random((n, k)) < np.where(memo, p2, q2)).T
            else:
                report = np.where(rng.random(n) < p2 - q2, memo.argmax(axis=1), rng.integers(0, size, n))
            looks[r].append(seen.add(f, block, report))
    for r in range(rounds):
        hits = np.array(right(looks[r], [f] * d, others, sampled, [x[:, r] for x in codes]))
        found.append(hits / [n, n * d, n])
    return np.array(found)


def near(found, expected, n, digits):
    """Within a false-alarm rate of 1e-6, and the digits that are printed."""
    return abs(found - expected) <= 4.9 * math.sqrt(expected * (1 - expected) / n) + 10.0**-digits


N = 2000


def held(d, k, values, times, seed=1):
    """[attribute][user, round]: so many different values, each held for so many rounds."""
    rng = np.random.default_rng(seed)
    return [np.repeat(np.argsort(rng.random((N, k)), axis=1)[:, :values], times, axis=1) for _ in range(d)]


@pytest.mark.slow
def test_fresh_fakes_reveal_the_sampled_attribute_and_remembered_ones_do_not():
    """d = k = 10, epsilon 2 in all and 1 for the first report, constant values: exact numbers for GRR."""
    codes = held(10, 10, 1, 20)
    fresh, memo = (attacked("rsfd-l-grr", codes, 10, fakes) for fakes in ("fresh", "memo"))
    for rounds, expected in ((2, 0.3947), (3, 0.5572), (5, 0.8227), (10, 0.9859)):
        assert near(fresh[rounds - 1, 0], expected, N, 4)
        assert near(memo[rounds - 1, 0], 0.1, N, 4)
        assert not near(memo[rounds - 1, 0], expected, N, 4)
    assert near(fresh[19, 1], memo[19, 1], N, 2)  # a value at random is guessed as often
    assert near(fresh[19, 2], 0.88, N, 2)  # but of each user one is known nearly for certain
    assert near(memo[19, 2], 0.18, N, 2)


@pytest.mark.slow
def test_a_fixed_fake_shows_by_staying_and_independent_ones_by_coincidences():
    fixed, memo = (attacked("rsfd-l-grr", held(10, 10, 2, 10), 10, fakes) for fakes in ("fixed", "memo"))
    assert near(fixed[19, 0], 0.974, N, 2)
    assert near(memo[19, 0], 0.1, N, 2)
    independent, memo = (
        attacked("rsfd-l-grr", held(10, 10, 10, 2), 10, fakes, share=0.95) for fakes in ("independent", "memo")
    )
    assert near(independent[19, 0], 0.79, N, 1)
    assert independent[19, 0] > 0.6
    assert near(memo[19, 0], 0.1, N, 2)


@pytest.mark.parametrize(
    "name,memo,expected",
    [
        ("l-grr", True, [0.280, 0.391, 0.506]),
        ("l-osue", True, [0.220, 0.343, 0.360]),
        ("biloloha", True, [0.182, 0.209, 0.219]),
        ("l-grr", False, [0.280, 0.396, 0.695]),
        ("l-osue", False, [0.220, 0.411, 0.756]),
    ],
)
def test_a_constant_value_is_guessed_as_often_as_the_memo_allows(name, memo, expected):
    """k = 8, epsilon 2 in all and 1 for the first report, after 1, 5 and 20 rounds; without a memo, noise fades."""
    codes = [np.repeat(np.arange(8).repeat(1000)[:, None], 20, axis=1)]
    found = attacked(f"spl-{name}", codes, 8, memo=memo, fakes="memo" if memo else "fresh", seed=4)
    for rounds, exact in zip((1, 5, 20), expected, strict=True):
        assert near(found[rounds - 1, 1], exact, 8000, 3)


@pytest.mark.parametrize(
    "protocol", ["rsfd-l-grr", "rsfd-l-osue-z", "rsfd-l-sue-r", "smp-l-grr", "smp-l-sue", "spl-l-osue"]
)
def test_one_report_tells_what_attack_finds(protocol):
    """A memo that is sent as it is: the same reports, the same guesses."""
    data = gpu_rsfd.SyntheticDataset(3000, (3, 5, 2), distribution="zipf:1.2", seed=5)
    found = gpu_rsfd.attack(data, protocols=[protocol], epsilons=[1.5], repetitions=1, first_report=1.0, seed=9)
    ms = made(protocol, 1.5, data.domain, share=1.0)
    (chunk,) = gpu_rsfd.report_chunks(
        data, protocol, 1.5, seed=9, users=4096, settings=PrivacySettings(first_report=1.0)
    )
    looks, marginals = [], [data.frequencies[columns] for columns in data.domain.slices]
    for m, f, values, users in zip(ms, marginals, chunk.values, chunk.users, strict=True):
        report = np.zeros((data.n, m.k) if values.ndim == 2 else data.n, values.dtype)
        report[users] = values
        looks.append(
            Seen(m.recipe, "memo", m.k, data.n, 1).add(
                f, np.zeros(data.n, int), report.T > 0 if values.ndim == 2 else report
            )
        )
    codes = [data.column(j, 0, data.n) for j in range(data.d)]
    sampled, values, claims = right(looks, marginals, ms[0].recipe.unsampled, chunk.sampled, codes)
    assert values / data.n / data.d == pytest.approx(float(found["value_success"].ravel()[0]), abs=1e-12)
    if ms[0].recipe.unsampled.samples:
        assert sampled / data.n == pytest.approx(float(found["sampled_success"].ravel()[0]), abs=1e-12)
    assert 0 <= claims <= data.n
