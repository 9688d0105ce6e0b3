"""Worker processes: a data set and work on it in, results out, over a pipe.

A worker is a fresh interpreter: nothing is forked and the caller's script is not imported
again, so `simulate` works the same in a script, a notebook, a thread or beside a GPU.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Any

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import RunError
from gpu_rsfd.tape import Codes

CACHED_BYTES = 256 << 20  # codes of a generated data set kept by each process


Work = Callable[..., Any]  # a function of a module, called with the worker's `Columns` first


class Columns:
    """Reads a data set's codes, and remembers them: repetitions come back to the same users."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._cache: dict[tuple[int, int, int], Codes] = {}
        self._bytes = 0

    def __call__(self, attribute: int, start: int, stop: int) -> Codes:
        key = (attribute, start, stop)
        if key not in self._cache:
            codes = self.dataset.column(*key)
            if self._bytes + codes.nbytes > CACHED_BYTES:
                self._cache.clear()
                self._bytes = 0
            self._cache[key] = codes
            self._bytes += codes.nbytes
        return self._cache[key]


class Worker:
    """The parent's end of one worker process."""

    def __init__(self) -> None:
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p or os.getcwd() for p in sys.path))
        # A session of its own: Ctrl-C reaches the parent alone, which then decides what is kept.
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self._dataset: Dataset | None = None

    def run(self, dataset: Dataset, work: Work, arguments: tuple[Any, ...]) -> Any:
        """Blocks until `work(columns, *arguments)` is done; the data set is sent when it changes."""
        fresh = dataset if dataset is not self._dataset else None
        self._dataset = dataset
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((fresh, work, arguments), process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
            failure, result = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError, ValueError) as error:
            code = process.wait()
            reason = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
            raise RunError(f"a worker process ended early: {reason}; out of memory? try fewer workers") from error
        if failure:
            raise RunError(f"a worker process failed:\n{failure}")
        return result

    def close(self) -> None:
        """Ends the process at once, whatever it is doing."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()


class Pool:
    """Worker processes that stay until they are closed."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []

    def close(self) -> None:
        """Ends the processes, whatever they are doing."""
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.close()

    def each(
        self, workers: int, dataset: Dataset, work: Work, items: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """(arguments, what `work(columns, *arguments)` gives) for each item, as they get done."""
        while len(self.workers) < workers:
            self.workers.append(Worker())
        idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self.workers[:workers]:
            idle.put(worker)

        def call(arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
            worker = idle.get()
            try:
                return arguments, worker.run(dataset, work, arguments)
            finally:
                idle.put(worker)

        with ThreadPoolExecutor(workers) as threads:
            queue = iter(items)
            running: set[Future[tuple[tuple[Any, ...], Any]]] = set()
            try:
                while True:
                    for arguments in queue:
                        running.add(threads.submit(call, arguments))
                        if len(running) >= 2 * workers:
                            break
                    if not running:
                        return
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            except BaseException:
                for future in running:
                    future.cancel()
                self.close()  # ends the work under way; the threads then end, too
                raise


def serve() -> None:
    """The worker's end: does what it is sent until the parent closes the pipe or is gone."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    columns: Columns | None = None
    while True:
        try:
            fresh, work, arguments = pickle.load(requests)
        except EOFError:
            return
        answer: tuple[str, Any]
        try:
            if fresh is not None:
                columns = Columns(fresh)
            assert columns is not None
            answer = "", work(columns, *arguments)
        except Exception:
            answer = traceback.format_exc(), None
        try:
            pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
            answers.flush()
        except BrokenPipeError:
            return
