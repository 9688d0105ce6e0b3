"""`gpu-rsfd show`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gpu_rsfd.cli.options import FILTERS, SHOWN_COUNT, SHOWN_METRIC, SHOWN_POSTPROCESS, switch, with_options
from gpu_rsfd.cli.program import command
from gpu_rsfd.cli.selected import selected
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import Option, exclusive, split_list
from gpu_rsfd.spec import FIELDS

FORMS = ("csv", "json", "latex")
PER = ("attribute", "value")
OWN = (
    Option("compare", "A,B", "Paired differences of two protocols instead.", "rsfd-adp,smp-adp", panel=None,
           known=FIELDS[0].known),
    Option("per", "NAME", "The error of each attribute, or of each value, instead; with one --protocol, estimates with "
           "intervals.", "attribute", panel=None, known=PER),
    switch("csv", "Comma-separated values."),
    switch("json", "JSON, with the whole spec."),
    switch("latex", "A LaTeX table (booktabs); bold: marked as above."),
)  # fmt: skip


@command(
    "show",
    "gpu-rsfd show results.h5",
    "gpu-rsfd show results.h5 --postprocess none --csv > mse.csv",
    "gpu-rsfd show results.h5 --latex > table.tex",
    "gpu-rsfd show results.h5 --compare rsfd-adp,smp-adp",
    "gpu-rsfd show results.h5 --per value --protocol rsfd-adp --epsilon ln2",
    "gpu-rsfd show results.h5 --postprocess norm-sub,norm-cut,mle --metric mse,mae",
    "gpu-rsfd show paper.h5 user.h5",
)
@with_options("show", *OWN, SHOWN_POSTPROCESS, SHOWN_METRIC, SHOWN_COUNT, *FILTERS)
def show(
    files: Annotated[list[Path], typer.Argument(help="Results files.", show_default=False, metavar="FILE...")],
    compare: str | None,
    per: str | None,
    **options: Any,
) -> None:
    """Print means of what was measured with standard errors: errors of a sweep, what an attack guesses.

    A star marks protocols not significantly worse than the best, where one can say which numbers are better.
    """
    from gpu_rsfd.show import rows, tables

    estimates = {name: options[name] for name in ("postprocess", "metric")}
    how = rows.How.of(**estimates)
    exclusive(**{form: options[form] for form in FORMS})
    exclusive(latex=options["latex"], compare=compare, per=per)
    exclusive(compare=compare, protocol=options["protocol"])
    if per is not None and per not in PER:
        raise InputError(f"per={per} must be one of {', '.join(PER)}")
    pair = split_list([compare], "compare") if compare is not None else []
    if compare is not None and len(pair) != 2:
        raise InputError(f"compare={compare} names {len(pair)}; two protocols are needed, such as rsfd-adp,smp-adp")
    form = next((form for form in FORMS if options[form]), "table")
    results = selected(files, options)
    rows.check_how(results, **estimates, per=per)
    if pair:
        tables.compare(results, pair[0], pair[1], how, form)
    elif per is not None:
        tables.per(results, per, how, form)
    else:
        tables.show(results, how, form)
