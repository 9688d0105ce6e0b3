"""What the results say, in sentences: which protocol is best where, by how much, and what can't be told apart.

Numbers stay on one line with their signs: \u00a0 is a space that does not break.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpu_rsfd.protocols import label
from gpu_rsfd.results import Result, Results
from gpu_rsfd.show.comparison import maybe_best
from gpu_rsfd.show.summary import deviations, show_epsilon


class Margin(NamedTuple):
    """How far the best is ahead of the best protocol that is told apart from it, in percent."""

    percent: float
    error: float
    behind: str
    epsilon: float

    @property
    def amount(self) -> str:
        return _percent(self.percent, self.error)

    @property
    def where(self) -> str:
        return f"({self.behind} at ε = {show_epsilon(self.epsilon)})"


class Stretch(NamedTuple):
    """Epsilons in a row with the same protocols at the top."""

    best: tuple[str, ...]
    epsilons: list[float]
    margins: list[Margin]


def overall(results: Results, postprocess: str) -> str:
    """One sentence over all data sets and epsilons."""
    tally: Counter[str] = Counter()
    cases = ties = 0
    for result in results.values():
        best = maybe_best(result, postprocess)
        cases += int(best.any(axis=0).sum())
        ties += int((best.sum(axis=0) > 1).sum())
        for p, protocol in enumerate(result.protocols):
            tally[label(protocol)] += int(best[p].sum())
    if not cases:
        return "No protocol has an estimate of every attribute."
    if sum(len(r.protocols) for r in results.values()) == len(results):
        return f"{next(iter(tally))} alone: nothing to compare it with."
    ranked = [f"{name} in {number}" for name, number in tally.most_common() if number]
    ranked[0] = ranked[0].replace(" in ", " may be the best in ", 1) + f" of {cases} cases"
    told = (
        f"; in {ties} of them several can’t be told apart" if ties else "; everywhere it is told apart from the others"
    )
    return f"{', '.join(ranked)}{told} ({_cases(results)})."


def _cases(results: Results) -> str:
    sets, epsilons = len(results), len(next(iter(results.values())).epsilons)
    return (
        f"{sets} data set{'s' * (sets > 1)} × {epsilons} epsilon{'s' * (epsilons > 1)}, paired differences, 95\u00a0%"
    )


def of_dataset(name: str, result: Result, postprocess: str) -> str:
    """A sentence or some on one data set."""
    if len(result.protocols) < 2:
        return ""
    parts = [_said(stretch) for stretch in stretches(result, postprocess)]
    if not parts:
        return f"On {name}, no protocol has an estimate of every attribute."
    noise = "" if len(result.repetitions) > 1 else " A single repetition tells nothing about chance."
    return f"On {name}, {'; '.join(parts)}.{noise}"


def stretches(result: Result, postprocess: str) -> list[Stretch]:
    best = maybe_best(result, postprocess)
    mean, away = deviations(result, postprocess)
    found: list[Stretch] = []
    for e in np.argsort(result.epsilons).tolist():
        top = tuple(label(protocol) for p, protocol in enumerate(result.protocols) if best[p, e])
        if not top:
            continue
        epsilon = result.epsilons[e]
        if not found or found[-1].best != top:
            found.append(Stretch(top, [], []))
        found[-1].epsilons.append(epsilon)
        rest = [p for p in range(len(result.protocols)) if not best[p, e] and np.isfinite(mean[p, e])]
        if rest and mean[:, e][best[:, e]].min() > 0:
            first = int(np.where(best[:, e], mean[:, e], np.inf).argmin())
            second = min(rest, key=lambda p: mean[p, e])
            ratio = mean[first, e] / mean[second, e]
            error = math.sqrt(((away[first, e] - ratio * away[second, e]) ** 2).sum()) / mean[second, e]
            found[-1].margins.append(
                Margin(100 * (1 - float(ratio)), 100 * float(error), label(result.protocols[second]), epsilon)
            )
    return found


def _said(stretch: Stretch) -> str:
    names, where = listed(stretch.best), _where(stretch.epsilons)
    verb = "is best" if len(stretch.best) == 1 else "can’t be told apart at the top"
    if not stretch.margins:
        return f"{names} {verb} {where}"
    least = min(stretch.margins, key=lambda margin: margin.percent)
    most = max(stretch.margins, key=lambda margin: margin.percent)
    if least is most:
        return f"{names} {verb} {where}, with {most.amount} less error than {most.behind}"
    return (
        f"{names} {verb} {where}, with {least.amount} less error than the next {least.where} "
        f"up to {most.amount} {most.where}"
    )


def _where(epsilons: Sequence[float]) -> str:
    first, last = show_epsilon(epsilons[0]), show_epsilon(epsilons[-1])
    return f"at ε = {first}" if len(epsilons) == 1 else f"from ε = {first} to {last}"


def listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _percent(percent: float, error: float) -> str:
    if not math.isfinite(error):
        return f"{percent:.1f}\u00a0%"
    digits = 0 if error >= 2 else 1 if error >= 0.2 else 2
    return f"{percent:.{digits}f}\u00a0±\u00a0{error:.{digits}f}\u00a0%"
