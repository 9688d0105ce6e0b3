"""What is shown of results, whatever was measured: cells of columns, and rows that follow from them.

A column has numbers for each protocol, epsilon and repetition, and for each coordinate of an axis of its own.  Tables,
CSV, LaTeX, JSON, notebooks, figures and pages render their means as they are found here.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.command import own_data
from gpu_rsfd.datasets.base import publishable, withheld
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure import MEASUREMENTS
from gpu_rsfd.options import distinct, entries, expanded, show_epsilon, split_list
from gpu_rsfd.planning import Look
from gpu_rsfd.protocols import DEFAULT_SETTINGS, PAPER
from gpu_rsfd.results.estimate import DEFAULT, Floats, PostprocessLike, as_postprocess
from gpu_rsfd.results.metrics import MetricLike, as_metric, mse, name_of
from gpu_rsfd.results.result import CELL, Column, Result, Results
from gpu_rsfd.show.statistics import Means, among_best, error_means, means, with_estimate
from gpu_rsfd.spec import PAPER_EPSILONS
from gpu_rsfd.store.contents import open_results
from gpu_rsfd.theory import expected as theory

# What a number depends on beside its row: a column each in CSV, JSON and data frames.
RUN = {"guarantee": DEFAULT_SETTINGS.guarantee, "assignment": "uniform", "sampler": "users", "seed": 0}
# What only some protocols need, in words, and as it usually is: said where it is something else.
NEEDED = {"prior": ("prior of fakes", "uniform"), "first_report": ("first report", DEFAULT_SETTINGS.first_report)}
# What runs may differ in without being another experiment.
EXTENT = ("datasets", "protocols", "epsilons", "repetitions", "keep", "attack", "stream_version", "numpy_version")
OPTION = re.compile(r"\{(\w+)\}")  # in the words about a measurement
SAME = 1e-3  # relative: --epsilon 0.693 finds ln 2
Row = dict[str, Any]
Place = Mapping[str, Any]  # coordinates on axes of a measurement's own


class How(NamedTuple):
    """How estimates are processed, and by which metric their errors are taken: for columns of errors."""

    postprocess: PostprocessLike = DEFAULT
    metric: MetricLike = "mse"

    @classmethod
    def of(cls, postprocess: Any = None, metric: Any = None) -> list[How]:
        """Checked, one for each of several; None is the default."""
        kinds = [as_postprocess(kind) for kind in _each("postprocess", DEFAULT if postprocess is None else postprocess)]
        metrics = _each("metric", "mse" if metric is None else metric)
        distinct("postprocess", map(name_of, kinds))
        distinct("metric", (as_metric(each).label for each in metrics))
        return [cls(kind, each) for each in metrics for kind in kinds]

    @property
    def names(self) -> dict[str, str]:
        return {"metric": name_of(self.metric), "postprocess": name_of(self.postprocess)}


Hows = How | Sequence[How]
USUAL = How()


def _each(name: str, given: Any) -> list[Any]:
    return split_list(entries(given), name) if all(isinstance(one, str) for one in entries(given)) else entries(given)


class Curve(NamedTuple):
    """A curve of a figure, and a line of a table: a protocol of a run."""

    look: Look
    words: tuple[str, ...] = ()  # what tells it from others of the protocol

    @property
    def label(self) -> str:
        return ", ".join(filter(None, (self.look.label, *self.words)))


class Cells(NamedTuple):
    """A column of a result at one place of its own axes, [protocol, epsilon] each."""

    name: str
    column: Column
    place: Place
    mean: Floats
    error: Floats  # its standard error
    means: Means  # with what else there is of them
    best: Any  # bool; None for a column that does not say which numbers are better
    how: How | None = None  # of errors of estimates
    complete: Any = None  # repetitions that have an estimate of every attribute
    theory: Floats | None = None  # what is expected, where there is theory
    rough: Any = None  # bool: where that is no more than a guide
    published: Floats | None = None  # the paper's points
    beside: Mapping[str, Floats] = {}  # what is drawn beside it
    curves: Sequence[Curve] = ()  # the protocols
    epsilons: Sequence[float] = ()
    rivals: Means | None = None  # the means of all runs that it is compared with, if there are several

    @property
    def key(self) -> tuple[str, str, tuple[Any, ...]]:
        """The column, the metric and the place: what is compared."""
        return self.name, "" if self.how is None else self.how.names["metric"], tuple(self.place.items())

    @property
    def field(self) -> str:
        """What it is called in CSV files and data frames."""
        return self.column.field or self.name

    @property
    def label(self) -> str:
        """What a table says of it."""
        kind = "" if self.how is None else self.how.names["postprocess"]
        return self.column.label + (f", postprocess={kind}" if kind else "")

    @property
    def baseline(self) -> str:
        """What is to be had without a report, in words."""
        return "" if self.column.baseline is None else f"; without a report: {self.column.baseline:.4f}"

    @property
    def axis(self) -> str:
        """The name of its axis in a figure."""
        kind = "" if self.how is None else self.how.names["postprocess"]
        name = (self.column.axis or self.column.label).replace("$", r"\$").replace("_avg", "$_{avg}$")
        return name + ("" if kind in ("none", "") else f" ({kind})")

    @property
    def drawn_theory(self) -> Floats | None:
        """The closed form where it is more than a guide, else NaN."""
        return None if self.theory is None else np.where(self.rough, np.nan, self.theory)

    def line(self, curve: Curve, epsilons: Sequence[float]) -> list[tuple[float, float, bool, float, bool]]:
        """Mean, standard error, mark, closed form and whether that is rough; NaN where a run lacks an epsilon."""
        p, no = self.curves.index(curve), np.zeros(self.mean.shape, bool)
        rest = (no if x is None else x for x in (self.best, self.theory, self.rough))
        each = zip(self.epsilons, *(x[p] for x in (self.mean, self.error, *rest)), strict=True)
        found: dict[float, Any] = {epsilon: numbers for epsilon, *numbers in each}
        return [found.get(epsilon, (math.nan, math.nan, False, 0, False)) for epsilon in epsilons]

    def numbers(self, p: int, e: int, repetition: int | None = None) -> Row:
        """A cell, or one repetition of it, as entries of a row."""
        if repetition is not None:
            return {self.field: float(self.means.each[p, e, repetition])}
        mean, error = float(self.mean[p, e]), float(self.error[p, e])
        best = {} if self.best is None else {"among_best": bool(self.best[p, e])}
        if self.how is not None:
            return {
                "error": mean,
                "standard_error": error,
                "expected_error": math.nan if self.theory is None else float(self.theory[p, e]),
                "expected_is_rough": self.theory is not None and bool(self.rough[p, e]),
                "repetitions_with_estimate": int(self.means.known[p, e]),
                "repetitions_with_every_estimate": int(self.complete[p, e]),
                **best,
            }
        baseline = {} if self.column.baseline is None else {"baseline": self.column.baseline}
        more = {f"{self.field}_{key}": value for key, value in {"error": error, **baseline, **best}.items()}
        return {self.field: mean, **more}


def is_error(result: Result, name: str) -> bool:
    """Whether a column has errors of estimates, which depend on metric and post-processing."""
    return name == "error" and result.has_errors


def check_how(results: Results, **given: Any) -> None:
    """Refuses options that are for errors of estimates where there are none."""
    columns = {name: is_error(result, name) for result in results.values() for name in result.columns}
    for option, value in given.items():
        if value not in (None, *USUAL) and columns and not any(columns.values()):
            raise InputError(f"{option} is for the estimates of a sweep; these results have {', '.join(columns)}")


def numbers_of(result: Result, name: str, whole: bool) -> tuple[Column, Any, list[Place]]:
    """A column, but that of errors, its numbers [protocol, epsilon, repetition, place], and its places.

    Of a dimension that it has an order in, the last coordinate alone, if not the `whole`.
    """
    column, each = result.columns[name], np.asarray(result.column(name))
    sizes = each.shape[len(CELL) :]
    dims = result.layout.arrays.get(name.partition(".")[0], ())[: len(sizes)]
    if len(dims) != len(sizes):  # worked out from several arrays: its axes have no names
        dims = tuple(f"axis {i + 1}" for i in range(len(sizes)))
    known: dict[str, Sequence[Any]] = {"attribute": result.names, "value": value_names(result), **result.coords}
    if (over := column.over) in dims and not whole:
        each, dims = each.take(-1, len(CELL) + dims.index(over)), tuple(dim for dim in dims if dim != over)
        column = column._replace(label=f"{column.label}, {over} = {known[over][-1]}")
    coords = [known.get(dim, range(size)) for dim, size in zip(dims, each.shape[len(CELL) :], strict=True)]
    places: list[Place] = [dict(zip(dims, at, strict=True)) for at in itertools.product(*coords)]
    return column, each.reshape(*each.shape[: len(CELL)], len(places)), places


def runs_of(results: Results, dataset: str, how: Hows = USUAL) -> list[tuple[str, Results, How]]:
    """The runs that have a data set, by their labels in a comparison, in each way to take errors."""
    hows = [how] if isinstance(how, How) else how
    return [(label, run, one) for label, run in results.runs or (("", results),) if dataset in run for one in hows]


def only(results: Results, how: Hows, asked: str) -> How:
    """The one way to take errors, for what is shown of one run alone."""
    hows = [how] if isinstance(how, How) else how
    if results.runs or len(hows) > 1:
        raise InputError(f"{asked} is for one results file, one post-processing and one metric")
    return hows[0]


def cells_by_run(results: Results, dataset: str, how: Hows, whole: bool = False) -> list[Any]:
    """(label, result, how, cells) of each run: all that there is to show of a data set.

    Curves are named by what differs, and by nothing else.
    """
    runs, parts, columns = runs_of(results, dataset, how), [], dict[Any, list[Cells]]()
    every = (run[name] for name in results for _, run, _ in runs_of(results, name))
    alone = len({look.label for result in every for look in result.plan.looks}) == 1
    metrics, kinds = (len({*names}) > 1 for names in zip(*(one.names.values() for *_, one in runs), strict=True))
    for label, run, one in runs:
        result, found = run[dataset], list[Cells]()
        for cells in (cells for name in result.columns for cells in cells_of(dataset, run, name, one, whole)):
            if cells.how is None and one is not runs[0][-1]:
                continue  # the same after each post-processing
            column, kind = cells.column, kinds and cells.how and one.names["postprocess"]
            if words := tuple(word for word in (label, kind) if word):
                of = f" of {result.plan.looks[0].label}" * alone
                column = column._replace(label=column.label + of, axis=(column.axis or column.label) + of)
            column = column._replace(short=column.axis) if metrics else column
            way = How("", one.metric) if kind else cells.how
            looks = [look._replace(label="") if alone and words else look for look in result.plan.looks]
            curves = [Curve(look, words) for look in looks]
            found.append(cells._replace(column=column, how=way, curves=curves, epsilons=result.epsilons))
            columns.setdefault(cells.key, []).append(found[-1])
        parts.append((label, result, one, found))
    marked = {key: iter(_marked(some)) for key, some in columns.items()}
    return [(*part, [next(marked[cells.key]) for cells in some]) for *part, some in parts]


def _marked(some: Sequence[Cells]) -> Sequence[Cells]:
    """The cells of several runs: which are among the best of them all."""
    if len(some) == 1 or not some[0].column.better:
        return some
    curves, epsilons = [x for c in some for x in c.curves], sorted({e for c in some for e in c.epsilons})
    at: Any = [np.ix_([curves.index(x) for x in c.curves], [epsilons.index(e) for e in c.epsilons]) for c in some]
    mean, known = np.full((len(curves), len(epsilons)), np.nan), np.zeros((len(curves), len(epsilons)), int)
    deviation = np.zeros((*mean.shape, max(c.means.each.shape[-1] for c in some)))
    for place, cells in zip(at, some, strict=True):
        mean[place], known[place] = cells.mean, cells.means.known
        deviation[..., : cells.means.each.shape[-1]][place] = cells.means.deviation
    rivals = Means(mean, mean, deviation, known, mean)
    best = among_best(rivals, some[0].column.better, some[0].column.discrete)
    return [cells._replace(best=best[place], rivals=rivals) for place, cells in zip(at, some, strict=True)]


def shown(results: Results, dataset: str, how: Hows) -> list[Cells]:
    """All that tables show of a data set: run by run, column by column, place by place."""
    return [cells for *_, some in cells_by_run(results, dataset, how) for cells in some]


def cells_of(dataset: str, results: Results, name: str, how: How, whole: bool = False) -> Iterator[Cells]:
    """A column at each of its places."""
    result, own = results[dataset], dataset in own_data(results.spec)
    if is_error(result, name):
        yield error_cells(dataset, result, how, known_of(results, dataset))
        return
    column, each, places = numbers_of(result, name, whole)
    beside = {what: np.reshape(of(result), each.shape).mean(axis=2) for what, of in column.beside.items() if whole}
    told: Any = column.baseline
    if isinstance(told, str):
        told = np.reshape(result[told] if whole else result[told][..., -1], each.shape)[0, 0, 0]
    few = max(results.min_count, 1) / result.n
    if own and name == "value_success" and told is not None:  # the most frequent values' shares tell the others'
        pairs = (told, np.mean([1 / k for k in result.domain])), (each, 0)  # no less than if they were equally frequent
        told, each = (np.round(np.maximum(1 - _up(1 - x, few / result.plan.d), least), 12) for x, least in pairs)
    elif own and name.startswith("spent") and results.measurement in MEASUREMENTS:  # exact, they tell of a few
        step = max(0.01, few * max(result.epsilons))
        each, beside = _up(each, step), {what: _up(array, step) for what, array in beside.items()}
    found = means(np.moveaxis(each, 2, -1))
    best = among_best(found, column.better, column.discrete) if column.better else None
    for i, place in enumerate(places):
        part = Means(*(numbers[:, :, i] for numbers in found))
        star, there = None if best is None else best[:, :, i], {what: array[:, :, i] for what, array in beside.items()}
        here = column if told is None else column._replace(baseline=float(np.broadcast_to(told, len(places))[i]))
        yield Cells(name, here, place, part.mean, part.error, part, star, beside=there)


def _up(numbers: Any, step: float) -> Any:
    """Rounded up to multiples of a step, but for rounding errors."""
    return np.round(np.ceil(np.round(numbers / step, 6)) * step, 12)


def error_cells(dataset: str, result: Result, how: How, known: Floats | None = None) -> Cells:
    """The errors of estimates; the closed form by the `known` frequencies."""
    metric, found = as_metric(how.metric), error_means(result, how.metric, how.postprocess)
    better = "larger" if metric.larger_is_better else "smaller"
    column = Column(metric.label, better, axis=metric.label, discrete=metric.discrete)
    closed = rough = None
    if how.postprocess in theory.POSTPROCESS and metric.function is mse:
        known = result.frequencies if known is None else known
        closed, rough = (_each_cell(result, function, how, known) for function in (theory.mse_of, theory.is_rough))
    points = published(dataset, result, how.postprocess, how.metric)
    best, complete = among_best(found, better, metric.discrete), with_estimate(result)[1]
    return Cells("error", column, {}, found.mean, found.error, found, best, how, complete, closed, rough, points)


def _each_cell(result: Result, function: Callable[..., Any], how: How, known: Floats) -> Any:
    """A function of `theory`, of each protocol and epsilon."""
    attributes = theory.attributes_of(result.domain, known)
    terms = theory.Terms(result.n, result.plan.assignment, str(how.postprocess))
    return np.array([[function(ms, attributes, terms) for ms in row] for row in result.plan.mechanisms])


def value_name(result: Result, attribute: int, value: int) -> str:
    return str(value) if result.labels is None else result.labels[attribute][value]


def value_names(result: Result) -> list[str]:
    """`sex=m` for each value of each attribute."""
    return [f"{result.names[j]}={value_name(result, j, v)}" for j, k in enumerate(result.domain) for v in range(k)]


def place_name(place: Place) -> str:
    """`step = 3`."""
    return ", ".join(f"{dim} = {f'{x:g}' if isinstance(x, float) else x}" for dim, x in place.items())


# ---------------------------------------------------------------------------------------------------------------- rows


def tidy_rows(results: Results, how: Hows, repetitions: bool = False) -> Iterator[Row]:
    """One row per data set, protocol, epsilon and place, with all columns that have this place; or per repetition."""
    parts = [(dataset, *part) for dataset in results for part in cells_by_run(results, dataset, how)]
    # runs may differ in columns and places: all rows have those of all
    blank = {dim: None for *_, every in parts for cells in every for dim in cells.place}
    blank |= {key: None for *_, every in parts for cells in every for key in cells.numbers(0, 0, *[0][:repetitions])}
    options = dict.fromkeys(k for _, _, r, *_ in parts for k in (*OPTION.findall(r.layout.about), *_asked(r.spec)))
    for dataset, label, result, one, every in parts:
        found: dict[tuple[Any, ...], list[Cells]] = {}  # by place
        for cells in every:
            found.setdefault(tuple(cells.place.items()), []).append(cells)
        count, per = len(result.repetitions), "repetition" if repetitions else "repetitions"
        own = {**({"run": label} if results.runs else {}), **{key: _set(result.spec, key) for key in options}}
        lacks = {key: _set(result.spec, key) for key in blank}  # an axis of others may be an option here
        own |= one.names if any(is_error(result, name) for name in result.columns) else {}
        end = {**({} if repetitions else {"source": source_of(results, dataset)}), **run_of(result)}
        sizes = len(result.protocols), len(result.epsilons), *[count][:repetitions]
        for (p, e, *r), (place, some) in itertools.product(np.ndindex(sizes), found.items()):
            row = {**result.size, "dataset": dataset, "protocol": result.protocols[p]}
            row |= {"label": result.plan.looks[p].label, "epsilon": result.epsilons[e], **own}
            row |= {per: result.repetitions[r[0]] if r else count, **lacks, **dict(place)}
            for cells in some:
                row |= cells.numbers(p, e, *r)
            yield row | end


# ----------------------------------------------------------------------------------------------------- about a result


def withheld_of(results: Results, name: str) -> tuple[Any, dict[int, str]]:
    """Whose numbers are not shown, [value], none of data that everybody has; what is said of each instead."""
    result, least, own = results[name], results.min_count, name in own_data(results.spec)
    counts = np.rint(result.frequencies * result.n).astype(np.int64)
    hidden = np.concatenate([withheld(counts[s], least) & own for s in result.domain.slices])
    return hidden, {int(v): f"fewer than {least}" if counts[v] < least else "not shown" for v in np.flatnonzero(hidden)}


def known_of(results: Results, name: str) -> Floats:
    """Frequencies that anything may be computed from: of one's own table, some that give no rare value away."""
    result = results[name]
    counts = np.rint(result.frequencies * result.n).astype(np.int64)
    own = name in own_data(results.spec)
    return publishable(counts, result.domain, results.min_count) if own else result.frequencies


