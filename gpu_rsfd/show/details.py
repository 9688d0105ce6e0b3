"""Closer looks at results: two protocols against each other; the error of each attribute or value, and estimates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.results.estimate import NOT_NEGATIVE, SUM_TO_ONE, Floats, PostprocessLike, as_postprocess
from gpu_rsfd.results.metrics import MetricLike, as_metric, name_of
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show.comparison import among_best_of, differences, half_width
from gpu_rsfd.show.selection import select
from gpu_rsfd.show.summary import RUN, attribute_deviations, run_of, source_of, summary
from gpu_rsfd.show.tables import (
    concise,
    console_for,
    escaped,
    heading,
    marked,
    plain_table,
    repeated,
    scientific,
    starred,
    stated,
    without_number,
    write,
)

PER = ("attribute", "value")


# ------------------------------------------------------------------------------------------- two protocols

COMPARED = (
    *("dataset", "users", "attributes", "protocol", "against", "epsilon", "metric", "postprocess", "repetitions"),
    *("difference", "standard_error", "ratio", "ratio_standard_error", "significantly_different", "source", *RUN),
)


def compare(
    results: Results,
    first: str,
    second: str,
    postprocess: PostprocessLike,
    form: str = "table",
    metric: MetricLike = "mse",
) -> None:
    """Paired differences of errors with their standard errors; `form` is table, csv or json."""
    postprocess = as_postprocess(postprocess)
    as_metric(metric)
    for name in (first, second):
        for result in results.values():
            if name not in result.protocols:
                raise InputError(f"no protocol {name!r} in the results; protocols: {', '.join(result.protocols)}")
    if first == second:
        raise InputError(f"compare={first},{second} names the same protocol twice; two different ones are needed")
    if form != "table":
        write(results, form, COMPARED, _compared(results, first, second, postprocess, metric))
        return
    console = console_for(results)
    for name, result in select(results, protocols=[first, second]).items():  # the rest is not spoken of
        found = differences(result, first, second, postprocess, metric)
        mean, error = summary(result, postprocess, metric)
        table = plain_table("epsilon", map(show_epsilon, result.epsilons))
        looks = [result.look(protocol) for protocol in (first, second)]
        for look in looks:
            p = result.protocols.index(look.name)
            cells = [f"{scientific(*x)} " for x in zip(mean[p], error[p], strict=True)]
            table.add_row(escaped(look.label), *cells)
        cells = [scientific(*x) for x in zip(found.difference, found.error, strict=True)]
        table.add_row("difference", *starred(cells, found.significant))
        table.add_row("ratio", *(f"{concise(*x)} " for x in zip(found.ratio, found.ratio_error, strict=True)))
        console.print(heading(results, name, stated(postprocess, metric)), markup=False)
        console.print(table)
        console.print(
            f"{as_metric(metric).label} of {looks[0].label} minus that of {looks[1].label}, repetition by repetition",
            markup=False,
        )
        for line in without_number(result, postprocess):
            console.print(line, markup=False)
    noise = (
        "* significantly different from 0 (95 %)" if repeated(results) else "a single repetition: no standard errors"
    )
    console.print(f"(standard error of the last digits); {noise}")


def _compared(
    results: Results, first: str, second: str, postprocess: PostprocessLike, metric: MetricLike
) -> Iterator[dict[str, Any]]:
    how = name_of(metric), name_of(postprocess)
    for name, result in results.items():
        found = differences(result, first, second, postprocess, metric)
        for e, epsilon in enumerate(result.epsilons):
            *numbers, significant = (column[e] for column in found)
            row = (
                *(name, result.n, len(result.domain), first, second, epsilon, *how, len(result.repetitions)),
                *(float(number) for number in numbers),
                *(bool(significant), source_of(results, name), *run_of(result).values()),
            )
            yield dict(zip(COMPARED, row, strict=True))


# ---------------------------------------------------------------------------------- attributes and values

PER_ATTRIBUTE = (
    *("dataset", "users", "attribute", "values", "protocol", "epsilon", "metric", "postprocess", "repetitions"),
    *("repetitions_with_estimate", "error", "standard_error", "largest_value_error", *RUN),
)
PER_VALUE = (
    *("dataset", "users", "attribute", "value", "protocol", "epsilon", "postprocess", "repetitions"),
    *("repetitions_with_estimate", "frequency", "estimate", "low", "high", "rmse", *RUN),
)


class Attributes(NamedTuple):
    """The error of each attribute, [protocol, epsilon, attribute]."""

    mean: Floats
    error: Floats  # its standard error
    largest: Floats  # the largest absolute error of a value, mean over repetitions
    best: Any  # bool


class Values(NamedTuple):
    """The estimates of each value, [protocol, epsilon, value]."""

    estimate: Floats  # mean over repetitions
    low: Floats  # a 95 % prediction interval: where the estimate of one more collection falls
    high: Floats
    rmse: Floats


def attributes_of(result: Result, postprocess: PostprocessLike, metric: MetricLike = "mse") -> Attributes:
    """Means over repetitions."""
    mean, deviation = attribute_deviations(result.error_per_attribute(metric, postprocess))
    deviation = np.swapaxes(deviation, -1, -2)
    largest, _ = attribute_deviations(result.error_per_attribute("max", postprocess))
    known = (result.reporters > 0).sum(axis=2)
    best = among_best_of(mean, deviation, known, as_metric(metric).larger_is_better)
    return Attributes(mean, np.sqrt((deviation**2).sum(axis=-1)), largest, best)


def values_of(result: Result, postprocess: PostprocessLike) -> Values:
    """Over repetitions; NaN for a value that was never reported."""
    estimates = result.estimates(postprocess)
    known = np.isfinite(estimates)
    numbers = known.sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, estimates, 0).sum(axis=2) / numbers
        squares = np.where(known, (estimates - result.frequencies) ** 2, 0).sum(axis=2) / numbers
        away = np.where(known, estimates - mean[:, :, None], 0)
        deviation = np.sqrt((away**2).sum(axis=2) / (numbers - 1))
        half = half_width(deviation * np.sqrt(1 + 1 / numbers), numbers)
    return Values(mean, *cut(mean - half, mean + half, postprocess), np.sqrt(squares))


def cut(low: Floats, high: Floats, postprocess: PostprocessLike) -> tuple[Floats, Floats]:
    """An interval without what a post-processing never gives: below 0, and, of frequencies that sum to 1, above 1."""
    low = np.maximum(low, 0) if postprocess in NOT_NEGATIVE else low
    return low, np.minimum(high, 1) if postprocess in SUM_TO_ONE else high


def per(
    results: Results, what: str, postprocess: PostprocessLike, form: str = "table", metric: MetricLike = "mse"
) -> None:
    """The error of each attribute or of each value; `form` is table, csv or json."""
    postprocess = as_postprocess(postprocess)
    if what not in PER:
        raise InputError(f"per={what} must be one of {', '.join(PER)}")
    attributes = what == "attribute"
    if not attributes and name_of(metric) != "mse":
        raise InputError(f"metric={name_of(metric)} is defined for a whole attribute; the error of a value is its RMSE")
    if form != "table":
        rows = attribute_rows(results, postprocess, metric) if attributes else value_rows(results, postprocess)
        write(results, form, PER_ATTRIBUTE if attributes else PER_VALUE, rows)
        return
    console = console_for(results)
    shown = stated(postprocess, metric).replace("_avg", " of each attribute", 1) if attributes else None
    for name, result in results.items():
        console.print(heading(results, name, shown or f"postprocess={name_of(postprocess)}"), markup=False)
        tables = _attribute_tables(result, postprocess, metric) if attributes else _value_tables(result, postprocess)
        for line in tables:
            console.print(line) if isinstance(line, Table) else console.print(line, markup=False)
        for line in without_number(result, postprocess):
            console.print(line, markup=False)
    single = any(len(result.protocols) == 1 for result in results.values())
    if attributes:
        explained = (
            f"(standard error of the last digits); {marked(results, 'row', metric)}; "
            "largest: the largest error of a value, mean over repetitions"
        )
    elif single:
        explained = "estimate: mean over repetitions; interval: 95 % prediction interval for one more collection"
    else:
        explained = "root of the mean squared error; a single --protocol gives estimates with intervals"
    console.print(explained, markup=False)


def _attribute_tables(result: Result, postprocess: PostprocessLike, metric: MetricLike) -> Iterator[Table | str]:
    found = attributes_of(result, postprocess, metric)
    for e, epsilon in enumerate(result.epsilons):
        table = plain_table(f"ε = {show_epsilon(epsilon)}", (look.label for look in result.plan.looks))
        for j, (name, k) in enumerate(zip(result.names, result.domain, strict=True)):
            cells = [scientific(*x) for x in zip(found.mean[:, e, j], found.error[:, e, j], strict=True)]
            table.add_row(escaped(f"{name} (k = {k})"), *starred(cells, found.best[:, e, j]))
            table.add_row("  largest", *(f"{_number(x)} " for x in found.largest[:, e, j]), style="dim")
        yield table


def _value_tables(result: Result, postprocess: PostprocessLike) -> Iterator[Table | str]:
    found, labels = values_of(result, postprocess), [look.label for look in result.plan.looks]
    for e, epsilon in enumerate(result.epsilons):
        for j, columns in enumerate(result.domain.slices):
            title = f"{result.names[j]}, ε = {show_epsilon(epsilon)}"
            if len(result.protocols) == 1:
                yield f"{title}, {labels[0]}"
                table = plain_table("value", ["truth", "estimate", "interval", "RMSE"])
            else:
                yield title
                table = plain_table("value", ["truth", *labels])
            for v in range(columns.start, columns.stop):
                cells = [f"{result.frequencies[v]:.4f}"]
                if len(result.protocols) == 1:
                    low, high = found.low[0, e, v], found.high[0, e, v]
                    cells += [_fixed(found.estimate[0, e, v]), f"{_fixed(low)} … {_fixed(high)}"]
                cells += [_number(x) for x in found.rmse[:, e, v]]
                table.add_row(escaped(_value_name(result, j, v - columns.start)), *cells)
            yield table


def attribute_rows(
    results: Results, postprocess: PostprocessLike, metric: MetricLike = "mse"
) -> Iterator[dict[str, Any]]:
    """One row per data set, protocol, epsilon and attribute."""
    how = name_of(metric), name_of(postprocess)
    for name, result in results.items():
        found = attributes_of(result, postprocess, metric)
        reported = (result.reporters > 0).sum(axis=2)
        for p, protocol in enumerate(result.protocols):
            for e, epsilon in enumerate(result.epsilons):
                for j, attribute in enumerate(result.names):
                    row = (
                        *(name, result.n, attribute, result.domain[j], protocol, epsilon, *how),
                        *(len(result.repetitions), int(reported[p, e, j])),
                        *(float(numbers[p, e, j]) for numbers in found[:3]),
                        *run_of(result).values(),
                    )
                    yield dict(zip(PER_ATTRIBUTE, row, strict=True))


def value_rows(results: Results, postprocess: PostprocessLike) -> Iterator[dict[str, Any]]:
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
                            *(epsilon, name_of(postprocess), len(result.repetitions), int(reported[p, e, j])),
                            *(float(result.frequencies[v]), *(float(numbers[p, e, v]) for numbers in found)),
                            *run_of(result).values(),
                        )
                        yield dict(zip(PER_VALUE, row, strict=True))


def _value_name(result: Result, attribute: int, value: int) -> str:
    return str(value) if result.labels is None else result.labels[attribute][value]


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "–"


def _fixed(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "–"
