"""Closer looks at results: two protocols against each other; the error of each attribute or value, and estimates."""

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

from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import Floats, check_postprocess
from gpu_rsfd.protocols import label
from gpu_rsfd.results import Result, Results
from gpu_rsfd.show.comparison import differences, maybe_best_of
from gpu_rsfd.show.summary import attribute_deviations, show_epsilon, source_of, summary
from gpu_rsfd.show.tables import WIDTH, concise, marked, repeated, scientific

MIDDLE = 0.95  # of the repetitions lie within the interval of an estimate
PER = ("attribute", "value")


def write(results: Results, form: str, fields: Sequence[str], rows: Iterator[dict[str, Any]]) -> None:
    """Rows as CSV or JSON."""
    if form == "csv":
        writer = csv.DictWriter(sys.stdout, fieldnames=fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        clean = [{k: None if v != v else v for k, v in row.items()} for row in rows]
        print(dumps({"complete": results.complete, "spec": results.spec, "rows": clean}, indent=2))


# ------------------------------------------------------------------------------------------- two protocols

COMPARED = (
    *("dataset", "users", "attributes", "protocol", "against", "epsilon", "postprocess", "repetitions"),
    *("difference", "standard_error", "ratio", "ratio_standard_error", "distinguishable", "source"),
)


def compare(results: Results, first: str, second: str, postprocess: str, form: str = "table") -> None:
    """Paired differences of MSE_avg with their standard errors; `form` is table, csv or json."""
    check_postprocess(postprocess)
    for name in (first, second):
        for result in results.values():
            if name not in result.protocols:
                raise InputError(f"no protocol {name!r} in the results; protocols: {', '.join(result.protocols)}")
    if first == second:
        raise InputError(f"compare={first},{second} names the same protocol twice; two different ones are needed")
    if form != "table":
        write(results, form, COMPARED, _compared(results, first, second, postprocess))
        return
    console = Console(width=WIDTH, highlight=False)
    for name, result in results.items():
        found = differences(result, first, second, postprocess)
        mean, error = summary(result, postprocess)
        table = _plain_table("epsilon", [show_epsilon(e) for e in result.epsilons])
        for protocol in (first, second):
            p = result.protocols.index(protocol)
            table.add_row(
                _escaped(label(protocol)), *(f"{scientific(*x)} " for x in zip(mean[p], error[p], strict=True))
            )
        marks = ["*" if d else " " for d in found.distinct]
        cells = [scientific(*x) for x in zip(found.difference, found.error, strict=True)]
        table.add_row("difference", *(f"[bold]{c}{m}[/bold]" for c, m in zip(cells, marks, strict=True)))
        table.add_row("ratio", *(f"{concise(*x)} " for x in zip(found.ratio, found.ratio_error, strict=True)))
        console.print(_heading(results, name), markup=False)
        console.print(table)
    noise = (
        "* told apart from 0 with 95 % confidence" if repeated(results) else "a single repetition: no standard errors"
    )
    console.print(
        f"postprocess={postprocess}; MSE_avg of {label(first)} minus that of {label(second)}, "
        f"repetition by repetition; {noise}",
        markup=False,
    )


def _compared(results: Results, first: str, second: str, postprocess: str) -> Iterator[dict[str, Any]]:
    for name, result in results.items():
        found = differences(result, first, second, postprocess)
        for e, epsilon in enumerate(result.epsilons):
            *numbers, distinct = (column[e] for column in found)
            row = (
                *(name, result.n, len(result.domain), first, second, epsilon, postprocess, len(result.repetitions)),
                *(float(number) for number in numbers),
                *(bool(distinct), source_of(results, name)),
            )
            yield dict(zip(COMPARED, row, strict=True))


# ---------------------------------------------------------------------------------- attributes and values

PER_ATTRIBUTE = (
    *("dataset", "users", "attribute", "values", "protocol", "epsilon", "postprocess", "repetitions"),
    *("repetitions_with_estimate", "mse", "standard_error", "largest_value_error"),
)
PER_VALUE = (
    *("dataset", "users", "attribute", "value", "protocol", "epsilon", "postprocess", "repetitions"),
    *("repetitions_with_estimate", "frequency", "estimate", "low", "high", "rmse"),
)


class Attributes(NamedTuple):
    """The error of each attribute, [protocol, epsilon, attribute]."""

    mse: Floats
    error: Floats  # standard error of mse
    largest: Floats  # the mean over repetitions of the largest absolute error of a value
    best: Any  # bool


class Values(NamedTuple):
    """The estimates of each value, [protocol, epsilon, value]."""

    estimate: Floats  # mean over repetitions
    low: Floats  # the middle 95 % of the repetitions
    high: Floats
    rmse: Floats


def attributes_of(result: Result, postprocess: str) -> Attributes:
    off = np.abs(result.estimates(postprocess) - result.frequencies)
    squares = np.stack([(off[..., c] ** 2).mean(axis=-1) for c in result.domain.slices], axis=-1)
    peaks = np.stack([off[..., c].max(axis=-1) for c in result.domain.slices], axis=-1)
    mean, away = attribute_deviations(squares)  # [protocol, epsilon, repetition, attribute]
    away = np.swapaxes(away, -1, -2)
    best = maybe_best_of(mean, away)
    return Attributes(mean, np.sqrt((away**2).sum(axis=-1)), attribute_deviations(peaks)[0], best)


def values_of(result: Result, postprocess: str) -> Values:
    estimates = result.estimates(postprocess)
    tail = (1 - MIDDLE) / 2
    known = np.isfinite(estimates)
    numbers = known.sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, estimates, 0).sum(axis=2) / numbers
        squares = np.where(known, (estimates - result.frequencies) ** 2, 0).sum(axis=2) / numbers
        if known.all():
            low, high = np.quantile(estimates, [tail, 1 - tail], axis=2)
        else:  # Smp on tiny data; NumPy warns where nobody ever reported
            some = np.where((numbers == 0)[:, :, None], 0.0, estimates)
            low, high = (np.where(numbers == 0, np.nan, q) for q in np.nanquantile(some, [tail, 1 - tail], axis=2))
    return Values(mean, low, high, np.sqrt(squares))


