"""Which engine makes the counts: a backend of this machine, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from gpu_rsfd.backends import check_backend, open_backend
from gpu_rsfd.backends.base import Backend
from gpu_rsfd.datasets.base import Dataset, importable
from gpu_rsfd.errors import InputError

WITH_PROCESSES = ("numpy", "counts")  # engines whose workers are processes


def open_engine(
    cluster: str | None,
    backend: str,
    workers: int | None,
    devices: Sequence[int] | None,
    sampler: str,
    noises: Collection[type] = (),
) -> tuple[Backend, str]:
    """What makes the counts, here or on a cluster, and one line that says why it is this."""
    if cluster is None:
        return open_backend(backend, workers, devices, sampler, noises)
    if workers is not None or devices is not None:
        raise InputError("workers and devices can't be given for a cluster, which has its own")
    check_backend(backend, sampler)
    from gpu_rsfd.backends.cluster import Cluster

    engine: Any = Cluster(cluster, backend, sampler, noises=noises)
    return engine, engine.reason


def engine_for(
    data: Dataset,
    sampler: str,
    backend: str,
    workers: int | None,
    devices: Sequence[int] | None,
    cluster: str | None = None,
    noises: Collection[type] = (),
) -> Backend:
    """An engine that this data set can be used with: worker processes must be able to import its class."""
    if cluster is not None:
        return open_engine(cluster, backend, workers, devices, sampler, noises)[0]
    engine, _ = open_backend(backend, workers, devices, sampler, noises)
    if engine.name not in WITH_PROCESSES or getattr(engine, "workers", 1) == 1 or importable(type(data)):
        return engine
    engine.close()
    if workers is None:
        return open_backend("numpy", 1, sampler=sampler)[0]
    raise not_importable(data, workers)


def not_importable(data: Dataset, workers: int) -> InputError:
    kind = type(data)
    return InputError(
        f"workers={workers}: worker processes can't import the class {kind.__qualname__!r} of the data set from "
        f"{kind.__module__!r}; put it into a module of its own, or use workers=1"
    )
