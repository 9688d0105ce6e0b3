"""An option that is given but empty, such as an unset shell variable: one line, and nothing done."""

import pytest
from command import refusal

TABLE = ["--dataset", "people.csv"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "people.csv").write_text("sex,age\nf,1\nm,2\n")
    return tmp_path


@pytest.mark.parametrize("arguments,message", [
    (["--users", "", "--domain", "2"], "users='' is an empty list; at least one entry is needed"),
    (["--users", ",", "--domain", "2"], "users=',' is an empty list"),
    (["--users", "10", "--users", " ", "--domain", "2"], "users=' ' is an empty list"),
    (["--users", "10", "--domain", ""], "domain='' is an empty list"),
    (["--users", "10", "--domain", ", ,"], "domain=', ,' is an empty list"),
    (["--dataset", ","], "dataset=',' is an empty list"),
    (["--dataset", ""], "dataset='' is an empty list"),
    (["--dataset", "syn1", "--dataset", ""], "dataset='' is an empty list"),
    (["--epsilon", ","], "epsilon=',' is an empty list"),
    (["--epsilon", "1", "--epsilon", ""], "epsilon='' is an empty list"),
    (["--protocol", ""], "protocol='' is an empty list"),
    ([*TABLE, "--columns", ""], "columns='' is an empty list"),
    ([*TABLE, "--columns", ","], "columns=',' is an empty list"),
    ([*TABLE, "--bins", ""], "bins='' is an empty list"),
    ([*TABLE, "--missing", ""], "missing='' is empty; leave it out, or give a value"),
    ([*TABLE, "--domain-file", ""], "domain-file='' is empty"),
    ([*TABLE, "--delimiter", ""], "delimiter='' is empty"),
    (["--distribution", " ", "--users", "10", "--domain", "2"], "distribution=' ' is empty"),
    (["--dataset", "adult", "--data-dir", ""], "data-dir='' is empty"),
    (["--data-seed", ""], "data-seed='' is empty"),
    (["--seed", ""], "seed='' is empty"),
    (["--repetitions", ""], "repetitions='' is empty"),
    (["--sampler", ""], "sampler='' is empty"),
    (["--assignment", ""], "assignment='' is empty"),
    (["--device", ","], "is an empty list"),
    (["--users", "10", "--domain", "²"], "domain=² must be domain sizes such as"),
    (["--users", "10", "--domain", "9" * 5000], "must be domain sizes such as"),
])  # fmt: skip
def test_command_line(folder, capsys, monkeypatch, arguments, message):
    (line,) = refusal(monkeypatch, capsys, folder, ["sweep", *arguments])
    assert message in line
    assert [path.name for path in folder.iterdir()] == ["people.csv"]


@pytest.mark.parametrize("text,message", [
    ("dataset = []", "dataset=[] is empty"),
    ("users = []\ndomain = [2]", "users=[] is empty"),
    ("users = 10\ndomain = []", "domain=[] is empty"),
    ("epsilon = []", "epsilon=[] is empty"),
    ("protocol = []", "protocol=[] is empty"),
    ("protocol = ''", "protocol='' is empty"),
    ("protocol = ['']", "protocol='' is an empty list"),
    ("dataset = 'people.csv'\ncolumns = []", "columns=[] is empty"),
    ("dataset = 'people.csv'\nbins = {}", "bins={} is empty"),
])  # fmt: skip
def test_spec_files(folder, capsys, monkeypatch, text, message):
    (folder / "sweep.toml").write_text(text)
    (line,) = refusal(monkeypatch, capsys, folder, ["sweep", "--spec", "sweep.toml"])
    assert message in line
    assert not (folder / "results.h5").exists()


def test_plan(folder, capsys, monkeypatch):
    for arguments in (["--dataset", ","], ["--users", "", "--domain", "2"], ["--epsilon", ","]):
        (line,) = refusal(monkeypatch, capsys, folder, ["plan", *arguments])
        assert "is an empty list" in line or "is empty" in line
