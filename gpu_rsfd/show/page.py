"""One HTML file to explore results: opens from disk, asks no server, holds only what it shows."""

from __future__ import annotations

import base64
import html
import json
import math
import re
from collections.abc import Sequence
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from gpu_rsfd.command import command_of, own_data, reads_files
from gpu_rsfd.datasets.options import spelled
from gpu_rsfd.datasets.table import looks_personal
from gpu_rsfd.errors import InputError
from gpu_rsfd.files import replace_file
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.protocols import DEFAULT_SETTINGS, Unsampled
from gpu_rsfd.results.estimate import DEFAULT, POSTPROCESS, STORED, Floats
from gpu_rsfd.results.metrics import as_metric, average, first_line, metric_names, mse, name_of
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show import charts, rows, statistics
from gpu_rsfd.show.charts import palette
from gpu_rsfd.show.plots import AXES, check_target, exact_losses, loss_notes, sizes_of, varying_in
from gpu_rsfd.show.rows import Cells, How, is_error, part_of, run_of, shown, source_of
from gpu_rsfd.show.tables import sent_by, values_of, without_number
from gpu_rsfd.theory.decision import recommended
from gpu_rsfd.theory.words import Decision, Forecast, people, points
from gpu_rsfd.version import __version__

MOST_ERRORS = 150_000  # means after all metrics and post-processings: 3 MB of text
MOST_NUMBERS = 450_000  # of estimates and their intervals: 1.2 MB of text
MOST_NAMES = 3  # data sets that a title names
LEVELS = 65_535  # an estimate is kept to this part of the range of its data set
FORMS = {  # of a report, by the kind of noise
    "keep": "one value",
    "bits": "a bit for every possible value",
    "hash": "a hash of it",
    "sets": "a number that stands for some of the values",
    "subsets": "a set of values",
}

ONE, ANY = "privacy loss, one attribute differs", "privacy loss, any two users"


def title_of(results: Results, file: str) -> str:
    """The names of the data, or the file's if they are many."""
    return ", ".join(results) if 0 < len(results) <= MOST_NAMES else file


def write_page(path: Path, text: str, overwrite: bool = False) -> None:
    """A page, wholly or not at all."""
    replace_file(check_target(path, overwrite, what="page"), text.encode())


def page(results: Results, title: str, attacks: Results | None = None, metric: str = "mse") -> str:
    """The page as text; `metric` is the one that it shows first."""
    if not results:
        raise InputError("the results file has no finished repetitions yet; nothing to show")
    if not all(is_error(result, next(iter(result.columns), "")) for result in results.values()):
        raise InputError("a page needs the results of a sweep; what an attack guesses is added to it by --attack")
    content = document(results, title, attacks, metric)
    folder = resources.files("gpu_rsfd.show").joinpath("resources")
    parts = {name: folder.joinpath(name).read_text("utf-8") for name in ("page.html", "page.css", "page.js")}
    filled = {
        "title": html.escape(title),
        "generator": f"gpu-rsfd {__version__}",
        "style": parts["page.css"],
        "data": json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "library": charts.bundle(),
        "program": parts["page.js"],
    }
    # in one pass: what is filled in may hold such braces itself
    return re.sub(r"\{\{(\w+)\}\}", lambda place: filled[place[1]], parts["page.html"])


def kept_identifiers(results: Results, name: str) -> list[str]:
    """Columns that were kept knowingly; others that nobody should publish are refused."""
    result, described = results[name], own_data(results.spec).get(name)
    kept: list[str] = [] if described is None else [*described.get("loaded", {}).get("keep_identifiers", ())]
    for column, labels, s in zip(result.names, (described and result.labels) or (), result.domain.slices, strict=False):
        looks = looks_personal(labels, np.rint(result.frequencies[s] * result.n).astype(np.int64))
        if looks and column not in kept:
            helps = f"sweep again with {spelled(exclude=column)}, or with {spelled(keep_identifiers=column)}"
            raise InputError(f"column {column!r} of {name} looks like {looks}: {helps}")
    return kept


