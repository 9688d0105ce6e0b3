"""The fast attacker is the literal one, user by user; and nobody does better."""

import math

import numpy as np
import pytest
from literal_attack import best, literal_guesses

import gpu_rsfd
from gpu_rsfd.measure.guesses import guesses, right
from gpu_rsfd.measure.reports import Chunk, chunk_size
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import PROTOCOLS, PrivacySettings
from gpu_rsfd.protocols.priors import Prior

DATA = gpu_rsfd.SyntheticDataset(150, (3, 9, 2, 5), "zipf:1.1", seed=4)
EVEN = gpu_rsfd.SyntheticDataset(150, (4, 4, 3), seed=4)
PRIORS = {
    "uniform": None,
    "drawn": Prior.of("dirichlet:0.7"),
    "rare": Prior.of([(0, 0.5, 0.5), (1, 0, 0, 0, 0, 0, 0, 0, 0), (0.5, 0.5), (0.1, 0.2, 0.3, 0.4, 0)]),
}


def fast(plan, data, seed, repetition, frequencies):
    chunk = Chunk(data.column, plan, data.n, seed, repetition, 0, data.n)
    return {(p, e): (who, np.stack(values, 1)) for p, e, who, values in guesses(plan, chunk, frequencies)}


@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("epsilon", [*(pytest.param(e, marks=pytest.mark.slow) for e in (0.3, 6.0)), math.log(7)])
def test_fast_is_literal_user_by_user(epsilon, prior, assignment):
    priors = PRIORS[prior].thresholds(DATA.domain) if PRIORS[prior] else None
    settings = PrivacySettings(priors=priors)
    protocols = PROTOCOLS if prior == "uniform" else ("rsrfd-grr", "rsrfd-oue-r", "rsrfd-sue-r")
    plan = Plan.of(DATA.domain, protocols, [epsilon], assignment, settings)
    marginals = [DATA.frequencies[s] for s in DATA.domain.slices]
    found = fast(plan, DATA, 8, 2, lambda j, r: marginals[j])
    for p, protocol in enumerate(protocols):
        sent = gpu_rsfd.reports(DATA, protocol, epsilon, 8, 2, assignment, settings)
        who, values = literal_guesses(sent, marginals)
        assert np.array_equal(found[p, 0][1], values), protocol
        assert who is None if found[p, 0][0] is None else np.array_equal(found[p, 0][0], who), protocol


TYING = ["rsfd-grr", "rsfd-oue-z", "rsfd-oue-r", "rsfd-adp", "spl-sue", "smp-olh", "rsfd-hr", "rsfd-pgr", "smp-ss"]


@pytest.mark.parametrize("protocol", TYING)
def test_fast_is_literal_where_everything_ties(protocol):
    plan = Plan.of(EVEN.domain, [protocol], [1.0])
    marginals = [np.full(k, 1 / k) for k in EVEN.domain]
    who, values = fast(plan, EVEN, 8, 2, lambda j, r: marginals[j])[0, 0]
    right = literal_guesses(gpu_rsfd.reports(EVEN, protocol, 1.0, 8, 2), marginals)
    assert np.array_equal(values, right[1])
    assert who is None if right[0] is None else np.array_equal(who, right[0])


