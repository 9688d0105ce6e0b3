"""Every number of a recommendation, against an independent calculation: simulated errors and attacks, closed forms."""

import math
import re
from statistics import NormalDist

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.datasets.base import publishable
from gpu_rsfd.errors import InputError
from gpu_rsfd.planning import Plan
from gpu_rsfd.theory import words
from gpu_rsfd.theory.attacked import guessed

NORMAL = NormalDist()
DOMAIN, NAMES = (2, 12, 40), ("sex", "ward", "city")
ZIPF = [np.arange(1, k + 1) ** -s / (np.arange(1, k + 1) ** -s).sum() for k, s in ((2, 0.5), (12, 1.0), (40, 1.5))]


def people(n=6000, frequencies=ZIPF):
    """Users whose counts are as near to these frequencies as whole numbers allow."""
    codes = np.empty((n, len(frequencies)), int)
    for j, f in enumerate(frequencies):
        edges = np.rint(np.cumsum(f) * n).astype(int)
        codes[:, j] = np.random.default_rng(j).permutation(np.repeat(np.arange(len(f)), np.diff(edges, prepend=0)))
    return gpu_rsfd.Dataset(codes, [len(f) for f in frequencies], names=NAMES[: len(frequencies)], name="people")


def shares_within(data, decision, margins, repetitions=200, **more):
    """[repetition, column]: the share of a column's simulated estimates that are within its margin."""
    result = gpu_rsfd.simulate(
        data,
        protocols=decision.protocol,
        epsilons=decision.epsilon,
        repetitions=repetitions,
        guarantee=decision.guarantee,
        sampler="counts",
        workers=1,
        **more,
    )
    away = np.abs(result.estimates()[0, 0] - data.frequencies)
    slices = data.domain.slices
    return np.stack([(away[:, s] <= m).mean(axis=1) for s, m in zip(slices, margins, strict=True)], axis=1)


def off(shares):
    """How far the mean shares are from 95 %, beyond 0.3 % for errors that are not quite normal, in standard errors."""
    error = shares.std(axis=0, ddof=1) / math.sqrt(len(shares))
    return np.maximum(abs(shares.mean(axis=0) - 0.95) - 0.003, 0) / error


@pytest.mark.parametrize("protocols", ["smp-adp", "rsfd-adp", "spl-adp", "rsfd-grr"])
def test_simulated_estimates_are_within_the_stated_margins(protocols):
    """In the stated share of cases; 5.2 standard errors are a false alarm in 2e-7."""
    data = people()
    (decision,) = gpu_rsfd.plan(data, protocols=protocols, epsilons=2.0, attack=False).decisions
    assert len(decision.columns) == 3
    if decision.protocol == "":  # nothing is useful; the margins hold all the same
        decision = gpu_rsfd.plan(data, protocols=protocols, epsilons=2.0, attack=False, target=0.9).decisions[0]
    margins = [column.margin for column in decision.columns]
    assert (off(shares_within(data, decision, margins)) < 5.2).all()
    assert (off(shares_within(data, decision, [0.9 * margin for margin in margins])) > 5.2).any()  # the check can fail


def test_margins_are_those_of_normal_errors_with_the_exact_variance():
    """One column of two values: both have the same error, so the margin is 1.96 of it; clipping cuts the lower side."""
    n, f = 5000, np.array([0.01, 0.99])
    data = gpu_rsfd.CountedDataset(n, (2,), [f])
    options = {"protocols": "smp-grr", "epsilons": 1.0, "guarantee": "user", "attack": False}
    (column,) = gpu_rsfd.plan(data, **options).columns
    p = math.e / (math.e + 1)
    deviation = math.sqrt(p * (1 - p) / n) / (2 * p - 1)  # of a report of either value, the users kept
    assert column.margin == pytest.approx(NORMAL.inv_cdf(0.975) * deviation, rel=1e-4)
    assert column.rmse == pytest.approx(deviation, rel=1e-4)
    m = gpu_rsfd.plan(data, postprocess="clip", **options).columns[0].margin
    both = 2 * NORMAL.cdf(m / deviation) - 1
    assert (NORMAL.cdf(m / deviation) + both) / 2 == pytest.approx(0.95, abs=1e-5)  # the first never ends below 0
    (population,) = gpu_rsfd.plan(data, against="population", **options).columns
    assert population.margin == pytest.approx(1.959964 * math.sqrt(deviation**2 + 0.01 * 0.99 / n), rel=1e-4)


