"""The exact loss against enumeration: every report, every pair of users."""

import itertools
import math
from itertools import combinations, product

import designs
import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import (
    PROTOCOLS,
    REGISTRY,
    Bits,
    Keep,
    PrivacySettings,
    Sets,
    Subsets,
    Unsampled,
    mechanisms,
    prior_frequencies,
)
from gpu_rsfd.protocols.adaptive import switches
from gpu_rsfd.protocols.budgets import GUARANTEES
from gpu_rsfd.protocols.exposure import privacy_loss
from gpu_rsfd.protocols.loss import Likelihoods, Ratios, losses
from gpu_rsfd.protocols.priors import Prior
from gpu_rsfd.protocols.registry import _built, as_protocol

DOMAINS = [(2,), (3,), (4, 2), (3, 3), (2, 3, 4), (3, 3, 3), (2, 2, 4)]


def reports_of(m):
    """Each report of one attribute: P(it | value), [value], and P(it | not sampled)."""
    p, q, k = m.p, m.q, m.k
    if not m.plain:  # local hashing: every hash function and every hash of so many cells
        g = round(2**m.bits)
        for cells in product(range(g), repeat=k):
            for sent in range(g):
                yield np.array([p if c == sent else (1 - p) / (g - 1) for c in cells]) / g**k, math.nan
        return
    fakes = prior_frequencies(m.recipe.prior, k)
    if isinstance(m.recipe.noise, Keep):
        for y in range(k):
            yield np.where(np.arange(k) == y, p, q), fakes[y]
        return
    if isinstance(m.recipe.noise, Sets):
        e = math.ceil(math.exp(m.spent))
        sets = designs.hadamard(k) if m.name == "hr" else designs.projective(designs.least_prime(e + 1), k)
        keep, size, messages = m.recipe.noise.threshold / 2**32, sets[0].sum(), sets.shape[1]
        for supported in np.unique(sets.T, axis=0):  # messages of equal values say the same
            yield keep / size * supported + (1 - keep) / messages, 1 / messages
        return
    if isinstance(m.recipe.noise, Subsets):  # every set of w values, by how it is drawn
        w = m.recipe.noise.size
        for members in combinations(range(k), w):
            own = np.isin(np.arange(k), members)
            yield np.where(own, p / math.comb(k - 1, w - 1), (1 - p) / math.comb(k - 1, w)), math.nan
        return
    assert isinstance(m.recipe.noise, Bits)
    for bits in product((0, 1), repeat=k):
        none = np.array([q if b else 1 - q for b in bits])
        own = np.array([p if b else 1 - p for b in bits])
        given = np.array([np.prod(np.where(np.arange(k) == v, own, none)) for v in range(k)])
        yield given, float(np.prod(none) if m.recipe.unsampled is Unsampled.ZERO else fakes @ given)


def enumerated(ms):
    """The loss over all reports and all pairs of users, by the number of attributes in which they differ."""
    d, others = len(ms), ms[0].recipe.unsampled
    users = list(product(*(range(m.k) for m in ms)))
    away = np.array([[sum(a != b for a, b in zip(x, z, strict=True)) for z in users] for x in users])
    worst = np.zeros(d)

    def see(probability):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(probability)[:, None] - np.log(probability)[None, :]
        for h in range(1, d + 1):
            worst[h - 1] = max(worst[h - 1], np.nanmax(ratio[away == h], initial=0.0))

    if others is Unsampled.NOTHING:
        for j, m in enumerate(ms):
            for given, _ in reports_of(m):
                see(np.array([given[x[j]] / d for x in users]))
        return worst
    for y in product(*(list(reports_of(m)) for m in ms)):
        if others is Unsampled.OWN:
            see(np.array([math.prod(y[j][0][v] for j, v in enumerate(x)) for x in users]))
        else:
            fake = [f for _, f in y]
            see(np.array([
                sum(y[t][0][x[t]] * math.prod(fake[:t] + fake[t + 1 :]) for t in range(d)) / d for x in users
            ]))  # fmt: skip
    return worst


