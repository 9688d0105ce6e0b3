"""The decision table, and the figure of error against loss."""

import itertools
import math
import re

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import PrivacySettings
from gpu_rsfd.protocols.exposure import privacy_loss
from gpu_rsfd.running.collect import Silent
from gpu_rsfd.show import plots as shown
from gpu_rsfd.show.rows import How
from gpu_rsfd.theory import attacked, decision
from gpu_rsfd.theory.needs import PlanRow, plan_table

DOMAIN = gpu_rsfd.Domain.of((3, 5, 2))
FREQUENCIES = np.array([0.7, 0.2, 0.1, *[0.2] * 5, 0.9, 0.1])
PROTOCOLS = ("rsfd-grr", "rsfd-oue-z", "smp-adp", "spl-adp")


def row(rmse, one, whole):
    return PlanRow("spl-grr", 1.0, rmse**2, rmse, None, 1.0, loss_one=one, loss_all=whole)


@pytest.mark.parametrize("guarantee", ["paper", "user", "attribute"])
def test_rows_have_their_losses(guarantee):
    rows = plan_table(1000, DOMAIN, [1.0, 2.0], PROTOCOLS, FREQUENCIES, settings=PrivacySettings(guarantee=guarantee))
    for r in rows:
        loss = privacy_loss(r.protocol, r.epsilon, DOMAIN, guarantee)
        assert (r.loss_one, r.loss_all) == pytest.approx((loss[0], loss[-1]))


def test_rows_that_no_other_beats_are_marked():
    rows = [row(1, 1, 1), row(2, 1, 1), row(2, 0.5, 2), row(1 + 1e-6, 1, 1), row(math.nan, 0.1, 0.1), row(3, 3, 0.9)]
    assert [r.non_dominated for r in decision.marked(rows)] == [True, False, True, True, False, True]


def test_the_sample_has_the_frequencies():
    data = attacked.sample(DOMAIN, FREQUENCIES, 1000)
    assert data.frequencies == pytest.approx(FREQUENCIES, abs=1e-3)
    assert abs(np.corrcoef(data.column(0, 0, 1000), data.column(2, 0, 1000))[0, 1]) < 0.15


def test_success_is_that_of_the_attack():
    found = attacked.guessed(Plan.of(DOMAIN, PROTOCOLS, [3.0]), FREQUENCIES)
    codes = [np.random.default_rng(j).choice(k, 40_000, p=FREQUENCIES[s])
             for j, (k, s) in enumerate(zip(DOMAIN, DOMAIN.slices, strict=True))]  # fmt: skip
    data = gpu_rsfd.Dataset(np.stack(codes, 1), DOMAIN)
    right = gpu_rsfd.attack(data, epsilons=3.0, protocols=PROTOCOLS, repetitions=1, seed=8, workers=1)
    for p in range(len(PROTOCOLS)):
        cell = found[p, 0]
        shares = cell.values  # with Smp of those who send it: of the others the commonest value is guessed
        if PROTOCOLS[p].startswith("smp"):
            shares = (shares + 2 * cell.baselines) / 3
        assert shares.mean() == pytest.approx(right.value_success[p, 0, 0], abs=0.015)
        assert cell.sampled == pytest.approx(right.sampled_success[p, 0, 0], abs=0.025, nan_ok=True)
        assert cell.baselines == pytest.approx([0.7, 0.2, 0.9])
        assert cell.users == (attacked.USERS if PROTOCOLS[p].startswith("rsfd") else 0)


def messages(noise, k):
    """[message, value]: P(message | value), by enumeration."""
    if noise.kind == "keep":
        return np.where(np.eye(k, dtype=bool), noise.p(k), noise.q(k))
    if noise.kind == "sets":
        inside = np.stack([np.isin(np.arange(noise.design.messages), s) for s in noise.design.sets(k)], axis=1)
        return np.where(inside, *noise.given)
    every = np.array(list(itertools.product([False, True], repeat=k)))
    if noise.kind == "subsets":
        return np.where(every[every.sum(axis=1) == noise.size], *noise.given(k))
    given = np.where(np.eye(k, dtype=bool), noise.p(k), noise.q(k))  # [value held, bit]
    return np.where(every[:, None], given, 1 - given).prod(axis=-1)


@pytest.mark.parametrize("name", ["grr", "oue", "sue", "ss", "hr", "pgr", "olh", "rue", "the"])
def test_one_report_is_guessed_by_a_formula(name):
    """The sum over messages of the largest f_v P(message | v), by enumeration of all messages."""
    for f in (
        np.array([0.4, 0.25, 0.2, 0.1, 0.05, 0.0]),
        np.array([0.05, 0.6, 0.15, 0.05, 0.1, 0.05]),
        np.full(6, 1 / 6),
    ):
        for epsilon in (0.5, 2.0, 5.0):
            (m,) = gpu_rsfd.mechanisms(f"spl-{name}", epsilon, (6,))
            table = messages(m.recipe.noise, 6)
            assert table.sum(axis=0) == pytest.approx(np.ones(6))
            assert attacked.exact(m, f) == pytest.approx((table * f).max(axis=1).sum(), rel=1e-12)
            assert attacked.exact(m, f) >= f.max() - 1e-12


