"""The snippets of the pages, as they stand, in a folder with what the page reckons with."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from command import call

import gpu_rsfd

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the commands of a page run: with the examples, and files of the names that pages use."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples")
    for name in ("people.csv", "hospital.csv"):
        shutil.copy("examples/people.csv", name)
    return tmp_path


def run_commands(monkeypatch, page):
    """The page's commands of gpu-rsfd, in their order."""
    lines = re.findall(r"^    gpu-rsfd (.*)$", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.M)
    assert lines
    for words in (shlex.split(line, comments=True) for line in lines):
        more = ["--workers", "1"] if words[0] in ("sweep", "run", "rounds") else []
        assert words == ["paper"] or call(monkeypatch, *words, *more) == 0, words  # most of a minute


def python(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.S)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["sweeps", "data", "decision", "page", "own-measurement", "which-protocol"])
def test_the_commands(page, folder, monkeypatch, capsys):
    run_commands(monkeypatch, page)
    if page == "sweeps":  # its Python compares two of the files
        exec(python(page)[0], {})
        assert (folder / "both.pdf").exists()


@pytest.mark.slow
def test_results(folder, monkeypatch, capsys):
    """What pages do with a results file."""
    pytest.importorskip("h5netcdf")
    data = [gpu_rsfd.SyntheticDataset(500, (12, 12), name=name, seed=i) for i, name in enumerate(("syn1", "nursery"))]
    gpu_rsfd.sweep(data, epsilons=[1.0, 2.0], repetitions=5, output="results.h5")
    run_commands(monkeypatch, "metrics")
    exec(python("results-file")[0], {})
    (block,) = python("api")
    exec(block, {"gpu_rsfd": gpu_rsfd})
    assert (folder / "both.pdf").exists()


@pytest.mark.slow
def test_a_collection(folder, monkeypatch, capsys):
    """Declared on the command line, rehearsed, collected on two days and merged; and declared in Python."""
    values = {"sex": ["female", "male", "other"], "smokes": ["no", "yes"]}
    values["city"] = ["Besançon", "Dijon", "Lyon", "Metz", "Nancy", "elsewhere"]
    (folder / "domain.json").write_text(json.dumps(values), encoding="utf-8")
    lines = re.findall(r"^    gpu-rsfd (.*)$", (DOCS / "collect.md").read_text(encoding="utf-8"), re.M)
    declare, rehearse, count, merge = map(shlex.split, lines)
    assert call(monkeypatch, *declare) == call(monkeypatch, *rehearse) == 0
    client = gpu_rsfd.Client("collection.json")
    answers = {"sex": "female", "age": 41, "city": "Dijon", "smokes": "no"}
    for day in ("monday", "tuesday"):
        reports = ({**client.randomise(answers), "user": f"{day} {user}"} for user in range(300))
        (folder / f"{day}.jsonl").write_text("".join(f"{json.dumps(report)}\n" for report in reports))
        assert call(monkeypatch, *(word.replace("monday", day) for word in count)) == 0
    assert call(monkeypatch, *merge) == 0
    assert (folder / "shares.html").exists()
    (folder / "collection.json").unlink()
    (block,) = python("collect")
    declared, rest = block.split("client = ")
    exec(declared, found := {})
    report = found["gpu_rsfd"].Client("collection.json").randomise({"sex": "male", "age": 7, "smokes": "daily"})
    (folder / "monday.jsonl").write_text(json.dumps(report))
    exec(f"client = {rest}", found)
    assert found["state"].aggregate().n == 1
