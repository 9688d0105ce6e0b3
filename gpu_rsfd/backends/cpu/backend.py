"""The NumPy backend: cuts a simulation into tasks, runs them on all cores, adds up their counts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from gpu_rsfd.backends.base import Backend, Progress, check_noises
from gpu_rsfd.backends.cpu.counting import COUNTERS, Task, run_task
from gpu_rsfd.backends.pool import Pool, Work
from gpu_rsfd.checks import MAX_USERS, integer
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.planning import Counts, Plan
from gpu_rsfd.tape import LANES

WORDS_PER_OPERATION = 8192  # long enough to hide NumPy's call overhead, short enough for the cache
CHUNK_GROUPS = 2048  # of 64 users: the rest of an operation is repetitions, if there are enough of them
POSITIONS_PER_TASK = 1 << 27
INLINE_POSITIONS = 1 << 25  # less work than this is not worth starting processes for


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class NumpyBackend(Backend):
    """`count` gives the integer counts of a plan.  Results do not depend on workers, chunk_users, batch or pool.

    Parameters
    ----------
    workers : int, optional
        Processes; one per core by default.
    chunk_users, batch : int, optional
        Users and repetitions of a task, if they are not to be chosen.
    pool, work
        Who does the tasks, and how: those of a cluster, say.
    """

    name = "numpy"
    noises = frozenset(COUNTERS)

    def __init__(
        self,
        workers: int | None = None,
        chunk_users: int | None = None,
        batch: int | None = None,
        pool: Any = None,
        work: Work = run_task,
    ) -> None:
        self.workers = cores() if workers is None else integer("workers", workers, 1, 1024)
        self._groups = None if chunk_users is None else -(-integer("chunk_users", chunk_users, 1, MAX_USERS) // LANES)
        self._batch = None if batch is None else integer("batch", batch, 1, 2**31)
        self._given, self._work = pool, work
        self.pool = Pool(self.workers) if pool is None else pool

    def close(self) -> None:
        """Ends the worker processes."""
        if self._given is None:
            self.pool.close()

    def batch_multiple(self, n: int) -> int:
        """Repetitions that keep every worker busy with full batches."""
        return self.shape(n)[1] * self.workers

    def shape(self, n: int, repetitions: int = 1 << 30) -> tuple[int, int]:
        """Users per chunk and repetitions per batch: together long enough operations."""
        share = max(1, repetitions // self.workers)
        groups = self._groups or max(CHUNK_GROUPS, WORDS_PER_OPERATION // share)
        chunks = -(-n // (groups * LANES))
        size = -(-n // (chunks * LANES)) * LANES
        return size, self._batch or max(1, WORDS_PER_OPERATION // (size // LANES))

    def tasks(self, plan: Plan, n: int, repetitions: range) -> Iterator[Task]:
        """Chunks of users x parts of the attributes x batches of repetitions."""
        size, batch = self.shape(n, len(repetitions))
        rounds = -(-len(repetitions) // (batch * self.workers))  # an equal share for each worker
        batch = min(batch, -(-len(repetitions) // (rounds * self.workers)))
        for start in range(0, n, size):
            stop = min(start + size, n)
            for part in runs([a.k for a in plan.attributes], POSITIONS_PER_TASK // ((stop - start) * batch)):
                for first in range(0, len(repetitions), batch):
                    some = tuple(repetitions[first : first + batch])
                    yield Task(
                        start, stop, n, plan.d, plan.assignment, some, plan.attributes[part], plan.needs_reporters
                    )

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute]."""
        check_noises(plan, self.name, self.noises)
        counts, sampled = plan.zeros(repetitions)
        tasks = list(self.tasks(plan, dataset.n, repetitions))
        small = plan.positions(dataset.n) * len(repetitions) < INLINE_POSITIONS
        pool = Pool(1) if self._given is None and (small or len(tasks) == 1) else self.pool
        results = pool.map(dataset, self._work, ((task, seed) for task in tasks))
        for task, result in zip(tasks, results, strict=True):
            rows = slice(repetitions.index(task.repetitions[0]), repetitions.index(task.repetitions[-1]) + 1)
            for attribute, part in zip(task.attributes, result.counts, strict=True):
                counts[attribute.index][:, rows] += part
            if result.sampled is not None:
                sampled[rows, task.attributes[0].index : task.attributes[-1].index + 1] += result.sampled
            if progress is not None:
                values = sum(a.k for a in task.attributes)
                progress((task.stop - task.start) * len(task.repetitions) * values)
        return counts, sampled


def runs(costs: Sequence[int], most: float) -> Iterator[slice]:
    """Runs of attributes that cost at most so much together (at least one attribute each)."""
    start = total = 0
    for j, cost in enumerate(costs):
        if j > start and total + cost > most:
            yield slice(start, j)
            start, total = j, 0
        total += cost
    yield slice(start, len(costs))
