"""What the results say, in sentences: which protocol is best where, by how much, and where several are equally good.

Numbers stay on one line with their signs: \u00a0 is a space that does not break.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpu_rsfd.options import show_epsilon
from gpu_rsfd.results.estimate import PostprocessLike
from gpu_rsfd.results.metrics import Metric, MetricLike, as_metric
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show.comparison import among_best, half_width, ratio_of
from gpu_rsfd.show.summary import deviations, with_estimate

FEW = 6  # protocols that a sentence names one by one; more are named by their families


class Margin(NamedTuple):
    """How far the protocol with the best mean is ahead of the best one that is significantly worse, in percent."""

    percent: float
    half: float  # of its 95 % confidence interval, simultaneous for all pairs of protocols
    behind: str
    epsilon: float

    @property
    def amount(self) -> str:
        return _percent(self.percent, self.half)

    @property
    def where(self) -> str:
        return f"({self.behind} at ε = {show_epsilon(self.epsilon)})"


class Stretch(NamedTuple):
    """Epsilons in a row at which the same protocol has the best mean, and the same ones are not significantly worse."""

    first: str
    others: tuple[str, ...]
    epsilons: list[float]
    margins: list[Margin]


def overall(results: Results, postprocess: PostprocessLike, metric: MetricLike = "mse") -> str:
    """One sentence over all data sets and epsilons."""
    tally: Counter[str] = Counter()
    cases = alone = 0
    for result in results.values():
        best = among_best(result, postprocess, metric)
        cases += int(best.any(axis=0).sum())
        alone += int((best.sum(axis=0) == 1).sum())
        for p, look in enumerate(result.plan.looks):
            tally[look.label] += int(best[p].sum())
    if not cases:
        return "No protocol has an estimate of every attribute."
    if sum(len(r.protocols) for r in results.values()) == len(results):
        return f"{next(iter(tally))} alone: nothing to compare it with."
    noise = all(len(result.repetitions) > 1 for result in results.values())
    how = as_metric(metric)
    verb = "is not significantly worse than the best" if noise else f"has the {_extreme(how)} {how.label}"
    if many := len(tally) > FEW:
        tally = _families(results, postprocess, metric)
    ranked = [f"{name} in {number}" for name, number in tally.most_common() if number]
    ranked[0] = ranked[0].replace(" in ", f" {verb} in ", 1) + f" of {cases} case{'s' * (cases > 1)}"
    if not noise:
        return f"{', '.join(ranked)} ({_cases(results)}). A single repetition says nothing about chance."
    if many:
        return f"{', '.join(ranked)} ({_cases(results)}, each case at 95\u00a0%)."
    said = (
        f"in {alone} of them one protocol is significantly better than every other"
        if alone
        else ("in none of them is one protocol significantly better than every other")
    )
    return f"{', '.join(ranked)}; {said} ({_cases(results)}, each case at 95\u00a0%)."


def _families(results: Results, postprocess: PostprocessLike, metric: MetricLike) -> Counter[str]:
    """In how many cases some protocol of a family is not significantly worse than the best: RS+FD, Spl, Smp, …"""
    tally: Counter[str] = Counter()
    for result in results.values():
        best = among_best(result, postprocess, metric)
        names = np.array([family(look.label) for look in result.plan.looks])
        tally.update({name: int(best[names == name].any(axis=0).sum()) for name in dict.fromkeys(names.tolist())})
    return tally


def family(label: str) -> str:
    """`RS+FD` of `RS+FD[GRR]`."""
    return label.partition("[")[0]


def _cases(results: Results) -> str:
    sets, epsilons = len(results), len(next(iter(results.values())).epsilons)
    return f"{sets} data set{'s' * (sets > 1)} × {epsilons} epsilon{'s' * (epsilons > 1)}"


def _extreme(metric: Metric) -> str:
    return "largest" if metric.larger_is_better else "smallest"


def of_dataset(name: str, result: Result, postprocess: PostprocessLike, metric: MetricLike = "mse") -> str:
    """A sentence or some on one data set."""
    if len(result.protocols) < 2:
        return ""
    noise = len(result.repetitions) > 1
    if len(result.protocols) > FEW:
        return _first_of_many(name, result, postprocess, metric)
    parts = [_said(stretch, as_metric(metric), noise) for stretch in stretches(result, postprocess, metric)]
    if not parts:
        return f"On {name}, no protocol has an estimate of every attribute."
    about = "" if noise else " A single repetition says nothing about chance."
    if any("±" in part for part in parts):
        about = " ±: 95\u00a0% confidence intervals."
    return f"On {name}, {'; '.join(parts)}.{about}"


def _first_of_many(name: str, result: Result, postprocess: PostprocessLike, metric: MetricLike) -> str:
    """One short sentence, where there are too many protocols to name those that are nearly as good."""
    how = as_metric(metric)
    runs: list[tuple[str, list[float]]] = []
    for stretch in stretches(result, postprocess, metric):
        if not runs or runs[-1][0] != stretch.first:
            runs.append((stretch.first, []))
        runs[-1][1].extend(stretch.epsilons)
    if not runs:
        return f"On {name}, no protocol has an estimate of every attribute."
    said = "; ".join(f"{first} has the {_extreme(how)} {how.label} {_where(epsilons)}" for first, epsilons in runs)
    if len(result.repetitions) == 1:
        return f"On {name}, {said}. A single repetition says nothing about chance."
    return f"On {name}, {said}; the table marks those that are not significantly worse."


def stretches(result: Result, postprocess: PostprocessLike, metric: MetricLike = "mse") -> list[Stretch]:
    """The epsilons of a data set in ascending order, neighbours with the same protocols at the top together."""
    best = among_best(result, postprocess, metric)
    mean, deviation = deviations(result, postprocess, metric)
    known = with_estimate(result)[0]
    sign = -1 if as_metric(metric).larger_is_better else 1
    labels = [look.label for look in result.plan.looks]
    found: list[Stretch] = []
    for e in np.argsort(result.epsilons).tolist():
        if not best[:, e].any():
            continue
        epsilon = result.epsilons[e]
        first = int(np.where(best[:, e], sign * mean[:, e], np.inf).argmin())
        others = tuple(labels[p] for p in range(len(labels)) if best[p, e] and p != first)
        if not found or (found[-1].first, found[-1].others) != (labels[first], others):
            found.append(Stretch(labels[first], others, [], []))
        found[-1].epsilons.append(epsilon)
        rest = [p for p in range(len(labels)) if not best[p, e] and np.isfinite(mean[p, e])]
        if rest and mean[[first, *rest], e].min() > 0:
            second = min(rest, key=lambda p: sign * mean[p, e])
            ratio, error = ratio_of(mean[first, e], mean[second, e], deviation[first, e], deviation[second, e])
            half = 100 * float(half_width(error, min(known[first, e], known[second, e]), len(labels)))
            found[-1].margins.append(Margin(100 * sign * (1 - float(ratio)), half, labels[second], epsilon))
    return found


def _said(stretch: Stretch, metric: Metric, noise: bool) -> str:
    where = _where(stretch.epsilons)
    if not stretch.others and noise:
        said = f"{stretch.first} is best {where}"
    else:
        said = f"{stretch.first} has the {_extreme(metric)} {metric.label} {where}"
        equal = "not significantly worse" if noise else "equal to it"
        if stretch.others:
            said += f" ({listed(stretch.others)} {'are' if len(stretch.others) > 1 else 'is'} {equal})"
    if not stretch.margins:
        return said
    than = f"{'more' if metric.larger_is_better else 'less'} {metric.label} than"
    least = min(stretch.margins, key=lambda margin: margin.percent)
    most = max(stretch.margins, key=lambda margin: margin.percent)
    if least is most:
        return f"{said}, with {most.amount} {than} {most.behind}"
    return f"{said}, with {least.amount} {than} the next {least.where} up to {most.amount} {most.where}"


def _where(epsilons: Sequence[float]) -> str:
    first, last = show_epsilon(epsilons[0]), show_epsilon(epsilons[-1])
    return f"at ε = {first}" if len(epsilons) == 1 else f"from ε = {first} to {last}"


def listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _percent(percent: float, half: float) -> str:
    if not math.isfinite(half):
        return f"{percent:.1f}\u00a0%"
    digits = 0 if half >= 2 else 1 if half >= 0.2 else 2
    return f"{percent:.{digits}f}\u00a0±\u00a0{half:.{digits}f}\u00a0%"