def own_losses(ms):
    """Spl: attributes are independent, so each is enumerated on its own, and the worst set is the top m."""
    return np.cumsum(sorted((enumerated([m])[0] for m in ms), reverse=True))


def priors_of(domain, seed):
    draw = np.random.default_rng(seed)
    rows = [draw.dirichlet(np.full(k, 0.7)) for k in domain]
    return Prior.of(rows).thresholds(domain)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.slow
def test_loss_is_that_of_enumeration(protocol):
    for case in itertools.product(DOMAINS, GUARANTEES):
        domain, guarantee = case
        if protocol.endswith("olh") and len(domain) > 1 and guarantee == "attribute":
            continue  # too many hash functions
        epsilon = 0.4 + 0.3 * len(domain)
        priors = priors_of(domain, sum(domain)) if REGISTRY[protocol].prior else None
        ms = mechanisms(protocol, epsilon, domain, PrivacySettings(priors=priors, guarantee=guarantee))
        right = own_losses(ms) if ms[0].recipe.unsampled is Unsampled.OWN else enumerated(ms)
        assert losses(ms) == pytest.approx(right, abs=1e-9), case
        if priors is None:
            assert privacy_loss(protocol, epsilon, domain, guarantee) == pytest.approx(right, abs=1e-9), case


@pytest.mark.parametrize("protocol", ["spl-grr", "spl-oue", "spl-adp"])
def test_whole_reports_of_spl(protocol):
    ms = mechanisms(protocol, 2.0, (2, 3))
    assert losses(ms) == pytest.approx(enumerated(ms), abs=1e-9)


@pytest.mark.parametrize("protocol", [p for p in PROTOCOLS if REGISTRY[p].prior])
@pytest.mark.parametrize("seed", [pytest.param(s, marks=pytest.mark.slow if s > 2 else ()) for s in range(12)])
def test_random_priors_even_with_values_that_no_fake_has(protocol, seed):
    draw = np.random.default_rng(seed)
    domain = tuple(int(k) for k in draw.integers(2, 5, 3))
    rows = []
    for k in domain:
        weights = draw.gamma(0.5, size=k) * (draw.random(k) < 0.8)
        weights[draw.integers(k)] += 0.01
        rows.append(weights / weights.sum())
    settings = PrivacySettings(priors=Prior.of(rows).thresholds(domain))
    ms = mechanisms(protocol, float(draw.uniform(0.2, 3)), domain, settings)
    assert losses(ms) == pytest.approx(enumerated(ms), abs=1e-9)


def test_mixtures_of_different_strength():
    """Attributes of unequal budgets: the weaker ones must differ, too, and then the best report is another one."""
    for seed in range(20):
        draw = np.random.default_rng(seed)
        ms = []
        for k in draw.integers(2, 4, 3):
            entry = draw.choice(["rsrfd-grr", "rsrfd-oue-r", "rsfd-oue-z"])
            settings = PrivacySettings(priors=priors_of((int(k),) * 3, seed))
            ms.append(mechanisms(str(entry), float(draw.uniform(0.1, 2)), (int(k),) * 3, settings)[0])
        assert losses(ms) == pytest.approx(enumerated(ms), abs=1e-9), seed


def test_figures_of_the_mathematics():
    rows = [(0.05, 0.05, 0.9), (0.5, 0.5), (0.99, 0.01)]
    ms = mechanisms("rsrfd-grr", 1.0, (3, 2, 2), PrivacySettings(priors=Prior.of(rows).thresholds((3, 2, 2))))
    ratios = [Ratios.of(m) for m in ms]
    rest = ratios[1].shared + ratios[2].shared
    assert math.log((ratios[0].seen[0] + rest) / (ratios[0].against[0] + rest)) == pytest.approx(1.686, abs=5e-4)
    # the third attribute, with its rarer value, is the worst one
    assert privacy_loss("rsrfd-grr", 1.0, (3, 2, 2), prior=rows)[0] == pytest.approx(1.793, abs=5e-4)
    budget = math.log(10 * (math.e - 1) + 1)
    for protocol in ("rsfd-grr", "rsfd-oue-z", "rsfd-sue-z"):
        loss = privacy_loss(protocol, 1.0, (7,) * 10)
        assert loss[0] == pytest.approx(1, abs=1e-5)
        assert loss[-1] == pytest.approx(budget, abs=1e-5)
        assert loss[0] <= 1
        assert loss[-1] <= budget
    assert privacy_loss("rsfd-oue-r", 1.0, (7,) * 10)[0] > 1.5
    assert privacy_loss("spl-grr", 1.0, (7,) * 10) == pytest.approx(np.arange(1, 11) / 10, abs=1e-6)
    assert privacy_loss("smp-sue", 1.0, (7, 5)) == pytest.approx([1, 1], abs=1e-6)


