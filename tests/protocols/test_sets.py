"""Message sets and subset selection: designs, probabilities, rounding, and what is refused."""

import math
from itertools import combinations

import designs
import numpy as np
import pytest
from literal_attack import given_fake, given_value

import gpu_rsfd
from gpu_rsfd import contract
from gpu_rsfd.backends import open_backend
from gpu_rsfd.backends.cpu.subsets import chosen
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import REGISTRY, Keep, Recipe, Sets, Subsets, Unsampled, mechanism
from gpu_rsfd.protocols.designs import hadamard, own_design, projective
from gpu_rsfd.protocols.form import noise_of
from gpu_rsfd.tape import ONE

RULES = {v.noise.name: v.noise for entry in REGISTRY.values() for v in entry.variants}

FANO = [[0, 1, 2], [0, 3, 4], [0, 5, 6], [1, 3, 5], [1, 4, 6], [2, 3, 6], [2, 4, 5]]
DESIGNS = [
    *((hadamard(k), designs.hadamard(k)) for k in (2, 3, 4, 7, 8, 33)),
    *((projective(q, k), designs.projective(q, k)) for q, k in [(3, 2), (3, 4), (3, 5), (2, 15), (5, 31), (7, 60)]),
    (own_design(FANO), np.array([np.isin(np.arange(7), row) for row in FANO])),
]


@pytest.mark.parametrize("design,sets", DESIGNS, ids=lambda x: str(len(x)) if isinstance(x, np.ndarray) else "")
def test_designs_are_their_definitions(design, sets):
    k, messages = sets.shape
    assert design.messages == messages
    assert (sets.sum(axis=1) == design.size).all()
    common = sets.astype(int) @ sets.T
    assert (common[~np.eye(k, dtype=bool)] == design.shared).all()
    values, numbers = np.divmod(np.arange(k * design.size), design.size)
    members = np.argwhere(sets)[:, 1]  # ascending for each value
    assert np.array_equal(np.concatenate(list(design.sets(k))), members)
    assert np.array_equal(design.elements(values, numbers), members)
    sent = np.random.default_rng(1).integers(1000, size=(2, messages))
    assert np.array_equal(design.supported(sent, k), sent @ sets.T)


@pytest.mark.parametrize("protocol,e", [("hr", 0.5), ("hr", 3.0), ("pgr", 0.5), ("pgr", 1.0), ("pgr", math.log(7))])
@pytest.mark.parametrize("k", [2, 3, 5, 13, 40])
def test_probabilities_are_those_of_all_messages(protocol, e, k):
    """p*, q*, loss from P(message | value), enumerated; the formulas to what 2**32 draws can tell."""
    q = designs.least_prime(math.ceil(math.exp(e)) + 1)
    sets = designs.hadamard(k) if protocol == "hr" else designs.projective(q, k)
    m = mechanism(f"smp-{protocol}", e, 1, k)
    keep, size, messages = m.recipe.noise.threshold / 2**32, sets[0].sum(), sets.shape[1]
    given = keep / size * sets + (1 - keep) / messages  # [value, message]
    support = given @ sets.T
    assert np.diag(support) == pytest.approx(m.p, abs=1e-9)
    assert support[~np.eye(k, dtype=bool)] == pytest.approx(m.q, abs=1e-9)
    assert m.loss == pytest.approx(np.log(given.max() / given.min()), abs=1e-9)
    assert m.loss <= e
    big, shared = math.exp(e), (sets[0] & sets[1]).sum()
    total = (big - 1) * size + messages
    assert (m.p, m.q) == pytest.approx((big * size / total, ((big - 1) * shared + size) / total), abs=1e-9)
    assert RULES[protocol].ideal(e, k) == pytest.approx((m.p, m.q), abs=1e-9)
    if protocol == "hr":
        assert (m.p, m.q) == pytest.approx((big / (big + 1), 0.5), abs=1e-9)
    assert m.bits == math.log2(messages)


@pytest.mark.parametrize("noise", ["hr", "pgr"])
@pytest.mark.parametrize("k", [2, 3, 13])
def test_what_a_message_tells_an_attacker(noise, k):
    """L = M (1 + (E - 1) [m in S_x]) / ((E - 1) s + M), for every message and value."""
    m = mechanism(f"rsfd-{noise}", 1.0, 2, k)
    order = designs.least_prime(math.ceil(math.exp(m.spent)) + 1)
    sets, odds = designs.hadamard(k) if noise == "hr" else designs.projective(order, k), math.exp(m.spent)
    messages, size = sets.shape[1], sets[0].sum()
    right = messages * (1 + (odds - 1) * sets) / ((odds - 1) * size + messages)
    for y in range(messages):
        assert given_value(m, y) / given_fake(m, y) == pytest.approx(right[:, y], abs=1e-8)
    assert sum(given_value(m, y) for y in range(messages)) == pytest.approx(np.ones(k), abs=1e-9)