def test_values_that_cannot_be_distinguished_from_zero():
    """Of each value alone: its frequency is below 1.96 of its own standard error; what nobody has does not count."""
    data = people(frequencies=[ZIPF[0], np.append(ZIPF[1], 0.0), ZIPF[2]])
    (decision,) = gpu_rsfd.plan(data, protocols="smp-adp", epsilons=1.0, attack=False).decisions
    ms = gpu_rsfd.mechanisms("smp-adp", 1.0, data.domain, gpu_rsfd.PrivacySettings(guarantee="user"))
    for j, (column, part) in enumerate(zip(decision.columns, data.domain.slices, strict=True)):
        f = data.frequencies[part]
        unseen = (f > 0) & (f < 1.959964 * np.sqrt(ms[j].fixed_variance(f, data.n)))
        assert column.hidden == unseen.sum()
        assert column.held == (f > 0).sum()
    assert decision.columns[2].hidden > 20


def asked_instead(f, squared, n):
    """People who, asked without privacy, would give this summed squared error against the population."""
    return (f * (1 - f)).sum() / (squared + (f * (1 - f)).sum() / n)


def test_a_column_is_useful_if_it_tells_as_much_as_a_survey_of_100_people():
    data = people(n=1500)
    (decision,) = gpu_rsfd.plan(data, epsilons=[0.5, 2.0], attack=False).decisions
    f_all = publishable(data.counts, data.domain)
    ms = gpu_rsfd.mechanisms(
        decision.protocol, decision.epsilon, data.domain, gpu_rsfd.PrivacySettings(guarantee="user")
    )
    for column, part, m in zip(decision.columns, data.domain.slices, ms, strict=True):
        f, variance = f_all[part], m.fixed_variance(f_all[part], data.n)
        assert column.rmse == pytest.approx(np.sqrt(variance.mean()))
        assert column.survey == pytest.approx(asked_instead(f, variance.sum(), data.n))
        assert column.seen == pytest.approx(f[f >= 1.959964 * np.sqrt(variance)].sum())
        assert column.useful == (column.survey >= 100 or column.margin <= 0.01)
    out = [column for column in decision.columns if not column.useful]
    assert [column.name for column in out] == ["ward", "city"]
    for column in out:
        digits = max(len(str(column.users_needed)) - 2, 0)
        needed = math.ceil(column.users_needed / 10**digits) * 10**digits
        said = f"± {words.points(column.margin)} points, as asking {math.floor(column.survey)} people"
        assert f"{column.name} ({said}; useful from about {needed:,} users on)" in decision.left_out
    alone = gpu_rsfd.plan(people(1500, ZIPF[:1]), protocols=decision.protocol, epsilons=decision.epsilon, attack=False)
    (margin,) = (words.points(column.margin) for column in alone.columns)
    assert f"without collecting them, the widest margin would be ± {margin} points, not" in decision.left_out
    same = {"protocols": decision.protocol, "epsilons": decision.epsilon, "attack": False}
    at = [gpu_rsfd.plan(data, users=out[0].users_needed + i, **same).columns[1] for i in (-1, 0)]
    assert [column.useful for column in at] == [False, True]
    more = gpu_rsfd.plan(data, survey=max(c.survey for c in decision.columns) + 1, **same)
    assert not more.decisions[0].useful


