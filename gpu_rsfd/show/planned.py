"""A plan for people: the decision in sentences, what to expect of each column, the table of all protocols, a figure."""

from __future__ import annotations

import math
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from json import dumps
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.show.charts import palette
from gpu_rsfd.show.panels import Page, epsilon_ticks
from gpu_rsfd.show.statistics import TIE
from gpu_rsfd.show.tables import PLAIN, finite, plain_table, screen, sent_by
from gpu_rsfd.theory import expected as theory
from gpu_rsfd.theory.decision import Planned, Question
from gpu_rsfd.theory.needs import PlanRow
from gpu_rsfd.theory.words import Decision, cut, people, points

MEANING = {  # of the errors that are planned for
    "users": "measured against the frequencies of these n users (--against population: of their population)",
    "population": "measured against the population that the n users are drawn from",
}
MOST_COLUMNS = 40  # lines of the table of columns
MOST_CURVES = 6  # columns in the figure
WIDEST = 110  # letters of a line of sentences


class PlannedData(NamedTuple):
    """The plan of one data set."""

    data: Dataset
    found: Planned

    def parts(self) -> list[tuple[Decision, list[PlanRow]]]:
        """The decision and the rows of each number of users."""
        return [(decision, [row for row in self.found if row.users == decision.users])
                for decision in self.found.decisions]  # fmt: skip


def show(plans: Sequence[PlannedData], asked: Question, guarantee: str, *, json: bool) -> None:
    """What is recommended for each data set, and what to expect of each protocol and epsilon."""
    if json:
        print(dumps([_document(*part, plan.data, asked) for plan in plans for part in plan.parts()], indent=2))
    else:
        screen(_shown(plans, asked, guarantee))


def _shown(plans: Sequence[PlannedData], asked: Question, guarantee: str) -> Iterator[str | Table]:
    needed = None if asked.target is None else "users for the target"
    needed = needed if asked.target_rmse is None else f"users for RMSE {asked.target_rmse:g}"
    for data, found in plans:
        labels = {look.name: look.label for look in found.candidates[0].plan.looks}
        for decision, rows in PlannedData(data, found).parts():
            n = decision.users
            frequencies = "" if n == data.n else f", frequencies of its {data.n:,} users"
            source = f"; data: {data.source}" if data.source else ""
            source += f", round 1 of {data.rounds}" * (data.rounds > 1)
            yield f"{data.name}: n = {n:,}, d = {data.d}{frequencies}{source}"
            yield from map(wrapped, str(decision).splitlines())
            yield ""
            yield _column_table(decision, labels)
            yield f"expected errors from theory, postprocess={asked.postprocess}; guarantee={guarantee}{_blind(rows)}"
            yield _plan_table(rows, labels, needed)
    rows = [row for plan in plans for row in plan.found]
    yield from _explained(rows, asked, any(plan.found.decisions[0].columns for plan in plans))
    for data, found in plans:
        command, over = found.decisions[0].command, found.decisions[0].rounds
        if command is not None:
            yield f"\nThe evidence:\n  {command}\n  gpu-rsfd page {data.name}.h5"
            yield from [f"  {over.command}"] if over else []


def wrapped(sentence: str) -> str:
    """On a terminal, lines that end between words; else as it is."""
    if not sys.stdout.isatty():
        return sentence
    return textwrap.fill(sentence, min(WIDEST, shutil.get_terminal_size().columns), break_long_words=False)


def _document(decision: Decision, rows: Sequence[PlanRow], data: Dataset, asked: Question) -> dict[str, Any]:
    plain = {key: value for key, value in vars(decision).items() if key not in ("columns", "dataset", "users")}
    if (over := plain.pop("rounds")) is not None:  # without rounds the document is as it was before there were any
        plain["rounds"] = finite(over._asdict())
    return {
        "dataset": data.name,
        "source": data.source,
        "users": decision.users,
        "domain": list(data.domain),
        "postprocess": asked.postprocess,
        "against": asked.against,
        "guarantee": decision.guarantee,
        "target": asked.target,
        "target_rmse": asked.target_rmse,
        "decision": {**finite(plain), "columns": [finite(column._asdict()) for column in decision.columns]},
        "rows": [finite(row._asdict()) for row in rows],
    }


