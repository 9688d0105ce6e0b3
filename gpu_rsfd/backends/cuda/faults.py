"""Faults that only a machine with a GPU can have, provoked: each must leave the counts as they are."""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gpu_rsfd.backends.cuda.backend import CupyBackend, Limits
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.planning import Counts, Plan

SOON = 10.0  # seconds that Ctrl-C may take
POOL_BYTES = 5 << 20  # the values of SHAPE and no repetition beside them
SHAPE = 4_000_000, (10, 10), range(4)  # users, domain sizes and repetitions


@contextmanager
def little_memory(backend: CupyBackend, size: int) -> Iterator[None]:
    """CuPy's pool gives no more, whatever the device has left."""
    import cupy

    def limit(size: int) -> None:
        cupy.get_default_memory_pool().set_limit(size=size)

    try:
        for runner in backend._runners:
            runner.submit(limit, size).result()
        yield
    finally:
        for runner in backend._runners:
            runner.submit(limit, 0).result()


@contextmanager
def no_pinned_memory() -> Iterator[None]:
    """As under WSL2, where there is little."""
    import cupy

    def fail(size: int) -> Any:
        raise cupy.cuda.runtime.CUDARuntimeError(2)  # cudaErrorMemoryAllocation

    try:
        cupy.cuda.set_pinned_memory_allocator(fail)
        yield
    finally:
        cupy.cuda.set_pinned_memory_allocator(cupy.get_default_pinned_memory_pool().malloc)


def interrupted(backend: CupyBackend, plan: Plan, data: Dataset, repetitions: range) -> float | None:
    """Seconds from Ctrl-C to the end of a count; None if it did not end it.  For the main thread."""
    pressed: list[float] = []

    def press(_: int) -> None:
        if not pressed:
            pressed.append(time.monotonic())
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(0.5)  # for it to arrive

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with backend.limited(Limits(repetitions=1)):
            backend.count(plan, data, 1, repetitions, press)
            return None
    except KeyboardInterrupt:
        return time.monotonic() - pressed[0]
    finally:
        signal.signal(signal.SIGINT, before)


def provoke(
    backend: CupyBackend, plan: Plan, data: Dataset, repetitions: range, right: tuple[list[Counts], Counts], size: int
) -> Iterator[tuple[str, str | None]]:
    """Each fault, and what is wrong after it."""

    def wrong() -> str | None:
        counts, sampled = backend.count(plan, data, 1, repetitions)
        same = all(map(np.array_equal, [*counts, sampled], [*right[0], right[1]]))
        return None if same else "DIFFERENT counts"

    backend.close()  # what the pool has already it would give all the same
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with little_memory(backend, size):
            result = wrong()
    short = any("short of memory" in str(w.message) for w in told)
    yield "out of memory (the pool's limit)", result or (None if short else "it was not noticed")
    with no_pinned_memory():
        backend.close()  # what is pinned already would do
        yield "no pinned memory", wrong()
    took = interrupted(backend, plan, data, range(10 * len(repetitions)))
    if took is None or took > SOON:
        yield "Ctrl-C", "it ended nothing" if took is None else f"it took {took:.1f} s"
    else:
        yield f"Ctrl-C (after {took:.2f} s)", wrong()