def test_what_depends_on_each_other_is_attacked_on_the_rows():
    """Two equal columns among fakes: their shares differ from those of independent ones, and are the attack's."""
    held = np.random.default_rng(28).choice(4, 30_000, p=[0.7, 0.1, 0.1, 0.1])
    data = gpu_rsfd.Dataset(np.stack([held, held], 1), (4, 4), name="twins")
    options = {"protocols": "rsfd-grr", "epsilons": 4.0}
    found = gpu_rsfd.plan(data, **options)
    true = gpu_rsfd.attack(data, **options, guarantee="user", repetitions=4, seed=5, workers=1)
    (row,) = found
    assert row.value == pytest.approx(true.value_success.mean(), abs=5.2 * 0.5 / math.sqrt(row.attacked_users))
    assert row.sampled == pytest.approx(true.sampled_success.mean(), abs=5.2 * 0.5 / math.sqrt(row.attacked_users))
    alone = gpu_rsfd.CountedDataset(30_000, (4, 4), [data.frequencies[:4]] * 2)
    (independent,) = gpu_rsfd.plan(alone, **options)
    assert true.value_success.mean() - independent.value > 0.08
    share, error, before = re.search(
        r"right (\d+) % \(± ([\d.]+)\) of the time instead of (\d+) %", str(found)
    ).groups()
    assert float(share) == pytest.approx(100 * true.value_success.mean(), abs=3 * float(error) + 0.5)
    assert float(error) == pytest.approx(196 * math.sqrt(0.81 * 0.19 / found.decisions[0].attacked_users), abs=0.02)
    assert before == "70"


def test_rows_keep_how_they_depend_on_each_other_and_get_other_frequencies():
    codes = np.repeat([[0, 1], [1, 0], [2, 1]], [2, 498, 500], axis=0)
    rows, shown = gpu_rsfd.Dataset(codes, (3, 2)), np.array([0.01, 0.49, 0.5, 0.5, 0.5])
    data = attacked.sample(rows.domain, shown, 20_000, rows)
    assert data.frequencies == pytest.approx(shown)
    first, second = data.column(0, 0, data.n), data.column(1, 0, data.n)
    assert np.mean((first == 2) == (second == 1)) > 0.97


def test_the_cost_of_an_attack_is_decided_at_each_epsilon(monkeypatch):
    """At a small epsilon the adaptive choice sends a bit per value, which costs more than a value at a large one."""
    plan, uniform = Plan.of((2, 30), ["rsfd-adp"], [0.1, 3.0]), np.array([0.5] * 2 + [1 / 30] * 30)
    monkeypatch.setattr(attacked, "MOST_WORK", 47 * 1234)
    found = attacked.guessed(plan, uniform)
    assert [found[0, e].users for e in (0, 1)] == [1234, 47 * 1234 // 19]
    monkeypatch.setattr(attacked, "MOST_WORK", 47 * 499)
    found = attacked.guessed(plan, uniform)
    assert list(found) == [(0, 1)]
    assert found[0, 1].users == 47 * 499 // 19


def test_a_pass_over_some_epsilons_is_that_of_each():
    plan = Plan.of(DOMAIN, PROTOCOLS, [1.0, 3.0])
    both = attacked.guessed(plan, FREQUENCIES, 2000)
    assert len(attacked.passes(plan)) == 1
    for e, epsilon in enumerate(plan.epsilons):
        alone = attacked.guessed(Plan.of(DOMAIN, PROTOCOLS, [epsilon]), FREQUENCIES, 2000)
        for p in range(len(PROTOCOLS)):
            assert np.array_equal(both[p, e].values, alone[p, 0].values)
            assert np.array_equal(both[p, e].sampled, alone[p, 0].sampled, equal_nan=True)
    known = attacked.risk_of(plan, 0, 1, FREQUENCIES, both[0, 1])
    assert known.users == attacked.MORE_USERS
    assert known.values == pytest.approx(both[0, 1].values, abs=0.06)


def test_error_against_loss(tmp_path):
    data = gpu_rsfd.SyntheticDataset(300, (3, 4), seed=1, name="one")
    results = gpu_rsfd.sweep(
        data, epsilons=[0.5, 1.0, 40.0], protocols=PROTOCOLS, repetitions=3, output=tmp_path / "r.h5", workers=1
    )
    figure = shown.figure_of(results, How("none"), shown.LOSS)
    one, whole = figure.axes
    assert one.get_xlabel() == "loss, users who differ in one attribute"
    curves = {c.get_label(): c.lines[0].get_xdata() for c in whole.containers}
    assert curves["Smp[ADP]"][:2] == pytest.approx([0.5, 1.0], rel=1e-4)
    assert curves["RS+FD[OUE-z]"][:2] == pytest.approx(
        [privacy_loss("rsfd-oue-z", e, (3, 4))[-1] for e in (0.5, 1.0)], rel=1e-9
    )
    assert np.isnan(curves["Spl[ADP]"][2]) or curves["Spl[ADP]"][2] > 20


def test_long_attacks_say_how_far_they_are(monkeypatch):
    class Told(Silent):
        total, done = 0, 0

        def begin(self, positions, done):
            self.total = positions

        def advance(self, positions):
            self.done += positions

    data, spec = attacked.sample(DOMAIN, FREQUENCIES, 1000), gpu_rsfd.Spec.of(protocols=PROTOCOLS, epsilons=[1.0, 3.0])
    short, long = Told(), Told()
    decision.planned(data, spec, decision.Question(), short)
    assert (short.total, short.done) == (0, 0)
    monkeypatch.setattr(decision, "LONG", 0)
    decision.planned(data, spec, decision.Question(), long)
    assert long.total == long.done > 0