def test_a_survey_without_privacy_is_as_accurate():
    """Simulated: m people drawn from the population, and n users of the same population with privacy."""
    n, f, runs = 4000, np.array([0.6, 0.3, 0.1]), 4000
    draw = np.random.Generator(np.random.Philox(28))
    (column,) = gpu_rsfd.plan(
        gpu_rsfd.CountedDataset(n, (3,), [f]), protocols="smp-grr", epsilons=1.0, attack=False
    ).columns
    p = (math.e + 0.0) / (math.e + 2)
    q = (1 - p) / 2
    holders = draw.multinomial(n, f, runs)
    sent = sum(
        draw.multinomial(holders[:, v], [p if w == v else q for w in range(3)]) for v in range(3)
    )  # [run, value]
    errors = (((sent / n - q) / (p - q) - f) ** 2).sum(axis=1)
    asked = ((draw.multinomial(round(column.survey), f, runs) / round(column.survey) - f) ** 2).sum(axis=1)

    def off(a, b):
        return abs(a.mean() - b.mean()) / math.hypot(a.std() / math.sqrt(runs), b.std() / math.sqrt(runs))

    assert off(errors, asked) < 5.2
    assert off(1.2 * errors, asked) > 5.2  # the check can fail
    assert column.survey < n


@pytest.mark.parametrize("f,n,useful", [
    ([0.9, 0.1], 10, False),  # ten users, whatever epsilon is
    ([0.999, 0.001], 100_000, True),  # fewer than 100 people, but to a point
    ([1.0, 0.0], 100_000, True),  # all users hold one value: to a point, and there is no survey to compare with
    ([1.0, 0.0], 100, False),
])  # fmt: skip
def test_useful_at_the_edges(f, n, useful):
    data = gpu_rsfd.CountedDataset(n, (2,), [np.array(f)])
    (decision,) = gpu_rsfd.plan(data, protocols="smp-grr", epsilons=3.0, attack=False).decisions
    (column,) = decision.columns
    assert column.useful is useful
    assert math.isnan(column.survey) == (f[1] == 0)
    assert ("all users hold one value" in str(decision)) == (f[1] == 0)
    assert column.survey <= n or f[1] == 0


def test_the_chance_of_no_report_belongs_to_it():
    """20 users, 40 columns: 0.975^20 of the columns get no report with Smp, so no margin holds for 95 %."""
    (decision,) = gpu_rsfd.plan(
        gpu_rsfd.CountedDataset(20, (2,) * 40, [[0.5, 0.5]] * 40), protocols="smp-grr", epsilons=8.0, attack=False
    ).decisions
    assert not decision.useful
    assert decision.columns[0].silent == pytest.approx(0.975**20)
    assert decision.columns[0].margin == math.inf
    assert f"nobody reports it with a chance of {math.floor(100 * 0.975**20)} %" in decision.sentences[1]


def test_every_protocol_is_asked_at_every_epsilon():
    """One with a larger error may make more columns useful."""
    data = gpu_rsfd.CountedDataset(4000, (2, 3000), [[0.5, 0.5], np.full(3000, 1 / 3000)])
    options = {"protocols": ["spl-oue", "smp-oue", "smp-grr", "spl-grr"], "attack": False}
    (decision,) = gpu_rsfd.plan(data, epsilons=[0.5, 1.0, 2.0], **options).decisions
    for epsilon in (0.5, 1.0, 2.0):
        useful = [
            len(gpu_rsfd.plan(data, protocols=p, epsilons=epsilon, attack=False).decisions[0].useful)
            for p in options["protocols"]
        ]
        assert (max(useful) >= len(decision.useful)) == (epsilon >= decision.epsilon)


def test_nothing_is_useful():
    data = people(n=40)
    found = gpu_rsfd.plan(data, epsilons=0.2, protocols=["spl-adp"])
    (decision,) = found.decisions
    assert decision.protocol == ""
    assert not decision.useful
    assert "no column is worth collecting from 40 users" in decision.sentences[0]
    needed = min(column.users_needed for column in decision.columns)
    assert f"useful from {words.about(needed)} users on" in decision.sentences[1]


@pytest.mark.parametrize("number,shown", [(7, "7"), (119, "120"), (2_250, "2,300"), (3_372_113, "3.4 million"),
                                          (12_300_001, "13 million"), (9_990_000_000, "10 billion")])  # fmt: skip
