"""What `--help` adds to the options: the protocols, a line each, and the examples, a line each."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from gpu_rsfd.protocols import PAPER, label

PROTOCOL_LINES = {
    "rsfd-grr": "GRR of one attribute; fakes: random values",
    "rsfd-oue-z": "OUE of one attribute; fakes: OUE of zeros",
    "rsfd-oue-r": "OUE of one attribute; fakes: OUE of random values",
    "rsfd-adp": "GRR or OUE-z for each attribute, by variance",
    "spl-adp": "all attributes, epsilon / d each; GRR or OUE",
    "smp-adp": "one attribute, and it alone; GRR or OUE",
    "rsfd-sue-z": "SUE of one attribute; fakes: SUE of zeros",
    "rsfd-sue-r": "SUE of one attribute; fakes: SUE of random values",
    "spl-grr": "all attributes, epsilon / d each; GRR",
    "spl-oue": "all attributes, epsilon / d each; OUE",
    "spl-sue": "all attributes, epsilon / d each; SUE",
    "smp-grr": "one attribute, and it alone; GRR",
    "smp-oue": "one attribute, and it alone; OUE",
    "smp-sue": "one attribute, and it alone; SUE",
}
SEPARATOR = "  ·  "  # between the examples of an epilog


def protocol_lines() -> list[str]:
    """Name, the paper's label, what it does."""
    lines = ["Protocols (* the paper's six, the default):"]
    for name, sentence in PROTOCOL_LINES.items():
        mark = "*" if name in PAPER else " "
        lines.append(f"{mark} {name:<10} {label(name):<12}  {sentence}")
    return lines


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
            Console(highlight=False, markup=False, soft_wrap=True).print(text)


class Command(_Help, TyperCommand):
    """A command with such a help."""


class Group(_Help, TyperGroup):
    """The program, with such a help."""
