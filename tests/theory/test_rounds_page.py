"""docs/rounds.md: every number on the page, computed."""

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from gpu_rsfd import PrivacySettings
from gpu_rsfd.measure.ledger import occurrences, spent
from gpu_rsfd.protocols import Bits, mechanisms
from gpu_rsfd.protocols.chains import loss

PAGE = (Path(__file__).parents[2] / "docs" / "rounds.md").read_text(encoding="utf-8")


def tables(head):
    """All tables with such a head."""
    found, start = [], 0
    while (start := PAGE.find(f"| {head} |", start)) >= 0:
        end = PAGE.find("\n\n", start)
        lines = [line for line in PAGE[start:end].splitlines() if not line.startswith("|---")]
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        read = [(name, np.array([float(x) for x in numbers])) for name, *numbers in cells]
        found.append((read[0][1].astype(int), dict(read[1:])))
        start = end
    return found


def made(protocol, epsilon, domain, memo=True):
    return mechanisms(protocol, epsilon, domain, PrivacySettings(memo=memo))


def changing(users, rounds, k, change):
    rng = np.random.default_rng(0)
    x = np.empty((users, rounds), int)
    x[:, 0] = rng.integers(0, k, users)
    for r in range(1, rounds):
        x[:, r] = np.where(rng.random(users) < change, rng.integers(0, k, users), x[:, r - 1])
    return x


def test_what_reports_of_one_memo_lose():
    ((reports, table),) = tables("reports")
    for name, found in table.items():
        (m,) = made("smp-l-grr" if name == "no memo" else f"smp-{name}", 2.0, (10,), name != "no memo")
        np.testing.assert_allclose(found, loss(m.recipe.noise, 10, reports), atol=0.006)


def test_what_users_have_spent():
    months, table = tables("months")[0]
    codes = changing(10_000, 60, 10, 0.05)
    held = occurrences(codes)
    for name in ("smp-l-grr", "smp-l-osue", "smp-biloloha"):
        ledger = spent(made(name, 2.0, (10,)), [held])
        np.testing.assert_allclose(table[name], ledger.exact.mean(axis=0)[months - 1], atol=0.01)
        if name == "smp-l-osue":
            assert (ledger.exact[:, -1] > 9.85).mean() == pytest.approx(0.1, abs=0.02)
            published = table["papers count, smp-l-osue"]
            np.testing.assert_allclose(published, ledger.published.mean(axis=0)[months - 1], atol=0.01)
            expected = 2 * 10 * (1 - 0.9 * (1 - 0.05 / 10) ** (months - 1))
            np.testing.assert_allclose(published, expected, rtol=0.02)
    assert (table["no memo"] == spent(made("smp-l-grr", 2.0, (10,), False), [held]).exact[0, months - 1].round(2)).all()


def test_how_often_changes_are_seen_in_the_end():
    for name, said in (("l-grr", 0.958), ("l-osue", 0.981), ("biloloha", 0.698)):
        chain = made(f"smp-{name}", 2.0, (10,))[0].recipe.noise
        p1, q1, _, _ = chain.steps(10)
        if isinstance(chain.memo, Bits):
            equal = (q1**2 + (1 - q1) ** 2) ** 8 * (p1 * q1 + (1 - p1) * (1 - q1)) ** 2
        else:
            size = chain.cells or 10
            equal = 2 * p1 * q1 + (size - 2) * q1**2
            equal = 1 / size + (1 - 1 / size) * equal if chain.cells else equal
        assert 1 - equal / 2 == pytest.approx(said, abs=6e-4)
        assert f"{said} ({name}" in PAGE


def test_the_memos_noise_stays():
    """The variance of the mean over rounds, by enumeration of a user's memo: reports are independent given it."""
    (m,) = made("smp-l-osue", 2.0, (10,))
    p1, q1, p2, q2 = m.recipe.noise.steps(10)
    for rounds, said in ((1, 0.019), (12, 0.0103), (10**9, 0.0091)):
        variance = 0.0
        for share, set_ in ((0.1, p1), (0.9, q1)):
            rate = set_ * p2 + (1 - set_) * q2
            within = set_ * p2 * (1 - p2) + (1 - set_) * q2 * (1 - q2)
            between = set_ * p2**2 + (1 - set_) * q2**2 - rate**2
            variance += share * (within / rounds + between) / 10_000 / (m.p - m.q) ** 2
        assert math.sqrt(variance) == pytest.approx(said, abs=5e-4 if rounds == 1 else 6e-5)
        assert str(said) in PAGE