def _explained(rows: Sequence[PlanRow], asked: Question, columns: bool) -> list[str]:
    lines = [
        "±: 95 % of a column's estimates are within this margin; in percentage points, rounded up",
        "as asking: so many people, asked without privacy, would tell as much",
        f"better left out: columns that tell less than asking {asked.survey:,g} people, with a margin above 1 point",
        "unseen: values that can't be distinguished from zero; best: the best protocol for the column",
    ] if columns else []  # fmt: skip
    lines += [
        f"* the smallest at its epsilon; errors are {MEANING[asked.against]}",
        "● Pareto-optimal: no other row is at least as good in error and both losses, and better in one of them",
        "loss: largest log-likelihood ratio if users differ in one attribute, or in any; rounding: docs/privacy.md",
    ]
    if any(row.claimed for row in rows):
        lines.append("claimed: the loss that the protocol's author states; it can't be computed from p and q")
    if any(row.first_report for row in rows):
        lines.append("first: loss of a longitudinal protocol's first report; epsilon bounds all reports of a value")
    if any(row.value == row.value for row in rows):
        lines.append("guessed: by an attacker who knows the marginals; with Smp what is sent")
    if fewest := min((row.attacked_users for row in rows if row.attacked_users), default=0):
        lines[-1] += f"; with RS+FD on simulated users, good to ± {1.96 * 0.5 / math.sqrt(fewest):.2f} (95 %)"
    if any(row.rough or row.users_rough for row in rows):
        lines.append(f"~ rough: some value has fewer than {theory.ENOUGH_REPORTS} expected reports")
    return lines


def _blind(rows: Sequence[PlanRow]) -> str:
    """What an attacker achieves without any report."""
    known = [row for row in rows if row.value == row.value][:1]  # none without an attack, or of large domains
    return "".join(f"; guessed without a report: sampled {row.sampled_baseline:.2f}, value {row.value_baseline:.2f}"
                   for row in known)  # fmt: skip


def _column_table(decision: Decision, labels: Mapping[str, str]) -> Table:
    targets = any(column.target is not None for column in decision.columns)
    table = plain_table("column", ["k", "sent by", "±", *(["target"] * targets), "error", "as asking"])
    for name in ("unseen", "best", ""):
        table.add_column(f" {name}", justify="left", no_wrap=True)
    for column in decision.columns[:MOST_COLUMNS]:
        cells = [f"{column.values:,}", sent_by(column.noise), points(column.margin)]
        cells += ["–" if column.target is None else points(column.target)] * targets
        cells += [points(column.rmse), people(column.survey).removesuffix(" people")]
        best = "" if column.best == decision.protocol else labels[column.best]
        cells += [f"{column.hidden:,} of {column.held:,}", best, "" if column.useful else "better left out"]
        style = None if column.useful else "dim"
        table.add_row(cut(column.name), *(f" {cell}" for cell in cells), style=style)
    if len(decision.columns) > MOST_COLUMNS:
        table.add_row(f"… and {len(decision.columns) - MOST_COLUMNS:,} more (--json has all)")
    return table


def _plan_table(rows: Sequence[PlanRow], labels: Mapping[str, str], needed: str | None) -> Table:
    table = Table(**PLAIN)
    columns = ["epsilon", "protocol", "MSE_avg", "RMSE", "bits per user", "loss: one", "any"]
    attacked = any(row.value == row.value for row in rows)
    columns += ["guessed: sampled", "value"] * attacked
    columns += [] if needed is None else [needed]
    for name in columns:
        table.add_column(f" {name}", justify="left" if name == "protocol" else "right", no_wrap=True)
    for epsilon in dict.fromkeys(row.epsilon for row in rows):
        here = sorted((row for row in rows if row.epsilon == epsilon), key=lambda row: (row.mse != row.mse, row.mse))
        best = min((row.mse for row in here if row.mse == row.mse), default=math.nan)
        for row in here:
            mark = "*" if row.mse <= best * (1 + TIE) else " "
            guide = "~" * row.rough
            cells = [show_epsilon(epsilon), f"{'●' if row.non_dominated else ' '}{labels[row.protocol]}"]
            errors = [f" {guide}{row.mse:.3e}{mark}", f" {guide}{row.rmse:.2e}"]
            cells += errors if math.isfinite(row.mse) else [" – ", " –"]
            cells.append(f" {row.bits_per_user:,.1f}")
            about = " claimed" * row.claimed + " first" * row.first_report
            cells += [f" {loss:.3f}{about}" for loss in (row.loss_one, row.loss_all)]
            if attacked:
                cells += [f" {share:.2f}".replace("nan", "–") for share in (row.sampled, row.value)]
            if row.users_needed is not None:
                cells.append(f" {'~' if row.users_rough else ''}{row.users_needed:,}")
            elif row.unreachable is not None:
                cells.append(f" {row.unreachable}")
            table.add_row(*cells, style="bold" if row.non_dominated else None)
        table.add_section()
    return table


