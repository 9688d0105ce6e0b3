"""Results in a notebook: the table, data frames, xarray, figures."""

from __future__ import annotations

import io
from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import POSTPROCESS, check_postprocess
from gpu_rsfd.protocols import label
from gpu_rsfd.results import Result, Results
from gpu_rsfd.show.comparison import maybe_best
from gpu_rsfd.show.summary import show_epsilon, source_of, summary

SHOWN = "clip-normalize"
MOST_SHOWN = 20  # data sets; more are counted
PER = ("cell", "repetition", "attribute", "value")


def _several(results: Result | Results) -> Results:
    return results if isinstance(results, Results) else Results({"result": results})


def text(results: Result | Results) -> str:
    """What is in it, in a line."""
    if isinstance(results, Result):
        protocols, epsilons = ", ".join(results.protocols), ", ".join(map(show_epsilon, results.epsilons))
        size = f"n={results.n:,}, d={len(results.domain)}, {len(results.repetitions)} repetitions"
        return f"Result({size}; protocols: {protocols}; epsilons: {epsilons})"
    return f"Results({', '.join(results)})"


def html(results: Result | Results) -> str:
    """A table for each data set, after clip-normalize; the user's own text is escaped."""
    from gpu_rsfd.show.tables import marked, scientific

    several = _several(results)
    if not several:
        return "<p>no results</p>"
    parts = []
    for name, result in list(several.items())[:MOST_SHOWN]:
        mean, error = summary(result, SHOWN)
        best = maybe_best(result, SHOWN)
        heads = "".join(f"<th>ε = {show_epsilon(e)}</th>" for e in result.epsilons)
        lines = []
        for p, protocol in enumerate(result.protocols):
            cells = [scientific(*cell) for cell in zip(mean[p], error[p], strict=True)]
            marks = [f"<td><b>{c} *</b></td>" if b else f"<td>{c}</td>" for c, b in zip(cells, best[p], strict=True)]
            lines.append(f"<tr><th>{escape(label(protocol))}</th>{''.join(marks)}</tr>")
        source = source_of(several, name)
        about = f"n = {result.n:,}, d = {len(result.domain)}, {len(result.repetitions)} repetitions"
        title = about if isinstance(results, Result) else f"{escape(name)}: {about}"
        parts.append(
            f"<table><caption>{title}{f'; data: {escape(source)}' if source else ''}</caption>"
            f"<thead><tr><th>MSE_avg</th>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
        )
    more = f"; {len(several) - MOST_SHOWN} more data sets" if len(several) > MOST_SHOWN else ""
    unfinished = "" if several.complete else "; the sweep is not finished"
    note = f"{SHOWN}; (standard error of the last digits); {marked(several, 'column')}{more}{unfinished}"
    return f"<div>{''.join(parts)}<p>{note}</p></div>"


def to_dataframe(results: Result | Results, per: str = "cell", postprocess: str | None = None) -> Any:
    pandas = _library("pandas")
    if per not in PER:
        raise InputError(f"per={per} must be one of {', '.join(PER)}")
    kinds = list(POSTPROCESS) if postprocess is None else [check_postprocess(postprocess)]
    frame = pandas.DataFrame.from_records([row for kind in kinds for row in _rows(_several(results), per, kind)])
    return frame.drop(columns=["dataset", "source"], errors="ignore") if isinstance(results, Result) else frame


def _rows(results: Results, per: str, postprocess: str) -> Iterator[dict[str, Any]]:
    from gpu_rsfd.show import details, tables

    if per == "cell":
        return tables.rows(results, postprocess)
    if per == "repetition":
        return _repetition_rows(results, postprocess)
    return (details.attribute_rows if per == "attribute" else details.value_rows)(results, postprocess)


def _repetition_rows(results: Results, postprocess: str) -> Iterator[dict[str, Any]]:
    for name, result in results.items():
        mse = result.mse(postprocess)
        for p, protocol in enumerate(result.protocols):
            for e, epsilon in enumerate(result.epsilons):
                for r, repetition in enumerate(result.repetitions):
                    yield {
                        **{"dataset": name, "users": result.n, "protocol": protocol, "epsilon": epsilon},
                        **{"postprocess": postprocess, "repetition": repetition, "mse_avg": float(mse[p, e, r])},
                    }


def to_xarray(results: Result | Results) -> Any:
    if isinstance(results, Results):
        return {name: to_xarray(result) for name, result in results.items()}
    xarray = _library("xarray")
    result, cell = results, ("protocol", "epsilon")
    attributes = np.repeat(np.arange(len(result.domain)), result.domain)
    names = [_value(result, j, v) for j, k in enumerate(result.domain) for v in range(k)]
    errors = result.errors if result.errors is not None else np.stack([result.mse(kind) for kind in POSTPROCESS])
    variables = {
        **({"counts": ((*cell, "repetition", "value"), result.counts)} if result.has_counts else {}),
        "reporters": ((*cell, "repetition", "attribute"), result.reporters),
        "mse": (("postprocess", *cell, "repetition"), errors),
        "mechanism": ((*cell, "attribute"), [[[m.name for m in row] for row in t] for t in result.plan.mechanisms]),
        "frequency": (("value",), result.frequencies),
        "value_attribute": (("value",), attributes.astype(np.int32)),
        "domain": (("attribute",), np.array(result.domain, np.int32)),
        **({} if result.labels is None else {"label": (("value",), names)}),
    }
    scales = {
        "protocol": list(result.protocols),
        "epsilon": list(result.epsilons),
        "repetition": np.array(result.repetitions, np.uint64),
        "postprocess": list(POSTPROCESS),
        "attribute": list(result.names),
        "value": [f"{result.names[j]}={name}" for j, name in zip(attributes, names, strict=True)],
    }
    return xarray.Dataset(variables, scales, {"users": result.n})


def _value(result: Result, attribute: int, value: int) -> str:
    return str(value) if result.labels is None else result.labels[attribute][value]


def plot(results: Result | Results, postprocess: str = SHOWN, x: str = "auto", attribute: str | None = None) -> Any:
    from gpu_rsfd.show import plots

    several = _several(results)
    if attribute is None:
        figure = plots.figure_of(several, postprocess, x)
    else:
        figure = plots.frequencies(several, attribute, postprocess)
    figure._repr_png_ = lambda: _png(figure)  # shows itself, whether or not a notebook has set up Matplotlib
    return figure


def _png(figure: Any) -> bytes:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=90)
    return image.getvalue()


def _library(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(
            f'this needs {name}, which is missing: pip install "gpu-rsfd[notebook]", or scripts/install notebook'
        ) from None
