"""`gpu-rsfd aggregate` and `gpu-rsfd rehearse`"""

from __future__ import annotations

import csv
import json
import os
import sys
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from gpu_rsfd.cli.options import SHOWN_POSTPROCESS, given, option, switch, with_options
from gpu_rsfd.cli.program import command
from gpu_rsfd.datasets.options import BY_NAME, parse_options
from gpu_rsfd.errors import InputError
from gpu_rsfd.files import replaced
from gpu_rsfd.options import Option, exclusive

ENDS = (".state", ".json")
READ = [BY_NAME[name] for name in ("delimiter", "decimal", "encoding", "missing_values", "max_bytes")]
OUT = (
    Option("against", "NAME", "Whose shares: users (those who reported) or population (that they are drawn from).",
           "population", panel=None, kind=str, default="users", default_text="users", known=("users", "population")),
    Option("level", "SHARE", "Confidence level.", "0.99", panel=None, kind=float, default=0.95, default_text="0.95"),
    Option("postprocess", "NAME", "Add the estimates after a post-processing.", "simplex", panel=None, kind=str,
           known=SHOWN_POSTPROCESS.known),
    Option("page", "FILE", "Write the estimates as an HTML file, too.", "shares.html", panel=None, kind=Path),
    switch("csv", "Comma-separated values."), switch("json", "JSON instead of text."),
)  # fmt: skip
COUNT = (
    Option("id", "KEY", "The key of the user's identifier in a line: one report each.", "user", panel=None, kind=str),
    Option("state", "FILE", "Save the counts, to be continued or merged.", "monday.state", panel=None, kind=Path),
)
FILES = "A collection (.json) or states (.state), and files of reports; - is standard input."


@command(
    "aggregate",
    "gpu-rsfd aggregate collection.json monday.jsonl.gz --id user --state monday.state",
    "gpu-rsfd aggregate monday.state tuesday.state --against population --page shares.html",
)
@with_options("aggregate", *COUNT, *OUT)
def aggregate(files: Annotated[list[str], typer.Argument(help=FILES, metavar="FILE…")], **how: Any) -> None:
    """Estimate the shares of a collection from its reports; all other lines are left out."""
    from rich import progress
    from rich.console import Console

    from gpu_rsfd.collecting.collection import State

    known, state, id = {os.path.realpath(file) for file in files}, how.pop("state"), how.pop("id")
    if len(known) < len(files) or not any(file.endswith(ENDS) for file in files):
        raise InputError(f"files={' '.join(files)} must be different, one at least a .json (collection) or a .state")
    if state and (state.suffix != ".state" or (state.exists() and os.path.realpath(state) not in known)):
        raise InputError(f"state={state} must end in .state, and exist only if it is one of the files (to continue it)")
    check_asked(how)
    started = [State.read(f, id) if f.endswith(".state") else State(f, id) for f in files if f.endswith(ENDS)]
    counted = reduce(add, started)
    bar = partial(progress.open, description="", console=Console(stderr=True)) if sys.stderr.isatty() else open
    for file in files:
        if not file.endswith(ENDS):
            counted.add(file, bar)
    if state and counted.n:
        counted.save(state)
    tell(counted, **how)


def check_asked(how: dict[str, Any]) -> None:
    """Refuse what can't be told, before the work."""
    from gpu_rsfd.results.aggregate import check_told
    from gpu_rsfd.results.estimate import as_postprocess
    from gpu_rsfd.show.plots import check_target

    exclusive(csv=how["csv"], json=how["json"])
    if how["page"]:
        check_target(how["page"], what="page")
    how["postprocess"] = how["postprocess"] and as_postprocess(how["postprocess"])
    check_told(how["against"], how["level"])


def tell(counted: Any, against: str, level: float, postprocess: str | None, page: Path | None, **form: bool) -> Any:
    """Print what has been counted, and write the page."""
    from gpu_rsfd.show import aggregated
    from gpu_rsfd.show.page import write_page

    found = counted.aggregate(against, level)
    more = {postprocess: found.postprocessed(postprocess).tolist()} if postprocess else {}
    rows = [row | {name: shares[i] for name, shares in more.items()} for i, row in enumerate(found.rows())]
    document = aggregated.document(found, rows, counted.collection)
    if form["json"]:
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif form["csv"]:
        writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writerows([dict(zip(rows[0], rows[0], strict=True)), *rows])
    else:
        aggregated.show(document, rows, counted.left_out)
    if page:
        write_page(page, aggregated.page(document))
    try:
        counted.check(found.protocol, found.epsilon)
    except InputError as error:  # who lies must not be able to stop a collection
        print(f"warning: {error}", file=sys.stderr)
    return found


@command("rehearse", "gpu-rsfd rehearse collection.json people.csv")
@with_options("rehearse", *READ, *OUT)
def rehearse(
    file: Annotated[Path, typer.Argument(help="Collection.", show_default=False, metavar="FILE")],
    table: Annotated[Path | None, typer.Argument(help="Table.", show_default=False, metavar="TABLE")] = None,
    dataset: Annotated[Path | None, option("--dataset", "The table.  --dataset people.csv", None, "FILE")] = None,
    output: Annotated[Path, option("--output", "The reports.  (default: rehearsal.jsonl)")] = Path("rehearsal.jsonl"),
    **options: Any,
) -> None:
    """Run the real client over the rows of a table, and aggregate its reports."""
    from gpu_rsfd.collecting.collection import Client, State
    from gpu_rsfd.datasets import describe

    check_asked(options)
    tables = [str(one) for one in (table, dataset) if one is not None]
    if len(tables) != 1:
        raise InputError("one table is needed, such as: gpu-rsfd rehearse collection.json people.csv")
    client, state = Client(file), State(file)
    if output.exists():
        raise InputError(f"output={output} exists; give another name")
    read = describe(*tables, columns=[*client.collection.names], **parse_options(given(options, READ))).read
    held: list[list[int]] = []
    with replaced(output) as reports:
        for places in zip(*(column.places.tolist() for column in read), strict=True):
            each = zip(read, places, client.collection.columns, strict=True)
            record = {c.name: None if v < 0 else c.exact(v) if asked.bins else c.values[v] for c, v, asked in each}
            held.append(client.collection.codes(record))
            reports.write(json.dumps(client.randomise(record)).encode() + b"\n")
    state.add(output)
    found = tell(state, **{o.name: options[o.name] for o in OUT})
    columns = zip(np.array(held).T, found.domain, strict=True)
    truth = np.concatenate([np.bincount(codes, minlength=k) for codes, k in columns]) / len(held)
    inside = int(((found.low <= truth) & (truth <= found.high)).sum())
    typer.echo(f"{output} written; {inside} of {len(truth)} intervals hold the table's own share", err=True)