def test_a_value_that_no_fake_has_gives_the_sampled_attribute_away():
    loss = privacy_loss("rsrfd-grr", 1.0, (3, 3), prior=[(0, 0.5, 0.5), (0.2, 0.3, 0.5)])
    assert loss[0] == pytest.approx(math.log(2 * (math.e - 1) + 1), abs=1e-6)


def test_a_thousand_attributes_of_any_size():
    domain = [2 + j % 300 for j in range(1000)]
    loss = privacy_loss("rsfd-adp", 1.0, domain)
    assert loss.shape == (1000,)
    assert loss.dtype == np.float64
    assert (np.diff(loss) > -1e-9).all()
    draw = np.random.default_rng(3)
    ms = mechanisms("rsfd-adp", 1.0, domain)
    ratios = [Ratios.of(m) for m in ms]
    for _ in range(50):  # no set of attributes is worse
        chosen = draw.random(1000) < draw.random()
        high = sum(r.seen[0] if c else r.shared for r, c in zip(ratios, chosen, strict=True))
        low = sum(r.against[0] if c else r.shared for r, c in zip(ratios, chosen, strict=True))
        if chosen.any():
            assert math.log(high / low) <= loss[chosen.sum() - 1] + 1e-12
    assert len(Likelihoods.of(ms).count) < 1000


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("epsilon", [30.0, 37.0, 75.0, 300.0])
def test_no_report_is_ever_certain(epsilon, guarantee):
    """However large epsilon is, the thresholds stay short of 2**32, 2**24 and 0, and so the loss stays finite."""
    for protocol in PROTOCOLS:
        ms = mechanisms(protocol, epsilon, (2, 4), PrivacySettings(guarantee=guarantee))
        for noise in (m.recipe.noise for m in ms):
            if isinstance(noise, (Keep, Sets)):
                assert noise.threshold <= 2**32 - 1, protocol
            elif isinstance(noise, Subsets):
                assert 1 <= noise.tp <= 2**24 - 1, protocol
            else:
                assert 1 <= noise.tq < noise.tp <= 2**24 - 1, protocol
        assert 1 < losses(ms)[0] <= losses(ms)[-1] < math.inf, protocol
    rows = [(0.0, 1.0, 0.0), (0.5, 0.5, 0.0)]  # values that no fake has
    assert np.isfinite(privacy_loss("rsrfd-sue-r", epsilon, (3, 3), prior=rows)).all()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["rsfd-adp", "own"])
def test_the_attribute_budget_is_the_largest_one(protocol):
    """No budget of a fine grid above the one that is found keeps the loss: adaptive choices switch in between."""
    if protocol == "own":
        protocol = gpu_rsfd.protocol("own", adaptive=("rsfd-sue-z", "rsfd-grr"))
    draw = np.random.default_rng(11)
    domains = [(4, 5, 7, 5), *(tuple(draw.integers(2, 12, draw.integers(2, 6)).tolist()) for _ in range(12))]
    settings = PrivacySettings(guarantee="attribute")
    for domain in domains:
        epsilon = math.log(7) if domain == domains[0] else float(draw.uniform(0.2, 3))
        found = mechanisms(protocol, epsilon, domain, settings)[0].budget
        entry, d = as_protocol(protocol), len(domain)
        for e in np.linspace(found * (1 + 1e-6), 3 * found, 60):
            ms = [_built(entry, float(e), float(e), d, k, None, None) for k in domain]
            assert losses(ms, [1])[0] > epsilon, (domain, epsilon, found, e)


