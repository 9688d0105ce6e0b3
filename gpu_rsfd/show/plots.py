"""The paper's figures from stored results alone.  The caller owns the figure; nothing here simulates."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from gpu_rsfd.command import Size, size_of
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.protocols import REGISTRY
from gpu_rsfd.results.estimate import DEFAULT, Floats, PostprocessLike, as_postprocess
from gpu_rsfd.results.metrics import MetricLike, as_metric, name_of
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show.details import values_of
from gpu_rsfd.show.lettering import lettered
from gpu_rsfd.show.panels import Page, epsilon_ticks, log_ticks, size_ticks
from gpu_rsfd.show.published import caveats, published
from gpu_rsfd.show.summary import expected, rough, summary, unusual
from gpu_rsfd.store.files import FIGURES, replace_file

MOST_LINES = 40  # of a surface, in each direction
MANY_VALUES = 30  # more than these need a panel as wide as the page
TOO_MANY_VALUES = 100  # more than these leave no room for error bars
MOST_LABELS, MOST_LABELS_WIDE = 20, 60  # of values, under a panel; more can't be read
LABEL_LETTERS, TITLE_LETTERS = 20, 40  # longer ones are cut
RESULTS = (".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4")  # how a results file's name may end

AXES = {"n": "users n", "d": "attributes d", "k": "values k"}  # sizes of a data set

# Every figure says who made it, so that no other file is ever replaced by one.
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": "gpu-rsfd"},
    "pdf": {"Creator": "gpu-rsfd", "CreationDate": None},
    "svg": {"Creator": "gpu-rsfd", "Date": None},
}
_MARKS = {
    ".png": b"tEXtSoftware\0gpu-rsfd",
    ".pdf": b"/Creator (gpu-rsfd)",
    ".svg": b"<dc:title>gpu-rsfd</dc:title>",
}


_CIRCLE: dict[str, Any] = {  # a published point: larger than every marker, so that both are seen
    "marker": "o",
    "markersize": 11,
    "markerfacecolor": "none",
    "markeredgewidth": 0.8,
    "linestyle": "none",
    "zorder": 1.5,
}
# Readable in grey: a dash for each protocol beside its own marker and colour.
_DASHES = ["-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 2))]
_PLAIN = "#555555", "o"  # for a colour or a marker that Matplotlib does not know


def style(result: Result, protocol: int) -> dict[str, Any]:
    """How a protocol of a result is drawn: its own colour and marker, a dash by its place.

    A curve that coincides somewhere with one before it, as an adaptive choice does, has hollow, larger markers, so
    that the other one stays visible.
    """
    from matplotlib.colors import is_color_like
    from matplotlib.markers import MarkerStyle

    look, plan = result.plan.looks[protocol], result.plan
    colour = look.colour if is_color_like(look.colour) else _PLAIN[0]
    follows = any(
        plan.digest(protocol, e) == plan.digest(p, e) for e in range(len(plan.epsilons)) for p in range(protocol)
    )
    return {
        "marker": look.marker if look.marker in MarkerStyle.markers else _PLAIN[1],
        "linestyle": _DASHES[protocol % len(_DASHES)],
        "color": colour,
        "markersize": 8 if follows else 5,
        "markerfacecolor": "none" if follows else colour,
        "linewidth": 1.3,
    }


def beside(file: Path, infix: str = "", suffix: str = ".png") -> Path:
    """The figure of a results file: run.h5 -> run.png, but run.1 -> run.1.png, since run.2 needs one of its own."""
    stem = file.stem if file.suffix.lower() in RESULTS else file.name
    return file.with_name(f"{stem}{'-' * bool(infix)}{infix.replace('/', '_')}{suffix}")


def check_target(path: Path, overwrite: bool = False, hint: str = "give another name, or --overwrite") -> Path:
    """A figure that may be written: of a known format, in a folder that exists, over no file of somebody else's."""
    if path.suffix.lower() not in FIGURES:
        raise InputError(f"figure={path} must end in one of {', '.join(FIGURES)}")
    if not path.parent.is_dir():
        raise InputError(f"figure={path}: the folder {path.parent} does not exist")
    if path.exists():
        if not path.is_file():
            raise InputError(f"figure={path} is not a regular file; give another name")
        if not overwrite and not _ours(path):
            raise InputError(f"figure={path} exists and was not made by gpu-rsfd; {hint}")
    return path