def contents_of(results: Results) -> str:
    """What a file, or a page that was made from it, has of tables of one's own."""
    own = [name for name in own_data(results.spec) if name in results]
    return f"holds the true frequencies of {', '.join(own)}: keep it like the table itself" if own else ""


def source_of(results: Results, name: str) -> str | None:
    """Where the data came from, if the file says so; and which of their rounds was taken, if one was."""
    described: Row = next((d for d in results.spec.get("datasets", []) if d.get("name") == name), {})
    source, rounds = described.get("source"), described.get("rounds", 1)
    first = f", round 1 of {rounds}" if rounds > 1 and results.measurement in ("frequencies", "inference") else ""
    return None if source is None else f"{source}{first}"


def run_of(result: Result) -> Row:
    """Guarantee, assignment, sampler and seed of a result."""
    return {key: result.spec.get(key, usual) for key, usual in RUN.items()}


def common(results: Results, names: Iterable[str], of: Callable[[Results, str], Sequence[str | None]]) -> list[str]:
    """What `of` says of all runs of these data sets; curves are named by the rest."""
    said = [of(run, name) for name in names for _, run, _ in runs_of(results, name)]
    return [words for words in said[0] if words and all(words in other for other in said)]


def about_of(results: Results, name: str) -> list[str]:
    """The options of the measurement in words."""
    spec, parts = results[name].spec, results[name].layout.about.split(", ")  # before values, which may have commas
    return [OPTION.sub(lambda x: str(_set(spec, x[1]) if x[1] in spec else x[0]), part) for part in parts]


