"""`gpu-rsfd page`"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gpu_rsfd.cli.options import FILTERS, SHOWN_COUNT, SHOWN_METRIC, switch, with_options
from gpu_rsfd.cli.program import command
from gpu_rsfd.cli.selected import selected
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import Option
from gpu_rsfd.results.metrics import as_metric

OWN = (
    Option("output", "FILE", "Page to write.", "share.html", default_text="FILE with .html", panel=None, kind=Path),
    Option("attack", "FILE", "Add the results of `gpu-rsfd attack`.", "attack.h5", panel=None, kind=Path),
    switch("overwrite", "Replace the file even if gpu-rsfd did not make it."),
    replace(SHOWN_METRIC, metavar="NAME", example="mae", many=False,
            help=SHOWN_METRIC.help.replace("Errors of the estimates", "Error that the page shows first")),
)  # fmt: skip


@command("page", "gpu-rsfd page results.h5", "gpu-rsfd page people.h5 --output share.html --attack attack.h5")
@with_options("page", *OWN, SHOWN_COUNT, *FILTERS)
def page(
    file: Annotated[Path, typer.Argument(help="Results file of a sweep.", show_default=False, metavar="FILE")],
    output: Path | None,
    attack: Path | None,
    overwrite: bool,
    **options: Any,
) -> None:
    """Write one HTML file to explore and share; it opens offline in any browser.  Needs the extra `page`."""
    from gpu_rsfd.show import charts, plots
    from gpu_rsfd.show.page import page as made
    from gpu_rsfd.show.page import title_of, write_page
    from gpu_rsfd.store.contents import open_results

    target = output or plots.beside(file, suffix=".html")
    if target.exists() and file.exists() and target.samefile(file):
        raise InputError(f"page={target} is the results file itself; give another --output")
    plots.check_target(target, overwrite, what="page")
    metric = options["metric"] or "mse"
    as_metric(metric)
    attacks = None if attack is None else open_results(attack)
    charts.library(*charts.VEGA)  # fails before the work of reading
    results = selected([file], options)
    name = os.fsencode(file.name).decode(errors="replace")
    write_page(target, made(results, title_of(results, name), attacks, metric), overwrite)
    print(f"{target} written ({target.stat().st_size / 1e6:.1f} MB)")
