"""One HTML file to explore results: opens from disk, asks no server, holds only what it shows."""

from __future__ import annotations

import base64
import html
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from gpu_rsfd.command import Size, command_of, reads_files
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.planning import Look
from gpu_rsfd.protocols import DEFAULT_SETTINGS
from gpu_rsfd.results.estimate import DEFAULT, POSTPROCESS, STORED
from gpu_rsfd.results.metrics import as_metric, first_line, metric_names, name_of
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show import charts, headline
from gpu_rsfd.show.comparison import among_best
from gpu_rsfd.show.decided import baselines, decision_of, guess_baselines
from gpu_rsfd.show.details import values_of
from gpu_rsfd.show.plots import AXES, sizes_of, varying_in
from gpu_rsfd.show.privacy import GOALS, exact_losses, loss_notes, means
from gpu_rsfd.show.published import caveats, published
from gpu_rsfd.show.selection import part_of
from gpu_rsfd.show.summary import RUN, expected, promised, rough, source_of, summary
from gpu_rsfd.show.tables import without_number
from gpu_rsfd.store.files import replace_file
from gpu_rsfd.version import __version__

MARK = '<meta name="generator" content="gpu-rsfd'
MOST_ERRORS = 150_000  # means after all metrics and post-processings: 3 MB of text
MOST_NUMBERS = 450_000  # of estimates and their intervals: 1.2 MB of text
LEVELS = 65_535  # an estimate is kept to this part of the range of its data set
LIGHT, DARK = "#ffffff", "#15181c"  # backgrounds that colours must stand out from
CONTRAST = 3.0  # of lines and points, as WCAG 2.2 asks for graphics

PAIRING = {  # what protocols share in a repetition, by sampler
    "users": (
        "the same users and the same random numbers. Differences are taken in pairs, which takes out the shared noise"
    ),
    "counts": (
        "the same users, who sample the same attributes; other random numbers are their own. Differences are taken in "
        "pairs, which takes out less noise than with the sampler users"
    ),
    "marginals": (
        "the same users, but random numbers of their own. Differences are taken in pairs, which is valid but takes out "
        "hardly any noise"
    ),
}
ONE, ANY = "privacy loss, one attribute differs", "privacy loss, any two users"


