"""Equality of integers: the NumPy backend's counts are the counts of the literal reports."""

import math

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import PROTOCOLS

# users, domain sizes, epsilon; every shape that has an edge: tails of 64, domain sizes around powers of two, d = 1
CASES = [
    (1, (2,), 1.0),
    (63, (3, 2), 0.05),
    (64, (31, 2, 5), math.log(2)),
    (65, (32, 4), 3.0),
    (129, (33, 2, 3, 7), 1.0),
    (200, (63, 64, 65), math.log(7)),
    (400, (100,), 2.0),
    (193, (300, 2), 0.7),
    (1000, (2, 3, 5, 10), math.log(3)),
    (130, (4,) * 12, 9.0),
    (300, (7, 5), 60.0),
    (90, (257, 3), 350.0),
]


def counts_of(data, protocols, epsilons, repetitions, seed=0, assignment="uniform", **options):
    plan = Plan.of(data.domain, protocols, epsilons, assignment)
    with NumpyBackend(**{"workers": 1, **options}) as backend:
        counts, sampled = backend.count(plan, data, seed, repetitions)
    return plan.expand(counts), plan.reporters(data.n, sampled)


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
@pytest.mark.parametrize("n,domain,epsilon", CASES)
def test_backend_equals_literal_reports(n, domain, epsilon, assignment):
    data = gpu_rsfd.SyntheticDataset(n, domain, "zipf:1.1", seed=n)
    repetition, seed = 3, 77
    counts, reporters = counts_of(data, PROTOCOLS, [epsilon], range(repetition, repetition + 1), seed, assignment)
    for p, protocol in enumerate(PROTOCOLS):
        literal = gpu_rsfd.reports(data, protocol, epsilon, seed=seed, repetition=repetition, assignment=assignment)
        assert counts[p, 0, 0].tolist() == literal.counts().tolist(), protocol
        assert reporters[p, 0, 0].tolist() == [len(sent) for sent in literal.values], protocol


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    {"chunk_users": 64},
    {"chunk_users": 100, "batch": 1},
    {"chunk_users": 192, "batch": 3},
    {"batch": 2},
    {"workers": 2},
    {"workers": 3, "chunk_users": 128, "batch": 4},
])  # fmt: skip
def test_cutting_changes_nothing(options):
    data = gpu_rsfd.SyntheticDataset(1000, (3, 40, 2), seed=4)
    epsilons = [0.3, 2.0]
    whole = counts_of(data, PROTOCOLS, epsilons, range(10), seed=2**64 - 1)
    cut = counts_of(data, PROTOCOLS, epsilons, range(10), seed=2**64 - 1, **options)
    assert np.array_equal(whole[0], cut[0])
    assert np.array_equal(whole[1], cut[1])


def test_cutting_attributes_changes_nothing(monkeypatch):
    data = gpu_rsfd.SyntheticDataset(500, (3, 40, 2, 9), seed=4)
    whole = counts_of(data, PROTOCOLS, [1.0], range(3))
    monkeypatch.setattr("gpu_rsfd.backends.cpu.backend.POSITIONS_PER_TASK", 500 * 3 * 41)
    with NumpyBackend(workers=1) as backend:
        tasks = list(backend.tasks(Plan.of(data.domain, PROTOCOLS, [1.0]), data.n, range(3)))
    assert len({task.attributes for task in tasks}) > 1
    cut = counts_of(data, PROTOCOLS, [1.0], range(3))
    assert np.array_equal(whole[0], cut[0])
    assert np.array_equal(whole[1], cut[1])


def test_results_do_not_depend_on_company():
    data = gpu_rsfd.SyntheticDataset(700, (5, 12), seed=1)
    together = gpu_rsfd.simulate(data, epsilons=[0.5, 1.0, 4.0], protocols=PROTOCOLS, repetitions=8, seed=5)
    for p, protocol in enumerate(PROTOCOLS):
        alone = gpu_rsfd.simulate(data, epsilons=1.0, protocols=protocol, repetitions=range(6, 7), seed=5)
        assert np.array_equal(alone.counts[0, 0, 0], together.counts[p, 1, 6])
        assert np.array_equal(alone.reporters[0, 0, 0], together.reporters[p, 1, 6])


