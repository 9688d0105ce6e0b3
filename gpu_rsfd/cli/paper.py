"""`gpu-rsfd paper`"""

from __future__ import annotations

from typing import Annotated, Any

from gpu_rsfd.cli.commands import RUN
from gpu_rsfd.cli.options import option, running_of, with_options
from gpu_rsfd.cli.program import app
from gpu_rsfd.cli.running import carry_out
from gpu_rsfd.datasets import available
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import SIMULATION

QUICK_REPETITIONS = 10


@app.command(
    rich_help_panel=RUN,
    epilog="Examples:  gpu-rsfd paper --quick  ·  gpu-rsfd paper --data-dir originals/ --output with_rows.h5",
)
@with_options("paper", *running_of("paper"))
def paper(
    quick: Annotated[bool, option("--quick", "10 repetitions instead of 100.", SIMULATION)] = False, **options: Any
) -> None:
    """Reproduce the paper: ten data sets, six epsilons, six methods; a figure for each data set and one with all."""
    if quick and options["repetitions"] is not None:
        raise InputError("--quick and --repetitions exclude each other")
    fixed: dict[str, Any] = {"repetitions": QUICK_REPETITIONS} if quick else {}
    carry_out("paper", options, {**fixed, "dataset": list(available())}, each=True)
