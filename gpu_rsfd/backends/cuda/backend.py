"""The CuPy backend: every user's sampling, fake data and bit vectors in CUDA kernels; NumPy's integers."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gpu_rsfd.backends import BackendUnavailable, timing
from gpu_rsfd.backends.base import Progress
from gpu_rsfd.backends.cuda.devices import probe
from gpu_rsfd.backends.cuda.runner import DeviceLost, Job, Runner
from gpu_rsfd.backends.pool import code_bytes
from gpu_rsfd.checks import integer
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.synthetic import SyntheticDataset
from gpu_rsfd.errors import InputError
from gpu_rsfd.plan import Counts, Plan

__all__ = ["CupyBackend", "DeviceLost"]


class CupyBackend:
    """`count` gives the integer counts of a plan.  Results do not depend on devices, memory or batches.

    `devices` are CUDA device numbers; default: all that work.  Repetitions are dealt out to them.
    """

    name = "cupy"

    def __init__(self, devices: Sequence[int] | None = None) -> None:
        found = probe()
        if not found.devices:
            raise BackendUnavailable(f"backend 'cupy' is not available: {found.reason}")
        working = {device.index: device for device in found.devices}
        wanted = list(working) if devices is None else [integer("device", i, 0, 2**31 - 1) for i in devices]
        if not wanted or len(set(wanted)) < len(wanted):
            raise InputError(f"devices={wanted} must be one or more different device numbers")
        for index in wanted:
            if index not in working:
                raise BackendUnavailable(
                    f"device={index} is not available; working CUDA devices: {', '.join(map(str, working))}"
                    + "".join(f"; {problem}" for problem in found.problems)
                )
        self.devices = tuple(working[index] for index in wanted)
        self._lock = threading.Lock()
        self._told = False
        self._runners = [Runner(device, self._short_of_memory) for device in self.devices]

    def __enter__(self) -> CupyBackend:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the devices' memory back."""
        for runner in self._runners:
            runner.close()

    @property
    def device(self) -> str:
        return " + ".join(map(str, self.devices))

    def grain(self, n: int) -> int:
        """Repetitions that use every device; how many fit into its memory is the device's own affair."""
        return len(self.devices)

    def work(self, dataset: Dataset, plan: Plan) -> int:
        """Positions of a repetition."""
        return plan.positions(dataset.n)

    def seconds_per_repetition(self, dataset: Dataset, plan: Plan, repetitions: int) -> float:
        """Expected from a timed sample of a few attributes, after a run that compiles."""
        part = timing.small(plan, timing.SAMPLE_ATTRIBUTES, timing.SAMPLE_VALUES)
        some = range(min(self.grain(dataset.n), repetitions))

        def warm(users: int) -> float:
            data = SyntheticDataset(users, part.domain)
            self.count(part, data, 0, some)
            return timing.timed(lambda: self.count(part, data, 0, some))

        users, seconds = timing.growing(dataset.n, warm)
        return seconds / len(some) * dataset.n / users * timing.words(plan) / timing.words(part)

    def memory(self, dataset: Dataset, plan: Plan, repetitions: int) -> int:
        """Bytes on the host: interpreter, CUDA's libraries, the codes, and those of an attribute on their way."""
        return (400 << 20) + code_bytes(dataset) + (0 if isinstance(dataset, SyntheticDataset) else 2 * dataset.n)

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute].

        Raises `DeviceLost` when a device fails.
        """
        job = Job(plan, dataset, seed, repetitions)
        counts = [np.zeros((len(a.recipes), len(repetitions), a.k), np.int64) for a in plan.attributes]
        sampled = np.zeros((len(repetitions), plan.d), np.int64)

        def work(runner: Runner, first: int, last: int) -> None:
            for part in runner.run(job, first, last):
                rows = slice(part.first, part.last)
                with self._lock:  # shares of different devices are different rows, but progress is the caller's
                    for table, piece in zip(counts, part.counts, strict=True):
                        table[:, rows] += piece
                    sampled[rows] += part.sampled
                    if progress is not None:
                        progress(plan.positions(part.users) * (part.last - part.first))

        shares = list(_shares(len(repetitions), len(self._runners)))
        if len(shares) == 1:
            work(self._runners[0], *shares[0])
            return counts, sampled
        with ThreadPoolExecutor(len(shares)) as threads:
            futures = [threads.submit(work, r, *share) for r, share in zip(self._runners, shares, strict=False)]
            for future in futures:
                future.result()
        return counts, sampled

    def _short_of_memory(self, message: str) -> None:
        with self._lock:
            first, self._told = not self._told, True
        if first:
            warnings.warn(message, UserWarning, stacklevel=2)  # a ResourceWarning would not be shown


def _shares(repetitions: int, devices: int) -> Iterator[tuple[int, int]]:
    """Consecutive repetitions for each device, as equal as can be; none for a device if there are too few."""
    shares = min(devices, repetitions)
    for i in range(shares):
        yield repetitions * i // shares, repetitions * (i + 1) // shares
