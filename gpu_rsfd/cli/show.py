"""`gpu-rsfd show`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpu_rsfd.cli.options import ShownPostprocess, option
from gpu_rsfd.cli.program import app
from gpu_rsfd.cli.running import DEFAULT_POSTPROCESS
from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import check_postprocess


@app.command(
    epilog="Examples:  gpu-rsfd show results.h5  ·  gpu-rsfd show results.h5 --postprocess none --csv > mse.csv"
)
def show(
    file: Annotated[
        Path, typer.Argument(help="Results file of a sweep or an attack.", show_default=False, metavar="FILE")
    ],
    postprocess: ShownPostprocess = None,
    csv: Annotated[bool, option("--csv", "Comma-separated values.")] = False,
    json: Annotated[bool, option("--json", "JSON, with the whole spec.")] = False,
) -> None:
    """Table of mean MSE_avg with its standard error per protocol and epsilon, the best of each column marked.

    Of an attack: the shares that are guessed.
    """
    from gpu_rsfd.privacy.files import is_attack, open_attacks
    from gpu_rsfd.show import tables
    from gpu_rsfd.show.privacy import show_attacks
    from gpu_rsfd.store.reading import open_results

    if postprocess is not None:
        check_postprocess(postprocess)
    if csv and json:
        raise InputError("--csv and --json exclude each other")
    form = "csv" if csv else "json" if json else "table"
    if is_attack(file):
        if postprocess is not None:
            raise InputError(f"--postprocess is for the results of a sweep; {file} holds an attack")
        show_attacks(open_attacks(file), form)
        return
    tables.show(open_results(file), postprocess or DEFAULT_POSTPROCESS, form)
