"""Counts without users: the same distribution as the users', addressed so that nothing depends on company."""

import collections
import functools
import itertools
import math

import numpy as np
import pytest
from stats import check_means, check_same_law, check_same_moments, check_variances, normal_bound

import gpu_rsfd
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.exact import draws as laws
from gpu_rsfd.backends.exact import samplers
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import PROTOCOLS
from gpu_rsfd.tape import Tape

ASSIGNMENTS = ("uniform", "balanced")
EPSILON = 3.0
# Attributes that depend on each other, two of them with the same domain size; n is no multiple of d.
CODES = np.array([[i % 3, (i % 3 + i // 100) % 3, i % 2] for i in range(301)])
CODES[:150] = 0, 1, 1
DATA = gpu_rsfd.Dataset(CODES, (3, 3, 2))
SLICES = (slice(0, 3), slice(3, 6), slice(6, 8))
TINY = gpu_rsfd.Dataset([[0, 0], [1, 1], [0, 1]], (2, 2))
BACKENDS = {"users": NumpyBackend, **samplers.SAMPLERS}


def run(sampler, data, protocols, epsilons, repetitions, seed, assignment, workers=1):
    """Counts [protocol, epsilon, repetition, value], n_j [repetition, attribute]."""
    plan = Plan.of(data.domain, protocols, epsilons, assignment)
    with BACKENDS[sampler](workers) as backend:
        counts, sampled = backend.count(plan, data, seed, repetitions)
    return plan.expand(counts), sampled


@functools.cache
def experiment(sampler, assignment):
    repetitions = {"users": 3000, "counts": 1500, "marginals": 5000}[sampler]
    seed = list(BACKENDS).index(sampler)  # independent samples: users and counts share the tape
    return run(sampler, DATA, PROTOCOLS, (EPSILON,), range(repetitions), seed, assignment)


def vectors(sampler, assignment, protocol):
    """[repetition, cell]: all counts, and n_j (Smp)."""
    counts, sampled = experiment(sampler, assignment)
    own = counts[PROTOCOLS.index(protocol), 0]
    return np.concatenate([own, sampled], axis=1) if protocol.startswith("smp") else own


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_counts_have_the_moments_of_users(protocol, assignment):
    what = f"{protocol}, {assignment}"
    check_same_moments(vectors("users", assignment, protocol), vectors("counts", assignment, protocol), what)


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_marginals_have_the_moments_of_counts_in_each_attribute(protocol, assignment):
    counts, marginals = (vectors(sampler, assignment, protocol) for sampler in ("counts", "marginals"))
    for j, columns in enumerate(SLICES):
        cells = [*range(8)][columns] + ([8 + j] if protocol.startswith("smp") else [])
        check_same_moments(counts[:, cells], marginals[:, cells], f"{protocol}, {assignment}, attribute {j}")


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_full_joint_law_of_a_tiny_case(assignment, monkeypatch):
    def permutation(
        self, repetition, n, start, stop, place=0
    ):  # the tape's own takes milliseconds if n is far below 256
        return np.random.default_rng([self._seed, repetition]).permutation(n)[start:stop].astype(np.uint64)

    monkeypatch.setattr(Tape, "positions", permutation)
    users = run("users", TINY, PROTOCOLS, (1.0,), range(6000), 1, assignment)
    counts = run("counts", TINY, PROTOCOLS, (1.0,), range(2000), 2, assignment)
    for p, protocol in enumerate(PROTOCOLS):
        both = [c[p, 0] for c, _ in (users, counts)]
        if protocol.startswith("smp"):
            both = [np.concatenate([c, s], axis=1) for c, (_, s) in zip(both, (users, counts), strict=True)]
        check_same_law(*both, f"{protocol}, {assignment}")


@pytest.mark.slow
def test_wrong_laws_are_caught(monkeypatch):
    """Negative controls: independent attributes; fakes that are independent of each other; a count 1 user off."""
    with pytest.raises(AssertionError, match=r"covariance of \d and \d"):
        check_same_moments(
            vectors("counts", "uniform", "smp-grr"),
            vectors("marginals", "uniform", "smp-grr"),
            "independent attributes",
        )
    protocols = ("rsfd-oue-r",)
    right, _ = run("marginals", DATA, protocols, (EPSILON,), range(8000), 8, "uniform")
    again, _ = run("marginals", DATA, protocols, (EPSILON,), range(8000), 9, "uniform")
    check_same_moments(right[0, 0], again[0, 0], "the same distribution")

    def independent(draw, users, law):
        return draw.binomial(users, law[:, None], (len(users), len(law), users.shape[2]))

    monkeypatch.setattr(laws, "values_of", independent)
    wrong, _ = run("marginals", DATA, protocols, (EPSILON,), range(8000), 9, "uniform")
    with pytest.raises(AssertionError, match="covariance of"):
        check_same_moments(right[0, 0], wrong[0, 0], "fakes without their negative correlation")
    monkeypatch.undo()
    users, _ = run("users", TINY, ("spl-grr",), (1.0,), range(4000), 1, "uniform")
    other = gpu_rsfd.Dataset([[0, 0], [1, 1], [1, 1]], (2, 2))
    wrong, _ = run("counts", other, ("spl-grr",), (1.0,), range(2500), 2, "uniform")
    with pytest.raises(AssertionError, match="chi2="):
        check_same_law(users[0, 0], wrong[0, 0], "another user")


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_counts_sampled_attributes_are_those_of_users(assignment):
    """Without noise (P(keep) = 1 after rounding) the counts of Smp are s and those of Spl the truth: equal integers."""
    data = gpu_rsfd.SyntheticDataset(1001, (4, 300, 4, 2), "zipf:1.1", seed=5)
    protocols = ("smp-grr", "spl-grr", "rsfd-oue-z")
    users, sampled = run("users", data, protocols, (300.0,), range(3), 8, assignment)
    counts, same = run("counts", data, protocols, (300.0,), range(3), 8, assignment)
    assert np.array_equal(sampled, same)
    assert np.array_equal(users[:2], counts[:2])
    _, noisy = run("counts", data, protocols, (0.5,), range(3), 8, assignment)
    assert np.array_equal(sampled, noisy)


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("sampler", ["counts", "marginals"])
def test_results_do_not_depend_on_company(sampler, assignment):
    data = gpu_rsfd.SyntheticDataset(700, (5, 12, 5), "zipf:1.0", seed=1)
    epsilons = (0.5, 1.0, 4.0)
    counts, sampled = run(sampler, data, PROTOCOLS, epsilons, range(120), 5, assignment, workers=2)
    some = range(13, 120, 29)
    for p, protocol in enumerate(PROTOCOLS):
        alone, reporters = run(sampler, data, (protocol,), epsilons[1:2], some, 5, assignment)
        assert np.array_equal(alone[0, 0], counts[p, 1, some.start :: some.step]), protocol
        if not protocol.startswith("spl"):
            assert np.array_equal(reporters, sampled[some.start :: some.step]), protocol
    assert len({tuple(row) for row in counts[0, 0]}) == 120
    other, _ = run(sampler, data, PROTOCOLS[:1], epsilons, range(1), 6, assignment)
    assert not np.array_equal(other[0, :, 0], counts[0, :, 0])


def test_equal_recipes_have_equal_counts():
    data = gpu_rsfd.SyntheticDataset(500, (2, 300), seed=1)
    for sampler in ("counts", "marginals"):
        counts, _ = run(sampler, data, ("rsfd-adp", "rsfd-grr", "rsfd-oue-z"), (1.0,), range(4), 3, "uniform")
        assert np.array_equal(counts[0, 0, :, :2], counts[1, 0, :, :2])
        assert np.array_equal(counts[0, 0, :, 2:], counts[2, 0, :, 2:])


def test_cutting_changes_nothing(monkeypatch):
    data = gpu_rsfd.SyntheticDataset(1003, (5, 12, 5), "zipf:1.0", seed=1)
    whole = run("counts", data, PROTOCOLS, (1.0,), range(3), 5, "balanced")
    done = []
    monkeypatch.setattr(samplers, "TABLE_BYTES", 3 * 400)
    monkeypatch.setattr(samplers, "USERS_PER_STEP", 64)
    plan = Plan.of(data.domain, PROTOCOLS, (1.0,), "balanced")
    with samplers.CountsSampler(2) as sampler:
        counts, sampled = sampler.count(plan, data, 5, range(3), done.append)
    assert np.array_equal(plan.expand(counts), whole[0])
    assert np.array_equal(sampled, whole[1])
    assert len(done) == 9
    assert sum(done) == 3 * plan.positions(data.n)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10**9, 2**53])
def test_marginals_of_a_billion_users_and_more(n):
    """Unbiased, with the variance of the mathematics, where no user-level simulation can go."""
    data = gpu_rsfd.CountedDataset.of_distribution(n, (2, 5, 33), "zipf:1.0")
    done = []
    result = gpu_rsfd.simulate(
        data, epsilons=1.0, protocols=PROTOCOLS, repetitions=1000, seed=3, sampler="marginals", progress=done.append
    )
    assert sum(done) == n * 40 * 1000
    assert result.spec["sampler"] == "marginals"
    estimates = result.estimates()
    for p, protocol in enumerate(PROTOCOLS):
        variance = np.concatenate([
            result.mechanism(protocol, 1.0, a.index).fixed_variance(result.frequencies[a.offset : a.offset + a.k], n)
            for a in result.plan.attributes
        ])  # fmt: skip
        check_means(estimates[p, 0], result.frequencies, variance, protocol)
        check_variances(estimates[p, 0], variance, protocol)


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_counts_in_processes_are_the_same(monkeypatch, assignment):
    data = gpu_rsfd.SyntheticDataset(500, (5, 3, 5), seed=2)
    plan = Plan.of(data.domain, PROTOCOLS, [0.5, 2.0], assignment)
    repetitions = range(3, 40, 3)
    with samplers.CountsSampler(workers=1) as alone:
        counts, sampled = alone.count(plan, data, 6, repetitions)
    monkeypatch.setattr("gpu_rsfd.backends.exact.samplers.INLINE_USERS", 0)
    done = []
    with samplers.CountsSampler(workers=2) as together:
        same, who = together.count(plan, data, 6, repetitions, done.append)
    assert all(np.array_equal(a, b) for a, b in zip(counts, same, strict=True))
    assert np.array_equal(sampled, who)
    assert sum(done) == plan.positions(data.n) * len(repetitions)


def law_of_subsets(users, mechanism):
    """The exact distribution of SS's counts, [value]: every set of every user."""
    k, size, p, law = mechanism.k, mechanism.recipe.noise.size, mechanism.p, {}
    ways = math.comb(k - 1, size - 1), math.comb(k - 1, size)
    for sets in itertools.product(itertools.combinations(range(k), size), repeat=len(users)):
        likely = (p / ways[0] if own in s else (1 - p) / ways[1] for own, s in zip(users, sets, strict=True))
        counts = tuple(np.bincount(np.concatenate(sets), minlength=k).tolist())
        law[counts] = law.get(counts, 0.0) + math.prod(likely)
    return law


@pytest.mark.slow
@pytest.mark.parametrize("k,epsilon,size", [(5, 0.3, 2), (6, 0.01, 3), (3, 3.0, 1)])
def test_joint_law_of_subset_selection(k, epsilon, size, monkeypatch):
    monkeypatch.setattr(laws, "MOST_PLACES", 1000)  # rows are cut, as they are where there are many values
    users, runs = (0, 1, k - 1), 50_000
    data = gpu_rsfd.Dataset(np.array([users]).T, [k])
    result = gpu_rsfd.simulate(data, protocols="spl-ss", epsilons=epsilon, repetitions=runs, sampler="marginals")
    mechanism, seen = result.mechanism("spl-ss", epsilon, 0), collections.Counter(map(tuple, result.counts[0, 0]))
    assert mechanism.recipe.noise.size == size

    def worst(users):
        """The largest |z| of the counts that are not too rare, over its bound."""
        often = {c: q for c, q in law_of_subsets(users, mechanism).items() if runs * q > 30}
        z = [(seen[c] - runs * q) / math.sqrt(runs * q * (1 - q)) for c, q in often.items()]
        return np.abs(z).max() / normal_bound(len(z)), sum(often.values())

    bound, common = worst(users)
    assert set(seen) <= set(law_of_subsets(users, mechanism))
    assert bound < 1
    assert common > 0.9
    assert epsilon == 0.01 or worst((0, 0, k - 1))[0] > 1  # one of the users is another: hardly seen at a tiny epsilon
