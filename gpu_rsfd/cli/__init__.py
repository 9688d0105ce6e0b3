"""The command line: one file per command, which only calls the package.  A command is imported when it is run."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["app", "main"]


def main() -> None:
    """The program; its version without anything else.  Ctrl-C while it is imported ends it as quietly as later."""
    if sys.argv[1:] == ["--version"]:
        from gpu_rsfd.version import __version__

        print(f"gpu-rsfd {__version__}")
        return
    try:
        from gpu_rsfd.cli import program
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    program.main()


def __getattr__(name: str) -> Any:
    """`app` with every command, for the documentation and tests."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gpu_rsfd.cli import commands, program

    for command in commands.COMMANDS:
        commands.load(command)
    return program.app