def _ours(path: Path) -> bool:
    try:
        return _MARKS[path.suffix.lower()] in path.read_bytes()
    except OSError:
        return False


def save_figure(figure: Any, path: Path, overwrite: bool = False) -> None:
    """Drawn in memory, then moved into place; no dates inside, so that equal results give equal files."""
    from matplotlib import rc_context

    check_target(path, overwrite)
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    form = path.suffix[1:].lower()
    image = io.BytesIO()
    with rc_context({"svg.hashsalt": "gpu-rsfd"}):
        options = {"pil_kwargs": {"compress_level": 4}} if form == "png" else {}  # half the time, a tenth larger
        figure.savefig(image, format=form, dpi=200, metadata=_METADATA[form], **options)
    replace_file(target, image.getbuffer())


def figure_of(
    results: Results, postprocess: PostprocessLike = DEFAULT, x: str = "auto", metric: MetricLike = "mse"
) -> Any:
    """Errors against epsilon, a panel per data set; or against n, d or k, a panel per epsilon."""
    postprocess = as_postprocess(postprocess)
    as_metric(metric)
    if not results:
        raise InputError("the results file has no finished repetitions yet; nothing to plot")
    x = {"users": "n"}.get(x, x)
    if x not in ("auto", "epsilon", *AXES):
        raise InputError(f"x={x} must be one of auto, epsilon, {', '.join(AXES)}")
    sizes = sizes_of(results)
    varying = varying_in(sizes)
    if x in AXES and x not in varying:
        raise InputError(f"x={x} needs synthetic data sets, made by size, that differ in {AXES[x]}")
    if x == "epsilon" or not varying:
        return _against_epsilon(results, postprocess, metric)
    return _against_size(results, sizes, varying[0] if x == "auto" else x, postprocess, metric)


def sizes_of(results: Results) -> dict[str, Size]:
    """The sizes of synthetic data sets that differ in nothing else; {} if there are others among them."""
    made = {d["name"]: size_of(d) for d in results.spec.get("datasets", []) if d.get("name") in results}
    found = {name: size for name, size in made.items() if size is not None}
    same = len(found) == len(results) and len({size.distribution for size in found.values()}) == 1
    one_domain = len({tuple(results[name].domain) for name, size in found.items() if size.k is None}) <= 1
    return found if same and one_domain else {}


def varying_in(sizes: Mapping[str, Size]) -> list[str]:
    """What data sets differ in, n, d or k: the one with most values first."""
    values = {axis: {getattr(size, axis) for size in sizes.values()} for axis in AXES}
    return sorted((axis for axis in AXES if len(values[axis] - {None}) > 1), key=lambda axis: -len(values[axis]))


def _against_epsilon(results: Results, postprocess: PostprocessLike, metric: MetricLike) -> Any:
    points = {name: published(name, result, postprocess, metric) for name, result in results.items()}
    theory = {name: _theory(result, postprocess, metric) for name, result in results.items()}
    first = next(iter(results.values()))
    page = Page(len(results), handles(first), explained(results, postprocess, theory.values(), points))
    for axis, (name, result) in zip(page.axes, results.items(), strict=True):
        found = summary(result, postprocess, metric)
        curves(axis, result, result.epsilons, *found, theory[name], points[name], _logarithmic(metric))
        entitle(axis, name, f"n = {result.n:,}, d = {len(result.domain)}")
        epsilon_ticks(axis, result.epsilons)
    page.name_axes("ε", axis_name(postprocess, metric))
    return page.figure


