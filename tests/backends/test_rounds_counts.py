"""Collections over rounds: the integers of every chain are those of docs/stream.md, however they are made."""

import numpy as np
import pytest
from literal_rounds import collected

import gpu_rsfd
from gpu_rsfd.measure import Rounds
from gpu_rsfd.measure.memos import FAKING, SAMPLING
from gpu_rsfd.measure.reports import MOST_USERS, chunk_size
from gpu_rsfd.protocols import REGISTRY
from gpu_rsfd.tape import ASSIGNMENTS, FAKES, MEMO, VALUE, Tape

DOMAIN, USERS, ROUNDS = (3, 5, 2), 70, 3
SEED, REPETITION = 2**64 - 3, 2**62 + 5
CHAINS = [name for name, entry in REGISTRY.items() if entry.memoised]
PRIOR = [[0.2, 0.3, 0.5], [0.1, 0.1, 0.5, 0.2, 0.1], [0.9, 0.1]]


def codes_of(rounds=ROUNDS, users=USERS, domain=DOMAIN, seed=1):
    """Values of which some stay, some change and some return."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(k, size=(users, rounds)) * (rng.random((users, 1)) < 0.7) for k in domain], axis=1)


DATA = gpu_rsfd.EvolvingDataset(codes_of(), DOMAIN)


def made(
    protocols, data=DATA, repetitions=None, epsilons=1.5, assignment="uniform", workers=1, first_report=0.5, **options
):
    """What the measurement gives: counts [protocol, epsilon, repetition, (fakes,) round, value], and more."""
    repetitions = range(REPETITION, REPETITION + 1) if repetitions is None else repetitions
    spec = {"protocols": protocols, "epsilons": epsilons, "repetitions": repetitions, "assignment": assignment}
    spec["first_report"] = first_report
    if any(REGISTRY[name].prior for name in protocols):
        spec["prior"] = PRIOR
    return gpu_rsfd.run(Rounds(keep="counts", **options), data, seed=SEED, workers=workers, **spec)[data.name]


def wanted(result, p, fakes, sampling, codes=None):
    """The same of a protocol, word by word."""
    recipes = [result.plan.recipe(p, 0, j) for j in range(len(result.domain))]
    codes = codes_of() if codes is None else codes
    return collected(codes, result.domain, recipes, SEED, REPETITION, result.plan.assignment, fakes, sampling)


@pytest.mark.parametrize("sampling,assignment", [*zip(SAMPLING, ASSIGNMENTS, strict=True), ("fresh", "uniform")])
@pytest.mark.slow
def test_every_chain_has_the_integers_of_the_stream(sampling, assignment):
    result = made(CHAINS, fakes=FAKING, sampling=sampling, assignment=assignment)
    for p, name in enumerate(CHAINS):
        for f, fakes in enumerate(FAKING if name.startswith("rs") else FAKING[:1]):
            counts, reporters = wanted(result, p, fakes, sampling)
            assert np.array_equal(result.counts[p, 0, 0, f], counts), (name, fakes)
            assert np.array_equal(result.reporters[p, 0, 0], reporters), (name, fakes)
        if not name.startswith("rs"):
            assert (result.counts[p] == result.counts[p, :, :, :1]).all(), name


def test_a_text_is_a_list_of_one():
    assert Rounds(fakes="fresh").fakes == Rounds(fakes=["fresh"]).fakes == ["fresh"]


def test_a_few_chains_have_the_integers_of_the_stream():
    names = ["rsfd-l-grr", "rsfd-l-sue-r", "smp-ololoha"]
    result = made(names)
    for p in range(len(names)):
        assert np.array_equal(result.counts[p, 0, 0], wanted(result, p, "memo", "fixed")[0]), names[p]
    other = codes_of()
    other[17, 1, 2] = (other[17, 1, 2] + 1) % 5  # one value of one user: the comparison would notice
    assert not np.array_equal(result.counts[1, 0, 0], wanted(result, 1, "memo", "fixed", other)[0])


@pytest.mark.parametrize("protocol", ["spl-l-grr", "smp-l-osue", "spl-biloloha", "rsfd-l-grr", "rsfd-l-sue-r"])
def test_without_memo_and_without_second_step(protocol):
    """Nothing is remembered, or nothing is added: the chain is the other step alone."""
    off = made([protocol], memo="off")
    assert np.array_equal(off.counts[0, 0, 0], wanted(off, 0, "fresh", "fixed")[0])
    constant = np.repeat(codes_of()[:, :, :1], 2, axis=2)
    data = gpu_rsfd.EvolvingDataset(constant, DOMAIN)
    whole = made([protocol], data, first_report=1.0)
    assert np.array_equal(whole.counts[0, 0, 0, 0], whole.counts[0, 0, 0, 1])  # a memo alone says the same again
    assert np.array_equal(whole.counts[0, 0, 0], wanted(whole, 0, "memo", "fixed", constant)[0])
    again = made([protocol], data, memo="off")
    assert not np.array_equal(again.counts[0, 0, 0, 0], again.counts[0, 0, 0, 1])


@pytest.mark.slow
def test_chunks_processes_and_company_change_nothing():
    rng = np.random.default_rng(3)
    domain, users = (240, 3), MOST_USERS
    data = gpu_rsfd.EvolvingDataset(np.stack([rng.integers(k, size=(users, 2)) for k in domain], axis=1), domain)
    names = ["rsfd-l-grr", "rsfd-l-osue-z", "smp-l-sue", "spl-ololoha"]
    both = made(names, data, range(2), epsilons=[0.5, 2.0], workers=2)
    for p, name in enumerate(names):
        for e, r in ((0, 1), (1, 0)):
            alone = made([name], data, range(r, r + 1), epsilons=[(0.5, 2.0)[e]])
            assert chunk_size(both.plan, users) < chunk_size(alone.plan, users) == users
            assert np.array_equal(alone.counts[0, 0, 0], both.counts[p, e, r]), name
    short = gpu_rsfd.EvolvingDataset(np.stack([data.column(j, 0, users)[:, None] for j in range(2)], axis=1), domain)
    assert np.array_equal(made(names, short, range(2), epsilons=[0.5, 2.0]).counts[..., 0, :], both.counts[..., 0, :])


def test_who_returns_to_a_value_gets_the_old_memo():
    codes = np.zeros((USERS, 1, 3), int)
    codes[:, :, 1] = 1
    data = gpu_rsfd.EvolvingDataset(codes, (4,))
    found = made(["smp-l-grr", "smp-l-osue"], data, first_report=1.0).counts[:, 0, 0]  # memos alone
    assert np.array_equal(found[:, 0], found[:, 2])
    assert not np.array_equal(found[:, 0], found[:, 1])


def test_words_at_many_addresses():
    tape, rng = Tape(SEED), np.random.default_rng(0)
    columns, places = (rng.integers(2**63, size=40).astype(np.uint64) * np.uint64(2) + np.uint64(1) for _ in range(2))
    for count in (1, 4, 7, 32, 33, 100):
        found = tape.at(MEMO, columns, REPETITION, places, count)
        for row, column, place in zip(found, columns.tolist(), places.tolist(), strict=True):
            key, counter = [SEED, MEMO], [0, column, REPETITION, place]
            philox = np.random.Philox(key=np.array(key, np.uint64), counter=np.array(counter, np.uint64))
            assert np.array_equal(row, philox.random_raw(count))
    assert np.array_equal(
        tape.value(3, 5, 0, 50), tape.words(VALUE, 3, 5, 0, 50, 0)
    )  # place 0 is the tape without rounds
    assert not np.array_equal(tape.words(FAKES, 3, 5, 0, 50, 1), tape.words(FAKES, 3, 5, 0, 50))
