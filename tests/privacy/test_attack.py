"""`gpu_rsfd.attack`: shares with their baselines, the figures of the mathematics, guarantees and priors."""

import math

import numpy as np
import pytest
from literal_attack import literal_guesses
from stats import normal_bound

import gpu_rsfd
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import PrivacySettings
from gpu_rsfd.protocols.priors import Prior

DATA = gpu_rsfd.SyntheticDataset(400, (3, 6, 2), "zipf:1.0", seed=3)


def uniform(n, d, k=10):
    return gpu_rsfd.SyntheticDataset(n, (k,) * d, seed=1)


def test_what_it_gives():
    r = gpu_rsfd.attack(
        DATA,
        epsilons=[1.0, 3.0],
        protocols=["rsfd-grr", "smp-adp", "spl-adp"],
        repetitions=range(2, 5),
        seed=9,
        workers=1,
    )
    assert r.sampled_success.shape == r.value_success.shape == (3, 2, 3)
    assert (r.sampled_success[1] == 1).all(), "Smp sends it"
    assert np.isnan(r.sampled_success[2]).all(), "Spl has none"
    assert np.isfinite(r.sampled_success[0]).all()
    assert r.columns["sampled_success"].baseline == 1 / 3
    most = [DATA.frequencies[s].max() for s in DATA.domain.slices]
    baseline = r.columns["value_success"].baseline
    assert baseline == pytest.approx(np.mean(most))
    assert (r.value_success.mean(axis=2)[:, 1] > baseline).all()
    alone = gpu_rsfd.attack(DATA, epsilons=3.0, protocols="rsfd-grr", repetitions=range(4, 5), seed=9, workers=1)
    assert alone.value_success[0, 0, 0] == r.value_success[0, 1, 2]
    assert alone.sampled_success[0, 0, 0] == r.sampled_success[0, 1, 2]


