"""The real command line, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = [sys.executable, "-W", "error"]
COMMAND = [*PYTHON, "-m", "gpu_rsfd"]
# Blocks of SIZE repetitions; before block number AFTER is made, something happens.
STOPPED = """
import os, signal, sys, time
sys.argv[0] = "gpu-rsfd"
from gpu_rsfd import errors
from gpu_rsfd.running import collect
from gpu_rsfd.cli import main
collect._Collection._size = lambda self, index, first, left: min({size}, left)
cut = collect._Collection._cut
def stopped(self, *given):
    for number, task in enumerate(cut(self, *given)):
        if number == {after}:
            {then}
        yield task
collect._Collection._cut = stopped
"""
PAUSE = "print('paused', flush=True)\n            while not errors._noted: time.sleep(0.01)"  # until a signal comes
DIE = "os.kill(os.getpid(), signal.SIGKILL)"


def stopped(after: int, then: str, size: int = 1) -> str:
    """For `first` of `start`: a run that pauses or dies at a point of its work, however fast the machine is."""
    return STOPPED.format(after=after, then=then, size=size)


def paused(process: subprocess.Popen) -> None:
    """Waits until a process pauses."""
    line = process.stdout.readline()
    assert line == "paused\n", (line, *process.communicate())


def start(
    *arguments: object, cwd: Path, env: dict[str, str] | None = None, first: str = "", **options
) -> subprocess.Popen:
    """The command; `first` is Python that its process runs before."""
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", **(env or {})}
    program = [*PYTHON, "-c", f"{first}\nmain()"] if first else COMMAND
    return subprocess.Popen(
        [*program, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def run(*arguments: object, cwd: Path, code: int | None = 0, **options) -> subprocess.CompletedProcess:
    process = start(*arguments, cwd=cwd, **options)
    out, err = process.communicate(timeout=120)
    if code is not None:
        assert process.returncode == code, f"exit code {process.returncode}, not {code}:\n{out}\n{err}"
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def refusal(monkeypatch, capsys, folder: Path, arguments: list[str], last: bool = True) -> list[str]:
    """What the command says to bad input, run in this process: exit code 2 and no traceback."""
    from gpu_rsfd.cli.program import main

    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["gpu-rsfd", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        main()
    lines = capsys.readouterr().err.splitlines()
    assert exit_info.value.code == 2, lines
    assert lines[-1 if last else 0].startswith("gpu-rsfd: "), lines
    return lines


def call(monkeypatch, *arguments: str) -> int:
    """The command in this process; its exit code."""
    from gpu_rsfd.cli import main

    monkeypatch.setattr("sys.argv", ["gpu-rsfd", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code
