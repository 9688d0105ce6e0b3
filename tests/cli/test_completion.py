"""A shell completes commands, options and the values that are known."""

import os
import subprocess
import sys

import pytest

from gpu_rsfd.cli.commands import COMMANDS, load
from gpu_rsfd.cli.options import completed

PROGRAM = "import sys; sys.argv = ['gpu-rsfd']; from gpu_rsfd.cli import main; main()"  # as its script calls it


@pytest.mark.slow
@pytest.mark.parametrize("line,found", [
    ("gpu-rsfd p", ["paper", "plot", "page", "plan", "protocols"]),
    ("gpu-rsfd show --com", ["--compare"]),
    ("gpu-rsfd sweep --protocol smp-l-os", ["smp-l-osue"]),
    ("gpu-rsfd show r.h5 --postprocess cl", ["clip", "clip-normalize"]),
])  # fmt: skip
def test_commands_options_and_values(line, found):
    asked = {"_GPU_RSFD_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    words = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env={**os.environ, **asked})
    assert done.stdout.split() == found, done.stderr


FREE = {  # numbers, names and files of the user's own
    *("--data-dir", "--users", "--domain", "--data-seed", "--columns", "--exclude", "--bins", "--group-rare"),
    *("--missing-values", "--decimal", "--max-bytes", "--domain-file", "--encoding", "--epsilon"),
    *("--repetitions", "--seed", "--first-report", "--prior-seed", "--protocol-from", "--spec", "--workers"),
    *("--device", "--cluster", "--patience", "--part", "--output", "--save-every", "--attribute", "--attack"),
    *("--width", "--height"),
    *("--target", "--target-rmse", "--survey", "--sensitive", "--attributes", "--values", "--plot"),
    *("--id", "--state", "--level", "--page", "--save"),
    *("--keep-identifiers", "--min-count", "--rounds-in", "--rounds", "--change"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_with_fixed_values_completes_them(name):
    """A new option either completes, or is said here to be free."""
    options = [p for p in load(name).params if p.param_type_name == "option" and not p.is_flag]
    without = {p.opts[-1] for p in options if p._custom_shell_complete is None}
    of_files = {"--dataset"} if name in ("show", "plot", "page", "rehearse") else set()  # whatever the file holds
    assert without <= FREE | of_files


def test_lists():
    assert completed(["a", "ab", "b"], "a,") == ["a,ab", "a,b"]
    assert completed(["a", "ab", "b"], "") == ["a", "ab", "b"]
    assert completed(["a", "ab", "b"], "b,a") == ["b,a", "b,ab"]


def test_help_says_how(monkeypatch, capsys):
    from command import call

    assert call(monkeypatch, "--help") == 0
    assert "--install-completion" in capsys.readouterr().out