def test_the_attribute_budget_of_the_audit():
    ms = mechanisms("rsfd-adp", math.log(7), (4, 5, 7, 5), PrivacySettings(guarantee="attribute"))
    assert ms[0].budget == pytest.approx(3.0856, abs=1e-4)


def test_switches_of_an_adaptive_choice_are_all_found():
    """RS+FD: the roots of a quadratic in e^e - 1, up to two of them, however near to each other."""
    ways = REGISTRY["rsfd-adp"].variants
    close = 0
    for d in (2, 20, 5000):
        for k in (2, 3, 4, 5, 6, 7, 12, 41, 1000, 20_000):
            # (d k + (d - 1) u)(d k (k - 1) + (d k - d + 1) u) - 4 d^2 k^2 (u + 1), u = e^e - 1
            a, b = (d - 1) * (d * k - d + 1), d * k * (d * k - d + 1) + (d - 1) * d * k * (k - 1) - 4 * d * d * k * k
            roots = np.roots([a, b, d * d * k * k * (k - 5)])
            real = sorted(math.log1p(u.real) for u in roots if abs(u.imag) < 1e-12 and u.real > 1e-5)
            assert switches(ways, d, k) == pytest.approx(real, rel=1e-5), (d, k)
            close += len(real) == 2 and real[1] / real[0] < 1.1
    assert close > 0


@pytest.mark.slow
@pytest.mark.parametrize("domain", [(10,) * 10, (2, 3, 50, 7), (3, 5, 4, 4, 3, 2, 3, 3, 5), (8,)])
@pytest.mark.parametrize("epsilon", [0.1, math.log(2), math.log(7), 5.0])
def test_the_attribute_guarantee_holds_and_is_used_up(epsilon, domain):
    for protocol in (p for p in PROTOCOLS if p.startswith("rs")):
        priors = priors_of(domain, 5) if REGISTRY[protocol].prior else None
        settings = PrivacySettings(priors=priors, guarantee="attribute")
        ms = mechanisms(protocol, epsilon, domain, settings)
        share = 0.5 if REGISTRY[protocol].memoised else 1
        assert losses(ms, [1])[0] <= epsilon * share, protocol
        if not REGISTRY[protocol].adaptive:  # an adaptive choice may jump over it
            assert losses(ms, [1])[0] == pytest.approx(epsilon * share, rel=1e-3, abs=1e-5), protocol
        assert len({m.budget for m in ms}) == 1, protocol
        assert mechanisms(protocol, epsilon, domain, settings) == ms


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_user_guarantee_holds(protocol):
    for epsilon in (0.5, 2.0):
        assert max(privacy_loss(protocol, epsilon, (2, 5, 33), "user")) <= epsilon + 1e-12


@pytest.mark.parametrize("protocol", [p for p in PROTOCOLS if p[0] == "s" and not p.endswith(("the", "published"))])
def test_the_attribute_guarantee_of_spl_and_smp(protocol):
    loss = privacy_loss(protocol, 1.5, (4, 4, 9), "attribute")
    share = 0.5 if REGISTRY[protocol].memoised else 1
    assert loss[0] == pytest.approx(1.5 * share, rel=1e-3)
    assert loss[-1] == pytest.approx(1.5 * share * (1 if REGISTRY[protocol].partial else 3), rel=1e-3)


def test_the_paper_is_the_default():
    for protocol in PROTOCOLS:
        assert mechanisms(protocol, 1.0, (4, 9)) == mechanisms(
            protocol, 1.0, (4, 9), PrivacySettings(guarantee="paper")
        )


@pytest.mark.parametrize(
    "arguments,words",
    [
        (("rsfd-gr", 1.0, (3, 3)), "unknown protocol"),
        (("rsfd-grr", -1.0, (3, 3)), "epsilon=-1.0"),
        (("rsfd-grr", 1.0, (3, 1)), r"domain\[1\]=1"),
        (("rsfd-grr", 1.0, (3, 3), "best"), "unknown guarantee 'best'; available: paper, user, attribute"),
        (("rsfd-grr", 1.0, (3, 3), "paper", "zipf:1"), "is for RS"),
        (("rsrfd-grr", 1.0, (3, 3), "paper", "true"), "depends on the data"),
    ],
)
def test_bad_input_is_one_clear_line(arguments, words):
    with pytest.raises(InputError, match=words) as caught:
        privacy_loss(*arguments)
    assert "\n" not in str(caught.value)


