"""Both steps of longitudinal protocols: integers, what one report is, and what many reports of a memo lose."""

import math
from itertools import product

import numpy as np
import pytest

from gpu_rsfd import PrivacySettings
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import PROTOCOLS, REGISTRY, Bits, Chain, Keep, mechanisms
from gpu_rsfd.protocols.chains import loss
from gpu_rsfd.protocols.form import noise_of

NAMES = tuple(p.removeprefix("smp-") for p in PROTOCOLS if REGISTRY[p].memoised and p.startswith("smp-"))


def chain_of(name, e=2.0, share=0.5, k=8, memo=True):
    (m,) = mechanisms(f"smp-{name}", e, (k,), PrivacySettings(first_report=share, memo=memo))
    return m


def memos(chain, k):
    """[value, memo]: P(memo | value or cell), memos as tuples of bits or as numbers; and [memo, …]: them."""
    p1, q1, _, _ = chain.steps(k)
    if isinstance(chain.memo, Keep):
        size = chain.cells or k
        return np.where(np.eye(size, dtype=bool), p1, q1), np.eye(size, dtype=bool)
    bits = np.array(list(product((False, True), repeat=k)))
    rates = np.where(np.eye(k, dtype=bool), p1, q1)
    return np.prod(np.where(bits[None], rates[:, None], 1 - rates[:, None]), axis=2), bits


def reports(chain, k):
    """[memo, report]: P(report | memo), by the definition of the second step."""
    given, held = memos(chain, k)
    _, _, p2, q2 = chain.steps(k)
    if isinstance(chain.memo, Keep):
        return given, np.where(held, p2, q2)
    rates = np.where(held, p2, q2)
    return given, np.prod(np.where(held[None], rates[:, None], 1 - rates[:, None]), axis=2)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", [2, 3, 4])
