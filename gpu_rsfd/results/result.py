"""What a measurement gives: arrays over protocols, epsilons and repetitions, and everything that follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.planning import Counts, Look, Plan
from gpu_rsfd.results import estimate, metrics
from gpu_rsfd.results.estimate import Floats, PostprocessLike
from gpu_rsfd.results.metrics import Metric, MetricLike, as_metric
from gpu_rsfd.tape import STREAM_VERSION

if TYPE_CHECKING:
    from gpu_rsfd.datasets.base import Dataset, Labels
    from gpu_rsfd.protocols import Mechanism

M = TypeVar("M", bound="Measured")


@dataclass(frozen=True)
class NotKept:
    """Stands for counts that a file does not hold; says so when they are asked for."""

    where: str

    def __call__(self) -> Counts:
        raise InputError(f"{self.where} holds errors only (--keep mse), no counts; --keep counts would have kept them")


class Viewed:
    """Results that show themselves in a notebook; how is known to the room `show`, imported when first used."""

    def __repr__(self) -> str:
        return str(_notebook().text(self))

    def _repr_html_(self) -> str:
        """The table of errors, as a notebook shows it."""
        return str(_notebook().html(self))

    def to_dataframe(
        self, per: str = "cell", postprocess: PostprocessLike = estimate.DEFAULT, metric: MetricLike = "mse"
    ) -> Any:
        """A pandas DataFrame of errors, or of what an attack guesses.  Needs the extra `notebook`.

        Parameters
        ----------
        per : {"cell", "repetition", "attribute", "value"}
            What has a row: data set, protocol and epsilon alone, or each of these beside.
        postprocess, metric : str or callable
            As for `Result.error`.
        """
        return _notebook().to_dataframe(self, per, postprocess, metric)

    def to_xarray(self) -> Any:
        """An xarray Dataset with the variables of a results file; of several data sets, one for each, by name.

        Needs the extra `notebook`.
        """
        return _notebook().to_xarray(self)

    def plot(
        self,
        postprocess: PostprocessLike = estimate.DEFAULT,
        x: str = "auto",
        attribute: str | None = None,
        metric: MetricLike = "mse",
    ) -> Any:
        """The figure of `gpu-rsfd plot`, a Matplotlib figure.

        Parameters
        ----------
        postprocess, metric : str or callable
            As for `Result.error`.
        x : {"auto", "epsilon", "n", "d", "k"}
            The horizontal axis: n, d and k are for synthetic data sets, made by size, that differ in it.
        attribute : str, optional
            Draws true and estimated frequencies of this attribute's values instead of errors.
        """
        return _notebook().plot(self, postprocess, x, attribute, metric)


def _notebook() -> Any:
    import importlib

    return importlib.import_module("gpu_rsfd.show.notebook")


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
        return Header(data.n, data.domain, data.names, data.frequencies, plan, data.labels)

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
class Measured(Header, Viewed):
    """A header with arrays [protocol, epsilon, repetition, …].

    In place of an array there may be a function that gives it: it is called when the array is first asked for.
    """

    repetitions: range = range(0)
    spec: Mapping[str, Any] = field(default_factory=dict)  # what was run, as plain data, the data sets aside

    ARRAYS: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        late = {n: self.__dict__.pop(n) for n in self.ARRAYS if callable(self.__dict__[n])}
        self.__dict__["_late"] = late

    def __getattr__(self, name: str) -> Any:
        """What is not there yet."""
        late = self.__dict__.get("_late", {})
        if name not in late:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.__dict__.setdefault(name, late[name]())

    @classmethod
    def from_header(cls: type[M], header: Header, repetitions: range, spec: Mapping[str, Any], **arrays: Any) -> M:
        """A header and what was measured."""
        common = {f.name: getattr(header, f.name) for f in fields(Header)}
        return cls(**common, repetitions=repetitions, spec=spec, **arrays)

    def take(self: M, protocols: Sequence[int], epsilons: Sequence[int]) -> M:
        """Some protocols and epsilons."""
        cells: Any = np.ix_(protocols, epsilons)

        def part(name: str) -> Any:
            source = self.__dict__["_late"].get(name, self.__dict__.get(name))
            if source is None or isinstance(source, NotKept):
                return source
            return lambda: getattr(self, name)[cells]

        return replace(self, plan=self.plan.take(protocols, epsilons), **{name: part(name) for name in self.ARRAYS})


@dataclass(frozen=True, eq=False, repr=False)
class Result(Measured):
    """Counts of a simulation on one data set; estimates and errors are computed from them.

    Attributes
    ----------
    counts : ndarray of int64, [protocol, epsilon, repetition, value]
        Number of reports of each value; the values of all attributes, in order.
    reporters : ndarray of int64, [protocol, epsilon, repetition, attribute]
        Number of users who reported an attribute: n, or fewer for Smp.
    errors : ndarray of float64, [protocol, epsilon, repetition, postprocess], or None
        MSE_avg, once it has been computed.
    protocols, epsilons, repetitions
        The coordinates of these arrays.
    """

    counts: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    reporters: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    errors: Floats | None = field(default_factory=lambda: None)

    ARRAYS: ClassVar[tuple[str, ...]] = ("counts", "reporters", "errors")

    @property
    def has_counts(self) -> bool:
        """Whether counts are available: not in a file made with `--keep mse`."""
        return not isinstance(self.__dict__["_late"].get("counts"), NotKept)

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
            [protocol, epsilon, repetition].  NaN where an attribute has no estimate.

        Raises
        ------
        InputError
            If a name is unknown; or if a file made with ``--keep mse`` is asked for more than the errors it holds.
        """
        how, kind = as_metric(metric), estimate.as_postprocess(postprocess)
        stored = self.errors if how.function is metrics.mse and kind in estimate.STORED else None
        if stored is not None:
            return stored[..., estimate.STORED.index(str(kind))]
        found: Floats
        if not isinstance(metric, str) or not isinstance(kind, str):
            found = self.error_per_attribute(how, kind).mean(axis=-1)
        else:
            known = self.compute([how], kind)
            found = known[how, estimate.function_of(kind)]
        return found

    def compute(self, wanted: Sequence[Metric], postprocess: PostprocessLike) -> dict[Any, Floats]:
        """Errors by several metrics, which `error` then finds: estimates are processed once for all of them."""
        known: dict[Any, Floats] = self.__dict__.setdefault("_computed", {})
        function = estimate.function_of(postprocess)
        if missing := [metric for metric in wanted if (metric, function) not in known]:
            for metric, each in zip(missing, self._per_attribute(missing, postprocess), strict=True):
                known[metric, function] = each.mean(axis=-1)
        return known

    def error_per_attribute(
        self, metric: MetricLike = "mse", postprocess: PostprocessLike = estimate.DEFAULT
    ) -> Floats:
        """The error of each attribute, [protocol, epsilon, repetition, attribute]; parameters as for `error`."""
        return self._per_attribute([as_metric(metric)], estimate.as_postprocess(postprocess))[0]

    def _per_attribute(self, wanted: Sequence[Metric], postprocess: PostprocessLike) -> list[Floats]:
        arrays = self.frequencies, self.counts, self.reporters
        return estimate.errors(self.plan, self.n, *arrays, wanted, postprocess)

    def undefined(self, postprocess: PostprocessLike) -> dict[str, str]:
        """Why a post-processing gives no number (NaN), by the labels of the protocols; empty if it always gives one."""
        return estimate.undefined(self.plan, self.n, postprocess)

    def mse(self, postprocess: PostprocessLike = estimate.DEFAULT) -> Floats:
        """MSE_avg, [protocol, epsilon, repetition]: ``error("mse", postprocess)``."""
        return self.error("mse", postprocess)


