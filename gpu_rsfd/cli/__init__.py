"""The command line: one file per command, which only calls the package.  A command is imported when it is run."""

from __future__ import annotations

import os
import sys
from typing import Any

__all__ = ["app", "main"]


def main() -> None:
    """The program; its version without anything else.  Signals count from the first import on."""
    _open_streams()
    if sys.argv[1:] == ["--version"]:
        from gpu_rsfd.version import __version__

        print(f"gpu-rsfd {__version__}")
        return
    from gpu_rsfd.cli.terminal import noting_signals

    with noting_signals():
        from gpu_rsfd.cli import program

        program.main()


def _open_streams() -> None:
    """Standard streams that were closed (`2>&-`) lead nowhere: a results file must not get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the smallest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def __getattr__(name: str) -> Any:
    """`app` with every command, for the documentation and tests."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gpu_rsfd.cli import commands, program

    for command in commands.COMMANDS:
        commands.load(command)
    return program.app
