"""Tables and figures of attacks; errors against privacy loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import Mechanism
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.results.estimate import DEFAULT, Floats, PostprocessLike, as_postprocess
from gpu_rsfd.results.metrics import MetricLike, as_metric
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show import plots
from gpu_rsfd.show.panels import Page, epsilon_ticks
from gpu_rsfd.show.summary import RUN, run_of, summary
from gpu_rsfd.show.tables import cells_table, console_for, heading, write

GOALS = {"sampled": "sampled attribute", "value": "value"}  # what an attacker is after
SHARES = {"sampled": "users whose sampled attribute is guessed", "value": "values that are guessed"}
FIELDS = (
    *("dataset", "users", "attributes", "protocol", "epsilon", "knowledge", "repetitions"),
    *("sampled", "sampled_error", "sampled_baseline", "value", "value_error", "value_baseline", *RUN),
)


def means(result: Result, goal: str) -> tuple[Floats, Floats]:
    """Mean success and its standard error over the repetitions, [protocol, epsilon] each."""
    shares: Floats = getattr(result, f"{goal}_success")
    count = shares.shape[2]
    spread = shares.std(axis=2, ddof=1) if count > 1 else np.full(shares.shape[:2], np.nan)
    return shares.mean(axis=2), spread / np.sqrt(count)


def rows(results: Results) -> Iterator[dict[str, Any]]:
    """One row per data set, protocol and epsilon."""
    for name, result in results.items():
        found = [(*means(result, goal), result.columns[f"{goal}_success"].baseline) for goal in GOALS]
        known = result.spec["knowledge"], len(result.repetitions)
        for p, protocol in enumerate(result.protocols):
            for e, epsilon in enumerate(result.epsilons):
                shares = (float(x) for mean, error, baseline in found for x in (mean[p, e], error[p, e], baseline))
                row = (name, result.n, len(result.domain), protocol, epsilon, *known, *shares, *run_of(result).values())
                yield dict(zip(FIELDS, row, strict=True))


def show_attacks(results: Results, form: str = "table") -> None:
    """Print what the attacker guesses; `form` is table, csv or json."""
    if form != "table":
        write(results, form, FIELDS, rows(results))
        return
    console = console_for(results)
    for name, result in results.items():
        console.print(
            heading(results, name, f"the attacker knows the {result.spec['knowledge']} marginals"), markup=False
        )
        for goal, words in SHARES.items():
            baseline = result.columns[f"{goal}_success"].baseline
            console.print(f"share of {words}; without a report: {baseline:.4f}")
            console.print(cells_table(result, *means(result, goal)))
    console.print("(standard error of the last digits); – not applicable")


def attack_figure(results: Results) -> Any:
    """Success against epsilon with its baseline: a panel per data set and goal."""
    from matplotlib.lines import Line2D

    panels = [(name, result, goal) for name, result in results.items() for goal in GOALS]
    first = next(iter(results.values()))
    handles = {**plots.handles(first), "without a report": Line2D([], [], color="black", linewidth=0.8)}
    page = Page(len(panels), handles, plots.explained(results), columns=len(GOALS) * min(2, len(results)))
    for axis, (name, result, goal) in zip(page.axes, panels, strict=True):
        plots.curves(axis, result, result.epsilons, *means(result, goal), log=False)
        axis.axhline(result.columns[f"{goal}_success"].baseline, color="black", linewidth=0.8, label="without a report")
        plots.entitle(axis, name, f"{GOALS[goal]} guessed")
        epsilon_ticks(axis, result.epsilons)
    page.name_axes("ε", "share of the users")
    return page.figure


def tradeoff(results: Results, postprocess: PostprocessLike = DEFAULT, metric: MetricLike = "mse") -> Any:
    """Errors against the exact privacy loss, a curve per protocol over epsilon: one attribute differs, or all."""
    postprocess = as_postprocess(postprocess)
    if not results:
        raise InputError("the results file has no finished repetitions yet; nothing to plot")
    log = not as_metric(metric).larger_is_better
    panels = [(name, result, kind) for name, result in results.items() for kind in (0, 1)]
    first = next(iter(results.values()))
    notes = [*plots.explained(results), *loss_notes(first)]
    page = Page(len(panels), plots.handles(first), notes, columns=2 * min(2, len(results)))
    for axis, (name, result, kind) in zip(page.axes, panels, strict=True):
        plots.curves(axis, result, exact_losses(result)[kind], *summary(result, postprocess, metric), log=log)
        plots.entitle(axis, name, f"n = {result.n:,}, d = {len(result.domain)}")
    page.name_axes(
        ("loss, users who differ in one attribute", "loss, any two users"), plots.axis_name(postprocess, metric)
    )
    return page.figure


def exact_losses(result: Result) -> tuple[Floats, Floats]:
    """[protocol, epsilon] each: for one attribute, and for all; NaN where it is infinite or not known."""
    table = np.array([[_losses(ms) for ms in row] for row in result.plan.mechanisms])
    finite = np.where(np.isfinite(table), table, np.nan)
    return finite[:, :, 0], finite[:, :, 1]


def loss_notes(result: Result) -> list[str]:
    """The protocols whose losses are not what they seem: claimed, or those of one report of many."""
    found: dict[str, list[str]] = {}
    for look, row in zip(result.plan.looks, result.plan.mechanisms, strict=True):
        if any(m.claimed for ms in row for m in ms):
            found.setdefault("loss claimed by its author, not computed", []).append(look.label)
        if any(m.spent < m.budget for ms in row for m in ms):
            found.setdefault("loss of the first report alone", []).append(look.label)
    return [f"{words}: {', '.join(labels)}" for words, labels in found.items()]


def _losses(mechanisms: tuple[Mechanism, ...]) -> Floats:
    hidden = any(m.recipe.unsampled.hides and not (m.plain and np.isfinite(m.p)) for m in mechanisms)
    return np.full(2, np.nan) if hidden else losses(mechanisms, [1, len(mechanisms)])