def document(results: Results, title: str, attacks: Results | None = None, metric: str = "mse") -> dict[str, Any]:
    """All that the page shows, as plain data; attacks must be on the same data sets, run with the same settings."""
    first = next(iter(results.values()))
    looks, epsilons = first.plan.looks, first.epsilons
    metric = name_of(metric)
    metrics, kinds = _shown(results, metric)
    kept, sizes = _kept(results, kinds), sizes_of(results)
    axes, matched = varying_in(sizes), {} if attacks is None else matching(results, attacks)
    datasets = [
        {
            **_dataset(results, name, (metrics, kinds, kept), attacks if name in matched else None),
            "size": {axis: getattr(sizes[name], axis) for axis in AXES} if name in sizes else None,
        }
        for name in results
    ]
    losses = list(dict.fromkeys(kind for entry in datasets for kind in entry["losses"]))
    return {
        "title": title,
        "contents": f"This page {said}." if (said := rows.contents_of(results)) else "",
        "complete": results.complete,
        "epsilons": [show_epsilon(e) for e in epsilons],
        "protocols": [
            {**look._asdict(), **style._asdict(), "shape": charts.template("shapes")[style.marker]}
            for look, style in zip(looks, palette(looks), strict=True)
        ],
        "metrics": [
            {"name": m, "label": known.label, "summary": known.summary, "larger": known.larger_is_better}
            for m, known in ((m, as_metric(m)) for m in metrics)
        ],
        "postprocess": [{"name": name, "summary": first_line(POSTPROCESS[name])} for name in kinds],
        "kept": kept,
        "default": {"metric": metric, "postprocess": DEFAULT},
        "axes": {axis: AXES[axis] for axis in axes},
        "guarantee": rows.promised(first),
        "guaranteeName": f"Guarantee: {first.spec.get('guarantee', DEFAULT_SETTINGS.guarantee)}.",
        "run": run_of(first),
        "datasets": datasets,
        "losses": losses,
        "lossNotes": {kind: "; ".join(loss_notes(first)) for kind in (ONE, ANY)},
        "charts": {name: charts.template(name) for name in ("curves", "columns", "frequencies")},
        "command": command_of(results.spec),
        "readsFiles": reads_files(results.spec),
        "spec": json.dumps(results.spec, indent=1, ensure_ascii=False),
        "made": {
            "package": results.package_version,
            "stream": first.spec["stream_version"],
            "backend": " ".join(filter(None, (results.backend, f"({results.device})" if results.device else ""))),
            "seconds": round(sum(results.seconds.values()), 1),
        },
    }


def _shown(results: Results, metric: str) -> tuple[list[str], list[str]]:
    """The metrics and the post-processings that go into the page: all, if that is not too much and they are to be had.

    Else all metrics after the post-processings that a file keeps, or the chosen metric alone.
    """
    as_metric(metric)
    cells = sum(len(r.protocols) * len(r.epsilons) for r in results.values())
    metrics = list(dict.fromkeys([*metric_names(), metric]))
    for kinds in (list(POSTPROCESS), list(STORED)) if all(result.has_counts for result in results.values()) else ():
        if cells * len(metrics) * len(kinds) <= MOST_ERRORS:
            return metrics, kinds
    return [metric], list(STORED)


def _dataset(results: Results, name: str, chosen: Sequence[list[str]], attacks: Results | None) -> dict[str, Any]:
    metrics, kinds, kept = chosen
    result, known, (hidden, words) = results[name], rows.known_of(results, name), rows.withheld_of(results, name)
    for kind in kinds if result.has_counts else ():
        result.compute([as_metric(m) for m in metrics], kind)  # estimates are processed once for all metrics

    def errors(metric: str, kind: str) -> dict[str, Any]:
        """[protocol][epsilon] each."""
        cells = rows.error_cells(name, result, How(kind, metric), known)
        return {
            "mean": _numbers(cells.mean),
            "error": _numbers(cells.error),
            "theory": None if cells.theory is None else _numbers(cells.drawn_theory),
            "published": None if cells.published is None else _numbers(cells.published),
            "best": cells.best.astype(int).tolist(),
            "advice": statistics.advice(cells.column, cells.means),
        }

    others = results if attacks is None else attacks
    guessed = [c for c in shown(others, name, How()) if c.how is None and not c.place]
    one, any_two = exact_losses(result)
    losses: dict[str, Any] = {**({ONE: one} if len(result.domain) > 1 else {}), ANY: any_two}
    losses |= {_title(c): there for c in guessed if np.isfinite(there := _where(result, others[name], c)).any()}
    baselines = {_title(c): c.column.baseline for c in guessed if c.column.baseline is not None}
    return {
        "name": name,
        "n": result.n,
        "x": list(map(_short, result.epsilons)),
        "repetitions": len(result.repetitions),
        "source": source_of(results, name) or "",
        "attributes": list(result.names),
        "domain": list(result.domain),
        "labels": _labels(result, hidden, kept_identifiers(results, name)),
        "truth": [_short(f) for f in np.where(hidden, np.nan, result.frequencies)],
        "hidden": words,
        "errors": {metric: {kind: errors(metric, kind) for kind in kinds} for metric in metrics},
        "estimates": {kind: _estimates(result, kind, hidden) for kind in kept},
        "losses": {kind: _numbers(values) for kind, values in losses.items()},
        "undefined": {kind: lines for kind in kinds if (lines := list(without_number(result, How(kind))))},
        "caveats": rows.caveats([name], result.plan.looks) if rows.published(name, result, DEFAULT) is not None else [],
        "balanced": result.plan.assignment == "balanced",
        "decision": decision_of(results, name),
        "baselines": {metric: _baseline(result, metric, known) for metric in metrics},
        "guessBaselines": {kind: f"Guessed without a report: {share:.3f}." for kind, share in baselines.items()},
    }


