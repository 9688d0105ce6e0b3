"""Mean errors with their standard errors per protocol and epsilon: on the screen, as CSV, as JSON."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from json import dumps
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from gpu_rsfd.options import counted, show_epsilon
from gpu_rsfd.results.estimate import PostprocessLike, as_postprocess
from gpu_rsfd.results.metrics import MetricLike, as_metric, name_of
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show.comparison import among_best
from gpu_rsfd.show.summary import RUN, expected, rough, run_of, source_of, summary, unusual, with_estimate
from gpu_rsfd.theory import expected as theory

FIELDS = (
    *("dataset", "users", "attributes", "protocol", "epsilon", "metric", "postprocess", "repetitions"),
    *("error", "standard_error", "expected_error", "expected_is_rough"),
    *("repetitions_with_estimate", "repetitions_with_every_estimate", "among_best", "source", *RUN),
)
WIDE = 1e4  # from this ratio of the largest to the smallest cell on, each has a power of ten of its own
LOWEST_EXPONENT = -300  # smaller powers of ten are no ordinary numbers
NO_ERROR = 1e-9  # relative: what is left of an error of nothing after rounding
PLAIN: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": 0, "show_edge": False, "pad_edge": False}
WIDTH = 1000  # numbers are never cut: a line too long for the terminal is wrapped by the terminal


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
    exponent = _exponent(mean) if math.isfinite(mean) else 0
    if exponent == 0:
        return concise(mean, error)
    return f"{concise(mean / 10.0**exponent, error / 10.0**exponent)}e{exponent:+03d}"


def _exponent(number: float) -> int:
    return 0 if number == 0 else max(math.floor(math.log10(abs(number))), LOWEST_EXPONENT)


def rows(results: Results, postprocess: PostprocessLike, metric: MetricLike = "mse") -> Iterator[dict[str, Any]]:
    """One row per data set, protocol and epsilon."""
    for name, result in results.items():
        mean, error = summary(result, postprocess, metric)
        closed, guide = _theory(result, postprocess, metric)
        fewest, all_attributes = with_estimate(result)
        best = among_best(result, postprocess, metric)
        for p, protocol in enumerate(result.protocols):
            for e, epsilon in enumerate(result.epsilons):
                row = (
                    *(name, result.n, len(result.domain), protocol, epsilon, name_of(metric), name_of(postprocess)),
                    *(len(result.repetitions), float(mean[p, e]), float(error[p, e])),
                    *(math.nan if closed is None else float(closed[p, e]), bool(guide[p, e])),
                    *(int(fewest[p, e]), int(all_attributes[p, e]), bool(best[p, e]), source_of(results, name)),
                    *run_of(result).values(),
                )
                yield dict(zip(FIELDS, row, strict=True))


def _theory(result: Result, postprocess: PostprocessLike, metric: MetricLike) -> tuple[Any, Any]:
    """What is expected, if there is theory, and where that is a guide only."""
    closed = expected(result, postprocess, metric)
    cells = len(result.protocols), len(result.epsilons)
    return closed, np.zeros(cells, bool) if closed is None else rough(result, postprocess)


def write(results: Results, form: str, fields: Sequence[str], rows: Iterator[dict[str, Any]]) -> None:
    """Rows as CSV or JSON."""
    if form == "csv":
        writer = csv.DictWriter(sys.stdout, fieldnames=fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        clean = [{k: None if v != v else v for k, v in row.items()} for row in rows]
        print(dumps({"complete": results.complete, "spec": results.spec, "rows": clean}, indent=2))


def console_for(results: Results) -> Console:
    """Says first if the file is not finished."""
    console = Console(width=WIDTH, highlight=False)
    if not results.complete:
        console.print("This run is not finished; the same command resumes it.")
    return console


def heading(results: Results, name: str, *more: str) -> str:
    """What stands above a table: the data set, what the table has, what is unusual about the run."""
    result, source = results[name], source_of(results, name)
    about = [
        f"{name}: n = {result.n:,}, d = {len(result.domain)}, {counted(len(result.repetitions), 'repetition')}",
        *more,
    ]
    about += [f"data: {source}"] if source else []
    return "; ".join([*about, *unusual(result)])


def stated(postprocess: PostprocessLike, metric: MetricLike = "mse") -> str:
    """Which errors: `MSE_avg, postprocess=clip-normalize`."""
    return f"{as_metric(metric).label}, postprocess={name_of(postprocess)}"


def show(results: Results, postprocess: PostprocessLike, form: str = "table", metric: MetricLike = "mse") -> None:
    """Print the table; `form` is table, csv or json."""
    postprocess = as_postprocess(postprocess)
    as_metric(metric)
    if form != "table":
        write(results, form, FIELDS, rows(results, postprocess, metric))
        return
    console = console_for(results)
    guides = False
    for name, result in results.items():
        mean, error = summary(result, postprocess, metric)
        exponent = unit_of(mean)
        unit = f" in units of 1e{exponent:+03d}" if exponent else ""
        console.print(heading(results, name, f"{stated(postprocess, metric)}{unit}"), markup=False)
        closed, guide = _theory(result, postprocess, metric)
        guides |= bool(guide.any())
        best = among_best(result, postprocess, metric)
        console.print(cells_table(result, mean, error, exponent, best, closed, guide))
        for line in (*_without_estimate(result), *without_number(result, postprocess)):
            console.print(line, markup=False)
    console.print(f"(standard error of the last digits); {marked(results, 'column', metric)}")
    if guides:
        console.print(f"~ rough: some value has fewer than {theory.ENOUGH_REPORTS} expected reports")


def unit_of(mean: Any) -> int | None:
    """The power of ten of a table; None if its numbers are too far apart for a common one."""
    sizes = np.abs(mean[np.isfinite(mean) & (mean != 0)])
    if not sizes.size or (sizes.min() >= 0.1 and sizes.max() < 1000):
        return 0  # shares, normalised errors: they are read as they are
    return None if float(sizes.max()) >= WIDE * float(sizes.min()) else _exponent(float(sizes.min()))


def _without_estimate(result: Result) -> Iterator[str]:
    """A line for protocols that left an attribute without any report in some repetition."""
    total = len(result.repetitions)
    fewest, complete = (numbers.min(axis=-1).tolist() for numbers in with_estimate(result))
    for numbers in dict.fromkeys(zip(fewest, complete, strict=True)):
        if numbers != (total, total):
            each = zip(result.plan.looks, fewest, complete, strict=True)
            names = [look.label for look, *own in each if (*own,) == numbers]
            yield (
                f"{', '.join(names)}: {numbers[1]:,} of {total:,} repetitions have an estimate of every attribute, "
                f"{numbers[0]:,} of the attribute that fewest sampled; averaged attribute by attribute"
            )


def without_number(result: Result, postprocess: PostprocessLike) -> Iterator[str]:
    """A line for protocols that a post-processing is not defined for."""
    reasons = result.undefined(postprocess)
    for reason in dict.fromkeys(reasons.values()):
        labels = [label for label, own in reasons.items() if own == reason]
        yield f"{', '.join(labels)}: – where {name_of(postprocess)} is not defined: {reason}"


def marked(results: Results, where: str, metric: MetricLike = "mse") -> str:
    """What the mark means."""
    if not repeated(results):
        return f"* the {'largest' if as_metric(metric).larger_is_better else 'smallest'} in its {where}"
    return f"* not significantly worse than the best in its {where} (paired differences, 95 %)"


def repeated(results: Results) -> bool:
    """Whether there is anything to tell noise from."""
    return any(len(result.repetitions) > 1 for result in results.values())


def cells_table(
    result: Result,
    mean: Any,
    error: Any,
    exponent: int | None = 0,
    best: Any = None,
    closed: Any = None,
    guide: Any = None,
) -> Table:
    """A line per protocol, a column per epsilon, in units of 10^`exponent`; None: a power of ten in each."""
    write, unit = (scientific, 1.0) if exponent is None else (concise, 10.0**exponent)
    table = plain_table("epsilon", map(show_epsilon, result.epsilons))
    for p, look in enumerate(result.plan.looks):
        cells = [write(mean[p, e] / unit, error[p, e] / unit) for e in range(len(result.epsilons))]
        table.add_row(escaped(look.label), *starred(cells, [False] * len(cells) if best is None else best[p]))
        if closed is not None:
            shown = [
                f"{'~' if g else ''}{write(x / unit, math.nan)} " for x, g in zip(closed[p], guide[p], strict=True)
            ]
            table.add_row("  theory", *shown, style="dim")
    return table


def starred(cells: Sequence[str], best: Iterable[Any]) -> list[str]:
    """The best ones bold, with a star."""
    return [f"[bold]{cell}*[/bold]" if b else f"{cell} " for cell, b in zip(cells, best, strict=True)]


def plain_table(first: str, columns: Iterable[str]) -> Table:
    """A table with a column on the left and numbers under each of the others."""
    table = Table(**PLAIN)
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(f" {escaped(column)}", justify="right", no_wrap=True)
    return table


def escaped(text: str) -> str:
    """Text of the user's or a protocol's, which may have brackets."""
    return text.replace("[", "\\[")
