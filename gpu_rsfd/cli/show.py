"""`gpu-rsfd show`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpu_rsfd.cli.options import Postprocess, option
from gpu_rsfd.cli.program import app
from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import check_postprocess


@app.command(
    epilog="Examples:  gpu-rsfd show results.h5  ·  gpu-rsfd show results.h5 --postprocess none --csv > mse.csv"
)
def show(
    file: Annotated[Path, typer.Argument(help="Results file of a sweep.", show_default=False, metavar="FILE")],
    postprocess: Postprocess = "clip-normalize",
    csv: Annotated[bool, option("--csv", "Comma-separated values.")] = False,
    json: Annotated[bool, option("--json", "JSON, with the whole spec.")] = False,
) -> None:
    """Table of mean MSE_avg with its standard error per protocol and epsilon, the best of each column marked."""
    from gpu_rsfd.show import tables
    from gpu_rsfd.store.reading import open_results

    check_postprocess(postprocess)
    if csv and json:
        raise InputError("--csv and --json exclude each other")
    tables.show(open_results(file), postprocess, "csv" if csv else "json" if json else "table")
