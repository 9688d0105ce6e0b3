"""What every backend offers: a plan, a data set and a seed in, integer counts out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.plan import Counts, Plan

Progress = Callable[[int], None]  # told the positions (users x values) just done


class Backend(Protocol):
    """Counts are a function of (plan, data set, seed, repetition), whatever the backend and its settings."""

    name: str

    @property
    def device(self) -> str:
        """What it runs on, for people."""

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute]."""

    def grain(self, n: int) -> int:
        """Repetitions that use it fully: a good multiple for a block of work."""

    def work(self, dataset: Dataset, plan: Plan) -> int:
        """Units of a repetition's work, which its time grows with: positions, or what a sampler looks at and draws."""

    def seconds_per_repetition(self, dataset: Dataset, plan: Plan, repetitions: int) -> float:
        """Expected from a timed sample (timing.py); what is compiled or read once only is not timed."""

    def memory(self, dataset: Dataset, plan: Plan, repetitions: int) -> int:
        """Bytes that all its processes together are expected to need, the results aside."""

    def close(self) -> None:
        """Gives back what it holds: processes, threads, a device."""

    def __enter__(self) -> Backend: ...

    def __exit__(self, *_: object) -> None: ...
