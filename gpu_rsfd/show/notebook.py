"""Results in a notebook: a line, the table, data frames, xarray, figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import counted, show_epsilon
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show.charts import library
from gpu_rsfd.show.rows import How, Row, as_results, check_how, tidy_rows, value_names

MOST_NAMED = 6  # protocols, epsilons or data sets in a line
PER = ("cell", "repetition", "attribute", "value")


def few(names: Sequence[str]) -> str:
    """Names in a line; of many, the first ones."""
    more = f", … ({len(names)} in all)" if len(names) > MOST_NAMED else ""
    return ", ".join(names[: MOST_NAMED - 1 if more else MOST_NAMED]) + more


def text(results: Results | Result) -> str:
    """What is in it, in a line."""
    if isinstance(results, Results):
        runs = f"; runs: {few([label for label, _ in results.runs])}" if results.runs else ""
        return f"Results({few(list(results))}{runs})"
    protocols, epsilons = few(results.protocols), few([show_epsilon(epsilon) for epsilon in results.epsilons])
    size = f"n={results.n:,}, d={len(results.domain)}, {counted(len(results.repetitions), 'repetition')}"
    return f"{type(results).__name__}({size}; protocols: {protocols}; epsilons: {epsilons})"


def html(results: Results | Result) -> str:
    """A table for each data set and column."""
    from gpu_rsfd.show import tables

    return tables.html(as_results(results), named=isinstance(results, Results))


def to_dataframe(results: Results | Result, per: str, postprocess: Any, metric: Any) -> Any:
    from gpu_rsfd.show import tables

    how, several = How.of(postprocess, metric), as_results(results)
    check_how(several, postprocess=postprocess, metric=metric)
    if per not in PER:
        raise InputError(f"per={per} must be one of {', '.join(PER)}")
    rows = tidy_rows(several, how, per == "repetition") if per in PER[:2] else tables.detail_rows(several, per, how)
    found = frame(rows)
    return found.drop(columns="source", errors="ignore") if isinstance(results, Result) else found


def frame(rows: Iterable[Row]) -> Any:
    """Rows as a pandas DataFrame."""
    return library("pandas", "notebook").DataFrame.from_records(list(rows))


def to_xarray(results: Results | Result) -> Any:
    if isinstance(results, Results):
        if results.runs:
            return {label: to_xarray(run) for label, run in results.runs}
        return {name: to_xarray(result) for name, result in results.items()}
    xarray, result = library("xarray", "notebook"), results
    attributes = np.repeat(np.arange(len(result.domain)), result.domain)
    mechanisms = [[[m.name for m in row] for row in table] for table in result.plan.mechanisms]
    variables = {
        **{name: (result.dims(name), result[name]) for name in result.arrays},
        "protocol_label": (("protocol",), [look.label for look in result.plan.looks]),
        "mechanism": (("protocol", "epsilon", "attribute"), mechanisms),
        "frequency": (("value",), result.frequencies),
        "value_attribute": (("value",), attributes.astype(np.int32)),
        "domain": (("attribute",), np.array(result.domain, np.int32)),
        **({} if result.labels is None else {"label": (("value",), [*chain(*result.labels)])}),
    }
    scales = {
        "protocol": list(result.protocols),
        "epsilon": list(result.epsilons),
        "repetition": np.array(result.repetitions, np.uint64),
        **{dim: list(values) for dim, values in result.coords.items()},
        "attribute": list(result.names),
        "value": value_names(result),
    }
    return xarray.Dataset(variables, scales, {key: value for key, value in result.size.items() if value is not None})


def plot(results: Any, postprocess: Any, x: str, attribute: str | None, metric: Any, *paper: Any) -> Any:
    from gpu_rsfd.show import panels, plots

    how, on, several = How.of(postprocess, metric), panels.Paper.of(*paper), as_results(results)
    check_how(several, postprocess=postprocess, metric=metric, attribute=attribute)
    return plots.figure_of(several, how, x, on, attribute)
