"""What a page opens with: the decision for one's own data, made again from the results, and checked by them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpu_rsfd.command import own_data
from gpu_rsfd.results.metrics import as_metric, average, mse
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show.privacy import GOALS
from gpu_rsfd.show.selection import part_of
from gpu_rsfd.theory.decision import recommended
from gpu_rsfd.theory.words import Decision, points

MOST_NAMES = 3  # data sets that a title names


def title_of(results: Results, file: str) -> str:
    """The names of the data, or the file's if they are many."""
    return ", ".join(results) if 0 < len(results) <= MOST_NAMES else file


def decision_of(results: Results, name: str) -> dict[str, Any] | None:
    """The decision for a data set of one's own, as plain data; None for others, and where theory does not reach."""
    result = results[name]
    known = all(math.isfinite(m.p) for rows in result.plan.mechanisms for ms in rows for m in ms)
    if name not in own_data(results.spec) or not known:
        return None
    guarantee = str(result.spec.get("guarantee", "paper"))
    decision = recommended(result.plan, result.n, result.names, result.frequencies, name, guarantee)
    titles = ("Which", "How accurate", "How risky") if decision.protocol else ("Which", "When")
    entries = [*zip(titles, decision.sentences, strict=False), ("What more would buy", decision.more)]
    entries += [("What to leave out", decision.left_out), ("Checked", _checked(result, decision))]
    chosen = decision.protocol or result.protocols[0]
    return {
        "protocol": result.protocols.index(chosen),
        "epsilon": result.epsilons.index(decision.epsilon),
        "entries": [{"title": title, "text": unbroken(text)} for title, text in entries if text],
        "columns": [
            {
                "name": column.name,
                "numbers": [
                    f"{column.values:,}",
                    column.noise,
                    *map(points, (column.margin, column.rmse, column.uniform_error, column.sample_error)),
                    f"{column.hidden:,} of {column.held:,}",
                ],
                "useful": column.useful,
            }
            for column in decision.columns
        ],
    }


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


def baselines(result: Result, metrics: Sequence[str]) -> dict[str, str]:
    """What errors are to be compared with, by metric: those of guesses, and of a sample without privacy."""
    found = {}
    for metric in metrics:
        known = as_metric(metric)
        if known.larger_is_better:  # a ranking of values that are all the same means nothing
            found[metric] = ""
            continue
        guess = np.concatenate([np.full(k, 1 / k) for k in result.domain])
        error = average(known, result.frequencies, guess, result.domain, result.n)
        said = f"Guessing that all values are equally frequent: {_number(float(error))}."
        if known.function is mse:
            sample = [(f * (1 - f)).mean() / result.n for f in (result.frequencies[s] for s in result.domain.slices)]
            said += f" A sample of {result.n:,} users without privacy: {_number(float(np.mean(sample)))}."
        found[metric] = said
    return found


def guess_baselines(attack: Result | None) -> Mapping[str, str]:
    """What is guessed without a report, by what it is compared with."""
    if attack is None:
        return {}
    each = {goal: float(attack.columns[f"{goal}_success"].baseline or 0) for goal in GOALS}
    return {f"{GOALS[goal]} guessed": f"Guessed without a report: {share:.3f}." for goal, share in each.items()}


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "–"
