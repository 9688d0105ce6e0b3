"""docs/rounds.md: every number on the page, computed."""

import math
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
    assert len(table) == 2
    for names, found in table.items():
        for name in names.split(", "):
            (m,) = made(f"smp-{name}", 2.0, (10,))
            np.testing.assert_allclose(found, loss(m.recipe.noise, 10, reports), atol=0.006)
            (afresh,) = made(f"smp-{name}", 2.0, (10,), False)
            np.testing.assert_allclose(loss(afresh.recipe.noise, 10, reports), reports, rtol=1e-4)
    assert "Without a memo they lose m." in PAGE
    for name in ("l-oue", "l-soue"):
        large = PrivacySettings(memo=True, first_report=0.95)
        assert mechanisms(f"smp-{name}", 2.0, (10,), large)[0].loss < 0.9 * 2.0


def test_what_a_first_report_can_be():
    def most(name, epsilon):
        settings = PrivacySettings(memo=True, first_report=0.99)
        return mechanisms(f"smp-{name}", epsilon, (10,), settings)[0].loss / epsilon

    assert "`l-soue` reaches two thirds at most, `l-oue` 0.72 at epsilon 0.5" in PAGE
    assert 0.66 < max(most("l-soue", epsilon) for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)) < 0.67
    assert most("l-oue", 0.5) == pytest.approx(0.72, abs=0.005)


def test_what_users_have_spent():
    months, table = tables("months")[0]
    codes = changing(10_000, 60, 10, 0.05)
    held = occurrences(codes)
    for name in ("smp-l-grr", "smp-l-osue", "smp-biloloha"):
        ledger = spent(made(name, 2.0, (10,)), [held])
        np.testing.assert_allclose(table[name], ledger.exact.mean(axis=0)[months - 1], atol=0.01)
        if name == "smp-l-osue":
            assert np.quantile(ledger.exact[:, -1], 0.9, method="nearest") == pytest.approx(9.9, abs=0.05)
            assert "one user in ten has spent about 9.9 or more." in " ".join(PAGE.split())
            published = table["papers count, smp-l-osue"]
            np.testing.assert_allclose(published, ledger.published.mean(axis=0)[months - 1], atol=0.01)
            expected = 2 * 10 * (1 - 0.9 * (1 - 0.05 / 10) ** (months - 1))
            np.testing.assert_allclose(published, expected, rtol=0.02)


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
        assert f"{said} (`{name}`" in PAGE


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
    """Fresh fakes of GRR exactly, by partitions; more is simulated in tests/privacy/test_block_guesses.py."""
    months, table = tables("months")[2]
    ms = made("rsfd-l-grr", 2.0, (10,) * 10)
    constant = [np.arange(1, 11)[None]] * 10
    for fakes, name in (("memo", "loss, fakes remembered"), ("fresh", "loss, fresh fakes")):
        np.testing.assert_allclose(table[name], spent(ms, constant, fakes=fakes).exact[0, months - 1], atol=0.006)
    assert rf"\ln(d(\mathrm{{e}}^2 - 1) + 1) = {ms[0].budget:.2f}$" in PAGE
    p1, q1, p2, q2 = ms[0].recipe.noise.steps(10)
    for rounds, found in zip(months.tolist(), table["found, fresh fakes"], strict=True):
        laws = {}  # [odds of real against fake]: P(fake), over the ways to say 10 values so often
        for parts in partitions(rounds, 10, rounds):
            counts = np.array(parts + (0,) * (10 - len(parts)))
            ways = math.factorial(10) / math.prod(map(math.factorial, np.bincount(counts).tolist()))
            ways *= math.factorial(rounds) / math.prod(map(math.factorial, parts))
            odds = round(float((p2**counts * q2 ** (rounds - counts)).sum()) * 10.0 ** (rounds - 1), 9)
            laws[odds] = laws.get(odds, 0.0) + ways / 10.0**rounds
        assert sum(laws.values()) == pytest.approx(1)
        assert found == pytest.approx(first_of_ten(laws), abs=0.006)
    stay = 2 * p1 * q1 + 8 * q1**2  # both memos of a value that changes are equal
    assert f"in the end with probability {1 - 0.9 * stay:.2f}".replace(" 0.", " .") in PAGE
    assert "ten values in each attribute, the sampled\n  one is found with probability .79." in PAGE
    assert found_by_coincidences(p1, q1) == pytest.approx(0.79, abs=0.005 + 4.9 * math.sqrt(0.79 * 0.21 / 20_000))


def first_of_ten(laws):
    """P(the real attribute has the largest odds of ten, or wins a tie)."""
    success, less = 0.0, 0.0
    for odds in sorted(laws):
        same = laws[odds]
        others = sum(math.comb(9, m) * same**m * less ** (9 - m) / (m + 1) for m in range(10))
        success += same * odds * others
        less += same
    return success


def partitions(total, most, largest):
    """The ways to write a number as a sum of so many at most, none above `largest`."""
    if not total:
        yield ()
    for part in range(min(total, largest), 0, -1) if most else ():
        for rest in partitions(total - part, most - 1, part):
            yield (part, *rest)


def found_by_coincidences(p1, q1, n=20_000, d=10, k=10):
    """Simulated: of each attribute ten known memos, of distinct values or of independent ones."""
    rng = np.random.default_rng(1)
    values = np.argsort(rng.random((n, d, k)), axis=2)
    values[:, 1:] = rng.integers(0, k, (n, d - 1, k))  # the first attribute is real
    keep = (rng.random((n, d, k)) < p1 - q1) | (np.arange(d) > 0)[:, None]  # fakes are uniform memos
    memos = np.where(keep, values, rng.integers(0, k, (n, d, k)))
    counts = (memos[..., None] == np.arange(k)).sum(axis=2)
    e = np.zeros((k + 1, n, d))  # elementary symmetric polynomials of the counts
    e[0] = 1
    for v in range(k):
        e[1:] += e[:-1] * counts[:, :, v]
    weights = [(p1 - q1) ** s * q1 ** (k - s) * math.factorial(k - s) for s in range(k + 1)]  # over injections
    odds = np.tensordot(weights, e, axes=1)
    best = odds >= odds.max(axis=1, keepdims=True) * (1 - 1e-9)
    return (best[:, 0] / best.sum(axis=1)).mean()


def test_a_loss_of_values_that_do_not_change():
    """At most epsilon, after any number of rounds."""
    for name in ("rsfd-l-grr", "rsfd-l-osue-z", "rsfd-l-sue-z"):
        ms = made(name, 2.0, (10,) * 10)
        assert spent(ms, [np.arange(1, 301)[None]] * 10).exact[0, -1] == pytest.approx(2.0, abs=1e-4)


def test_amplification_does_not_compose():
    ((values, table),) = tables("values held")
    ms = made("rsfd-l-grr", 1.0, (10,) * 10)
    each = [np.concatenate([np.arange(1, 201)] * d)[None] for d in values]
    found = [spent(ms, [held] * 10).exact[0, -1] for held in each]
    np.testing.assert_allclose(table["RS+FD, one attribute differs"], found, atol=0.006)
    assert found == pytest.approx([math.log((((10 * math.e - 9) ** d) + 9) / 10) for d in values], rel=1e-6)
    smp = made("smp-l-grr", 1.0, (10,) * 10)
    assert values == pytest.approx([spent(smp, [held] * 10).exact[0, -1] for held in each], abs=1e-3)
    assert len(PAGE.split()) <= 1180
