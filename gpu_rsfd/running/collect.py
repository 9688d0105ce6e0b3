"""`collect`: data sets x repetitions of a measurement in blocks, each saved when it is done.  The only loop."""

from __future__ import annotations

import contextlib
import io
import math
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from gpu_rsfd.backends.base import Progress
from gpu_rsfd.backends.cpu.backend import POSITIONS_PER_TASK
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.measure import Measurement, measurement_of
from gpu_rsfd.measure.frequencies import BLOCK_BYTES
from gpu_rsfd.planning import Plan, plan_for
from gpu_rsfd.results.result import Header, Results
from gpu_rsfd.running.command import command_of
from gpu_rsfd.spec import SAVE_EVERY, Spec
from gpu_rsfd.store.blocks import Block, Blocks, adopt, write_block
from gpu_rsfd.store.compact import Store
from gpu_rsfd.store.files import locked, remove_leftovers, replaced
from gpu_rsfd.store.folder import claimed, folder_of, headers_of, manifest_of, spec_of
from gpu_rsfd.store.format import FORMAT, chunk_rows
from gpu_rsfd.store.identity import conflicts, key_of, lacking, union
from gpu_rsfd.store.output import check_output, check_part, shares, what_is_missing
from gpu_rsfd.store.pieces import Gap
from gpu_rsfd.store.reading import open_results
from gpu_rsfd.tape import STREAM_VERSION

UPDATE_EVERY = 5  # times the seconds between saves, and the blocks are compacted into the file
SAVE_SHARE = 20  # work takes at least this many times as long as compacting
SHORTEST_BLOCK = 0.2  # seconds of work, once the speed is known: making a file for each takes a tenth of that


S = TypeVar("S")


class Reporter(Protocol):
    """Receives progress and messages."""

    def begin(self, positions: int, done: int) -> None: ...
    def dataset(self, name: str) -> None: ...
    def advance(self, positions: int) -> None: ...
    def say(self, line: str) -> None: ...
    def end(self) -> None: ...


class Silent:
    """A reporter that says nothing."""

    def begin(self, positions: int, done: int) -> None: ...
    def dataset(self, name: str) -> None: ...
    def advance(self, positions: int) -> None: ...
    def say(self, line: str) -> None: ...
    def end(self) -> None: ...
    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: object) -> None: ...


def describe(datasets: Sequence[Dataset], spec: Spec, measurement: Measurement) -> dict[str, Any]:
    """All that is run, as plain data: equal descriptions mean equal results."""
    return {
        "measurement": measurement.kind,
        "datasets": [dataset.describe() for dataset in datasets],
        **spec.described(),
        "stream_version": STREAM_VERSION,
        # the tape is the same for ever; a sampler's draws are NumPy's, and those of one version
        **({} if spec.sampler == "users" else {"numpy_version": np.__version__}),
        **measurement.described(),
    }


def collect(
    measurement: Measurement,
    datasets: Sequence[Dataset],
    spec: Spec,
    output: Path,
    engine: Any,
    *,
    plans: Sequence[Plan] | None = None,
    overwrite: bool = False,
    save_every: float = SAVE_EVERY,
    part: tuple[int, int] | None = None,
    reporter: Reporter | None = None,
) -> Results:
    """Run a measurement of data sets into one HDF5 file, and give what it then holds.

    A file that holds a part of it is resumed or extended, in any direction; one that holds all of it is read; one of
    another run is refused unless `overwrite` is given.
    """
    if not isinstance(save_every, (int, float)) or not 0 <= save_every < math.inf:
        raise InputError(f"save_every={save_every} must be a number of seconds >= 0")
    if part is not None:
        check_part(*part)
        if overwrite:
            raise InputError("overwrite can't be used with a part: other parts may be under way")
    target = check_output(output)
    compiled = [plan_for(spec, data) for data in datasets] if plans is None else plans
    run = _Collection(measurement, datasets, compiled, spec, output, target, engine, reporter or Silent(), save_every)
    return run.run(overwrite, part)