def test_it_is_public():
    assert gpu_rsfd.privacy_loss is privacy_loss


# ------------------------------------------------------------------------------------------- what rounding adds


def bound(k, w):
    """What docs/privacy.md says that the rounding of subset selection adds to its loss."""
    return (k * (2 + math.log(w)) + w * math.log(k)) / (2**24 - k)


def taken_one_by_one(inside, size):
    """P(a set of the others), by their order: a value is taken if U left < needed 2**24, with U of 24 digits."""
    share, needed = 1.0, size
    for left, member in zip(range(len(inside), 0, -1), inside, strict=True):
        take = -(-needed * 2**24 // left) / 2**24
        share *= take if member else 1 - take
        needed -= member
    return share


@pytest.mark.parametrize("k,epsilon", [(7, 1.0), (9, 0.5), (12, 2.0)])
def test_what_the_rounding_of_subsets_adds(k, epsilon):
    """Every set, for every value that is held."""
    (m,) = mechanisms("spl-ss", epsilon, (k,))
    noise = m.recipe.noise
    worst = 0.0
    for members in combinations(range(k), noise.size):
        inside = [int(v in members) for v in range(k)]
        given = [
            (noise.p(k) if inside[v] else 1 - noise.p(k))
            * taken_one_by_one(inside[:v] + inside[v + 1 :], noise.size - inside[v])
            for v in range(k)
        ]
        worst = max(worst, math.log(max(given) / min(given)))
    assert m.loss < worst < m.loss + bound(k, noise.size)


@pytest.mark.slow
@pytest.mark.parametrize("k,w", [(100, 33), (1000, 1), (1000, 10), (1000, 333), (20_000, 1), (20_000, 30)])
def test_the_rounding_of_subsets_is_bounded(k, w):
    """The most that any set of w - 1 others can gain and any of w can lose, step by step."""

    def extreme(others, size, choose, none):
        best = np.full(size + 1, none)
        best[0] = 0.0
        for left in range(1, others + 1):
            needed = np.arange(min(size, left) + 1)
            take = -(-needed * 2**24 // left)
            with np.errstate(divide="ignore", invalid="ignore"):
                out = best[needed] + np.log((2**24 - take) / (2**24 - needed * 2**24 / left))
                gain = np.log(take * left / (needed * 2**24))
            out[needed == left] = none
            best[1 : len(needed)] = choose(best[needed[1:] - 1] + gain[1:], out[1:])
        return best[size]

    most = (extreme(k - 1, w - 1, np.maximum, -np.inf) if w > 1 else 0.0) - extreme(k - 1, w, np.minimum, np.inf)
    assert 0 < most < bound(k, w)
    assert most > bound(k, w) / 8  # not much too careful


@pytest.mark.parametrize(
    "name,k,epsilon", [("grr", 60_000, 8.0), ("pgr", 3000, 2.0), ("pgr", 1000, 4.0), ("hr", 1000, 1.0)]
)
def test_what_the_rounding_of_uniform_messages_adds(name, k, epsilon):
    """Message number i of M is sent for the words y with y M >> 32 = i."""
    (m,) = mechanisms(f"spl-{name}", epsilon, (k,))
    noise = m.recipe.noise
    keep, messages = noise.threshold / 2**32, noise.messages(k)

    def dealt(count):
        edges = -(-np.arange(count + 1, dtype=object) * 2**32 // count)
        return np.diff(edges).astype(float) / 2**32

    own = 1.0 if name == "grr" else dealt(noise.design.size).max()
    worst = math.log1p(keep * own / ((1 - keep) * dealt(messages).min()))
    assert m.loss - 1e-12 <= worst < m.loss + 2 * messages / 2**32
    assert (worst > m.loss + 1e-12) == (name != "hr")
