"""What does the work of a run: a backend that counts and processes that look at reports, or a cluster."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from gpu_rsfd.backends import check_backend, open_backend
from gpu_rsfd.backends.base import Backend, Progress
from gpu_rsfd.backends.cpu.backend import cores
from gpu_rsfd.backends.pool import Pool
from gpu_rsfd.checks import integer
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.planning import Counts, Plan

Items = Iterable[tuple[Any, ...]]
Job = tuple[Dataset, Callable[..., Any], tuple[Any, ...]]  # data set, work, its arguments after engine and data


class Engine(Backend):
    """What a view and the loop call: counts, and functions of chunks of users; the same numbers wherever they are."""

    reason: str  # why it is this one
    stream: Callable[[Iterable[Job]], Iterator[tuple[tuple[Any, ...], Any]]] | None = None  # jobs done elsewhere

    @abstractmethod
    def map(self, data: Dataset, function: Callable[..., Any], items: Items) -> Iterator[Any]:
        """`function(columns, *item)` for each item, in order."""


class Local(Engine):
    """This machine: a backend, opened when something is counted, and processes, started when there is work for them."""

    def __init__(
        self,
        backend: str | Backend = "auto",
        workers: int | None = None,
        devices: Sequence[int] | None = None,
        sampler: str = "users",
        noises: Collection[type] = (),
    ) -> None:
        self._own = isinstance(backend, str)
        self._opened: Backend | None = None
        self._pool: Pool | None = None
        self._chosen: Any = backend, workers, devices, sampler, noises
        self.workers = cores() if workers is None else integer("workers", workers, 1, 1024)
        self.reason = "single reports are made in NumPy, whatever counts them"
        self.say: Callable[[str], None] = lambda line: None
        if isinstance(backend, str):
            check_backend(backend, sampler, workers, devices)
        else:
            self._opened, self.reason = backend, "it was given"

    def close(self) -> None:
        """Ends the processes; a backend that was given stays open."""
        if self._pool is not None:
            self._pool.close()
        if self._opened is not None and self._own:
            self._opened.close()

    def open(self) -> Backend:
        """The backend that counts."""
        if self._opened is None:
            self._opened, self.reason = open_backend(*self._chosen)
        return self._opened

    @property
    def name(self) -> str:  # type: ignore[override]
        return "numpy" if self._opened is None else self._opened.name

    @property
    def device(self) -> str:
        return super().device if self._opened is None else self._opened.device

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        return self.open().count(plan, dataset, seed, repetitions, progress)

    def map(self, data: Dataset, function: Callable[..., Any], items: Items) -> Iterator[Any]:
        if self._pool is None:
            self._pool = Pool(self.workers)
            self._pool.say = self.say
        return self._pool.map(data, function, items)

    def drawn_at_once(self, plan: Plan) -> int:
        return 1 if self._chosen[3] == "users" and self._own else self.open().drawn_at_once(plan)

    def batch_multiple(self, n: int) -> int:
        return self.workers if self._opened is None else self._opened.batch_multiple(n)
