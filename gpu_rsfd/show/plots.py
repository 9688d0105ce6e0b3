"""The paper's figures from stored results alone.  The caller owns the figure; nothing here simulates."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.command import Size, size_of
from gpu_rsfd.errors import InputError
from gpu_rsfd.files import FIGURES, replace_file
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.protocols import Mechanism
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.results.estimate import DEFAULT, Floats
from gpu_rsfd.results.metrics import name_of
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show.charts import palette
from gpu_rsfd.show.panels import Page, epsilon_ticks, lettered, log_ticks, page_size, size_ticks
from gpu_rsfd.show.rows import Cells, How, Hows, caveats, only, place_name, shown, unusual, withheld_of
from gpu_rsfd.show.tables import values_of

MANY_VALUES = 30  # more than these need a panel as wide as the page
MOST_LABELS, MOST_LABELS_WIDE = 20, 60  # of values, under a panel; more can't be read
LABEL_LETTERS, TITLE_LETTERS = 20, 40  # longer ones are cut
RESULTS = (".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4")  # how a results file's name may end
PAGES = (".html",)
MOST_BESIDE = 4  # panels of a data set in a line
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
    ".html": b'<meta name="generator" content="gpu-rsfd',
}


_CIRCLE: dict[str, Any] = {  # a published point: larger than every marker, so that both are seen
    "marker": "o",
    "markersize": 11,
    "markerfacecolor": "none",
    "markeredgewidth": 0.8,
    "linestyle": "none",
    "zorder": 1.5,
}


def style(result: Result, protocol: int) -> dict[str, Any]:
    """How a protocol of a result is drawn.

    A curve that coincides somewhere with one before it, as an adaptive choice does, has hollow, larger markers, so
    that the other one stays visible.
    """
    plan, before = result.plan, range(protocol)
    drawn = palette(plan.looks)[protocol]
    follows = any(plan.digest(protocol, e) == plan.digest(p, e) for e in range(len(plan.epsilons)) for p in before)
    return {**drawn.curve, "markersize": 8 if follows else 5, "markerfacecolor": "none" if follows else drawn.colour}


def beside(file: Path, infix: str = "", suffix: str = ".png") -> Path:
    """The figure of a results file: run.h5 -> run.png, but run.1 -> run.1.png, since run.2 needs one of its own."""
    stem = file.stem if file.suffix.lower() in RESULTS else file.name
    return file.with_name(f"{stem}{'-' * bool(infix)}{infix.replace('/', '_')}{suffix}")


def check_target(
    path: Path, overwrite: bool = False, hint: str = "give another name, or --overwrite", what: str = "figure"
) -> Path:
    """A file that may be written: of a known format, in a folder that exists, over no file of somebody else's."""
    endings = FIGURES if what == "figure" else PAGES
    if path.suffix.lower() not in endings:
        raise InputError(f"{what}={path} must end in {'one of ' * (len(endings) > 1)}{', '.join(endings)}")
    if not path.parent.is_dir():
        raise InputError(f"{what}={path}: the folder {path.parent} does not exist")
    if path.exists():
        if not path.is_file():
            raise InputError(f"{what}={path} is not a regular file; give another name")
        if not overwrite and not _ours(path):
            raise InputError(f"{what}={path} exists and was not made by gpu-rsfd; {hint}")
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
    with rc_context({"svg.hashsalt": "gpu-rsfd", "pdf.fonttype": 42}):
        options = {"pil_kwargs": {"compress_level": 4}} if form == "png" else {}  # half the time, a tenth larger
        figure.savefig(image, format=form, dpi=200, metadata=_METADATA[form], **options)
    replace_file(target, image.getbuffer())


class Panel(NamedTuple):
    """A curve for each protocol, [protocol, x] each."""

    name: str  # of the data set
    title: str
    x: Any  # the same for all protocols, or a line for each
    cells: Cells
    mean: Floats
    error: Floats
    theory: Floats | None = None
    points: Floats | None = None


