"""`gpu-rsfd plot`"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gpu_rsfd.cli import parse
from gpu_rsfd.cli.options import OnlyEpsilons, OnlyProtocols, Text, Texts, option
from gpu_rsfd.cli.program import app
from gpu_rsfd.cli.running import DEFAULT_POSTPROCESS
from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import check_postprocess


@app.command(
    epilog="Examples:  gpu-rsfd plot results.h5  ·  gpu-rsfd plot results.h5 --postprocess none --output fig.pdf  ·  "
    "gpu-rsfd plot --surface --output surface.svg"
)
def plot(
    file: Annotated[
        Path | None, typer.Argument(help="Results file of a sweep or an attack.", show_default=False, metavar="FILE")
    ] = None,
    postprocess: Annotated[
        Text,
        option(
            "--postprocess",
            "none, clip, clip-normalize, simplex.  --postprocess none  (default: clip-normalize)",
            None,
            "NAME",
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        option("--output", "Figure to write, .png, .pdf or .svg; repeatable.  (default: FILE with .png)"),
    ] = None,
    x: Annotated[
        str, option("--x", "Horizontal axis: auto, epsilon, or users for a sweep over n.  (default: auto)")
    ] = "auto",
    attribute: Annotated[
        Text, option("--attribute", "Estimated and true frequencies of an attribute's values instead.  --attribute sex")
    ] = None,
    dataset: Annotated[
        Texts, option("--dataset", "Only this data set; repeatable.  --dataset syn1  (default: all, a panel each)")
    ] = None,
    protocols: OnlyProtocols = None,
    epsilons: OnlyEpsilons = None,
    each: Annotated[bool, option("--each", "A figure for each data set: FILE-NAME.png.")] = False,
    surface: Annotated[
        bool, option("--surface", "The paper's surface VAR1 - VAR2 over d and k instead; needs no FILE.")
    ] = False,
    tradeoff: Annotated[
        bool, option("--tradeoff", "Error against the exact privacy loss instead, a curve per protocol over epsilon.")
    ] = False,
    overwrite: Annotated[
        bool, option("--overwrite", "Replace figures that gpu-rsfd did not make, too.  --output mine.png --overwrite")
    ] = False,
) -> None:
    """The paper's figure: MSE_avg against epsilon on a log scale, with error bars; or against n, for a sweep over n."""
    from gpu_rsfd.privacy.files import is_attack, open_attacks
    from gpu_rsfd.show import plots
    from gpu_rsfd.show.privacy import attack_figure

    targets, datasets = output or [], dataset or []
    if postprocess is not None:
        check_postprocess(postprocess)
    if attribute is not None and x != "auto":
        raise InputError("--attribute and --x exclude each other")
    if attribute is not None and each:
        raise InputError("--attribute and --each exclude each other; --dataset NAME chooses a data set")
    if tradeoff and (attribute is not None or x != "auto"):
        raise InputError(f"--tradeoff and --{'x' if attribute is None else 'attribute'} exclude each other")
    if surface:
        others = attribute is not None or postprocess is not None or x != "auto" or each or tradeoff
        if file is not None or others or datasets or protocols or epsilons:
            raise InputError("--surface needs no results file and no other option but --output; formulas alone draw it")
        written = [plots.check_target(path, overwrite) for path in targets or [Path("surface.png")]]
        figure = plots.surface()
        for path in written:
            plots.save_figure(figure, path, overwrite)
    elif file is None:
        raise InputError("plot needs a results file (gpu-rsfd plot results.h5) or --surface")
    elif file.is_file() and is_attack(file):
        others = attribute is not None or postprocess is not None or x != "auto" or each or tradeoff
        if others or datasets or protocols or epsilons:
            raise InputError(f"{file} holds an attack: its figure takes no other option but --output and --overwrite")
        written = [plots.check_target(path, overwrite) for path in targets or [plots.beside(file)]]
        figure = attack_figure(open_attacks(file))
        for path in written:
            plots.save_figure(figure, path, overwrite)
    else:
        written = plot_results(
            file,
            targets,
            postprocess or DEFAULT_POSTPROCESS,
            x,
            attribute,
            datasets,
            each,
            overwrite,
            parse.items(protocols or [], "protocol"),
            parse.epsilons(epsilons or []),
            tradeoff,
        )
    print("\n".join(f"{path} written" for path in written))


def plot_results(
    file: Path,
    targets: Sequence[Path],
    postprocess: str = DEFAULT_POSTPROCESS,
    x: str = "auto",
    attribute: str | None = None,
    datasets: Sequence[str] = (),
    each: bool = False,
    overwrite: bool = False,
    protocols: Sequence[str] = (),
    epsilons: Sequence[float] = (),
    tradeoff: bool = False,
) -> list[Path]:
    """One figure of the data sets (default: all), or one of each; every figure in every target's format."""
    from gpu_rsfd.show import plots
    from gpu_rsfd.show import privacy as privacy_plots
    from gpu_rsfd.show.selection import select
    from gpu_rsfd.store.reading import open_results

    for path in targets:  # before the work of reading
        if path.exists() and file.exists() and path.samefile(file):
            raise InputError(f"figure={path} is the results file itself; give another --output")
        plots.check_target(path, overwrite or each)
    results = open_results(file)
    for name in datasets:
        if name not in results:
            raise InputError(f"no data set {name!r} in {file}; data sets: {', '.join(results)}")
    results = select(results, datasets, protocols, epsilons)
    chosen = list(dict.fromkeys(datasets)) or list(results)
    pages = {name: [name] for name in chosen} if each else {"-".join(datasets): chosen}
    if tradeoff and not targets:  # beside the sweep's own figure, not in its place
        pages = {f"{infix}-tradeoff".removeprefix("-"): names for infix, names in pages.items()}
    figures = {infix: _named(file, targets, infix, each) for infix in pages}
    for paths in figures.values():
        for path in paths:
            plots.check_target(path, overwrite)
    for infix, names in pages.items():
        part = results.only(names)
        if tradeoff:
            figure = privacy_plots.tradeoff(part, postprocess)
        elif attribute is None:
            figure = plots.figure_of(part, postprocess, x)
        else:
            figure = plots.frequencies(part, attribute, postprocess)
        for path in figures[infix]:
            plots.save_figure(figure, path, overwrite)
    return list(dict.fromkeys(path for paths in figures.values() for path in paths))


def _named(file: Path, targets: Sequence[Path], infix: str, each: bool) -> Sequence[Path]:
    """The files of one figure: those asked for, with the data set's name if each has its own; or beside the results."""
    from gpu_rsfd.show import plots

    if not targets:
        return [plots.beside(file, infix)]
    return [plots.beside(path.with_suffix(".h5"), infix, path.suffix) for path in targets] if each else targets