@pytest.mark.slow
@pytest.mark.parametrize("knowledge", ["true", "estimated"])
def test_estimated_marginals_are_the_servers_own(knowledge):
    protocols = ("rsfd-grr", "rsfd-oue-r", "spl-adp", "smp-sue")
    options = {"epsilons": (1.0, 2.0), "protocols": protocols, "repetitions": range(1, 3), "seed": 3, "workers": 1}
    found = gpu_rsfd.attack(DATA, knowledge=knowledge, **options)
    result = gpu_rsfd.simulate(DATA, **options)
    estimates = result.estimates("clip-normalize")
    for p, protocol in enumerate(protocols):
        for e, epsilon in enumerate((1.0, 2.0)):
            for r in (0, 1):
                f = DATA.frequencies if knowledge == "true" else estimates[p, e, r]
                sent = gpu_rsfd.reports(DATA, protocol, epsilon, 3, r + 1)
                who, values = literal_guesses(sent, [f[s] for s in DATA.domain.slices])
                truth = np.stack([DATA.column(j, 0, DATA.n) for j in range(DATA.d)], 1)
                assert found.value_success[p, e, r] == (values == truth).mean()
                share = math.nan if who is None else (who == sent.sampled).mean()
                assert found.sampled_success[p, e, r] == pytest.approx(share, abs=0, nan_ok=True)


def test_many_values_are_looked_at_in_another_way(monkeypatch):
    plan = Plan.of(DATA.domain, ("rsfd-oue-z", "rsfd-sue-r", "spl-oue", "smp-the"), [0.5, 6.0])
    marginals = [DATA.frequencies[s] for s in DATA.domain.slices]
    few = fast(plan, DATA, 8, 2, lambda j, r: marginals[j])
    monkeypatch.setattr("gpu_rsfd.measure.guesses.STEPS", 2)
    many = fast(plan, DATA, 8, 2, lambda j, r: marginals[j])
    assert all(np.array_equal(few[cell][1], many[cell][1]) for cell in few)


def test_what_is_right_is_counted_chunk_by_chunk():
    plan = Plan.of(DATA.domain, ("rsfd-adp", "smp-adp", "spl-grr"), [1.0, 3.0])
    marginals = [DATA.frequencies[s] for s in DATA.domain.slices]
    truth = np.stack([DATA.column(j, 0, DATA.n) for j in range(DATA.d)], 1)
    whole = Chunk(DATA.column, plan, DATA.n, 8, 2, 0, DATA.n)
    sampled, values = right(plan, whole, lambda j, r: marginals[j])
    for (p, e), (who, guessed) in fast(plan, DATA, 8, 2, lambda j, r: marginals[j]).items():
        assert np.array_equal(values[p, e], (guessed == truth).sum(axis=0))
        assert sampled[p, e] == (0 if who is None else (who == whole.sampled).sum())
    assert sampled.any(axis=1).tolist() == [True, True, False]
    parts = [right(plan, Chunk(DATA.column, plan, DATA.n, 8, 2, start, stop),
                   lambda j, r: marginals[j]) for start, stop in ((0, 64), (64, 128), (128, 150))]  # fmt: skip
    assert np.array_equal(sum(part[0] for part in parts), sampled)
    assert np.array_equal(sum(part[1] for part in parts), values)
    one = plan.only(np.array([[True, False], [False, False], [False, False]]))  # other cells stay 0
    assert np.count_nonzero(right(one, whole, lambda j, r: marginals[j])[1]) == DATA.d
    assert chunk_size(plan, DATA.n) == 192


def test_ties_go_to_the_smallest_index():
    assert best(np.array([0.1, 0.3, 0.3 * (1 + 1e-12), 0.2])) == 1
    assert best(np.zeros(3)) == 0


def test_cutting_and_workers_change_nothing(monkeypatch):
    options = {"epsilons": 1.0, "protocols": ("rsfd-adp", "smp-adp", "spl-grr"), "repetitions": 5, "seed": 3}
    whole = gpu_rsfd.attack(DATA, workers=1, **options)
    monkeypatch.setattr("gpu_rsfd.measure.view.chunk_size", lambda plan, n: 64)
    monkeypatch.setattr("gpu_rsfd.measure.view.INLINE_POSITIONS", 0)
    done = []
    cut = gpu_rsfd.attack(DATA, workers=2, progress=done.append, **options)
    assert all(np.array_equal(whole[name], cut[name], equal_nan=True) for name in whole.arrays)
    assert sum(done) == DATA.n * DATA.domain.total * 5