def figure_of(results: Results, how: Hows, x: str = "auto") -> Any:
    """Every column against epsilon; against n, d or k of the data sets, or an axis of its own, a panel per epsilon."""
    found = _found(results, how)
    x = {"users": "n"}.get(x, x)
    sizes = sizes_of(results)
    places = [cells.place.items() for every in found.values() for cells in every]
    own = list(dict.fromkeys(dim for place in places for dim, at in place if isinstance(at, int | float)))
    varying = varying_in(sizes)
    if x not in ("auto", "epsilon", *AXES, *own):
        raise InputError(f"x={x} must be one of auto, epsilon, {', '.join([*AXES, *own])}")
    if x in AXES and x not in varying:
        raise InputError(f"x={x} needs synthetic data sets, made by size, that differ in {AXES[x]}")
    if x == "auto":
        x = next(iter([*varying, *own]), "epsilon")
    panels = _panels(results, found, x, sizes)
    page = _drawn(results, panels, how)
    names = ["ε" if x not in (*AXES, *panel.cells.place) else AXES.get(x, x) for panel in panels]
    for axis, panel, name in zip(page.axes, panels, names, strict=True):
        if name == "ε":
            epsilon_ticks(axis, results[panel.name].epsilons)
        elif x in AXES:
            axis.set_xscale("log")
            if x != "n":
                size_ticks(axis, panel.x)
        elif all(isinstance(at, int) for at in panel.x):
            axis.xaxis.get_major_locator().set_params(integer=True)
    page.name_axes(names, {panel.cells.axis for panel in panels})
    return page.figure


def tradeoff(results: Results, how: Hows) -> Any:
    """Every column against the exact privacy loss, a curve per protocol over epsilon: one attribute differs, or all."""
    panels = [
        Panel(name, _title(results[name], cells), loss, cells, cells.mean, cells.error)
        for name, every in _found(results, how).items()
        for cells in every
        for loss in exact_losses(results[name])
    ]
    page = _drawn(results, panels, how, loss_notes(next(iter(results.values()))), 2 * min(2, len(results)))
    page.name_axes(
        ("loss, users who differ in one attribute", "loss, any two users"), {panel.cells.axis for panel in panels}
    )
    return page.figure


def _found(results: Results, how: Hows) -> dict[str, list[Cells]]:
    found = {name: shown(results, name, how) for name in results}
    if not any(found.values()):
        raise InputError("nothing to plot: no finished repetitions yet, or a measurement without columns")
    return found


def _title(result: Result, cells: Cells, *more: str) -> str:
    """What a panel says beside the data set: what it has of several things, or the size of the data."""
    column = (cells.column.short or cells.column.label) if len(result.columns) > 1 else ""
    return ", ".join(filter(None, [*more, column])) or f"n = {result.n:,}, d = {len(result.domain)}"


def _panels(results: Results, found: Mapping[str, list[Cells]], x: str, sizes: Mapping[str, Size]) -> list[Panel]:
    """Against epsilon; where there is an `x`, a size of data sets or an axis of a column, against that, by epsilon."""
    alike: dict[Any, list[tuple[Any, str, Cells]]] = {}  # what differs in x alone
    for name in sorted(found, key=lambda name: getattr(sizes[name], x)) if x in AXES else found:
        size = {axis: getattr(sizes[name], axis) for axis in AXES} if x in AXES else {}
        for cells in found[name]:
            at = {**size, **cells.place}
            rest = tuple((dim, value) for dim, value in at.items() if dim != x)
            alike.setdefault((cells.name, None if size else name, rest), []).append((at.get(x), name, cells))
    panels = []
    for (_, name, rest), some in alike.items():
        _, first, cells = some[0]
        known = [dim for dim in AXES if name is None and (dim == "d" or sizes[first].k is not None)]
        words = [f"{dim} = {value:,}" for dim, value in rest if dim in known]
        words.append(place_name({dim: value for dim, value in rest if dim in cells.place}))
        if some[0][0] is None:
            numbers = cells.mean, cells.error, cells.drawn_theory, cells.published
            panels.append(Panel(first, _title(results[first], cells, *words), results[first].epsilons, cells, *numbers))
            continue
        for e, epsilon in enumerate(results[first].epsilons):
            each: Any = ([getattr(one, what) for *_, one in some] for what in ("mean", "error", "drawn_theory"))
            stacked: Any = (None if of[0] is None else np.stack([part[:, e] for part in of], axis=-1) for of in each)
            title = _title(results[first], cells, f"ε = {show_epsilon(epsilon)}", *words)
            panels.append(Panel(name or "", title, [at for at, *_ in some], cells, *stacked))
    return panels


