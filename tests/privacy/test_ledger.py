"""What users have spent over rounds, against enumeration of all sequences of reports on small domains."""

import math
from itertools import permutations, product

import numpy as np
import pytest

from gpu_rsfd import PrivacySettings
from gpu_rsfd.measure.ledger import occurrences, spent
from gpu_rsfd.protocols import Keep, mechanisms
from gpu_rsfd.protocols.chains import loss

CHANGING = np.array([[0, 0, 1, 1], [0, 1, 0, 1], [2, 2, 2, 2], [0, 1, 2, 0]])


def made(protocol, epsilon, domain, share=0.5, **settings):
    return mechanisms(protocol, epsilon, domain, PrivacySettings(**{"memo": True, "first_report": share, **settings}))


def memo_given(m, encoded):
    """[memo]: P(memo | encoded), None for nothing; and what the second step makes of it, [memo, report]."""
    chain, k = m.recipe.noise, m.k
    p1, q1, p2, q2 = chain.steps(k)
    if isinstance(chain.memo, Keep):
        return np.where(np.arange(k) == encoded, p1, q1), np.where(np.eye(k, dtype=bool), p2, q2)
    bits = np.array(list(product((False, True), repeat=k)))
    rates = np.full(k, q1)
    if encoded is not None:
        rates[encoded] = p1
    ones = np.where(bits, p2, q2)
    second = np.prod(np.where(bits[None], ones[:, None], 1 - ones[:, None]), axis=2)
    return np.prod(np.where(bits, rates, 1 - rates), axis=1), second


def block(m, encoded, n):
    """[reports of n rounds]: the law of the reports of one memo."""
    memo, second = memo_given(m, encoded)
    together = np.ones((len(memo), 1))
    for _ in range(n):
        together = (together[:, :, None] * second[:, None, :]).reshape(len(memo), -1)
    return memo @ together


def law(m, values, lengths, real, fakes):
    """[all reports]: of an attribute whose blocks have these values and lengths."""

    def of(encoded):
        joint = np.ones(1)
        for v, n in zip(encoded, lengths, strict=True):
            joint = np.multiply.outer(joint, block(m, v, n)).ravel()
        return joint

    if real:
        return of(values)
    rounds = [1] * sum(lengths)
    if fakes == "fresh" and m.recipe.unsampled.value == "zero":
        return law(m, [None] * len(rounds), rounds, True, fakes)
    if fakes == "fresh":
        return np.full(m.k ** len(rounds), m.k ** -float(len(rounds)))
    if m.recipe.unsampled.value == "zero":
        return of([None] * len(values))
    if fakes == "fixed":
        each = [block(m, y, sum(lengths)) for y in range(m.k)]
    elif fakes == "memo":  # the images of distinct values are distinct
        each = [of([pi[v] for v in values]) for pi in permutations(range(m.k))]
    else:
        each = [of(ys) for ys in product(range(m.k), repeat=len(values))]
    return np.mean(each, axis=0)


def loss_by_enumeration(ms, lengths, fakes):
    """The worst ratio over all reports, between users who differ in attribute 0 and change in the same rounds."""
    worst = 0.0
    choices = [list(permutations(range(m.k), len(n))) for m, n in zip(ms, lengths, strict=True)]
    fake = [law(m, tuple(range(len(n))), n, False, fakes) for m, n in zip(ms, lengths, strict=True)]
    others = [[law(m, x, n, True, fakes) for x in c] for m, n, c in zip(ms[1:], lengths[1:], choices[1:], strict=True)]
    first = [law(ms[0], x, lengths[0], True, fakes) / fake[0] for x in choices[0]]
    rest = 0.0  # the smallest of the others, whatever their values are
    for f, laws in zip(fake[1:], others, strict=True):
        rest += min((one / f).min() for one in laws)
    for a, b in permutations(first, 2):
        worst = max(worst, float(((a + rest) / (b + rest)).max()))
    return math.log(worst)