def _set(spec: Mapping[str, Any], name: str) -> Any:
    """What an option was set to, names as one text; None where it means nothing: without a memo no fakes are kept."""
    value = None if (name, spec.get("memo")) == ("fakes", "off") else {"prior": "uniform", **spec}.get(name)
    return "+".join(value) if isinstance(value, list) and all(isinstance(x, str) for x in value) else value


def _asked(spec: Mapping[str, Any]) -> list[str]:
    """What only some protocols need, and is not as usual."""
    return [key for key, (_, usual) in NEEDED.items() if spec.get(key, usual) != usual]


def promised(result: Result) -> str:
    """What epsilon bounds, where that must be said: under another guarantee than the paper's, or if promises differ."""
    guarantee = str(result.spec.get("guarantee", DEFAULT_SETTINGS.guarantee))
    if guarantee != DEFAULT_SETTINGS.guarantee:
        return f"guarantee: {guarantee}"
    kinds = {(samples, partial) for samples, partial in zip(result.plan.samples, result.plan.partial, strict=True)}
    return f"guarantee: {guarantee} (unequal for Spl, Smp and RS+FD)" if len(kinds) > 1 else ""


def unusual(results: Results, name: str) -> list[str]:
    """What must be said of how the protocols were run: unequal promises, or what was asked for."""
    spec = results[name].spec
    said = {key: "given frequencies" if isinstance(spec[key], list) else spec[key] for key in _asked(spec)}
    return [promised(results[name]), *(f"{NEEDED[key][0]}: {words}" for key, words in said.items())]


