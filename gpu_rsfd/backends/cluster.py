"""Simulation on a Dask cluster: work goes to its workers, results come back to the one process that writes.

A worker with a resource GPU uses CuPy, every other one C or NumPy in one thread: the integers are the same.
Which worker does what, and what becomes of the work of one that is lost, is Dask's affair.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from gpu_rsfd.backends import host_backend
from gpu_rsfd.backends.base import Progress, noises_of
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.cpu.counting import Task, TaskCounts, run_task
from gpu_rsfd.backends.engine import Engine, Job, Local
from gpu_rsfd.backends.pool import Columns, Process, end_with_parent
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError, RunError, heed_signals
from gpu_rsfd.options import counted
from gpu_rsfd.planning import Counts, Plan
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.version import __version__

try:
    import cloudpickle
    import cryptography  # noqa: F401  (for the certificate of a local cluster)
    import distributed
except ImportError as error:
    raise InputError(f"a cluster needs the extra `cluster`: pip install gpu-rsfd[cluster] ({error})") from None

CONNECTING_SECONDS = 20.0
WAITING_SECONDS = 60.0  # for the first worker, unless a patience is given
QUIET_SECONDS = 7.0  # without progress, and what is waited for is said, and again; asking for it may take 3 more
NOBODY = "no worker, or the scheduler does not answer"
IN_FLIGHT = 2  # jobs for each thread of the cluster: one at work, one waiting there
VERSIONS = f"gpu-rsfd {__version__}, stream {STREAM_VERSION} and NumPy {np.__version__}"  # equal: equal integers


class Cluster(Engine):
    """What a local engine is on one machine: work on data sets, done somewhere.

    Parameters
    ----------
    cluster : str
        A scheduler's address, its file, or ``local:4`` for four workers on this machine.
    backend, sampler : str
        What workers count with.
    patience : float, optional
        Seconds without any result after which it is given up.
    say : callable, optional
        Is told, in one line, what is waited for.
    noises : collection of types, optional
        What a worker's backend has to know.
    """

    name = "cluster"

    def __init__(
        self,
        cluster: str,
        backend: str = "auto",
        sampler: str = "users",
        patience: float | None = None,
        say: Callable[[str], None] = lambda line: None,
        noises: Collection[type] = (),
    ) -> None:
        self.cluster, self.backend, self.sampler, self.noises = cluster, backend, sampler, frozenset(noises)
        self.patience, self.say, self.reason = patience, say, f"cluster {cluster} was asked for"
        self._data: dict[int, tuple[Dataset, Any]] = {}  # sent lately
        self._gone, self._threads = f"cluster={cluster}: the scheduler is gone", 1
        self._most = 0  # workers that there have been at a time
        self._stack = contextlib.ExitStack()
        names = [name for name in logging.root.manager.loggerDict if name.startswith(("distributed", "tornado"))]
        for logger in map(logging.getLogger, ["asyncio", *names]):
            self._stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        place: dict[str, Any] = {"address": self.cluster}
        if self.cluster.startswith("local:"):
            number = self.cluster.removeprefix("local:")
            if not number.isdecimal() or not 1 <= int(number) <= 1024:
                raise InputError(f"cluster={self.cluster} must name a number of workers, such as local:4")
            place = {"address": self._stack.enter_context(local_cluster(int(number)))}
        elif Path(self.cluster).is_file():
            place = {"scheduler_file": self.cluster}
        elif "://" not in self.cluster:
            raise InputError(f"cluster={self.cluster} must be a scheduler's address (tcp://…), its file, or local:4")
        self._client: Any = None
        try:
            self._client = distributed.Client(**place, timeout=CONNECTING_SECONDS, set_as_default=False)
            self._stack.callback(self._client.close, 2)
            self._client.wait_for_workers(1, timeout=self.patience or WAITING_SECONDS)
        except (OSError, ValueError, TypeError) as error:  # a timeout is an OSError; the others: no such address
            why = "no worker joined it" if self._client else (str(error).splitlines() or ["?"])[0]
            raise RunError(f"cluster={self.cluster} can't be used: {why}") from None
        self._gpus = any(answer is True for answer in self._client.run(has_gpu, on_error="return").values())
        if self.backend == "cupy" and not self._gpus:
            raise RunError(f"cluster={self.cluster} has no worker with a GPU (dask worker --resources GPU=1)")

    def close(self) -> None:
        """Leaves the cluster, which stays; a local one ends."""
        with contextlib.suppress(Exception):  # the scheduler may not answer any more
            self._stack.close()

    def _workers(self) -> dict[str, int]:
        """Their threads; nothing if the scheduler doesn't answer in time."""
        with contextlib.suppress(Exception):  # whatever is wrong shows where work is done
            found = dict(self._client.sync(self._client.scheduler.ncores, callback_timeout=3))
            self._most = max(self._most, len(found))
            return found
        return {}

    @property
    def threads(self) -> int:
        """Jobs that the cluster can do at a time."""
        self._threads = sum(self._workers().values()) or self._threads
        return self._threads

    @property
    def device(self) -> str:
        return f"Dask cluster of {counted(self.threads, 'thread')}"

    def drawn_at_once(self, plan: Plan) -> int:
        with Local("auto", 1, sampler=self.sampler, noises=self.noises) as one:
            return one.drawn_at_once(plan)

    def batch_multiple(self, n: int) -> int:
        return self.threads

    def stream(self, jobs: Iterable[Job]) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """(arguments, `function(engine, data, *arguments)`) of jobs (data, function, arguments), as they get done.

        The engine is the worker's own.  Only a few jobs are under way.
        """
        # results are fetched as they come: a worker that is lost with one of them is waited for in `_wait`, and told of
        done = distributed.as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        running, queue = dict[Any, Any](), iter(jobs)
        resources = {"GPU": 1} if self.backend == "cupy" else None
        how = VERSIONS, self.backend, self.sampler, self.noises
        while True:
            room = IN_FLIGHT * self.threads - len(running)
            for data, function, arguments in islice(queue, max(0, room)):
                _send_along(data, function, *arguments)
                content = self._sent(data), _pickled(function.__name__, (function, arguments))
                future = self._submit(carry_out, how, *content, resources=resources)
                running[future] = arguments
                done.add(future)
            if not running:
                return
            self._wait(done, len(running))
            future, result = next(done)
            yield running.pop(future), result if future.status == "finished" else self._result(future)

    def map(self, data: Dataset, function: Callable[..., Any], items: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """`function(columns, *item)` of each item, in order."""
        early: dict[int, Any] = {}
        expected = 0
        jobs = ((data, _mapped, (number, function, *item)) for number, item in enumerate(items))
        for (number, *_), answer in self.stream(jobs):
            early[number] = answer
            while expected in early:
                yield early.pop(expected)
                expected += 1

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute].

        Workers share the users of each repetition; those with a GPU, and samplers, take whole repetitions.
        """
        if self.sampler == "users" and not self._gpus:
            work = run_task if self.backend == "numpy" else _run_task_here
            shared = NumpyBackend(max(2, min(1024, self.threads)), pool=self, work=work)
            return shared.count(plan, dataset, seed, repetitions, progress)
        step = -(-len(repetitions) // (4 * self.threads))
        items = [(plan, seed, repetitions[i : i + step]) for i in range(0, len(repetitions), step)]
        counts, sampled = zip(*self.map(dataset, _counted, items), strict=True)
        return [np.concatenate(tables, axis=1) for tables in zip(*counts, strict=True)], np.concatenate(sampled)

    def _sent(self, data: Dataset) -> Any:
        """A data set on the cluster, as a task: if the worker that has it is lost, another makes it again."""
        if id(data) not in self._data:
            self._data[id(data)] = data, self._submit(cloudpickle.loads, _pickled(f"data set {data.name!r}", data))
            for old in list(self._data)[:-2]:
                del self._data[old]
        return self._data[id(data)][1]

    def _submit(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is large
            try:
                return self._client.submit(function, *arguments, pure=False, **options)
            except Exception:
                raise RunError(self._gone) from None

    def _wait(self, done: Any, running: int) -> None:
        """Until something comes back.  If nothing does, what is waited for is said, now and then."""
        began, said = time.monotonic(), 0.0
        while not done.has_ready():
            time.sleep(0.002)
            heed_signals()
            waited = time.monotonic() - began
            late = self.patience is not None and waited >= self.patience
            if late or waited - said >= QUIET_SECONDS:
                said, workers = waited, len(self._workers())
                state = f"{workers} of {self._most} workers alive" if workers else NOBODY
                line = f"nothing came back for {waited:.0f} s ({state}; {running} jobs in flight)"
                line = f"cluster={self.cluster}: {line}"
                if late:
                    raise RunError(line)
                self.say(line)

    def _result(self, future: Any) -> Any:
        try:
            return future.result()
        except (InputError, RunError, MemoryError, KeyboardInterrupt):
            raise
        except BaseException as error:  # CancelledError is no Exception
            if self._client.status != "running" or future.cancelled():
                raise RunError(self._gone) from None
            if isinstance(error, (distributed.KilledWorker, ImportError)):
                raise RunError(f"cluster={self.cluster}: {(str(error).splitlines() or ['?'])[0]}") from None
            raise RuntimeError(f"in a worker of the cluster:\n{''.join(traceback.format_exception(error))}") from None


def _pickled(what: str, thing: object) -> bytes:
    try:
        return cloudpickle.dumps(thing)
    except Exception as error:
        raise InputError(f"{what} can't be sent to a cluster: {error}") from None


def _send_along(*things: Any) -> None:
    """What is defined in a module of the user's own is sent as it is (as all that is in a script): workers lack it."""
    known = {"gpu_rsfd", "__main__", *sys.stdlib_module_names}
    for name in {getattr(thing, "__module__", "builtins") for thing in things}:
        file = getattr(sys.modules.get(name), "__file__", None) or "site-packages"
        if name.partition(".")[0] not in known and "-packages" not in file:
            cloudpickle.register_pickle_by_value(sys.modules[name])


