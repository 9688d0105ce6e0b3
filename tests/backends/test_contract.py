"""One contract for every backend: the same cases and the same assertions, integers equal to the literal reports."""

import math

import numpy as np
import pytest
from cuda_standin import needs_compiler

from gpu_rsfd import Dataset, SyntheticDataset
from gpu_rsfd.plan import Plan
from gpu_rsfd.protocols import PROTOCOLS, REGISTRY, Others, Protocol, Terms, registry
from gpu_rsfd.protocols.adaptive import Way
from gpu_rsfd.protocols.budgets import AMPLIFIED
from gpu_rsfd.protocols.noise import GRR, OUE, SUE

# users, domain sizes, epsilon: every shape with an edge (tails of 64, sizes around powers of two, d = 1)
SHAPES = [
    (1, (2,), 1.0),
    (63, (3, 2), 0.3),
    (64, (31, 2, 5), math.log(2)),
    (65, (32, 4), 3.0),
    (129, (33, 2, 3, 7), 1.0),
    (200, (63, 64, 65), math.log(7)),
]
PRIORED = ("prior-grr", "prior-oue", "prior-sue")  # made-up protocols: fakes that follow a prior


@pytest.fixture
def priored(monkeypatch):
    """Protocols whose fakes have a law of their own, entered like any other: one entry each."""
    for name, noise in zip(PRIORED, (GRR, OUE, SUE), strict=True):
        entry = Protocol(name, name, "#000000", "o", AMPLIFIED, (Way(noise, Others.FAKE, prior=True),), "A test.")
        monkeypatch.setitem(registry.REGISTRY, name, entry)
    registry._mechanism.cache_clear()
    yield PRIORED
    registry._mechanism.cache_clear()


def reference():
    from gpu_rsfd.backends.reference import ReferenceBackend

    return ReferenceBackend()


def numpy():
    from gpu_rsfd.backends.cpu.backend import NumpyBackend

    return NumpyBackend(workers=1)


def cupy():
    from gpu_rsfd.backends.cuda.backend import CupyBackend

    return CupyBackend()


@pytest.fixture(params=["reference", "numpy", pytest.param("cupy", marks=needs_compiler)])
def backend(request):
    if request.param == "cupy":
        request.getfixturevalue("standin")
    with globals()[request.param]() as opened:
        yield opened


def counted(backend, plan, data, seed, repetitions):
    counts, sampled = backend.count(plan, data, seed, repetitions)
    return plan.spread(counts), plan.reporters(data.n, sampled)


def check(backend, plan, data, repetitions=range(3, 4), seed=77):
    ours, right = (counted(b, plan, data, seed, repetitions) for b in (backend, reference()))
    assert np.array_equal(ours[0], right[0]), np.argwhere(ours[0] != right[0])[:3]
    assert np.array_equal(ours[1], right[1])


@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
@pytest.mark.parametrize("n,domain,epsilon", SHAPES)
def test_counts_are_those_of_the_literal_reports(backend, n, domain, epsilon, assignment):
    data = SyntheticDataset(n, domain, "zipf:1.1", seed=n)
    check(backend, Plan.of(domain, PROTOCOLS, [epsilon], assignment), data)


def skewed(k):
    """Thresholds of a prior that grows with the value; the first one of three or more never comes."""
    weights = np.arange(k) if k > 2 else np.array([1, 3])
    return tuple(int(t) for t in np.cumsum(weights)[:-1] * 2**32 // weights.sum())


@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
@pytest.mark.parametrize("n,domain,epsilon", SHAPES)
def test_priors_are_the_same_everywhere(backend, priored, n, domain, epsilon, assignment):
    data = SyntheticDataset(n, domain, "zipf:1.1", seed=n)
    priors = tuple(None if j == 1 else skewed(k) for j, k in enumerate(domain))
    plan = Plan.of(domain, (*priored, "rsfd-grr", "spl-grr", "rsfd-oue-r"), [epsilon], assignment, Terms(priors=priors))
    check(backend, plan, data)


def test_an_attribute_without_a_prior_is_plain_rsfd(backend, priored):
    data = SyntheticDataset(300, (5, 4), seed=1)
    plan = Plan.of(data.domain, ("rsfd-grr", "prior-grr", "rsfd-oue-r", "prior-oue"), [1.0])
    counts, _ = counted(backend, plan, data, 4, range(2))
    assert np.array_equal(counts[0], counts[1])
    assert np.array_equal(counts[2], counts[3])


def test_who_reports(backend):
    data = Dataset(np.zeros((100, 3), int), (2, 3, 4))
    plan = Plan.of(data.domain, ("spl-grr", "smp-oue", "rsfd-oue-z"), [1.0])
    counts, reporters = counted(backend, plan, data, 1, range(2))
    assert counts.shape == (3, 1, 2, 9)
    assert (reporters[[0, 2]] == 100).all()
    assert (reporters[1].sum(axis=-1) == 100).all()


def test_repetitions_and_progress(backend):
    data = SyntheticDataset(130, (3, 5), seed=2)
    plan = Plan.of(data.domain, PROTOCOLS, [0.5, 2.0])
    done = []
    counts, sampled = backend.count(plan, data, 2**64 - 1, range(2, 9, 3), done.append)
    assert sum(done) == plan.positions(data.n) * 3
    alone, _ = backend.count(plan, data, 2**64 - 1, range(5, 6))
    assert all(np.array_equal(a[:, 1:2], b) for a, b in zip(counts, alone, strict=True))
    assert [c.shape for c in counts] == [(len(a.recipes), 3, a.k) for a in plan.attributes]
    assert sampled.shape == (3, 2)


def test_every_registered_protocol_is_in_the_contract():
    assert tuple(REGISTRY) == PROTOCOLS