def test_uncertain_numbers_are_rounded_up(number, shown):
    assert words.about(number) == f"about {shown}"


def test_the_smallest_epsilon_and_the_smallest_number_of_users_for_a_target():
    data, target = people(20_000), {"sex": 0.02, "city": 0.02}
    found = gpu_rsfd.plan(data, protocols=["smp-adp", "spl-adp"], target=target, attack=False)
    (decision,) = found.decisions
    assert decision.reached
    before = round(decision.epsilon - 0.01, 6)  # of three digits
    assert f"{before:g}" in found.sentences[0]
    assert len(f"{decision.epsilon:g}") == 4
    just = gpu_rsfd.plan(data, protocols=["smp-adp", "spl-adp"], target=target, attack=False, epsilons=before)
    assert just.decisions[0].reached is False
    margins = {column.name: column.margin for column in decision.columns}
    assert margins["sex"] <= 0.02
    assert margins["city"] <= 0.02
    less = gpu_rsfd.plan(data, protocols=["smp-adp", "spl-adp"], target=target, attack=False,
                         epsilons=0.99 * decision.epsilon)  # fmt: skip
    assert less.decisions[0].reached is False
    needed = less.decisions[0].users_needed
    assert f"it comes closest to the target, which takes {words.about(needed)} users, not 20,000" in less.sentences[0]
    assert needed == min(row.users_needed for row in less)
    never = gpu_rsfd.plan(data, users=40, protocols="smp-adp", target="0.1%", attack=False)
    assert ": epsilon = 20 does not reach the target either; of what was tried, it comes closest" in never.sentences[0]
    for n, reached in ((needed - 1, False), (needed, True)):
        again = gpu_rsfd.plan(data, users=n, protocols=["smp-adp", "spl-adp"], target=target, attack=False,
                              epsilons=0.99 * decision.epsilon)  # fmt: skip
        assert again.decisions[0].reached is reached
    text = gpu_rsfd.plan(data, protocols=["smp-adp", "spl-adp"], target="sex=2%,city=0.02", attack=False)
    assert text.decisions == found.decisions


def test_the_smallest_error_and_the_smallest_epsilon_are_recommended():
    data = people()
    found = gpu_rsfd.plan(data, attack=False)
    (decision,) = found.decisions
    (row,) = (row for row in found if (row.protocol, row.epsilon) == (decision.protocol, decision.epsilon))
    here = [row for row in found if row.epsilon == decision.epsilon]
    assert min(here, key=lambda row: row.mse).protocol == decision.protocol
    smaller = [epsilon for epsilon in gpu_rsfd.PAPER_EPSILONS if epsilon < decision.epsilon]
    for epsilon in smaller:  # some column is useless there with every protocol
        for protocol in gpu_rsfd.PAPER:
            other = gpu_rsfd.plan(data, protocols=protocol, epsilons=epsilon, attack=False).decisions[0]
            assert len(other.useful) < 3
    assert row.column_rmse == pytest.approx([c.rmse for c in decision.columns])
    for column in decision.columns:
        best = min(here, key=lambda row: row.column_rmse[data.names.index(column.name)])
        assert column.best == best.protocol


def test_what_is_guessed_is_what_is_sent():
    """Smp[GRR]: of those who send a column; not diluted by the others."""
    plan = Plan.of(DOMAIN, ["smp-grr"], [2.0])
    found = guessed(plan, np.concatenate(ZIPF))
    for j, f in enumerate(ZIPF):
        p = math.exp(2) / (math.exp(2) + len(f) - 1)
        table = np.where(np.eye(len(f)), p, (1 - p) / (len(f) - 1)) * f  # [report, value]
        assert found[0, 0].values[j] == pytest.approx(table.max(axis=1).sum(), rel=1e-6)
        assert found[0, 0].baselines[j] == f.max()


