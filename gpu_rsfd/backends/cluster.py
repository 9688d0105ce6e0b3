"""Simulation on a Dask cluster: tasks go to its workers, counts come back to the one process that writes.

A worker with a resource GPU uses CuPy, every other one C or NumPy in one thread: the integers are the same.
Nothing here schedules: which worker does what, and what a lost one had, is Dask's affair.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from gpu_rsfd.backends import host_backend, open_backend
from gpu_rsfd.backends.base import Backend, Engine, Progress, lacking, noises_of
from gpu_rsfd.backends.cpu.backend import NumpyBackend, run_task
from gpu_rsfd.backends.cpu.counting import Task, TaskCounts
from gpu_rsfd.backends.cuda.backend import CupyBackend
from gpu_rsfd.backends.pool import COMMAND_BYTES, Columns, Failure, code_bytes
from gpu_rsfd.datasets.base import Dataset, importable
from gpu_rsfd.datasets.table.load import load_table
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.planning import Counts, Plan
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.version import __version__

CONNECTING_SECONDS = 20.0
WAITING_SECONDS = 60.0  # for the first worker, unless a patience is given
QUIET_SECONDS = 15.0  # without progress, and what is waited for is said; and again
SILENT_SECONDS = 45.0  # without a word from a worker, and its work is given to others
ANSWER_SECONDS = 3.0  # for the scheduler to answer
IN_FLIGHT = 2  # tasks for each thread of the cluster: one at work, one waiting there
ASKED_EVERY = 5.0  # seconds between questions how large the cluster is
SENT_ALONG = 1 << 16  # bytes of a data set that goes with each task; larger ones are sent to each worker once
TRIES = 5  # of a task, if it is the cluster's fault that it failed
LARGE, HUGE = 1 << 30, 1 << 36  # positions of a repetition: some 10 s, and some 10 min, of one worker
LOGGERS = ("distributed", "tornado.application", "asyncio")
ADDRESS = "address"  # file of a local scheduler
START = """
import sys
sys.path[:] = {path!r}
from gpu_rsfd.backends.dask_plugin import serve
serve({role!r}, {folder!r})
"""


WAITING: ContextVar[tuple[float | None, Callable[[str], None]]] = ContextVar(
    "WAITING", default=(None, lambda line: None)
)  # how long nothing may come back, and who is told


@contextlib.contextmanager
def waiting(patience: float | None, say: Callable[[str], None]) -> Iterator[None]:
    """Clusters that are opened meanwhile say what they wait for, and give up after `patience` seconds of nothing."""
    before = WAITING.set((patience, say))
    try:
        yield
    finally:
        WAITING.reset(before)


Job = tuple[Dataset, Callable[..., Any], tuple[Any, ...]]  # data set, work, its arguments after the data's columns


class Versions(NamedTuple):
    """What must be equal for the integers to be equal."""

    package: str
    stream: int
    numpy: str

    def __str__(self) -> str:
        return f"gpu-rsfd {self.package}, stream {self.stream} and NumPy {self.numpy}"


def versions() -> Versions:
    return Versions(__version__, STREAM_VERSION, np.__version__)


# ---------------------------------------------------------------------------------------------- in a worker

data_here: dict[str, Dataset] = {}  # brought by plugins
columns_here: dict[str, Columns] = {}  # of the last data set
_engines: dict[tuple[str, str], Backend] = {}


def has_gpu() -> bool:
    """Whether this worker was given a device: `dask worker --resources GPU=1`."""
    from distributed import get_worker

    worker: Any = get_worker()
    resources = getattr(getattr(worker, "state", worker), "total_resources", None) or {}
    return bool(resources.get("GPU"))


def threads_here() -> int:
    """Of this worker: more than one on a device would only keep each other waiting."""
    from distributed import get_worker

    worker: Any = get_worker()
    return int(getattr(worker, "state", worker).nthreads)


def about(dask_worker: Any = None) -> tuple[Versions, bool]:
    """What a worker says of itself."""
    resources = getattr(getattr(dask_worker, "state", dask_worker), "total_resources", None) or {}
    return versions(), bool(resources.get("GPU"))


def engine_here(backend: str, sampler: str, plan: Plan) -> Backend:
    """What a worker simulates with; it keeps it."""
    kind, noises = backend, noises_of(plan.attributes)
    if sampler == "users" and backend == "auto":
        kind = "cupy" if has_gpu() and not lacking(CupyBackend.noises, noises) else host_backend(noises)[0]
    if kind == "cupy" and (threads := threads_here()) > 1:
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


def _others(there: Versions, here: Versions) -> str:
    return f"it has {there}, this process has {here}; the same are needed"


def carry_out(wanted: Versions, key: str, data: bytes | None, work: Callable[..., Any], arguments: bytes) -> Any:
    """A task: what is to be done on which data set.  An error of ours comes back as such, a bug with its place."""
    try:
        if (here := versions()) != wanted:
            return _unable(_others(here, wanted))
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


# ---------------------------------------------------------------------------------------------- in the client


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise InputError(
            f"a cluster needs Dask, the extra `cluster`: pip install gpu-rsfd[cluster] ({error})"
        ) from None


class LocalCluster:
    """A scheduler and some workers of one thread, processes of this machine, to try things out.

    They listen on the loopback interface alone, and talk to holders of a certificate that is made for the run.
    """

    def __init__(self, workers: int, distributed: Any) -> None:
        try:
            self.security = distributed.Security.temporary()
        except ImportError as error:
            raise InputError(
                f"a local cluster needs the extra `cluster`: pip install gpu-rsfd[cluster] ({error})"
            ) from None
        self._folder = tempfile.TemporaryDirectory(prefix="gpu-rsfd-", ignore_cleanup_errors=True)
        self._address = Path(self._folder.name, ADDRESS)
        fields = (
            "ca_file",
            *(f"{role}_{what}" for role in ("client", "scheduler", "worker") for what in ("key", "cert")),
        )
        secret = {f"tls_{field}": getattr(self.security, f"tls_{field}") for field in fields}
        line = json.dumps({"require_encryption": True, **secret}) + "\n"
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for role in ("scheduler", *["worker"] * workers):
                self._processes.append(self._start(role))
                pipe: Any = self._processes[-1].stdin
                pipe.write(line.encode())
                pipe.flush()
        except BaseException:
            self.close()
            raise

    def _start(self, role: str) -> subprocess.Popen[bytes]:
        path = [str(p) or os.getcwd() for p in sys.path]  # as worker processes of our own, from nowhere else
        code = START.format(path=path, role=role, folder=self._folder.name)
        nothing = subprocess.DEVNULL
        return subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, start_new_session=True
        )

    def address(self) -> str:
        """Of the scheduler, once it is there."""
        deadline = time.monotonic() + WAITING_SECONDS
        while not self._address.exists():
            if time.monotonic() > deadline or self._processes[0].poll() is not None:
                raise RunError("the scheduler of a local cluster did not start")
            time.sleep(0.02)
        return self._address.read_text()

    def close(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
        self._folder.cleanup()


class DaskPool:
    """What `pool.Pool` is on one machine: work on a data set, done somewhere."""

    def __init__(self, cluster: str, backend: str = "auto") -> None:
        self._local: LocalCluster | None = None
        self._patience, self.say = WAITING.get()
        self._left_out: dict[str, str] = {}  # workers, and why
        self._client: Any = None
        self._backend, self.cluster, self._gone = backend, cluster, False
        self._asked, self._threads = -ASKED_EVERY, 1
        self._known: dict[int, tuple[Dataset, str, bytes | None]] = {}
        self._distributed = _distributed()
        names = [*LOGGERS, *(name for name in logging.root.manager.loggerDict if name.startswith("distributed."))]
        self._quiet = [(logging.getLogger(name), logging.getLogger(name).level) for name in names]
        for logger, _ in self._quiet:
            logger.setLevel(logging.CRITICAL)
        try:
            self._connect()
            self.gpus = self._check()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        place: dict[str, Any] = {"address": self.cluster}
        if self.cluster.startswith("local:"):
            number = self.cluster.removeprefix("local:")
            if not number.isdecimal() or not 1 <= int(number) <= 1024:
                raise InputError(f"cluster={self.cluster} must name a number of workers, such as local:4")
            self._local = LocalCluster(int(number), self._distributed)
            place = {"address": self._local.address(), "security": self._local.security}
        elif "://" not in self.cluster:
            if not Path(self.cluster).is_file():
                raise InputError(
                    f"cluster={self.cluster} must be a scheduler's address (tcp://…), its file, or local:4"
                )
            place = {"scheduler_file": self.cluster}
        try:
            self._client = self._distributed.Client(
                **place, timeout=CONNECTING_SECONDS, set_as_default=False, name="gpu-rsfd"
            )
            self._await_workers()
        except (OSError, ValueError, TypeError) as error:  # a timeout is an OSError; the others: no such address
            what = "no worker joined it" if self._client is not None else (str(error).splitlines() or ["?"])[0]
            raise RunError(f"cluster={self.cluster} can't be used: {what}") from None

    def _await_workers(self) -> None:
        """The first worker."""
        began, limit = time.monotonic(), WAITING_SECONDS if self._patience is None else self._patience
        while True:
            left = began + limit - time.monotonic()
            try:
                return self._client.wait_for_workers(1, timeout=min(QUIET_SECONDS, max(left, 0.01)))
            except TimeoutError:
                waited = time.monotonic() - began
                if waited >= limit:
                    raise
                self.say(f"cluster={self.cluster}: waiting for a first worker for {waited:.0f} s")

    def _check(self) -> bool:
        """Compares the workers' versions with ours; says whether all workers have a GPU."""
        try:
            answers = self._everywhere(about)
        except Exception as error:
            raise RunError(f"cluster={self.cluster} can't be used: {(str(error).splitlines() or ['?'])[0]}") from None
        here = versions()
        for worker, answer in answers.items():
            if isinstance(answer, BaseException):
                self._leave_out(worker, f"it can't run gpu-rsfd {__version__}: {answer}")
            elif Versions(*answer[0]) != here:
                self._leave_out(worker, _others(Versions(*answer[0]), here))
        gpus = [bool(answer[1]) for worker, answer in answers.items() if worker not in self._left_out]
        if not gpus:
            self._nobody_left()
        if self._backend == "cupy" and not any(gpus):
            raise RunError(f"cluster={self.cluster} has no worker with a GPU (dask worker --resources GPU=1)")
        return any(gpus)

    def _leave_out(self, worker: str, why: str) -> None:
        """A worker that can't help gets no more work; the others go on."""
        if worker not in self._left_out:
            self._left_out[worker] = why
            self.say(f"worker {worker} is left out: {(why.splitlines() or ['?'])[0]}")

    def _nobody_left(self) -> NoReturn:
        worker, why = next(reversed(self._left_out.items()))
        raise RunError(f"cluster={self.cluster} has no worker that can be used; {worker}: {why}")

    def _ask(self, question: str) -> Any:
        """What the scheduler says; None if it doesn't in time."""
        with contextlib.suppress(Exception):  # whatever is wrong shows where work is done
            return self._client.sync(getattr(self._client.scheduler, question), callback_timeout=ANSWER_SECONDS)
        return None

    def _everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """What each worker says to a question; whoever doesn't in time is left out."""
        answers: dict[str, Any] = {}
        client = self._client
        groups = [[w for w in client.nthreads() if w not in self._left_out]]
        while groups:
            group = groups.pop()
            try:
                answers |= client.sync(
                    client._run, function, *arguments, workers=group, on_error="return", callback_timeout=QUIET_SECONDS
                )
            except TimeoutError:
                if len(group) == 1:
                    self._leave_out(group[0], f"it did not answer for {QUIET_SECONDS:.0f} s")
                groups += [[worker] for worker in group if len(group) > 1]
        return answers

    @property
    def threads(self) -> int:
        """Tasks that the cluster can do at a time, as far as that was known a moment ago."""
        if time.monotonic() - self._asked > ASKED_EVERY:
            answer = self._ask("ncores")
            self._asked = time.monotonic()
            if answer is not None:
                self._threads = max(1, sum(n for worker, n in answer.items() if worker not in self._left_out))
        return self._threads

    def _reference(self, dataset: Dataset) -> tuple[str, bytes | None]:
        """A name for a data set, and its bytes if they go with each task; else all workers have it, once."""
        if id(dataset) not in self._known:
            if not importable(type(dataset)):
                raise InputError(
                    f"the workers of a cluster can't import the class {type(dataset).__qualname__!r} of the data set; "
                    "put it into a module that they have"
                )
            content = pickle.dumps(dataset, pickle.HIGHEST_PROTOCOL)
            key = f"gpu-rsfd-{os.getpid()}-{time.time_ns()}-{len(self._known)}"
            if len(content) > SENT_ALONG and (file := self._file(dataset)) is not None:
                content = pickle.dumps(file, pickle.HIGHEST_PROTOCOL)
            elif len(content) > SENT_ALONG:
                from gpu_rsfd.backends.dask_plugin import HasData

                self._client.register_plugin(HasData(key, content), name=key)
                content = b""
            self._known[id(dataset)] = (dataset, key, content or None)
        return self._known[id(dataset)][1:]

    def _file(self, dataset: Dataset) -> FromFile | None:
        """Where the workers can load a data set from; None if they don't all see the same file."""
        if dataset.origin is None or type(dataset) is not Dataset:
            return None
        path, options = dataset.origin
        files = [path, *([options["domain_file"]] if options.get("domain_file") else [])]
        for name in files:
            if set(self._everywhere(digest_of, name).values()) != {digest_of(name)} - {""}:
                return None
        return FromFile(path, options, dataset.describe()["sha256"])

    def each(
        self, workers: int, dataset: Dataset, work: Callable[..., Any], items: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """(arguments, what `work(columns, *arguments)` gives) for each item, as they get done."""
        for job, answer in self.stream((dataset, work, arguments) for arguments in items):
            yield job[2], answer

    def stream(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Any]]:
        """Jobs on any data sets with what they give, as they get done; only a few are under way."""
        try:
            yield from self._stream(jobs)
        except (InputError, RunError, MemoryError, RuntimeError, KeyboardInterrupt, GeneratorExit):
            raise
        except Exception as error:  # of Dask's: whatever its class, the connection is gone or of no use
            if self._client.status == "running" and not isinstance(error, OSError):
                raise
            raise self._lost() from None

    def _lost(self) -> RunError:
        self._gone = True
        return RunError(f"cluster={self.cluster}: the scheduler is gone")

    def _stream(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Any]]:
        client = self._client
        done = self._distributed.as_completed(loop=client.loop)
        running: dict[Any, tuple[Job, int]] = {}
        resources = {"GPU": 1} if self._backend == "cupy" else None

        def submit(job: Job, tries: int) -> None:
            dataset, work, arguments = job
            key, data = self._reference(dataset)
            content = pickle.dumps(arguments, pickle.HIGHEST_PROTOCOL)
            future = client.submit(
                carry_out, versions(), key, data, work, content, pure=False, resources=resources, key=_name(work),
                workers=self._able() if self._left_out else None,
            )  # fmt: skip
            running[future] = (job, tries)
            done.add(future)

        def elsewhere(futures: Iterable[Any]) -> None:
            """Gives work that is stuck to others; whoever had it may still do it, for nothing."""
            for future in list(futures):
                job, tries = running.pop(future)
                abandoned.add(future)
                submit(job, tries)

        queue, abandoned = iter(jobs), set[Any]()
        try:
            while True:
                while len(running) < IN_FLIGHT * self.threads:
                    job = next(queue, None)
                    if job is None:
                        break
                    submit(job, 1)
                if not running:
                    return
                self._wait(done, running, elsewhere)
                future = next(done)
                if future in abandoned:
                    continue
                job, tries = running.pop(future)
                answer = self._answer(future, tries)
                future.release()
                if answer is None:
                    submit(job, tries + 1)
                elif isinstance(answer, Unable):
                    self._leave_out(answer.worker, answer.why)
                    submit(job, tries)
                elif isinstance(answer, Failure):
                    if answer.error is not None:
                        raise answer.error
                    raise RuntimeError(f"in a worker of the cluster:\n{answer.traceback}")
                else:
                    yield job, answer[0]
        finally:
            if (running or abandoned) and client.status == "running":
                with contextlib.suppress(Exception):
                    client.sync(client._cancel, [*running, *abandoned], force=True, callback_timeout=ANSWER_SECONDS)

    def _able(self) -> list[str]:
        """The workers that get work."""
        able = [worker for worker in self._ask("ncores") or () if worker not in self._left_out]
        return able or self._nobody_left()

    def _wait(self, done: Any, running: Mapping[Any, Any], elsewhere: Callable[[Iterable[Any]], None]) -> None:
        """Until something comes back.  If nothing does, what is waited for is said, now and then."""
        began, pause, said = time.monotonic(), 0.0005, 0.0
        while not done.has_ready():
            time.sleep(pause)
            pause, waited = min(2 * pause, 0.02), time.monotonic() - began
            if self._patience is not None and waited >= self._patience:
                raise RunError(f"cluster={self.cluster}: nothing came back for {waited:.0f} s ({self._state(running)})")
            if waited - said >= QUIET_SECONDS:
                said = waited
                self.say(f"cluster={self.cluster}: nothing came back for {waited:.0f} s ({self._state(running)})")
                if waited >= SILENT_SECONDS:
                    self._leave_out_silent(running, elsewhere)

    def _state(self, running: Mapping[Any, Any]) -> str:
        """Who is there, and what is under way."""
        answer = self._ask("ncores")
        if answer is None:
            return f"the scheduler does not answer; {len(running)} tasks in flight"
        able = sum(worker not in self._left_out for worker in answer)
        return f"{able} worker{'s' * (able != 1)} alive, {len(running)} tasks in flight"

    def _leave_out_silent(self, running: Mapping[Any, Any], elsewhere: Callable[[Iterable[Any]], None]) -> None:
        """Takes work from workers that are still connected, but have not been heard of: stopped, or cut off."""
        about, stuck = self._ask("identity"), self._ask("processing")
        if about is None or stuck is None:
            return
        workers = about["workers"]
        newest = max((w["last_seen"] for w in workers.values()), default=0.0)
        silent = {name for name, w in workers.items() if newest - w["last_seen"] > SILENT_SECONDS / 2}
        if silent and len(silent | self._left_out.keys()) < len(workers):
            for name in silent:
                self._leave_out(name, f"nothing was heard of it for {newest - workers[name]['last_seen']:.0f} s")
            keys = {str(key) for name in silent for key in stuck.get(name, ())}
            elsewhere([future for future in running if str(future.key) in keys])

    def _answer(self, future: Any, tries: int) -> Any:
        """What a task gave; None if it is to be done again, for no fault of its own."""
        try:
            answer = future.result()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # CancelledError is no Exception
            if self._client.status != "running" or future.cancelled():
                raise self._lost() from None
            if tries >= TRIES:
                first = (str(error).splitlines() or [type(error).__name__])[0]
                raise RunError(f"cluster={self.cluster}: a task failed {tries} times: {first}") from None
            return None
        if answer is None and tries >= TRIES:
            raise RunError(f"cluster={self.cluster}: a worker never got the data set")
        return answer

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):
                if client.status == "running":
                    for _, key, content in self._known.values():
                        if content is None:
                            client.unregister_worker_plugin(key)
                client.close(timeout=2)
        self._known.clear()
        if self._local is not None:
            self._local.close()
            self._local = None
        for logger, level in self._quiet if not self._gone else []:  # a lost connection is complained of until the end
            logger.setLevel(level)


