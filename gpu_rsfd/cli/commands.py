"""The commands in the order of `--help`, what their files say of each before it is imported, and what `--help` adds."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import unknown_name

SEPARATOR = "  ·  "  # between the examples of an epilog
CLASS = re.compile(r'^class \w+\(Measurement\):\n    """(.*?)(?:\n\n|""").*?^    command = "([\w-]+)"', re.S | re.M)


def _measured() -> dict[str, str]:
    """The commands that measurements are and their sentences, from files that need not be imported for that."""
    files = sorted(Path(__file__).parents[1].glob("measure/*.py"))
    found = (match for file in files for match in CLASS.finditer(file.read_text(encoding="utf-8")))
    return {match[2]: " ".join(match[1].split()) for match in found}


def _file(name: str) -> Path:
    """Where a command is: what runs measurements is in one file, and what counts reports; others have their own."""
    own = Path(__file__).with_name(f"{'aggregate' if name == 'rehearse' else name}.py")
    return own if own.exists() else own.with_name("run.py")


def _sentence(name: str) -> str:
    """The first one of a command's docstring, as `--help` shows it."""
    found = re.search(rf'^(?:def )?{name}\b.*?"""(.*?)(?:\n\n|""")', _file(name).read_text("utf-8"), re.S | re.M)
    return " ".join(found[1].split()) if found else ""


MEASURED = _measured()
PANELS = {  # groups of `gpu-rsfd --help`
    "Run": (*MEASURED, "run", "paper", "merge"),
    "Look": ("show", "plot", "page"),
    "Decide": ("plan", "data", "protocols"),
    "Collect": ("aggregate", "rehearse"),
    "Maintain": ("doctor",),
}
COMMANDS = {name: (panel, MEASURED.get(name) or _sentence(name)) for panel, names in PANELS.items() for name in names}


def load(name: str) -> Any:
    """A command, imported and ready to run."""
    import typer

    from gpu_rsfd.cli.program import app

    importlib.import_module(f"gpu_rsfd.cli.{_file(name).stem}")
    for command in app.registered_commands:
        command.cls = command.cls if command.cls and issubclass(command.cls, Command) else Command
    group: Any = typer.main.get_command(app)
    return group.commands[name]


class _Help:
    """The library's help, without types that say nothing; then the examples, which are not to be joined or wrapped."""

    def get_help_option(self, ctx: Any) -> Any:
        option: Any = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.metavar = ""
        return option

    def format_help(self, ctx: Any, formatter: Any) -> None:
        command: Any = self
        for parameter in command.params:
            if parameter.name in ("install_completion", "show_completion"):
                parameter.metavar = ""
        epilog, command.epilog = command.epilog or "", None
        super().format_help(ctx, formatter)  # type: ignore[misc]
        text = epilog.replace("Examples:  ", " Examples:\n   ").replace(SEPARATOR, "\n   ")
        if formatter.getvalue():  # plain help, which is printed afterwards
            formatter.write(f"\n{text}\n")
        elif text:
            print(text)


class Command(_Help, TyperCommand):
    """A command with such a help; `--eps` means `--epsilon`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [re.sub(r"^--eps(?==|$)", "--epsilon", argument) for argument in args])


class Group(_Help, TyperGroup):
    """The program, with such a help; a command is imported when it is run, an unknown one is told the nearest."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command if it was imported, else what `--help` says of it."""
        if cmd_name in self.commands or cmd_name not in COMMANDS:
            return self.commands.get(cmd_name)
        panel, sentence = COMMANDS[cmd_name]
        return TyperCommand(cmd_name, help=sentence, rich_help_panel=panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-"):
            if args[0] not in COMMANDS:
                raise InputError(unknown_name(args[0], COMMANDS, "command"))
            self.commands[args[0]] = load(args[0])
        return super().resolve_command(ctx, args)
