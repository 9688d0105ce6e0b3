"""Mean MSE_avg with its standard error per protocol and epsilon: on the screen, as CSV, as JSON."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator, Sequence
from json import dumps
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from gpu_rsfd import theory
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.estimate import check_postprocess
from gpu_rsfd.parse import show_epsilon
from gpu_rsfd.planning import PlanRow
from gpu_rsfd.protocols import label
from gpu_rsfd.simulate import Result
from gpu_rsfd.store import Results

WIDTH = 1000  # numbers are never cut: a line too long for the terminal is wrapped by the terminal


def summary(result: Result, postprocess: str) -> tuple[Any, Any]:
    """Mean and standard error of MSE_avg, [protocol, epsilon] each; repetitions without an estimate are left out."""
    mse = result.mse(postprocess)
    defined = np.isfinite(mse)
    count = defined.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(defined, mse, 0).sum(axis=-1) / count
        squares = np.where(defined, (mse - mean[..., None]) ** 2, 0).sum(axis=-1)
        return mean, np.sqrt(squares / (count - 1) / count)


def expected(result: Result, postprocess: str) -> Any:
    """[protocol, epsilon]: the expectation of MSE_avg from theory; None where there is no theory."""
    if postprocess not in theory.POSTPROCESS:
        return None
    attributes = theory.attributes_of(result.domain, result.frequencies)
    return np.array(
        [
            [theory.mse_of(p, e, result.n, attributes, result.spec.assignment, postprocess) for e in result.epsilons]
            for p in result.protocols
        ]
    )


def concise(mean: float, error: float) -> str:
    """7.034 with an error of 0.021 as `7.034(21)`: the error in units of the last digit."""
    if not math.isfinite(mean):
        return "–"
    if not math.isfinite(error) or error <= 0:
        return f"{mean:.3f}"
    digits = max(1 - math.floor(math.log10(error)), 0)
    return f"{mean:.{digits}f}({error * 10**digits:.0f})"


def rows(results: Results, postprocess: str) -> Iterator[dict[str, Any]]:
    """One row per data set, protocol and epsilon."""
    for name, result in results.items():
        mean, error = summary(result, postprocess)
        closed = expected(result, postprocess)
        for p, protocol in enumerate(result.protocols):
            for e, epsilon in enumerate(result.epsilons):
                yield {
                    "dataset": name,
                    "users": result.n,
                    "attributes": len(result.domain),
                    "protocol": protocol,
                    "epsilon": epsilon,
                    "postprocess": postprocess,
                    "repetitions": len(result.repetitions),
                    "mse_avg": float(mean[p, e]),
                    "standard_error": float(error[p, e]),
                    "expected_mse_avg": math.nan if closed is None else float(closed[p, e]),
                }


def show(results: Results, postprocess: str, form: str = "table") -> None:
    """Print the table; `form` is table, csv or json."""
    check_postprocess(postprocess)
    if form == "json":
        clean = [{k: None if v != v else v for k, v in row.items()} for row in rows(results, postprocess)]
        print(dumps({"complete": results.complete, "spec": results.spec, "rows": clean}, indent=2))
        return
    if form == "csv":
        table = list(rows(results, postprocess))
        writer = csv.DictWriter(sys.stdout, fieldnames=list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
        return
    console = Console(width=WIDTH, highlight=False)
    if not results.complete:
        console.print("This file is not finished: the same command continues it.")
    for name, result in results.items():
        mean, error = summary(result, postprocess)
        smallest = float(np.min(mean[np.isfinite(mean) & (mean > 0)], initial=1.0))
        exponent = math.floor(math.log10(smallest))
        console.print(
            f"{name}: n = {result.n:,}, d = {len(result.domain)}, {len(result.repetitions)} repetitions; "
            f"MSE_avg in units of 1e{exponent:+03d}",
            markup=False,
        )
        closed = expected(result, postprocess)
        shown = None if closed is None else closed / 10.0**exponent
        console.print(_table(result, mean / 10.0**exponent, error / 10.0**exponent, shown))
    console.print(f"postprocess={postprocess}; (standard error of the last digits); * best of its column")


def show_plan(
    plans: Sequence[tuple[Dataset, Sequence[PlanRow]]], target_rmse: float | None, postprocess: str, *, json: bool
) -> None:
    """What to expect of each protocol and epsilon, for each data set."""
    if json:
        documents = [
            {
                "dataset": data.name,
                "users": data.n,
                "domain": list(data.domain),
                "postprocess": postprocess,
                "target_rmse": target_rmse,
                "rows": [{k: None if v != v else v for k, v in row._asdict().items()} for row in rows],
            }
            for data, rows in plans
        ]
        print(dumps(documents, indent=2))
        return
    console = Console(width=WIDTH, highlight=False)
    for data, rows in plans:
        console.print(
            f"{data.name}: n = {data.n:,}, d = {data.d}; expected from theory alone, postprocess={postprocess}",
            markup=False,
        )
        console.print(_plan_table(rows, target_rmse))
    console.print("* best of its epsilon")


def _plan_table(rows: Sequence[PlanRow], target_rmse: float | None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)
    columns = ["epsilon", "protocol", "MSE_avg", "RMSE", "bits per user"]
    if target_rmse is not None:
        columns.append(f"users for RMSE {target_rmse:g}")
    for name in columns:
        table.add_column(f" {name}", justify="left" if name == "protocol" else "right", no_wrap=True)
    for epsilon in dict.fromkeys(row.epsilon for row in rows):
        here = [row for row in rows if row.epsilon == epsilon]
        best = min((row.mse for row in here if row.mse == row.mse), default=math.nan)
        for row in here:
            mark = "*" if row.mse == best else " "
            cells = [show_epsilon(epsilon), f" {label(row.protocol)}".replace("[", "\\[")]
            cells += [f" {row.mse:.3e}{mark}", f" {row.rmse:.2e}", f" {row.bits_per_user:,.1f}"]
            if target_rmse is not None:
                cells.append(f" {row.users_needed:,}")
            table.add_row(*cells)
        table.add_section()
    return table


def _table(result: Result, mean: Any, error: Any, closed: Any) -> Table:
    best = mean == np.min(np.where(np.isfinite(mean), mean, np.inf), axis=0)  # equal ones share the mark
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)
    table.add_column("epsilon", no_wrap=True)
    for epsilon in result.epsilons:
        table.add_column(show_epsilon(epsilon), justify="right", no_wrap=True)
    for p, protocol in enumerate(result.protocols):
        cells = [concise(mean[p, e], error[p, e]) for e in range(len(result.epsilons))]
        marked = [f"[bold]{c}*[/bold]" if best[p, e] else f"{c} " for e, c in enumerate(cells)]
        table.add_row(label(protocol).replace("[", "\\["), *marked)
        if closed is not None:
            table.add_row("  theory", *(f"{x:.3f} " for x in closed[p]), style="dim")
    return table
