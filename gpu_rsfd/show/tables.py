"""Means with their standard errors per protocol and epsilon: on the screen, as CSV, JSON, LaTeX and HTML.

Also two protocols against each other, and the error of each attribute or value, and estimates.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from html import escape
from itertools import chain
from json import dumps
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import counted, show_epsilon
from gpu_rsfd.results.estimate import NOT_NEGATIVE, SUM_TO_ONE, Floats, PostprocessLike
from gpu_rsfd.results.metrics import as_metric, name_of
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show import rows, statistics
from gpu_rsfd.show.rows import USUAL, Cells, Curve, How, Hows, Row, place_name, run_of, shown, source_of
from gpu_rsfd.show.statistics import Means, among_best, attribute_means, enough
from gpu_rsfd.theory import expected as theory

WIDE = 1e4  # from this ratio of the largest to the smallest cell on, each has a power of ten of its own
LOWEST_EXPONENT = -300  # smaller powers of ten are no ordinary numbers
NO_ERROR = 1e-9  # relative: what is left of an error of nothing after rounding
PLAIN: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": 0, "show_edge": False, "pad_edge": False}
WIDTH = 1000  # numbers are never cut: a line too long for the terminal is wrapped by the terminal
BRACKETS = "(standard error of the last digits)"
MOST_SHOWN = 20  # data sets in a notebook; more are counted
LATEX = r"""\begin{table}
\centering
\caption{%s}
\label{tab:%s}
\begin{tabular}{l%s}
\toprule
%s \\
\midrule
%s
\bottomrule
\end{tabular}
\end{table}"""
SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {  # of LaTeX
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{"–": "--", "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}"},
}


def concise(mean: float, error: float) -> str:
    """7.034 with an error of 0.021 as `7.034(21)`: the error in units of the last digit."""
    if not math.isfinite(mean):
        return "–"
    if not math.isfinite(error) or error <= abs(mean) * NO_ERROR:
        power = _exponent(mean)
        digits = 2 - power if -9 < power < 0 else min(max(5 - power, 0), 3)  # six are enough, and two are too few
        return f"{mean:.{digits}f}"
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


def screen(parts: Iterable[str | Table]) -> None:
    """Print lines and tables; no text is markup, since it may be the user's."""
    console = Console(width=WIDTH, highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(part)


def write(results: Results, form: str, found: Iterator[Row], parts: Iterable[str | Table]) -> None:
    """Print rows as CSV or JSON, all with the same entries; or the parts of a table."""
    if form == "json":
        clean = [finite(row) for row in found]
        print(dumps({"complete": results.complete, "spec": results.spec, "rows": clean}, indent=2))
    elif form == "table":
        unfinished = [] if results.complete else ["This run is not finished; the same command resumes it."]
        screen(chain(unfinished, parts))
    elif (first := next(found, None)) is not None:
        writer = csv.DictWriter(sys.stdout, fieldnames=list(first), lineterminator="\n")
        writer.writeheader()
        writer.writerows(chain([first], found))


def finite(entry: Any) -> Any:
    """As JSON has it: null where there is no number, or an infinite one."""
    if isinstance(entry, dict):
        return {key: finite(value) for key, value in entry.items()}
    if isinstance(entry, tuple):
        return [finite(one) for one in entry]
    return None if isinstance(entry, float) and not math.isfinite(entry) else entry


def heading(results: Results, name: str, *more: str, alone: bool = True) -> str:
    """What stands above a table: the data set, what the table has, what is unusual about the run, or about all."""
    names, size = ([name], [size_of(results, name)]) if alone else ([*results], [])
    numbers = sorted({len(run[one].repetitions) for one in names for _, run, _ in rows.runs_of(results, one)})
    about = [", ".join([*size, " or ".join([*map(str, numbers[:-1]), counted(numbers[-1], "repetition")])])]
    about += [", ".join(rows.common(results, names, rows.about_of)), *more]
    about += [f"data: {source}" for source in rows.common(results, names, lambda *one: [source_of(*one)]) if alone]
    return "; ".join(filter(None, [*about, *rows.common(results, names, rows.unusual)]))


def size_of(results: Results, name: str) -> str:
    return f"{name}: n = {results[name].n:,}, d = {len(results[name].domain)}"


# ------------------------------------------------------------------------------------------------------- one structure


def by_column(results: Results, dataset: str, how: Hows) -> list[list[Cells]]:
    """What has a table of its own: each column by each metric, at all its places."""
    found: dict[Any, list[Cells]] = {}
    for cells in shown(results, dataset, how):
        found.setdefault(cells.key[:2], []).append(cells)
    return list(found.values())


def lines_of(table: Sequence[Cells], epsilons: Sequence[float]) -> Iterator[tuple[str, Sequence[Any]]]:
    """The lines of a table: each curve; under it, which is empty then, each place of the column's own axes."""
    for curve in dict.fromkeys(curve for cells in table for curve in cells.curves):
        mine = [cells for cells in table if curve in cells.curves]
        alone = len(mine) == 1 and not mine[0].place
        yield curve.label, mine[0].line(curve, epsilons) if alone else []
        for cells in () if alone else mine:
            yield f"  {place_name(cells.place)}", cells.line(curve, epsilons)


def label_of(table: Iterable[Cells]) -> str:
    """What a table shows; of runs of several lengths, each."""
    return "; ".join(dict.fromkeys(cells.label for cells in table))


def epsilons_of(table: Iterable[Cells]) -> list[float]:
    return sorted({epsilon for cells in table for epsilon in cells.epsilons})


def unit_of(table: Sequence[Cells]) -> int | None:
    """The power of ten of a table; None if its numbers are too far apart for a common one."""
    mean = np.concatenate([cells.mean for cells in table], axis=None)
    sizes = np.abs(mean[np.isfinite(mean) & (mean != 0)])
    plain = 1e-3 if table[0].how is None else 0.1  # shares, normalised errors: they are read as they are
    if not sizes.size or (sizes.min() >= plain and sizes.max() < 1000):
        return 0
    return None if float(sizes.max()) >= WIDE * float(sizes.min()) else _exponent(float(sizes.min()))


def writer_of(exponent: int | None) -> Callable[[float, float], str]:
    """How numbers are written in units of 10^`exponent`; None: a power of ten in each."""
    unit = 1.0 if exponent is None else 10.0**exponent
    return scientific if exponent is None else lambda mean, error: concise(mean / unit, error / unit)


def marked(found: Iterable[Cells], more: str = "") -> str:
    """What the mark means; nothing if there are none."""
    best = [cells for cells in found if cells.best is not None and cells.best.any()]
    where = [f"column{more}", *(f"{dim} by {dim}" for dim in dict.fromkeys(dim for c in best for dim in c.place))]
    kinds = {cells.column.better for cells in best}
    return star(any(cells.means.repeated for cells in best), kinds, ", ".join(where)) if best else ""


def brackets(found: Iterable[Cells]) -> str:
    """What stands in brackets; nothing after a single repetition, or where all repetitions agree."""
    return BRACKETS if any((c.error > NO_ERROR * np.abs(c.mean)).any() for c in found) else ""


def star(repeated: bool, better: Collection[str], where: str) -> str:
    if repeated:
        return f"not significantly worse than the best in its {where} (paired differences, 95 %)"
    return f"the {'best' if len(better) > 1 else f'{next(iter(better))[:-1]}st'} in its {where}"


# ------------------------------------------------------------------------------------------------------ on the screen


def show(results: Results, how: Hows = USUAL, form: str = "table") -> None:
    """Print the table of each column; `form` is table, csv, json or latex."""
    if form == "latex":
        print(latex(results, how))
    else:
        write(results, form, rows.tidy_rows(results, how), _shown(results, how))


def _shown(results: Results, how: Hows) -> Iterator[str | Table]:
    every, hints = list[Cells](), dict[str, None]()
    for name in results:
        tables = by_column(results, name, how)
        titles = [
            label_of(t) + t[0].baseline + (f" in units of 1e{x:+03d}" if (x := unit_of(t)) else "") for t in tables
        ]
        yield heading(results, name, *(titles if len(tables) == 1 else []))
        for table, title in zip(tables, titles, strict=True):
            if len(tables) > 1:
                yield title
            yield _screen_table(table)
            every += table
            compared = [cells.rivals or cells.means for cells in table if cells.best is not None]
            hints[statistics.advice(table[0].column, *compared)] = None
        if any(table[0].how is not None for table in tables):
            runs = ((label, run[name], each) for label, run, each in rows.runs_of(results, name, how))
            said = ((label, [*_without_estimate(run), *without_number(run, each)]) for label, run, each in runs)
            yield from dict.fromkeys(f"{label}: {line}" if label else line for label, lines in said for line in lines)
    stars = marked(every)
    undefined = any(cells.how is None and np.isnan(cells.mean).any() for cells in every)
    notes = [brackets(every), *([f"* {stars}"] if stars else []), *(["– not applicable"] * undefined)]
    yield "; ".join(filter(None, notes))
    yield from filter(None, hints)
    if contents := rows.contents_of(results):
        yield f"this file {contents}"
    if any(cells.theory is not None and cells.rough.any() for cells in every):
        yield f"~ rough: some value has fewer than {theory.ENOUGH_REPORTS} expected reports"


def _screen_table(table: Sequence[Cells]) -> Table:
    """A line per curve and place, a column per epsilon; the best ones bold, with a star."""
    number, epsilons = writer_of(unit_of(table)), epsilons_of(table)
    made = plain_table("epsilon", map(show_epsilon, epsilons))
    for label, line in lines_of(table, epsilons):
        made.add_row(label, *starred([number(*x[:2]) for x in line], [best for _, _, best, *_ in line]))
        if any(closed > 0 for *_, closed, _ in line):
            texts = (f"{'~' if rough else ''}{number(closed, math.nan)} " for *_, closed, rough in line)
            made.add_row("  theory", *texts, style="dim")
    return made


def _without_estimate(result: Result) -> Iterator[str]:
    """A line for protocols that left an attribute without any report in some repetition."""
    total = len(result.repetitions)
    fewest, complete = (numbers.min(axis=-1).tolist() for numbers in statistics.with_estimate(result))
    for numbers in dict.fromkeys(zip(fewest, complete, strict=True)):
        if numbers != (total, total):
            each = zip(result.plan.looks, fewest, complete, strict=True)
            names = [look.label for look, *own in each if (*own,) == numbers]
            yield (
                f"{', '.join(names)}: {numbers[1]:,} of {total:,} repetitions have an estimate of every attribute, "
                f"{numbers[0]:,} of the attribute that fewest sampled; averaged attribute by attribute"
            )


def without_number(result: Result, how: How) -> Iterator[str]:
    """A line for protocols that a post-processing is not defined for."""
    reasons = result.undefined(how.postprocess)
    for reason in dict.fromkeys(reasons.values()):
        labels = [label for label, own in reasons.items() if own == reason]
        yield f"{', '.join(labels)}: – where {name_of(how.postprocess)} is not defined: {reason}"


def starred(cells: Sequence[str], best: Iterable[Any]) -> list[Text]:
    """The best ones bold, with a star."""
    return [Text(f"{cell}*", "bold") if b else Text(f"{cell} ") for cell, b in zip(cells, best, strict=True)]


def plain_table(first: str, columns: Iterable[str]) -> Table:
    """A table with a column on the left and numbers under each of the others."""
    table = Table(**PLAIN)
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(f" {column}", justify="right", no_wrap=True)
    return table


def sent_by(noise: str) -> str:
    """What randomises a column, spelled as in labels of protocols: GRR, OUE-z."""
    return noise.upper().replace("-R", "-r").replace("-Z", "-z")


# ----------------------------------------------------------------------------------------------------- LaTeX and HTML


def latex(results: Results, how: Hows) -> str:
    """A table for each column, with all data sets and the rules of booktabs."""
    found: dict[Any, dict[str, list[Cells]]] = {}
    for name in results:
        for table in by_column(results, name, how):
            found.setdefault(table[0].key[:2], {})[name] = table
    parts = ["% needs \\usepackage{booktabs}"]
    for (_, metric), tables in found.items():
        name, every, alone = next(iter(tables)), [c for table in tables.values() for c in table], len(tables) == 1
        number, epsilons, lines = writer_of(exponent := unit_of(every)), epsilons_of(every), list[str]()
        heads = [f"protocol $[10^{{{exponent}}}]$" if exponent else "protocol"]
        heads += [f"$\\varepsilon = {show_epsilon(e).replace('ln', chr(92) + 'ln')}$" for e in epsilons]
        for dataset, table in tables.items():
            if not alone:
                title = in_latex(size_of(results, dataset) + table[0].baseline)
                lines += [r"\midrule"] * bool(lines) + [rf"\multicolumn{{{len(heads)}}}{{l}}{{{title}}} \\"]
            for text, line in lines_of(table, epsilons):
                label = in_latex(text).replace("  ", r"\quad ", 1)
                digits = [number(*x[:2]).partition("e") for x in line]
                entries = [f"${d} \\cdot 10^{{{int(power)}}}$" if power else in_latex(d) for d, _, power in digits]
                marks = [best for _, _, best, *_ in line]
                entries = [rf"\textbf{{{x}}}" if best else x for x, best in zip(entries, marks, strict=True)]
                entries = [f"{{{label}}}" if label.startswith("[") else label, *(entries or [""] * len(epsilons))]
                lines.append(" & ".join(entries) + r" \\")
        stars = marked(every, "" if alone else " and data set")
        about = heading(results, name, label_of(every) + every[0].baseline * alone, alone=alone)
        caption = f"{about}." + " In brackets: standard error of the last digits." * bool(brackets(every))
        caption += f" Bold: {stars}." if stars else ""
        names = "-".join([name] * alone + [metric or every[0].field] * (not alone or len(found) > 1))
        label = re.sub(r"[^0-9A-Za-z]+", "-", names).strip("-").lower()
        parts.append(LATEX % (in_latex(caption), label, "r" * len(epsilons), " & ".join(heads), "\n".join(lines)))
    return "\n\n".join(parts)


def in_latex(text: str) -> str:
    """Text that LaTeX shows as it is."""
    return "".join(SPECIAL.get(character, character) for character in text)


def html(results: Results, named: bool) -> str:
    """A table for each data set and column; the user's own text is escaped."""
    if not results:
        return "<p>no results</p>"
    parts, every = [], list[Cells]()
    for name in list(results)[:MOST_SHOWN]:
        for table in by_column(results, name, How()):
            corner = table[0].column.axis
            title = f"{heading(results, name)}; {label_of(table).removeprefix(f'{corner}, ')}{table[0].baseline}"
            parts.append(_html_table(title if named else title.removeprefix(f"{name}: "), corner, table))
            every += table
    stars = marked(every)
    notes = [*filter(None, [brackets(every)]), *([f"* {stars}"] if stars else [])]
    notes += [f"{len(results) - MOST_SHOWN} more data sets"] if len(results) > MOST_SHOWN else []
    notes += [] if results.complete else ["the file is not finished"]
    return f"<div>{''.join(parts)}<p>{'; '.join(notes)}</p></div>"


def _html_table(title: str, corner: str, table: Sequence[Cells]) -> str:
    epsilons, lines = epsilons_of(table), []
    heads = "".join(f"<th>ε = {show_epsilon(epsilon)}</th>" for epsilon in epsilons)
    for label, line in lines_of(table, epsilons):
        texts = [(scientific(*x[:2]), x[2]) for x in line]
        entries = [f"<td><b>{text} *</b></td>" if best else f"<td>{text}</td>" for text, best in texts]
        entries = entries or ["<td></td>"] * len(epsilons)
        lines.append(f"<tr><th>{escape(label).replace('  ', '&emsp;', 1)}</th>{''.join(entries)}</tr>")
    return (
        f"<table><caption>{escape(title)}</caption><thead><tr><th>{escape(corner)}</th>{heads}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


# ------------------------------------------------------------------------------------------------------- two protocols


def compare(results: Results, first: str, second: str, how: Hows, form: str = "table") -> None:
    """Paired differences with their standard errors; `form` is table, csv or json."""
    how = rows.only(results, how, f"compare={first},{second}")
    for result in results.values():
        first, second = (rows.protocol_of(result, name) for name in (first, second))
    if first == second:
        raise InputError(f"compare={first},{second} names the same protocol twice; two different ones are needed")
    two = rows.select(results, protocols=[first, second])  # the rest is not spoken of
    write(results, form, _compared(results, first, second, how), _comparison(two, first, second, how))


def _comparison(results: Results, first: str, second: str, how: How) -> Iterator[str | Table]:
    for name, cells, found in _pairs(results, first, second, how):
        yield heading(results, name, cells.label, place_name(cells.place))
        table = plain_table("epsilon", map(show_epsilon, cells.epsilons))
        pair = [Curve(results[name].look(protocol)) for protocol in (first, second)]
        for curve in pair:
            table.add_row(curve.label, *(f"{scientific(*x[:2])} " for x in cells.line(curve, cells.epsilons)))
        difference, error, ratio, ratio_error, significant = found.values()
        texts = [scientific(*x) for x in zip(difference, error, strict=True)]
        table.add_row("difference", *starred(texts, significant))
        table.add_row("ratio", *(f"{concise(*x)} " for x in zip(ratio, ratio_error, strict=True)))
        yield table
        what = cells.column.axis or cells.column.label
        yield f"{what} of {pair[0].label} minus that of {pair[1].label}, repetition by repetition"
        yield from () if cells.how is None else without_number(results[name], how)
    fewest = min((len(result.repetitions) for result in results.values()), default=0)
    noise = "* significantly different from 0 (95 %)" if fewest > 1 else "a single repetition: no standard errors"
    if as_metric(how.metric).discrete and 1 < fewest < enough():
        noise = f"{name_of(how.metric)} takes few different values: no * below {enough()} repetitions"
    yield f"{BRACKETS}; {noise}" if fewest > 1 else noise


def _pairs(results: Results, first: str, second: str, how: How) -> Iterator[tuple[str, Cells, dict[str, Any]]]:
    for name, result in results.items():
        pair = result.protocols.index(first), result.protocols.index(second)
        for cells in shown(results, name, how):
            yield name, cells, statistics.differences(cells.means, *pair, cells.column.discrete)


def _compared(results: Results, first: str, second: str, how: How) -> Iterator[Row]:
    """One row per data set, column, place and epsilon."""
    blank = {dim: None for _, cells, _ in _pairs(results, first, second, how) for dim in cells.place}
    for name, cells, found in _pairs(results, first, second, how):
        result = results[name]
        for e, epsilon in enumerate(result.epsilons):
            yield {
                **{**result.size, "dataset": name, "protocol": first, "against": second, "epsilon": epsilon},
                **({"column": cells.field} if cells.how is None else cells.how.names),
                **{"repetitions": len(result.repetitions), **blank, **cells.place},
                **{key: numbers[e].item() for key, numbers in found.items()},
                **{"source": source_of(results, name), **run_of(result)},
            }


# ----------------------------------------------------------------------------------------------- attributes and values


class Values(NamedTuple):
    """The estimates of each value, [protocol, epsilon, value]; NaN where they are not shown."""

    estimate: Floats  # mean over repetitions
    low: Floats  # a 95 % prediction interval: where the estimate of one more collection falls
    high: Floats
    rmse: Floats


def attributes_of(result: Result, how: How) -> tuple[Means, Floats, Any]:
    """Of the error of each attribute: means, the largest error of a value (mean over repetitions), the best ones."""
    found = attribute_means(result.error_per_attribute(how.metric, how.postprocess))
    found = found._replace(known=(result.reporters > 0).sum(axis=2))
    largest = attribute_means(result.error_per_attribute("max", how.postprocess)).mean
    metric = as_metric(how.metric)
    better = "larger" if metric.larger_is_better else "smaller"
    return found, largest, among_best(found, better, metric.discrete)


def values_of(result: Result, postprocess: PostprocessLike, hidden: Any = False) -> Values:
    """Over repetitions; NaN for a value that was never reported, or that is `hidden`: a mean is nearly the truth."""
    estimates = result.estimates(postprocess)
    known = np.isfinite(estimates)
    numbers = known.sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, estimates, 0).sum(axis=2) / numbers
        squares = np.where(known, (estimates - result.frequencies) ** 2, 0).sum(axis=2) / numbers
        away = np.where(known, estimates - mean[:, :, None], 0)
        deviation = np.sqrt((away**2).sum(axis=2) / (numbers - 1))
        half = statistics.half_width(deviation * np.sqrt(1 + 1 / numbers), numbers)
    # without what a post-processing never gives: below 0, and, of frequencies that sum to 1, above 1
    low = np.maximum(mean - half, 0) if postprocess in NOT_NEGATIVE else mean - half
    high = np.minimum(mean + half, 1) if postprocess in SUM_TO_ONE else mean + half
    # nor the RMSE: where every estimate is clipped to 0, it is the truth
    return Values(*(np.where(hidden, np.nan, x) for x in (mean, low, high, np.sqrt(squares))))


def per(results: Results, what: str, how: Hows, form: str = "table") -> None:
    """The error of each attribute or of each value; `form` is table, csv or json."""
    how = rows.only(results, how, f"per={what}")
    if what == "value" and how.names["metric"] != "mse":
        name = how.names["metric"]
        raise InputError(f"metric={name} is defined for a whole attribute; the error of a value is its RMSE")
    write(results, form, detail_rows(results, what, how), _details(results, what == "attribute", how))


def _details(results: Results, attributes: bool, how: How) -> Iterator[str | Table]:
    metric = as_metric(how.metric)
    title = f"{metric.label.replace('_avg', ' of each attribute', 1)}, " if attributes else ""
    for name, result in results.items():
        yield heading(results, name, f"{title}postprocess={how.names['postprocess']}")
        yield from _attribute_tables(result, how) if attributes else _value_tables(results, name, how)
        yield from without_number(result, how)
    repeated = any(len(result.repetitions) > 1 for result in results.values())
    explained = "root of the mean squared error; a single --protocol gives estimates with intervals"
    if attributes:
        stars = star(repeated, {"larger" if metric.larger_is_better else "smaller"}, "row")
        explained = (
            f"{f'{BRACKETS}; ' * repeated}* {stars}; largest: the largest error of a value, mean over repetitions"
        )
    elif any(len(result.protocols) == 1 for result in results.values()):
        explained = "estimate: mean over repetitions; interval: 95 % prediction interval for one more collection"
    yield explained


def _attribute_tables(result: Result, how: How) -> Iterator[Table]:
    found, largest, best = attributes_of(result, how)
    for e, epsilon in enumerate(result.epsilons):
        table = plain_table(f"ε = {show_epsilon(epsilon)}", (look.label for look in result.plan.looks))
        for j, (name, k) in enumerate(zip(result.names, result.domain, strict=True)):
            texts = [scientific(*x) for x in zip(found.mean[:, e, j], found.error[:, e, j], strict=True)]
            table.add_row(f"{name} (k = {k})", *starred(texts, best[:, e, j]))
            table.add_row("  largest", *(f"{_number(x)} " for x in largest[:, e, j]), style="dim")
        yield table


def _value_tables(results: Results, name: str, how: How) -> Iterator[Table | str]:
    result, (hidden, words) = results[name], rows.withheld_of(results, name)
    found, labels = values_of(result, how.postprocess, hidden), [look.label for look in result.plan.looks]
    alone = len(result.protocols) == 1
    for e, epsilon in enumerate(result.epsilons):
        for j, columns in enumerate(result.domain.slices):
            yield f"{result.names[j]}, ε = {show_epsilon(epsilon)}" + (f", {labels[0]}" if alone else "")
            table = plain_table("value", ["truth", *(["estimate", "interval", "RMSE"] if alone else labels)])
            for v in range(columns.start, columns.stop):
                cells = [words.get(v, f"{result.frequencies[v]:.4f}")]
                if alone:
                    mean, low, high = (_number(numbers[0, e, v], ".4f") for numbers in found[:3])
                    cells += [mean, f"{low} … {high}"]
                cells += [_number(x) for x in found.rmse[:, e, v]]
                table.add_row(rows.value_name(result, j, v - columns.start), *cells)
            yield table


def detail_rows(results: Results, what: str, how: Hows) -> Iterator[Row]:
    """One row per data set, protocol, epsilon and attribute or value."""
    how = rows.only(results, how, f"per={what}")
    secret = {name: rows.withheld_of(results, name)[0] for name in results}
    every = ((name, p, e) for name, r in results.items() for p, e in np.ndindex(len(r.protocols), len(r.epsilons)))
    for name, p, e in every:  # a cell at a time, which takes less memory
        result = results[name].take([p], [e])
        each = [(j, v) for j, k in enumerate(result.domain) for v in range(k if what == "value" else 1)]
        names, reported = how.names, (result.reporters > 0).sum(axis=2)
        if what == "attribute":
            means, largest, _ = attributes_of(result, how)
            numbers = {"error": means.mean, "standard_error": means.error, "largest_value_error": largest}
        else:
            del names["metric"]
            estimates = values_of(result, how.postprocess, secret[name])
            truth = np.broadcast_to(np.where(secret[name], np.nan, result.frequencies), estimates.rmse.shape)
            numbers = {"frequency": truth, **estimates._asdict()}
        for i, (j, v) in enumerate(each):
            word = {"values": result.domain[j]} if what == "attribute" else {"value": rows.value_name(result, j, v)}
            yield {
                **{**result.size, "dataset": name, "attribute": result.names[j], **word},
                "protocol": result.protocols[0],
                **{"label": result.plan.looks[0].label, "epsilon": result.epsilons[0], **names},
                **{"repetitions": len(result.repetitions)},
                "repetitions_with_estimate": int(reported[0, 0, j]),
                **{key: float(found[0, 0, i]) for key, found in numbers.items()},
                **run_of(result),
            }


def _number(value: float, form: str = "#.3g") -> str:
    return f"{value:{form}}" if math.isfinite(value) else "–"
