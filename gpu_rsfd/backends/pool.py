"""Worker processes of this machine: work on a data set, done on all cores, results in order.

A `ProcessPoolExecutor` of fresh interpreters: nothing is forked, the caller's script is not imported again and nothing
is imported from the current directory, so `simulate` works the same in a script, a notebook, a thread or beside a GPU.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import pickle
import signal
import sys
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import parent_process, reduction, resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from operator import methodcaller
from typing import IO, Any, NamedTuple

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError, RunError, heed_signals
from gpu_rsfd.tape import Codes

CACHED_BYTES = 256 << 20  # codes of a generated data set kept by each process
SIGNAL_SECONDS = 0.05  # so often it is looked for signals
UNDER_WAY = 2  # items for each worker: one at work, one waiting

Work = Callable[..., Any]  # a function of a module, called with the worker's `Columns` first


class Columns:
    """Reads a data set's codes, and remembers them: repetitions come back to the same users."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._cache: dict[tuple[int, ...], Codes] = {}
        self._bytes = 0

    def __call__(self, attribute: int, start: int, stop: int, *round: int) -> Codes:
        key = (attribute, start, stop, *round)
        if key not in self._cache:
            codes = self.dataset.column(*key)
            if self._bytes + codes.nbytes > CACHED_BYTES:
                self._cache.clear()
                self._bytes = 0
            self._cache[key] = codes
            self._bytes += codes.nbytes
        return self._cache[key]


class Pool:
    """Worker processes that stay until they are closed, or another data set comes."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.say: Callable[[str], None] = lambda line: None
        self._executor: ProcessPoolExecutor | None = None
        self._data: Dataset | None = None
        self._sent: _Sent | None = None

    def map(self, data: Dataset, function: Work, items: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """`function(columns, *item)` of each item, in order; only a few items are under way."""
        items = iter(items)
        first = list(islice(items, 1))
        executor = None
        try:
            if self.workers > 1:
                pickled((function, first))
                executor = self._executor_of(data)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            self.close()
            self.say(f"data set {data.name!r} is worked on in one process: {error}")
        if executor is None:
            columns = Columns(data)
            yield from (function(columns, *item) for item in chain(first, items))
            return
        running: deque[Future[Any]] = deque()
        try:
            for item in chain(first, items):
                running.append(executor.submit(_work, pickled((function, item))))
                if len(running) >= UNDER_WAY * self.workers:
                    yield _awaited(running.popleft())
            while running:
                yield _awaited(running.popleft())
        except BrokenProcessPool:
            processes = list(executor._processes.values())
            self.close()  # kills the others
            code = min((process.exitcode or 0 for process in processes), key=lambda code: code == -signal.SIGKILL)
            why = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise RunError(f"a worker process ended early: {why}; out of memory? try fewer workers") from None
        except BaseException:  # something went wrong, or nobody wants the rest
            self.close()
            raise

    def _executor_of(self, data: Dataset) -> ProcessPoolExecutor:
        if self._executor is None or self._data is not data:
            self.close()
            self._sent = _Sent(tempfile.TemporaryFile())  # noqa: SIM115
            _Pickler(self._sent.file, pickle.HIGHEST_PROTOCOL).dump(data)
            self._sent.file.flush()
            self._data = data
            with _starting():
                self._executor = ProcessPoolExecutor(self.workers, Context(), _begin, initargs=(self._sent,))
        return self._executor

    def close(self) -> None:
        """Ends the processes, whatever they are doing."""
        executor, self._executor, self._data = self._executor, None, None
        if executor is not None:
            for process in list(executor._processes.values()):
                process.kill()
            executor.shutdown(cancel_futures=True)
        if self._sent is not None:
            self._sent.file.close()
            self._sent = None


def _awaited(future: Future[Any]) -> Any:
    """Its result, unless a signal ends the work before."""
    while not wait([future], SIGNAL_SECONDS).done:
        heed_signals()
    return future.result()


# ------------------------------------------------------------------------------------------------ how processes start

_lock = threading.Lock()


@contextlib.contextmanager
def _replaced(mapping: MutableMapping[str, Any], changes: Mapping[str, Any]) -> Iterator[None]:
    kept = {key: mapping[key] for key in changes if key in mapping}
    mapping.update(changes)
    try:
        yield
    finally:
        for key in changes:
            del mapping[key]
        mapping.update(kept)


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    """Python processes that are started meanwhile import neither the script nor anything in the current directory."""
    quiet = ("ignore:resource_tracker", os.environ.get("PYTHONWARNINGS"))  # it cleans up if this process is killed
    environment = {"PYTHONSAFEPATH": "1", "PYTHONWARNINGS": ",".join(filter(None, quiet))}
    script = dict.fromkeys(("__file__", "__spec__"))
    with _lock, _replaced(os.environ, environment), _replaced(vars(sys.modules["__main__"]), script):
        resource_tracker.ensure_running()
        yield


class Process(SpawnProcess):
    """A process that knows nothing of the caller's script and leaves signals to its parent, which it doesn't outlive.

    Its function has to call `end_with_parent`.
    """

    def start(self) -> None:
        with _starting():
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
            try:
                super().start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def terminate(self) -> None:
        self.kill()


class Context(SpawnContext):
    """Of such processes."""

    Process = Process


def end_with_parent(also: Callable[[], object] = lambda: None) -> None:
    """Ends this process when its parent is gone, however that ended."""

    def wait() -> None:
        parent = parent_process()
        assert parent is not None
        parent.join()
        also()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


# ------------------------------------------------------------------------------------------------- what is sent to them


class _Pickler(pickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        if getattr(thing, "__module__", "") == "__main__" and hasattr(thing, "__qualname__"):
            raise pickle.PicklingError(f"no other process can import {thing.__qualname__!r} from a script")
        return NotImplemented


def pickled(thing: object) -> bytes:
    """Bytes that another process can make it from, if that has the modules of this one."""
    content = io.BytesIO()
    _Pickler(content, pickle.HIGHEST_PROTOCOL).dump(thing)
    return content.getvalue()


class _Sent(NamedTuple):
    """A data set in a file without a name, which every worker reads: none waits until another has got its bytes."""

    file: IO[bytes]

    def __reduce__(self) -> Any:
        return methodcaller("detach"), (reduction.DupFd(self.file.fileno()),)


# ----------------------------------------------------------------------------------------------------- in the processes

_sent: list[Any] = []  # the data set's file
_columns: list[Columns] = []  # once it has been read


def _begin(file: Any) -> None:
    end_with_parent()
    os.dup2(2, 1)  # standard output is the command's own
    _sent.append(file)


def _work(content: bytes) -> Any:
    try:
        if not _columns:
            with mmap.mmap(_sent[0], 0, access=mmap.ACCESS_READ) as file:
                _columns.append(Columns(pickle.loads(file)))
        function, item = pickle.loads(content)
        return function(_columns[0], *item)
    except (InputError, RunError, MemoryError):
        raise
    except Exception:  # a bug, whose class the parent may not be able to make again
        raise RuntimeError(f"in a worker process:\n{traceback.format_exc()}") from None