def _against_size(
    results: Results, sizes: Mapping[str, Size], x: str, postprocess: PostprocessLike, metric: MetricLike
) -> Any:
    """A panel for each epsilon, and for each size of data sets that differ in `x` alone."""
    alike: dict[tuple[int | None, ...], list[str]] = {}
    for name in sorted(results, key=lambda name: getattr(sizes[name], x)):
        alike.setdefault(tuple(getattr(sizes[name], axis) for axis in AXES if axis != x), []).append(name)
    found = {name: summary(result, postprocess, metric) for name, result in results.items()}
    theory = {name: _theory(result, postprocess, metric) for name, result in results.items()}
    first = next(iter(results.values()))
    panels = [(names, e) for names in alike.values() for e in range(len(first.epsilons))]
    page = Page(len(panels), handles(first), explained(results, postprocess, theory.values()))
    for axis, (names, e) in zip(page.axes, panels, strict=True):
        mean, error = (np.stack([found[name][i][:, e] for name in names], axis=-1) for i in (0, 1))
        forms = [form[:, e] for name in names if (form := theory[name]) is not None]
        at = [getattr(sizes[name], x) for name in names]
        curves(axis, first, at, mean, error, np.stack(forms, axis=-1) if forms else None, log=_logarithmic(metric))
        fixed = [f"{other} = {getattr(sizes[names[0]], other):,}" for other in _titled(sizes, x)]
        axis.set_title(", ".join([f"ε = {show_epsilon(first.epsilons[e])}", *fixed]), fontsize=10)
        axis.set_xscale("log")
        if x != "n":
            size_ticks(axis, at)
    page.name_axes(AXES[x], axis_name(postprocess, metric))
    return page.figure


def _titled(sizes: Mapping[str, Size], x: str) -> list[str]:
    """What a panel's title says beside epsilon: d, and all that is in a grid."""
    first = next(iter(sizes.values()))
    return [axis for axis in AXES if axis != x and (axis == "d" or first.k is not None)]


def curves(
    axis: Any,
    result: Result,
    x: Sequence[float] | Floats,
    mean: Floats,
    error: Floats,
    theory: Floats | None = None,
    points: Floats | None = None,
    log: bool = True,
) -> None:
    """A panel: a curve with error bars for each protocol, closed forms as thin lines, published points as circles.

    `x` is the same for all protocols, or has a line for each.
    """
    drawn = np.concatenate([part for part in (mean, theory, points) if part is not None], axis=None)
    log = log and not (drawn < 0).any()  # a metric of the user's may be negative
    for p, look in enumerate(result.plan.looks):
        if not log and not np.isfinite(mean[p]).any():
            continue
        lines, at = style(result, p), x[p] if np.ndim(x) == 2 else x
        axis.errorbar(at, mean[p], yerror(error[p]), label=look.label, capsize=2, **lines)
        if theory is not None:
            axis.plot(at, theory[p], color=lines["color"], linewidth=0.6)
        if points is not None and np.isfinite(points[p]).any():
            axis.plot(at, points[p], **_CIRCLE, markeredgecolor=lines["color"])
    axis.grid(True, which="major", linewidth=0.4, alpha=0.6)
    if log and not log_ticks(axis, np.append(drawn, mean + error)):  # Smp on tiny data: nothing to draw
        axis.set_yticks([])
        axis.text(0.5, 0.5, "no estimates", transform=axis.transAxes, ha="center", va="center", fontsize=9)
    axis.tick_params(which="both", labelsize=8)


def _logarithmic(metric: MetricLike) -> bool:
    """Errors span powers of ten; a score, of which more is better, does not."""
    return not as_metric(metric).larger_is_better


def entitle(axis: Any, name: str, rest: str) -> None:
    """A panel's title: a data set's name, which may be long or of any alphabet, and what else there is to say."""
    (title,), families = lettered([name], TITLE_LETTERS)
    axis.set_title(f"{title}: {rest}", fontsize=10, fontfamily=families)


def handles(result: Result) -> dict[str, Any]:
    """A line of the legend for each protocol."""
    from matplotlib.lines import Line2D

    return {look.label: Line2D([], [], **style(result, p)) for p, look in enumerate(result.plan.looks)}


def axis_name(postprocess: PostprocessLike, metric: MetricLike = "mse") -> str:
    """What the axis of errors is called."""
    name = name_of(postprocess)
    label = as_metric(metric).label.replace("$", r"\$").replace("_avg", "$_{avg}$")
    return label + ("" if name == "none" else f" ({name})")


def _theory(result: Result, postprocess: PostprocessLike, metric: MetricLike) -> Floats | None:
    """The closed form, [protocol, epsilon]; nothing (NaN) where it is no more than a guide."""
    closed = expected(result, postprocess, metric)
    return None if closed is None else np.where(rough(result, postprocess), np.nan, closed)