def test_repetitions_may_be_any_ascending_range():
    data = gpu_rsfd.SyntheticDataset(100, (5, 3))
    whole = gpu_rsfd.simulate(data, epsilons=1.0, repetitions=60, seed=5)
    part = gpu_rsfd.simulate(data, epsilons=1.0, repetitions=range(2, 60, 11), seed=5)
    assert np.array_equal(part.counts, whole.counts[:, :, 2:60:11])


def test_adaptive_protocols_are_the_chosen_ones():
    data = gpu_rsfd.SyntheticDataset(300, (2, 90, 6), seed=3)
    r = gpu_rsfd.simulate(data, epsilons=[0.5, 2.0], protocols=PROTOCOLS, repetitions=2)
    chosen = set()
    for solution in ("rsfd", "spl", "smp"):
        adaptive = r.protocols.index(f"{solution}-adp")
        for e, epsilon in enumerate(r.epsilons):
            for a in r.plan.attributes:
                name = r.mechanism(f"{solution}-adp", epsilon, a.index).name
                chosen.add(name)
                columns = slice(a.offset, a.offset + a.k)
                plain = r.protocols.index(f"{solution}-{name}")
                assert np.array_equal(r.counts[adaptive, e, :, columns], r.counts[plain, e, :, columns])
    assert chosen == {"grr", "oue", "oue-z"}


def test_huge_epsilon_gives_the_truth():
    data = gpu_rsfd.SyntheticDataset(999, (2, 17, 40), "zipf:1", seed=8)
    r = gpu_rsfd.simulate(data, epsilons=3 * 600.0, protocols="spl-grr", repetitions=2)
    assert np.array_equal(r.counts[0, 0, 0], data.counts)
    assert np.array_equal(r.counts[0, 0, 1], data.counts)
    assert r.mse().max() == pytest.approx(0, abs=1e-18)


def test_only_needed_columns_are_drawn(monkeypatch):
    """RS+FD[ADP] with GRR for k = 2 and OUE-z for k = 90: no BITS for the first, no VALUE for the second; each once."""
    from gpu_rsfd.tape import ASSIGN, BITS, VALUE, Tape

    drawn = []
    words = Tape.words

    def spy(self, stream, column, repetition, start, stop, place):
        drawn.append((stream, column, repetition, start, stop))
        return words(self, stream, column, repetition, start, stop, place)

    monkeypatch.setattr(Tape, "words", spy)
    data = gpu_rsfd.Dataset(np.zeros((100, 2), int), (2, 90))
    counts_of(data, ["rsfd-adp", "rsfd-oue-z"], [1.0, 1.5], range(1))
    counts_of(data, ["rsfd-adp"], [1.0, 1.5], range(1))
    first, second = drawn[: len(drawn) - 92], drawn[-92:]
    assert len(set(first)) == len(first)
    assert {(s, c) for s, c, *_ in second} == {(ASSIGN, 0), (VALUE, 0), *((BITS, 2 + v) for v in range(90))}
    drawn.clear()
    counts_of(data, ["spl-oue"], [1.0], range(1))
    assert {s for s, *_ in drawn} == {BITS}


@pytest.mark.slow
def test_more_than_a_thousand_attributes():
    data = gpu_rsfd.SyntheticDataset(130, (3,) * 1001)
    counts, reporters = counts_of(data, ["rsfd-grr", "smp-adp"], [2.0], range(1))
    assert counts[0].sum() == 130 * 1001
    assert reporters[1].sum() == 130
    literal = gpu_rsfd.reports(data, "smp-adp", 2.0)
    assert literal.counts().tolist() == counts[1, 0, 0].tolist()


@pytest.mark.slow
def test_largest_domain():
    data = gpu_rsfd.SyntheticDataset(70, (65_535,))
    counts, _ = counts_of(data, ["spl-grr", "rsfd-oue-r"], [2.0], range(1))
    for p, protocol in enumerate(["spl-grr", "rsfd-oue-r"]):
        assert np.array_equal(gpu_rsfd.reports(data, protocol, 2.0).counts(), counts[p, 0, 0])
