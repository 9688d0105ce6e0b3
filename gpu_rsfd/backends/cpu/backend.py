"""The NumPy backend: cuts a simulation into tasks, runs them on all cores, adds up their counts."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from gpu_rsfd.backends.base import Backend, Progress, check_noises
from gpu_rsfd.backends.cpu.counting import COUNTERS, Task, TaskCounts, run
from gpu_rsfd.backends.pool import Columns, Pool, Work
from gpu_rsfd.checks import MAX_USERS, integer
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.planning import AttributePlan, Counts, Plan
from gpu_rsfd.tape import LANES

WORDS_PER_OPERATION = 8192  # long enough to hide NumPy's call overhead, short enough for the cache
CHUNK_GROUPS = 2048  # of 64 users: the rest of an operation is repetitions, if there are enough of them
POSITIONS_PER_TASK = 1 << 27
INLINE_POSITIONS = 1 << 25  # less work than this is not worth starting processes for


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class NumpyBackend(Backend):
    """`count` gives the integer counts of a plan.  Results do not depend on workers, chunk_users or batch."""

    name = "numpy"
    noises = frozenset(COUNTERS)

    def __init__(self, workers: int | None = None, chunk_users: int | None = None, batch: int | None = None) -> None:
        self._requested = None if workers is None else integer("workers", workers, 1, 1024)
        self.workers = self._requested or cores()
        self._groups = None if chunk_users is None else -(-integer("chunk_users", chunk_users, 1, MAX_USERS) // LANES)
        self._batch = None if batch is None else integer("batch", batch, 1, 2**31)
        self._pool = Pool()
        self._work: Work = run_task

    def close(self) -> None:
        """Ends the worker processes."""
        self._pool.close()

    @property
    def device(self) -> str:
        return f"{self.workers} CPU process{'es' if self.workers > 1 else ''}"

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute]."""
        check_noises(plan, self.name, self.noises)
        counts = [np.zeros((len(a.recipes), len(repetitions), a.k), np.int64) for a in plan.attributes]
        sampled = np.zeros((len(repetitions), plan.d), np.int64)
        for task, result in self._results(plan, dataset, seed, repetitions):
            rows = slice(repetitions.index(task.repetitions[0]), repetitions.index(task.repetitions[-1]) + 1)
            for attribute, part in zip(task.attributes, result.counts, strict=True):
                counts[attribute.index][:, rows] += part
            if result.sampled is not None:
                sampled[rows, task.attributes[0].index : task.attributes[-1].index + 1] += result.sampled
            if progress is not None:
                values = sum(a.k for a in task.attributes)
                progress((task.stop - task.start) * len(task.repetitions) * values)
        return counts, sampled

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

    def _small(self, plan: Plan, dataset: Dataset, repetitions: int) -> bool:
        return plan.positions(dataset.n) * repetitions < INLINE_POSITIONS and self._requested is None

    def tasks(self, plan: Plan, n: int, repetitions: range) -> Iterator[Task]:
        """Chunks of users x parts of the attributes x batches of repetitions."""
        size, batch = self.shape(n, len(repetitions))
        rounds = -(-len(repetitions) // (batch * self.workers))  # an equal share for each worker
        batch = min(batch, -(-len(repetitions) // (rounds * self.workers)))
        for start in range(0, n, size):
            stop = min(start + size, n)
            for part in _parts(plan.attributes, POSITIONS_PER_TASK // ((stop - start) * batch)):
                for first in range(0, len(repetitions), batch):
                    yield Task(
                        start=start,
                        stop=stop,
                        n=n,
                        d=plan.d,
                        assignment=plan.assignment,
                        repetitions=tuple(repetitions[first : first + batch]),
                        attributes=part,
                        count_sampled=plan.needs_reporters,
                    )

    def _results(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range
    ) -> Iterator[tuple[Task, TaskCounts]]:
        tasks = list(self.tasks(plan, dataset.n, repetitions))
        small = self._small(plan, dataset, len(repetitions))
        workers = min(self.workers, len(tasks))
        if workers == 1 or (small and not self._pool.workers):
            columns = Columns(dataset)
            for task in tasks:
                yield task, run(task, seed, columns)
            return
        pieces = ((task, seed) for task in tasks)
        for (task, _), result in self._pool.each(workers, dataset, self._work, pieces):
            yield task, result


def run_task(columns: Columns, task: Task, seed: int) -> TaskCounts:
    """What a worker does."""
    return run(task, seed, columns)


def _parts(attributes: tuple[AttributePlan, ...], values: int) -> Iterator[tuple[AttributePlan, ...]]:
    """Runs of attributes with at most `values` values in all (at least one attribute each)."""
    part: list[AttributePlan] = []
    for attribute in attributes:
        if part and sum(a.k for a in part) + attribute.k > values:
            yield tuple(part)
            part = []
        part.append(attribute)
    yield tuple(part)
