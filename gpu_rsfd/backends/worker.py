"""Worker processes for the NumPy backend: tasks in, counts out, over a pipe.

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
from typing import Any

import numpy as np

from gpu_rsfd.backends.engine import Task, TaskCounts, run
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.tape import Codes

CACHED_BYTES = 256 << 20  # codes of a generated data set kept by each process


class Columns:
    """Reads a data set's codes, and remembers them: repetitions come back to the same users."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._cache: dict[tuple[int, int, int], Codes] = {}
        self._bytes = 0

    def __call__(self, attribute: int, start: int, stop: int) -> Codes:
        key = (attribute, start, stop)
        if key not in self._cache:
            codes = self._dataset.column(*key)
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

    def run(self, dataset: Dataset, task: Task, seed: int) -> TaskCounts:
        """Blocks until the task is done; the data set is sent when it changes."""
        fresh = dataset if dataset is not self._dataset else None
        self._dataset = dataset
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((fresh, task, seed), process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
            failure, result = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError, ValueError) as error:
            code = process.wait()
            reason = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
            raise RuntimeError(f"a worker process ended early: {reason}; out of memory? try fewer workers") from error
        if failure:
            raise RuntimeError(f"a worker process failed:\n{failure}")
        assert isinstance(result, TaskCounts)
        return result

    def close(self) -> None:
        """Ends the process at once, whatever it is doing."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()


def serve() -> None:
    """The worker's end: runs tasks until the parent closes the pipe or is gone."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    np.seterr(all="raise", under="ignore")
    columns: Columns | None = None
    while True:
        try:
            fresh, task, seed = pickle.load(requests)
        except EOFError:
            return
        answer: tuple[str, Any]
        try:
            if fresh is not None:
                columns = Columns(fresh)
            assert columns is not None
            answer = "", run(task, seed, columns)
        except Exception:
            answer = traceback.format_exc(), None
        try:
            pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
            answers.flush()
        except BrokenPipeError:
            return