def _drawn(
    results: Results, panels: Sequence[Panel], how: Hows, notes: Sequence[str] = (), columns: int | None = None
) -> Page:
    """The page with the curves of all panels, and their titles."""
    from matplotlib.lines import Line2D

    first = next(iter(results.values()))
    legend = {look.label: Line2D([], [], **style(first, p)) for p, look in enumerate(first.plan.looks)}
    baseline: dict[str, Any] = {"color": "black", "linewidth": 0.8}
    if any(panel.cells.column.baseline is not None for panel in panels):
        legend["without a report"] = Line2D([], [], **baseline)
    of_each = len([panel for panel in panels if panel.name == panels[0].name and panel.x is panels[0].x])
    if columns is None and 1 < of_each <= MOST_BESIDE and len(panels) == of_each * len(results):
        columns = of_each * min(2, len(results))
    page = Page(len(panels), legend, [*explained(results, panels, how), *notes], columns)
    for axis, panel in zip(page.axes, panels, strict=True):
        curves(axis, results.get(panel.name, first), panel)
        at: Any = panel.cells.column.baseline
        if at is not None:
            axis.axhline(at, label="without a report", **baseline)
        (title,), families = lettered([panel.name], TITLE_LETTERS)
        axis.set_title(f"{title}: {panel.title}" if title else panel.title, fontsize="medium", fontfamily=families)
    return page


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


def curves(axis: Any, result: Result, panel: Panel) -> None:
    """A curve with error bars for each protocol, closed forms as thin lines, published points as circles.

    Errors span powers of ten; a score, of which more is better, does not.
    """
    mean, error, theory, points = panel[4:]
    drawn = np.concatenate([part for part in (mean, theory, points) if part is not None], axis=None)
    log = panel.cells.column.better == "smaller" and not (drawn < 0).any()  # a metric of the user's may be negative
    for p, look in enumerate(result.plan.looks):
        if not log and not np.isfinite(mean[p]).any():
            continue
        lines, at = style(result, p), panel.x[p] if np.ndim(panel.x) == 2 else panel.x
        bars = error[p] if np.isfinite(error[p]).any() else None  # a single repetition has no standard error
        axis.errorbar(at, mean[p], bars, label=look.label, capsize=2, **lines)
        if theory is not None:
            axis.plot(at, theory[p], color=lines["color"], linewidth=0.6)
        if points is not None and np.isfinite(points[p]).any():
            axis.plot(at, points[p], **_CIRCLE, markeredgecolor=lines["color"])
    axis.grid(True, which="major", linewidth=0.4, alpha=0.6)
    if log and not log_ticks(axis, np.append(drawn, mean + error)):  # Smp on tiny data: nothing to draw
        axis.set_yticks([])
        axis.text(0.5, 0.5, "no estimates", transform=axis.transAxes, ha="center", va="center", fontsize=9)
    axis.tick_params(which="both", labelsize="small")


def explained(results: Results, panels: Sequence[Panel], how: Hows) -> list[str]:
    """What the legend says of bars, lines, circles and an unusual run."""
    lines = ["error bars: one standard error"] if any(len(r.repetitions) > 1 for r in results.values()) else []
    lines += unusual(results, next(iter(results)))
    if any(panel.theory is not None for panel in panels):
        lines.append("thin lines: closed form")
    known = [panel.name for panel in panels if panel.points is not None]
    if known:
        lines.append("open circles: the paper's points")
        if any(one.postprocess == DEFAULT for one in ([how] if isinstance(how, How) else how)):
            lines += caveats(known, results[known[0]].plan.looks)
        if any(results[name].plan.assignment != "balanced" for name in known):
            lines.append("the paper's users are in balanced groups, these are not")
    return lines


def exact_losses(result: Result) -> tuple[Floats, Floats]:
    """[protocol, epsilon] each: for one attribute, and for all; NaN where it is infinite or not known."""
    table = np.array([[_losses(ms) for ms in row] for row in result.plan.mechanisms])
    finite = np.where(np.isfinite(table), table, np.nan)
    return finite[:, :, 0], finite[:, :, 1]


def _losses(mechanisms: tuple[Mechanism, ...]) -> Floats:
    hidden = any(m.recipe.unsampled.hides and not (m.plain and np.isfinite(m.p)) for m in mechanisms)
    return np.full(2, np.nan) if hidden else losses(mechanisms, [1, len(mechanisms)])


def loss_notes(result: Result) -> list[str]:
    """The protocols whose losses are not what they seem: claimed, or those of one report of many."""
    found: dict[str, list[str]] = {}
    for look, row in zip(result.plan.looks, result.plan.mechanisms, strict=True):
        if any(m.claimed for ms in row for m in ms):
            found.setdefault("loss claimed by its author, not computed", []).append(look.label)
        if any(m.spent < m.budget for ms in row for m in ms):
            found.setdefault("loss of the first report alone", []).append(look.label)
    return [f"{words}: {', '.join(labels)}" for words, labels in found.items()]


