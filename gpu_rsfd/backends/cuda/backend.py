"""The CuPy backend: every user's sampling, fake data and bit vectors in CUDA kernels; NumPy's integers."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import closing, contextmanager

from gpu_rsfd.backends import BackendUnavailable
from gpu_rsfd.backends.base import Backend, Progress, check_noises
from gpu_rsfd.backends.cuda.devices import probe
from gpu_rsfd.backends.cuda.passes import AttributeJob
from gpu_rsfd.backends.cuda.runner import DeviceLost, Job, Limits, Runner
from gpu_rsfd.checks import integer
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.planning import Counts, Plan
from gpu_rsfd.protocols import Bits, Keep, Sets

__all__ = ["CupyBackend", "DeviceLost", "Limits"]


class CupyBackend(Backend):
    """`count` gives the integer counts of a plan.  Results do not depend on devices, memory or batches.

    `devices` are CUDA device numbers; default: all that work.  They get equally many repetitions each, and keep
    the values of the last data set; those of a device that is lost go to the others, once.  Several threads may use it;
    they wait for each other.
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
        self._told: frozenset[str] = frozenset()
        self._process = os.getpid()
        self._known: tuple[Plan, list[AttributeJob]] | None = None  # of the last call
        self._runners = [Runner(device, self._say) for device in self.devices]

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

        Raises `DeviceLost` when a device fails and no other can do its work.
        """
        if self._process != os.getpid():
            raise RunError("a CUDA device can't be used in a process forked from the one that opened it: open it again")
        known = self._known
        if known is None or known[0] is not plan:
            check_noises(plan, self.name, self.noises)
            known = self._known = plan, [AttributeJob.of(a) for a in plan.attributes]
        job = Job(plan, known[1], dataset, seed, repetitions)
        counts, sampled = plan.zeros(repetitions)
        ended, advance = threading.Event(), progress or (lambda _: None)

        def count(runner: Runner, first: int, last: int, done: list[int]) -> None:
            with closing(runner.run(job, first, last)) as parts:
                for part in parts:
                    if ended.is_set():
                        return
                    job.unpack(part, counts, sampled)  # devices have different repetitions
                    done.append(plan.positions(part.users) * (part.last - part.first))
                    with self._lock:
                        advance(done[-1])

        left = [(0, len(repetitions))]
        for again in (True, False):
            runners = [runner for runner in self._runners if not runner.lost] or self._runners
            given: dict[Future[None], tuple[int, int, list[int]]] = {}
            for first, last in left:
                size = -(-(last - first) // len(runners)) or 1
                for runner, at in zip(runners, range(first, last, size), strict=False):
                    share = at, min(at + size, last), list[int]()
                    given[runner.submit(count, runner, *share)] = share
            left, waiting = [], set(given)
            try:
                while waiting:
                    finished, waiting = wait(waiting, return_when=FIRST_EXCEPTION)
                    for future in finished:
                        error = future.exception()
                        if not isinstance(error, DeviceLost) or not again or all(r.lost for r in self._runners):
                            future.result()
                            continue
                        self._say(str(error), f"{error}; the other devices count its repetitions")
                        first, last, done = given[future]
                        left.append((first, last))
                        with self._lock:
                            advance(-sum(done))
            except BaseException:
                ended.set()  # after an error or Ctrl-C devices finish their batch, not all that is left
                wait(given)
                raise
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

    def _say(self, what: str, message: str) -> None:
        """Once."""
        with self._lock:
            known, self._told = what in self._told, self._told | {what}
        if not known:
            warnings.warn(message, UserWarning, stacklevel=2)  # a ResourceWarning would not be shown
