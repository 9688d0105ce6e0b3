"""`gpu-rsfd plot`"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gpu_rsfd.cli.options import FILTERS, SHOWN_COUNT, SHOWN_METRIC, SHOWN_POSTPROCESS, switch, with_options
from gpu_rsfd.cli.program import command
from gpu_rsfd.cli.selected import selected
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import Option, exclusive, split_list

NARROW = 8  # inches: a figure in a paper, with text as small as a caption's
MOST_CURVES = 16  # whose colours differ, also in grey
OWN = (
    Option("output", "LIST", "Figures to write, .png, .pdf or .svg.", "figure.pdf", many=True, panel=None,
           default_text="FILE with .png"),
    Option("x", "AXIS", "Horizontal axis: auto, epsilon, n, d, k, or one of the measurement's own.", "k", panel=None,
           kind=str, default="auto", default_text="auto", known=("auto", "epsilon", "n", "d", "k")),
    Option("attribute", "NAME", "Estimated and true frequencies of an attribute's values instead.", "sex", panel=None,
           kind=str),
    switch("each", "A figure for each data set: FILE-NAME.png."),
    *(Option(side, "INCHES", f"The figure's {side}.", "3.3", kind=float, panel=None) for side in ("width", "height")),
    Option("legend", "PLACE", "Where the legend is: below, right or none.", "none", default_text="below", panel=None,
           known=("below", "right", "none")),
    switch("title", "Panels have titles.", default=True),
    switch("tradeoff", "Error against the exact privacy loss instead, a curve per protocol over epsilon."),
    switch("overwrite", "Replace files even if gpu-rsfd did not make them.  --output mine.png --overwrite"),
)  # fmt: skip


@command(
    "plot",
    "gpu-rsfd plot results.h5",
    "gpu-rsfd plot results.h5 --postprocess none,mle --output fig.pdf",
    "gpu-rsfd plot attack.h5 --protocol rsfd-adp,smp-adp",
    "gpu-rsfd plot paper.h5 user.h5",
)
@with_options("plot", *OWN, SHOWN_POSTPROCESS, SHOWN_METRIC, SHOWN_COUNT, *FILTERS)
def plot(
    files: Annotated[list[Path], typer.Argument(help="Results files.", show_default=False, metavar="FILE...")],
    output: list[str] | None,
    x: str,
    attribute: str | None,
    each: bool,
    tradeoff: bool,
    overwrite: bool,
    **options: Any,
) -> None:
    """Draw what was measured against epsilon with error bars; errors on a log scale, as in the paper.

    Synthetic data of several sizes are drawn against n, d or k, a measurement with an axis of its own against that.
    """
    from matplotlib import rc_context

    from gpu_rsfd.show import panels, plots, rows

    places = (options.pop(name) for name in ("title", "legend", "width", "height"))
    targets, paper = [Path(name) for name in split_list(output or [], "output")], panels.Paper.of(None, *places)
    estimates = {name: options[name] for name in ("postprocess", "metric")}
    how = rows.How.of(**estimates)
    for other, given in (("metric", options["metric"]), ("each", each), ("x", x != "auto")):
        exclusive(attribute=attribute, **{other: given})
    exclusive(tradeoff=tradeoff, attribute=attribute, x=x != "auto")
    for path in targets:  # before the work of reading
        if path.exists() and any(file.exists() and path.samefile(file) for file in files):
            raise InputError(f"figure={path} is the results file itself; give another --output")
        plots.check_target(path, overwrite or each)
    results = selected(files, options)
    rows.check_how(results, **estimates, attribute=attribute)
    given = split_list(options["dataset"] or [], "dataset", exact=results)
    names = list(dict.fromkeys(given)) or list(results)
    others = [file.stem for file in files[1:]]
    kind = ["tradeoff"] * (tradeoff and not targets)  # beside the sweep's own figure, not in its place
    parts = [[name] for name in names] if each else [names]
    pages = {"-".join([*others, *(part if each or given else ()), *kind]): part for part in parts}
    paths = {infix: _named(files[0], targets, infix, each) for infix in pages}
    written = list(dict.fromkeys(path for some in paths.values() for path in some))
    for path in written:
        plots.check_target(path, overwrite)
    for infix, part in pages.items():
        with rc_context({"font.size": panels.setting("font.size", 8)} if paper.width and paper.width < NARROW else {}):
            figure = plots.figure_of(results.only(part), how, plots.LOSS if tradeoff else x, paper, attribute)
        curves = {bars.get_label() for axis in figure.axes for bars in axis.containers}
        if len(curves) > MOST_CURVES:
            print(f"{len(curves)} curves in one figure are hard to tell apart; --protocol draws fewer", file=sys.stderr)
        for path in paths[infix]:
            plots.save_figure(figure, path, overwrite)
    print("\n".join(f"{path} written" for path in written))


def _named(file: Path, targets: Sequence[Path], infix: str, each: bool) -> Sequence[Path]:
    """The files of one figure: those asked for, with the data set's name if each has its own; or beside the results."""
    from gpu_rsfd.show import plots

    if not targets:
        return [plots.beside(file, infix)]
    return [plots.beside(path.with_suffix(".h5"), infix, path.suffix) for path in targets] if each else targets
