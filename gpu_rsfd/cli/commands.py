"""The commands in the order of `--help`, what is said of each before it is imported, and what `--help` adds to them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import unknown_name

# how `gpu-rsfd --help` groups them
RUN, LOOK, DECIDE, COLLECT, MAINTAIN = "Run", "Look", "Decide", "Collect", "Maintain"
SEPARATOR = "  ·  "  # between the examples of an epilog


MEASURED = re.compile(r'^class \w+\(Measurement\):\n    """(.*?)(?:\n\n|""").*?^    command = "([\w-]+)"', re.S | re.M)


def _measured() -> dict[str, str]:
    """The commands that measurements are, from their files, which need not be imported for that."""
    files = sorted(Path(__file__).parents[1].glob("measure/*.py"))
    found = (match for file in files for match in MEASURED.finditer(file.read_text(encoding="utf-8")))
    return {match[2]: " ".join(match[1].split()) for match in found}


# The sentences are those of the commands' docstrings (a test compares them): so `--help` need not import them.
PANELS: dict[str, dict[str, str]] = {
    RUN: {
        **_measured(),
        "run": "Run a measurement of your own: a class in a Python file, whose fields are options.",
        "paper": "Reproduce the paper: ten data sets, six epsilons, six methods; "
        "a figure for each data set and one with all.",
        "merge": "Merge the parts of a run (`--part 3/16`) into its results file, or report what is missing.",
    },
    LOOK: {
        "show": "Print means of what was measured with standard errors: errors of a sweep, what an attack guesses.",
        "plot": "Draw what was measured against epsilon with error bars; errors on a log scale, as in the paper.",
        "page": "Write one HTML file to explore and share; it opens offline in any browser. Needs the extra `page`.",
    },
    DECIDE: {
        "plan": "Which protocol and epsilon, how accurate, how risky: "
        "in sentences, by column, as a table of all protocols.",
        "data": "Inspect a table: kind and values of each column, and what must be resolved before use.",
        "protocols": "List the protocols: what each sends, its budget, bits, expected error and exact loss; "
        "or test them.",
    },
    COLLECT: {
        "aggregate": "Estimate the shares of a collection from its reports; whatever is not of it is left out.",
        "rehearse": "Run the real client over the rows of a table, and aggregate its reports.",
    },
    MAINTAIN: {
        "doctor": "Report versions, CUDA devices and the backend that `auto` chooses; "
        "the exit code is 1 if a self-test fails.",
    },
}
COMMANDS = {name: (panel, sentence) for panel, commands in PANELS.items() for name, sentence in commands.items()}


def load(name: str) -> Any:
    """A command, imported and ready to run."""
    import typer

    from gpu_rsfd.cli.program import app

    # what runs measurements is in one file, and what counts reports; every other command has its own
    own = "aggregate" if name == "rehearse" else name
    importlib.import_module(f"gpu_rsfd.cli.{own if (Path(__file__).parent / f'{own}.py').exists() else 'run'}")
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
