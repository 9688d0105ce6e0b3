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
        "Reproduce the paper: ten data sets, six epsilons, six methods; a figure for each data set and one with all.",
    ),
    "attack": (
        RUN,
        "Simulate an attacker who knows the marginals and guesses sampled attributes and values from the reports.",
    ),
    "merge": (
        RUN,
        "Merge the parts of a sweep or an attack (`--part 3/16`) into its results file, or report what is missing.",
    ),
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
    "data": (
        DECIDE,
        "Inspect a table: kind and values of each column, and what must be resolved before use.",
    ),
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

    from gpu_rsfd.cli.helptext import Command
    from gpu_rsfd.cli.program import app

    importlib.import_module(f"gpu_rsfd.cli.{name}")
    for command in app.registered_commands:
        command.cls = Command
    group: Any = typer.main.get_command(app)
    return group.commands[name]
