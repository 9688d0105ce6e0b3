"""The commands in the order of `--help`: what is said of each before it is imported."""

from __future__ import annotations

import importlib
from typing import Any

RUN, LOOK, DECIDE, MAINTAIN = "Run", "Look", "Decide", "Maintain"  # how `gpu-rsfd --help` groups them

# The sentences are those of the commands' docstrings (a test compares them): so `--help` need not import them.
COMMANDS: dict[str, tuple[str, str]] = {
    "sweep": (
        RUN,
        "Simulate data sets x protocols x epsilons x repetitions into one HDF5 file, with a table and a figure.",
    ),
    "paper": (
        RUN,
        "Reproduce the paper: its ten data sets, six epsilons, six methods; a figure for each and one page of all.",
    ),
    "attack": (
        RUN,
        "What an attacker who knows the marginals guesses from every report: the sampled attribute, and the values.",
    ),
    "merge": (
        RUN,
        "Join the parts of a sweep or an attack (`sweep --part 3/16`) into its results file; says what is missing.",
    ),
    "show": (LOOK, "Table of mean errors with standard errors; marked: not significantly worse than the best."),
    "plot": (
        LOOK,
        "The paper's figure: errors against epsilon on a log scale, with error bars; or against n, for a sweep over n.",
    ),
    "page": (
        LOOK,
        "One HTML file to explore and pass on: opens offline, in any browser, on a phone. Needs the extra `page`.",
    ),
    "plan": (
        DECIDE,
        "Which protocol and epsilon, how accurate, how risky: in sentences, by column, as a table of all protocols.",
    ),
    "data": (
        DECIDE,
        "What is in a table: kind and values of each column, and the options that help before it is used.",
    ),
    "protocols": (DECIDE, "List the protocols, or those of a Python file, and test them."),
    "doctor": (
        MAINTAIN,
        "Versions, CUDA devices, which backend `auto` takes and why; ends non-zero if a self-test fails.",
    ),
}


def load(name: str) -> Any:
    """A command, imported and ready to run."""
    import typer

    from gpu_rsfd.cli.helptext import Command
    from gpu_rsfd.cli.program import app

    importlib.import_module(f"gpu_rsfd.cli.{name}")
    for command in app.registered_commands:
        command.cls = Command
    group: Any = typer.main.get_command(app)
    return group.commands[name]
