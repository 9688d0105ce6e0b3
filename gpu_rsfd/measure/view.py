"""What a measurement sees: some repetitions and cells of a plan on a data set, whatever machines do the work."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpu_rsfd.backends.base import Progress
from gpu_rsfd.backends.engine import Engine
from gpu_rsfd.backends.pool import Columns, Pool
from gpu_rsfd.datasets.base import Dataset, check_rows
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure.base import Measurement
from gpu_rsfd.measure.reports import Chunk, ReportChunk, chunk_size
from gpu_rsfd.planning import Counts, Floats, Plan
from gpu_rsfd.results.result import Header

INLINE_POSITIONS = 1 << 26  # positions x cells, a second or two; less is not worth sending to other processes


class View:
    """Some repetitions and some cells of a run, cut so that the arrays of one call stay below 64 MB.

    Attributes
    ----------
    protocols, epsilons, repetitions
        The coordinates of the arrays that `measure` gives.
    data : Dataset
        The users.
    plan : Plan
        What each protocol does at each epsilon to each attribute.
    seed : int
        The seed of the run.
    """

    def __init__(
        self, name: str, plan: Plan, data: Dataset, seed: int, repetitions: range, engine: Engine,
        progress: Progress | None = None,
    ) -> None:  # fmt: skip
        self.name, self.plan, self.data, self.seed, self.repetitions = name, plan, data, seed, repetitions
        self.protocols, self.epsilons = plan.protocols, plan.epsilons
        self._engine, self._progress = engine, progress
        self._counted: tuple[list[Counts], Counts] | None = None

    @property
    def truth(self) -> Floats:
        """The true frequencies of the values of all attributes, in order."""
        return self.data.frequencies

    def tallies(self) -> tuple[list[Counts], Counts]:
        """Counts as backends make them: [recipe, repetition, value] of each attribute; who sampled it."""
        if self._counted is None:
            self._counted = self._engine.count(self.plan, self.data, self.seed, self.repetitions, self._progress)
        return self._counted

    def counts(self, data: Dataset | None = None) -> tuple[Counts, Counts]:
        """Count the reports.

        Parameters
        ----------
        data : Dataset, optional
            Other data than those of the view, such as a later round of these.

        Returns
        -------
        counts : ndarray of int64, [protocol, epsilon, repetition, value]
            Number of reports of each value; the values of all attributes, in order.
        reporters : ndarray of int64, [protocol, epsilon, repetition, attribute]
            Number of users who reported an attribute.
        """
        run = self.seed, self.repetitions
        tables, sampled = self.tallies() if data is None else self._engine.count(self.plan, data, *run)
        return self.plan.expand(tables), self.plan.reporters(self.data.n, sampled)

    def reports(
        self, protocol: str, epsilon: float, repetition: int, users: tuple[int, int] | None = None
    ) -> ReportChunk:
        """What users send: those of `gpu_rsfd.reports`, bit by bit.

        Parameters
        ----------
        protocol, epsilon, repetition
            A cell of the view, and one of its repetitions.
        users : (int, int), optional
            The first user, and the one after the last.  Default: all of them.
        """
        check_rows(self.data, "users")
        start, stop = (0, self.data.n) if users is None else users
        if not 0 <= start < stop <= self.data.n:
            raise InputError(f"users={users} must be a first user and a stop, from 0 to {self.data.n:,}")
        chunk = Chunk(self.data.column, self.plan, self.data.n, self.seed, repetition, start, stop)
        return chunk.reports(protocol, epsilon)

    def sums(self, f: Callable[..., Any], *each: Sequence[Any]) -> Any:
        """The sum of a function over all users, for each repetition; on all cores.

        Parameters
        ----------
        f : callable
            A function of a `Chunk` of users that returns an array, or a tuple of arrays.  If it can't be pickled, all
            is done in this process.
        *each : sequences
            An entry for each repetition, passed to `f` after the chunk.

        Returns
        -------
        ndarray or tuple of ndarray
            [repetition, …]: the sum over the chunks, in order, whose sizes don't depend on the machine.
        """
        check_rows(self.data, "users")
        n, size = self.data.n, chunk_size(self.plan, self.data.n)
        items = [
            (f, self.plan, n, self.seed, repetition, start, min(start + size, n), tuple(one[row] for one in each))
            for row, repetition in enumerate(self.repetitions)
            for start in range(0, n, size)
        ]
        work = self.plan.positions(n) * len(self.repetitions) * len(self.protocols) * len(self.epsilons)
        engine = Pool(1) if work < INLINE_POSITIONS else self._engine
        found = engine.map(self.data, _of_chunk, items)
        rows: list[list[Any]] = []
        single = False
        for item, part in zip(items, found, strict=True):
            single = not isinstance(part, tuple)
            parts = [np.asarray(x) for x in ((part,) if single else part)]
            rows.append(parts) if item[5] == 0 else rows.append([a + b for a, b in zip(rows.pop(), parts, strict=True)])
            if self._progress is not None and self._counted is None:  # else they have been told of
                self._progress(self.plan.positions(item[6] - item[5]))
        sums = tuple(np.stack(column) for column in zip(*rows, strict=True))
        return sums[0] if single else sums

    def rng(self, protocol: str, epsilon: float, repetition: int, first_user: int = 0) -> np.random.Generator:
        """Random numbers of one's own: a generator keyed by a cell, a repetition, the seed and the measurement's name.

        Adding protocols, epsilons or repetitions changes no other's numbers.
        """
        key = json.dumps([self.name, self.seed, protocol, float(epsilon), int(repetition), int(first_user)])
        words = np.frombuffer(hashlib.sha256(key.encode()).digest()[:16], np.uint64)
        return np.random.Generator(np.random.Philox(key=words))


def _of_chunk(
    columns: Columns, f: Callable[..., Any], plan: Plan, n: int, seed: int, repetition: int, start: int, stop: int,
    more: tuple[Any, ...],
) -> Any:  # fmt: skip
    """What a worker does: a function of some users of a repetition."""
    return f(Chunk(columns, plan, n, seed, repetition, start, stop), *more)


def measured(
    engine: Engine,
    data: Dataset,
    measurement: Measurement,
    block: Any,
    seed: int,
    repetitions: range,
    advance: Any = None,
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The arrays of a block of a run, checked, and how they were made; wherever that happens."""
    view = View(measurement.name, block.plan, data, seed, repetitions, engine, advance)
    return finished(measurement, view, time.perf_counter(), engine)


def finished(measurement: Measurement, view: View, started: float, engine: Engine) -> Any:
    """The arrays of a view, checked, and how they were made since `started`."""
    made, header = measurement.measure(view), Header.of(view.data, view.plan)
    cut = (len(view.protocols), len(view.epsilons), len(view.repetitions))
    layout, arrays, gives = measurement.layout(header), {}, f"{measurement.name}.measure gives"
    for name in layout.arrays:
        if name not in made:
            raise InputError(f"{gives} no {name!r}; it gives {', '.join(made) or 'nothing'}")
        array, shape = np.asarray(made[name]), (*cut, *layout.sizes(header, name))
        if array.shape != shape or array.dtype.kind not in "iufb":
            found = f"shape {array.shape} and dtype {array.dtype}"
            raise InputError(f"{gives} {name!r} with {found}; numbers of shape {shape} are needed")
        arrays[name] = array.astype(np.float64 if array.dtype.kind == "f" else np.int64, copy=False)
    return arrays, {"seconds": time.perf_counter() - started, "backend": engine.name, "device": engine.device}
