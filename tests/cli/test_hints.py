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
    assert line == "gpu-rsfd: my file.h5 does not exist"  # nothing offers to make it


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


@pytest.mark.slow
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


def test_labels_are_names(monkeypatch, capsys, tmp_path):
    """The same run, and the same table, whether a protocol is called by its name or by its label."""
    monkeypatch.chdir(tmp_path)
    quick = ["--users", "30", "--domain", "2,3", "--epsilon", "1", "--repetitions", "4", "--no-plot", "--quiet"]
    quick += ["--backend", "numpy", "--workers", "1"]
    for output, one, other in (("n.h5", "smp-adp", "rsfd-grr"), ("l.h5", "Smp[ADP]", "RS+FD[GRR]")):
        assert call(monkeypatch, "sweep", *quick, "--protocol", f"{one},{other}", "--output", output) == 0
    assert gpu_rsfd.open_results("n.h5").spec == gpu_rsfd.open_results("l.h5").spec
    for chosen in (["--protocol", "smp-adp"], ["--compare", "smp-adp,rsfd-grr"]):
        shown = []
        labelled = [word.replace("smp-adp", "Smp[ADP]").replace("rsfd-grr", "RS+FD[GRR]") for word in chosen]
        for words in (chosen, labelled):
            assert call(monkeypatch, "show", "n.h5", *words) == 0
            shown.append(capsys.readouterr().out)
        assert shown[0] == shown[1]
    settings = {"epsilon": 1.0, "domain": (2, 3)}
    assert gpu_rsfd.privacy_loss("Smp[ADP]", **settings) == pytest.approx(gpu_rsfd.privacy_loss("smp-adp", **settings))
    with pytest.raises(gpu_rsfd.InputError, match=r"unknown protocol 'Smp\[XYZ\]'"):
        gpu_rsfd.privacy_loss("Smp[XYZ]", **settings)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plan", "sweep", "attack"])
def test_a_table_needs_no_option(command, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("sex,city\n" + "f,a\nm,b\nf,b\n" * 40)
    quick = ["--epsilon", "1", "--protocol", "smp-grr", "--quiet"]
    if command != "plan":
        quick += ["--repetitions", "2", "--workers", "1", "--no-plot"]
    shown = []
    for n, given in enumerate((["people.csv"], ["--dataset", "people.csv"])):
        output = [] if command == "plan" else ["--output", f"{n}.h5"]
        assert call(monkeypatch, command, *given, *quick, *output) == 0
        shown.append(capsys.readouterr().out)
        if output:
            shown[-1] = gpu_rsfd.open_results(f"{n}.h5").spec["datasets"]
    assert shown[0] == shown[1] != ""
    (line,) = refusal(monkeypatch, capsys, tmp_path, [command, "nobody.csv"])
    assert line == "gpu-rsfd: nobody.csv does not exist"
    if command != "plan":  # which takes it: these frequencies, another number of users
        *_, line = refusal(monkeypatch, capsys, tmp_path, [command, "people.csv", "--users", "30"])
        assert line.endswith("a synthetic data set needs --users and --domain; --domain is missing")