def _labels(result: Result, hidden: Any, kept: Sequence[str]) -> list[list[str]] | None:
    """Those of hidden values stay, since they are of the domain, but for identifiers and users' own numbers."""
    each = zip(result.names, result.labels or (), result.domain.slices, strict=False)
    secret = ((row, hidden[s] & (column in kept or 2 * len(row) > result.n)) for column, row, s in each)
    return [[f"({v})" if hide[v] else label for v, label in enumerate(row)] for row, hide in secret] or None


def _title(cells: Cells) -> str:
    return cells.column.short or cells.column.label


def _where(result: Result, other: Result, cells: Cells) -> list[list[float]]:
    """The means of another result's column at the protocols and epsilons of this one; NaN where it has none."""
    p, e = ({name: i for i, name in enumerate(names)} for names in (other.protocols, other.epsilons))
    return [[cells.mean[p[a], e[b]] if a in p and b in e else math.nan for b in result.epsilons]
            for a in result.protocols]  # fmt: skip


def decision_of(results: Results, name: str) -> dict[str, Any] | None:
    """The decision for a data set of one's own, as plain data; None for others, and where theory does not reach."""
    result = results[name]
    known = all(math.isfinite(m.p) for rows in result.plan.mechanisms for ms in rows for m in ms)
    if name not in own_data(results.spec) or not known:
        return None
    guarantee = str(result.spec.get("guarantee", "paper"))
    given = result.frequencies, name, guarantee, results.min_count, result.labels
    decision = recommended(result.plan, result.n, result.names, *given)
    titles = ("Which", "How accurate", "How risky", "How robust") if decision.protocol else ("Which", "When")
    entries = [*zip(titles, decision.sentences, strict=False), ("What more would buy", decision.more)]
    entries += [("What to leave out", decision.left_out), ("Checked", _checked(result, decision))]
    p, e = result.protocols.index(decision.protocol or result.protocols[0]), result.epsilons.index(decision.epsilon)
    entries.insert(1, ("What a phone sends", sent(result, p, e) if decision.protocol else ""))
    return {
        "protocol": p,
        "epsilon": e,
        "entries": [{"title": title, "text": unbroken(text)} for title, text in entries if text],
        "columns": [_forecast(column) for column in decision.columns],
    }


def _forecast(column: Forecast) -> dict[str, Any]:
    margin, asked = points(column.margin), people(column.survey)
    numbers = [f"{column.values:,}", sent_by(column.noise), margin, points(column.rmse), asked.removesuffix(" people")]
    numbers += [f"{column.hidden:,} of {column.held:,}", "" if column.useful else "better left out"]
    about = {"name": column.name, "useful": column.useful, "margin": _short(100 * column.margin)}
    return {**about, "said": f"± {margin}", "asked": asked, "numbers": numbers}


def sent(result: Result, protocol: int, epsilon: int) -> str:
    """What a phone sends, in a sentence."""
    plan, mechanisms = result.plan, result.plan.mechanisms[protocol][epsilon]
    forms = dict.fromkeys(FORMS.get(m.recipe.noise.kind if m.plain else "hash", "a message") for m in mechanisms)
    form, d = " or ".join(forms) + ", depending on the column" * (len(forms) > 1), len(mechanisms)
    how = "randomised" if form == "one value" else f"randomised, as {form}"
    if d == 1:
        return f"A phone sends the user's value, {how}, and nothing else."
    if plan.partial[protocol]:
        return (
            f"A phone picks one of the {d:,} columns at random, and sends which one it is and the user's value, {how}."
        )
    if plan.samples[protocol]:
        others = "noise" if all(m.recipe.unsampled is Unsampled.ZERO for m in mechanisms) else "fake data"
        one = "in one, picked at random and kept secret, it is the user's value, randomised"
        return f"A phone sends {form}, for each of the {d:,} columns: {one}; in the others it is {others}."
    return f"A phone sends the user's value in each of the {d:,} columns, each with a share of epsilon, {how}."


