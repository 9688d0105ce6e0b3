"""Data sets known only by their counts, and the distributions that need no more."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from stats import check_means, check_variances, normal_bound

import gpu_rsfd
from gpu_rsfd import CountedDataset
from gpu_rsfd.backends.exact import draws as laws
from gpu_rsfd.backends.exact import samplers
from gpu_rsfd.datasets.counted import largest_remainder
from gpu_rsfd.planning import Plan


def test_counts_and_frequencies_give_the_same_data():
    counts = CountedDataset(10, (2, 3), [[7, 3], [0, 4, 6]])
    same = CountedDataset(10, (2, 3), [[0.7, 0.3], [0.0, 0.4, 0.6]])
    assert counts.counts.tolist() == same.counts.tolist() == [7, 3, 0, 4, 6]
    assert counts.frequencies.tolist() == [0.7, 0.3, 0.0, 0.4, 0.6]
    assert counts.describe() == same.describe()
    assert CountedDataset(10, (2, 3), [[7, 3], [4, 0, 6]]).describe() != counts.describe()
    assert pickle.loads(pickle.dumps(counts)).describe() == counts.describe()


@pytest.mark.parametrize("n", [1, 7, 1000, 2**53])
def test_largest_remainder(n):
    shares = [0.1, 0.2, 0.3, 1 / 3, 0.7 / 10.5]
    counts = largest_remainder(shares, n)
    total = sum(map(Fraction, shares))
    assert sum(counts.tolist()) == n
    assert all(abs(c - n * Fraction(f) / total) < 1 for c, f in zip(counts.tolist(), shares, strict=True))
    assert largest_remainder([0.25, 0.25, 0.5], 2).tolist() == [1, 0, 1]
    assert largest_remainder([0.24, 0.36, 0.4], 10).tolist() == [2, 4, 4]


def test_a_distribution_gives_the_expected_counts():
    data = CountedDataset.of_distribution(1100, (4, 2), "zipf:1")
    assert data.counts.tolist() == [528, 264, 176, 132, 733, 367]
    assert CountedDataset.of_distribution(12, (4,)).counts.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("arguments,message", [
    ((2**53 + 1, (2,), [[0.5, 0.5]]), r"users=9007199254740993 must be a whole number >= 1 and <= 2\*\*53"),
    ((0, (2,), [[0, 0]]), r"users=0 must be a whole number >= 1"),
    ((10, (2,), [[0.5, 0.6]]), r"table\[0\] has frequencies that sum to 1.1; they must sum to 1"),
    ((10, (2,), [[1.5, -0.5]]), r"table\[0\]\[1\]=-0.5 must be finite and >= 0"),
    ((10, (2, 2), [[5, 5], [11, -1]]), r"table\[1\]\[1\]=-1 must be finite and >= 0"),
    ((10, (2,), [[float("nan"), 1.0]]), r"table\[0\]\[0\]=nan must be finite"),
    ((10, (2,), [[5, 6]]), r"table\[0\] has counts that sum to 11; they must sum to users=10"),
    ((10, (3,), [[5, 5]]), r"table\[0\] has shape \(2,\); one entry for each of domain\[0\]=3 values is needed"),
    ((10, (2, 2), [[5, 5]]), r"table has 1 rows, but domain has 2 sizes"),
    ((10, (2,), [["5", "5"]]), r"table\[0\] has dtype <U1; counts \(integers\) or frequencies \(floats\) are needed"),
])  # fmt: skip
def test_bad_tables(arguments, message):
    with pytest.raises(ValueError, match=message):
        CountedDataset(*arguments)


@pytest.mark.parametrize("sampler", ["users", "counts"])
def test_a_data_set_without_rows_is_refused(sampler):
    data = CountedDataset.of_distribution(10**6, (3, 4), name="census")
    message = (
        "data set 'census' is known only by its counts, not user by user: "
        f"sampler='{sampler}' cannot be used; available: marginals"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        gpu_rsfd.simulate(data, sampler=sampler)
    with pytest.raises(ValueError, match="known only by its counts"):
        data.column(0, 0, 1)
    with pytest.raises(ValueError, match="known only by its counts"), samplers.CountsSampler() as direct:
        direct.count(Plan.of(data.domain, gpu_rsfd.PAPER, (1.0,)), data, 0, range(1))


@pytest.mark.parametrize(
    "good,bad,sample", [(5, 7, 4), (1, 1, 1), (30, 3, 20), (40, 200, 60), (2, 900, 450), (6, 6, 11)]
)
def test_hypergeometric_law(good, bad, sample):
    """Every outcome's frequency against its exact probability."""
    draws = 40_000
    x = laws.hypergeometric(np.random.default_rng(5), good, bad, np.full(draws, sample))
    outcomes = range(max(0, sample - bad), min(good, sample) + 1)
    total = math.comb(good + bad, sample)
    for outcome in outcomes:
        p = math.comb(good, outcome) * math.comb(bad, sample - outcome) / total
        count = int((x == outcome).sum())
        bound = normal_bound(len(outcomes)) * math.sqrt(draws * p * (1 - p)) + 12  # a Poisson tail, if p is tiny
        assert abs(count - draws * p) < bound, (outcome, count, draws * p)
    assert min(outcomes) <= x.min() <= x.max() <= max(outcomes)


def test_hypergeometric_certainties():
    draw = np.random.default_rng(0)
    sample = np.array([0, 3, 8])
    assert laws.hypergeometric(draw, 0, 8, sample).tolist() == [0, 0, 0]
    assert laws.hypergeometric(draw, 8, 0, sample).tolist() == [0, 3, 8]
    assert laws.hypergeometric(draw, 3, 5, sample)[[0, 2]].tolist() == [0, 3]
    assert laws.hypergeometric(draw, 0, 0, np.zeros(2, np.int64)).tolist() == [0, 0]


@pytest.mark.parametrize("scale", [1, 10**6, 10**12])
def test_dealt_has_the_moments_of_sampling_without_replacement(scale):
    holders = np.array([[1, 700, 249, 50], [250, 250, 250, 250]]) * scale
    n, group = 1000 * scale, np.array([400 * scale, 3 * scale])
    s = laws.dealt(np.random.default_rng(3), holders, group, 4000)
    assert (s.sum(axis=1) == group[:, None]).all()
    assert ((s >= 0) & (s <= holders[:, :, None])).all()
    f, m = holders / n, group[:, None].astype(float)
    variance = m * f * (1 - f) * (n - m) / (n - 1)
    samples = np.moveaxis(s, 2, 0).astype(float)
    check_means(samples, m * f, variance, f"scale={scale}")
    large = (m * f > 30) & np.ones_like(f, bool)
    check_variances(samples[:, large], variance[large], f"scale={scale}")
    pair = np.cov(samples[:, 0, 1], samples[:, 0, 2])
    expected = -m[0, 0] * f[0, 1] * f[0, 2] * (n - m[0, 0]) / (n - 1)
    error = math.sqrt((pair[0, 0] * pair[1, 1] + expected**2) / 4000)
    assert abs(pair[0, 1] - expected) < normal_bound(1) * error