# ---------------------------------------------------------------------------------------------------------- in a worker

_here = threading.local()  # the engine and the columns of a worker's thread


def has_gpu(dask_worker: Any) -> bool:
    """Whether a worker was given a device: `dask worker --resources GPU=1`."""
    return bool(dask_worker.state.total_resources.get("GPU"))


def carry_out(how: tuple[str, str, str, frozenset[type]], data: Dataset, content: bytes) -> Any:
    """A job, with the engine of this thread."""
    wanted, backend, sampler, noises = how
    worker: Any = distributed.get_worker()
    if wanted != VERSIONS:
        raise RunError(f"worker {worker.address} has {VERSIONS}, the client {wanted}; the same are needed")
    gpu = sampler == "users" and backend in ("auto", "cupy") and has_gpu(worker)
    if gpu and worker.state.nthreads > 1:  # they would only keep each other waiting
        raise RunError(f"worker {worker.address} has a GPU and {worker.state.nthreads} threads; start it with one")
    if getattr(_here, "how", None) != how:
        _here.how, _here.engine = how, Local(backend, None if gpu else 1, sampler=sampler, noises=noises)
    function, arguments = cloudpickle.loads(content)
    return function(_here.engine, data, *arguments)


def _mapped(engine: Any, data: Dataset, number: int, function: Callable[..., Any], *item: Any) -> Any:
    if getattr(_here, "columns", None) is None or _here.columns.dataset is not data:
        _here.columns = Columns(data)
    return function(_here.columns, *item)


