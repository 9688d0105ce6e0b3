"""Closed streams, locales without UTF-8, and parts that are none."""

import os
import subprocess

import pytest
from command import COMMAND, refusal

import gpu_rsfd

SWEEP = ["sweep", "--users", "50", "--domain", "3,4", "--epsilon", "1", "--repetitions", "2", "--output", "r.h5"]


@pytest.mark.parametrize("text", ["1/0", "0/0", "3/2", "0/4"])
def test_parts_that_are_none(text, monkeypatch, capsys, tmp_path):
    (line,) = refusal(monkeypatch, capsys, tmp_path, [*SWEEP, "--part", text])
    assert line == f"gpu-rsfd: part={text} must be a part and the number of parts, 1 to 100,000"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed, tmp_path):
    """No file may get the number of a stream that was closed: what is printed would land in it."""
    line = f'"$0" "$@" --no-plot {closed}'
    done = subprocess.run(["sh", "-c", line, *COMMAND, *SWEEP], cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == 0
    assert gpu_rsfd.open_results(tmp_path / "r.h5").complete
    assert done.stderr == b""
    assert (b"MSE_avg" in done.stdout) == (">&- 2" not in closed)


@pytest.mark.slow
def test_a_locale_without_utf8(tmp_path):
    """What can't be shown is escaped; file names and labels are kept."""
    table = "größe,stadt\n" + "1,Köln\n2,Bonn\n" * 20
    (tmp_path / "café.csv").write_text(table, encoding="utf-8")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    shown = ""
    for line in ("data café.csv", "sweep --dataset café.csv --epsilon 1 --repetitions 2 --no-plot --output r.h5"):
        done = subprocess.run([*COMMAND, *line.split()], cwd=tmp_path, env=environment, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        shown += done.stdout.decode("ascii")
    assert "K\\xf6ln 50.0%" in shown
    result = gpu_rsfd.open_results(tmp_path / "r.h5")["café"]
    assert result.names == ("größe", "stadt")