# ------------------------------------------------------------------------------------------------- a part of results


def select(
    results: Results, datasets: Sequence[str] = (), protocols: Sequence[str] = (), epsilons: Sequence[float] = ()
) -> Results:
    """The results of these data sets, protocols and epsilons, in the order in which they are stored; () is all."""
    results.only(datasets)  # an unknown one is named
    chosen = {name: result for name, result in results.items() if not datasets or name in datasets}
    if protocols or epsilons:
        chosen = {name: part_of(result, protocols, epsilons) for name, result in chosen.items()}
    return results.changed(chosen)


def part_of(result: Result, protocols: Sequence[str] = (), epsilons: Sequence[float] = ()) -> Result:
    """The same of one data set."""
    protocols = [protocol_of(result, name) for name in expanded(protocols, result.protocols, "protocol")]
    wanted = {_nearest(epsilon, result.epsilons) for epsilon in epsilons}
    p = [i for i, name in enumerate(result.protocols) if not protocols or name in protocols]
    e = [i for i, known in enumerate(result.epsilons) if not epsilons or known in wanted]
    return result.take(p, e)


def protocol_of(result: Result, name: str) -> str:
    """A protocol by its name or its label."""
    name = next((look.name for look in result.plan.looks if look.label == name), name)
    if name not in result.protocols:
        raise InputError(f"no protocol {name!r} in the results; protocols: {', '.join(result.protocols)}")
    return name


