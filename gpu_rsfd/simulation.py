"""`simulate`: one data set through protocols x epsilons x repetitions, and the result."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import SupportsIndex

from gpu_rsfd.backends import BACKENDS, open_backend
from gpu_rsfd.backends.base import Backend, Progress
from gpu_rsfd.datasets import as_dataset
from gpu_rsfd.datasets.base import Dataset, check_rows, importable
from gpu_rsfd.errors import InputError
from gpu_rsfd.plan import Plan
from gpu_rsfd.protocols import PAPER, TERMS
from gpu_rsfd.results import Result
from gpu_rsfd.spec import PAPER_EPSILONS, Spec

WITH_PROCESSES = ("numpy", "counts")  # engines whose workers are processes


def open_engine(
    cluster: str | None, backend: str, workers: int | None, devices: Sequence[int] | None, sampler: str
) -> tuple[Backend, str]:
    """What makes the counts, here or on a cluster, and one line that says why it is this."""
    if cluster is None:
        return open_backend(backend, workers, devices, sampler)
    if workers is not None or devices is not None:
        raise InputError("workers and devices are of this machine; a cluster has its own")
    if backend not in BACKENDS:
        raise InputError(f"unknown backend {backend!r}; available: {', '.join(BACKENDS)}")
    if sampler != "users" and backend == "cupy":
        raise InputError(f"sampler={sampler!r} runs on the host, which is fast enough; leave cupy and devices out")
    from gpu_rsfd.backends.cluster import ClusterBackend

    return ClusterBackend(cluster, backend, sampler), f"cluster {cluster} was asked for"


def engine_for(
    data: Dataset,
    sampler: str,
    backend: str,
    workers: int | None,
    devices: Sequence[int] | None,
    cluster: str | None = None,
) -> Backend:
    """An engine that this data set can be used with: worker processes must be able to import its class."""
    if cluster is not None:
        return open_engine(cluster, backend, workers, devices, sampler)[0]
    engine, _ = open_backend(backend, workers, devices, sampler)
    if engine.name not in WITH_PROCESSES or getattr(engine, "workers", 1) == 1 or importable(type(data)):
        return engine
    engine.close()
    if workers is None:
        return open_backend("numpy", 1, sampler=sampler)[0]
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
    first_report: float = TERMS.first_report,
    guarantee: str = TERMS.guarantee,
    prior: object = None,
    prior_seed: int = 0,
    progress: Progress | None = None,
    cluster: str | None = None,
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
    attributes.  `first_report`: the share of epsilon that the first report of a longitudinal protocol (`…-l-…`) loses.
    `guarantee`: what epsilon bounds, and so what a protocol may spend: `paper`, `user` (any two users) or `attribute`
    (users who differ in one attribute).  `prior`: the law of the fake values of RS+RFD (`rsrfd-…`): `uniform`, `true`,
    `noisy:EPS`, `dirichlet:A`, `zipf:S`, a JSON file, or frequencies for each attribute; `prior_seed`: of drawn ones.
    `progress` is called with the positions (users x values) done.
    `cluster`: of Dask: its scheduler's address (`tcp://…`) or file, or `local:4` for four processes of this machine.
    """
    spec = Spec.of(
        protocols, epsilons, repetitions, seed, assignment, sampler, first_report, guarantee, prior, prior_seed
    )
    data = as_dataset(data)
    check_rows(data, spec.sampler)
    plan = Plan.of(data.domain, spec.protocols, spec.epsilons, spec.assignment, spec.terms_for(data))
    with engine_for(data, spec.sampler, backend, workers, devices, cluster) as engine:
        counts, sampled = engine.count(plan, data, spec.seed, spec.repetitions, progress)
    return Result.of(data, plan, spec, counts, sampled)