# --------------------------------------------------------------------------------------------------- figure


def figure(found: Planned) -> Any:
    """Margins of columns against epsilon and against n, with their targets; errors against losses, with the front."""
    from matplotlib import colormaps
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    case, decision = found.candidates[0], found.decisions[0]
    chosen, (p, e) = case.choice, case.cell
    kept = [j for j in range(case.plan.d) if not chosen or j in chosen.columns]
    alike: dict[tuple[str, ...], list[int]] = {}  # columns whose curves would lie on each other
    for j in sorted(kept, key=lambda j: -case.accuracy(p, e, j).margin):
        ends = [points(case.accuracy(p, i, j).margin) for i in (e, case.ascending[0])]
        alike.setdefault((*ends, str(case.targets.get(j))), []).append(j)
    shown = list(alike.values())[:MOST_CURVES]
    tints, names = [colormaps["tab10"](i) for i in range(len(shown))], [cut(case.names[js[0]]) for js in shown]
    names = [name + f" and {len(js) - 1} more" * (len(js) > 1) for name, js in zip(names, shown, strict=True)]
    handles: dict[str, Any] = {name: {"color": tint, "marker": "."} for name, tint in zip(names, tints, strict=True)}
    quiet: dict[str, Any] = {"color": "#555555", "linewidth": 1}
    if case.targets:
        handles["target"] = {"linestyle": "--", **quiet}
    handles["recommended" if chosen else "the smallest error"] = {"linestyle": ":", **quiet}
    styles = dict(zip(case.plan.protocols, palette(case.plan.looks), strict=True))
    for look, drawn in zip(case.plan.looks, styles.values(), strict=True):
        handles[look.label] = {"color": drawn.colour, "marker": drawn.marker, "linestyle": "none"}
    handles["Pareto front"] = {"color": "#999999", "linewidth": 1}
    about = f"{decision.dataset}, guarantee {decision.guarantee}; left and middle: {case.plan.looks[p].label}"
    page = Page(3, handles, [about])
    left, middle, right = page.axes
    epsilons = [case.plan.epsilons[i] for i in case.ascending]
    users = np.unique(np.geomspace(max(case.terms.n / 10, 1), case.terms.n * 100, 25).astype(np.int64)).tolist()
    for (j, *_), tint in zip(shown, tints, strict=True):
        left.plot(epsilons, [100 * case.accuracy(p, i, j).margin for i in case.ascending], color=tint, marker=".")
        middle.plot(users, [100 * case.accuracy(p, e, j, n).margin for n in users], color=tint)
        for axis in (left, middle) if j in case.targets else ():
            axis.axhline(100 * case.targets[j], color=tint, linestyle="--", linewidth=1)
    left.axvline(case.plan.epsilons[e], linestyle=":", **quiet)
    middle.axvline(case.terms.n, linestyle=":", **quiet)
    middle.set_xscale("log")
    rows = [row for row in found if row.users == decision.users and math.isfinite(row.rmse + row.loss_all)]
    for row in rows:
        colour, marker, _ = styles[row.protocol]
        face = colour if row.non_dominated else "none"
        loss = round(row.loss_all, 4)  # a budget is found to about 1e-7, which no axis should show
        right.plot(loss, 100 * row.rmse, color=colour, marker=marker, markerfacecolor=face, markersize=5)
    right.plot(*zip(*pareto([(row.loss_all, 100 * row.rmse) for row in rows]), strict=True), color="#999999", zorder=0)
    at, everything = show_epsilon(case.plan.epsilons[e]), "all protocols: RMSE of all columns, in points"
    for axis, title in zip(page.axes, (f"n = {case.terms.n:,}", f"ε = {at}", everything), strict=True):
        axis.set_title(title, fontsize=9)
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
    epsilon_ticks(left, epsilons)
    page.name_axes(("ε", "users n", "loss, any two users"), ["± points (95 %)"])
    return page.figure


def pareto(cells: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The cells that no other one beats in both, from left to right."""
    front: list[tuple[float, float]] = []
    for loss, error in sorted((round(loss, 3), error) for loss, error in cells):
        if not front or error < front[-1][1]:
            front.append((loss, error))
    return front
