"""What a measurement gives: arrays over protocols, epsilons and repetitions, and everything that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from gpu_rsfd.datasets.base import MIN_COUNT
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.late import provided
from gpu_rsfd.planning import Look, Plan
from gpu_rsfd.results import estimate, metrics
from gpu_rsfd.results.estimate import Floats, PostprocessLike
from gpu_rsfd.results.metrics import Metric, MetricLike, as_metric

if TYPE_CHECKING:
    from gpu_rsfd.datasets.base import Dataset, Labels
    from gpu_rsfd.protocols import Mechanism

CELL = ("protocol", "epsilon", "repetition")  # the first dimensions of every array of a measurement


class Column(NamedTuple):
    """What tables and figures show of an array: its mean over the repetitions, with a standard error.

    Attributes
    ----------
    label : str
        What it is called.
    better : {"", "smaller", "larger"}
        Which numbers are better, if any: the best protocols are marked then.
    baseline : float, callable or str, optional
        A number to compare with, a function of the `Header` that gives it, or the name of an array with one for each
        coordinate of `over`, its last dimension: what is to be had without a report.
    of : callable, optional
        A function of the `Result` that gives numbers [protocol, epsilon, repetition, …].  Default: the array of the
        column's name.  Such a column is not shown where the measurement's class is not known.
    short, axis, field : str, optional
        What it is called in the title of a panel, on the axis of a figure (default: the label), and in the header of
        CSV files and data frames (default: its name).
    discrete : bool
        Whether it takes few different values: no protocol is marked after few repetitions, which may agree by chance.
    over : str, optional
        A dimension with an order, such as rounds, whose last coordinate tables show.
    x : str
        What a figure draws it against: ``"epsilon"``, a dimension of numbers (at one epsilon, then), or ``""``, nothing
        at all, unless an axis is asked for.  Default: whatever there is.
    beside : mapping of str to callable, optional
        Functions as `of`: what is drawn in the panels over `x`, dashed and dotted, and what it is called.
    """

    label: str
    better: str = ""
    baseline: float | str | Callable[[Header], float] | None = None
    of: Callable[[Result], Any] | None = None
    short: str = ""
    axis: str = ""
    field: str = ""
    discrete: bool = False
    over: str = ""
    x: str = "auto"
    beside: Mapping[str, Callable[[Result], Any]] = {}


class Layout(NamedTuple):
    """What a measurement records, as plain data: what a results file says of its arrays."""

    name: str  # of the measurement
    command: str  # that runs it
    arrays: Mapping[str, tuple[str, ...]]  # dimensions after protocol, epsilon and repetition
    coords: Mapping[str, Sequence[Any]]  # of dimensions of its own
    columns: Mapping[str, Column]
    about: str = ""  # its options in words, with their names in braces, as tables state them

    def sizes(self, header: Header, array: str) -> tuple[int, ...]:
        """The shape of an array after protocol, epsilon and repetition."""
        known = {"value": header.plan.values, "attribute": len(header.domain)}
        return tuple(known[d] if d in known else len(self.coords[d]) for d in self.arrays[array])


def read_only(array: Any) -> Any:
    """A view through which nothing can be changed: errors that were computed before would no longer agree."""
    return np.broadcast_to(array, np.shape(array))


class Viewed:
    """Results that show themselves in a notebook; how is known to the room `show`, imported when first used."""

    def __repr__(self) -> str:
        return str(provided("notebook").text(self))

    def _repr_html_(self) -> str:
        """The table of errors, as a notebook shows it."""
        return str(provided("notebook").html(self))

    def to_dataframe(
        self,
        per: str = "cell",
        postprocess: PostprocessLike | Sequence[PostprocessLike] = estimate.DEFAULT,
        metric: MetricLike | Sequence[MetricLike] = "mse",
    ) -> Any:
        """A pandas DataFrame of errors, or of what an attack guesses.  Needs the extra `notebook`.

        Parameters
        ----------
        per : {"cell", "repetition", "attribute", "value"}
            What a row is: a data set, protocol and epsilon, or one of these as well.  A value of one's own table that
            fewer than 10 users hold has no numbers; `Results.min_count` can be changed.
        postprocess, metric : str or callable, or list of them
            As for `Result.error`.
        """
        return provided("notebook").to_dataframe(self, per, postprocess, metric)

    def to_xarray(self) -> Any:
        """An xarray Dataset with the variables of a results file; of several data sets, one for each, by name.

        Needs the extra `notebook`.
        """
        return provided("notebook").to_xarray(self)

    def plot(
        self,
        postprocess: PostprocessLike | Sequence[PostprocessLike] = estimate.DEFAULT,
        x: str = "auto",
        attribute: str | None = None,
        metric: MetricLike | Sequence[MetricLike] = "mse",
        ax: Any = None,
        title: bool = True,
        legend: str | None = None,
    ) -> Any:
        """The figure of `gpu-rsfd plot`, a Matplotlib figure.

        Parameters
        ----------
        postprocess, metric : str or callable, or list of them
            As for `Result.error`; there are curves for each.
        x : {"auto", "epsilon", "n", "d", "k"}
            The horizontal axis: n, d and k are for synthetic data sets, made by size, that differ in it.
        attribute : str, optional
            Draws true and estimated frequencies of this attribute's values instead of errors, without those of values
            of one's own table that fewer than 10 users hold.
        ax : Axes, or array of Axes, optional
            Matplotlib's, to draw in: one for each panel.  Default: a new figure, with TrueType fonts; yours has them
            with ``rcParams["pdf.fonttype"] = 42``.
        title : bool
            Whether panels have titles.
        legend : {"below", "right", "none"}, optional
            Where the legend is.  Default: below the panels; of your own `ax`, inside the first.
        """
        return provided("notebook").plot(self, postprocess, x, attribute, metric, ax, title, legend)


@dataclass(frozen=True, eq=False, repr=False)
class Header:
    """All about a data set and what is done with it, but the repetitions."""

    n: int
    domain: Domain
    names: tuple[str, ...]
    frequencies: Floats  # the truth, [value]
    plan: Plan
    labels: Labels | None = None  # what each value stands for, [attribute][value]

    @classmethod
    def of(cls, data: Dataset, plan: Plan) -> Header:
        return Header(data.n, data.domain, data.names, read_only(data.frequencies), plan, data.labels)

    @property
    def protocols(self) -> tuple[str, ...]:
        return self.plan.protocols

    @property
    def epsilons(self) -> tuple[float, ...]:
        return self.plan.epsilons

    def look(self, protocol: str) -> Look:
        """How a protocol is named and drawn."""
        return self.plan.looks[self.protocols.index(protocol)]


@dataclass(frozen=True, eq=False, repr=False)
class Result(Header, Viewed):
    """What a measurement gave on one data set: named arrays over protocols, epsilons and repetitions.

    Each array is an attribute: `counts`, `reporters`, `sampled_success`, whatever the measurement records.  Large ones
    are read when they are first used.  Where there are counts, estimates and errors are computed from them.

    Attributes
    ----------
    counts : ndarray of int64, [protocol, epsilon, repetition, value]
        Number of reports of each value; the values of all attributes, in order.
    reporters : ndarray of int64, [protocol, epsilon, repetition, attribute]
        Number of users who reported an attribute: n, or fewer for Smp.
    sampled_success : ndarray of float64, [protocol, epsilon, repetition]
        Of an attack, the share of users whose sampled attribute is guessed correctly: 1 for Smp, which sends it, NaN
        for Spl, which does not sample.
    value_success : ndarray of float64, [protocol, epsilon, repetition]
        Of an attack, the share of (user, attribute) pairs whose value is guessed correctly.
    protocols, epsilons, repetitions
        The coordinates of these arrays.
    title : str
        The name of the data set.

    Notes
    -----
    Its arrays are read-only: `result.counts.copy()` can be changed.
    """

    repetitions: range = range(0)
    spec: Mapping[str, Any] = field(default_factory=dict)  # what was run, as plain data, of data sets its own
    layout: Layout = field(default_factory=lambda: Layout("", "", {}, {}, {}))
    kept: Mapping[str, Any] = field(default_factory=dict)  # arrays, or functions that give them
    title: str = ""

    @classmethod
    def made(cls, header: Header, repetitions: range, spec: Any, layout: Layout, arrays: Any, title: str) -> Result:
        """A result from a header and arrays, or functions that give them."""
        own = {**spec, "datasets": [described for described in spec.get("datasets", ()) if described["name"] == title]}
        return cls(**vars(header), repetitions=repetitions, spec=own, layout=layout, kept=dict(arrays), title=title)

    @property
    def size(self) -> dict[str, Any]:
        """The data set's name, n, d, and k if all attributes have equally many values, as rows of tables have them."""
        ks = set(self.domain)
        return {"dataset": self.title, "users": self.n, "d": len(self.domain), "k": ks.pop() if len(ks) == 1 else None}

    def __getattr__(self, name: str) -> Any:
        """An array, which is read when it is first used."""
        kept = self.__dict__.get("kept", {})
        if name not in kept:
            if name in ("counts", "reporters") and kept:
                why = "holds errors only (--keep mse)" if "mse" in kept else f"has no {name}"
                raise InputError(f"the result {why}; its arrays: {', '.join(kept)}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self.kept:
            raise InputError(f"no array {name!r} in the result; arrays: {', '.join(self.kept)}")
        read = self.__dict__.setdefault("_read", {})
        if name not in read:
            read[name] = read_only(self.kept[name]() if callable(self.kept[name]) else self.kept[name])
        return read[name]

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of its arrays."""
        return tuple(self.kept)

    def dims(self, name: str) -> tuple[str, ...]:
        """The dimensions of an array."""
        return (*CELL, *self.layout.arrays[name])

    @property
    def coords(self) -> Mapping[str, Sequence[Any]]:
        """The coordinates of the measurement's own dimensions."""
        return self.layout.coords

    @property
    def columns(self) -> Mapping[str, Column]:
        """What tables and figures show."""
        return self.layout.columns

    def column(self, name: str, metric: MetricLike = "mse", postprocess: PostprocessLike = estimate.DEFAULT) -> Any:
        """The numbers of a column, [protocol, epsilon, repetition, …]; errors by a metric, after a post-processing."""
        if name == "error" and self.has_errors:
            return self.error(metric, postprocess)
        of = self.columns[name].of
        return self[name] if of is None else of(self)

    def take(self, protocols: Sequence[int], epsilons: Sequence[int]) -> Result:
        """Some protocols and epsilons."""
        cells: Any = np.ix_(protocols, epsilons)
        kept = {name: lambda name=name: self[name][cells] for name in self.kept}
        return replace(self, plan=self.plan.take(protocols, epsilons), kept=kept)

    @property
    def has_counts(self) -> bool:
        """Whether there are counts to estimate from.  There are none with `--keep mse`, or of another measurement."""
        return {"counts", "reporters"} <= {*self.kept} and self.dims("counts") == (*CELL, "value")

    @property
    def has_errors(self) -> bool:
        """Whether there are errors, or counts that they follow from."""
        return self.has_counts or "mse" in self.kept

    def mechanism(self, protocol: str, epsilon: float, attribute: int) -> Mechanism:
        """The mechanism of a protocol at an epsilon for an attribute: thresholds, p, q, variances, loss."""
        return self.plan.mechanism(self.protocols.index(str(protocol)), self.epsilons.index(epsilon), attribute)

    def estimates(self, postprocess: PostprocessLike = "none") -> Floats:
        """Estimated frequencies.

        Parameters
        ----------
        postprocess : str or callable
            A name of `gpu_rsfd.POSTPROCESS`, one that the literature has for it (``"Norm-Sub"``), or a function of the
            estimates of one attribute, an array ``(..., k)``, that returns an array of the same shape; a second
            parameter is passed a `Context`.

        Returns
        -------
        ndarray
            Of the shape of `counts`.  NaN where an attribute has no reports (Smp with few users), and where the
            post-processing is not defined for a protocol (`undefined` says why).
        """
        kind = estimate.as_postprocess(postprocess)
        return estimate.processed(self.plan, self.n, self.counts, self.reporters, kind)

    def error(self, metric: MetricLike = "mse", postprocess: PostprocessLike = estimate.DEFAULT) -> Floats:
        """The error of each repetition, averaged over attributes.

        Parameters
        ----------
        metric : str, Metric or callable
            A name of `gpu_rsfd.METRICS` (``"topk:20"`` for another K than 10), or a function of the true frequencies
            ``(k,)`` and the estimated ones ``(..., k)`` of one attribute that reduces the last axis; with a third
            parameter, it gets the number of users, too.
        postprocess : str or callable
            As for `estimates`.

        Returns
        -------
        ndarray
            [protocol, epsilon, repetition]; of `rounds`, also by round.  NaN where an attribute has no estimate.

        Raises
        ------
        InputError
            If a name is unknown; or if a file made with ``--keep mse``, or by `rounds`, is asked for more than the
            errors it holds.
        """
        how, kind = as_metric(metric), estimate.as_postprocess(postprocess)
        if "mse" in self.kept and how.function is metrics.mse and kind in estimate.STORED:
            return self["mse"][..., estimate.STORED.index(str(kind))]
        if not isinstance(metric, str) or not isinstance(kind, str):
            return self.error_per_attribute(how, kind).mean(axis=-1)
        return self.compute([how], kind)[how, estimate.function_of(kind)]

    def compute(self, wanted: Sequence[Metric], postprocess: PostprocessLike) -> dict[Any, Floats]:
        """Errors by several metrics, which `error` then finds: estimates are processed once for all of them."""
        known: dict[Any, Floats] = self.__dict__.setdefault("_computed", {})
        function = estimate.function_of(postprocess)
        if missing := [metric for metric in wanted if (metric, function) not in known]:
            for metric, each in zip(missing, self._per_attribute(missing, postprocess), strict=True):
                known[metric, function] = read_only(each.mean(axis=-1))
        return known

    def error_per_attribute(
        self, metric: MetricLike = "mse", postprocess: PostprocessLike = estimate.DEFAULT
    ) -> Floats:
        """The error of each attribute, [protocol, epsilon, repetition, attribute]; parameters as for `error`."""
        return self._per_attribute([as_metric(metric)], estimate.as_postprocess(postprocess))[0]

    def _per_attribute(self, wanted: Sequence[Metric], postprocess: PostprocessLike) -> list[Floats]:
        return estimate.errors(self.plan, self.n, self.frequencies, self.counts, self.reporters, wanted, postprocess)

    def undefined(self, postprocess: PostprocessLike) -> dict[str, str]:
        """Why a post-processing gives no number (NaN), by the labels of the protocols; empty if it always gives one."""
        return estimate.undefined(self.plan, self.n, postprocess)

    def mse(self, postprocess: PostprocessLike = estimate.DEFAULT) -> Floats:
        """MSE_avg, [protocol, epsilon, repetition]: ``error("mse", postprocess)``."""
        return self.error("mse", postprocess)


class Results(Viewed, dict[str, Any]):
    """A dictionary of results by data set, with information about the run.

    Attributes
    ----------
    spec : dict
        What was run, as plain data.
    complete : bool
        Whether all repetitions are done.
    backend, device, package_version : str
        What it was run on.
    seconds : dict of float
        Seconds of simulation for each data set.
    computed : int
        Number of repetitions that the call which returned these results has simulated.
    min_count : int
        Tables and figures show no number of a value of one's own table that fewer users hold.
    runs : sequence of (str, Results)
        Of `compare`, the runs with their labels.
    """

    spec: dict[str, Any]
    complete: bool = True
    package_version: str = ""
    backend: str = ""
    device: str = ""
    seconds: Mapping[str, float] = MappingProxyType({})
    computed: int = 0
    min_count: int = MIN_COUNT
    runs: Sequence[tuple[str, Results]] = ()

    def __init__(self, results: Mapping[str, Any] = MappingProxyType({}), **about: Any) -> None:
        super().__init__(results)
        vars(self).update({"spec": {}, **about})

    def __missing__(self, name: object) -> NoReturn:
        raise InputError(f"no data set {name!r} in the results; data sets: {', '.join(self)}")

    @property
    def measurement(self) -> str:
        """What was measured: `frequencies` (a sweep), `inference` (an attack), or the name of a class of one's own."""
        return str(self.spec.get("measurement", "frequencies"))

    def changed(self, results: Mapping[str, Any]) -> Results:
        """Other results with what is known about this run."""
        return Results(results, **vars(self))

    def only(self, names: Sequence[str]) -> Results:
        """Select data sets.

        Parameters
        ----------
        names : sequence of str
            Names of data sets.

        Returns
        -------
        Results
            The results of these data sets.
        """
        return self.changed({name: self[name] for name in names})
