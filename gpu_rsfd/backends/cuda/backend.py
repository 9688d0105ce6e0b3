"""The CuPy backend: every user's sampling, fake data and bit vectors in CUDA kernels; NumPy's integers."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from contextlib import closing, contextmanager

import numpy as np

from gpu_rsfd.backends import BackendUnavailable
from gpu_rsfd.backends.base import Backend, Progress, check_noises
from gpu_rsfd.backends.cuda.devices import probe
from gpu_rsfd.backends.cuda.passes import AttributeJob
from gpu_rsfd.backends.cuda.runner import DeviceLost, Job, Limits, Runner, Work
from gpu_rsfd.checks import integer
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.planning import Counts, Plan
from gpu_rsfd.protocols import Bits, Keep, Sets

__all__ = ["CupyBackend", "DeviceLost", "Limits"]


class CupyBackend(Backend):
    """`count` gives the integer counts of a plan.  Results do not depend on devices, memory or batches.

    `devices` are CUDA device numbers; default: all that work.  They get equally many repetitions each, and keep
    the values of the last data set.  Several threads may use it; they wait for each other.
    """

    name = "cupy"
    noises: frozenset[type] = frozenset({Keep, Sets, Bits})

    def __init__(self, devices: Sequence[int] | None = None) -> None:
        wanted = None if devices is None else [integer("device", i, 0, 2**31 - 1) for i in devices]
        if wanted is not None and (not wanted or len(set(wanted)) < len(wanted)):
            raise InputError(f"devices={wanted} must be one or more different device numbers")
        found = probe(wanted)
        if wanted is not None and len(found.devices) < len(wanted):
            found = probe()  # to say which devices there are
        if not found.devices:
            raise BackendUnavailable(f"backend 'cupy' is not available: {found.reason}")
        working = {device.index: device for device in found.devices}
        for index in wanted or ():
            if index not in working:
                raise BackendUnavailable(
                    f"device={index} is not available; working CUDA devices: {', '.join(map(str, working))}"
                    + "".join(f"; {problem}" for problem in found.problems)
                )
        self.devices = tuple(working[index] for index in (working if wanted is None else wanted))
        self._lock = threading.Lock()
        self._told = False
        self._process = os.getpid()
        self._known: tuple[Plan, list[AttributeJob]] | None = None  # of the last call
        self._runners = [Runner(device, self._short_of_memory) for device in self.devices]

    def close(self) -> None:
        """Gives the devices' memory back."""
        for runner in self._runners:
            runner.close()

    @property
    def device(self) -> str:
        return " + ".join(map(str, self.devices))

    def batch_multiple(self, n: int) -> int:
        """Repetitions that use every device; how many fit into its memory is the device's own affair."""
        return len(self.devices)

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute].

        Raises `DeviceLost` when a device fails.
        """
        if self._process != os.getpid():
            raise RunError("a CUDA device can't be used in a process forked from the one that opened it: open it again")
        known = self._known
        if known is None or known[0] is not plan:
            check_noises(plan, self.name, self.noises)
            known = self._known = plan, [AttributeJob.of(a) for a in plan.attributes]
        job = Job(plan, known[1], dataset, seed, repetitions)
        counts = [np.empty((len(a.recipes), len(repetitions), a.k), np.int64) for a in plan.attributes]
        sampled = np.zeros((len(repetitions), plan.d), np.int64)
        share = -(-len(repetitions) // len(self._runners))
        ended = threading.Event()

        def count(i: int, runner: Runner) -> None:
            work = Work(i * share, min((i + 1) * share, len(repetitions)), ended)
            with closing(runner.run(job, work)) as parts:
                for part in parts:
                    job.unpack(part, counts, sampled)  # devices have different repetitions
                    if progress is not None:
                        with self._lock:
                            progress(plan.positions(part.users) * (part.last - part.first))

        futures = [runner.submit(count, i, runner) for i, runner in enumerate(self._runners)]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            ended.set()  # after an error or Ctrl-C devices finish their batch, not all that is left
            wait(futures)
        for future in futures:
            future.result()
        return counts, sampled

    @contextmanager
    def limited(self, limits: Limits) -> Iterator[None]:
        """Users and repetitions at a time; results stay the same."""
        try:
            for runner in self._runners:
                runner.limits = limits
            yield
        finally:
            for runner in self._runners:
                runner.limits = Limits()

    def _short_of_memory(self, message: str) -> None:
        with self._lock:
            first, self._told = not self._told, True
        if first:
            warnings.warn(message, UserWarning, stacklevel=2)  # a ResourceWarning would not be shown