def test_the_sentences_are_computed():
    data = people()
    found = gpu_rsfd.plan(data)
    (decision,) = found.decisions
    which, accurate, risky, _ = found.sentences
    epsilon = f"ln {math.exp(decision.epsilon):.0f} ({decision.epsilon:.2f})"
    assert which.startswith(f"Use {decision.label} with epsilon = {epsilon} under the guarantee user (epsilon limits")
    for column in decision.useful:
        assert f"{column.name} ± {words.points(column.margin)} points" in accurate
        seen = f"({column.values - column.hidden} of {column.values} values can be distinguished from zero, those of "
        assert (f"{seen}{math.floor(100 * column.seen)} % of users)" in accurate) == bool(column.hidden)
        asked = math.floor(column.survey / 10) * 10  # of three digits
        assert f", as asking {asked} people" in accurate or f"as accurate as asking {asked} people" in accurate
    gains = {column.name: column.guessed - column.guessed_baseline for column in decision.columns}
    name, share, before = re.search(
        r"guesses a user's (\w+), if it is the column that is sent, right ([\d.]+) % of the time instead of ([\d.]+) %",
        risky,
    ).groups()
    assert name == max(gains, key=gains.get)
    (column,) = (column for column in decision.columns if column.name == name)
    assert (float(share), float(before)) == pytest.approx(
        (100 * column.guessed, 100 * column.guessed_baseline), abs=0.51
    )
    assert f"by a factor of at most {math.exp(decision.epsilon):.1f}" in risky
    twice = gpu_rsfd.plan(data, users=2 * data.n, protocols=decision.protocol, epsilons=decision.epsilon, attack=False)
    name, now, then = re.search(r"that of (\w+), from ± ([\d.]+) to ± ([\d.]+) points", decision.more).groups()
    at = list(data.names).index(name)
    assert now == words.points(decision.columns[at].margin) == words.points(max(c.margin for c in decision.useful))
    assert then == words.points(twice.columns[at].margin)
    assert str(found) == "\n".join(filter(None, [*found.sentences, decision.more, decision.left_out]))


@pytest.mark.parametrize("share,shown", [
    (0.0123, "1.3"), (0.012, "1.2"), (0.1201, "12.1"), (0.00041, "0.041"), (0.0, "0"), (0.0996, "10.0"),
    (0.00996, "1.0"), (1.5501, "156"), (math.nan, "?"),
])  # fmt: skip
def test_points_are_rounded_up(share, shown):
    assert words.points(share) == shown


@pytest.mark.parametrize("loss,shown", [(0.1, "1.11"), (math.log(2), "2.0"), (1.0, "2.8"), (5.0, "149"),
                                        (30.0, "more than a billion"), (math.inf, "more than a billion")])  # fmt: skip
def test_odds_are_rounded_up(loss, shown):
    assert words.factor(loss) == shown


@pytest.mark.parametrize("target,found", [
    (None, {}),
    (0.01, {0: 0.01, 1: 0.01}),
    ("1%", {0: 0.01, 1: 0.01}),
    ("b, c=2%", {1: 0.02}),
    ("2%,a=1%", {0: 0.01, 1: 0.02}),
    ({"a": "3%"}, {0: 0.03}),
])  # fmt: skip
def test_targets(target, found):
    data = gpu_rsfd.SyntheticDataset(100, (2, 3), names=["a", "b, c"])
    columns = gpu_rsfd.plan(data, epsilons=1.0, target=target, attack=False).columns
    assert {j: column.target for j, column in enumerate(columns) if column.target} == pytest.approx(found)


@pytest.mark.parametrize("target,message", [
    ("c=1%", "unknown column 'c' of target"),
    ("a=0", "target=a=0 must be above 0 and below 100 %"),
    ("120%", "target=120% must be above 0 and below 100 %"),
    ("a=x", "target=a=x must be above 0"),
    ("a=0.1", "target=a=0.1 may mean 10 points or 0.1 %; give a=10% or a=0.1%"),
    ("0.5", "target=0.5 may mean 50 points or 0.5 %; give 50% or 0.5%"),
    ("a=1%,a=2%", "names 'a' twice"),
    ("1%,2%", "names every column twice"),
    ("", "target='' is empty"),
    (True, "target=True must be above 0"),
])  # fmt: skip
def test_bad_targets(target, message):
    with pytest.raises(InputError, match=re.escape(message)):
        gpu_rsfd.plan(gpu_rsfd.SyntheticDataset(100, (2, 3), names=["a", "b, c"]), target=target, attack=False)