def per(results: Results, what: str, postprocess: str, form: str = "table") -> None:
    """The error of each attribute or of each value; `form` is table, csv or json."""
    check_postprocess(postprocess)
    if what not in PER:
        raise InputError(f"per={what} must be one of {', '.join(PER)}")
    if form != "table":
        attributes = what == "attribute"
        rows = (attribute_rows if attributes else value_rows)(results, postprocess)
        write(results, form, PER_ATTRIBUTE if attributes else PER_VALUE, rows)
        return
    console = Console(width=WIDTH, highlight=False)
    for name, result in results.items():
        console.print(_heading(results, name), markup=False)
        tables = _attribute_tables if what == "attribute" else _value_tables
        for line in tables(result, postprocess):
            console.print(line) if isinstance(line, Table) else console.print(line, markup=False)
    single = any(len(result.protocols) == 1 for result in results.values())
    if what == "attribute":
        explained = (
            "mean squared error of an attribute's values (standard error of the last digits); "
            f"{marked(results, 'line')}; largest: the largest error of a value, mean over repetitions"
        )
    elif single:
        explained = (
            "mean of the estimates; interval: the middle 95 % of the repetitions, as a single collection would fall"
        )
    else:
        explained = "root of the mean squared error; a single --protocol gives estimates with intervals"
    console.print(f"postprocess={postprocess}; {explained}", markup=False)


