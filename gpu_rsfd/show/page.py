"""One HTML file to explore results: opens from disk, asks no server, holds only what it shows."""

from __future__ import annotations

import base64
import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import POSTPROCESS
from gpu_rsfd.privacy.attacking import AttackResult
from gpu_rsfd.privacy.files import AttackResults
from gpu_rsfd.protocols import REGISTRY, label
from gpu_rsfd.results import Result, Results
from gpu_rsfd.show import charts, headline
from gpu_rsfd.show.comparison import maybe_best
from gpu_rsfd.show.details import values_of
from gpu_rsfd.show.plots import differ_in_users
from gpu_rsfd.show.privacy import GOALS, exact_losses, means
from gpu_rsfd.show.published import caveats, published
from gpu_rsfd.show.recipe import command_of, reads_files
from gpu_rsfd.show.selection import part_of
from gpu_rsfd.show.summary import expected, rough, show_epsilon, source_of, summary
from gpu_rsfd.store.files import replace_file
from gpu_rsfd.version import __version__

MARK = '<meta name="generator" content="gpu-rsfd'
DEFAULT = "clip-normalize"
MOST_NUMBERS = 450_000  # of estimates and their intervals: 1.2 MB of text
LEVELS = 65_535  # an estimate is kept to this part of the range of its data set
LIGHT, DARK = "#ffffff", "#15181c"  # backgrounds that colours must stand out from
CONTRAST = 3.0  # of lines and points, as WCAG 2.2 asks for graphics

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
    results: Results, path: Path, title: str, overwrite: bool = False, attacks: AttackResults | None = None
) -> None:
    """The page of results, wholly or not at all."""
    check_page(path, overwrite)
    replace_file(path, page(results, title, attacks).encode())


def page(results: Results, title: str, attacks: AttackResults | None = None) -> str:
    """The page as text."""
    if not results:
        raise InputError("the results file has no finished repetitions yet; nothing to show")
    charts.altair()
    content = document(results, title, attacks)
    folder = resources.files("gpu_rsfd.show").joinpath("resources")
    parts = {name: folder.joinpath(name).read_text("utf-8") for name in ("page.html", "page.css", "page.js")}
    filled = {
        "title": html.escape(title),
        "generator": f"gpu-rsfd {__version__}",
        "style": colours(content["protocols"]) + parts["page.css"],
        "data": json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "library": charts.bundle(),
        "program": parts["page.js"],
    }
    # in one pass: what is filled in may hold such braces itself
    return re.sub(r"\{\{(\w+)\}\}", lambda place: filled[place[1]], parts["page.html"])


def document(results: Results, title: str, attacks: AttackResults | None = None) -> dict[str, Any]:
    """All that the page shows, as plain data; of attacks, those on data sets, protocols and epsilons of the results."""
    first = next(iter(results.values()))
    protocols, epsilons = first.protocols, first.epsilons
    kept = _kept(results)
    over_users = differ_in_users(results)
    kinds = ["epsilon", *(["users"] if over_users else [])]
    private = {name: _privacy(result, attacks.get(name) if attacks else None) for name, result in results.items()}
    losses = list(dict.fromkeys(kind for entry in private.values() for kind in entry))
    return {
        "title": title,
        "version": __version__,
        "complete": results.complete,
        "epsilons": [show_epsilon(e) for e in epsilons],
        "protocols": [
            {"name": p, "label": label(p), "summary": REGISTRY[p].summary, "shape": charts.shape(p)} for p in protocols
        ],
        "postprocess": list(POSTPROCESS),
        "kept": kept,
        "default": DEFAULT,
        "overUsers": over_users,
        "headlines": {name: headline.overall(results, name) for name in POSTPROCESS},
        "datasets": [_dataset(results, name, kept, private[name]) for name in results],
        "losses": losses,
        "charts": {
            **{f"{x}-{y}": charts.error_chart(x, y, protocols, epsilons) for x in kinds for y in ("log", "linear")},
            **{f"{x}-{y}": charts.loss_chart(x, y, protocols) for x in losses for y in ("log", "linear")},
            "frequencies": charts.frequency_chart(),
        },
        "command": command_of(results.spec),
        "readsFiles": reads_files(results.spec),
        "spec": json.dumps(results.spec, indent=1, ensure_ascii=False),
        "made": {
            "package": results.package_version,
            "stream": results.stream_version,
            "backend": " ".join(filter(None, (results.backend, f"({results.device})" if results.device else ""))),
            "seconds": round(sum(results.seconds.values()), 1),
        },
    }


def _dataset(results: Results, name: str, kept: Sequence[str], losses: Mapping[str, Any]) -> dict[str, Any]:
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
        "headlines": {kind: headline.of_dataset(name, result, kind) for kind in POSTPROCESS},
        "errors": {kind: _errors(name, result, kind) for kind in POSTPROCESS},
        "estimates": {kind: _estimates(result, kind) for kind in kept},
        "losses": {kind: _numbers(values) for kind, values in losses.items()},
        "caveats": caveats([name], result.protocols) if published(name, result, DEFAULT) is not None else [],
        "balanced": result.spec.assignment == "balanced",
    }


def _errors(name: str, result: Result, postprocess: str) -> dict[str, Any]:
    """[protocol][epsilon] each."""
    mean, error = summary(result, postprocess)
    closed = expected(result, postprocess)
    points = published(name, result, postprocess)
    return {
        "mean": _numbers(mean),
        "error": _numbers(error),
        "theory": None if closed is None else _numbers(np.where(rough(result, postprocess), math.nan, closed)),
        "published": None if points is None else _numbers(points),
        "best": maybe_best(result, postprocess).astype(int).tolist(),
    }


def _privacy(result: Result, attack: AttackResult | None) -> dict[str, Any]:
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


def _kept(results: Results) -> list[str]:
    """The post-processings whose estimates go into the page: all, or the default one if all would be too much."""
    numbers = sum(3 * len(r.protocols) * len(r.epsilons) * r.domain.total for r in results.values())
    if numbers > MOST_NUMBERS or not all(r.has_counts for r in results.values()):
        return []
    return list(POSTPROCESS) if numbers * len(POSTPROCESS) <= MOST_NUMBERS else [DEFAULT]


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


def colours(protocols: Sequence[Mapping[str, str]]) -> str:
    """The protocols' colours as custom properties, each so that it stands out from the background."""

    def rules(background: str, dark: bool) -> str:
        return "".join(f"--{p['name']}:{readable(REGISTRY[p['name']].colour, background, dark)};" for p in protocols)

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
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