def table_of(n, **columns):
    """A table of one's own: how many users hold each value, by column."""
    codes = [np.repeat(np.arange(len(counts)), list(counts.values())) for counts in columns.values()]
    labels = [list(counts) for counts in columns.values()]
    return gpu_rsfd.Dataset(np.stack(codes, 1), [len(row) for row in labels], [*columns], "clinic", labels)


CLINIC = {"HIV": {"no": 4998, "yes": 2}, "sex": {"f": 2600, "m": 2400}}


@pytest.mark.parametrize("protocol,epsilon", [("smp-grr", 2.0), ("spl-grr", 2.0), ("rsfd-grr", 2.0), ("smp-grr", 5.0)])
def test_how_far_a_report_raises_the_probability_of_a_rare_value(protocol, epsilon):
    """Of two users among 5,000 it is said that they are at most ten."""
    data = table_of(5000, **CLINIC)
    found = gpu_rsfd.plan(data, protocols=protocol, epsilons=epsilon, attack=False, sensitive="HIV=yes")
    risky = found.sentences[2] if found.decisions[0].protocol else str(found)
    loss = gpu_rsfd.privacy_loss(protocol, epsilon, data.domain, guarantee="user")
    f = 10 / 5000
    every, alone = (100 * f * math.exp(e) / (1 + f * (math.exp(e) - 1)) for e in (loss[-1], loss[0]))
    if "no column is worth" in risky:
        assert found.decisions[0].raised == pytest.approx(every / 100)
        return
    before, after = re.search(
        r"raise the probability of HIV = yes from at most ([\d.]+) % to at most ([\d.]+) %", risky
    ).groups()
    assert (float(before), float(after)) == pytest.approx((0.2, every), rel=0.05)
    hints = re.search(r" \(([\d.]+) % if no other column tells anything about it\)\.$", risky)
    assert (hints is None) == (alone > 0.999 * every)
    assert hints is None or float(hints[1]) == pytest.approx(alone, rel=0.05)
    assert ("weak protection: what was 5 % likely can become 88.7 % likely" in risky) == (epsilon == 5)
    assert "every further report, say each month, costs as much again" in risky


def test_the_rarest_value_is_meant_unless_another_one_is():
    data = table_of(900, blood={"0": 500, "A": 300, "AB": 100}, eye={"blue": 850, "red": 50})
    told = gpu_rsfd.plan(data, protocols="smp-grr", epsilons=3.0, attack=False)
    assert "the probability of eye = red from 5.6 % to at most" in str(told)
    other = gpu_rsfd.plan(data, protocols="smp-grr", epsilons=3.0, attack=False, sensitive="blood=AB")
    assert "the probability of blood = AB from 11.2 % to at most" in str(other)
    with pytest.raises(InputError, match="sensitive=blood=B names no value of a column; one such as blood=0 is needed"):
        gpu_rsfd.plan(data, sensitive="blood=B")
    nobody = table_of(5000, HIV={"no": 5000, "yes": 0}, sex={"f": 2600, "m": 2400})  # or is there somebody?
    bounded = gpu_rsfd.plan(nobody, protocols="smp-grr", epsilons=3.0, attack=False, sensitive="HIV=yes")
    assert "the probability of HIV = yes from at most 0.20 % to at most 3.9 %" in str(bounded)
    people = [f"{i}@example.org" for i in range(900)]
    mails = gpu_rsfd.Dataset(np.stack([np.arange(900), np.arange(900) % 2], 1), (900, 2), ["mail", "sex"], "mails",
                             [people, ["f", "m"]])  # fmt: skip
    assert "example.org" not in str(gpu_rsfd.plan(mails, protocols="smp-grr", epsilons=8.0, attack=False))


