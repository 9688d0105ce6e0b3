"""Figures of a run: after the table, whoever reads it."""

import re
from pathlib import Path

import pytest
from command import call, refusal, start

import gpu_rsfd
from gpu_rsfd.show import plots

SIZE = ["--users", "500,900", "--domain", "3x2", "--protocol", "smp-grr", "--epsilon", "1", "--repetitions", "3"]


@pytest.mark.slow
def test_the_table_is_printed_before_the_figure_is_drawn(tmp_path, monkeypatch, capsys):
    printed = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plots, "save_figure", lambda *_: printed.append(capsys.readouterr().out))
    call(monkeypatch, "sweep", *SIZE)
    assert len(printed) == 1
    assert "Smp[GRR]" in printed[0]
    assert re.fullmatch(r"results.h5 written after \d+\.\d s, results.png after \d+\.\d s\n", capsys.readouterr().out)


@pytest.mark.slow
def test_the_figure_is_drawn_if_nobody_reads_the_table(tmp_path):
    """`gpu-rsfd sweep | head -1`, with a head that ends at once."""
    process = start("sweep", *SIZE, cwd=tmp_path)
    process.stdout.close()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in err
    assert (tmp_path / "results.png").stat().st_size > 10_000


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("figures") / "results.h5"
    data = gpu_rsfd.SyntheticDataset(90, (2, 3), name="mine")
    gpu_rsfd.sweep(data, epsilons=[1.0, 2.0], repetitions=3, workers=1, output=path)
    return path


@pytest.mark.parametrize("words,width,height", [
    ([], 5.6, 4.1), (["--width", "3.3"], 3.3, 3.5), (["--height", "3"], 5.6, 3), (["--legend", "right"], 7.7, 3.8),
    (["--width", "7", "--height", "2.4"], 7, 2.4),
])  # fmt: skip
@pytest.mark.slow
def test_a_figure_of_the_size_that_is_asked_for(file, words, width, height, monkeypatch, tmp_path):
    """Where a side is not given, it follows from what is drawn."""
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "plot", str(file), "--output", "f.pdf", *words) == 0
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", Path("f.pdf").read_bytes())
    found = [float(side) / 72 for side in box.groups()]
    assert found == pytest.approx([width, height], abs=0.01 if len(words) > 2 else 0.4)
    assert call(monkeypatch, "plot", str(file), "--output", "f.pdf", "--attribute", "A1", *words) == 0


def test_without_title_and_legend(file, monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, *_: drawn.append(figure))
    for words in ([], ["--no-title", "--legend", "none"]):
        assert call(monkeypatch, "plot", str(file), "--output", str(tmp_path / "f.pdf"), *words) == 0
    assert [(len(figure.legends), figure.axes[0].get_title()) for figure in drawn] == [
        (1, "mine: n = 90, d = 2"),
        (0, ""),
    ]


@pytest.mark.slow
def test_several_outputs(file, monkeypatch, capsys, tmp_path):
    """A list, as every option that can be repeated; quotes keep a comma in a name."""
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "plot", str(file), "--output", "b.png,c.svg", "--output", '"d,e.png"') == 0
    assert capsys.readouterr().out.splitlines() == [f"{name} written" for name in ("b.png", "c.svg", "d,e.png")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.png", "c.svg", "d,e.png"]


def test_more_curves_than_can_be_told_apart(monkeypatch, capsys, tmp_path):
    data, asked = gpu_rsfd.SyntheticDataset(90, (2, 3), name="mine"), {"epsilons": 1.0, "repetitions": 1}
    gpu_rsfd.sweep(data, protocols="rs*", sampler="marginals", output=tmp_path / "r.h5", **asked)
    monkeypatch.setattr(plots, "save_figure", lambda *_: None)
    said = []
    for words in ([], ["--protocol", "rsfd-grr,rsfd-adp"]):
        assert call(monkeypatch, "plot", str(tmp_path / "r.h5"), *words) == 0
        said.append(capsys.readouterr().err)
    assert said == ["18 curves in one figure are hard to tell apart; --protocol draws fewer\n", ""]


@pytest.mark.parametrize("words,message", [
    (["--width", "0.1"], "width=0.1 must be 1 to 50 inches"),
    (["--width", "3", "--height", "90"], "height=90.0 must be 1 to 50 inches"),
    (["--legend", "left"], "legend=left must be one of below, right, none"),
])  # fmt: skip
def test_what_no_figure_can_have(monkeypatch, capsys, tmp_path, words, message):
    assert refusal(monkeypatch, capsys, tmp_path, ["plot", "results.h5", *words]) == [f"gpu-rsfd: {message}"]
