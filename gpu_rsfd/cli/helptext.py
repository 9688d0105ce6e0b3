"""What `--help` adds to the options: the protocols, a line each, and the examples, a line each."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from gpu_rsfd.cli.commands import COMMANDS, load
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import unknown_name

SEPARATOR = "  ·  "  # between the examples of an epilog


def protocol_lines() -> list[str]:
    """The paper's six: name, label, what it does; and where the rest is."""
    from gpu_rsfd.protocols import PAPER
    from gpu_rsfd.protocols.describe import lines as lines_of_protocols

    known = list(lines_of_protocols())
    lines = ["Protocols, the paper's six (the default of a sweep):"]
    lines += [f"  {name:<11} {label:<13}  {sentence}" for name, label, sentence in known if name in PAPER]
    return [*lines, f"All {len(known)}, with their bits, errors and losses: gpu-rsfd protocols"]


def example_lines(epilog: str) -> list[str]:
    return ["Examples:", *(f"  {example}" for example in epilog.removeprefix("Examples:").strip().split(SEPARATOR))]


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
        parts = [protocol_lines()] if any(p.name == "protocol" for p in command.params) else []
        parts += [example_lines(epilog)] if epilog else []
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