def test_losses_are_those_of_enumeration(name, k):
    """The worst ratio of P(m reports) between two values, over all sequences of reports."""
    chain = chain_of(name, 1.3, 0.4, k).recipe.noise
    given, second = reports(chain, k)
    together = np.ones((len(second), 1))
    for m in range(1, 5 if isinstance(chain.memo, Keep) else 3):
        together = (together[:, :, None] * second[:, None, :]).reshape(len(second), -1)
        likely = given @ together
        np.testing.assert_allclose(likely.sum(axis=1), 1, rtol=1e-12)
        worst = np.log(likely.max(axis=0) / likely.min(axis=0)).max()
        assert loss(chain, k, m) == pytest.approx(worst, abs=1e-9)
    p1, q1, _, _ = chain.steps(k)
    whole = p1 / q1 * ((1 - q1) / (1 - p1) if isinstance(chain.memo, Bits) else 1)
    assert loss(chain, k, 10_000) == pytest.approx(math.log(whole), abs=1e-9)
    assert math.log(whole) == pytest.approx(1.3, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("e,share", [(0.5, 0.2), (1.0, 0.5), (4.0, 0.9)])
@pytest.mark.parametrize("k", [2, 7, 300])
def test_the_second_step_is_the_most_telling_one_that_is_private(name, e, share, k):
    m = chain_of(name, e, share, k)
    chain = m.recipe.noise
    assert m.loss == loss(chain, k) <= e * share == m.spent
    if name.endswith("published"):
        p2, q2 = chain.steps(k)[2:]
        if chain.second.threshold > 2**20:  # the ratio is good to the rounding of one integer
            ratio = (math.exp(e + e * share) - 1) / (math.exp(e) - math.exp(e * share))
            assert p2 / q2 == pytest.approx(ratio, rel=1e-3)
        assert (m.loss < e * share * 0.99999) == ((chain.cells or k) > 2)
        return
    if isinstance(chain.second, Keep):
        more = Keep(chain.second.threshold + 1)
    elif chain.second.tq == 1:  # even without noise, a second step with p2 = 1/2 loses less than that
        assert (name, share) in (("l-oue", 0.9), ("l-soue", 0.9))
        return
    else:
        more = Bits(2**23 if name in ("l-oue", "l-soue") else chain.second.tp + 1, chain.second.tq - 1)
    assert loss(Chain(chain.memo, more, chain.cells), k) > e * share


@pytest.mark.parametrize("name", NAMES)
def test_one_report_is_the_one_that_sweep_simulates(name):
    """The second step's integers and those of one report are rounded apart: to some parts in 2**24."""
    for share in (0.3, 1.0):
        both, one = (chain_of(name, 2.0, share, 9, memo) for memo in (True, None))
        assert (both.p, both.q) == pytest.approx((one.p, one.q), abs=4 / 2**24)
        assert both.loss == pytest.approx(one.loss, abs=2e-6)
        assert (both.bits, both.budget, both.spent) == (one.bits, one.budget, one.spent)
        assert noise_of("chain", both.recipe.noise.integers) == both.recipe.noise
    identity = Keep(2**32) if isinstance(both.recipe.noise.memo, Keep) else Bits(2**24, 0)
    assert both.recipe.noise.second == identity
    assert loss(both.recipe.noise, 9, 50) == pytest.approx(both.loss, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_without_a_memo_losses_add_up(name):
    m = chain_of(name, 2.0, 0.5, 9, memo=False)
    np.testing.assert_allclose(loss(m.recipe.noise, 9, [0, 1, 2, 30]), m.loss * np.array([0, 1, 2, 30]), rtol=1e-9)


def test_cells():
    assert chain_of("biloloha").recipe.noise.cells == 2
    assert [chain_of("ololoha", e, 0.5).recipe.noise.cells for e in (0.5, 2, 5)] == [2, 4, 13]
    published = [chain_of("ololoha-published", e, a).recipe.noise.cells for e in (1, 3, 5) for a in (0.3, 0.6, 0.999)]
    assert published == [2, 2, 4, 3, 5, 21, 5, 17, 147]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_both_budgets_of_rsfd_are_amplified(epsilon):
    for guarantee, rule in (("paper", lambda e: math.log(10 * math.expm1(e) + 1)), ("user", lambda e: e)):
        settings = PrivacySettings(memo=True, guarantee=guarantee, first_report=0.4)
        m = mechanisms("rsfd-l-grr", epsilon, (10,) * 10, settings)[0]
        assert (m.budget, m.spent) == pytest.approx((rule(epsilon), rule(0.4 * epsilon)), rel=1e-12)
        assert loss(m.recipe.noise, 10, [1, 10**6]) == pytest.approx([m.spent, m.budget], rel=1e-6)


@pytest.mark.parametrize(
    "protocol,epsilon,share,words",
    [
        ("smp-grr", 1.0, 0.5, "smp-grr has no second step, so it can't be collected in rounds; available: spl-l-grr, "),
        ("smp-l-grr", 1e-7, 0.5, "epsilon=1e-07 is too small for smp-l-grr with d=1 and k=60000"),
        ("smp-l-grr", 1.0, 1e-11, "epsilon=1.0 is too small for smp-l-grr .* at a budget of 1e-11"),
        ("smp-l-osue", 1.0, 1e-8, "epsilon=1.0 is too small for smp-l-osue .* at a budget of 1e-08"),
    ],
)
def test_bad_input_is_one_clear_line(protocol, epsilon, share, words):
    with pytest.raises(InputError, match=words) as caught:
        mechanisms(protocol, epsilon, (60_000,), PrivacySettings(memo=True, first_report=share))
    assert "\n" not in str(caught.value)


def published(name, e, e1, k, g=0):
    """n times the approximate variance of a value that nobody holds, as the authors give it (EDBT 2023, DCN 2022)."""
    both = math.log((math.exp(e + e1) - 1) / (math.exp(e) - math.exp(e1)))  # the budget of the second step
    size = g or k
    p1, p2 = (math.exp(x) / (math.exp(x) + size - 1) for x in (e, both))
    q1, q2 = 1 / g if g else (1 - p1) / (k - 1), (1 - p2) / (size - 1)
    rate = q2 + q1 * (p2 - q2)
    return rate * (1 - rate) / ((p1 - q1) * (p2 - q2)) ** 2


def variance(m):
    return m.q * (1 - m.q) / (m.p - m.q) ** 2


@pytest.mark.parametrize("e,a", [(0.5, 0.6), (1.0, 0.4), (2.0, 0.5), (5.0, 0.3)])
def test_published_variances(e, a):
    """Of the chains that go by the authors' names, from realised integers; the right second step has another one."""
    for name, k in (("biloloha", 30), ("ololoha-published", 30), ("l-grr-published", 2), ("l-grr-published", 30)):
        m = chain_of(name, e, a, k)
        g = m.recipe.noise.cells
        assert variance(m) == pytest.approx(published(name, e, a * e, k, g), rel=1e-3 if k == 30 else 1e-5), (name, k)
        right = variance(chain_of(name.removesuffix("-published"), e, a, k))
        assert (variance(m) > 1.02 * right) == ((g or k) > 2), (name, k)
        if name == "ololoha-published":
            assert abs(g - best_cells(e, a * e)) <= 0.51
    assert 0 <= variance(chain_of("ololoha", e, a, 30)) - variance(chain_of("l-osue", e, a, 30)) <= 1  # over n
    if e == 1.0:
        many = [variance(chain_of(name, e, a, 1412)) for name in ("l-grr-published", "l-grr")]
        assert many[0] / many[1] == pytest.approx(74_000, rel=0.01)


def best_cells(e, e1):
    """The real number of cells with the smallest published variance, 2 at least."""
    sizes = np.arange(2, 200, 0.01)
    return sizes[np.argmin([published("ololoha", e, e1, 0, g) for g in sizes])]
