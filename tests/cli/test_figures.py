"""Figures of a run: after the table, whoever reads it."""

import re
from pathlib import Path

import pytest
from command import call, refusal, start

from gpu_rsfd.show import plots

SIZE = ["--users", "500,900", "--domain", "3x2", "--protocol", "smp-grr", "--epsilon", "1", "--repetitions", "3"]


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


@pytest.mark.parametrize("words,size", [
    (["--width", "3.3"], (3.3, 2.475)), (["--height", "3"], (4, 3)), (["--width", "7", "--height", "2.4"], (7, 2.4)),
])  # fmt: skip
def test_a_figure_of_the_size_that_a_column_has(words, size, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    made = ["--users", "90", "--domain", "2,3", "--epsilon", "1,2", "--repetitions", "3", "--no-plot", "--quiet"]
    assert call(monkeypatch, "sweep", *made, "--workers", "1") == 0
    for more in ([], ["--attribute", "A1"]):
        assert call(monkeypatch, "plot", "results.h5", "--output", "f.pdf", *words, *more) == 0
        box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", Path("f.pdf").read_bytes())
        assert tuple(float(side) / 72 for side in box.groups()) == pytest.approx(size, abs=0.01)


def test_a_figure_that_is_too_small(monkeypatch, capsys, tmp_path):
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["plot", "results.h5", "--width", "0.1"])
    assert "width=0.1" in line
    assert "1 to 50 inches" in line