def test_no_number_tells_how_many_hold_a_rare_value():
    """Tables with two, five and nine of 5,000 users give the same plan, down to its JSON."""
    plans = []
    for rare in (2, 5, 9):
        columns = {**CLINIC, "HIV": {"no": 5000 - rare, "yes": rare}}
        data, draw = table_of(5000, **columns), np.random.default_rng(7)
        mixed = [draw.permutation(data.column(j, 0, data.n)) for j in range(2)]
        data = gpu_rsfd.Dataset(np.stack(mixed, 1), (2, 2), data.names, "clinic", data.labels)
        found = gpu_rsfd.plan(data, protocols=["smp-grr", "spl-oue"], epsilons=[1.0, 4.0], sensitive="HIV=yes")
        plans.append((str(found), list(found), found.decisions))
        hidden = gpu_rsfd.plan(data, protocols="rsfd-grr", epsilons=4.0)
        assert hidden.columns[0].guessed_baseline == pytest.approx(0.998)
        assert hidden[0].value_baseline == pytest.approx((0.998 + 0.52) / 2)
    assert plans[0][0] == plans[1][0] == plans[2][0]
    assert plans[0][2] == plans[1][2] == plans[2][2]
    assert repr(plans[0][1]) == repr(plans[1][1]) == repr(plans[2][1])
    more = table_of(5000, **{**CLINIC, "HIV": {"no": 4900, "yes": 100}})
    assert (
        str(gpu_rsfd.plan(more, protocols=["smp-grr", "spl-oue"], epsilons=[1.0, 4.0])) != plans[0][0]
    )  # it can differ


@pytest.mark.parametrize("protocol", ["smp-grr", "spl-oue", "rsfd-grr", "rsfd-oue-z"])
def test_what_one_percent_of_liars_can_move(protocol):
    """Honest users simulated, liars who all send what supports one value; with Smp all of one column."""
    n, d, k, epsilon, runs = 20_000, 3, 4, 4.0, 1000
    f = np.array([0.55, 0.25, 0.15, 0.05])
    data = gpu_rsfd.CountedDataset(n, (k,) * d, [f] * d)
    (decision,) = gpu_rsfd.plan(data, protocols=protocol, epsilons=epsilon, attack=False).decisions
    ms = gpu_rsfd.mechanisms(protocol, epsilon, data.domain, gpu_rsfd.PrivacySettings(guarantee="user"))
    draw, m, liars, found = np.random.Generator(np.random.Philox(3)), ms[0], n // 100, []
    honest = n - liars
    for _ in range(runs):
        size = draw.binomial(honest, 1 / d) if protocol.startswith("smp") else honest
        holders = draw.binomial(size, f[-1])
        named = draw.binomial(holders, m.base + m.gain) + draw.binomial(size - holders, m.base) + liars
        found.append(((named / (size + liars) - m.base) / m.gain) - f[-1])
    rise, error = np.mean(found), np.std(found) / math.sqrt(runs)
    assert abs(decision.columns[0].lie - rise) < 5.2 * error
    assert abs(0.8 * decision.columns[0].lie - rise) > 5.2 * error  # the check can fail
    said = words.points(decision.columns[0].lie)
    together = (
        "If 1 % of the users lie, and all of them send A1, they can raise the share of one of its values by up to"
    )
    apart = "If 1 % of the users lie, they can raise the share of a value of A1 by up to"
    assert decision.sentences[3].startswith(f"{together if protocol.startswith('smp') else apart} {said} points")
    assert ("one in each other column at the same time" in decision.sentences[3]) != protocol.startswith("smp")


