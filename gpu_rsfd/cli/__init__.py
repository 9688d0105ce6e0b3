"""The command line: one file per command, which only calls the package."""

from gpu_rsfd.cli import sweep, merge, paper, plan, attack  # noqa: F401, I001  (in the order of --help)
from gpu_rsfd.cli import show, plot, page, doctor  # noqa: F401
from gpu_rsfd.cli.program import app, main
from gpu_rsfd.cli.helptext import Command

__all__ = ["app", "main"]

for _command in app.registered_commands:
    _command.cls = Command
