"""Counts without users: the counts of every recipe drawn from their exact distribution, at a fraction of the cost.

`CountsSampler` draws the joint distribution of all counts of a protocol.  Each user's sampled attribute comes from the
tape, so that s[j, v] (the users who sampled attribute j and hold v there) and n_j are those of the user-level
simulation; everything else is binomial or multinomial given s.  `MarginalsSampler` draws s as well: no user is looked
at, each attribute's distribution is exact, and attributes are independent of each other, which in truth they are not
quite.

A result is a function of (seed, data set, repetition, recipe), whatever else is simulated: substreams.py says how.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends.base import Backend, Progress, check_noises
from gpu_rsfd.backends.cpu.backend import cores
from gpu_rsfd.backends.exact.draws import DRAWS, Known, dealt, thinned
from gpu_rsfd.backends.exact.substreams import BLOCK, SAMPLED, Group, Job, Streams, groups_of
from gpu_rsfd.backends.pool import Columns, Pool
from gpu_rsfd.checks import integer
from gpu_rsfd.datasets.base import Dataset, check_rows
from gpu_rsfd.planning import AttributePlan, Counts, Plan
from gpu_rsfd.tape import COUNTS, MARGINALS, Tape, code_dtype

USERS_PER_STEP = 1 << 17  # long enough that threads seldom wait for each other
INLINE_USERS = 1 << 22  # users x repetitions; less is not worth starting processes for
SHARES = 4  # batches for each worker: a slow one is waited for a quarter of its time at most
TABLE_BYTES = 1 << 28  # the users' values that are kept in memory at a time


class Sampler(Backend):
    """The interface of a backend: `count` gives the integer counts of a plan.  Results do not depend on workers."""

    noises = frozenset(DRAWS)
    units = "thread", "threads"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = cores() if workers is None else integer("workers", workers, 1, 1024)
        self._threads: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """Ends the worker threads."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(cancel_futures=True)

    def batch_multiple(self, n: int) -> int:
        """Repetitions that use it fully: a good multiple for a block of work."""
        return BLOCK if self.name == "marginals" else self.workers

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute] (0 if only Spl)."""
        check_rows(dataset, self.name)
        check_noises(plan, self.name, self.noises)
        job = Job(plan, dataset, seed, repetitions)
        try:
            for positions in self._fill(job):
                if progress is not None:
                    progress(positions)
        except BaseException:
            self.close()
            raise
        return job.counts(), job.sampled

    @abstractmethod
    def _fill(self, job: Job) -> Iterator[int]:
        """Fills the arrays of a job; yields the positions (users x values) done."""

    def _each(self, work: Callable[[Any], int], items: Iterable[Any]) -> Iterator[int]:
        """What the work on each item gives, in order, the items done by all workers; raises what goes wrong."""
        if self.workers == 1:
            return map(work, items)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.workers)
        return self._threads.map(work, items)


class CountsSampler(Sampler):
    """The exact joint distribution of all counts; sampled attributes are those of the users.  O(n) a repetition."""

    name = "counts"
    units = Backend.units
    _kept: tuple[Dataset, npt.NDArray[Any]] | None = None  # the last data set's value table, if it is whole

    def __init__(self, workers: int | None = None) -> None:
        super().__init__(workers)
        self._pool = Pool(self.workers)

    def close(self) -> None:
        super().close()
        self._pool.close()
        self._kept = None

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Repetitions dealt out to the workers, if there is enough to do."""
        check_rows(dataset, self.name)
        check_noises(plan, self.name, self.noises)
        workers = min(self.workers, len(repetitions))
        if workers == 1 or dataset.n * len(repetitions) < INLINE_USERS:
            return super().count(plan, dataset, seed, repetitions, progress)
        counts, sampled = plan.zeros(repetitions)
        size = -(-len(repetitions) // (SHARES * workers))
        _ = dataset.counts  # known once, and sent along
        batches = [(plan, seed, repetitions[i : i + size]) for i in range(0, len(repetitions), size)]
        answers = self._pool.map(dataset, count_batch, batches)
        for (_, _, batch), (part, who) in zip(batches, answers, strict=True):
            rows = slice(repetitions.index(batch[0]), repetitions.index(batch[-1]) + 1)
            for table, piece in zip(counts, part, strict=True):
                table[:, rows] = piece
            sampled[rows] = who
            if progress is not None:
                progress(plan.positions(dataset.n) * len(batch))
        return counts, sampled

    def _fill(self, job: Job) -> Iterator[int]:
        plan, dataset, seed, repetitions = job.plan, job.dataset, job.seed, job.repetitions
        n, holders = dataset.n, dataset.counts
        assign = any(g.needs_assignment for g in job.groups)
        s = np.zeros((len(repetitions), plan.values), np.int64)

        def repetition(row: int, start: int, stop: int, codes: npt.NDArray[Any] | None) -> int:
            if codes is not None:
                _add_sampled(plan, Tape(seed), n, repetitions[row], start, codes, s[row])
            if stop == n:
                job.sampled[row] = np.add.reduceat(s[row], [a.offset for a in plan.attributes])
                streams = Streams(seed, COUNTS)
                for group, parts in zip(job.groups, job.tables, strict=True):
                    mine, holding = s[row][group.columns][:, :, None], holders[group.columns]
                    for part, table in zip(group.parts, parts, strict=True):
                        here = part.places
                        known = Known(part, n, holding[here], mine[here], streams, repetitions[row])
                        for i, values in known.draw(streams, repetitions[row], 1):
                            table[:, i, row] = values[:, :, 0]
            return (stop - start) * plan.values

        size = plan.d * code_dtype(plan.values).itemsize
        users = min(n, max(TABLE_BYTES // size // 4 * 4, 4)) if assign else n
        for start in range(0, n, users):
            stop = min(start + users, n)
            codes = self._value_table(plan, dataset, start, stop) if assign else None
            yield from self._each(partial(repetition, start=start, stop=stop, codes=codes), range(len(repetitions)))

    def _value_table(self, plan: Plan, dataset: Dataset, start: int, stop: int) -> npt.NDArray[Any]:
        """[user, attribute]: which of all attributes' values, in order, a user holds."""
        if self._kept is not None and self._kept[0] is dataset:
            return self._kept[1][start:stop]
        dtype = code_dtype(plan.values)
        table = np.empty((stop - start, plan.d), dtype)

        def fill(a: AttributePlan) -> int:
            np.add(dataset.column(a.index, start, stop), dtype.type(a.offset), table[:, a.index], dtype=dtype)
            return 0

        for _ in self._each(fill, plan.attributes):
            pass
        self._kept = (dataset, table) if len(table) == dataset.n else None
        return table


_mine: list[CountsSampler] = []  # a worker's own: it keeps the users' values from one batch to the next


def count_batch(columns: Columns, plan: Plan, seed: int, repetitions: range) -> tuple[list[Counts], Counts]:
    """What a worker does."""
    if not _mine:
        _mine.append(CountsSampler(workers=1))
    return _mine[0].count(plan, columns.dataset, seed, repetitions)


def _add_sampled(
    plan: Plan, tape: Tape, n: int, repetition: int, start: int, table: npt.NDArray[Any], s: Counts
) -> None:
    """s += the users of `table` who sampled each attribute, by the value that they hold there."""
    d, flat = plan.d, table.reshape(-1)
    first = np.arange(min(USERS_PER_STEP, len(table))) * d
    for i in range(0, len(table), USERS_PER_STEP):
        stop = min(i + USERS_PER_STEP, len(table))
        place = tape.assigned(plan.assignment, repetition, n, d, start + i, start + stop)
        place += first[: stop - i]
        values = flat[i * d : stop * d].take(place)
        s += np.bincount(values, minlength=len(s))


class MarginalsSampler(Sampler):
    """Each attribute's distribution exactly, attributes independent of each other.  Cost: the values, whatever n is."""

    name = "marginals"

    def drawn_at_once(self, plan: Plan) -> int:
        return min(group.block_rows for group in groups_of(plan))

    def _fill(self, job: Job) -> Iterator[int]:
        plan, dataset, repetitions = job.plan, job.dataset, job.repetitions

        def draw(block_of: tuple[int, list[int]]) -> int:
            """One block of a group: the rows asked for."""
            group, rows = job.groups[block_of[0]], block_of[1]
            holders, size = dataset.counts[group.columns], group.block_rows
            first, last = repetitions[rows[0]], repetitions[rows[-1]]
            block, asked = first // size, slice(rows[0], rows[-1] + 1)
            wanted = slice(first % size, last % size + 1, repetitions.step)
            streams = Streams(job.seed, MARGINALS, dataset.round)
            s = self._sampled(plan, dataset.n, group, holders, streams, block)
            thinning = 1 / plan.d if plan.assignment == "uniform" else None
            for part, table in zip(group.parts, job.tables[block_of[0]], strict=True):
                here = part.places
                known = Known(part, dataset.n, holders[here], s[here], streams, block, thinning)
                for i, values in known.draw(streams, block, size):
                    table[:, i, asked] = values[:, :, wanted].swapaxes(1, 2)
            if group.needs_assignment:
                job.sampled[asked, [a.index for a in group.attributes]] = s.sum(axis=1).T[wanted]
            return dataset.n * holders.size * len(rows)

        def blocks() -> Iterator[tuple[int, list[int]]]:
            for g, group in enumerate(job.groups):
                size = group.block_rows
                for _, rows in groupby(range(len(repetitions)), lambda row: repetitions[row] // size):  # noqa: B023
                    yield g, list(rows)

        return self._each(draw, blocks())

    @staticmethod
    def _sampled(plan: Plan, n: int, group: Group, holders: Counts, streams: Streams, block: int) -> Counts:
        """s, [attribute, value, row]"""
        if not group.needs_assignment:
            return np.zeros((*holders.shape, 1), np.int64)
        draw = streams.at(SAMPLED, group.k, block)
        if plan.assignment == "uniform":
            return thinned(draw, holders, plan.d, group.block_rows)
        index = np.array([a.index for a in group.attributes])
        return dealt(draw, holders, (n - index + plan.d - 1) // plan.d, group.block_rows)


SAMPLERS: dict[str, type[Sampler]] = {"counts": CountsSampler, "marginals": MarginalsSampler}
