"""What a worker of a cluster does: a task on a data set, and what it says of itself."""

from __future__ import annotations

import hashlib
import pickle
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.backends import host_backend, open_backend
from gpu_rsfd.backends.base import Backend, known_noises, lacking, noises_of
from gpu_rsfd.backends.cpu.backend import run_task
from gpu_rsfd.backends.cpu.counting import Task, TaskCounts
from gpu_rsfd.backends.pool import Columns, Failure
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.table import load_table
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.planning import Counts, Plan
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.version import __version__


class Versions(NamedTuple):
    """What must be equal for the integers to be equal."""

    package: str
    stream: int
    numpy: str

    def __str__(self) -> str:
        return f"gpu-rsfd {self.package}, stream {self.stream} and NumPy {self.numpy}"


def versions() -> Versions:
    return Versions(__version__, STREAM_VERSION, np.__version__)


data_here: dict[str, Dataset] = {}  # brought by plugins
columns_here: dict[str, Columns] = {}  # of the last data set
_engines: dict[tuple[str, str], Backend] = {}


def has_gpu(worker: Any) -> bool:
    """Whether a worker was given a device: `dask worker --resources GPU=1`."""
    return bool((getattr(worker.state, "total_resources", None) or {}).get("GPU"))


def about(dask_worker: Any = None) -> tuple[Versions, bool]:
    """What a worker says of itself."""
    return versions(), has_gpu(dask_worker)


def engine_here(backend: str, sampler: str, plan: Plan) -> Backend:
    """What a worker simulates with; it keeps it."""
    from distributed import get_worker

    worker: Any = get_worker()
    kind, noises = backend, noises_of(plan.attributes)
    if sampler == "users" and backend == "auto":
        device = has_gpu(worker) and not lacking(known_noises()["cupy"], noises)
        kind = "cupy" if device else host_backend(noises)[0]
    if kind == "cupy" and (threads := worker.state.nthreads) > 1:  # they would only keep each other waiting
        raise RunError(f"a worker with a GPU has {threads} threads; start it with one (dask worker --nthreads 1)")
    if (kind, sampler) not in _engines:
        workers = 1 if kind != "cupy" else None
        _engines[kind, sampler] = open_backend("auto" if sampler != "users" else kind, workers, sampler=sampler)[0]
    return _engines[kind, sampler]


class Unable(NamedTuple):
    """What a worker answers that can't do any of the work, for a reason of its own; others may."""

    worker: str
    why: str


def _unable(why: str) -> Unable:
    from distributed import get_worker

    return Unable(str(get_worker().address), why)


def other_versions(there: Versions, here: Versions) -> str:
    return f"it has {there}, this process has {here}; the same are needed"


def carry_out(wanted: Versions, key: str, data: bytes | None, work: Callable[..., Any], arguments: bytes) -> Any:
    """A task: what is to be done on which data set.  An error of ours comes back as such, a bug with its place."""
    try:
        if (here := versions()) != wanted:
            return _unable(other_versions(here, wanted))
        if key not in columns_here:
            dataset = data_here.get(key) if data is None else pickle.loads(data)
            if isinstance(dataset, FromFile):
                try:
                    dataset = dataset.load()
                except (InputError, RunError, OSError) as error:
                    return _unable(str(error))
            if dataset is None:
                return None  # it joined just now: asked again
            columns_here.clear()
            columns_here[key] = Columns(dataset)
        return (work(columns_here[key], *pickle.loads(arguments)),)
    except MemoryError as error:
        return _unable(f"it is out of memory{f': {error}' if str(error) else ''}")
    except (InputError, RunError) as error:
        return Failure(error, traceback.format_exc())
    except Exception:
        return Failure(None, traceback.format_exc())


class FromFile(NamedTuple):
    """A table in a file that workers read themselves; their codes must be the client's."""

    path: str
    options: dict[str, Any]
    sha256: str

    def load(self) -> Dataset:
        data = load_table(self.path, **self.options)
        if data.describe()["sha256"] != self.sha256:
            raise RunError(f"{self.path} is another file on a worker of the cluster")
        return data


def digest_of(path: str) -> str:
    """Of a file's bytes; nothing if it can't be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    except OSError:
        return ""
    return digest.hexdigest()


def count_repetitions(
    columns: Columns, plan: Plan, seed: int, repetitions: range, backend: str, sampler: str
) -> tuple[list[Counts], Counts]:
    """All users, some repetitions."""
    return engine_here(backend, sampler, plan).count(plan, columns.dataset, seed, repetitions)


def run_task_here(columns: Columns, task: Task, seed: int) -> TaskCounts:
    """Some users: in C if this worker has a compiler and C knows the noises, else with NumPy."""
    if host_backend(noises_of(task.attributes))[0] == "numpy":
        return run_task(columns, task, seed)
    from gpu_rsfd.backends.native import backend

    return backend.run_task(columns, task, seed)
