"""What is said where something is missing, damaged or given twice: what to do, as a command that can be copied."""

import re
import shlex

import h5py
import pytest
from command import call, refusal

import gpu_rsfd

SMALL = ["sweep", "--users", "30", "--domain", "2,3", "--epsilon", "1", "--protocol", "smp-grr", "--repetitions", "4"]
SMALL += ["--backend", "numpy", "--workers", "1", "--no-plot"]


def quoted(line):
    """The commands between backquotes, as words."""
    return [shlex.split(command) for command in re.findall("`(gpu-rsfd [^`]*)`", line)]


@pytest.mark.parametrize("command", [["show"], ["plot"]])
def test_a_file_that_is_not_there(command, monkeypatch, capsys, tmp_path):
    (line,) = refusal(monkeypatch, capsys, tmp_path, [*command, "my file.h5"])
    assert line.startswith("gpu-rsfd: my file.h5 does not exist; ")
    assert quoted(line) == [["gpu-rsfd", "sweep", "--output", "my file.h5"]]


def test_parts_without_their_file(monkeypatch, capsys, tmp_path):
    """The command that is named finishes the work."""
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *SMALL, "--output", "my file.h5", "--part", "1/1") == 0
    assert capsys.readouterr().err.endswith("gpu-rsfd merge 'my file.h5'\n")
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["show", "my file.h5"])
    assert line.endswith("my file.h5 does not exist yet; 1 parts of it do: gpu-rsfd merge 'my file.h5'")
    assert call(monkeypatch, "merge", "my file.h5") == 0
    assert gpu_rsfd.open_results("my file.h5").complete


def test_a_truncated_file(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    sweep = [*SMALL, "--output", "r.h5", "--quiet"]
    assert call(monkeypatch, *sweep) == 0
    with (tmp_path / "r.h5").open("r+b") as file:
        file.truncate(3000)
    for command in (["show", "r.h5"], sweep):
        (line,) = refusal(monkeypatch, capsys, tmp_path, command)
        assert "r.h5 is damaged: " in line
        assert line.endswith("; to make it again, run the command that made it with --overwrite")
    assert call(monkeypatch, *sweep, "--overwrite") == 0


def test_a_damaged_file(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    sweep = [*SMALL, "--output", "r.h5", "--quiet"]
    assert call(monkeypatch, *sweep) == 0
    with h5py.File("r.h5", "r+") as file:
        file.attrs["sha256"] = "0" * 64
    for command in (["show", "r.h5"], sweep):
        (line,) = refusal(monkeypatch, capsys, tmp_path, command)
        assert "r.h5 is damaged: " in line
        assert line.endswith("; to make it again, run the command that made it with --overwrite")
    assert call(monkeypatch, *sweep, "--overwrite") == 0
    assert call(monkeypatch, "show", "r.h5") == 0


def test_a_truncated_part(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        assert call(monkeypatch, *SMALL, "--output", "r.h5", "--part", f"{number}/2", "--quiet") == 0
    part = tmp_path / "r.h5.part-1-of-2"
    with part.open("r+b") as file:
        file.truncate(part.stat().st_size - 10)
    assert call(monkeypatch, "merge", "r.h5") == 1
    assert (
        "missing repetitions (of 0 … 3): uniform-n30-d2: 0 … 1; to be run again: part 1 of 2" in capsys.readouterr().err
    )
    assert call(monkeypatch, *SMALL, "--output", "r.h5", "--part", "1/2", "--quiet") == 0
    assert call(monkeypatch, "merge", "r.h5") == 0


def test_two_files_of_one_name(monkeypatch, capsys, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "people.csv").write_text("x\n1\n2\n")
    (line,) = refusal(
        monkeypatch, capsys, tmp_path, ["sweep", "--quiet", "--dataset", "a/people.csv", "--dataset", "b/people.csv"]
    )
    assert line == "gpu-rsfd: data set 'people' is given twice; rename one of them, or give each an output"
