"""The native backend: cuts a simulation into pieces, counts them in threads, adds up their counts."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import NamedTuple

import numpy as np

from gpu_rsfd.backends import BackendUnavailable
from gpu_rsfd.backends.base import Backend, Progress, check_noises
from gpu_rsfd.backends.cpu.backend import cores, runs
from gpu_rsfd.backends.cpu.counting import Task, TaskCounts
from gpu_rsfd.backends.native import build
from gpu_rsfd.backends.native.tables import NOISES, Held, Tables, draw
from gpu_rsfd.backends.pool import CACHED_BYTES, SIGNAL_SECONDS, Columns
from gpu_rsfd.checks import integer
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.synthetic import SyntheticDataset
from gpu_rsfd.errors import InputError, heed_signals
from gpu_rsfd.planning import Counts, Plan
from gpu_rsfd.tape import LANES, Codes, code_dtype

CHUNK = 256  # groups, as in counts.c
STEP = 8  # groups: those of the widest vector
PIECE_COST = 50e6  # nanoseconds, roughly, that a thread works at a time
INLINE_COST = 2e6  # less than this is not worth a thread
PIECE_BYTES = 1 << 20  # of its counts, unless a repetition has more: they stay in the cache
DRAWN_AT_A_TIME = 1 << 22  # users


class Piece(NamedTuple):
    """Repetitions x groups of users x attributes."""

    rows: slice
    groups: slice
    part: slice


class NativeBackend(Backend):
    """`count` gives the integer counts of a plan.  Results do not depend on threads, pieces or segments.

    Parameters
    ----------
    workers : int, optional
        Threads; one per core by default.
    library : ctypes.CDLL, optional
        The compiled code; what this machine's compiler makes of it by default.
    segment_bytes : int, optional
        How many bytes of drawn codes are held at a time.
    """

    name = "native"
    noises: frozenset[type] = NOISES
    units = "thread", "threads"

    def __init__(
        self, workers: int | None = None, library: ctypes.CDLL | None = None, segment_bytes: int = CACHED_BYTES
    ) -> None:
        self.workers = cores() if workers is None else integer("workers", workers, 1, 1024)
        try:
            self._library = library or build.built().library
        except build.NotBuilt as error:
            raise BackendUnavailable(f"backend 'native' is not available: {error}") from None
        self._segment_bytes = segment_bytes
        self._threads = ThreadPoolExecutor(self.workers, "gpu-rsfd-native")  # starts them when they are needed
        self._tables: tuple[Plan, Tables] | None = None
        self._held: tuple[Dataset, Held] | None = None

    def close(self) -> None:
        """Ends the threads."""
        self._threads.shutdown(cancel_futures=True)
        self._tables = self._held = None

    def batch_multiple(self, n: int) -> int:
        """Repetitions that keep every thread busy."""
        return self.workers

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute]."""
        known = self._tables  # several threads may be here, those of a Dask worker
        if known is None or known[0] is not plan:
            check_noises(plan, self.name, self.noises)
            self._tables = known = plan, Tables(plan.attributes, len(plan.domain), plan.assignment)
        tables = known[1]
        counts, sampled = plan.zeros(repetitions)
        for held, groups in self._segments(dataset):
            pieces = list(self._pieces(tables, groups, len(repetitions)))
            for piece, (found, who) in self._done(tables, dataset.n, held, seed, repetitions, pieces):
                for table, part in zip(counts[piece.part], found, strict=True):
                    table[:, piece.rows] += part
                sampled[piece.rows, piece.part] += who
                if progress is not None:
                    users = min(dataset.n, piece.groups.stop * LANES) - piece.groups.start * LANES
                    values = sum(a.k for a in plan.attributes[piece.part])
                    progress(users * (piece.rows.stop - piece.rows.start) * values)
        return counts, sampled

    def _segments(self, dataset: Dataset) -> Iterator[tuple[Held, slice]]:
        """Users, so many that their codes are not too much; if all users are, they are remembered."""
        everyone = slice(0, -(-dataset.n // LANES))
        known = self._held
        if known is not None and known[0] is dataset:
            yield known[1], everyone
            return
        del known
        self._held = None  # gone before others come
        if _in_memory(dataset):
            most = everyone.stop
        else:
            most = max(1, self._segment_bytes // (_bytes_per_user(dataset) * LANES))
            most = most // CHUNK * CHUNK or most
        for first in range(0, everyone.stop, most):
            groups = slice(first, min(first + most, everyone.stop))
            held = Held(first, self._columns(dataset, first * LANES, min(groups.stop * LANES, dataset.n)))
            if groups == everyone:
                self._held = dataset, held
            yield held, groups
            del held

    def _columns(self, dataset: Dataset, start: int, stop: int) -> list[Codes]:
        """The codes of some users."""
        if type(dataset) is not SyntheticDataset:
            return [_checked(dataset.column(j, start, stop), dataset, j, stop - start) for j in range(dataset.d)]
        columns = [np.empty(stop - start, code_dtype(k)) for k in dataset.domain]

        def fill(j: int, first: int) -> None:
            k = dataset.domain[j]
            some = columns[j][first : first + DRAWN_AT_A_TIME]
            draw(self._library, dataset.seed, j, dataset.thresholds[k], start + first, some, k)

        jobs = [(j, first) for j in range(dataset.d) for first in range(0, stop - start, DRAWN_AT_A_TIME)]
        small = len(jobs) == 1 or (stop - start) * dataset.d < DRAWN_AT_A_TIME
        for _ in (map if small else self._threads.map)(fill, *zip(*jobs, strict=True)):
            heed_signals()
        return columns

    def _pieces(self, tables: Tables, groups: slice, repetitions: int) -> Iterator[Piece]:
        """Not too long, and enough for all threads; of several repetitions, for which users are prepared once."""
        size = groups.stop - groups.start
        small = sum(tables.costs) * size * repetitions < INLINE_COST
        for part in runs(tables.costs, PIECE_COST / min(size, CHUNK)):
            most = max(STEP, int(PIECE_COST / sum(tables.costs[part])))  # groups x repetitions of a piece
            rows = repetitions if small else -(-repetitions // (4 * self.workers))
            rows = max(1, min(rows, most // size, PIECE_BYTES // tables.bytes(part)))
            wanted = 1 if small else -(-4 * self.workers // repetitions)
            step = min(most // rows, -(-size // wanted))
            step = step // CHUNK * CHUNK or max(STEP, step // STEP * STEP)
            for start in range(groups.start, groups.stop, step):
                for first in range(0, repetitions, rows):
                    yield Piece(
                        slice(first, min(first + rows, repetitions)), slice(start, min(start + step, groups.stop)), part
                    )

    def _done(
        self, tables: Tables, n: int, held: Held, seed: int, repetitions: range, pieces: list[Piece]
    ) -> Iterator[tuple[Piece, tuple[list[Counts], Counts]]]:
        """Pieces and their counts, as they come; a few are under way."""
        stop = np.zeros(1, np.int32)

        def counted(piece: Piece) -> tuple[Piece, tuple[list[Counts], Counts]]:
            return piece, tables.count(
                self._library, held, n, seed, repetitions[piece.rows], piece.groups, piece.part, tables.partial, stop
            )

        small = len(pieces) == 1 and sum(tables.costs) * len(repetitions) * -(-n // LANES) < INLINE_COST
        if small or (self.workers == 1 and threading.current_thread() is not threading.main_thread()):
            yield from map(counted, pieces)  # Ctrl-C is not for this thread, or need not wait
            return
        left, running = iter(pieces), set[Future[tuple[Piece, tuple[list[Counts], Counts]]]]()
        try:
            while True:
                for piece in islice(left, 2 * self.workers - len(running)):
                    running.add(self._threads.submit(counted, piece))
                if not running:
                    return
                finished, running = wait(running, SIGNAL_SECONDS, FIRST_COMPLETED)
                heed_signals()
                for future in finished:
                    yield future.result()
        finally:  # Ctrl-C, say: what is under way ends within a millisecond or so
            stop[0] = 1
            for future in running:
                future.cancel()
            wait(running)


def run_task(columns: Columns, task: Task, seed: int) -> TaskCounts:
    """A task of the NumPy backend, for a worker elsewhere."""
    data, users = columns.dataset, task.stop - task.start
    held = {a.index: _checked(columns(a.index, task.start, task.stop), data, a.index, users) for a in task.attributes}
    tables = Tables(task.attributes, task.d, task.assignment)
    groups, part = slice(task.start // LANES, -(-task.stop // LANES)), slice(0, len(task.attributes))
    counts, sampled = tables.count(
        build.built().library,
        Held(groups.start, held),
        task.n,
        seed,
        task.repetitions,
        groups,
        part,
        task.count_sampled,
    )
    return TaskCounts(counts, sampled if task.count_sampled else None)


def _bytes_per_user(dataset: Dataset) -> int:
    return sum(code_dtype(k).itemsize for k in dataset.domain)


def _in_memory(dataset: Dataset) -> bool:
    """Whether the codes are there in any case, so that nothing is won by looking at some users at a time."""
    return type(dataset).column is Dataset.column


def _checked(codes: Codes, dataset: Dataset, j: int, users: int) -> Codes:
    """Codes of any data set as counts.c reads them: it uses them as places in tables."""
    k = dataset.domain[j]
    if np.shape(codes) != (users,):
        raise InputError(f"attribute {j} of {dataset.name!r} has codes of shape {np.shape(codes)}, not ({users},)")
    if not 0 <= int(np.min(codes)) <= int(np.max(codes)) < k:
        raise InputError(f"attribute {j} of {dataset.name!r} has codes outside 0 … {k - 1}")
    return np.ascontiguousarray(codes, code_dtype(k))