def recomputed(data, decision):
    """Margin, survey and users seen of Smp[GRR] by a few lines of their own: [column]."""
    z, found, d, n = 1.959964, [], data.d, data.n
    for columns in data.domain.slices:
        f, k = publishable(data.counts, data.domain)[columns], columns.stop - columns.start
        p = math.exp(decision.epsilon) / (math.exp(decision.epsilon) + k - 1)
        q = (1 - p) / (k - 1)
        m = np.arange(1, n + 1)
        logs = np.cumsum(np.log(np.arange(n, 0, -1.0))) - np.cumsum(np.log(m)) + m * math.log(1 / d)
        weights = np.exp(logs + (n - m) * math.log1p(-1 / d))  # of m reports of the column
        inverse = (weights / m).sum() / weights.sum()
        variance = (f * p * (1 - p) + (1 - f) * q * (1 - q)) * inverse / (p - q) ** 2
        variance += f * (1 - f) * (n * inverse - 1) / (n - 1)
        widths = np.linspace(0, 6 * math.sqrt(variance.max()), 4001)
        normal = np.vectorize(lambda x: math.erf(x / math.sqrt(2)))
        covered = normal(widths[:, None] / np.sqrt(variance)).mean(axis=1)
        survey = (f * (1 - f)).sum() / (variance.sum() + (f * (1 - f)).sum() / n)
        found.append((widths[np.argmax(covered >= 0.95)], survey, f[f >= z * np.sqrt(variance)].sum()))
    return found


NEW = {
    "clinic": table_of(5000, **CLINIC, ward={"a": 3000, "b": 1500, "c": 500}),
    "shop": table_of(8000, paid={"card": 5000, "cash": 2500, "other": 500}, size={"s": 2000, "m": 4000, "l": 2000}),
    "club": table_of(300, team={"red": 150, "blue": 100, "green": 50}, junior={"no": 200, "yes": 100}),
}


@pytest.mark.parametrize("name", NEW)
def test_new_decisions_are_recomputed(name):
    data = NEW[name]
    found = gpu_rsfd.plan(data, protocols="smp-grr")
    decision, best = found.decisions[0], []
    for epsilon in gpu_rsfd.PAPER_EPSILONS:
        (one,) = gpu_rsfd.plan(data, protocols="smp-grr", epsilons=epsilon, attack=False).decisions
        numbers = recomputed(data, one)
        useful = [survey >= 100 or margin <= 0.01 for margin, survey, _ in numbers]
        assert useful == [column.useful for column in one.columns]
        best.append(sum(useful))
        for column, (margin, survey, seen) in zip(one.columns, numbers, strict=True):
            assert column.margin == pytest.approx(margin, rel=2e-3)
            assert column.survey == pytest.approx(survey, rel=1e-4)
            assert column.seen == pytest.approx(seen)
    if not best[-1]:
        assert "no column is worth collecting" in str(found)
        return
    at = next(i for i, count in enumerate(best) if count >= best[-1])
    assert decision.epsilon == gpu_rsfd.PAPER_EPSILONS[at]
    assert len(decision.useful) == best[at]
    gains = []
    for columns, column in zip(data.domain.slices, decision.columns, strict=True):
        f = publishable(data.counts, data.domain)[columns]
        p = math.exp(decision.epsilon) / (math.exp(decision.epsilon) + len(f) - 1)
        sent = np.where(np.eye(len(f)), p, (1 - p) / (len(f) - 1))
        share = (sent * f).max(axis=1).sum()
        assert column.guessed == pytest.approx(share, rel=1e-6)
        gains.append(share - f.max())
        odds = math.exp(decision.epsilon)
        lie = data.d * 0.01 / (1 + (data.d - 1) * 0.01) * ((odds + len(f) - 2) / (odds - 1) - f.min())
        assert column.lie == pytest.approx(lie, rel=1e-5)  # (1 - q) / (p - q)
    most = f"guesses a user's {data.names[int(np.argmax(gains))]}, if"
    nothing = "guesses no value of a user right more often than without it"
    assert (most if max(gains) > 1e-9 else nothing) in decision.sentences[2]


def test_no_margin_is_said_to_be_infinite_without_a_reason():
    data = gpu_rsfd.CountedDataset(20, (2,) * 40, [[0.5, 0.5]] * 40)
    found = gpu_rsfd.plan(data, protocols="smp-grr", epsilons=[4.0, 8.0], attack=False, target="A1=5%")
    assert "A1 ± ∞ points, as accurate as asking one person without privacy (nobody reports it with" in str(found)
    assert (
        "Twice as many users would leave the margin of A1 at ± ∞ points; epsilon = 4 (odds up to 54.6) would leave"
        in str(found)
    )
