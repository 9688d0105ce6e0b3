"""Mean MSE_avg with its standard error per protocol and epsilon: on the screen, as CSV, as JSON."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator, Sequence
from json import dumps
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.estimate import check_postprocess
from gpu_rsfd.protocols import label
from gpu_rsfd.results import Result, Results
from gpu_rsfd.show.comparison import TIE, maybe_best
from gpu_rsfd.show.summary import expected, rough, show_epsilon, source_of, summary, unusual, with_estimate
from gpu_rsfd.theory import expected as theory
from gpu_rsfd.theory.needs import PlanRow

FIELDS = (
    "dataset",
    "users",
    "attributes",
    "protocol",
    "epsilon",
    "postprocess",
    "repetitions",
    "mse_avg",
    "standard_error",
    "expected_mse_avg",
    "expected_is_rough",
    "repetitions_with_estimate",
    "repetitions_with_every_estimate",
    "may_be_best",
    "source",
)
MEANING = {  # of the errors that are planned for
    "users": "against these n users' own frequencies (--against population: against those they are drawn from)",
    "population": "against the population that the n users are drawn from",
}
WIDE = 1e4  # from this ratio of the largest to the smallest cell on, each has a power of ten of its own
LOWEST_EXPONENT = -300  # smaller powers of ten are no ordinary numbers
NO_ERROR = 1e-9  # relative: what is left of an error of nothing after rounding
WIDTH = 1000  # numbers are never cut: a line too long for the terminal is wrapped by the terminal


class Planned(NamedTuple):
    """What to expect of n users with the frequencies of a data set."""

    data: Dataset
    n: int
    rows: Sequence[PlanRow]


def concise(mean: float, error: float) -> str:
    """7.034 with an error of 0.021 as `7.034(21)`: the error in units of the last digit."""
    if not math.isfinite(mean):
        return "–"
    if not math.isfinite(error) or error <= abs(mean) * NO_ERROR:
        return f"{mean:.{min(max(5 - _exponent(mean), 0), 3)}f}"  # six digits are enough
    digits = max(1 - int(f"{error:.1e}".partition("e")[2]), 0)  # of the error as rounded: 0.0996 is 0.10
    return f"{mean:.{digits}f}({error * 10**digits:.0f})"


def scientific(mean: float, error: float) -> str:
    """`concise`, with a power of ten of its own: `7.034(21)e-05`."""
    if not math.isfinite(mean) or mean == 0:
        return concise(mean, error)
    exponent = _exponent(mean)
    return f"{concise(mean / 10.0**exponent, error / 10.0**exponent)}e{exponent:+03d}"


def _exponent(number: float) -> int:
    return 0 if number == 0 else max(math.floor(math.log10(abs(number))), LOWEST_EXPONENT)


def rows(results: Results, postprocess: str) -> Iterator[dict[str, Any]]:
    """One row per data set, protocol and epsilon."""
    for name, result in results.items():
        mean, error = summary(result, postprocess)
        closed = expected(result, postprocess)
        guide = rough(result, postprocess)
        fewest, all_attributes = with_estimate(result)
        best = maybe_best(result, postprocess)
        for p, protocol in enumerate(result.protocols):
            for e, epsilon in enumerate(result.epsilons):
                row = (
                    name,
                    result.n,
                    len(result.domain),
                    protocol,
                    epsilon,
                    postprocess,
                    len(result.repetitions),
                    float(mean[p, e]),
                    float(error[p, e]),
                    math.nan if closed is None else float(closed[p, e]),
                    bool(guide[p, e]),
                    int(fewest[p, e]),
                    int(all_attributes[p, e]),
                    bool(best[p, e]),
                    source_of(results, name),
                )
                yield dict(zip(FIELDS, row, strict=True))


def show(results: Results, postprocess: str, form: str = "table") -> None:
    """Print the table; `form` is table, csv or json."""
    check_postprocess(postprocess)
    if form == "json":
        clean = [{k: None if v != v else v for k, v in row.items()} for row in rows(results, postprocess)]
        print(dumps({"complete": results.complete, "spec": results.spec, "rows": clean}, indent=2))
        return
    if form == "csv":
        writer = csv.DictWriter(sys.stdout, fieldnames=FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows(results, postprocess))
        return
    console = Console(width=WIDTH, highlight=False)
    if not results.complete:
        console.print("This file is not finished: the same command continues it.")
    guides = False
    for name, result in results.items():
        mean, error = summary(result, postprocess)
        positive = mean[np.isfinite(mean) & (mean > 0)]
        exponent = _exponent(float(positive.min())) if positive.size else 0
        wide = bool(positive.size) and float(positive.max()) >= WIDE * float(positive.min())
        source = source_of(results, name)
        console.print(
            f"{name}: n = {result.n:,}, d = {len(result.domain)}, {len(result.repetitions)} repetitions; "
            f"MSE_avg{'' if wide else f' in units of 1e{exponent:+03d}'}{f'; data: {source}' if source else ''}"
            f"{''.join(f'; {words}' for words in unusual(result.spec))}",
            markup=False,
        )
        closed = expected(result, postprocess)
        guide = rough(result, postprocess)
        guides |= closed is not None and bool(guide.any())
        best = maybe_best(result, postprocess)
        console.print(_table(result, mean, error, closed, guide, best, None if wide else exponent))
        for line in _without_estimate(result):
            console.print(line, markup=False)
    console.print(f"postprocess={postprocess}; (standard error of the last digits); {marked(results, 'column')}")
    if guides:
        console.print(f"~ a guide only: some value has fewer than {theory.ENOUGH_REPORTS} reports to be expected")


def _without_estimate(result: Result) -> Iterator[str]:
    """A line for protocols that left an attribute without any report in some repetition."""
    total = len(result.repetitions)
    fewest, complete = (numbers.min(axis=-1).tolist() for numbers in with_estimate(result))
    for numbers in dict.fromkeys(zip(fewest, complete, strict=True)):
        if numbers != (total, total):
            names = [label(p) for p, *own in zip(result.protocols, fewest, complete, strict=True) if (*own,) == numbers]
            yield (
                f"{', '.join(names)}: {numbers[1]:,} of {total:,} repetitions have an estimate of every attribute, "
                f"{numbers[0]:,} of the attribute that fewest sampled; averaged attribute by attribute"
            )


def show_plan(
    plans: Sequence[Planned],
    target_rmse: float | None,
    postprocess: str,
    against: str,
    guarantee: str = "paper",
    *,
    json: bool,
) -> None:
    """What to expect of each protocol and epsilon, for each data set."""
    if json:
        documents = [
            {
                "dataset": data.name,
                "source": data.source,
                "users": n,
                "domain": list(data.domain),
                "postprocess": postprocess,
                "against": against,
                "guarantee": guarantee,
                "target_rmse": target_rmse,
                "rows": [_plain(row) for row in rows],
            }
            for data, n, rows in plans
        ]
        print(dumps(documents, indent=2))
        return
    console = Console(width=WIDTH, highlight=False)
    for data, n, rows in plans:
        frequencies = "" if n == data.n else f", frequencies of its {data.n:,} users"
        source = f"; data: {data.source}" if data.source else ""
        console.print(
            f"{data.name}: n = {n:,}, d = {data.d}{frequencies}{source}; expected errors from theory, "
            f"postprocess={postprocess}; guarantee={guarantee}{_blind(rows)}",
            markup=False,
        )
        console.print(_plan_table(rows, target_rmse))
    console.print(f"* best of its epsilon; errors are {MEANING[against]}")
    console.print("● no other row of the table has a smaller error or loss without a larger one")
    console.print("loss: the exact worst log-likelihood ratio between users who differ in one attribute, or in any way")
    if any(row.rough or row.users_rough for plan in plans for row in plan.rows):
        console.print(f"~ a guide only: some value has fewer than {theory.ENOUGH_REPORTS} reports to be expected")


def _plain(row: PlanRow) -> dict[str, Any]:
    """As JSON has it: null where there is no number, or an infinite one."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row._asdict().items()}