def explained(
    results: Results,
    postprocess: PostprocessLike = "none",
    theory: Iterable[Floats | None] = (),
    points: Mapping[str, Floats | None] = MappingProxyType({}),
) -> list[str]:
    """What the legend says of bars, lines, circles and an unusual run."""
    lines = ["error bars: one standard error"] if any(len(r.repetitions) > 1 for r in results.values()) else []
    lines += unusual(next(iter(results.values())))
    if any(form is not None for form in theory):
        lines.append("thin lines: closed form")
    known = [name for name, numbers in points.items() if numbers is not None]
    if known:
        lines.append("open circles: the paper's points")
        if postprocess == "clip-normalize":
            lines += caveats(known, results[known[0]].plan.looks)
        if any(results[name].plan.assignment != "balanced" for name in known):
            lines.append("the paper's users are in balanced groups, these are not")
    return lines


def frequencies(results: Results, attribute: str, postprocess: PostprocessLike = DEFAULT) -> Any:
    """True and estimated frequencies of an attribute's values, a panel per data set and epsilon.

    Error bars are 95 % prediction intervals: where the estimate of one more collection falls.  The panels of a data set
    share their vertical axis.  Very many values leave no room for bars: means as lines, then.
    """
    postprocess = as_postprocess(postprocess)
    having = {name: r for name, r in results.items() if attribute in r.names}
    if not having:
        names = dict.fromkeys(n for r in results.values() for n in r.names)
        raise InputError(f"no attribute {attribute!r} in the results; attributes: {', '.join(names)}")
    panels = [(name, r, e) for name, r in having.items() for e in range(len(r.epsilons))]
    most = max(r.domain[r.names.index(attribute)] for r in having.values())
    wide, dense = most > MANY_VALUES, most > TOO_MANY_VALUES
    figure, axes = _measured_panels(len(panels), wide)
    found = {name: values_of(r, postprocess) for name, r in having.items()}
    shared: dict[str, Any] = {}
    for axis, (name, result, e) in zip(axes, panels, strict=True):
        a = result.plan.attributes[result.names.index(attribute)]
        columns = slice(a.offset, a.offset + a.k)
        if shared.setdefault(name, axis) is not axis:
            axis.sharey(shared[name])
        estimates, low, high = (numbers[:, e, columns] for numbers in found[name][:3])
        where, edges, truth = np.arange(a.k), np.arange(a.k + 1) - 0.5, result.frequencies[columns]
        axis.stairs(truth, edges, fill=True, color="#e4e4e4", zorder=1)
        for p, entry in enumerate(result.plan.looks):
            look = {**style(result, p), "zorder": 2, "label": entry.label}
            if not np.isfinite(estimates[p]).any():  # Smp on tiny data: nobody ever reported
                continue
            if dense:
                axis.plot(where, estimates[p], **{**look, "marker": "none", "linewidth": 0.8})
            else:
                shift = (p + 1) / (len(result.protocols) + 1) - 0.5
                look |= {"linestyle": "none", "markersize": 4, "elinewidth": 1}
                bars = np.maximum([estimates[p] - low[p], high[p] - estimates[p]], 0)
                axis.errorbar(where + 0.8 * shift, estimates[p], bars if np.isfinite(bars).any() else None, **look)
        axis.stairs(truth, edges, color="black", linewidth=1.8 if dense else 1.0, zorder=3, label="truth")
        (title, words), families = lettered([name, attribute], TITLE_LETTERS)
        axis.set_title(f"{title}, ε = {show_epsilon(result.epsilons[e])}", fontsize=10, fontfamily=families)
        note = _name_values(axis, result.labels[a.index] if result.labels else None, a.k, wide)
        axis.set_xlabel(f"{words}{note}", fontfamily=families)
        axis.set_xlim(-0.5 - 0.02 * a.k, a.k - 0.5 + 0.02 * a.k)
        axis.set_ylabel("frequency" + ("" if postprocess == "none" else f" ({name_of(postprocess)})"))
        axis.tick_params(axis="y", labelsize=8)
    if max(len(r.repetitions) for r in having.values()) == 1:
        notes = ["a single repetition"]
    elif dense:
        notes = ["means over repetitions;", "too many values for error bars"]
    else:
        notes = ["error bars: 95 % prediction", "intervals of one collection"]
    _legend(figure, axes, [*notes, *(line.replace(" (", "\n(") for line in unusual(next(iter(having.values()))))])
    return figure


