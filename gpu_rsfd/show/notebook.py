"""Results in a notebook: the table, data frames, xarray, figures."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import counted, show_epsilon
from gpu_rsfd.results.estimate import DEFAULT, STORED, PostprocessLike, as_postprocess
from gpu_rsfd.results.metrics import MetricLike, as_metric, name_of
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show.comparison import among_best
from gpu_rsfd.show.summary import run_of, source_of, summary, unusual

MOST_SHOWN = 20  # data sets; more are counted
MOST_NAMED = 6  # protocols, epsilons or data sets in a line
PER = ("cell", "repetition", "attribute", "value")


def _several(results: Results) -> Results:
    return results if isinstance(results, Results) else Results({"result": results})


def _attacks(results: Results) -> bool:
    """Whether there is an attack rather than errors."""
    return any(not result.has_errors for result in _several(results).values())


def few(names: Sequence[str]) -> str:
    """Names in a line; of many, the first ones."""
    more = f", … ({len(names)} in all)" if len(names) > MOST_NAMED else ""
    return ", ".join(names[: MOST_NAMED - 1 if more else MOST_NAMED]) + more


def text(results: Results) -> str:
    """What is in it, in a line."""
    if isinstance(results, Results):
        return f"Results({few(list(results))})"
    protocols, epsilons = few(results.protocols), few([show_epsilon(epsilon) for epsilon in results.epsilons])
    size = f"n={results.n:,}, d={len(results.domain)}, {counted(len(results.repetitions), 'repetition')}"
    return f"{type(results).__name__}({size}; protocols: {protocols}; epsilons: {epsilons})"


def html(results: Results) -> str:
    """A table for each data set, and for each goal of an attack; the user's own text is escaped."""
    from gpu_rsfd.show.privacy import SHARES, means
    from gpu_rsfd.show.tables import marked

    several = _several(results)
    if not several:
        return "<p>no results</p>"
    parts = []
    for name, result in list(several.items())[:MOST_SHOWN]:
        source = source_of(several, name)
        about = f"n = {result.n:,}, d = {len(result.domain)}, {len(result.repetitions)} repetitions"
        title = about if isinstance(results, Result) else f"{escape(name)}: {about}"
        title += f"; data: {escape(source)}" if source else ""
        title += "".join(f"; {escape(line)}" for line in unusual(result))
        if not result.has_errors:
            parts += [_table(result, f"{title}; {words}", "share", *means(result, g)) for g, words in SHARES.items()]
        else:
            best, label = among_best(result, DEFAULT), as_metric("mse").label
            parts.append(_table(result, f"{title}; postprocess={DEFAULT}", label, *summary(result, DEFAULT), best))
    notes = ["(standard error of the last digits)", *([] if _attacks(several) else [marked(several, "column")])]
    notes += [f"{len(several) - MOST_SHOWN} more data sets"] if len(several) > MOST_SHOWN else []
    notes += [] if several.complete else ["the file is not finished"]
    return f"<div>{''.join(parts)}<p>{'; '.join(notes)}</p></div>"


def _table(result: Result, title: str, corner: str, mean: Any, error: Any, best: Any = None) -> str:
    from gpu_rsfd.show.tables import scientific

    heads = "".join(f"<th>ε = {show_epsilon(e)}</th>" for e in result.epsilons)
    lines = []
    for p, look in enumerate(result.plan.looks):
        cells = [scientific(*cell) for cell in zip(mean[p], error[p], strict=True)]
        stars = [False] * len(cells) if best is None else best[p]
        marks = [f"<td><b>{c} *</b></td>" if b else f"<td>{c}</td>" for c, b in zip(cells, stars, strict=True)]
        lines.append(f"<tr><th>{escape(look.label)}</th>{''.join(marks)}</tr>")
    return (
        f"<table><caption>{title}</caption><thead><tr><th>{corner}</th>{heads}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def to_dataframe(
    results: Results, per: str = "cell", postprocess: PostprocessLike = DEFAULT, metric: MetricLike = "mse"
) -> Any:
    pandas = _library("pandas")
    postprocess = as_postprocess(postprocess)
    as_metric(metric)
    if per not in PER:
        raise InputError(f"per={per} must be one of {', '.join(PER)}")
    frame = pandas.DataFrame.from_records(list(_rows(_several(results), per, postprocess, metric)))
    return frame.drop(columns=["dataset", "source"], errors="ignore") if isinstance(results, Result) else frame


def _rows(results: Results, per: str, postprocess: PostprocessLike, metric: MetricLike) -> Iterator[dict[str, Any]]:
    from gpu_rsfd.show import details, privacy, tables

    if _attacks(results):
        if per != "cell":
            raise InputError(f"per={per} is for errors; an attack has a row per cell")
        return privacy.rows(results)
    if per == "cell":
        return tables.rows(results, postprocess, metric)
    if per == "repetition":
        return _repetition_rows(results, postprocess, metric)
    if per == "attribute":
        return details.attribute_rows(results, postprocess, metric)
    return details.value_rows(results, postprocess)


def _repetition_rows(results: Results, postprocess: PostprocessLike, metric: MetricLike) -> Iterator[dict[str, Any]]:
    how = {"metric": name_of(metric), "postprocess": name_of(postprocess)}
    for name, result in results.items():
        errors = result.error(metric, postprocess)
        for p, protocol in enumerate(result.protocols):
            for e, epsilon in enumerate(result.epsilons):
                for r, repetition in enumerate(result.repetitions):
                    yield {
                        **{"dataset": name, "users": result.n, "protocol": protocol, "epsilon": epsilon, **how},
                        **{"repetition": repetition, "error": float(errors[p, e, r]), **run_of(result)},
                    }


def to_xarray(results: Results) -> Any:
    if isinstance(results, Results):
        return {name: to_xarray(result) for name, result in results.items()}
    xarray = _library("xarray")
    result, cell = results, ("protocol", "epsilon")
    attributes = np.repeat(np.arange(len(result.domain)), result.domain)
    names = [_value(result, j, v) for j, k in enumerate(result.domain) for v in range(k)]
    measured: dict[str, Any] = {}
    if result.has_errors:
        measured = {"counts": ((*cell, "repetition", "value"), result.counts)} if result.has_counts else {}
        measured["reporters"] = ((*cell, "repetition", "attribute"), result.reporters)
        errors = np.stack([result.mse(kind) for kind in STORED], axis=-1)
        measured["mse"] = ((*cell, "repetition", "postprocess"), errors)
    else:
        measured = {name: ((*cell, "repetition"), getattr(result, name)) for name in result.arrays}
    variables = {
        **measured,
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
        **({"postprocess": list(STORED)} if "mse" in measured else {}),
        "attribute": list(result.names),
        "value": [f"{result.names[j]}={name}" for j, name in zip(attributes, names, strict=True)],
    }
    return xarray.Dataset(variables, scales, {"users": result.n})


def _value(result: Result, attribute: int, value: int) -> str:
    return str(value) if result.labels is None else result.labels[attribute][value]


def plot(
    results: Results,
    postprocess: PostprocessLike = DEFAULT,
    x: str = "auto",
    attribute: str | None = None,
    metric: MetricLike = "mse",
) -> Any:
    from gpu_rsfd.show import plots, privacy

    several = _several(results)
    if _attacks(several):
        figure = privacy.attack_figure(several)
    elif attribute is None:
        figure = plots.figure_of(several, postprocess, x, metric)
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
