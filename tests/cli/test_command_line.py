"""`--help`, `--version`, and which errors become one line: bad input and what the machine refuses, never a bug."""

import errno
import os
import subprocess
import sys

import pytest
from command import COMMAND, refusal, run

import gpu_rsfd
from gpu_rsfd.cli import program as cli
from gpu_rsfd.errors import RunError

COMMANDS = ["sweep", "paper", "plan", "show", "plot", "doctor"]


def help_of(command, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.argv", ["gpu-rsfd", *command, "--help"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", [[], *([c] for c in COMMANDS)])
def test_help_shows_no_types(command, columns, capsys, monkeypatch):
    text = help_of(command, columns, capsys, monkeypatch)
    for misleading in ("<bool>", "<str>", "<list[str", "<float>", "BOOLEAN", "TEXT", "[default"):
        assert misleading not in text


@pytest.mark.parametrize("columns", [80, 120])
def test_help_ends_with_examples(columns, capsys, monkeypatch):
    lines = help_of(["sweep"], columns, capsys, monkeypatch).splitlines()
    examples = [line for line in lines[lines.index(" Examples:") + 1 :] if line.strip()]
    assert examples[0] == "   gpu-rsfd sweep"
    assert all(line.startswith("   gpu-rsfd sweep") for line in examples)
    assert len(examples) >= 4


def test_plain_help_has_the_examples_too(tmp_path):
    environment = {**os.environ, "TYPER_USE_RICH": "0"}
    done = subprocess.run([*COMMAND, "show", "--help"], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.index("--postprocess") < done.stdout.index("\n   gpu-rsfd show results.h5\n")


def test_defaults_are_shown_once(capsys, monkeypatch):
    for command in COMMANDS:
        text = " ".join(help_of([command], 400, capsys, monkeypatch).split())
        for option in text.split(" --")[1:]:
            assert option.lower().count("default:") <= 1


def test_version(tmp_path):
    assert run("--version", cwd=tmp_path).stdout == f"gpu-rsfd {gpu_rsfd.__version__}\n"


def ending(monkeypatch, capsys, error):
    """Exit code and standard error when a command meets this error."""

    def fail(*_, **__):
        raise error

    monkeypatch.setattr("gpu_rsfd.doctor.report", fail)
    monkeypatch.setattr("sys.argv", ["gpu-rsfd", "doctor"])
    monkeypatch.setattr(cli, "_give_up_output", lambda: None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("error", [
    ValueError("operands could not be broadcast"),
    RuntimeError("dictionary changed size"),
    KeyError("x"),
    OverflowError("too large"),
    EOFError("no more"),
    FileNotFoundError(errno.ENOENT, "No such file or directory", "x"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
])  # fmt: skip
def test_a_bug_shows_its_traceback(monkeypatch, capsys, error):
    code, err = ending(monkeypatch, capsys, error)
    assert code == 1
    assert "Traceback (most recent call last)" in err
    assert type(error).__name__ in err
    last = err.splitlines()[-1]
    assert last.startswith(f"gpu-rsfd: this is a bug in gpu-rsfd ({gpu_rsfd.__version__}, Python ")
    assert last.endswith("please report it with the lines above")


@pytest.mark.parametrize("error,line", [
    (RunError("the disk is full"), "the disk is full"),
    (MemoryError(), "out of memory"),
    (MemoryError("Unable to allocate 8 TiB"), "out of memory: Unable to allocate 8 TiB"),
    (OSError(errno.ENOSPC, "No space left on device"), "output: No space left on device"),
    (PermissionError(errno.EACCES, "Permission denied", "x.h5"), "x.h5: Permission denied"),
])  # fmt: skip
def test_what_the_machine_refuses_is_one_line(monkeypatch, capsys, error, line):
    assert ending(monkeypatch, capsys, error) == (1, f"gpu-rsfd: {line}\n")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_standard_output(tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "plan", "--domain", "2", "--json"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
    assert (done.returncode, done.stderr) == (1, "gpu-rsfd: output: No space left on device\n")


@pytest.mark.slow
def test_text_that_the_terminal_cannot_show(tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "100"}
    for command in (["sweep", "--help"], ["plan", "--users", "100", "--domain", "2x2"]):
        subprocess.run(
            [sys.executable, "-m", "gpu_rsfd", *command], env=environment, cwd=tmp_path, capture_output=True, check=True
        )


@pytest.mark.parametrize("arguments,see", [
    (["--foo"], "no such option: --foo; see gpu-rsfd --help"),
    (["sweep", "--foo"], "no such option: --foo; see gpu-rsfd sweep --help"),
    (["sweep", "--seed"], "Option '--seed' requires an argument. (see gpu-rsfd sweep --help)"),
])  # fmt: skip
def test_bad_arguments_name_the_help_of_the_command(tmp_path, capsys, monkeypatch, arguments, see):
    assert refusal(monkeypatch, capsys, tmp_path, arguments)[-1] == f"gpu-rsfd: {see}"


@pytest.mark.parametrize("arguments", [
    ["sweep", "--spec", "latin.toml"],
    ["sweep", "--users", "9" * 5000, "--domain", "2"],
    ["sweep", "--users", "5", "--domain", "9" * 5000],
    ["sweep", "--users", "5", "--domain", "2x" + "9" * 5000],
    ["sweep", "--users", "5", "--domain", "²"],
    ["sweep", "--users", "²", "--domain", "2"],
    ["sweep", "--users", "nan", "--domain", "2"],
    ["sweep", "--epsilon", "ln1e999"],
    ["sweep", "--epsilon", "ln0"],
    ["sweep", "--epsilon", "1e308"],
    ["sweep", "--spec", "odd.toml"],
    ["sweep", "--spec", "deep.toml"],
    ["sweep", "--users", "5", "--domain", "2", "--repetitions", "18446744073709551615"],
    ["plan", "--target-rmse", "nan"],
    ["plan", "--target-rmse", "0"],
    ["plan", "--users", "1", "--domain", "2", "--epsilon", "1e-300"],
    ["show", "latin.toml"],
    ["plot", "latin.toml"],
])  # fmt: skip
def test_odd_input_is_bad_input(tmp_path, capsys, monkeypatch, arguments):
    (tmp_path / "latin.toml").write_bytes("dataset = 'é'".encode("latin-1"))
    (tmp_path / "odd.toml").write_text('sampler = ["users"]\nrepetitions = {a = 1}')
    (tmp_path / "deep.toml").write_text("x = " + "[" * 5000)
    refusal(monkeypatch, capsys, tmp_path, arguments)


@pytest.mark.parametrize("text,message", [
    ('protocol = {"smp-grr" = 1}', "protocol={'smp-grr': 1} is a table; valid: one value, or a list"),
    ("domain = 4\nusers = {300 = 1}", "users={'300': 1} is a table; valid: one value, or a list"),
    ("dataset = {syn1 = 1}", "unknown data set \"{'syn1': 1}\""),
    ('dataset = "t.csv"\nmissing-values = {sex = "-"}', "missing-values={'sex': '-'} is a table; valid: one value"),
])  # fmt: skip
def test_a_table_in_a_spec_file_is_no_list(tmp_path, capsys, monkeypatch, text, message):
    """Of its names, with its values ignored."""
    (tmp_path / "t.csv").write_text("sex\nf\nm\n")
    (tmp_path / "a.toml").write_text(text)
    assert message in refusal(monkeypatch, capsys, tmp_path, ["sweep", "--spec", "a.toml", "--dry-run"])[-1]