def check_page(path: Path, overwrite: bool = False) -> Path:
    """A page that may be written: .html, in a folder that exists, over no file of somebody else's."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"page={path} must end in .html")
    if not path.parent.is_dir():
        raise InputError(f"page={path}: the folder {path.parent} does not exist")
    if path.exists() and not path.is_file():
        raise InputError(f"page={path} is not a regular file; give another name")
    if path.exists() and not overwrite and MARK not in path.read_text("utf-8", errors="replace")[:2000]:
        raise InputError(f"page={path} exists and was not made by gpu-rsfd; give another name, or --overwrite")
    return path


def write_page(
    results: Results,
    path: Path,
    title: str,
    overwrite: bool = False,
    attacks: Results | None = None,
    metric: str = "mse",
) -> None:
    """The page of results, wholly or not at all."""
    check_page(path, overwrite)
    replace_file(path, page(results, title, attacks, metric).encode())


def page(results: Results, title: str, attacks: Results | None = None, metric: str = "mse") -> str:
    """The page as text; `metric` is the one that it shows first."""
    if not results:
        raise InputError("the results file has no finished repetitions yet; nothing to show")
    charts.altair()
    content = document(results, title, attacks, metric)
    folder = resources.files("gpu_rsfd.show").joinpath("resources")
    parts = {name: folder.joinpath(name).read_text("utf-8") for name in ("page.html", "page.css", "page.js")}
    filled = {
        "title": html.escape(title),
        "generator": f"gpu-rsfd {__version__}",
        "style": colours(next(iter(results.values())).plan.looks) + parts["page.css"],
        "data": json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "library": charts.bundle(),
        "program": parts["page.js"],
    }
    # in one pass: what is filled in may hold such braces itself
    return re.sub(r"\{\{(\w+)\}\}", lambda place: filled[place[1]], parts["page.html"])


def document(results: Results, title: str, attacks: Results | None = None, metric: str = "mse") -> dict[str, Any]:
    """All that the page shows, as plain data; attacks must be on the same data sets, run with the same settings."""
    first = next(iter(results.values()))
    looks, epsilons = first.plan.looks, first.epsilons
    metric = name_of(metric)
    shown, kinds = _shown(results, metric)
    kept, sizes = _kept(results, kinds), sizes_of(results)
    axes = varying_in(sizes)
    for result, kind in product(results.values(), kinds):
        if result.has_counts:
            result.compute([as_metric(m) for m in shown], kind)
    matched = {} if attacks is None else matching(results, attacks)
    private = {name: _privacy(result, matched.get(name)) for name, result in results.items()}
    losses = list(dict.fromkeys(kind for entry in private.values() for kind in entry))
    return {
        "title": title,
        "version": __version__,
        "complete": results.complete,
        "epsilons": [show_epsilon(e) for e in epsilons],
        "protocols": [
            {"name": look.name, "label": look.label, "summary": look.summary, "shape": charts.shape(look)}
            for look in looks
        ],
        "metrics": [
            {"name": m, "label": known.label, "summary": known.summary, "larger": known.larger_is_better}
            for m, known in ((m, as_metric(m)) for m in shown)
        ],
        "postprocess": [{"name": name, "summary": first_line(POSTPROCESS[name])} for name in kinds],
        "kept": kept,
        "default": {"metric": metric, "postprocess": DEFAULT},
        "axes": {axis: AXES[axis] for axis in axes},
        "headlines": _tables(shown, kinds, lambda kind, m: headline.overall(results, kind, m)),
        "guarantee": promised(first),
        "guaranteeName": f"Guarantee: {first.spec.get('guarantee', DEFAULT_SETTINGS.guarantee)}.",
        "pairing": PAIRING[first.spec.get("sampler", "users")],
        "run": {key: first.spec.get(key, usual) for key, usual in RUN.items()},
        "datasets": [
            {
                **_dataset(results, name, shown, kinds, kept, private[name]),
                "size": _size(sizes.get(name)),
                "decision": decision_of(results, name),
                "baselines": baselines(results[name], shown),
                "guessBaselines": guess_baselines(matched.get(name)),
            }
            for name in results
        ],
        "losses": losses,
        "lossNotes": {kind: "; ".join(loss_notes(first)) for kind in (ONE, ANY)},
        "charts": {
            **{
                f"{x}-{y}": charts.error_chart(AXES.get(x, x), y, looks, epsilons)
                for x in ("epsilon", *axes)
                for y in ("log", "linear")
            },
            **{f"{x}-{y}": charts.loss_chart(x, y, looks) for x in losses for y in ("log", "linear")},
            "frequencies": charts.frequency_chart(),
        },
        "command": command_of(results.spec),
        "readsFiles": reads_files(results.spec),
        "spec": json.dumps(results.spec, indent=1, ensure_ascii=False),
        "made": {
            "package": results.package_version,
            "stream": results.spec["stream_version"],
            "backend": " ".join(filter(None, (results.backend, f"({results.device})" if results.device else ""))),
            "seconds": round(sum(results.seconds.values()), 1),
        },
    }


def _size(size: Size | None) -> dict[str, Any] | None:
    """The n, d and k of a data set made by size."""
    return None if size is None else {axis: getattr(size, axis) for axis in AXES}


def _tables(
    metrics: Sequence[str], kinds: Sequence[str], entry: Callable[[str, str], Any]
) -> dict[str, dict[str, Any]]:
    """[metric][postprocess]"""
    return {metric: {kind: entry(kind, metric) for kind in kinds} for metric in metrics}


def _shown(results: Results, metric: str) -> tuple[list[str], list[str]]:
    """The metrics and the post-processings that go into the page: all, if that is not too much and they are to be had.

    Else all metrics after the post-processings that a file keeps, or the chosen metric alone.
    """
    as_metric(metric)
    cells = sum(len(r.protocols) * len(r.epsilons) for r in results.values())
    metrics = list(dict.fromkeys([*metric_names(), metric]))
    if all(result.has_counts for result in results.values()):
        for kinds in (list(POSTPROCESS), list(STORED)):
            if cells * len(metrics) * len(kinds) <= MOST_ERRORS:
                return metrics, kinds
    return [metric], list(STORED)


def _dataset(
    results: Results,
    name: str,
    metrics: Sequence[str],
    kinds: Sequence[str],
    kept: Sequence[str],
    losses: Mapping[str, Any],
) -> dict[str, Any]:
    result = results[name]
    return {
        "name": name,
        "n": result.n,
        "x": list(map(_short, result.epsilons)),
        "repetitions": len(result.repetitions),
        "source": source_of(results, name) or "",
        "attributes": list(result.names),
        "domain": list(result.domain),
        "labels": None if result.labels is None else [list(row) for row in result.labels],
        "truth": [_short(f) for f in result.frequencies],
        "headlines": _tables(metrics, kinds, lambda kind, metric: headline.of_dataset(name, result, kind, metric)),
        "errors": _tables(metrics, kinds, lambda kind, metric: _errors(name, result, kind, metric)),
        "estimates": {kind: _estimates(result, kind) for kind in kept},
        "losses": {kind: _numbers(values) for kind, values in losses.items()},
        "undefined": {kind: lines for kind in kinds if (lines := list(without_number(result, kind)))},
        "caveats": caveats([name], result.plan.looks) if published(name, result, DEFAULT) is not None else [],
        "balanced": result.plan.assignment == "balanced",
    }


def _errors(name: str, result: Result, postprocess: str, metric: str) -> dict[str, Any]:
    """[protocol][epsilon] each."""
    mean, error = summary(result, postprocess, metric)
    closed = expected(result, postprocess, metric)
    points = published(name, result, postprocess, metric)
    return {
        "mean": _numbers(mean),
        "error": _numbers(error),
        "theory": None if closed is None else _numbers(np.where(rough(result, postprocess), math.nan, closed)),
        "published": None if points is None else _numbers(points),
        "best": among_best(result, postprocess, metric).astype(int).tolist(),
    }


def _privacy(result: Result, attack: Result | None) -> dict[str, Any]:
    """[protocol][epsilon] each: the exact loss, and what was guessed where there was an attack."""
    one, any_two = exact_losses(result)
    found: dict[str, Any] = {ONE: one, ANY: any_two} if len(result.domain) > 1 else {ANY: any_two}
    if attack is None:
        return found
    for goal, words in GOALS.items():
        mean, _ = means(attack, goal)
        known = {
            (protocol, epsilon): mean[p, e]
            for p, protocol in enumerate(attack.protocols)
            for e, epsilon in enumerate(attack.epsilons)
        }
        cells = [[known.get((p, e), math.nan) for e in result.epsilons] for p in result.protocols]
        if np.isfinite(cells).any():
            found[f"{words} guessed"] = cells
    return found


def matching(results: Results, attacks: Results) -> dict[str, Result]:
    """The attacks on data sets of the results, each cell of which must be the same mechanism on the same users.

    Raises
    ------
    InputError
        If an attack is on other data or other protocols, at other epsilons, or with other settings; it says which.
    """
    known = {d.get("name") for d in results.spec.get("datasets", [])} | set(results)
    found = {}
    for name, attack in attacks.items():
        if name not in known:
            raise InputError(f"attack on data set {name!r}: not in the results; data sets: {', '.join(results)}")
        if name in results:
            _check_attack(name, results[name], attack)
            found[name] = attack
    if not found:
        raise InputError(f"attack on {', '.join(attacks) or 'nothing'}: the page shows {', '.join(results)}")
    return found


def _check_attack(name: str, result: Result, attack: Result) -> None:
    """One line on what differs, if anything that decides about a number does."""

    def differ(what: str, theirs: object, ours: object) -> InputError:
        return InputError(
            f"attack on {name!r} has {what} {theirs}, the results have {ours}; they don't belong together"
        )

    for what, of in (("users", lambda r: r.n), ("domain", lambda r: tuple(r.domain)), ("columns", lambda r: r.names)):
        if of(attack) != of(result):
            raise differ(what, of(attack), of(result))
    if not np.array_equal(attack.frequencies, result.frequencies):
        raise differ("frequencies of values", "of its own", "others")
    for option, usual in (("guarantee", "paper"), ("prior", "uniform"), ("assignment", "uniform")):
        theirs, ours = (r.spec.get(option, usual) for r in (attack, result))
        if theirs != ours:
            raise differ(option, theirs, ours)
    cells = [
        (p, e) for p in attack.protocols for e in attack.epsilons if p in result.protocols and e in result.epsilons
    ]
    if not cells:
        theirs, ours = (
            f"{', '.join(r.protocols)} at {', '.join(map(show_epsilon, r.epsilons))}" for r in (attack, result)
        )
        raise differ("protocols", theirs, ours)
    for p, e in cells:
        digests = {r.plan.digest(r.protocols.index(p), r.epsilons.index(e)) for r in (attack, result)}
        if len(digests) > 1:
            raise differ(f"another mechanism {p} at epsilon", show_epsilon(e), "their own")


def _kept(results: Results, kinds: Sequence[str]) -> list[str]:
    """The post-processings whose estimates go into the page: as many as are not too much."""
    numbers = sum(3 * len(r.protocols) * len(r.epsilons) * r.domain.total for r in results.values())
    if numbers > MOST_NUMBERS or not all(r.has_counts for r in results.values()):
        return []
    choices = (list(kinds), list(STORED), [DEFAULT])
    return next(choice for choice in choices if numbers * len(choice) <= MOST_NUMBERS)


def _estimates(result: Result, postprocess: str) -> dict[str, Any]:
    """Mean, low and high of each estimate, [protocol][epsilon][value][3], as 16-bit steps between two numbers.

    The last step stands for no estimate at all.
    """
    parts = [values_of(part_of(result, [protocol]), postprocess) for protocol in result.protocols]  # less memory
    numbers = np.concatenate([np.stack([found.estimate, found.low, found.high], axis=-1) for found in parts])
    known = np.isfinite(numbers)
    low, high = (float(numbers[known].min()), float(numbers[known].max())) if known.any() else (0.0, 1.0)
    step = (high - low) / (LEVELS - 1) or 1.0
    steps = np.where(known, np.round((np.where(known, numbers, low) - low) / step), LEVELS).astype("<u2")
    return {"low": low, "step": step, "data": base64.b64encode(steps.tobytes()).decode()}


def _numbers(values: Any) -> Any:
    return [[_short(x) for x in row] for row in np.asarray(values, np.float64).tolist()]


def _short(x: float) -> float | None:
    return float(f"{x:.6g}") if math.isfinite(x) else None


def colours(looks: Sequence[Look]) -> str:
    """The protocols' colours as custom properties, each so that it stands out from the background."""

    def rules(background: str, dark: bool) -> str:
        each = enumerate(readable(look.colour, background, dark) for look in looks)
        return "".join(f"--protocol-{p}:{colour};" for p, colour in each)

    light, night = rules(LIGHT, False), rules(DARK, True)
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{night}}}}}\n"


def readable(colour: str, background: str, dark: bool) -> str:
    """The colour, mixed with white on a dark background or with black on a light one, as far as it must be.

    A dark grey becomes a light one on a dark background: mixed, it would be the grey of another protocol.
    """
    rgb = _rgb(colour)
    if dark and max(rgb) < 64 and max(rgb) - min(rgb) < 16:
        rgb = tuple(255 - c for c in rgb)
    mixed = rgb
    for share in range(0, 101, 4):
        target = 255 if dark else 0
        mixed = tuple(round(c + (target - c) * share / 100) for c in rgb)
        if contrast(mixed, _rgb(background)) >= CONTRAST:
            break
    return "#" + "".join(f"{c:02x}" for c in mixed)


def contrast(one: Sequence[int], other: Sequence[int]) -> float:
    """As WCAG reckons it, 1 … 21."""
    lights = sorted(map(_light, (one, other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _light(rgb: Sequence[int]) -> float:
    parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def _rgb(colour: str) -> tuple[int, ...]:
    """Of any colour that Matplotlib knows; grey for what is none."""
    from matplotlib.colors import is_color_like, to_rgb

    return tuple(round(255 * part) for part in to_rgb(colour if is_color_like(colour) else "#555555"))