@pytest.mark.parametrize("knowledge", ["true", "estimated"])
def test_shares_are_those_of_the_literal_attacker(knowledge):
    settings = PrivacySettings(priors=Prior.of("zipf:2").thresholds(DATA.domain), guarantee="attribute")
    r = gpu_rsfd.attack(
        DATA,
        epsilons=2.0,
        protocols="rsrfd-oue-r",
        repetitions=range(1),
        seed=4,
        guarantee="attribute",
        prior="zipf:2",
        knowledge=knowledge,
        workers=1,
    )
    sent = gpu_rsfd.reports(DATA, "rsrfd-oue-r", 2.0, 4, 0, settings=settings)
    f = DATA.frequencies
    if knowledge == "estimated":
        f = gpu_rsfd.simulate(
            DATA,
            epsilons=2.0,
            protocols="rsrfd-oue-r",
            repetitions=1,
            seed=4,
            guarantee="attribute",
            prior="zipf:2",
            workers=1,
        ).estimates("clip-normalize")[0, 0, 0]
    who, values = literal_guesses(sent, [f[s] for s in DATA.domain.slices])
    truth = np.stack([DATA.column(j, 0, DATA.n) for j in range(DATA.d)], 1)
    assert r.sampled_success[0, 0, 0] == (who == sent.sampled).mean()
    assert r.value_success[0, 0, 0] == pytest.approx((values == truth).mean(), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("d,low,high", [(5, 0.278, 0.408), (10, 0.182, 0.328)])
def test_the_four_figures(d, low, high):
    n, repetitions = 60_000, 4
    r = gpu_rsfd.attack(
        uniform(n, d), epsilons=[math.log(2), math.log(7)], protocols="rsfd-oue-z", repetitions=repetitions, workers=1
    )
    assert r.sampled_success.mean(axis=2)[0] == pytest.approx([low, high], abs=0.003)


@pytest.mark.parametrize("protocol", ["rsfd-grr", "rsfd-oue-r", "rsfd-sue-r"])
def test_fakes_like_the_data_give_nothing_away(protocol):
    n, d = 30_000, 4
    r = gpu_rsfd.attack(uniform(n, d, 5), epsilons=[1.0, 3.0], protocols=protocol, repetitions=2, workers=1)
    bound = normal_bound(4) * math.sqrt(0.25 * 0.75 / n)
    # the attacker knows these users' own frequencies, which are not quite uniform: that is worth a little
    assert (np.abs(r.sampled_success - 1 / d) < bound + 0.005).all()


def test_realistic_fakes_hide_the_sampled_attribute():
    data = gpu_rsfd.SyntheticDataset(20_000, (6, 6, 6), "zipf:1.5", seed=2)
    plain = gpu_rsfd.attack(data, epsilons=4.0, protocols="rsfd-grr", repetitions=2, workers=1)
    hidden = gpu_rsfd.attack(data, epsilons=4.0, protocols="rsrfd-grr", repetitions=2, prior="true", workers=1)
    assert plain.sampled_success.mean() > 1 / 3 + 0.05
    assert abs(hidden.sampled_success.mean() - 1 / 3) < normal_bound(1) * math.sqrt(2 / 9 / 40_000) + 0.003


def test_less_budget_gives_less_away():
    protocols = ("rsfd-oue-z", "rsfd-grr")
    paper, user = (
        gpu_rsfd.attack(DATA, epsilons=2.0, protocols=protocols, repetitions=5, guarantee=g, workers=1)
        for g in ("paper", "user")
    )
    assert (user.value_success.mean(axis=2) < paper.value_success.mean(axis=2)).all()
    assert user.spec["guarantee"] == "user"


@pytest.mark.slow
def test_workers_and_progress_change_nothing(monkeypatch):
    monkeypatch.setattr("gpu_rsfd.measure.view.INLINE_POSITIONS", 0)
    done = []
    one, two = (
        gpu_rsfd.attack(
            DATA,
            epsilons=1.0,
            protocols=["rsfd-adp", "spl-sue"],
            repetitions=4,
            knowledge="estimated",
            workers=w,
            progress=done.append,
        )
        for w in (1, 2)
    )
    assert np.array_equal(one.sampled_success, two.sampled_success, equal_nan=True)
    assert np.array_equal(one.value_success, two.value_success)
    assert sum(done) == 2 * 4 * DATA.n * DATA.domain.total


@pytest.mark.parametrize(
    "options,words",
    [
        ({"knowledge": "all"}, "unknown knowledge 'all'; available: true, estimated"),
        ({"guarantee": "none"}, "unknown guarantee 'none'; available: paper, user, attribute"),
        ({"prior": "true"}, "prior=true needs a protocol whose fakes follow a prior"),
        ({"prior": "true", "protocols": "rsrfd-grr", "prior_seed": 4}, "prior_seed=4 needs a prior that is drawn"),
        ({"prior": [(0.5, 0.5)], "protocols": "rsrfd-grr"}, "prior has 1 attributes, but the data have 3"),
        ({"prior": "noisy:1", "protocols": "rsrfd-grr", "prior_seed": -1}, "prior_seed=-1 must be"),
        ({"workers": 0}, "workers=0"),
    ],
)
def test_bad_input_is_one_clear_line(options, words):
    with pytest.raises(InputError, match=words) as caught:
        gpu_rsfd.attack(DATA, epsilons=1.0, **{"protocols": "rsfd-grr", "repetitions": 1, **options})
    assert "\n" not in str(caught.value)


def test_data_without_rows():
    counted = gpu_rsfd.CountedDataset.of_distribution(100, (2, 3), "uniform")
    with pytest.raises(InputError, match="known only by its counts, not user by user"):
        gpu_rsfd.attack(counted, epsilons=1.0, protocols="rsfd-grr", repetitions=1)


def test_a_class_that_workers_cannot_import():
    class Mine(gpu_rsfd.Dataset):
        pass

    Mine.__module__ = "__main__"
    data = Mine([[0, 1], [1, 0]], (2, 2))
    for workers in (None, 2):
        gpu_rsfd.attack(data, epsilons=1.0, protocols="rsfd-grr", repetitions=1, workers=workers)
