"""The commands in the order of `--help`, what is said of each before it is imported, and what `--help` adds to them."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import unknown_name

RUN, LOOK, DECIDE, MAINTAIN = "Run", "Look", "Decide", "Maintain"  # how `gpu-rsfd --help` groups them
SEPARATOR = "  ·  "  # between the examples of an epilog


def _measured() -> dict[str, tuple[str, str]]:
    """The commands that measurements are, from their files, which need not be imported for that."""
    found = {}
    for file in sorted(Path(__file__).parents[1].joinpath("measure").glob("*.py")):
        text = file.read_text(encoding="utf-8")
        for made in ast.parse(text).body if "    command = " in text else []:
            given = {
                ast.unparse(line.targets[0]): line.value
                for line in getattr(made, "body", [])
                if isinstance(line, ast.Assign)
            }
            if isinstance(made, ast.ClassDef) and "command" in given:
                found[ast.literal_eval(given["command"])] = RUN, str(ast.get_docstring(made)).partition("\n\n")[0]
    return found


# The sentences are those of the commands' docstrings (a test compares them): so `--help` need not import them.
COMMANDS: dict[str, tuple[str, str]] = {
    **_measured(),
    "run": (RUN, "Run a measurement of your own: a class in a Python file, whose fields are options."),
    "paper": (
        RUN,
        "Reproduce the paper: ten data sets, six epsilons, six methods; a figure for each data set and one with all.",
    ),
    "merge": (RUN, "Merge the parts of a run (`--part 3/16`) into its results file, or report what is missing."),
    "show": (
        LOOK,
        "Print mean errors with standard errors; a star marks protocols not significantly worse than the best.",
    ),
    "plot": (
        LOOK,
        "Draw errors against epsilon on a log scale with error bars, as in the paper; or against n, d or k.",
    ),
    "page": (
        LOOK,
        "Write one HTML file to explore and share; it opens offline in any browser. Needs the extra `page`.",
    ),
    "plan": (
        DECIDE,
        "Which protocol and epsilon, how accurate, how risky: in sentences, by column, as a table of all protocols.",
    ),
    "data": (DECIDE, "Inspect a table: type and values of each column, and the options to read it with."),
    "protocols": (
        DECIDE,
        "List the protocols: what each sends, its budget, bits, expected error and exact loss; or test them.",
    ),
    "doctor": (
        MAINTAIN,
        "Report versions, CUDA devices and the backend that `auto` chooses; the exit code is 1 if a self-test fails.",
    ),
}


def load(name: str) -> Any:
    """A command, imported and ready to run."""
    import typer

    from gpu_rsfd.cli.program import app

    # what runs measurements is in one file; every other command has its own
    importlib.import_module(f"gpu_rsfd.cli.{'run' if COMMANDS[name][0] == RUN else name}")
    for command in app.registered_commands:
        command.cls = command.cls if command.cls and issubclass(command.cls, Command) else Command
    group: Any = typer.main.get_command(app)
    return group.commands[name]


def _protocol_lines() -> list[str]:
    """The paper's six: name, label, what it does; and where the rest is."""
    from gpu_rsfd.protocols import PAPER
    from gpu_rsfd.protocols.describe import lines as lines_of_protocols

    known = list(lines_of_protocols())
    lines = ["Protocols, the paper's six (the default of a sweep):"]
    lines += [f"  {name:<11} {label:<13}  {sentence}" for name, label, sentence in known if name in PAPER]
    return [*lines, f"All {len(known)}, with their bits, errors and losses: gpu-rsfd protocols"]


class _Help:
    """The library's help, without types that say nothing; then our lines, which are not to be joined or wrapped."""

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
        epilog, command.epilog = command.epilog, None
        try:
            super().format_help(ctx, formatter)  # type: ignore[misc]
        finally:
            command.epilog = epilog
        parts = [_protocol_lines()] if any(p.name == "protocol" for p in command.params) else []
        if epilog:
            examples = epilog.removeprefix("Examples:").strip().split(SEPARATOR)
            parts += [["Examples:", *(f"  {example}" for example in examples)]]
        text = "\n\n".join("\n".join(f" {line}" for line in lines) for lines in parts)
        if formatter.getvalue():  # plain help, which is printed afterwards
            formatter.write(f"\n{text}\n")
        elif text:
            from rich.console import Console

            Console(highlight=False, markup=False, soft_wrap=True).print(text)


class Command(_Help, TyperCommand):
    """A command with such a help."""


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