def test_what_a_subset_tells_an_attacker():
    m = mechanism("smp-ss", 1.0, 2, 5)
    sets = [np.isin(np.arange(5), s) for s in combinations(range(5), m.recipe.noise.size)]
    given = np.array([given_value(m, bits) for bits in sets])
    assert given.sum(axis=0) == pytest.approx(np.ones(5), abs=1e-9)
    assert np.diag(given.T @ np.array(sets, float)) == pytest.approx(m.p, abs=1e-9)
    assert np.log(given.max() / given.min()) == pytest.approx(m.loss, abs=1e-9)


def test_grr_is_the_case_of_sets_of_one_message():
    """The same words, the same threshold, the same counts."""
    data = gpu_rsfd.SyntheticDataset(300, (5, 5), seed=3)
    alone = gpu_rsfd.protocol("alone", solution="rsfd-r", sets=lambda e, k: np.arange(k)[:, None])
    grr, sets = (gpu_rsfd.mechanism(p, 1.0, 2, 5).recipe.noise for p in ("rsfd-grr", alone))
    assert (sets.p(5), sets.q(5)) == pytest.approx((grr.p(5), grr.q(5)), abs=1e-9)
    both = [[[Recipe(Unsampled.FAKE, noise)] * 2] for noise in (grr, Sets(grr.threshold, sets.design))]
    plan = Plan.of(data.domain, ["rsfd-grr", alone], [1.0])
    plan = Plan.compiled(plan.domain, plan.looks, plan.epsilons, both, "uniform")
    with open_backend("numpy", 1)[0] as engine:
        counts = plan.expand(engine.count(plan, data, 1, range(2))[0])
    assert np.array_equal(counts[0], counts[1])
    assert counts[0].sum() == 2 * 2 * 300


