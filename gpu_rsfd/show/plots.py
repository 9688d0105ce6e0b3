"""The paper's figures from stored results alone.  The caller owns the figure; nothing here simulates."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from gpu_rsfd.show import rows
from gpu_rsfd.show.charts import palette, style_of
from gpu_rsfd.show.panels import A_PAGE, Page, Paper, epsilon_ticks, fit_text, lettered, log_ticks, setting, size_ticks
from gpu_rsfd.show.rows import Cells, Curve, How, Hows
from gpu_rsfd.show.tables import values_of

MANY_VALUES = 30  # more than these need a panel as wide as the page
TITLE_LETTERS = 40  # longer ones are cut
RESULTS = (".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4")  # how a results file's name may end
PAGES = (".html",)
MOST_BESIDE = 4  # panels of a data set in a line
BESIDE: Any = ("--", ":")  # lines of what is drawn beside a column
BOTH_COLUMNS = 6.0  # inches: from this width on, a legend has room beside the panels
FLAT = 1e-9  # relative: numbers that differ by less are equal
MOST_DASHES = 4  # runs that these tell apart
AXES = {"n": "users n", "d": "attributes d", "k": "values k"}  # sizes of a data set
LOSS, WHOSE = object(), ("loss, users who differ in one attribute", "loss, any two users")  # no words for --x

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


# a published point
_CIRCLE: dict[str, Any] = {"marker": "o", "markerfacecolor": "none", "markeredgewidth": 0.8, "linestyle": "none"}


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
    """What is drawn in an Axes."""

    name: str  # of the data set
    title: str
    axis: str  # the horizontal one
    cells: Cells  # the first of those drawn
    curves: Mapping[Curve, Mapping[str, Any]]  # of each: x, mean, error, theory, published points, and others beside


def figure_of(results: Results, how: Hows, x: Any = "auto", paper: Paper = A_PAGE, attribute: str | None = None) -> Any:
    """Every column against epsilon or the exact privacy loss, or frequencies of an attribute's values.

    Against n, d or k of the data sets, or an axis of its own, a panel per epsilon.
    """
    if attribute is not None:
        return frequencies(results, attribute, how, paper)
    panels = _panels(results, how, {"users": "n"}.get(x, x))
    drawn = styles(panels)
    legend = {curve.label: style for curve, style in drawn.items()}
    baseline: dict[str, Any] = {"color": "black", "linewidth": 0.8}
    if any(panel.cells.column.baseline is not None for panel in panels):
        legend["without a report"] = baseline
    told = {label: dash for panel in panels for label, dash in zip(panel.cells.beside, BESIDE, strict=False)}
    legend |= {label: {"color": "black", "linestyle": dash, "linewidth": 1} for label, dash in told.items()}
    kinds = [(panel.name, panel.cells.name) for panel in panels]
    alike = kinds.count(kinds[0]), [name for name, _ in kinds].count(panels[0].name)  # by epsilon, in a data set
    columns = 2 * min(2, len(results)) if x == LOSS else None
    if columns is None and (panels[0].name or alike[0] < len(panels)):
        columns = next((number for number in alike if 1 < number <= MOST_BESIDE), None)
    page = Page(len(panels), legend, explained(results, panels, how), columns, paper)
    for axis, panel in zip(page.axes, panels, strict=True):
        curves(axis, panel, drawn)
        one: Any = next(iter(panel.curves.values()))
        if len(set(shares := one.get("baseline", ()))) == 1:
            axis.axhline(shares[0], label="without a report", **baseline)
        elif shares:
            axis.plot(one["x"], shares, label="without a report", **baseline)
        named = panel.name if len(results) > 1 or panel is panels[0] else ""
        (title,), families = lettered([named], TITLE_LETTERS)
        page.name(axis, f"{title}: {panel.title}" if title else panel.title, families)
        places = sorted({place for curve in panel.curves.values() for place in curve["x"]})
        if panel.axis == "ε":
            page.fit(epsilon_ticks, axis, places)
        elif panel.axis in AXES.values():
            axis.set_xscale("log")
            page.fit(size_ticks, axis, places)
        elif axis.get_xscale() == "linear" and all(isinstance(one, int) for one in places):
            axis.xaxis.get_major_locator().set_params(integer=True)
    page.name_axes([panel.axis for panel in panels], [panel.cells.axis for panel in panels])
    return page.figure


def styles(panels: Sequence[Panel]) -> dict[Curve, dict[str, Any]]:
    """How curves are drawn in a figure: a protocol has a colour.

    Runs of several protocols differ in dashes where these suffice, else in markers.  A curve that coincides somewhere
    with one before it, as an adaptive choice does, has hollow, larger markers, so that the other one stays visible.
    """
    found, hollow = dict[Curve, Any](), set[Curve]()
    for panel in panels:
        before: set[Any] = set()
        for curve, numbers in panel.curves.items():
            points = set(zip(numbers["x"], numbers["mean"], strict=True))
            hollow |= {curve} if points & before else set()
            before |= points
            found[curve] = curve.look
    looks = {look.name: look for look in found.values()}
    own = dict(zip(looks, palette(tuple(looks.values())), strict=True))
    several = {curve.look.name for curve in found if curve.words}
    words = list(dict.fromkeys(curve.words for curve in found if curve.look.name in several))
    plain = {"linestyle": "-"} if any(panel.cells.beside for panel in panels) else {}  # dashes say what is beside them
    dashed = not plain and len(words) <= MOST_DASHES and len({style.marker for style in own.values()}) == len(own)
    for i, curve in enumerate(found):
        style, other = own[curve.look.name], style_of(i)
        if len(words) > 1 and len(own) == 1:
            style = other
        elif len(words) > 1:
            run = style_of(words.index(curve.words) if curve.words in words else 0)
            style = style._replace(dash=run.dash) if dashed else other._replace(colour=style.colour)
        large = {"markersize": 1.6 * style.curve["markersize"], "markerfacecolor": "none"} if curve in hollow else {}
        found[curve] = style.curve | large | plain
    return found


def _found(results: Results, how: Hows, x: str) -> Iterator[tuple[str, str, Result, Cells]]:
    """What is drawn: data set, axis, the result of a run, its cells."""
    parts = [(name, part) for name in results for part in rows.cells_by_run(results, name, how, whole=True)]
    every = [(name, result, cells) for name, (_, result, _, some) in parts for cells in some]
    if not every:
        raise InputError("nothing to plot: no finished repetitions yet, or a measurement without columns")
    own = dict.fromkeys(dim for *_, cells in every for dim, at in cells.place.items() if isinstance(at, int | float))
    varying = varying_in(sizes_of(results))
    if x not in ("auto", "epsilon", LOSS, *AXES, *own):
        raise InputError(f"x={x} must be one of auto, epsilon, {', '.join([*AXES, *own])}")
    if x in AXES and x not in varying:
        raise InputError(f"x={x} needs synthetic data sets, made by size, that differ in {AXES[x]}")
    for name, result, cells in every:
        over, place = cells.column.over, cells.place
        at = next(iter(varying), cells.column.x) if x == "auto" else x
        if at not in ("epsilon", LOSS, *AXES, *place):
            at = next((dim for dim in own if dim in place), "epsilon")
        last = over not in place or over == at or place[over] == result.coords[over][-1]
        if last and (x in place or x not in own) and (cells.column.x or x != "auto"):
            yield from ((name, axis, result, cells) for axis in (WHOSE if x == LOSS else [at]))


def _panels(results: Results, how: Hows, x: str) -> list[Panel]:
    """Against epsilon; where there is another axis, against that, by epsilon; at one, where a column asks for it.

    Words on an axis of a measurement's own tell curves apart: of protocols for which they make a difference.
    """
    sizes, panels = sizes_of(results), dict[Any, Panel]()
    found = sorted(_found(results, how, x), key=lambda one: getattr(sizes.get(one[0]), one[1], 0))
    for name, axis, result, cells in found:
        size = {dim: getattr(sizes[name], dim) for dim in AXES if axis in AXES}
        cells = cells if axis == cells.column.over else cells._replace(beside={})
        told = {dim: word for dim, word in cells.place.items() if isinstance(word, str) and dim in result.coords}
        rest = rows.place_name({dim: at for dim, at in cells.place.items() if dim != axis and dim not in told})
        others = [f"{dim} = {value:,}" for dim, value in size.items() if value is not None and dim != axis]
        known: dict[str, Any] = {"mean": cells.mean, "error": cells.error, **cells.beside}
        known["baseline"] = None if (share := cells.column.baseline) is None else np.full(cells.mean.shape, share)
        known["theory"] = cells.drawn_theory if axis not in WHOSE else None
        known["published"] = cells.published if axis == "epsilon" else None
        losses = dict(zip(WHOSE, exact_losses(result), strict=True)) if axis in WHOSE else {}
        column = cells.column.short or (cells.column.label if len(result.columns) > 1 else "")
        column = column.replace("_avg", "$_{avg}$")
        for (p, curve), (e, epsilon) in itertools.product(enumerate(cells.curves), enumerate(cells.epsilons)):
            if x == "auto" and axis == cells.column.x != "epsilon" and e != len(cells.epsilons) // 2:
                continue
            at = f"ε = {show_epsilon(epsilon)}" if axis not in ("epsilon", *WHOSE) else ""
            title = ", ".join(filter(None, [at, *others, rest, column])) or f"n = {result.n:,}, d = {result.plan.d}"
            panel = Panel("" if size else name, title, {**AXES, "epsilon": "ε"}.get(axis, axis), cells, {})
            curves: Any = panels.setdefault((cells.name, *panel[:3]), panel).curves
            numbers = curves.setdefault(curve, {}).setdefault(tuple(told.values()), {"x": []})
            place = {"epsilon": epsilon, **size, **cells.place, **{whose: loss[p, e] for whose, loss in losses.items()}}
            numbers["x"].append(place[axis])
            for what, cell in known.items():
                if cell is not None:
                    numbers.setdefault(what, []).append(cell[p, e])
    by_curve = [item for panel in panels.values() for item in panel.curves.items()]
    differing = {curve for curve, told in by_curve if len({str(one["mean"]) for one in told.values()}) > 1}
    return [panel._replace(curves=_told_apart(panel.curves, differing)) for panel in panels.values()]


def _told_apart(by_words: Mapping[Curve, Any], differing: Collection[Curve]) -> Mapping[Curve, Any]:
    """A curve for each of its words, or one for all of them."""
    each = ((curve, words, numbers) for curve, told in by_words.items() for words, numbers in told.items())
    return {curve._replace(words=curve.words + words * (curve in differing)): numbers for curve, words, numbers in each}


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


def curves(axis: Any, panel: Panel, drawn: Mapping[Curve, Any]) -> None:
    """A curve with error bars for each protocol, closed forms as thin lines, published points as circles.

    Errors span powers of ten; a score, of which more is better, does not.
    """
    every: Any = [c[what] for c in panel.curves.values() for what in ("mean", "theory", "published") if what in c]
    log = panel.cells.column.better == "smaller" and not (np.concatenate(every) < 0).any()  # of the user's own metric
    circle = 2.2 * setting("lines.markersize", 0.5)  # larger than every marker, so that both are seen
    for one, curve in panel.curves.items():
        at, lines, mean, error = curve["x"], drawn[one], np.array(curve["mean"]), np.array(curve["error"])
        if not log and not np.isfinite(mean).any():
            continue
        bars = error if np.isfinite(error).any() else None  # a single repetition has no standard error
        axis.errorbar(at, mean, bars, label=one.label, capsize=2, **lines)
        every += [mean + error, np.maximum(mean - error, mean / 2)]  # a longer bar is cut
        if "theory" in curve:
            axis.plot(at, curve["theory"], color=lines["color"], linewidth=lines["linewidth"] / 2)
        if np.isfinite(curve.get("published", np.nan)).any():
            axis.plot(at, curve["published"], **_CIRCLE, zorder=1.5, markeredgecolor=lines["color"], markersize=circle)
    known = np.concatenate(every)[np.isfinite(np.concatenate(every))]
    if known.size and 0 < np.ptp(known) < FLAT * np.abs(known).max():  # ticks would tell roundings apart
        axis.set_ylim(*sorted(known.mean() * np.array([0.95, 1.05])))
    for label, dash in zip(panel.cells.beside, BESIDE, strict=False):  # which are seen, not all to their ends
        limits, each = axis.get_ylim(), [(one, curve["x"], curve[label]) for one, curve in panel.curves.items()]
        common = len({str(np.round(numbers, 2).tolist()) for *_, numbers in each}) == 1
        for one, at, numbers in each[:1] if common else each:
            axis.plot(at, numbers, linestyle=dash, color="black" if common else drawn[one]["color"], linewidth=1)
        axis.set_ylim(limits[0], max(limits[1], 1.05 * max(np.min(y) for *_, y in each)))
    axis.grid(True, which="major", linewidth=0.4, alpha=0.6)
    if log and not log_ticks(axis, np.concatenate(every)):  # Smp on tiny data: nothing to draw
        axis.set_yticks([])
        axis.text(0.5, 0.5, "no estimates", transform=axis.transAxes, ha="center", va="center", fontsize=9)
    for side in "xy":
        axis.tick_params(axis=side, which="both", labelsize=setting(f"{side}tick.labelsize", "small"))


def explained(results: Results, panels: Sequence[Panel], how: Hows) -> list[str]:
    """What the legend says of bars, lines, circles and an unusual run."""
    every = [run[name] for name in results for _, run, _ in rows.runs_of(results, name)]
    lines = ["error bars: one standard error"] if any(len(result.repetitions) > 1 for result in every) else []
    lines += rows.common(results, results, rows.unusual)
    curves = [(panel.name, curve) for panel in panels for curve in panel.curves.values()]
    if any("theory" in curve for _, curve in curves):
        lines.append("thin lines: closed form")
    known = list(dict.fromkeys(name for name, curve in curves if "published" in curve))
    if known:
        lines.append("open circles: the paper's points")
        if any(one.postprocess == DEFAULT for one in ([how] if isinstance(how, How) else how)):
            lines += rows.caveats(known, results[known[0]].plan.looks)
        if any(results[name].plan.assignment != "balanced" for name in known):
            lines.append("the paper's users are in balanced groups, these are not")
    if panels[0].axis in WHOSE:
        lines += dict.fromkeys(note for result in every for note in loss_notes(result))
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


def frequencies(results: Results, attribute: str, hows: Hows, paper: Paper = A_PAGE) -> Any:
    """True and estimated frequencies of an attribute's values, a panel per data set and epsilon.

    Error bars are 95 % prediction intervals: where the estimate of one more collection falls.  The panels of a data set
    share their vertical axis.
    """
    how = rows.only(results, hows, f"attribute={attribute}")
    having = {name: r for name, r in results.items() if attribute in r.names}
    if not having:
        names = dict.fromkeys(n for r in results.values() for n in r.names)
        raise InputError(f"no attribute {attribute!r} in the results; attributes: {', '.join(names)}")
    panels = [(name, r, e) for name, r in having.items() for e in range(len(r.epsilons))]
    wide = max(r.domain[r.names.index(attribute)] for r in having.values()) > MANY_VALUES
    columns = (1 if len(panels) <= 12 else 2) if wide else min(len(panels), 3 if len(panels) <= 9 else 4)
    hidden = {name: rows.withheld_of(results, name)[0] for name in having}
    found = {name: values_of(r, how.postprocess, hidden[name]) for name, r in having.items()}
    notes = ["error bars: 95 % prediction intervals of one collection"]
    if max(len(r.repetitions) for r in having.values()) == 1:
        notes = ["a single repetition"]
    if any(each.any() for each in hidden.values()):
        notes += [f"gaps: values of fewer than {results.min_count} users, and what would tell them"]
    first = next(iter(having.values()))
    drawn = [{**style.curve, "linestyle": "none"} for style in palette(first.plan.looks)]
    legend = {look.label: style for look, style in zip(first.plan.looks, drawn, strict=True)}
    legend["truth"] = {"color": "black", "linewidth": 1.0}
    if paper.axes is None and paper.legend is None:
        paper = paper._replace(legend="right" if paper.width is None or paper.width >= BOTH_COLUMNS else "below")
    notes += rows.common(results, having, rows.unusual)
    page = Page(len(panels), legend, notes, columns, paper, (12.0 if wide else 3.9, 3.1))
    shared: dict[str, Any] = {}
    for axis, (name, result, e) in zip(page.axes, panels, strict=True):
        a = result.plan.attributes[result.names.index(attribute)]
        values = slice(a.offset, a.offset + a.k)
        if shared.setdefault(name, axis) is not axis:
            axis.sharey(shared[name])
        estimates, low, high = (numbers[:, e, values] for numbers in found[name][:3])
        where, edges = np.arange(a.k), np.arange(a.k + 1) - 0.5
        truth = np.where(hidden[name][values], np.nan, result.frequencies[values])
        axis.stairs(truth, edges, fill=True, color="#e4e4e4", zorder=1)
        for p, entry in enumerate(result.plan.looks):
            look = {**drawn[p], "zorder": 2, "label": entry.label, "elinewidth": 1}
            if not np.isfinite(estimates[p]).any():  # Smp on tiny data: nobody ever reported
                continue
            shift = (p + 1) / (len(result.protocols) + 1) - 0.5
            bars = np.maximum([estimates[p] - low[p], high[p] - estimates[p]], 0)
            axis.errorbar(where + 0.8 * shift, estimates[p], bars if np.isfinite(bars).any() else None, **look)
        axis.stairs(truth, edges, color="black", linewidth=1.0, zorder=3, label="truth")
        (title, words), families = lettered([name, attribute], TITLE_LETTERS)
        page.name(axis, f"{title}, ε = {show_epsilon(result.epsilons[e])}", families)
        note = page.name_values(axis, result.labels[a.index] if result.labels else None, a.k)
        axis.set_xlabel(f"{words}{note}", fontfamily=families)
        axis.set_xlim(-0.5 - 0.02 * a.k, a.k - 0.5 + 0.02 * a.k)
        what = "frequency" + ("" if how.postprocess == "none" else f" ({name_of(how.postprocess)})")
        page.fit(fit_text, axis.yaxis.label, what, axis, 1)
        axis.tick_params(axis="y", labelsize="small")
    return page.figure


def outdated(figure: Path, file: Path) -> bool:
    """Not drawn from what the file holds now."""
    return not figure.exists() or figure.stat().st_mtime_ns < file.stat().st_mtime_ns
