"""Every data set says which data it is: `source`, also in its description and so in the results file."""

import pytest
from command import refusal
from realdata import as_csv

import gpu_rsfd
from gpu_rsfd.cli.inputs import datasets_of
from gpu_rsfd.datasets import load_datasets

REBUILT = "columns rebuilt from published counts"
RULES = "rows regenerated from the rules"


@pytest.fixture(autouse=True)
def _no_originals(monkeypatch):
    monkeypatch.delenv("GPU_RSFD_DATA", raising=False)


@pytest.fixture
def folder(tmp_path):
    """Has the file of Nursery, and of no other set."""
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "nursery.data").write_text(as_csv(gpu_rsfd.load_dataset("nursery")) + "\n")
    return tmp_path / "uci"


@pytest.mark.parametrize("make,source", [
    (lambda: gpu_rsfd.Dataset([[0], [1]], (2,)), "in memory"),
    (lambda: gpu_rsfd.Dataset([[0], [1]], (2,), source="survey of 2024"), "survey of 2024"),
    (lambda: gpu_rsfd.CountedDataset(3, (2,), [[1, 2]]), "counts in memory"),
    (lambda: gpu_rsfd.CountedDataset.of_distribution(9, (2,), "zipf:1"), "expected counts: zipf:1"),
    (lambda: gpu_rsfd.SyntheticDataset(9, (2,), "zipf:1.2", seed=7), "drawn: zipf:1.2, seed 7"),
    (lambda: gpu_rsfd.load_dataset("syn1"), "drawn: uniform, seed 0"),
    (lambda: gpu_rsfd.load_dataset("nursery"), RULES),
    (lambda: gpu_rsfd.load_dataset("adult"), REBUILT),
])  # fmt: skip
def test_sources(make, source):
    data = make()
    assert data.source == data.describe()["source"] == source


def test_a_file_is_named_without_its_folder(tmp_path):
    (tmp_path / "t.csv").write_text("x;y\n1;a\n2;b\n")
    assert gpu_rsfd.load_table(tmp_path / "t.csv").describe()["source"] == "t.csv"


def test_a_folder_that_is_given_must_have_the_files(folder, tmp_path, monkeypatch, capsys):
    assert gpu_rsfd.load_dataset("nursery", data_dir=folder).source == "rows of nursery.data"
    message = "has no original file of these data sets; needed: ms-fimu: Personal_table.csv"
    with pytest.raises(gpu_rsfd.errors.InputError, match=message):
        gpu_rsfd.load_dataset("ms-fimu", data_dir=folder)
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["sweep", "--dataset", "adult,ms-fimu", "--data-dir", "uci"])
    assert "needed: adult: adult.data, adult.test; ms-fimu: Personal_table.csv" in line
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["sweep", "--dataset", "adult", "--data-dir", ""])
    assert "data-dir='' is empty" in line
    assert [path.name for path in tmp_path.iterdir()] == ["uci"]


def test_of_several_sets_some_may_have_files(folder):
    found = datasets_of({"dataset": ["syn1", "nursery", "ms-fimu"], "data-dir": str(folder)}, quiet=True)
    assert [data.source for data in found] == ["drawn: uniform, seed 0", "rows of nursery.data", REBUILT]


def test_an_explicit_folder_is_not_mixed_with_the_variables(folder, tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "Personal_table.csv").write_text("x\n")
    monkeypatch.setenv("GPU_RSFD_DATA", str(tmp_path / "other"))
    assert [data.source for data in load_datasets(["nursery", "ms-fimu"], data_dir=folder)][1] == REBUILT
    monkeypatch.setenv("GPU_RSFD_DATA", str(folder))  # a setting for all commands: it need not have every set
    assert [data.source for data in load_datasets(["nursery", "ms-fimu"])] == ["rows of nursery.data", REBUILT]
