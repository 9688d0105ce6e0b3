"""What a simulation gives: integer counts, and everything that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from gpu_rsfd import estimate
from gpu_rsfd.datasets.base import Dataset, Labels
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import POSTPROCESS, Floats
from gpu_rsfd.plan import Counts, Plan
from gpu_rsfd.protocols import TERMS, Mechanism, Terms
from gpu_rsfd.spec import Spec
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.viewing import Viewed

LATE = ("counts", "reporters", "errors")  # what may be read from a file only when it is asked for


@dataclass(frozen=True)
class NotKept:
    """Stands for counts that a file has not; says so when they are asked for."""

    where: str

    def __call__(self) -> Counts:
        raise InputError(f"{self.where} holds errors only (--keep mse), no counts; --keep counts would have kept them")


@dataclass(frozen=True, eq=False, repr=False)
class Result(Viewed):
    """Integer counts of a simulation; every rate is derived from them.

    counts     int64 [protocol, epsilon, repetition, value]: reports of each value, over all attributes' values in order
    reporters  int64 [protocol, epsilon, repetition, attribute]: the users behind a count: n, or n_j for Smp

    In place of an array there may be a function that gives it: it is called when the array is first asked for.
    """

    n: int
    domain: Domain
    names: tuple[str, ...]
    frequencies: Floats  # the truth, [value]
    spec: Spec
    counts: Counts
    reporters: Counts
    labels: Labels | None = None  # what each value stands for, [attribute][value]
    terms: Terms = TERMS
    # MSE_avg [postprocess, protocol, epsilon, repetition], once it has been worked out
    errors: Floats | None = field(default_factory=lambda: None)  # no attribute of the class, see __getattr__

    def __post_init__(self) -> None:
        late: dict[str, Callable[[], Any]] = {n: self.__dict__.pop(n) for n in LATE if callable(self.__dict__[n])}
        self.__dict__["_late"] = late

    def __getattr__(self, name: str) -> Any:
        """What is not there yet."""
        late = self.__dict__.get("_late", {})
        if name not in late:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.__dict__.setdefault(name, late[name]())

    @property
    def has_counts(self) -> bool:
        """False: the file was made with `--keep mse`."""
        return not isinstance(self.__dict__["_late"].get("counts"), NotKept)

    @classmethod
    def of(cls, data: Dataset, plan: Plan, spec: Spec, counts: Sequence[Counts], sampled: Counts) -> Result:
        """A backend's counts of the repetitions of a spec."""
        return cls(
            n=data.n,
            domain=data.domain,
            names=data.names,
            frequencies=data.frequencies,
            spec=spec,
            counts=plan.spread(counts),
            reporters=plan.reporters(data.n, sampled),
            labels=data.labels,
            terms=plan.terms,
        )

    def with_errors(self) -> Result:
        """This result with MSE_avg after every post-processing, so that nothing is estimated twice."""
        each = [
            errors_of(of_protocols(self.plan, slice(p, p + 1)), self.frequencies, self.counts[p : p + 1], reporters)
            for p, reporters in enumerate(self.reporters[:, None])
        ]
        return replace(self, errors=np.concatenate(each, axis=1))

    @property
    def protocols(self) -> tuple[str, ...]:
        return self.spec.protocols

    @property
    def epsilons(self) -> tuple[float, ...]:
        return self.spec.epsilons

    @property
    def repetitions(self) -> range:
        return self.spec.repetitions

    @cached_property
    def plan(self) -> Plan:
        return Plan.of(self.domain, self.protocols, self.epsilons, self.spec.assignment, self.terms)

    def mechanism(self, protocol: str, epsilon: float, attribute: int) -> Mechanism:
        """What a protocol did to an attribute: mechanism, thresholds, p, q, variances."""
        return self.plan.mechanism(self.protocols.index(protocol), self.epsilons.index(epsilon), attribute)

    def estimates(self, postprocess: str = "none") -> Floats:
        """Estimated frequencies, same shape as `counts`.  NaN where nobody reported an attribute (Smp on tiny data)."""
        estimate.check_postprocess(postprocess)
        return estimate.postprocess(
            postprocess, estimate.estimates(self.plan, self.counts, self.reporters), self.domain
        )

    def mse_per_attribute(self, postprocess: str = "none") -> Floats:
        """[protocol, epsilon, repetition, attribute]"""
        return estimate.mse_per_attribute(self.frequencies, self.estimates(postprocess), self.domain)

    def mse(self, postprocess: str = "none") -> Floats:
        """MSE_avg, [protocol, epsilon, repetition]."""
        estimate.check_postprocess(postprocess)
        if self.errors is not None:
            return self.errors[list(POSTPROCESS).index(postprocess)]
        average: Floats = self.mse_per_attribute(postprocess).mean(axis=-1)
        return average


def of_protocols(plan: Plan, chosen: slice) -> Plan:
    """A plan with some of its protocols, everything else being equal."""
    part = replace(plan, protocols=plan.protocols[chosen], cells=plan.cells[chosen])
    part.__dict__["mechanisms"] = plan.mechanisms[chosen]
    return part


def errors_of(plan: Plan, frequencies: Floats, counts: Counts, reporters: Counts) -> Floats:
    """MSE_avg after every post-processing, [postprocess, protocol, epsilon, repetition]."""
    raw = estimate.estimates(plan, counts, reporters)
    return np.stack(
        [
            estimate.mse_avg(frequencies, estimate.postprocess(name, raw, plan.domain), plan.domain)
            for name in POSTPROCESS
        ]
    )


class Results(Viewed, dict[str, Result]):
    """Results per data set, as `simulate` gives them, with what is known about the run."""

    def __init__(
        self,
        results: Mapping[str, Result] = MappingProxyType({}),
        *,
        spec: Mapping[str, Any] = MappingProxyType({}),
        complete: bool = True,
        stream_version: int = STREAM_VERSION,
        package_version: str = "",
        backend: str = "",
        device: str = "",
        seconds: Mapping[str, float] = MappingProxyType({}),
        computed: int = 0,
    ) -> None:
        super().__init__(results)
        self.spec, self.complete = dict(spec), complete
        self.stream_version, self.package_version = stream_version, package_version
        self.backend, self.device = backend, device
        self.seconds = dict(seconds)  # simulated, per data set
        self.computed = computed  # repetitions that the call which gave these results has simulated

    def only(self, names: Sequence[str]) -> Results:
        """The results of some data sets."""
        return Results({name: self[name] for name in names}, spec=self.spec, complete=self.complete)