def _measured_panels(count: int, wide: bool) -> tuple[Any, list[Any]]:
    """Panels for labels of any length, which must be measured before there can be a layout."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = (1 if count <= 12 else 2) if wide else min(count, 3 if count <= 9 else 4)
    lines = -(-count // columns)
    figure = Figure(figsize=(1.2 + (12.0 if wide else 3.9) * columns, 0.9 + 3.1 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(lines, columns, i + 1) for i in range(count)]


def _name_values(axis: Any, labels: Sequence[str] | None, k: int, wide: bool) -> str:
    """Labels under the values, or under every so manyth; what the axis must say about them."""
    most = MOST_LABELS_WIDE if wide else MOST_LABELS
    step = next(s * 10**e for e in range(6) for s in (1, 2, 5) if s * 10**e * most >= k)
    shown = range(0, k, step)
    texts, families = lettered([str(v) if labels is None else labels[v] for v in shown], LABEL_LETTERS)
    turned: dict[str, Any] = {}
    if max(map(len, texts)) * len(texts) > (120 if wide else 40):  # letters in a line
        turned = {"rotation": 90} if len(texts) > most / 2 else {"rotation": 45, "ha": "right"}
    axis.set_xticks(list(shown), texts, fontsize=7, fontfamily=families, **turned)
    if labels is None:
        return f" (number of the value, 0 … {k - 1})"
    return "" if step == 1 else f" ({k} values, every {step}{'nd' if step == 2 else 'th'} named)"


def yerror(error: Floats) -> Floats | None:
    """Error bars, or none where a single repetition has no standard error."""
    return error if np.isfinite(error).any() else None


def _legend(figure: Any, axes: list[Any], explained: Sequence[str]) -> None:
    shown = {name: handle for axis in axes for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(
        shown.values(),
        shown.keys(),
        loc="outside right upper",
        fontsize=8,
        title="\n".join(explained) or None,
        title_fontsize=8,
        frameon=False,
    )


def surface(
    budget: float = math.log(3),
    n: int = 20_000,
    attributes: tuple[int, int] = (2, 10),
    values: tuple[int, int] = (2, 20),
) -> Any:
    """VAR1 - VAR2 of eq. (12) over ranges of d and k: where it is <= 0, RS+FD[ADP] takes GRR."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    d, k = np.meshgrid(*(np.unique(np.linspace(*ends, MOST_LINES).round()) for ends in (attributes, values)))
    oue, grr = REGISTRY["rsfd-adp"].variants
    difference = np.vectorize(
        lambda d, k: grr.variance_at_zero(budget, int(d), int(k), n) - oue.variance_at_zero(budget, int(d), int(k), n)
    )(d, k)
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    axis: Any = figure.add_subplot(projection="3d")
    limit = float(np.abs(difference).max())
    drawn = axis.plot_surface(
        d, k, difference, cmap="RdBu_r", vmin=-limit, vmax=limit, edgecolor="#444444", linewidth=0.3
    )
    if difference.min() < 0 < difference.max():
        axis.contour(d, k, difference, levels=[0.0], colors="black", linewidths=1.5, offset=float(difference.min()))
    axis.set_xlabel("d")
    axis.set_ylabel("k")
    axis.set_yticks([2, 5, 10, 15, 20] if values == (2, 20) else np.unique(np.linspace(*values, 5).round()))
    axis.set_title(
        f"VAR$_1$ − VAR$_2$ at ε′ = {show_epsilon(budget)}, n = {n:,}\n(≤ 0: GRR; > 0: OUE-z; black: zero)", fontsize=10
    )
    axis.view_init(elev=22, azim=-130)
    figure.colorbar(drawn, shrink=0.6, pad=0.12)
    return figure


def outdated(figure: Path, file: Path) -> bool:
    """Not drawn from what the file holds now."""
    return not figure.exists() or figure.stat().st_mtime_ns < file.stat().st_mtime_ns