@pytest.mark.parametrize("fakes", ["memo", "independent"])
@pytest.mark.parametrize(
    "protocol,domain,lengths",
    [
        ("rsfd-l-grr", (3, 3), [[2, 1], [1, 2]]),
        ("rsfd-l-grr", (4, 4, 4), [[2], [1, 1], [2]]),
        ("rsfd-l-grr", (5, 5), [[1, 1, 1], [2, 1]]),
        ("rsfd-l-grr", (4, 4), [[1, 1, 1], [3]]),
        ("rsfd-l-osue-z", (2, 2), [[2], [2]]),
        ("rsfd-l-sue-z", (3, 2), [[1, 1], [1, 1]]),
        ("rsfd-l-osue-z", (3, 2), [[1, 1], [2]]),
    ],
)
def test_amplified_losses_are_those_of_enumeration(protocol, domain, lengths, fakes):
    ms = made(protocol, 1.2, domain)
    held = [np.concatenate([np.arange(1, n + 1) for n in one])[None] for one in lengths]
    orders = list(permutations(range(len(ms))))
    expected = max(loss_by_enumeration([ms[i] for i in o], [lengths[i] for i in o], fakes) for o in orders)
    found = spent(ms, held, fakes=fakes).exact[0, -1]
    if fakes == "memo" and max(map(len, lengths)) > 1:  # that the images are distinct helps a little
        assert expected - 1e-9 < found < expected * 1.03
    else:
        assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("protocol,k,rounds", [("rsfd-l-grr", 2, 5), ("rsfd-l-grr", 3, 6), ("rsfd-l-osue-z", 3, 3)])
def test_fresh_fakes_of_constant_values(protocol, k, rounds):
    ms = made(protocol, 1.2, (k, k))
    found = spent(ms, [np.arange(1, rounds + 1)[None]] * 2, fakes="fresh").exact[0, -1]
    assert found == pytest.approx(loss_by_enumeration(ms, [[rounds]] * 2, "fresh"), abs=1e-9)


@pytest.mark.parametrize("lengths", [[[1, 1], [1, 1]], [[2, 1], [3]], [[3], [1, 2]]])
def test_a_fixed_fake_does_not_amplify_where_values_change(lengths):
    ms = made("rsfd-l-grr", 1.2, (3, 3))
    held = [np.concatenate([np.arange(1, n + 1) for n in one])[None] for one in lengths]
    real = max(loss_by_enumeration([ms[i] for i in o], [lengths[i] for i in o], "fixed") for o in ((0, 1), (1, 0)))
    fixed, memo = (spent(ms, held, fakes=fakes).exact[0, -1] for fakes in ("fixed", "memo"))
    assert memo < real <= fixed


def test_occurrences():
    assert occurrences(CHANGING).tolist() == [[1, 2, 1, 2], [1, 1, 2, 2], [1, 2, 3, 4], [1, 1, 1, 2]]


ROUNDS = np.array([1, 2, 3, 5, 10, 20]) - 1
CONSTANT = np.arange(1, 21)[None]


@pytest.mark.parametrize(
    "protocol,fakes,expected",
    [
        ("rsfd-l-grr", "memo", [1, 1.923, 1.997, 2, 2, 2]),
        ("rsfd-l-osue-z", "memo", [1, 1.915, 1.996, 2, 2, 2]),
        ("rsfd-l-grr", "independent", [1, 1.923, 1.997, 2, 2, 2]),
        ("rsfd-l-grr", "fixed", [1, 1.923, 1.997, 2, 2, 2]),
        ("rsfd-l-grr", "fresh", [1, 3.261, 4.110, 4.173, 4.173, 4.173]),
        ("rsfd-l-osue-z", "fresh", [1, 4.076, 4.169, 4.173, 4.173, 4.173]),
    ],
)
def test_fresh_fakes_lose_the_amplification(protocol, fakes, expected):
    """d = k = 10, epsilon 2 in all and 1 for the first report: remembered fakes keep to epsilon, fresh ones don't."""
    ms = made(protocol, 2.0, (10,) * 10)
    found = spent(ms, [CONSTANT] * 10, fakes=fakes).exact[0, ROUNDS]
    np.testing.assert_allclose(found, expected, atol=6e-4)


@pytest.mark.parametrize("values,expected", [(1, 1.0), (2, 3.53), (3, 6.40), (5, 12.2)])
def test_amplification_does_not_compose(values, expected):
    """d = 10, epsilon 1, many rounds: ln((E^D + d - 1) / d)."""
    held = [np.concatenate([np.arange(1, 201)] * values)[None]] * 10
    ms = made("rsfd-l-grr", 1.0, (10,) * 10)
    found = spent(ms, held)
    assert found.exact[0, -1] == pytest.approx(expected, rel=2e-3)
    assert found.exact[0, -1] == pytest.approx(math.log((math.exp(values * ms[0].budget) + 9) / 10), rel=1e-6)
    assert found.published[0, -1] == pytest.approx(values)


