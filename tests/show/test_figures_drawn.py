"""Figures that are missing are drawn, whenever the command runs again; single ones on request."""

import os

import pytest
from command import call, refusal, run, start

import gpu_rsfd
from gpu_rsfd.show import plots

SMALL = ["--users", "500", "--domain", "3x2", "--epsilon", "1", "--repetitions", "2", "--workers", "1"]


def names(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.slow
def test_a_finished_sweep_draws_what_is_missing(tmp_path):
    run("sweep", *SMALL, "--no-plot", "--quiet", cwd=tmp_path)
    assert names(tmp_path) == ["results.h5"]
    again = run("sweep", *SMALL, cwd=tmp_path)
    assert "results.h5 is complete; results.png drawn from it" in again.stderr
    assert "nothing to do" not in again.stderr
    assert names(tmp_path) == ["results.h5", "results.png"]
    assert "nothing to do" in run("sweep", *SMALL, cwd=tmp_path).stderr
    os.utime(tmp_path / "results.png", (1, 1))  # drawn from older results
    assert "results.png drawn from it" in run("sweep", *SMALL, cwd=tmp_path).stderr


@pytest.mark.slow
def test_a_broken_pipe_costs_no_figure(tmp_path):
    process = start("sweep", *SMALL, cwd=tmp_path)
    process.stdout.close()
    process.wait(timeout=60)
    process.stderr.close()
    assert names(tmp_path) == ["results.h5", "results.png"]


class Drawn(str):
    axes = ()


@pytest.fixture
def drawn(monkeypatch):
    """Figures are slow, and their content is tested elsewhere: here a text with the data sets' names."""
    monkeypatch.setattr(plots, "figure_of", lambda results, *_: Drawn(" ".join(results)))
    monkeypatch.setattr(plots, "save_figure", lambda figure, path, overwrite=False: path.write_text(figure))
    monkeypatch.setattr(plots, "_ours", lambda path: True)


def paper(tmp_path, monkeypatch, *arguments):
    monkeypatch.chdir(tmp_path)
    fixed = ("--quick", "--sampler", "marginals", "--epsilon", "1", "--protocol", "rsfd-grr", "--quiet")
    assert call(monkeypatch, "paper", *fixed, *arguments) == 0


@pytest.mark.slow
def test_the_paper_draws_what_is_missing(tmp_path, monkeypatch, drawn):
    paper(tmp_path, monkeypatch, "--no-plot")
    assert names(tmp_path) == ["paper.h5"]
    paper(tmp_path, monkeypatch)
    every = ["paper.png", *(f"paper-{name}.png" for name in gpu_rsfd.available())]
    assert names(tmp_path) == sorted([*every, "paper.h5"])
    assert (tmp_path / "paper-adult.png").read_text() == "adult"
    assert (tmp_path / "paper.png").read_text() == " ".join(gpu_rsfd.available())
    (tmp_path / "paper-syn2.png").unlink()
    kept = (tmp_path / "paper.png").stat()
    paper(tmp_path, monkeypatch)
    assert (tmp_path / "paper-syn2.png").read_text() == "syn2"
    assert (tmp_path / "paper.png").stat() == kept


@pytest.fixture
def stored(tmp_path):
    sets = [gpu_rsfd.SyntheticDataset(200, (3, 4), seed=i, name=f"s{i}") for i in range(3)]
    gpu_rsfd.sweep(sets, output=tmp_path / "p.h5", epsilons=[1.0], protocols=["rsfd-grr"], repetitions=3, workers=1)
    return tmp_path / "p.h5"


@pytest.fixture
def plot(stored, monkeypatch, capsys):
    def written(*arguments):
        monkeypatch.chdir(stored.parent)
        assert call(monkeypatch, "plot", "p.h5", *arguments) == 0
        return [line.removesuffix(" written") for line in capsys.readouterr().out.splitlines()]

    return written


def test_single_figures(stored, drawn, plot):
    folder = stored.parent
    assert plot("--each") == ["p-s0.png", "p-s1.png", "p-s2.png"]
    assert (folder / "p-s1.png").read_text() == "s1"
    assert plot("--dataset", "s2") == ["p-s2.png"]
    assert plot("--dataset", "s2", "--dataset", "s0", "--overwrite") == ["p-s2-s0.png"]
    assert (folder / "p-s2-s0.png").read_text() == "s2 s0"
    files = ["--output", "f.pdf", "--output", "f.svg"]
    assert plot(*files, "--dataset", "s0,s1", "--each") == ["f-s0.pdf", "f-s0.svg", "f-s1.pdf", "f-s1.svg"]
    assert plot("--output", "f.pdf", "--dataset", "s1") == ["f.pdf"]


@pytest.mark.slow
def test_single_figures_from_the_command_line(stored):
    done = run("plot", "p.h5", "--each", "--dataset", "s0", "--dataset", "s2", cwd=stored.parent)
    assert done.stdout == "p-s0.png written\np-s2.png written\n"
    assert names(stored.parent) == ["p-s0.png", "p-s2.png", "p.h5"]


@pytest.mark.parametrize("arguments,message", [
    (["p.h5", "--dataset", "s9"], "no data set 's9' in the results; data sets: s0, s1, s2"),
    (["p.h5", "--attribute", "A1", "--each"], "--attribute and --each exclude each other"),
])  # fmt: skip
def test_bad_input(stored, monkeypatch, capsys, arguments, message):
    (line,) = refusal(monkeypatch, capsys, stored.parent, ["plot", *arguments])
    assert message in line
