"""`gpu-rsfd data`"""

from __future__ import annotations

from json import dumps
from typing import Annotated, Any

import typer

from gpu_rsfd.cli.options import given, switch, with_options
from gpu_rsfd.cli.program import command
from gpu_rsfd.datasets import describe, is_table, load_dataset
from gpu_rsfd.datasets.options import OPTIONS, parse_options


@command(
    "data",
    "gpu-rsfd data people.csv",
    "gpu-rsfd data people.csv --exclude id --bins age=10,pay=5q",
    "gpu-rsfd data export.csv.gz --encoding latin-1 --missing-values 'n.a.,rhesus=-' --json",
)
@with_options("data", switch("json", "JSON instead of text."), *OPTIONS)
def data(
    file: Annotated[str, typer.Argument(help="Table, or the name of a data set.", show_default=False, metavar="FILE")],
    json: bool,
    **options: Any,
) -> None:
    """Inspect a table: kind and values of each column, and what must be resolved before use."""
    table = file if is_table(file) else load_dataset(file)
    report = describe(table, **parse_options(given(options, OPTIONS)))
    print(dumps(report.to_dict(), ensure_ascii=False, indent=2) if json else report)
