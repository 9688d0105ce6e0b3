"""The client of a cluster: what `backends.pool` is on one machine."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NoReturn

from gpu_rsfd.backends.cluster.local import LocalCluster
from gpu_rsfd.backends.cluster.worker import (
    FromFile,
    Unable,
    Versions,
    about,
    carry_out,
    digest_of,
    other_versions,
    versions,
)
from gpu_rsfd.backends.pool import Failure
from gpu_rsfd.datasets.base import Dataset, importable
from gpu_rsfd.errors import InputError, RunError
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
LOGGERS = ("distributed", "tornado.application", "asyncio")

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


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise InputError(
            f"a cluster needs Dask, the extra `cluster`: pip install gpu-rsfd[cluster] ({error})"
        ) from None


class DaskPool:
    """What `pool.Pool` is on one machine: work on a data set, done somewhere."""

    def __init__(self, cluster: str, backend: str = "auto") -> None:
        self._local: LocalCluster | None = None
        self._patience, self.say = WAITING.get()
        self._excluded: dict[str, str] = {}  # workers, and why
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
                self._exclude(worker, f"it can't run gpu-rsfd {__version__}: {answer}")
            elif Versions(*answer[0]) != here:
                self._exclude(worker, other_versions(Versions(*answer[0]), here))
        gpus = [bool(answer[1]) for worker, answer in answers.items() if worker not in self._excluded]
        if not gpus:
            self._no_usable_worker()
        if self._backend == "cupy" and not any(gpus):
            raise RunError(f"cluster={self.cluster} has no worker with a GPU (dask worker --resources GPU=1)")
        return any(gpus)

    def _exclude(self, worker: str, why: str) -> None:
        """A worker that can't help gets no more work; the others go on."""
        if worker not in self._excluded:
            self._excluded[worker] = why
            self.say(f"worker {worker} is left out: {(why.splitlines() or ['?'])[0]}")

    def _no_usable_worker(self) -> NoReturn:
        worker, why = next(reversed(self._excluded.items()))
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
        groups = [[w for w in client.nthreads() if w not in self._excluded]]
        while groups:
            group = groups.pop()
            try:
                answers |= client.sync(
                    client._run, function, *arguments, workers=group, on_error="return", callback_timeout=QUIET_SECONDS
                )
            except TimeoutError:
                if len(group) == 1:
                    self._exclude(group[0], f"it did not answer for {QUIET_SECONDS:.0f} s")
                groups += [[worker] for worker in group if len(group) > 1]
        return answers

    @property
    def threads(self) -> int:
        """Tasks that the cluster can do at a time, as far as that was known a moment ago."""
        if time.monotonic() - self._asked > ASKED_EVERY:
            answer = self._ask("ncores")
            self._asked = time.monotonic()
            if answer is not None:
                self._threads = max(1, sum(n for worker, n in answer.items() if worker not in self._excluded))
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
                from gpu_rsfd.backends.cluster.dask_side import HasData

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
            raise self._scheduler_gone() from None

    def _scheduler_gone(self) -> RunError:
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
                workers=self._usable() if self._excluded else None,
            )  # fmt: skip
            running[future] = (job, tries)
            done.add(future)

        def reassign(futures: Iterable[Any]) -> None:
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
                self._wait(done, running, reassign)
                future = next(done)
                if future in abandoned:
                    continue
                job, tries = running.pop(future)
                answer = self._answer(future, tries)
                future.release()
                if answer is None:
                    submit(job, tries + 1)
                elif isinstance(answer, Unable):
                    self._exclude(answer.worker, answer.why)
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

    def _usable(self) -> list[str]:
        """The workers that get work."""
        able = [worker for worker in self._ask("ncores") or () if worker not in self._excluded]
        return able or self._no_usable_worker()

    def _wait(self, done: Any, running: Mapping[Any, Any], reassign: Callable[[Iterable[Any]], None]) -> None:
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
                    self._exclude_silent(running, reassign)

    def _state(self, running: Mapping[Any, Any]) -> str:
        """Who is there, and what is under way."""
        answer = self._ask("ncores")
        if answer is None:
            return f"the scheduler does not answer; {len(running)} tasks in flight"
        able = sum(worker not in self._excluded for worker in answer)
        return f"{able} worker{'s' * (able != 1)} alive, {len(running)} tasks in flight"

    def _exclude_silent(self, running: Mapping[Any, Any], reassign: Callable[[Iterable[Any]], None]) -> None:
        """Takes work from workers that are still connected, but have not been heard of: stopped, or cut off."""
        about, stuck = self._ask("identity"), self._ask("processing")
        if about is None or stuck is None:
            return
        workers = about["workers"]
        newest = max((w["last_seen"] for w in workers.values()), default=0.0)
        silent = {name for name, w in workers.items() if newest - w["last_seen"] > SILENT_SECONDS / 2}
        if silent and len(silent | self._excluded.keys()) < len(workers):
            for name in silent:
                self._exclude(name, f"nothing was heard of it for {newest - workers[name]['last_seen']:.0f} s")
            keys = {str(key) for name in silent for key in stuck.get(name, ())}
            reassign([future for future in running if str(future.key) in keys])

    def _answer(self, future: Any, tries: int) -> Any:
        """What a task gave; None if it is to be done again, for no fault of its own."""
        try:
            answer = future.result()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # CancelledError is no Exception
            if self._client.status != "running" or future.cancelled():
                raise self._scheduler_gone() from None
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
