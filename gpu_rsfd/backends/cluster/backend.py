"""The backend of a cluster."""

from __future__ import annotations

import numpy as np

from gpu_rsfd.backends import open_backend
from gpu_rsfd.backends.base import Backend, Engine, Progress, noises_of
from gpu_rsfd.backends.cluster.pool import DaskPool
from gpu_rsfd.backends.cluster.worker import count_repetitions, run_task_here
from gpu_rsfd.backends.cpu.backend import NumpyBackend, run_task
from gpu_rsfd.backends.pool import COMMAND_BYTES, code_bytes
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.planning import Counts, Plan

LARGE, HUGE = 1 << 30, 1 << 36  # positions of a repetition: some 10 s, and some 10 min, of one worker


class ClusterBackend(Engine):
    """`count` gives the integer counts of a plan, whatever the cluster."""

    name = "cluster"
    noises = NumpyBackend.noises

    def __init__(self, cluster: str, backend: str = "auto", sampler: str = "users") -> None:
        self.backend, self.sampler = backend, sampler
        self.pool = DaskPool(cluster, backend)

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
