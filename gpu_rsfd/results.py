"""What a simulation gives: integer counts, and everything that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from gpu_rsfd import estimate
from gpu_rsfd.datasets.base import Dataset, Labels
from gpu_rsfd.domain import Domain
from gpu_rsfd.estimate import POSTPROCESS, Floats
from gpu_rsfd.plan import Counts, Plan
from gpu_rsfd.protocols import TERMS, Mechanism, Terms
from gpu_rsfd.spec import Spec
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.viewing import Viewed


@dataclass(frozen=True, eq=False, repr=False)
class Result(Viewed):
    """Integer counts of a simulation; every rate is derived from them.

    counts     int64 [protocol, epsilon, repetition, value]: reports of each value, over all attributes' values in order
    reporters  int64 [protocol, epsilon, repetition, attribute]: the users behind a count: n, or n_j for Smp
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
    errors: Floats | None = None  # MSE_avg [postprocess, protocol, epsilon, repetition], once it has been worked out

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
        raw = estimate.estimates(self.plan, self.counts, self.reporters)
        errors = [
            estimate.mse_avg(self.frequencies, estimate.postprocess(name, raw, self.domain), self.domain)
            for name in POSTPROCESS
        ]
        return replace(self, errors=np.stack(errors))

    def extended(self, other: Result) -> Result:
        """This result, then the repetitions of `other`, which must follow on."""
        mine, more = self.repetitions, other.repetitions
        errors = None
        if self.errors is not None and other.errors is not None:
            errors = np.concatenate([self.errors, other.errors], axis=-1)
        return replace(
            self,
            spec=replace(self.spec, repetitions=range(mine.start, more.stop, mine.step)),
            counts=np.concatenate([self.counts, other.counts], axis=2),
            reporters=np.concatenate([self.reporters, other.reporters], axis=2),
            errors=errors,
        )

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