@pytest.mark.parametrize("name", ["biloloha", "ololoha", "ololoha-published"])
def test_cells_are_those_of_an_ideal_hash(name):
    """The expected sum over the cells, by convolution: each value falls into a cell with probability 1 / g."""
    codes = np.random.default_rng(5).integers(0, 6, (6, 13))
    (m,) = made(f"smp-{name}", 2.0, (50,), 0.4)
    chain = m.recipe.noise
    g, found = chain.cells, spent([m], [occurrences(codes)])
    for u, r in product(range(6), range(13)):
        held = np.unique(codes[u, : r + 1], return_counts=True)[1]
        law = np.ones(1)
        for n in held:
            law = np.convolve(
                law, np.where(np.arange(n + 1) == n, 1 / g, 0) + np.where(np.arange(n + 1) == 0, 1 - 1 / g, 0)
            )
        assert found.exact[u, r] == pytest.approx(g * law @ loss(chain, 50, np.arange(len(law))), abs=1e-9)
        assert found.published[u, r] == pytest.approx(g * (1 - (1 - 1 / g) ** len(held)) * 2)


def test_guarantees_and_solutions():
    """One attribute differs, or all do: Spl adds up, Smp has one that tells most; fresh sampling shows all."""
    held = [occurrences(CHANGING), occurrences(CHANGING[::-1]), occurrences(CHANGING * 0)]
    for protocol in ("spl-l-osue", "smp-l-osue"):
        ms = made(protocol, 2.0, (3, 3, 3))
        each = [
            np.cumsum(np.diff(loss(m.recipe.noise, 3, range(5)))[h - 1], axis=1) for m, h in zip(ms, held, strict=True)
        ]
        assert np.allclose(spent(ms, held).exact, np.max(each, axis=0))
        total = np.sum(each, axis=0) if protocol == "spl-l-osue" else np.max(each, axis=0)
        assert np.allclose(spent(ms, held, "user").exact, total)
        assert np.allclose(spent(ms, held, "user", sampling="fresh").exact, np.sum(each, axis=0))
    ms = made("rsfd-l-grr", 2.0, (3, 3, 3), guarantee="user")
    assert np.allclose(
        spent(ms, held, "user").exact,
        np.max(
            [
                np.cumsum(np.diff(loss(m.recipe.noise, 3, range(5)))[h - 1], axis=1)
                for m, h in zip(ms, held, strict=True)
            ],
            axis=0,
        ),
    )
    assert (spent(ms, held).exact <= spent(ms, held, sampling="fresh").exact + 1e-12).all()


@pytest.mark.parametrize("sampling", ["fixed", "fresh"])
@pytest.mark.parametrize("protocol", ["rsfd-l-grr", "rsfd-l-osue-z", "smp-ololoha", "spl-l-sue"])
@pytest.mark.parametrize("guarantee", ["paper", "user"])
def test_what_is_spent_without_a_memo(protocol, sampling, guarantee):
    """Reports are independent then, but for the attribute that is real: if it is sampled afresh, losses add up."""
    held, asked = [occurrences(CHANGING), occurrences(CHANGING[::-1])], {"guarantee": guarantee, "sampling": sampling}
    on, off = (
        spent(made(protocol, 2.0, (3, 3), memo=memo, guarantee=guarantee), held, fakes=fakes, **asked)
        for memo, fakes in ((True, "memo"), (False, "fresh"))
    )
    assert np.allclose(on.afresh, off.exact, atol=1e-9)
    assert np.allclose(off.exact, off.afresh)
    first = 0.5 if (protocol, guarantee) == ("spl-l-sue", "paper") else 1.0  # of one attribute
    assert np.allclose(off.exact[:, 0], first, atol=1e-5)
    assert np.allclose(off.published, np.arange(1, 5) * first, atol=1e-4)  # as papers count: each report once more
    alone = protocol.startswith("rsfd") and (sampling, guarantee) == ("fixed", "paper")
    assert np.allclose(off.exact, np.arange(1, 5) * off.exact[:, :1]) != alone


@pytest.mark.parametrize("protocol", ["rsfd-l-grr", "rsfd-l-osue-z"])
def test_reports_without_a_memo_are_those_of_enumeration(protocol):
    off = made(protocol, 1.2, (3, 3), memo=False)
    found = spent(made(protocol, 1.2, (3, 3)), [np.arange(1, 4)[None]] * 2).afresh[0, -1]
    assert found == pytest.approx(loss_by_enumeration(off, [[3]] * 2, "fresh"), abs=1e-9)


