"""Privacy for people: what an attacker guesses, as a table and a figure; error against loss."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from json import dumps
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import Floats, check_postprocess
from gpu_rsfd.privacy.attacking import AttackResult
from gpu_rsfd.privacy.files import AttackResults
from gpu_rsfd.protocols import label
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.results import Result, Results
from gpu_rsfd.show import plots
from gpu_rsfd.show.lettering import lettered
from gpu_rsfd.show.panels import Page, epsilon_ticks
from gpu_rsfd.show.summary import show_epsilon, summary, unusual
from gpu_rsfd.show.tables import WIDTH, concise

GOALS = {"sampled": "sampled attribute", "value": "value"}  # what an attacker is after
SHARES = {"sampled": "users whose sampled attribute is guessed", "value": "values that are guessed"}
FIELDS = (
    *("dataset", "users", "attributes", "protocol", "epsilon", "guarantee", "knowledge", "repetitions"),
    *("sampled", "sampled_error", "sampled_baseline", "value", "value_error", "value_baseline"),
)


def means(result: AttackResult, goal: str) -> tuple[Floats, Floats]:
    """Mean success and its standard error over the repetitions, [protocol, epsilon] each."""
    shares: Floats = getattr(result, goal)
    count = shares.shape[2]
    spread = shares.std(axis=2, ddof=1) if count > 1 else np.full(shares.shape[:2], np.nan)
    return shares.mean(axis=2), spread / np.sqrt(count)


def rows(results: AttackResults) -> Iterator[dict[str, Any]]:
    """One row per data set, protocol and epsilon."""
    for name, result in results.items():
        found = {goal: means(result, goal) for goal in GOALS}
        for p, protocol in enumerate(result.protocols):
            for e, epsilon in enumerate(result.epsilons):
                shares = [
                    number
                    for goal in GOALS
                    for number in (
                        *(float(table[p, e]) for table in found[goal]),
                        float(getattr(result, f"{goal}_baseline")),
                    )
                ]
                known = (name, result.n, len(result.domain), protocol, epsilon, result.spec.guarantee, result.knowledge)
                yield dict(zip(FIELDS, (*known, len(result.repetitions), *shares), strict=True))


def show_attacks(results: AttackResults, form: str = "table") -> None:
    """Print what the attacker guesses; `form` is table, csv or json."""
    if form == "json":
        clean = [{k: None if v != v else v for k, v in row.items()} for row in rows(results)]
        print(dumps({"complete": results.complete, "spec": results.spec, "rows": clean}, indent=2))
        return
    if form == "csv":
        writer = csv.DictWriter(sys.stdout, fieldnames=FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows(results))
        return
    console = Console(width=WIDTH, highlight=False)
    if not results.complete:
        console.print("This file is not finished: the same command continues it.")
    for name, result in results.items():
        terms = "".join(f"{words}; " for words in unusual(result.spec))
        console.print(
            f"{name}: n = {result.n:,}, d = {len(result.domain)}, {len(result.repetitions)} repetitions; {terms}"
            f"the attacker knows the {result.knowledge} marginals",
            markup=False,
        )
        for goal, words in SHARES.items():
            baseline = getattr(result, f"{goal}_baseline")
            console.print(f"share of {words}; without a report: {baseline:.4f}")
            console.print(_table(result, goal))
    console.print("(standard error of the last digits); – there is none")


def _table(result: AttackResult, goal: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)
    table.add_column("epsilon", no_wrap=True)
    for epsilon in result.epsilons:
        table.add_column(f" {show_epsilon(epsilon)}", justify="right", no_wrap=True)
    mean, error = means(result, goal)
    for p, protocol in enumerate(result.protocols):
        cells = [f" {concise(float(m), float(s))}" for m, s in zip(mean[p], error[p], strict=True)]
        table.add_row(label(protocol).replace("[", "\\["), *cells)
    return table


def attack_figure(results: AttackResults) -> Any:
    """Success against epsilon with its baseline: a panel per data set and goal."""
    from matplotlib.lines import Line2D

    panels = [(name, result, goal) for name, result in results.items() for goal in GOALS]
    first = next(iter(results.values()))
    handles = {**plots.handles(first.protocols), "without a report": Line2D([], [], color="black", linewidth=0.8)}
    page = Page(len(panels), handles, _explained(first), columns=len(GOALS) * min(2, len(results)))
    for axis, (name, result, goal) in zip(page.axes, panels, strict=True):
        mean, error = means(result, goal)
        for p, protocol in enumerate(result.protocols):
            if np.isfinite(mean[p]).any():
                bars = plots.yerror(error[p])
                axis.errorbar(result.epsilons, mean[p], bars, label=label(protocol), capsize=2, **plots.style(protocol))
        axis.axhline(getattr(result, f"{goal}_baseline"), color="black", linewidth=0.8, label="without a report")
        (title,), families = lettered([name], plots.TITLE_LETTERS)
        axis.set_title(f"{title}: {GOALS[goal]} guessed", fontsize=10, fontfamily=families)
        epsilon_ticks(axis, result.epsilons)
        axis.grid(True, which="major", linewidth=0.4, alpha=0.6)
        axis.tick_params(which="both", labelsize=8)
    page.name_axes("ε", "share of the users")
    return page.figure


def _explained(result: AttackResult | Result) -> list[str]:
    return [*(["error bars: one standard error"] if len(result.repetitions) > 1 else []), *unusual(result.spec)]


def tradeoff(results: Results, postprocess: str = "clip-normalize") -> Any:
    """MSE_avg against the exact privacy loss, a curve per protocol over epsilon: one attribute differs, or all."""
    check_postprocess(postprocess)
    if not results:
        raise InputError("the results file has no finished repetitions yet; nothing to plot")
    panels = [(name, result, kind) for name, result in results.items() for kind in (0, 1)]
    first = next(iter(results.values()))
    page = Page(len(panels), plots.handles(first.protocols), _explained(first), columns=2 * min(2, len(results)))
    for axis, (name, result, kind) in zip(page.axes, panels, strict=True):
        mean, error = summary(result, postprocess)
        loss = exact_losses(result)[kind]
        plots.curves(axis, result.protocols, loss, mean, error)
        (title,), families = lettered([name], plots.TITLE_LETTERS)
        axis.set_title(f"{title}: n = {result.n:,}, d = {len(result.domain)}", fontsize=10, fontfamily=families)
    page.name_axes(("loss, users who differ in one attribute", "loss, any two users"), plots.metric(postprocess))
    return page.figure


def exact_losses(result: Result) -> tuple[Floats, Floats]:
    """[protocol, epsilon] each: for one attribute, and for all."""
    table = np.array([[losses(ms, [1, len(ms)]) for ms in row] for row in result.plan.mechanisms])
    finite = np.where(np.isfinite(table), table, np.nan)
    return finite[:, :, 0], finite[:, :, 1]