def merge(output: Path, others: Sequence[Path] = ()) -> Results:
    """Join the blocks that parts of a run left beside `output` into this file, and give what it then holds."""
    target = check_output(output)
    with locked(target):
        remove_leftovers(target.parent, target.name)
        for other in others:
            adopt(target, folder_of(other))
        existing = open_results(output) if output.exists() else None
        if existing is not None and existing.complete and manifest_of(folder_of(target)) is None:
            Blocks(target, existing.spec).end()  # what a killed merge left
            return existing
        want = spec_of(folder_of(target))
        if want is None:
            raise InputError(
                f"{output} has no blocks beside it; `gpu-rsfd sweep --part 1/16 --output {shlex.quote(str(output))}` "
                "makes some"
            )
        headers, measurement = headers_of(folder_of(target), want), measurement_of(want)
        if existing is not None:
            named = {d["name"]: header for d, header in zip(want["datasets"], headers, strict=True)}
            lines = _refusals(existing, want, named)
            if lines:
                raise InputError(f"{output} holds another run than the blocks beside it\n  " + "\n  ".join(lines))
        store = Store(target, want, headers, measurement, [_rows(h, want) for h in headers], existing)
        missing = [store.missing(i, 0, store.total) for i in range(len(headers))]
        if store.outdated or existing is None:
            store.compact()
        if any(missing):
            lines = [f"{output} is not complete; {what_is_missing(store, missing)}", *store.blocks.notes]
            raise RunError("\n  ".join(lines))
        store.end()
    return open_results(output)


def _refusals(existing: Results, want: Mapping[str, Any], headers: Mapping[str, Header]) -> list[str]:
    """Why a file can't be extended to what is wanted; nothing if it can."""
    if existing.format < FORMAT:
        return [f"it was written by gpu-rsfd {existing.package_version}: such files are read, not extended"]
    return [*conflicts(existing.spec, want, existing, headers), *lacking(existing.spec, want)]


def _rows(header: Header, want: Mapping[str, Any], unit: int = 1) -> int:
    return chunk_rows(header, len(range(*want["repetitions"])), unit)


class _Task(NamedTuple):
    """Repetitions number `first` … `stop` - 1 of some cells of a data set, made at once."""

    number: int  # of the data set
    first: int
    stop: int
    cells: Any


@dataclass(frozen=True)
class BlockLayout:
    """How a block is made and written, wherever that happens."""

    measurement: Measurement
    header: Header  # its plan asks for the cells of the block alone
    block: Block
    rows: int  # repetitions in a chunk
    seed: int
    repetitions: range

    def write(self, image: Any, made: Any, about: Mapping[str, Any]) -> None:
        write_block(image, self.block, self.header, self.measurement.arrays(), self.rows, made, about)


