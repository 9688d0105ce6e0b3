"""`gpu-rsfd page`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpu_rsfd.cli import parse
from gpu_rsfd.cli.options import OnlyDatasets, OnlyEpsilons, OnlyProtocols, option
from gpu_rsfd.cli.program import app
from gpu_rsfd.errors import InputError


@app.command(epilog="Examples:  gpu-rsfd page results.h5  ·  gpu-rsfd page people.h5 --output share.html")
def page(
    file: Annotated[Path, typer.Argument(help="Results file of a sweep.", show_default=False, metavar="FILE")],
    output: Annotated[
        Path | None, option("--output", "Page to write.  --output share.html  (default: FILE with .html)", None, "FILE")
    ] = None,
    datasets: OnlyDatasets = None,
    protocols: OnlyProtocols = None,
    epsilons: OnlyEpsilons = None,
    attack: Annotated[
        Path | None,
        option("--attack", "Adds what `gpu-rsfd attack` found.  --attack attack.h5", None, "FILE"),
    ] = None,
    overwrite: Annotated[bool, option("--overwrite", "Replace a page that gpu-rsfd did not make, too.")] = False,
) -> None:
    """One HTML file to explore and pass on: opens offline, in any browser, on a phone.  Needs the extra `page`."""
    from gpu_rsfd.privacy.files import is_attack, open_attacks
    from gpu_rsfd.show import charts, plots
    from gpu_rsfd.show.page import check_page, write_page
    from gpu_rsfd.show.selection import select
    from gpu_rsfd.store.reading import open_results

    target = output or plots.beside(file, suffix=".html")
    if target.exists() and file.exists() and target.samefile(file):
        raise InputError(f"page={target} is the results file itself; give another --output")
    check_page(target, overwrite)
    if attack is not None and attack.is_file() and not is_attack(attack):
        raise InputError(f"attack={attack} holds a sweep; a results file of gpu-rsfd attack is needed")
    charts.altair()  # said before the work of reading
    results = open_results(file)
    names = parse.items(datasets or [], "dataset", exact=results)
    results = select(results, names, parse.items(protocols or [], "protocol"), parse.epsilons(epsilons or []))
    write_page(results, target, file.name, overwrite, None if attack is None else open_attacks(attack))
    print(f"{target} written ({target.stat().st_size / 1e6:.1f} MB)")