def _blind(rows: Sequence[PlanRow]) -> str:
    """What an attacker achieves without any report."""
    if not rows or not rows[0].attacked_users:
        return ""  # it was not asked for, or the domains are too large
    row = rows[0]
    return f"; guessed without a report: sampled {row.sampled_baseline:.2f}, value {row.value_baseline:.2f}"


def _plan_table(rows: Sequence[PlanRow], target_rmse: float | None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)
    columns = ["epsilon", "protocol", "MSE_avg", "RMSE", "bits per user", "loss: one", "any"]
    attacked = any(row.attacked_users for row in rows)
    if attacked:
        columns += ["guessed: sampled", "value"]
    if target_rmse is not None:
        columns.append(f"users for RMSE {target_rmse:g}")
    for name in columns:
        table.add_column(f" {name}", justify="left" if name == "protocol" else "right", no_wrap=True)
    for epsilon in dict.fromkeys(row.epsilon for row in rows):
        here = sorted((row for row in rows if row.epsilon == epsilon), key=lambda row: (row.mse != row.mse, row.mse))
        best = min((row.mse for row in here if row.mse == row.mse), default=math.nan)
        for row in here:
            mark = "*" if row.mse <= best * (1 + TIE) else " "
            guide = "~" if row.rough else ""
            cells = [
                show_epsilon(epsilon),
                f"{'●' if row.non_dominated else ' '}{label(row.protocol)}".replace("[", "\\["),
            ]
            if math.isfinite(row.mse):
                cells += [f" {guide}{row.mse:.3e}{mark}", f" {guide}{row.rmse:.2e}"]
            else:
                cells += [" – ", " –"]
            cells.append(f" {row.bits_per_user:,.1f}")
            cells += [f" {row.loss_one:.3f}", f" {row.loss_all:.3f}"]
            if attacked:
                cells += [f" {row.sampled:.2f}".replace("nan", "–"), f" {row.value:.2f}"]
            if row.users_needed is not None:
                cells.append(f" {'~' if row.users_rough else ''}{row.users_needed:,}")
            elif row.unreachable is not None:
                cells.append(f" {row.unreachable}")
            table.add_row(*cells, style="bold" if row.non_dominated else None)
        table.add_section()
    return table