def unbroken(text: str) -> str:
    """Numbers stay on one line with their signs and units."""
    return re.sub(r" (?=%|points)", "\u00a0", text.replace("± ", "±\u00a0"))


def _checked(result: Result, decision: Decision) -> str:
    """How often the simulated estimates were as close as is said; nothing without counts, or a recommendation."""
    if not decision.protocol or not result.has_counts:
        return ""
    found = part_of(result, [decision.protocol])
    away = np.abs(found.estimates("none")[0, result.epsilons.index(decision.epsilon)] - result.frequencies)
    useful = [(s, column) for s, column in zip(result.domain.slices, decision.columns, strict=True) if column.useful]
    shares = [np.nanmean(away[:, s] <= column.margin) for s, column in useful]
    count = len(result.repetitions)
    return (
        f"In the {count:,} simulated collection{'s' * (count > 1)} of this file, {100 * np.mean(shares):.1f} % of the "
        "estimated shares were that close to the truth, before post-processing."
    )


def _baseline(result: Result, metric: str, frequencies: Floats) -> str:
    """What errors are to be compared with: those of guesses, and of a sample without privacy."""
    known = as_metric(metric)
    if known.larger_is_better:  # a ranking of values that are all the same means nothing
        return ""
    guess = np.concatenate([np.full(k, 1 / k) for k in result.domain])
    error = float(average(known, frequencies, guess, result.domain, result.n))
    said = f"Guessing that all values are equally frequent: {f'{error:.3g}' if math.isfinite(error) else '–'}."
    if known.function is mse:
        sample = [(f * (1 - f)).mean() / result.n for f in (frequencies[s] for s in result.domain.slices)]
        said += f" A sample of {result.n:,} users without privacy: {float(np.mean(sample)):.3g}."
    return said


def matching(results: Results, attacks: Results) -> dict[str, Result]:
    """The attacks on data sets of the results, each cell of which must be the same mechanism on the same users.

    Raises
    ------
    InputError
        If an attack is on other data or other protocols, at other epsilons, or with other settings; it says which.
    """
    found = {name: attack for name, attack in attacks.items() if name in results}
    if not found:
        raise InputError(f"attack on {', '.join(attacks) or 'nothing'}: the page shows {', '.join(results)}")
    for name, attack in found.items():
        if all(is_error(attack, column) for column in attack.columns):
            raise InputError(f"attack on {name!r} holds errors; a results file of gpu-rsfd attack is needed")
        theirs, ours = (_identity(r) for r in (attack, results[name]))
        common = [what for what in theirs if what in ours]
        if not any("epsilon" in what for what in common):
            raise InputError(f"attack on {name!r} shares no protocol and epsilon with the results")
        for what in common:
            if theirs[what] != ours[what]:
                raise InputError(f"attack on {name!r} has another {what}; it doesn't belong to the results")
    return found


def _identity(result: Result) -> dict[str, Any]:
    """What decides about numbers."""
    options = {"guarantee": "paper", "prior": "uniform", "assignment": "uniform"}
    each = product(enumerate(result.protocols), enumerate(result.epsilons))
    return {
        **{"number of users": result.n, "domain": tuple(result.domain), "set of columns": result.names},
        "truth": result.frequencies.tolist(),
        **{option: result.spec.get(option, usual) for option, usual in options.items()},
        **{f"{name} at epsilon {show_epsilon(epsilon)}": result.plan.digest(p, e) for (p, name), (e, epsilon) in each},
    }


def _kept(results: Results, kinds: Sequence[str]) -> list[str]:
    """The post-processings whose estimates go into the page: as many as are not too much."""
    numbers = sum(3 * len(r.protocols) * len(r.epsilons) * r.domain.total for r in results.values())
    if numbers > MOST_NUMBERS or not all(r.has_counts for r in results.values()):
        return []
    choices = (list(kinds), list(STORED), ["none"])
    return next(choice for choice in choices if numbers * len(choice) <= MOST_NUMBERS)


def _estimates(result: Result, postprocess: str, hidden: Any) -> dict[str, Any]:
    """Mean, low and high of each estimate, [protocol][epsilon][value][3], as 16-bit steps between two numbers.

    The last step stands for no estimate at all.
    """
    parts = [values_of(part_of(result, [p]), postprocess, hidden) for p in result.protocols]  # less memory
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
