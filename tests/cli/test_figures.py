"""Figures of a run: after the table, whoever reads it."""

import re

import pytest
from command import call, start

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