def frequencies(results: Results, attribute: str, hows: Hows) -> Any:
    """True and estimated frequencies of an attribute's values, a panel per data set and epsilon.

    Error bars are 95 % prediction intervals: where the estimate of one more collection falls.  The panels of a data set
    share their vertical axis.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    how = only(results, hows, f"attribute={attribute}")
    having = {name: r for name, r in results.items() if attribute in r.names}
    if not having:
        names = dict.fromkeys(n for r in results.values() for n in r.names)
        raise InputError(f"no attribute {attribute!r} in the results; attributes: {', '.join(names)}")
    panels = [(name, r, e) for name, r in having.items() for e in range(len(r.epsilons))]
    most = max(r.domain[r.names.index(attribute)] for r in having.values())
    wide = most > MANY_VALUES
    count = len(panels)
    columns = (1 if count <= 12 else 2) if wide else min(count, 3 if count <= 9 else 4)
    lines = -(-count // columns)
    # labels of any length must be measured before there can be a layout
    figure = Figure(figsize=page_size(1.2 + (12.0 if wide else 3.9) * columns, 0.9 + 3.1 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(lines, columns, i + 1) for i in range(count)]
    hidden = {name: withheld_of(results, name)[0] for name in having}
    found = {name: values_of(r, how.postprocess, hidden[name]) for name, r in having.items()}
    shared: dict[str, Any] = {}
    for axis, (name, result, e) in zip(axes, panels, strict=True):
        a = result.plan.attributes[result.names.index(attribute)]
        values = slice(a.offset, a.offset + a.k)
        if shared.setdefault(name, axis) is not axis:
            axis.sharey(shared[name])
        estimates, low, high = (numbers[:, e, values] for numbers in found[name][:3])
        where, edges = np.arange(a.k), np.arange(a.k + 1) - 0.5
        truth = np.where(hidden[name][values], np.nan, result.frequencies[values])
        axis.stairs(truth, edges, fill=True, color="#e4e4e4", zorder=1)
        for p, entry in enumerate(result.plan.looks):
            look = {**style(result, p), "zorder": 2, "label": entry.label}
            if not np.isfinite(estimates[p]).any():  # Smp on tiny data: nobody ever reported
                continue
            shift = (p + 1) / (len(result.protocols) + 1) - 0.5
            look |= {"linestyle": "none", "markersize": 4, "elinewidth": 1}
            bars = np.maximum([estimates[p] - low[p], high[p] - estimates[p]], 0)
            axis.errorbar(where + 0.8 * shift, estimates[p], bars if np.isfinite(bars).any() else None, **look)
        axis.stairs(truth, edges, color="black", linewidth=1.0, zorder=3, label="truth")
        (title, words), families = lettered([name, attribute], TITLE_LETTERS)
        axis.set_title(f"{title}, ε = {show_epsilon(result.epsilons[e])}", fontsize="medium", fontfamily=families)
        note = _name_values(axis, result.labels[a.index] if result.labels else None, a.k, wide)
        axis.set_xlabel(f"{words}{note}", fontfamily=families)
        axis.set_xlim(-0.5 - 0.02 * a.k, a.k - 0.5 + 0.02 * a.k)
        axis.set_ylabel("frequency" + ("" if how.postprocess == "none" else f" ({name_of(how.postprocess)})"))
        axis.tick_params(axis="y", labelsize="small")
    notes = ["error bars: 95 % prediction", "intervals of one collection"]
    if max(len(r.repetitions) for r in having.values()) == 1:
        notes = ["a single repetition"]
    if any(each.any() for each in hidden.values()):
        notes += [f"gaps: values of fewer than {results.min_count}", "users, and what would tell them"]
    notes += [line.replace(" (", "\n(") for line in unusual(results, next(iter(having)))]
    legend = {name: handle for axis in axes for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    look = {"loc": "outside right upper", "fontsize": 8, "title_fontsize": 8, "frameon": False}
    figure.legend(legend.values(), legend.keys(), title="\n".join(notes), **look)
    return figure


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


def outdated(figure: Path, file: Path) -> bool:
    """Not drawn from what the file holds now."""
    return not figure.exists() or figure.stat().st_mtime_ns < file.stat().st_mtime_ns