def _nearest(epsilon: float, known: Sequence[float]) -> float:
    nearest = min(known, key=lambda e: abs(e - epsilon))
    if not math.isclose(epsilon, nearest, rel_tol=SAME):
        available = ", ".join(show_epsilon(e).replace(" ", "") for e in known)
        raise InputError(f"no epsilon {epsilon:g} in the results; epsilons: {available}")
    return nearest


# ------------------------------------------------------------------------------------------------------ several runs


def compare(runs: Mapping[str, Any]) -> Results:
    """Put several runs beside each other, in one figure and one table.

    Parameters
    ----------
    runs : mapping of str to Results, Result or path
        Runs of the same measurement, keyed by their labels.

    Returns
    -------
    Results
        Its figures, tables and data frames have the curves of all runs, named by what differs.  Where a run lacks a
        data set or an epsilon, there is a gap.  `runs` has the runs, its items are the first results of each data set.

    Raises
    ------
    InputError
        If runs have measured different things, or different data sets of the same name.

    Examples
    --------
    >>> some = {"protocols": "smp-grr", "repetitions": 5, "epsilons": [1, 2], "sampler": "counts"}
    >>> runs = {name: gpu_rsfd.simulate("syn1", guarantee=name, **some) for name in ("paper", "user")}
    >>> gpu_rsfd.compare(runs)
    Results(syn1; runs: paper, user)
    """
    if not isinstance(runs, Mapping):
        raise InputError(f"runs={runs!r} must be results by their labels, such as {{'paper': 'paper.h5'}}")
    found = [pair for label, run in runs.items() for pair in _opened(str(label), run)]
    distinct("run", (label for label, _ in found))
    (first, one), merged = found[0], dict[str, Result]()
    for label, run in found:
        if run.measurement != one.measurement:
            kinds = [MEASUREMENTS[x].command if x in MEASUREMENTS else x for x in (one.measurement, run.measurement)]
            raise InputError(f"{first} and {label} can't be compared: one is of {kinds[0]}, the other of {kinds[1]}")
        for name, result in run.items():
            facts = [(r.n, r.names, r.frequencies.tolist()) for r in (result, merged.setdefault(name, result))]
            if facts[0] != facts[1]:
                raise InputError(f"{label} can't be compared: its data set {name} is not that of the runs before it")
    described = {d["name"]: d for _, run in found for d in run.spec.get("datasets", [])}
    spec = {"measurement": one.measurement, "datasets": [*described.values()], "runs": {x: r.spec for x, r in found}}
    return Results(merged, runs=found, spec=spec, complete=all(run.complete for _, run in found))