def _counted(columns: Columns, plan: Plan, seed: int, repetitions: range) -> Any:
    return _here.engine.count(plan, columns.dataset, seed, repetitions)


def _run_task_here(columns: Columns, task: Task, seed: int) -> TaskCounts:
    """Some users: in C if this worker has a compiler and C knows the noises, else with NumPy."""
    if host_backend(noises_of(task.attributes))[0] == "numpy":
        return run_task(columns, task, seed)
    from gpu_rsfd.backends.native import backend

    return backend.run_task(columns, task, seed)


# ------------------------------------------------------------------------------------------- a cluster of this machine


class LocalScheduler(distributed.Scheduler):
    """A scheduler without web pages."""

    def start_http_server(self, *_: object, **__: object) -> None: ...


class LocalWorker(distributed.Worker):
    """A worker without web pages."""

    start_http_server = LocalScheduler.start_http_server


@contextlib.contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """A scheduler in this process, and workers that end with it, however it ends.

    They are for this machine, and for holders of a certificate that is made for the run and never on disk.
    """
    security, folder = distributed.Security.temporary(), tempfile.mkdtemp(prefix="gpu-rsfd-")
    place = {"host": "127.0.0.1", "protocol": "tls", "security": security, "dashboard": False}
    scheduler = {"cls": LocalScheduler, "options": {**place, "port": 0}}
    processes: list[Process] = []
    try:
        with distributed.SpecCluster(scheduler=scheduler, security=security) as cluster:
            for _ in range(workers):
                process = Process(target=_serve, args=(cluster.scheduler_address, place, folder), daemon=True)
                process.start()
                processes.append(process)
            yield cluster
    finally:
        for process in processes:
            process.kill()
            process.join()
        shutil.rmtree(folder, ignore_errors=True)


def _serve(scheduler: str, place: dict[str, Any], folder: str) -> None:
    """A worker's process."""
    end_with_parent(lambda: shutil.rmtree(folder, ignore_errors=True))
    for output in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)

    async def serve() -> None:
        async with LocalWorker(scheduler, nthreads=1, memory_limit=0, local_directory=folder, **place) as worker:
            await worker.finished()

    asyncio.run(serve())