def _attribute_tables(result: Result, postprocess: str) -> Iterator[Table | str]:
    found = attributes_of(result, postprocess)
    for e, epsilon in enumerate(result.epsilons):
        table = _plain_table(f"ε = {show_epsilon(epsilon)}", map(label, result.protocols))
        for j, (name, k) in enumerate(zip(result.names, result.domain, strict=True)):
            cells = [scientific(*x) for x in zip(found.mse[:, e, j], found.error[:, e, j], strict=True)]
            shown = [f"[bold]{c}*[/bold]" if b else f"{c} " for c, b in zip(cells, found.best[:, e, j], strict=True)]
            table.add_row(_escaped(f"{name} (k = {k})"), *shown)
            table.add_row("  largest", *(f"{_number(x)} " for x in found.largest[:, e, j]), style="dim")
        yield table


def _value_tables(result: Result, postprocess: str) -> Iterator[Table | str]:
    found = values_of(result, postprocess)
    for e, epsilon in enumerate(result.epsilons):
        for j, columns in enumerate(result.domain.slices):
            heading = f"{result.names[j]}, ε = {show_epsilon(epsilon)}"
            if len(result.protocols) == 1:
                yield f"{heading}, {label(result.protocols[0])}"
                table = _plain_table("value", ["truth", "estimate", "interval", "RMSE"])
            else:
                yield heading
                table = _plain_table("value", ["truth", *map(label, result.protocols)])
            for v in range(columns.start, columns.stop):
                cells = [f"{result.frequencies[v]:.4f}"]
                if len(result.protocols) == 1:
                    low, high = found.low[0, e, v], found.high[0, e, v]
                    cells += [_fixed(found.estimate[0, e, v]), f"{_fixed(low)} … {_fixed(high)}"]
                cells += [_number(x) for x in found.rmse[:, e, v]]
                table.add_row(_escaped(_value_name(result, j, v - columns.start)), *cells)
            yield table


def attribute_rows(results: Results, postprocess: str) -> Iterator[dict[str, Any]]:
    """One row per data set, protocol, epsilon and attribute."""
    for name, result in results.items():
        found = attributes_of(result, postprocess)
        reported = (result.reporters > 0).sum(axis=2)
        for p, protocol in enumerate(result.protocols):
            for e, epsilon in enumerate(result.epsilons):
                for j, attribute in enumerate(result.names):
                    row = (
                        *(name, result.n, attribute, result.domain[j], protocol, epsilon, postprocess),
                        *(len(result.repetitions), int(reported[p, e, j])),
                        *(float(numbers[p, e, j]) for numbers in found[:3]),
                    )
                    yield dict(zip(PER_ATTRIBUTE, row, strict=True))


def value_rows(results: Results, postprocess: str) -> Iterator[dict[str, Any]]:
    """One row per data set, protocol, epsilon and value."""
    for name, result in results.items():
        found = values_of(result, postprocess)
        reported = (result.reporters > 0).sum(axis=2)
        for p, protocol in enumerate(result.protocols):
            for e, epsilon in enumerate(result.epsilons):
                for j, columns in enumerate(result.domain.slices):
                    for v in range(columns.start, columns.stop):
                        row = (
                            *(name, result.n, result.names[j], _value_name(result, j, v - columns.start), protocol),
                            *(epsilon, postprocess, len(result.repetitions), int(reported[p, e, j])),
                            *(float(result.frequencies[v]), *(float(numbers[p, e, v]) for numbers in found)),
                        )
                        yield dict(zip(PER_VALUE, row, strict=True))


def _value_name(result: Result, attribute: int, value: int) -> str:
    return str(value) if result.labels is None else result.labels[attribute][value]


def _heading(results: Results, name: str) -> str:
    result, source = results[name], source_of(results, name)
    return (
        f"{name}: n = {result.n:,}, d = {len(result.domain)}, {len(result.repetitions)} repetitions"
        f"{f'; data: {source}' if source else ''}"
    )


def _plain_table(first: str, columns: Any) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(f" {_escaped(column)}", justify="right", no_wrap=True)
    return table


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "–"


def _fixed(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "–"