def as_results(found: Any) -> Any:
    """A single result as results of one data set."""
    return Results({found.title or "result": found}, spec=found.spec) if isinstance(found, Result) else found


def _opened(label: str, run: Any) -> Sequence[tuple[str, Results]]:
    if not label.strip():
        raise InputError(f"label={label!r} of a run is empty; its curves are named by it")
    run = open_results(run) if isinstance(run, (str, os.PathLike)) else as_results(run)
    if not isinstance(run, Results):
        raise InputError(f"{label}={run!r} must be a Result, Results, or the path of a results file")
    return run.runs or [(label, run)]


def told_apart(files: Mapping[str, Results]) -> list[str]:
    """What each run has that others have not, in words: options, and where these don't tell, its file."""
    every = [{"prior": "uniform", **RUN, **run.spec} for run in files.values()]
    keys = [key for key in dict.fromkeys(itertools.chain(*every)) if key not in EXTENT]
    keys = [key for key in keys if any(spec.get(key) != every[0].get(key) for spec in every)]
    told = [[(key, x) for key in keys if (x := _set(spec, key)) is not None] for spec in every]
    words = [", ".join(f"{k} {'given' if isinstance(x, list) else x}".replace("_", " ") for k, x in s) for s in told]
    each = zip(words, files.values(), strict=True)
    cells = [(word, name, p) for word, run in each for name, result in run.items() for p in result.protocols]
    alike = len({*cells}) < len(cells)
    return [", ".join(filter(None, pair)) for pair in zip(words, files, strict=True)] if alike else words


