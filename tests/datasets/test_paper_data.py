"""The paper's real data sets without downloads: rules and published counts."""

import hashlib

import numpy as np
import pytest
from realdata import as_csv, shared_rows
from stats import normal_bound

import gpu_rsfd
from gpu_rsfd.datasets import paper
from gpu_rsfd.tape import Tape


@pytest.fixture(autouse=True)
def _no_originals(monkeypatch):
    monkeypatch.delenv("GPU_RSFD_DATA", raising=False)


def test_every_name_loads_with_its_published_shape():
    assert " ".join(gpu_rsfd.available()) == "syn1 syn2 syn3 syn4 syn5 syn6 nursery adult ms-fimu census-income"
    shapes = {}
    for name in gpu_rsfd.available()[6:]:
        data = gpu_rsfd.load_dataset(name)
        shapes[name] = (data.n, data.domain)
        assert data.name == name
        assert data.labels is not None
        assert tuple(map(len, data.labels)) == data.domain
    assert shapes["nursery"] == (12_960, (3, 5, 4, 4, 3, 2, 3, 3, 5))
    assert shapes["adult"] == (45_222, (7, 16, 7, 14, 6, 5, 2, 41, 2))
    assert shapes["ms-fimu"] == (88_935, (3, 3, 8, 12, 37, 11))
    assert shapes["census-income"][0] == 299_285
    sizes = "9 52 47 17 3 7 24 15 5 10 2 3 6 8 6 6 51 38 8 10 9 10 3 4 5 43 43 43 5 3 3 3 2"
    assert " ".join(map(str, shapes["census-income"][1])) == sizes


def test_nursery_is_the_original_file_to_the_byte():
    text = as_csv(gpu_rsfd.load_dataset("nursery")) + "\n"
    assert hashlib.sha256(text.encode()).hexdigest() == paper.SHA256["nursery.data"]


def test_nursery_equals_the_real_rows():
    codes, names, labels = shared_rows("nursery")
    data = gpu_rsfd.load_dataset("nursery")
    assert list(data.names) == names
    for j in range(data.d):
        mine = np.array(data.labels[j])[data.column(j, 0, data.n)]
        assert np.array_equal(mine, np.array(labels[j])[codes[:, j]])


@pytest.mark.slow
@pytest.mark.parametrize("name,file", [("adult", "adult"), ("census-income", "census_income")])
def test_published_counts_are_those_of_the_real_rows(name, file):
    codes, names, labels = shared_rows(file)
    data = gpu_rsfd.load_dataset(name)
    assert list(data.names) == names
    assert [list(row) for row in data.labels] == labels
    assert data.counts.tolist() == np.concatenate(
        [np.bincount(column, minlength=k) for column, k in zip(codes.T, data.domain, strict=True)]
    ).tolist()  # fmt: skip


@pytest.mark.parametrize("name", ["adult", "ms-fimu", "census-income"])
def test_rebuilt_columns_have_the_published_counts(name):
    data = gpu_rsfd.load_dataset(name)
    facts = paper.published_counts(name)
    assert data.counts.tolist() == [count for a in facts["attributes"] for count in a["counts"]]
    assert all(sum(a["counts"]) == facts["users"] == data.n for a in facts["attributes"])
    assert data.source == data.describe()["source"] == "columns rebuilt from published counts"


def correlation_z(a, b):
    return np.corrcoef(a, b)[0, 1] * np.sqrt(len(a))


def test_rebuilt_columns_are_spread_and_independent_of_each_other():
    data = gpu_rsfd.load_dataset("adult")
    columns = [data.column(j, 0, data.n).astype(float) for j in range(data.d)]
    place = np.arange(data.n)
    z = [correlation_z(column, place) for column in columns]
    z += [correlation_z(columns[i], columns[j]) for i in range(data.d) for j in range(i)]
    assert np.abs(z).max() < normal_bound(len(z))
    assert abs(correlation_z(np.sort(columns[0]), place)) > normal_bound(1)  # a sorted column would be seen


def test_rebuilt_columns_follow_their_documented_order():
    words = Tape(0).data(3, 0, 60)
    column = paper.rebuilt_column([10, 0, 45, 5], 3)
    for user in range(60):
        rank = sum(int(other) < int(words[user]) for other in words)
        assert column[user] == (0 if rank < 10 else 2 if rank < 55 else 3)
    for j in range(33):  # what makes the order unambiguous
        words = np.sort(Tape(0).data(j, 0, 299_285))
        assert (words[1:] != words[:-1]).all()


def test_labels_reach_the_result():
    data = gpu_rsfd.load_dataset("nursery")
    result = gpu_rsfd.simulate(data, epsilons=1.0, protocols="smp-grr", repetitions=1)
    assert result.labels == data.labels
    assert data.labels[0] == ("usual", "pretentious", "great_pret")
