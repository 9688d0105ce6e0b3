"""Closer looks at results: two protocols against each other; the error of each attribute or value, and estimates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.results.estimate import NOT_NEGATIVE, SUM_TO_ONE, Floats, PostprocessLike
from gpu_rsfd.results.metrics import as_metric, name_of
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show.rows import How, Row, place_name, run_of, select, shown, source_of, value_name
from gpu_rsfd.show.statistics import Means, among_best, attribute_means, differences, half_width
from gpu_rsfd.show.tables import (
    BRACKETS,
    concise,
    console_for,
    escaped,
    heading,
    plain_table,
    scientific,
    starred,
    without_number,
    write,
)

PER = ("attribute", "value")


# ------------------------------------------------------------------------------------------------------- two protocols


def compare(results: Results, first: str, second: str, how: How, form: str = "table") -> None:
    """Paired differences with their standard errors; `form` is table, csv or json."""
    for name in (first, second):
        for result in results.values():
            if name not in result.protocols:
                raise InputError(f"no protocol {name!r} in the results; protocols: {', '.join(result.protocols)}")
    if first == second:
        raise InputError(f"compare={first},{second} names the same protocol twice; two different ones are needed")
    if form != "table":
        write(results, form, _compared(results, first, second, how))
        return
    console = console_for(results)
    for name, result in select(results, protocols=[first, second]).items():  # the rest is not spoken of
        a, b = result.protocols.index(first), result.protocols.index(second)
        labels = [result.plan.looks[p].label for p in (a, b)]
        every = shown(name, result, how)
        titles = ["; ".join(filter(None, (cells.column.label, place_name(cells.place)))) for cells in every]
        console.print(heading(results, name, *(titles if len(every) == 1 else [])), markup=False)
        for cells, title in zip(every, titles, strict=True):
            if len(every) > 1:
                console.print(title, markup=False)
            found = differences(cells.means, a, b)
            table = plain_table("epsilon", map(show_epsilon, result.epsilons))
            for label, p in zip(labels, (a, b), strict=True):
                pairs = zip(cells.mean[p], cells.error[p], strict=True)
                table.add_row(escaped(label), *(f"{scientific(*x)} " for x in pairs))
            texts = [scientific(*x) for x in zip(found.difference, found.error, strict=True)]
            table.add_row("difference", *starred(texts, found.significant))
            table.add_row("ratio", *(f"{concise(*x)} " for x in zip(found.ratio, found.ratio_error, strict=True)))
            console.print(table)
            what = cells.column.axis or cells.column.label
            console.print(f"{what} of {labels[0]} minus that of {labels[1]}, repetition by repetition", markup=False)
            for line in () if cells.how is None else without_number(result, how):
                console.print(line, markup=False)
    repeated = any(len(result.repetitions) > 1 for result in results.values())
    noise = "* significantly different from 0 (95 %)" if repeated else "a single repetition: no standard errors"
    console.print(f"{BRACKETS}; {noise}")


def _compared(results: Results, first: str, second: str, how: How) -> Iterator[Row]:
    """One row per data set, column, place and epsilon."""
    for name, result in results.items():
        every = shown(name, result, how)
        blank = {dim: None for cells in every for dim in cells.place}
        for cells in every:
            found = differences(cells.means, result.protocols.index(first), result.protocols.index(second))
            for e, epsilon in enumerate(result.epsilons):
                yield {
                    **{"dataset": name, "users": result.n, "attributes": len(result.domain), "protocol": first},
                    **{"against": second, "epsilon": epsilon},
                    **({"column": cells.field} if cells.how is None else cells.how.names),
                    **{"repetitions": len(result.repetitions), **blank, **cells.place},
                    "difference": float(found.difference[e]),
                    "standard_error": float(found.error[e]),
                    "ratio": float(found.ratio[e]),
                    "ratio_standard_error": float(found.ratio_error[e]),
                    "significantly_different": bool(found.significant[e]),
                    **{"source": source_of(results, name), **run_of(result)},
                }


# ----------------------------------------------------------------------------------------------- attributes and values


class Attributes(NamedTuple):
    """The error of each attribute, [protocol, epsilon, attribute]."""

    means: Means
    largest: Floats  # the largest absolute error of a value, mean over repetitions
    best: Any  # bool


class Values(NamedTuple):
    """The estimates of each value, [protocol, epsilon, value]."""

    estimate: Floats  # mean over repetitions
    low: Floats  # a 95 % prediction interval: where the estimate of one more collection falls
    high: Floats
    rmse: Floats


def attributes_of(result: Result, how: How) -> Attributes:
    """Means over repetitions."""
    found = attribute_means(result.error_per_attribute(how.metric, how.postprocess))
    found = found._replace(known=(result.reporters > 0).sum(axis=2))
    largest = attribute_means(result.error_per_attribute("max", how.postprocess)).mean
    better = "larger" if as_metric(how.metric).larger_is_better else "smaller"
    return Attributes(found, largest, among_best(found, better))


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
    # without what a post-processing never gives: below 0, and, of frequencies that sum to 1, above 1
    low = np.maximum(mean - half, 0) if postprocess in NOT_NEGATIVE else mean - half
    high = np.minimum(mean + half, 1) if postprocess in SUM_TO_ONE else mean + half
    return Values(mean, low, high, np.sqrt(squares))


def per(results: Results, what: str, how: How, form: str = "table") -> None:
    """The error of each attribute or of each value; `form` is table, csv or json."""
    if what not in PER:
        raise InputError(f"per={what} must be one of {', '.join(PER)}")
    attributes, metric, kind = what == "attribute", as_metric(how.metric), name_of(how.postprocess)
    if not attributes and name_of(how.metric) != "mse":
        raise InputError(
            f"metric={name_of(how.metric)} is defined for a whole attribute; the error of a value is its RMSE"
        )
    if form != "table":
        write(results, form, attribute_rows(results, how) if attributes else value_rows(results, how))
        return
    console = console_for(results)
    title = f"{metric.label.replace('_avg', ' of each attribute', 1)}, " if attributes else ""
    for name, result in results.items():
        console.print(heading(results, name, f"{title}postprocess={kind}"), markup=False)
        for part in _attribute_tables(result, how) if attributes else _value_tables(result, how):
            console.print(part, markup=False)
        for line in without_number(result, how):
            console.print(line, markup=False)
    if attributes:
        extreme = "largest" if metric.larger_is_better else "smallest"
        repeated = any(len(result.repetitions) > 1 for result in results.values())
        noise = "not significantly worse than the best in its row (paired differences, 95 %)"
        explained = f"{BRACKETS}; * {noise if repeated else f'the {extreme} in its row'}; "
        explained += "largest: the largest error of a value, mean over repetitions"
    elif any(len(result.protocols) == 1 for result in results.values()):
        explained = "estimate: mean over repetitions; interval: 95 % prediction interval for one more collection"
    else:
        explained = "root of the mean squared error; a single --protocol gives estimates with intervals"
    console.print(explained, markup=False)


def _attribute_tables(result: Result, how: How) -> Iterator[Table]:
    found = attributes_of(result, how)
    for e, epsilon in enumerate(result.epsilons):
        table = plain_table(f"ε = {show_epsilon(epsilon)}", (look.label for look in result.plan.looks))
        for j, (name, k) in enumerate(zip(result.names, result.domain, strict=True)):
            pairs = zip(found.means.mean[:, e, j], found.means.error[:, e, j], strict=True)
            table.add_row(escaped(f"{name} (k = {k})"), *starred([scientific(*x) for x in pairs], found.best[:, e, j]))
            table.add_row("  largest", *(f"{_number(x)} " for x in found.largest[:, e, j]), style="dim")
        yield table


def _value_tables(result: Result, how: How) -> Iterator[Table | str]:
    found, labels = values_of(result, how.postprocess), [look.label for look in result.plan.looks]
    alone = len(result.protocols) == 1
    for e, epsilon in enumerate(result.epsilons):
        for j, columns in enumerate(result.domain.slices):
            yield f"{result.names[j]}, ε = {show_epsilon(epsilon)}" + (f", {labels[0]}" if alone else "")
            table = plain_table("value", ["truth", *(["estimate", "interval", "RMSE"] if alone else labels)])
            for v in range(columns.start, columns.stop):
                cells = [f"{result.frequencies[v]:.4f}"]
                if alone:
                    mean, low, high = (_number(numbers[0, e, v], ".4f") for numbers in found[:3])
                    cells += [mean, f"{low} … {high}"]
                cells += [_number(x) for x in found.rmse[:, e, v]]
                table.add_row(escaped(value_name(result, j, v - columns.start)), *cells)
            yield table


def attribute_rows(results: Results, how: How) -> Iterator[Row]:
    """One row per data set, protocol, epsilon and attribute."""
    for name, result in results.items():
        found = attributes_of(result, how)
        for p, e, j in product(*map(range, found.largest.shape)):
            yield {
                **{"dataset": name, "users": result.n, "attribute": result.names[j], "values": result.domain[j]},
                **{"protocol": result.protocols[p], "epsilon": result.epsilons[e], **how.names},
                **{
                    "repetitions": len(result.repetitions),
                    "repetitions_with_estimate": int(found.means.known[p, e, j]),
                },
                **{"error": float(found.means.mean[p, e, j]), "standard_error": float(found.means.error[p, e, j])},
                **{"largest_value_error": float(found.largest[p, e, j]), **run_of(result)},
            }


def value_rows(results: Results, how: How) -> Iterator[Row]:
    """One row per data set, protocol, epsilon and value."""
    for name, result in results.items():
        found, reported = values_of(result, how.postprocess), (result.reporters > 0).sum(axis=2)
        values = [(j, v) for j, k in enumerate(result.domain) for v in range(k)]
        for p, e, i in product(range(len(result.protocols)), range(len(result.epsilons)), range(len(values))):
            j, v = values[i]
            yield {
                **{"dataset": name, "users": result.n, "attribute": result.names[j], "value": value_name(result, j, v)},
                **{"protocol": result.protocols[p], "epsilon": result.epsilons[e]},
                **{"postprocess": name_of(how.postprocess), "repetitions": len(result.repetitions)},
                **{"repetitions_with_estimate": int(reported[p, e, j]), "frequency": float(result.frequencies[i])},
                **{key: float(numbers[p, e, i]) for key, numbers in found._asdict().items()},
                **run_of(result),
            }


def _number(value: float, form: str = ".3g") -> str:
    return f"{value:{form}}" if math.isfinite(value) else "–"
