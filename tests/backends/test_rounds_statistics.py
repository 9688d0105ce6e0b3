"""Collections over rounds against the one-report protocols, the attack, closed forms, and each other."""

import math

import pytest
from stats import check_same_moments, normal_bound

import gpu_rsfd
from gpu_rsfd.measure import Rounds

DATA = gpu_rsfd.SyntheticDataset(60, (3, 2), "zipf:1.2", seed=4, name="few")
ONE_REPORT = ["rsfd-l-grr", "rsfd-l-sue-r", "smp-biloloha"]


def counted(protocols, rounds=1, repetitions=1500, data=DATA, seed=1, epsilons=2.0, **options):
    """Counts [protocol, repetition, round, value]."""
    own = {name: options.pop(name) for name in ("fakes", "sampling", "memo", "change") if name in options}
    spec = {"protocols": protocols, "epsilons": epsilons, "repetitions": repetitions, "seed": seed, "workers": 1}
    return gpu_rsfd.run(Rounds(rounds=rounds, keep="counts", **own), data, **spec, **options)[data.name].counts[:, 0]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ONE_REPORT)
def test_one_round_is_one_report(protocol):
    """The same distribution of counts as in `simulate`, from users and from the distribution; another one is told."""
    usual = gpu_rsfd.simulate(DATA, protocols=protocol, epsilons=2.0, repetitions=1500, seed=9, workers=1).counts[0, 0]
    for sampler in ("users", "marginals"):
        found = counted([protocol], sampler=sampler)[0, :, 0]
        parts = DATA.domain.slices if sampler == "marginals" else [slice(None)]  # attributes are drawn on their own
        for part in parts:
            check_same_moments(found[:, part], usual[:, part], f"{protocol}, {sampler}")
    other = counted([protocol], first_report=0.7)[0, :, 0]
    with pytest.raises(AssertionError, match="differs"):
        check_same_moments(other, usual, "another first report")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["rsfd-l-grr", "rsfd-l-sue-r"])
def test_a_later_round_has_one_distribution_whoever_draws_it(protocol):
    users = counted([protocol], rounds=3, change=0.5)[0, :, 2]
    drawn = counted([protocol], rounds=3, change=0.5, sampler="marginals")[0, :, 2]
    for part in DATA.domain.slices:
        check_same_moments(users[:, part], drawn[:, part], protocol)
    constant = counted([protocol], rounds=3, sampler="marginals")[0, :, 2]
    with pytest.raises(AssertionError, match="differs"):
        check_same_moments(users, constant, "the values of round 0")


@pytest.mark.slow
@pytest.mark.parametrize("protocol,usual", [("rsfd-l-grr", "rsfd-grr"), ("rsfd-l-osue-z", "rsfd-oue-z")])
def test_constant_values_tell_what_one_report_of_the_whole_budget_tells(protocol, usual):
    """Remembered fakes: many rounds are `attack` at epsilon.  Fresh fakes give the sampled attribute away."""
    data, spec = gpu_rsfd.SyntheticDataset(1000, (4, 3, 3), "zipf:1.1", seed=2, name="x"), {"epsilons": 1.5, "seed": 3}
    ways = ["memo", "independent", "fixed", "fresh"]
    found = gpu_rsfd.rounds(data, protocols=protocol, rounds=30, fakes=ways, attack=True, repetitions=8, **spec)
    once = gpu_rsfd.attack(data, protocols=usual, repetitions=100, **spec)
    first = gpu_rsfd.attack(data, protocols=protocol, repetitions=100, **spec)  # one report, as of the first round
    for name in ("sampled_success", "value_success"):
        users = data.n * (1 if name == "sampled_success" else data.d)

        def z(f, r, other, name=name, users=users):
            ours, theirs = found[name][0, 0, :, f, r], other[name][0, 0]
            return (ours.mean() - theirs.mean()) / math.sqrt(0.25 / users * (1 / len(ours) + 1 / len(theirs)))

        for f, way in enumerate(ways):
            assert abs(z(f, 0, first)) < normal_bound(16), (name, way)
            assert name == "value_success" or z(f, 0, once) < -normal_bound(16), way
            if way != "fresh":
                assert abs(z(f, -1, once)) < normal_bound(16), (name, way)
            elif name == "sampled_success":
                assert z(f, -1, once) > normal_bound(16)
    assert found["sampled_success"][0, 0, :, 3, -1].mean() > 0.85 > 0.7 > found["sampled_success"][..., 0].max()