@dataclass(frozen=True, eq=False, repr=False)
class AttackResult(Measured):
    """Success of an attacker who knows the marginals, on one data set (docs/privacy.md).

    Attributes
    ----------
    sampled_success : ndarray of float64, [protocol, epsilon, repetition]
        Share of users whose sampled attribute is guessed correctly: 1 for Smp, which sends it, NaN for Spl, which does
        not sample.
    value_success : ndarray of float64, [protocol, epsilon, repetition]
        Share of (user, attribute) pairs whose value is guessed correctly.
    sampled_baseline, value_baseline : float
        The same without a report: 1 / d, and guessing the most frequent value.
    """

    sampled_success: Floats = field(default_factory=lambda: np.empty(0))
    value_success: Floats = field(default_factory=lambda: np.empty(0))
    sampled_baseline: float = float("nan")
    value_baseline: float = float("nan")

    ARRAYS: ClassVar[tuple[str, ...]] = ("sampled_success", "value_success")

    @property
    def knowledge(self) -> str:
        """What the attacker knows of the marginals: `true` or `estimated`."""
        return str(self.spec.get("knowledge", "true"))


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
    """

    def __init__(
        self,
        results: Mapping[str, Any] = MappingProxyType({}),
        *,
        spec: Mapping[str, Any] = MappingProxyType({}),
        complete: bool = True,
        stream_version: int = STREAM_VERSION,
        package_version: str = "",
        backend: str = "",
        device: str = "",
        seconds: Mapping[str, float] = MappingProxyType({}),
        computed: int = 0,
        format: int = 0,
    ) -> None:
        super().__init__(results)
        self.spec, self.complete = dict(spec), complete
        self.stream_version, self.package_version = stream_version, package_version
        self.backend, self.device = backend, device
        self.seconds = dict(seconds)  # simulated, per data set
        self.computed = computed  # repetitions that the call which gave these results has simulated
        self.format = format  # of the file that they were read from

    @property
    def measurement(self) -> str:
        """What was measured: `frequencies` (a sweep) or `inference` (an attack)."""
        return str(self.spec.get("measurement", "frequencies"))

    def changed(self, results: Mapping[str, Any]) -> Results:
        """Other results with what is known about this run."""
        known = {k: v for k, v in vars(self).items() if k in Results.__init__.__kwdefaults__}  # type: ignore[operator]
        return Results(results, **known)

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


def each_protocol(plan: Plan) -> Iterator[tuple[int, Plan]]:
    """One protocol after the other, so that little is in memory."""
    for p in range(len(plan.looks)):
        yield p, plan.take([p])
