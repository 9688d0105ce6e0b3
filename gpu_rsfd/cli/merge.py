"""`gpu-rsfd merge`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpu_rsfd.cli.commands import RUN
from gpu_rsfd.cli.program import app
from gpu_rsfd.options import counted


@app.command(
    rich_help_panel=RUN,
    epilog="Examples:  gpu-rsfd merge results.h5  ·  gpu-rsfd merge attack.h5 other/attack.h5",
)
def merge(
    file: Annotated[Path, typer.Argument(help="The --output of the parts.", show_default=False, metavar="FILE")],
    others: Annotated[
        list[Path] | None,
        typer.Argument(
            help="The same file name in other folders, whose parts are copied first.",
            show_default=False,
            metavar="[OTHERS]...",
        ),
    ] = None,
) -> None:
    """Merge the parts of a sweep or an attack (`--part 3/16`) into its results file, or report what is missing."""
    from gpu_rsfd.running.experiments import merge as joined

    results = joined(file, others or [])
    repetitions = len(next(iter(results.values())).repetitions)
    print(f"{file} is complete: {counted(len(results), 'data set')}, {counted(repetitions, 'repetition')}")