def marked(results: Results, where: str) -> str:
    """What the mark means."""
    if not repeated(results):
        return f"* the smallest of its {where}"
    return f"* may be the best of its {where} (paired differences, 95 %)"


def repeated(results: Results) -> bool:
    """Whether there is anything to tell noise from."""
    return any(len(result.repetitions) > 1 for result in results.values())


def _table(result: Result, mean: Any, error: Any, closed: Any, guide: Any, best: Any, exponent: int | None) -> Table:
    """In units of ten to the `exponent`; None: every cell with a power of ten of its own."""
    write, unit = (scientific, 1.0) if exponent is None else (concise, 10.0**exponent)
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)
    table.add_column("epsilon", no_wrap=True)
    for epsilon in result.epsilons:
        table.add_column(show_epsilon(epsilon), justify="right", no_wrap=True)
    for p, protocol in enumerate(result.protocols):
        cells = [write(mean[p, e] / unit, error[p, e] / unit) for e in range(len(result.epsilons))]
        marked = [f"[bold]{c}*[/bold]" if best[p, e] else f"{c} " for e, c in enumerate(cells)]
        table.add_row(label(protocol).replace("[", "\\["), *marked)
        if closed is not None:
            shown = [
                f"{'~' if g else ''}{write(x / unit, math.nan)} " for x, g in zip(closed[p], guide[p], strict=True)
            ]
            table.add_row("  theory", *shown, style="dim")
    return table
