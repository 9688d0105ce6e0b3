"""Worker processes: a data set and work on it in, results out, over a pipe.

A worker is a fresh interpreter: nothing is forked and the caller's script is not imported
again, so `simulate` works the same in a script, a notebook, a thread or beside a GPU.
It imports from where its parent does and from nowhere else, and what it prints goes to standard error.
A data set's large arrays are mapped by all workers, not copied (sharing.py).
"""

# Why no library's pool: loky, joblib's and the closest, starts its processes with `python -m`, so that a pickle.py or
# random.py in the current directory is imported and ends them.

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
from dataclasses import dataclass
from queue import SimpleQueue
from typing import IO, Any

from gpu_rsfd.backends.sharing import Shared, received
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.synthetic import SyntheticDataset
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.tape import Codes, code_dtype

CACHED_BYTES = 256 << 20  # codes of a generated data set kept by each process
GREETING = b"\0gpu-rsfd worker\n"  # what came before it was printed while Python started
COMMAND_BYTES, WORKER_BYTES = 120 << 20, 55 << 20  # a process with its libraries, before any work; measured
ENDING_SECONDS = 5.0  # a worker that closed its pipe is given so long to end by itself

# The parent's import path comes before any import from it: Python itself would put the current directory first.
# Then the pipes become private, so that nothing else can read or write them, whatever is imported afterwards.
BOOTSTRAP = """
import sys
sys.path[:] = {path!r}
import os
requests, answers, nothing = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDWR)
os.dup2(nothing, 0)
try:
    os.dup2(2, 1)
except OSError:
    os.dup2(nothing, 1)
os.write(answers, {greeting!r})
from {module} import serve
serve(requests, answers)
"""

Work = Callable[..., Any]  # a function of a module, called with the worker's `Columns` first


@dataclass(frozen=True)
class Failure:
    """What a worker answers when its work went wrong: an error of ours as it is, else where a bug showed."""

    error: Exception | None
    traceback: str


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


def bootstrap() -> list[str]:
    """The command of a worker that imports what this process would."""
    code = BOOTSTRAP.format(path=[str(p) or os.getcwd() for p in sys.path], greeting=GREETING, module=__name__)
    flags = {"-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site, "-S": sys.flags.no_site}
    return [sys.executable, *(flag for flag, given in flags.items() if given), "-c", code]


def code_bytes(dataset: Dataset) -> int:
    """What the codes of a data set take: in each process if they are drawn, else in this one and in what all map."""
    every = dataset.n * sum(code_dtype(k).itemsize for k in dataset.domain)
    return min(CACHED_BYTES, every) if isinstance(dataset, SyntheticDataset) else every * dataset.has_rows


class Worker:
    """The parent's end of one worker process."""

    def __init__(self) -> None:
        # A session of its own: Ctrl-C reaches the parent alone, which then decides what is kept.
        alone: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            alone = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        self._process = subprocess.Popen(bootstrap(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, **alone)
        self._greeted = False
        self.dataset: Shared | None = None  # what it has

    def run(self, dataset: Shared | None, work: Work, arguments: tuple[Any, ...]) -> Any:
        """Blocks until `work(columns, *arguments)` is done; the data set, if it needs one, is sent when it changes."""
        fresh = dataset.content if dataset is not None and dataset is not self.dataset else None
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if not self._greeted:
                _skip_to_greeting(process.stdout)
                self._greeted = True
            pickle.dump((fresh, work, arguments), process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
            self.dataset = dataset
        except (OSError, EOFError, pickle.UnpicklingError, ValueError) as error:
            raise RunError(f"a worker process ended early: {self._end()}") from error
        if isinstance(answer, Failure):
            if answer.error is not None:
                raise answer.error
            raise RuntimeError(f"in a worker process:\n{answer.traceback}")
        return answer

    def _end(self) -> str:
        """Why the process ended."""
        try:
            code = self._process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return "it closed its pipe"
        if code >= 0:
            return f"exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown"
        hint = "; out of memory? try fewer workers" if name == "SIGKILL" else ""
        return f"signal {-code} ({name}){hint}"

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

    def __init__(self, count: int = 0) -> None:
        self.workers: list[Worker] = []
        self._sent: tuple[Dataset, Shared] | None = None

    def close(self) -> None:
        """Ends the processes, whatever they are doing."""
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.close()
        if self._sent is not None:
            self._sent[1].forget()
            self._sent = None

    def _shared(self, dataset: Dataset, workers: list[Worker]) -> Shared:
        """The data set as it is sent; again only if there are workers who could not map it any more."""
        sent = self._sent
        if sent is not None:
            has = all(worker.dataset is sent[1] for worker in workers)
            if sent[0] is dataset and (has or not sent[1].forgotten):
                return sent[1]
            sent[1].forget()
        self._sent = (dataset, Shared(dataset))
        return self._sent[1]

    say: Any = staticmethod(lambda line: None)

    def map(self, dataset: Dataset, work: Work, items: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        columns = Columns(dataset)
        return (work(columns, *item) for item in items)

    def each(
        self, workers: int, dataset: Dataset, work: Work, items: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """(arguments, what `work(columns, *arguments)` gives) for each item, as they get done."""
        while len(self.workers) < workers:
            self.workers.append(Worker())
        idle: SimpleQueue[Worker] = SimpleQueue()
        chosen = self.workers[:workers]
        for worker in chosen:
            idle.put(worker)
        shared = self._shared(dataset, chosen)

        def call(arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
            worker = idle.get()
            try:
                return arguments, worker.run(shared, work, arguments)
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
                    if all(worker.dataset is shared for worker in chosen):
                        shared.forget()  # all have it: it takes no room once they end, however they end
                    for future in done:
                        yield future.result()
            except BaseException:
                for future in running:
                    future.cancel()
                self.close()  # ends the work under way; the threads then end, too
                raise


def _skip_to_greeting(answers: IO[bytes]) -> None:
    """Passes on what was printed before the pipe was the worker's own: by a sitecustomize, say."""
    seen = b""
    while not seen.endswith(GREETING):
        byte = answers.read(1)
        if not byte:
            raise EOFError
        seen += byte
    if printed := seen.removesuffix(GREETING):
        print(printed.decode(errors="replace"), end="", file=sys.stderr)


def serve(requests_from: int, answers_to: int) -> None:
    """The worker's end: does what it is sent until the parent closes the pipe or is gone."""
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):  # batch systems send them to all: the parent ends its workers
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    with (
        contextlib.suppress(BrokenPipeError),
        os.fdopen(requests_from, "rb") as requests,
        os.fdopen(answers_to, "wb") as answers,
    ):
        columns: Columns | None = None
        readable = True
        while readable:
            answer: Any
            try:
                readable = False  # what follows half a request means nothing
                fresh, work, arguments = pickle.load(requests)
                readable = True
                columns = columns if fresh is None else Columns(received(fresh))
                answer = work(columns, *arguments)
            except EOFError:
                if not readable:
                    return
                answer = Failure(None, traceback.format_exc())
            except (InputError, RunError, MemoryError) as error:
                answer = Failure(error, traceback.format_exc())
            except Exception:
                answer = Failure(None, traceback.format_exc())
            pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
            answers.flush()