# --------------------------------------------------------------------------------------------- the paper's own points

# MSE_avg of its ten data sets, six methods and six epsilons, as read from its figures.
# They agree with balanced assignment and clip-normalize to 8 % (their noise is 1 to 3 %), with two exceptions.
# RS+FD[GRR] on syn5, syn6, adult, ms-fimu and census-income agrees with clip: those curves seem to be older than the
# authors' renormalisation.  RS+FD[ADP] on adult, ms-fimu and census-income is up to a quarter lower at some epsilons.


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    text = resources.files("gpu_rsfd.show").joinpath("resources/published.json").read_text("utf-8")
    datasets: dict[str, Any] = json.loads(text)["datasets"]
    return datasets


def published(name: str, result: Result, postprocess: PostprocessLike, metric: MetricLike = "mse") -> Floats | None:
    """[protocol, epsilon]: the paper's MSE_avg of a data set, NaN where it has none; None if it has none at all.

    With clip, only the curves that agree with clip; with clip-normalize all, since that is what the paper describes.
    """
    entry = _table().get(name)
    if entry is None or postprocess not in ("clip", "clip-normalize") or as_metric(metric).function is not mse:
        return None
    if (result.n, list(result.domain)) != (entry["users"], entry["domain"]) or run_of(result)["guarantee"] != "paper":
        return None  # another data set of the same name; budgets that the paper did not spend
    curves = {m: points for m, points in entry["mse_avg"].items() if postprocess != "clip" or m in entry["clip"]}
    found = np.full((len(result.protocols), len(result.epsilons)), math.nan)
    every = itertools.product(enumerate(result.plan.looks), enumerate(result.epsilons))
    for (p, look), (e, epsilon) in every:
        points = zip(PAPER_EPSILONS, curves.get(look.label, ()) if look.name in PAPER else (), strict=False)
        found[p, e] = next((point for x, point in points if math.isclose(x, epsilon, rel_tol=1e-4)), math.nan)
    return found if np.isfinite(found).any() else None


def caveats(names: Iterable[str], looks: Sequence[Look]) -> list[str]:
    """What must be said where these data sets' points are drawn beside clip-normalize."""
    said, labels = [], [look.label for look in looks if look.name in PAPER]
    for kind, text in (("clip", "agree with clip instead"), ("partly", "are lower at some epsilons")):
        having: dict[str, list[str]] = {}
        for name in names:
            for method in _table()[name][kind]:
                if method in labels:
                    having.setdefault(method, []).append(name)
        said += [f"those of {method} on {', '.join(sets)} {text}" for method, sets in having.items()]
    return said
