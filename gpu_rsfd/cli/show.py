"""`gpu-rsfd show`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpu_rsfd.cli import parse
from gpu_rsfd.cli.options import OnlyDatasets, OnlyEpsilons, OnlyProtocols, ShownPostprocess, Text, option
from gpu_rsfd.cli.program import app
from gpu_rsfd.cli.running import DEFAULT_POSTPROCESS
from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import check_postprocess


@app.command(
    epilog="Examples:  gpu-rsfd show results.h5  ·  gpu-rsfd show results.h5 --postprocess none --csv > mse.csv  ·  "
    "gpu-rsfd show results.h5 --compare rsfd-adp,smp-adp  ·  "
    "gpu-rsfd show results.h5 --per value --protocol rsfd-adp --epsilon ln2"
)
def show(
    file: Annotated[
        Path, typer.Argument(help="Results file of a sweep or an attack.", show_default=False, metavar="FILE")
    ],
    postprocess: ShownPostprocess = None,
    compare: Annotated[
        Text,
        option("--compare", "Paired differences of two protocols instead.  --compare rsfd-adp,smp-adp", None, "A,B"),
    ] = None,
    per: Annotated[
        Text,
        option(
            "--per",
            "The error of each attribute, or of each value, instead; one --protocol: estimates with intervals.  "
            "--per attribute",
            None,
            "NAME",
        ),
    ] = None,
    datasets: OnlyDatasets = None,
    protocols: OnlyProtocols = None,
    epsilons: OnlyEpsilons = None,
    csv: Annotated[bool, option("--csv", "Comma-separated values.")] = False,
    json: Annotated[bool, option("--json", "JSON, with the whole spec.")] = False,
) -> None:
    """Table of mean MSE_avg with its standard error per protocol and epsilon, all that may be the best marked.

    Of an attack: the shares that are guessed.
    """
    from gpu_rsfd.privacy.files import is_attack, open_attacks
    from gpu_rsfd.show import details, tables
    from gpu_rsfd.show.privacy import show_attacks
    from gpu_rsfd.show.selection import select
    from gpu_rsfd.store.reading import open_results

    if postprocess is not None:
        check_postprocess(postprocess)
    if csv and json:
        raise InputError("--csv and --json exclude each other")
    if compare is not None and (per is not None or protocols):
        raise InputError(f"--compare and {'--per' if per is not None else '--protocol'} exclude each other")
    if per is not None and per not in details.PER:
        raise InputError(f"per={per} must be one of {', '.join(details.PER)}")
    pair = parse.items([compare], "compare") if compare is not None else []
    if compare is not None and len(pair) != 2:
        raise InputError(f"compare={compare} names {len(pair)}; two protocols are needed, such as rsfd-adp,smp-adp")
    form = "csv" if csv else "json" if json else "table"
    if is_attack(file):
        if any(given is not None for given in (compare, per, datasets, protocols, epsilons, postprocess)):
            raise InputError(f"{file} holds an attack: its table takes no other option but --csv and --json")
        show_attacks(open_attacks(file), form)
        return
    postprocess = postprocess or DEFAULT_POSTPROCESS
    results = open_results(file)
    names = parse.items(datasets or [], "dataset", exact=results)
    results = select(results, names, parse.items(protocols or [], "protocol"), parse.epsilons(epsilons or []))
    if pair:
        details.compare(results, pair[0], pair[1], postprocess, form)
    elif per is not None:
        details.per(results, per, postprocess, form)
    else:
        tables.show(results, postprocess, form)
