"""The decision table, and the figure of error against loss."""

import math

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
        assert cell.values.mean() == pytest.approx(right.value_success[p, 0, 0], abs=0.015)
        assert cell.sampled == pytest.approx(right.sampled_success[p, 0, 0], abs=0.025, nan_ok=True)
        assert cell.baselines == pytest.approx([0.7, 0.2, 0.9])
        assert cell.users == attacked.USERS


def test_the_cost_of_an_attack_is_decided_at_each_epsilon(monkeypatch):
    """At a small epsilon the adaptive choice sends a bit per value, which costs more than a value at a large one."""
    plan, uniform = Plan.of((2, 60), ["smp-adp"], [0.5, 5.0]), np.array([0.5] * 2 + [1 / 60] * 60)
    monkeypatch.setattr(attacked, "MOST_WORK", 77 * 1234)
    found = attacked.guessed(plan, uniform)
    assert [found[0, e].users for e in (0, 1)] == [1234, 77 * 1234 // 18]
    monkeypatch.setattr(attacked, "MOST_WORK", 77 * 499)
    found = attacked.guessed(plan, uniform)
    assert list(found) == [(0, 1)]
    assert found[0, 1].users == 77 * 499 // 18


def test_a_pass_over_some_epsilons_is_that_of_each():
    plan = Plan.of(DOMAIN, PROTOCOLS, [1.0, 3.0])
    both = attacked.guessed(plan, FREQUENCIES, 2000)
    assert len(attacked.passes(plan)) == 1
    for e, epsilon in enumerate(plan.epsilons):
        alone = attacked.guessed(Plan.of(DOMAIN, PROTOCOLS, [epsilon]), FREQUENCIES, 2000)
        for p in range(len(PROTOCOLS)):
            assert np.array_equal(both[p, e].values, alone[p, 0].values)
            assert np.array_equal(both[p, e].sampled, alone[p, 0].sampled, equal_nan=True)
    known = attacked.risk_of(plan, 2, 1, FREQUENCIES, both[2, 1])
    assert known.users == attacked.MORE_USERS
    assert known.values == pytest.approx(both[2, 1].values, abs=0.06)


def test_error_against_loss(tmp_path):
    data = gpu_rsfd.SyntheticDataset(300, (3, 4), seed=1, name="one")
    results = gpu_rsfd.sweep(
        data, epsilons=[0.5, 1.0, 40.0], protocols=PROTOCOLS, repetitions=3, output=tmp_path / "r.h5", workers=1
    )
    figure = shown.tradeoff(results, How("none"))
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