def ss_by_steps(k, size, threshold):
    """[value]: P(it is in the set | value 0), exactly as 24-bit draws take it: users by their free places."""
    rates, p = np.zeros(k), threshold / ONE
    rates[0] = p
    free = {size - 1: p, size: 1 - p}
    for v in range(1, k):
        after = {}
        for needed, share in free.items():
            taken = -(-needed * ONE // (k - v)) / ONE  # draws U with U left < needed 2**24
            rates[v] += share * taken
            for rest, part in ((needed - 1, taken), (needed, 1 - taken)):
                after[rest] = after.get(rest, 0.0) + share * part
        free = after
    assert sum(share for needed, share in free.items() if needed == 0) == pytest.approx(1, abs=1e-12)
    return rates


@pytest.mark.parametrize("e", [0.3, 1.0, math.log(7)])
@pytest.mark.parametrize("k", [2, 3, 10, 200])
def test_subset_selection(k, e):
    m = mechanism("smp-ss", e, 1, k)
    w, big = max(1, round(k / (math.exp(e) + 1))), math.exp(e)
    assert m.recipe.noise.size == w
    p = w * big / (w * big + k - w)
    q = (w * big * (w - 1) + (k - w) * w) / ((k - 1) * (w * big + k - w))
    assert RULES["ss"].ideal(e, k) == pytest.approx((p, q), abs=1e-12)
    assert p - 2**-24 <= m.p <= p * (1 + 1e-12)
    assert m.bits == pytest.approx(math.log2(math.comb(k, w)))
    assert e - 1e-5 < m.loss <= e * (1 + 1e-12)
    rates = ss_by_steps(k, w, m.recipe.noise.tp)
    assert rates[0] == m.p
    assert np.abs(rates[1:] - m.q).max() < 1e-6  # what rounding to 24 digits does


def test_subsets_are_uniform_but_for_the_own_value():
    """Every set of size w, given x: as often as it must be, at a false-alarm rate of 1e-6."""
    k, size, users, own = 5, 2, 40_000, 3
    tp = 10_000_000
    u = np.random.default_rng(8).integers(ONE, size=(k, users), dtype=np.uint32)
    taken = chosen(u, np.full(users, own), tp, size)
    assert (taken.sum(axis=0) == size).all()
    inside, outside = Subsets(tp, size).given(k)
    for members in combinations(range(k), size):
        bits = np.isin(np.arange(k), members)[:, None]
        rate = inside if own in members else outside
        z = ((taken == bits).all(axis=0).mean() - rate) / math.sqrt(rate * (1 - rate) / users)
        assert abs(z) < 5.4  # ten sets
    assert abs((chosen(u, np.full(users, own), tp, 3).mean() - 0.4) * 5) > 0.5  # a negative control: other sets


@pytest.mark.parametrize("solution", [*(pytest.param(s, marks=pytest.mark.slow) for s in ("spl", "smp")), "rsfd-r"])
def test_designs_of_ones_own(solution):
    """A plane of seven points and lines: enumerated, counted by every backend, estimated without bias."""
    said = []
    contract.check(gpu_rsfd.protocol("fano", solution=solution, sets=FANO), echo=said.append)
    assert sum("integer by integer" in line for line in said) >= 1
    m = gpu_rsfd.mechanism(gpu_rsfd.protocol("fano", solution=solution, sets=FANO), 1.0, 1, 7)
    assert m.recipe.noise.integers[1:4] == (7, 3, 1)
    shuffled = [row[::-1] for row in FANO]
    again = gpu_rsfd.mechanism(gpu_rsfd.protocol("again", solution=solution, sets=lambda e, k: shuffled[:k]), 1.0, 1, 7)
    assert again.recipe == m.recipe  # the order within a set does not matter


@pytest.mark.parametrize("sets,message", [
    ([[0, 1], [1, 2], [2, 3]], r"values 0 and 1 share 1 message\(s\), those of 0 and 2 share 0: any two must share"),
    ([*FANO[:5], [0, 1, 6], FANO[6]], "any two must share equally many"),
    ([[0, 1], [2, 3], [4]], r"value 0 has 2 message\(s\), value 2 has 1: all must have equally many"),
    ([[0, [1]], [2, 3]], "they must be a table of integers"),
    ([[0, 0], [1, 2]], "value 0 has message 0 twice"),
    ([[0, 1], [0, 1]], "all values have the same messages"),
    ([[0, -1], [1, 2]], "message -1 is negative"),
    ([[0.5], [1.5]], "a table of integers"),
    ([0, 1], "a table of integers"),
    ([[0], [2**20]], "1,048,577 messages are needed; at most 1,048,576 are valid"),
    (np.broadcast_to(np.arange(10**5), (501, 10**5)), "501 x 100,000 messages is needed"),
])  # fmt: skip
def test_sets_that_are_refused(sets, message):
    with pytest.raises(gpu_rsfd.InputError, match=message):
        gpu_rsfd.protocol("bad", solution="smp", sets=sets)
    with pytest.raises(gpu_rsfd.InputError, match=message):
        mechanism(gpu_rsfd.protocol("bad", solution="smp", sets=lambda e, k: sets), 1.0, 2, 3)


def test_projective_geometry_is_close_to_subset_selection_if_there_are_many_values():
    """The figures in docs/protocols.md."""
    for k, worse in ((100, 1.05), (10, 1.27)):
        pgr, ss = mechanism("smp-pgr", 1.0, 1, k), mechanism("smp-ss", 1.0, 1, k)
        assert pgr.variance(1 / k, 10_000) / ss.variance(1 / k, 10_000) == pytest.approx(worse, abs=0.005)
        assert k != 100 or (round(pgr.bits, 1), round(ss.bits, 1)) == (7.3, 80.7)


def test_domains_that_are_refused():
    with pytest.raises(gpu_rsfd.InputError, match=r"pgr with k=50000 values .* 50,000 x 19,531 .* at most 50,000,000"):
        mechanism("smp-pgr", 1.0, 1, 50_000)
    with pytest.raises(gpu_rsfd.InputError, match=r"sets\(e=1, k=8\) has the sets of 7 values; 8 are needed"):
        mechanism(gpu_rsfd.protocol("fano", solution="smp", sets=FANO), 1.0, 1, 8)
    with pytest.raises(gpu_rsfd.InputError, match="sets sends a message, so fakes are messages: use rsfd-r"):
        gpu_rsfd.protocol("fano", solution="rsfd-z", sets=FANO)
    for recipe in ((Unsampled.ZERO, Sets(5, hadamard(3))), (Unsampled.FAKE, Subsets(5, 1))):
        with pytest.raises(TypeError):
            Recipe(*recipe)
    with pytest.raises(TypeError, match="fakes of Sets are messages"):
        Recipe(Unsampled.FAKE, Sets(5, hadamard(3)), (1, 2))


def test_from_a_file_a_noise_has_its_numbers_and_not_its_sets():
    noise = mechanism("smp-pgr", 1.0, 1, 9).recipe.noise
    stored = noise_of("sets", noise.integers)
    assert stored == noise
    assert (stored.p(9), stored.q(9)) == (noise.p(9), noise.q(9))
    with pytest.raises(gpu_rsfd.InputError, match="are not known here"):
        stored.design.members(0)
    assert noise_of("subsets", (7, 2)) == Subsets(7, 2)
    assert noise_of("keep", (7,)) == Keep(7)


# Feldman, Nelson, Nguyen, Talwar, ICML 2022: mean and standard deviation of the MSE of counts over 300 trials, all
# users with one value (junta4: a quarter of them with each of four).  Sets of 1,000 users share their random numbers.
PUBLISHED = [  # noise, n, k, epsilon, mean, sd
    ("pgr", 1000, 22_000, 5.0, 27.2, 0.853031),  # junta4
    ("pgr", 1000, 1024, 5.0, 27.7665, 7.84788),  # spike1
    ("pgr", 50_000, 22_000, 5.0, 1378.38, 84.3329),  # spike5
    ("pgr", 10_000, 22_000, 5.0, 272.733, 15.8068),  # spike7
    ("pgr", 10_000, 22_000, 1.386, 17765.2, 206.366),  # spike8
]
TRIALS = 300


def standard_errors(name, n, k, epsilon, mean, sd):
    """How far a published mean is from the expected MSE of counts, with all users' values fixed."""
    p, q = RULES[name].ideal(epsilon, k)
    expected = n * (p * (1 - p) + (k - 1) * q * (1 - q)) / (k * (p - q) ** 2)
    return (mean - expected) / (sd / math.sqrt(TRIALS))


def test_published_trials_of_projective_geometry_response():
    assert max(abs(standard_errors(*row)) for row in PUBLISHED) < contract.bound(len(PUBLISHED))
    # a negative control: their subset selection of spike8 does not exclude the own value, 2.8 % too much
    assert abs(standard_errors("ss", 10_000, 22_000, 1.386, 18289.7, 194.768)) > 2 * contract.bound(1)


def test_published_largest_errors():
    """spike1: mean and standard deviation of the largest error over 300 trials, in counts."""
    data = gpu_rsfd.Dataset(np.zeros((1000, 1), np.int64), (1024,))
    run = {"epsilons": 5.0, "repetitions": TRIALS, "sampler": "counts", "workers": 1}
    errors = gpu_rsfd.simulate(data, protocols=["smp-pgr"], **run).estimates()[0, 0] - data.frequencies
    largest = 1000 * np.abs(errors).max(axis=1)
    noise = math.sqrt((16.8584**2 + largest.var()) / TRIALS)
    assert abs(largest.mean() - 29.344) / noise < contract.bound(1)


def test_a_file_knows_the_design_by_its_digest(tmp_path):
    """Another design of the same size under the same name does not continue a file; the file opens without either."""
    data = gpu_rsfd.SyntheticDataset(200, (5, 3), seed=1, name="people")
    other = [[(3 * m + 1) % 7 for m in line] for line in FANO]
    run = {"output": tmp_path / "own.h5", "epsilons": 1.0, "repetitions": 2, "backend": "numpy", "workers": 1}
    first, second = (gpu_rsfd.protocol("fano", solution="rsfd-r", sets=sets) for sets in (FANO, other))
    gpu_rsfd.sweep(data, protocols=[first, "smp-hr", "spl-pgr", "smp-ss"], **run)
    result = gpu_rsfd.open_results(run["output"])["people"]
    right = gpu_rsfd.simulate(data, protocols=[first, "smp-hr", "spl-pgr", "smp-ss"], epsilons=1.0, repetitions=2)
    assert np.array_equal(result.counts, right.counts)
    assert result.estimates() == pytest.approx(right.estimates(), abs=1e-12)
    with pytest.raises(
        gpu_rsfd.InputError, match=r"fano is another protocol in the file: .* it is sets\(\d+, 7, 3, 1, "
    ):
        gpu_rsfd.sweep(data, protocols=[second, "smp-hr", "spl-pgr", "smp-ss"], **run)