def _name(work: Callable[..., Any]) -> str:
    return f"{work.__name__.strip('_')}-{os.getpid()}-{time.time_ns()}"


class ClusterBackend(Engine):
    """`count` gives the integer counts of a plan, whatever the cluster."""

    name = "cluster"
    noises = NumpyBackend.noises

    def __init__(self, cluster: str, backend: str = "auto", sampler: str = "users") -> None:
        self.backend, self.sampler = backend, sampler
        self.pool = DaskPool(cluster, backend)
        self._where = cluster

    def close(self) -> None:
        """Leaves the cluster, which stays; a local one ends."""
        self.pool.close()

    @property
    def remote(self) -> DaskPool:
        return self.pool

    def drawn_at_once(self, plan: Plan) -> int:
        with self._one(plan) as one:
            return one.drawn_at_once(plan)

    @property
    def device(self) -> str:
        return f"Dask cluster of {self.pool.threads} threads"

    def splits_users(self, dataset: Dataset, plan: Plan, repetitions: int) -> bool:
        """Whether repetitions are so large, or so large and few, that workers share each; a GPU takes whole ones."""
        positions = plan.positions(dataset.n)
        few = repetitions < 4 * self.pool.threads
        return self.sampler == "users" and not self.pool.gpus and positions > (LARGE if few else HUGE)

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute]."""
        if self.splits_users(dataset, plan, len(repetitions)):
            return SplitBackend(self.pool, self.backend).count(plan, dataset, seed, repetitions, progress)
        counts = [np.zeros((len(a.recipes), len(repetitions), a.k), np.int64) for a in plan.attributes]
        sampled = np.zeros((len(repetitions), plan.d), np.int64)
        step = max(1, -(-len(repetitions) // (4 * self.pool.threads)))
        items = [
            (plan, seed, repetitions[i : i + step], self.backend, self.sampler)
            for i in range(0, len(repetitions), step)
        ]
        for (_, _, some, *_), (part, part_sampled) in self.pool.each(0, dataset, count_repetitions, items):
            first = repetitions.index(some[0])
            rows = slice(first, first + len(some))
            for table, piece in zip(counts, part, strict=True):
                table[:, rows] = piece
            sampled[rows] = part_sampled
            if progress is not None:
                progress(plan.positions(dataset.n) * len(some))
        return counts, sampled

    def batch_multiple(self, n: int) -> int:
        return 1

    def _one(self, plan: Plan) -> Backend:
        return open_backend("auto", 1, sampler=self.sampler, noises=noises_of(plan.attributes))[0]

    def work(self, dataset: Dataset, plan: Plan) -> int:
        with self._one(plan) as one:
            return one.work(dataset, plan)

    def seconds_per_repetition(self, dataset: Dataset, plan: Plan, repetitions: int) -> float:
        """As if all threads of the cluster were as fast as one here."""
        with self._one(plan) as one:
            return one.seconds_per_repetition(dataset, plan, repetitions) / self.pool.threads

    def memory(self, dataset: Dataset, plan: Plan, repetitions: int) -> int:
        """Of this process alone."""
        return COMMAND_BYTES + 2 * code_bytes(dataset)


class SplitBackend(NumpyBackend):
    """The NumPy backend with the cluster's workers in place of its own, who count in C if they can."""

    def __init__(self, pool: DaskPool, backend: str = "auto") -> None:
        super().__init__(workers=max(2, min(1024, pool.threads)))
        self._pool = pool  # type: ignore[assignment]
        self._work = run_task if backend == "numpy" else run_task_here