def guessed(name, memo, rounds, k=8):
    """Exact: own and other counts of supports; ties at random."""
    chain = made(f"spl-{name}", 2.0, (k,), memo)[0].recipe.noise
    p1, q1, p2, q2 = chain.steps(k)
    n = np.arange(rounds + 1)
    choose = np.array([math.comb(rounds, i) for i in n], float)

    def law(p):
        return choose * p**n * (1 - p) ** (rounds - n)

    if isinstance(chain.memo, Bits):
        own, other = (x * law(p2) + (1 - x) * law(q2) for x in (p1, q1))
        below = np.concatenate([[0], np.cumsum(other)[:-1]])
        return sum(
            own[i] * math.comb(k - 1, m) * other[i] ** m * below[i] ** (k - 1 - m) / (m + 1)
            for i in n
            for m in range(k)
        )
    size = chain.cells or k
    # P(the memo's count is the largest): by the generating function of counts of the other cells, all alike
    win = 0.0
    for i in n:
        for ties in range(size):
            rest = size - 1 - ties
            left = rounds - i - ties * i
            if left < 0:
                continue
            ways = np.zeros(left + 1)
            ways[0] = 1
            for _ in range(rest):
                ways = (
                    sum(
                        np.concatenate([np.zeros(c), ways[: left + 1 - c]]) / math.factorial(c)
                        for c in range(min(i, left + 1))
                    )
                    if i > 0
                    else ways * 0
                )
            count = ways[left] / math.factorial(i) ** (ties + 1) * math.comb(size - 1, ties)
            win += math.factorial(rounds) * count * p2**i * q2 ** (rounds - i) / (ties + 1)
    cell = p1 * win + q1 * (1 - win)
    return cell * size / k * (1 - (1 - 1 / size) ** k) if chain.cells else cell


def test_how_often_values_are_guessed():
    months, table = tables("months")[1]
    names = {"GRR without a memo": ("l-grr", False), "OUE without a memo": ("l-osue", False)}
    assert len(table) == 5
    for name, found in table.items():
        expected = [guessed(*names.get(name, (name, True)), int(rounds)) for rounds in months]
        np.testing.assert_allclose(found, expected, atol=6e-4, err_msg=name)


def test_fakes():
    """What is found is in tests/privacy/test_block_guesses.py; fresh fakes of GRR: exactly, by partitions."""
    months, table = tables("months")[2]
    ms = made("rsfd-l-grr", 2.0, (10,) * 10)
    constant = [np.arange(1, 11)[None]] * 10
    for fakes, name in (("memo", "loss, fakes remembered"), ("fresh", "loss, fresh fakes")):
        np.testing.assert_allclose(table[name], spent(ms, constant, fakes=fakes).exact[0, months - 1], atol=0.006)
    assert table["found, fakes remembered"].tolist() == [0.1] * 5
    # the evidence of m fresh reports is a function of their counts; two rounds: equal reports or not
    p1, q1, p2, q2 = ms[0].recipe.noise.steps(10)
    joint = dict.fromkeys((True, False), 0.0)
    for memo, (a, b) in product(range(10), product(range(10), repeat=2)):
        rate = (p1 if memo == 0 else q1) * (p2 if a == memo else q2) * (p2 if b == memo else q2)
        joint[a == b] += rate
    fake = {True: 0.1, False: 0.9}
    odds = {same: joint[same] / fake[same] for same in joint}
    success = 0.0  # the real attribute has the larger evidence, or wins a tie
    for equal in range(10):  # of the nine others
        ways = math.comb(9, equal) * 0.1**equal * 0.9 ** (9 - equal)
        for same, rate in joint.items():
            rivals = [True] * equal + [False] * (9 - equal)
            best = max([odds[same], *(odds[x] for x in rivals)])
            ties = [x for x in rivals if odds[x] == best]
            success += ways * rate * (odds[same] == best) / (len(ties) + 1)
    assert table["found, fresh fakes"][1] == pytest.approx(success, abs=0.006)


def test_amplification_does_not_compose():
    ((values, table),) = tables("values held")
    ms = made("rsfd-l-grr", 1.0, (10,) * 10)
    each = [np.concatenate([np.arange(1, 201)] * d)[None] for d in values]
    found = [spent(ms, [held] * 10).exact[0, -1] for held in each]
    np.testing.assert_allclose(table["RS+FD, one attribute differs"], found, atol=0.006)
    assert found == pytest.approx([math.log((((10 * math.e - 9) ** d) + 9) / 10) for d in values], rel=1e-6)
    smp = made("smp-l-grr", 1.0, (10,) * 10)
    assert table["Smp"] == pytest.approx([spent(smp, [held] * 10).exact[0, -1] for held in each], abs=1e-3)
