"""Balanced assignment as part of the stream: its contract, its groups, its randomness."""

import functools

import numpy as np
import pytest
from stats import check_uniform, normal_bound
from test_tape import MASK, contract_word

import gpu_rsfd
from gpu_rsfd.protocols import group_size
from gpu_rsfd.tape import Tape

BALANCE = 4
REPETITIONS = 3000


def contract_position(seed: int, repetition: int, n: int, user: int) -> int:
    """docs/stream.md in plain integers, independent of NumPy and of the package."""
    keys = [contract_word(seed, BALANCE, 0, repetition, i) for i in range(8)]
    shift = contract_word(seed, BALANCE, 0, repetition, 8)
    bits = max(8, (n - 1).bit_length())
    low = bits // 2
    high = bits - low

    def mix(x: int, key: int) -> int:
        z = ((x ^ key) * 0xBF58476D1CE4E5B9) & MASK
        z ^= z >> 32
        return (z * 0x94D049BB133111EB & MASK) >> 37

    x = user
    while True:
        left, right = x >> low, x % 2**low
        for i in range(0, 8, 2):
            left ^= mix(right, keys[i]) % 2**high
            right ^= mix(left, keys[i + 1]) % 2**low
        x = left << low | right
        if x < n:
            break
    rotation = (shift >> 32) * n >> 32 if n <= 2**32 else shift % n
    return (x + rotation) % n


@pytest.mark.parametrize("n", [1, 2, 3, 255, 256, 257, 1000, 4096, 5001])
def test_positions_are_the_contracts_permutation(n):
    for seed, repetition in ((0, 0), (2**64 - 1, 57), (2026, 2**64 - 1)):
        positions = Tape(seed).positions(repetition, n, 0, n)
        assert sorted(positions.tolist()) == list(range(n))
        for user in {0, 1 % n, n // 2, n - 1, *range(0, n, 97)}:
            assert positions[user] == contract_position(seed, repetition, n, user)


@pytest.mark.parametrize("n", [500_001, 2**32, 2**32 + 1, 2**40 + 12345, 2**53])
def test_positions_of_users_far_out(n):
    """Any chunk on its own, without the users before it: also where nobody could hold the whole permutation."""
    for start in (0, n // 3, n - 5):
        got = Tape(7).positions(3, n, start, start + 5)
        assert got.tolist() == [contract_position(7, 3, n, user) for user in range(start, start + 5)]


def test_known_answers():
    """Stream version 1, frozen."""
    assert Tape(2026).positions(57, 10, 0, 10).tolist() == KNOWN_10
    assert Tape(2026).positions(57, 88_935, 88_932, 88_935).tolist() == KNOWN_MS_FIMU


@pytest.mark.parametrize("n,d", [(1, 3), (2, 3), (9, 3), (10, 3), (11, 3), (1000, 7), (50_000, 33)])
def test_groups_have_their_exact_sizes(n, d):
    expected = [group_size(n, d, j) for j in range(d)]
    assert sum(expected) == n
    assert max(expected) - min(expected) <= 1
    assert expected == [-(-(n - j) // d) if j < n else 0 for j in range(d)]
    for repetition in range(5):
        groups = Tape(1).assigned("balanced", repetition, n, d, 0, n)
        assert np.bincount(groups, minlength=d).tolist() == expected


def test_any_chunk_on_its_own():
    n, d = 5000, 6
    whole = Tape(3).assigned("balanced", 9, n, d, 0, n)
    for start, stop in ((0, 1), (1, 64), (63, 130), (4097, 5000), (4999, 5000)):
        assert np.array_equal(Tape(3).assigned("balanced", 9, n, d, start, stop), whole[start:stop])


@functools.cache
def positions_of(n):
    """[repetition, user]: made once for all tests and all d."""
    tape = Tape(11)
    return np.stack([tape.positions(r, n, 0, n) for r in range(REPETITIONS)])


def groups_of(n, d):
    return (positions_of(n) % np.uint64(d)).astype(np.int64)


def histograms(groups, d):
    """[user, group]: in how many repetitions each user was in each group."""
    return np.stack([(groups == j).sum(axis=0) for j in range(d)], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("n,d", [(60, 4), (60, 3), (257, 2)])
def test_each_user_is_uniform_over_the_groups(n, d):
    check_uniform(histograms(groups_of(n, d), d), f"groups of n={n} users, d={d}")


@pytest.mark.slow
def test_uniformity_check_rejects_a_fixed_split():
    n, d = 60, 4
    groups = groups_of(n, d)
    groups[::8] = np.arange(n) % d  # one repetition in eight deals the users out in file order
    with pytest.raises(AssertionError, match="chi2"):
        check_uniform(histograms(groups, d), "a fixed split now and then")


def check_pairs(groups, d, what):
    """Every pair of users shares a group as often as in a random partition: sum of m_j (m_j - 1) / (n (n - 1))."""
    repetitions, n = groups.shape
    sizes = np.array([group_size(n, d, j) for j in range(d)])
    chance = (sizes * (sizes - 1)).sum() / (n * (n - 1))
    together = np.zeros((n, n))
    for j in range(d):
        mine = (groups == j).astype(np.float64)
        together += mine.T @ mine
    z = (together[np.triu_indices(n, 1)] / repetitions - chance) / np.sqrt(chance * (1 - chance) / repetitions)
    bound = normal_bound(z.size)
    assert np.abs(z).max() < bound, (
        f"{what}: a pair is together too often or too seldom (z={z[np.abs(z).argmax()]:.1f})"
    )


@pytest.mark.slow
@pytest.mark.parametrize("n,d", [(60, 4), (60, 7), (257, 3)])
def test_pairs_of_users_are_together_by_chance(n, d):
    check_pairs(groups_of(n, d), d, f"n={n}, d={d}")


def test_pair_check_rejects_neighbours_dealt_out_in_order():
    """A rotation of the file alone gives every user uniform groups, but neighbours never meet."""
    n, d = 128, 4
    shifts = np.random.Philox(key=1).random_raw(REPETITIONS) % np.uint64(n)
    rotated = (np.arange(n) + shifts[:, None].astype(np.int64)) % n % d
    check_uniform(histograms(rotated, d), "single users")
    with pytest.raises(AssertionError, match="together too often or too seldom"):
        check_pairs(rotated, d, "rotation")


def test_repetitions_and_seeds_are_different_splits():
    splits = [Tape(s).assigned("balanced", r, 200, 4, 0, 200) for s in (0, 1) for r in range(20)]
    assert len({split.tobytes() for split in splits}) == 40


def test_reports_and_simulation_use_the_same_groups():
    data = gpu_rsfd.SyntheticDataset(301, (3, 4, 5), seed=2)
    groups = Tape(8).assigned("balanced", 6, 301, 3, 0, 301)
    assert np.array_equal(gpu_rsfd.reports(data, "smp-grr", 1.0, 8, 6, "balanced").sampled, groups)
    result = gpu_rsfd.simulate(
        data, epsilons=1.0, protocols="smp-grr", repetitions=range(6, 7), seed=8, assignment="balanced"
    )
    assert result.reporters[0, 0, 0].tolist() == [101, 100, 100]


KNOWN_10 = [9, 3, 1, 2, 6, 8, 7, 5, 4, 0]
KNOWN_MS_FIMU = [60550, 22383, 26925]
