import numpy as np
import pytest
from stats import check_uniform, normal_bound

import gpu_rsfd
from gpu_rsfd.datasets.synthetic import zipf_thresholds
from gpu_rsfd.tape import DATA, Tape


def test_the_papers_synthetic_sets():
    sizes = {name: gpu_rsfd.load_dataset(name) for name in ("syn1", "syn2", "syn3", "syn4", "syn5", "syn6")}
    assert [d.n for d in sizes.values()] == [50_000, 500_000, 50_000, 500_000, 500_000, 500_000]
    assert [d.d for d in sizes.values()] == [5, 5, 10, 10, 10, 20]
    assert sizes["syn3"].domain == (10,) * 10
    assert sizes["syn5"].domain == (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
    assert sizes["syn6"].domain[:5] == (10, 10, 20, 20, 30)
    assert sum(sizes["syn6"].domain) == 1100
    check_uniform(sizes["syn3"].counts.reshape(10, 10), "syn3")


def test_values_are_the_contracts():
    data = gpu_rsfd.SyntheticDataset(1000, (7, 300), seed=5)
    for j, k in enumerate(data.domain):
        words = np.random.Philox(key=[5, DATA], counter=[0, j, 0, 0]).random_raw(1000)
        assert data.column(j, 0, 1000).tolist() == [((int(w) >> 32) * k) >> 32 for w in words]


@pytest.mark.parametrize("distribution", ["uniform", "zipf:1.3", "zipf:0"])
def test_any_chunk_on_its_own(distribution):
    data = gpu_rsfd.SyntheticDataset(1000, (7, 300), distribution, seed=5)
    whole = data.column(1, 0, 1000)
    for start, stop in ((0, 1), (1, 64), (63, 130), (997, 1000)):
        assert np.array_equal(data.column(1, start, stop), whole[start:stop])


def test_zipf_has_its_frequencies():
    k, s, n = 20, 1.2, 200_000
    data = gpu_rsfd.SyntheticDataset(n, (k,), f"zipf:{s}", seed=1)
    expected = np.arange(1, k + 1) ** -s
    expected /= expected.sum()
    z = (data.frequencies - expected) / np.sqrt(expected * (1 - expected) / n)
    assert np.abs(z).max() < normal_bound(k)
    flat = np.full(k, 1 / k)
    assert np.abs((data.frequencies - flat) / np.sqrt(flat * (1 - flat) / n)).max() > normal_bound(k)


def test_zipf_values_by_thresholds():
    thresholds = zipf_thresholds(5, 1.0)
    high = Tape(3).data(0, 0, 500) >> np.uint64(32)
    data = gpu_rsfd.SyntheticDataset(500, (5,), "zipf:1.0", seed=3)
    assert data.column(0, 0, 500).tolist() == [sum(int(t) <= int(h) for t in thresholds) for h in high]


def test_own_codes():
    codes = np.array([[0, 2], [1, 0], [1, 1], [0, 2]])
    data = gpu_rsfd.Dataset(codes, (2, 3), names=["sex", "age"])
    assert (data.n, data.d, data.names) == (4, 2, ("sex", "age"))
    assert data.counts.tolist() == [2, 2, 1, 1, 2]
    assert data.frequencies.tolist() == [0.5, 0.5, 0.25, 0.25, 0.5]
    codes[0, 0] = 1  # the data set is not a view of the caller's table
    assert data.counts.tolist() == [2, 2, 1, 1, 2]
    assert data.column(0, 0, 4).tolist() == [0, 1, 1, 0]


def test_description_identifies_the_data():
    a, b = gpu_rsfd.Dataset([[0], [1]], (2,)), gpu_rsfd.Dataset([[1], [0]], (2,))
    assert a.describe() != b.describe()
    assert a.describe() == gpu_rsfd.Dataset(np.array([[0], [1]], np.uint8), (2,)).describe()
    assert gpu_rsfd.load_dataset("syn1").describe() != gpu_rsfd.load_dataset("syn1", seed=1).describe()