class _Collection:
    def __init__(
        self,
        measurement: Measurement,
        datasets: Sequence[Dataset],
        plans: Sequence[Plan],
        spec: Spec,
        path: Path,
        target: Path,
        engine: Any,
        reporter: Reporter,
        save_every: float,
    ) -> None:
        self.measurement, self.datasets, self.spec, self.path, self.target = measurement, datasets, spec, path, target
        self.engine, self.reporter, self.save_every = engine, reporter, save_every
        self.want = describe(datasets, spec, measurement)
        self.headers = [Header.of(data, plan) for data, plan in zip(datasets, plans, strict=True)]
        self.sizes = [plan.positions(d.n) for d, plan in zip(datasets, plans, strict=True)]
        self.units = [engine.drawn_at_once(plan) for plan in plans]
        self.keys = [key_of(self.want, dataset) for dataset in self.want["datasets"]]
        self.speed, self.computed = engine.first_speed, 0
        self.cluster: Any = engine if getattr(engine, "stream", None) else None
        self.split = [False] * len(datasets)  # of those whose users many workers share

    def run(self, overwrite: bool, part: tuple[int, int] | None) -> Results:
        if part is None:
            with locked(self.target):
                remove_leftovers(self.target.parent, self.target.name)
                return self._whole(overwrite)
        try:
            with claimed(self.target, f"{part[0]}-of-{part[1]}"):
                return self._part(*part)
        finally:  # nothing was left to do: nor is a folder; but whoever holds the output's lock may be using it
            with contextlib.suppress(InputError, OSError), locked(self.target, wait=0):
                Blocks(self.target, self.want).end()

    def _store(self, overwrite: bool) -> tuple[Store, Results | None]:
        existing = None
        if self.path.exists() and not overwrite:
            existing = open_results(self.path)
            headers = {data.name: header for data, header in zip(self.datasets, self.headers, strict=True)}
            if lines := _refusals(existing, self.want, headers):
                self._refuse(existing, lines)
        Blocks(self.target, self.want).check(overwrite)
        rows = [_rows(h, self.want, unit) for h, unit in zip(self.headers, self.units, strict=True)]
        store = Store(self.target, self.want, self.headers, self.measurement, rows, existing)
        store.blocks.found()
        for line in store.blocks.notes:
            self.reporter.say(line)
        return store, existing

    def _refuse(self, existing: Results, lines: Sequence[str]) -> None:
        less = lacking(existing.spec, self.want)
        if existing.format == FORMAT and less and len(less) == len(lines):
            command = command_of(union(existing.spec, self.want), self.measurement.noun, self.path)
            hint = f"this extends it:\n  {command}" if command else "ask for that as well"
            raise InputError(
                f"output={self.path} holds more than this command asks for; {hint}\n  " + "\n  ".join(lines)
            )
        head, hint = f"output={self.path} holds", "give another --output, or --overwrite to replace it"
        if existing.spec.get("measurement", "frequencies") != self.measurement.kind:
            raise InputError(f"{head} {lines[0].removeprefix('it holds ')}; {hint}")
        raise InputError(f"{head} another {self.measurement.noun}; {hint}\n  " + "\n  ".join(lines))

    def _whole(self, overwrite: bool) -> Results:
        store, existing = self._store(overwrite)
        todo = [store.missing(index, 0, store.total) for index in range(len(self.datasets))]
        if existing is not None and existing.complete and not any(todo) and not store.outdated:
            store.end()
            return existing
        saved, saving, fresh, written = time.perf_counter(), 0.0, 0, 0
        try:
            for task in self._blocks(store, todo):
                now = time.perf_counter()
                fresh += task.stop - task.first
                due = now - saved >= SAVE_SHARE * saving or fresh >= written  # copying twice as much is never much
                if due and now - saved >= UPDATE_EVERY * self.save_every:
                    store.compact()
                    written, fresh, saved = written + fresh, 0, time.perf_counter()
                    saving = saved - now
            if store.outdated:
                store.compact()
        except BaseException:
            store.keep_what_is_done()
            raise
        store.end()
        self.reporter.end()
        results = open_results(self.path)
        results.computed = self.computed
        return results

    def _part(self, number: int, parts: int) -> Results:
        store, existing = self._store(overwrite=False)
        share = shares(self.sizes, len(self.spec.repetitions), number, parts)
        todo = [store.missing(index, *bounds) for index, bounds in enumerate(share)]
        for _ in self._blocks(store, todo, parts):
            pass
        self.reporter.end()
        results = existing or Results(spec=self.want, complete=False)
        results.computed = self.computed
        return results

    def _layout(self, store: Store, task: _Task) -> BlockLayout:
        n, header = task.number, self.headers[task.number]
        header = replace(header, plan=header.plan.only(task.cells))
        block = Block.of(header, self.datasets[n].name, self.keys[n], task.first, task.stop)
        repetitions = self.spec.repetitions[task.first : task.stop]
        return BlockLayout(self.measurement, header, block, store.rows[n], self.spec.seed, repetitions)

    def _blocks(self, store: Store, todo: Sequence[Sequence[Gap]], parts: int = 0) -> Iterator[_Task]:
        """Makes all blocks that are to be done; each is on disk when it is given."""
        left = sum(size * (g.stop - g.first) for size, gaps in zip(self.sizes, todo, strict=True) for g in gaps)
        if not left:
            return
        store.backend, store.device = self.engine.name, self.engine.device
        store.blocks.begin(store.headers, parts)
        every = left if parts else max(left, len(self.spec.repetitions) * sum(self.sizes))
        self.reporter.begin(every, every - left)
        if self.cluster is not None:
            self.cluster.say = self.reporter.say
            yield from self._on_cluster(store, todo)
            return
        # Errors are worked out and written while the next block is counted: a device need not wait for them.
        with ThreadPoolExecutor(1, "gpu-rsfd-writer") as writer:
            writing: Future[_Task] | None = None
            for task in self._cut(store, todo):
                layout, started = self._layout(store, task), time.perf_counter()
                at_once = self.measurement.pieces(layout.header, len(layout.repetitions), self.engine) == 1
                made = _Made(layout, self.datasets[task.number], self.engine, self.reporter.advance)
                if at_once:  # else piece by piece, to save memory
                    made.start()
                if writing is not None:
                    yield writing.result()
                    writing = None
                if at_once:
                    writing = writer.submit(self._write, store, task, layout, made)
                else:
                    yield self._write(store, task, layout, made)
                self.speed = self.sizes[task.number] * (task.stop - task.first) / (time.perf_counter() - started)
            if writing is not None:
                yield writing.result()

    def _write(self, store: Store, task: _Task, layout: BlockLayout, made: _Made) -> _Task:
        path = store.blocks.folder / layout.block.name
        with replaced(path) as image:
            layout.write(image, made, made.about)
        store.blocks.add(path, layout.block, made.about)
        self.computed += task.stop - task.first
        return task

    def _on_cluster(self, store: Store, todo: Sequence[Sequence[Gap]]) -> Iterator[_Task]:
        """Workers make whole blocks, in any order; but where a repetition is too much for one, all make each block."""
        few = 4 * self.cluster.threads
        split = self.split = [
            size > 1 << 30 and sum(g.stop - g.first for g in gaps) < few
            for size, gaps in zip(self.sizes, todo, strict=True)
        ]
        mine, theirs = ([gaps if flag is own else [] for gaps, flag in zip(todo, split, strict=True)]
                        for own in (True, False))  # fmt: skip

        def jobs() -> Iterator[Any]:
            for task in self._cut(store, theirs):
                layout = self._layout(store, task)
                yield self.datasets[task.number], _block_there, (layout, task)

        for (layout, task), (image, about) in self.cluster.stream(jobs()):
            path = store.blocks.folder / layout.block.name
            with replaced(path) as file:
                file.write(image)
            store.blocks.add(path, layout.block, about)
            count = task.stop - task.first
            self.computed += count
            self.speed = self.sizes[task.number] * count / max(about["seconds"], 1e-9)
            self.reporter.advance(self.sizes[task.number] * count)
            yield task
        for task in self._cut(store, mine):
            layout = self._layout(store, task)
            made = _Made(layout, self.datasets[task.number], self.engine, self.reporter.advance)
            yield self._write(store, task, layout, made)

    def _cut(self, store: Store, todo: Sequence[Sequence[Gap]]) -> Iterator[_Task]:
        for index, gaps in enumerate(todo):
            if gaps:
                self.reporter.dataset(self.datasets[index].name)
            for first, stop, cells in gaps:
                while first < stop:
                    count = self._size(index, first, stop - first, store.rows[index])
                    yield _Task(index, first, first + count, cells)
                    first += count

    def _size(self, index: int, first: int, left: int, rows: int) -> int:
        """Repetitions of the next block: seconds of work, whole batches, few in memory, and no small rest."""
        size, unit, multiple = self.sizes[index], self.units[index], self.engine.batch_multiple(self.datasets[index].n)
        seconds = max(self.save_every, SHORTEST_BLOCK) if self.computed else self.save_every
        wanted = max(1, int(seconds * self.speed / size))
        count = -(-wanted // multiple) * multiple if wanted >= multiple else wanted
        cells = len(self.spec.protocols) * len(self.spec.epsilons)
        room = max(1, BLOCK_BYTES // (8 * cells * self.headers[index].plan.values))
        if unit > 1:  # memory is saved by protocols, not by repetitions
            room = max(room, unit)
        if left < 1.5 * count:
            count = left
        count = min(count, room)
        if self.cluster is not None:  # something for everybody
            threads = self.cluster.threads
            several = -(-8 * threads * POSITIONS_PER_TASK // size)  # tasks for each: few wait for the last one
            count = min(several, left, room) if self.split[index] else min(count, -(-left // (2 * threads)))
        for whole in (rows, unit):  # up to where chunks end, and where what is drawn at once ends
            if count >= whole and count < left and (first + count) // whole * whole > first:
                count = (first + count) // whole * whole - first
        if unit > 1 and count < unit:
            count = (first // unit + 1) * unit - first
        return min(count, left)


class _Made:
    """The arrays of a block, one protocol after the other, and how long the engine took."""

    def __init__(self, layout: BlockLayout, data: Dataset, engine: Any, progress: Progress | None = None) -> None:
        self.about = {"seconds": 0.0, "backend": engine.name, "device": engine.device}
        self._made = layout.measurement.make(layout.header, data, layout.seed, layout.repetitions, engine, progress)
        self._first: list[Any] = []

    def _next(self) -> Any:
        started = time.perf_counter()
        made = next(self._made, None)
        self.about["seconds"] += time.perf_counter() - started
        return made

    def start(self) -> None:
        """Has the engine do its work now; what follows from it is worked out while the arrays are taken."""
        self._first = [self._next()]

    def __iter__(self) -> Iterator[Any]:
        made = self._first.pop() if self._first else self._next()
        while made is not None:
            yield made
            made = self._next()


def _block_there(engine: Any, data: Dataset, layout: BlockLayout, task: _Task) -> tuple[bytes, dict[str, Any]]:
    """What a worker of a cluster does: a block as it will lie on disk, and how it was made."""
    image, made = io.BytesIO(), _Made(layout, data, engine)
    layout.write(image, made, made.about)
    return image.getvalue(), made.about
