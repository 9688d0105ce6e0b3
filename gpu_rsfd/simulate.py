"""`simulate`: one data set through protocols x epsilons x repetitions, and the result."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import SupportsIndex

import numpy as np

from gpu_rsfd import estimate
from gpu_rsfd.backends import BACKENDS, open_backend
from gpu_rsfd.backends.base import Backend, Progress
from gpu_rsfd.datasets import as_dataset
from gpu_rsfd.datasets.base import Dataset, Labels, check_rows, importable
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import Floats
from gpu_rsfd.plan import Counts, Plan
from gpu_rsfd.protocols import PAPER, Mechanism
from gpu_rsfd.samplers import SAMPLERS
from gpu_rsfd.spec import PAPER_EPSILONS, Spec

WITH_PROCESSES = ("numpy", "counts")  # engines whose workers are processes


@dataclass(frozen=True, eq=False)
class Result:
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

    @classmethod
    def of(
        cls, data: Dataset, plan: Plan, spec: Spec, repetitions: range, counts: Sequence[Counts], sampled: Counts
    ) -> Result:
        """A backend's counts of some repetitions of a spec."""
        return cls(
            n=data.n,
            domain=data.domain,
            names=data.names,
            frequencies=data.frequencies,
            spec=replace(spec, repetitions=repetitions),
            counts=plan.spread(counts),
            reporters=plan.reporters(data.n, sampled),
            labels=data.labels,
        )

    def extended(self, other: Result) -> Result:
        """This result, then the repetitions of `other`, which must follow on."""
        mine, more = self.repetitions, other.repetitions
        return replace(
            self,
            spec=replace(self.spec, repetitions=range(mine.start, more.stop, mine.step)),
            counts=np.concatenate([self.counts, other.counts], axis=2),
            reporters=np.concatenate([self.reporters, other.reporters], axis=2),
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
        return Plan.of(self.domain, self.protocols, self.epsilons, self.spec.assignment)

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
        average: Floats = self.mse_per_attribute(postprocess).mean(axis=-1)
        return average


def open_engine(
    sampler: str, backend: str = "auto", workers: int | None = None, devices: Sequence[int] | None = None
) -> tuple[Backend, str]:
    """What makes the counts, and why this: a backend for every user, or a sampler of the counts' law."""
    if sampler == "users":
        return open_backend(backend, workers, devices)
    if backend not in BACKENDS:
        raise InputError(f"unknown backend {backend!r}; available: {', '.join(BACKENDS)}")
    if backend == "cupy" or devices is not None:
        raise InputError(f"sampler={sampler!r} runs on the host, which is fast enough; leave cupy and devices out")
    return SAMPLERS[sampler](workers), f"sampler={sampler} draws the counts without users"


def _engine_for(
    data: Dataset, sampler: str, backend: str, workers: int | None, devices: Sequence[int] | None
) -> Backend:
    """An engine that this data set can be used with: worker processes must be able to import its class."""
    engine, _ = open_engine(sampler, backend, workers, devices)
    if engine.name not in WITH_PROCESSES or getattr(engine, "workers", 1) == 1 or importable(type(data)):
        return engine
    engine.close()
    if workers is None:
        return open_engine(sampler, "numpy", 1)[0]
    raise InputError(
        f"workers={workers}: worker processes can't import the class {type(data).__qualname__!r} of the data set from "
        f"{type(data).__module__!r}; put it into a module of its own, or use workers=1"
    )


def simulate(
    data: Dataset | str | os.PathLike[str],
    epsilons: float | Sequence[float] = PAPER_EPSILONS,
    protocols: str | Sequence[str] = PAPER,
    repetitions: SupportsIndex | range = 100,
    seed: int = 0,
    backend: str = "auto",
    workers: int | None = None,
    devices: Sequence[int] | None = None,
    assignment: str = "uniform",
    sampler: str = "users",
    progress: Progress | None = None,
) -> Result:
    """Simulate every user's report under each protocol and epsilon, and count the reports.

    `data`: a data set; or the name of one, as in `load_dataset`, or the path of a table, as in `load_table`.
    `repetitions` is a count or a range: repetition 57 alone, `range(57, 58)`, equals the 57th of a long run.  Results
    are a function of (data, seed, repetition, protocol, epsilon, assignment, sampler): never of what else is
    simulated, nor of the machine.

    `backend`: `auto` takes `cupy` if a CUDA device works, else `numpy`.  `workers`: processes of the NumPy backend
    (default: one per core; one in all if the data set's class is defined in the script itself).  `devices`: CUDA device
    numbers (default: all that work).
    `assignment`: `uniform` lets each user sample an attribute independently (Algorithm 1), `balanced` deals the users
    out to d groups of equal size (the authors' own experiments).
    `sampler`: `users` simulates every user's every report; `counts` draws all counts from their exact joint law, given
    who sampled what; `marginals` draws each attribute's counts from their exact law, whatever n is, with independent
    attributes.  `progress` is called with the positions (users x values) done.
    """
    spec = Spec.of(protocols, epsilons, repetitions, seed, assignment, sampler)
    data = as_dataset(data)
    check_rows(data, spec.sampler)
    plan = Plan.of(data.domain, spec.protocols, spec.epsilons, spec.assignment)
    with _engine_for(data, spec.sampler, backend, workers, devices) as engine:
        counts, sampled = engine.count(plan, data, spec.seed, spec.repetitions, progress)
    return Result.of(data, plan, spec, spec.repetitions, counts, sampled)