def test_the_bound_adds_up_over_what_shows_changes():
    """Memo fakes change with the values of their attributes, so all attributes count; with one sampled, the largest."""
    held = [np.array([[1, 1, 1]])] * 2
    for protocol, fakes, times in (("rsfd-l-grr", "memo", 2), ("rsfd-l-grr", "fresh", 1), ("smp-l-grr", "memo", 1)):
        ms = made(protocol, 2.0, (3, 3))
        _, _, p2, q2 = ms[0].recipe.noise.steps(3)
        assert np.allclose(spent(ms, held, fakes=fakes).any, times * math.log(p2 / q2) * np.array([1, 2, 3]))
    (m,) = made("smp-l-oue", 2.0, (3,))
    _, _, p2, q2 = m.recipe.noise.steps(3)
    assert np.allclose(spent([m], held[:1]).any, 3 * math.log(p2 / q2) * np.array([1, 2, 3]))


def test_the_bound_between_any_two_users_holds():
    """BiLOLOHA: users with other change patterns exceed the published 2 epsilon, and stay within the bound."""
    (m,) = made("smp-biloloha", 1.0, (2,))
    p1, q1, p2, q2 = m.recipe.noise.steps(2)
    second = np.array([[p2, q2], [q2, p2]])

    def law(cells):
        """[reports]: of a user whose value falls into these cells, one in each round."""
        out = np.zeros((2,) * len(cells))
        for memo in product(range(2), repeat=2):
            joint = np.ones(())
            for cell in cells:
                joint = np.multiply.outer(joint, second[memo[cell]])
            out += joint * math.prod(p1 if memo[c] == c else q1 for c in range(2))
        return out

    for rounds in range(1, 7):
        laws = [law(cells) for cells in product(range(2), repeat=rounds)]
        worst = max(math.log((a / b).max()) for a, b in permutations(laws, 2))
        bound = spent([m], [np.arange(1, rounds + 1)[None]]).any[0, -1]
        assert worst <= bound + 1e-12
        if rounds == 4:
            assert worst == pytest.approx(2.03, abs=0.01)
        assert (worst > 2) == (rounds >= 4)


@pytest.mark.parametrize("name,k,rounds,epsilon", [("l-grr", 3, 4, 1.0), ("l-osue", 2, 3, 6.0), ("l-soue", 2, 3, 6.0)])
def test_the_bound_holds_for_values_that_change_at_any_time(name, k, rounds, epsilon):
    """And what is spent does not: users who change at different times are told apart by more."""
    (m,) = made(f"smp-{name}", epsilon, (k,), 0.2)

    def of(values):
        """[all reports]: the memos of different values are independent of each other, and lie in any order."""
        rounds_of = [[r for r, x in enumerate(values) if x == v] for v in dict.fromkeys(values)]
        size, joint = memo_given(m, 0)[1].shape[1], np.ones(())
        for v, some in zip(dict.fromkeys(values), rounds_of, strict=True):
            joint = np.multiply.outer(joint, block(m, v, len(some)).reshape((size,) * len(some)))
        return np.transpose(joint, np.argsort([r for some in rounds_of for r in some])).ravel()

    laws = {values: of(values) for values in product(range(k), repeat=rounds)}
    worst = max(math.log((a / b).max()) for a, b in permutations(laws.values(), 2))
    ledger = spent([m], [np.arange(1, rounds + 1)[None]])
    assert worst <= ledger.any[0, -1] + 1e-12
    pattern = [values for values in laws if values[0] not in values[1:] and len(set(values[1:])) == 1]
    alike = max(math.log((laws[a] / laws[b]).max()) for a, b in permutations(pattern, 2))
    own = spent([m], [np.array([[1, *range(1, rounds)]])]).exact[0, -1]
    assert alike == pytest.approx(own, abs=1e-9)
    assert (worst > own + 0.05) == (name == "l-grr")  # with large budgets memos are values, and all rounds differ


def test_published_counts_of_budgets():
    """Every value costs epsilon; with cells, those that an ideal hash meets, over all hashes, and g at most."""
    held = occurrences(np.arange(6)[None])
    for name in ("l-grr-published", "l-osue", "l-sue"):
        assert spent(made(f"smp-{name}", 2.0, (6,)), [held]).published[0] == pytest.approx(2.0 * np.arange(1, 7))
    for name in ("biloloha", "ololoha-published"):
        (m,) = made(f"smp-{name}", 2.0, (6,), 0.5)
        g, found = m.recipe.noise.cells, spent([m], [held]).published[0]
        for values in range(1, 7):
            met = [len(set(cells)) for cells in product(range(g), repeat=values)]
            assert found[values - 1] == pytest.approx(2.0 * np.mean(met), abs=1e-9)
        assert found[-1] < 2.0 * g
        assert spent([m], [np.ones((1, 300), int)]).published[0, -1] == pytest.approx(2.0 * g)
