"""`collect`: data sets x repetitions of a measurement, in blocks that go to the journal.  The only loop."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from gpu_rsfd.backends.engine import Engine
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.measure import Measurement
from gpu_rsfd.measure.view import View
from gpu_rsfd.planning import Plan, plan_for
from gpu_rsfd.results.result import Header, Layout, Result, Results
from gpu_rsfd.running.command import command_of
from gpu_rsfd.spec import SAVE_EVERY, Spec
from gpu_rsfd.store.contents import (
    Contents,
    Gap,
    check_output,
    head,
    journal_of,
    open_results,
    pack,
    parts_beside,
    read_journals,
    stored_file,
)
from gpu_rsfd.store.files import StoreError, is_locked, locked, remove_leftovers
from gpu_rsfd.store.identity import conflicts, key_of, lacking, union
from gpu_rsfd.store.journal import Journal
from gpu_rsfd.tape import STREAM_VERSION

VIEW_BYTES = 64 << 20  # of the arrays of one call
PACKED_EARLY = 64 << 20  # bytes of a journal that are still packed when a run is interrupted
FIRST_SPEED = 5e6  # positions in the first block and second, until some have been timed
SHORTEST_BLOCK = 0.2  # seconds of work, once the speed is known: a sync takes a part of that
MOST_PARTS = 100_000

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


class Run(NamedTuple):
    """What is run: a measurement of data sets, compiled."""

    measurement: Measurement
    spec: Spec
    datasets: Sequence[Dataset]
    plans: Sequence[Plan]

    @classmethod
    def of(cls, measurement: Measurement, spec: Spec, datasets: Sequence[Dataset]) -> Run:
        return cls(measurement, spec, datasets, [plan_for(spec, data) for data in datasets])

    @property
    def want(self) -> dict[str, Any]:
        """All that is run, as plain data: equal descriptions mean equal results."""
        return {
            **self.measurement.described(),
            "datasets": [dataset.describe() for dataset in self.datasets],
            **self.spec.described(),
            "stream_version": STREAM_VERSION,
            # the tape is the same for ever; a sampler's draws are NumPy's, and those of one version
            **({} if self.spec.sampler == "users" else {"numpy_version": np.__version__}),
        }

    @property
    def headers(self) -> dict[str, Header]:
        return {data.name: Header.of(data, plan) for data, plan in zip(self.datasets, self.plans, strict=True)}

    def layouts(self, headers: Mapping[str, Header]) -> dict[str, Layout]:
        return {name: self.measurement.layout(header) for name, header in headers.items()}


class Block(NamedTuple):
    """Repetitions number `first` … `stop` - 1 of some protocols and epsilons of a data set, made at once."""

    number: int  # of the data set
    first: int
    stop: int
    plan: Plan


def measured(
    engine: Engine,
    data: Dataset,
    measurement: Measurement,
    block: Block,
    seed: int,
    repetitions: range,
    progress: Any = None,
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The arrays of a block, checked, and how they were made; wherever that happens."""
    view = View(measurement.name, block.plan, data, seed, repetitions, engine, progress)
    started = time.perf_counter()
    return _finished(measurement, view, started, engine)


def _finished(measurement: Measurement, view: View, started: float, engine: Engine) -> Any:
    made = measurement.measure(view)
    header = Header.of(view.data, view.plan)
    layout, arrays = measurement.layout(header), {}
    for name in layout.arrays:
        if name not in made:
            raise InputError(f"{measurement.name}.measure gives no {name!r}; it gives {', '.join(made) or 'nothing'}")
        arrays[name] = array = np.asarray(made[name])
        cut = (len(view.protocols), len(view.epsilons), len(view.repetitions), *layout.sizes(header, name))
        if array.shape != cut or array.dtype.kind not in "iufb":
            raise InputError(
                f"{measurement.name}.measure gives {name!r} with shape {array.shape} and dtype {array.dtype}; numbers "
                f"of shape {cut} are needed"
            )
        arrays[name] = array.astype(np.float64 if array.dtype.kind == "f" else np.int64, copy=False)
    return arrays, {"seconds": time.perf_counter() - started, "backend": engine.name, "device": engine.device}


def in_memory(run: Run, engine: Engine, progress: Any = None) -> Results:
    """A run without a file."""
    results = Results(spec=run.want, backend=engine.name, device=engine.device)
    plain = {key: value for key, value in run.want.items() if key != "datasets"}
    for data, plan in zip(run.datasets, run.plans, strict=True):
        header = Header.of(data, plan)
        block = Block(0, 0, len(run.spec.repetitions), plan)
        arrays, _ = measured(engine, data, run.measurement, block, run.spec.seed, run.spec.repetitions, progress)
        results[data.name] = Result.made(header, run.spec.repetitions, plain, run.measurement.layout(header), arrays)
    return results


def collect(
    run: Run,
    output: Path,
    engine: Engine,
    *,
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
    with locked(target if part is None else journal_of(target, part)):
        if part is None:
            remove_leftovers(target)
        return _Collection(run, output, target, engine, reporter or Silent(), save_every).run(overwrite, part)


class _Collection:
    def __init__(
        self, run: Run, path: Path, target: Path, engine: Engine, reporter: Reporter, save_every: float
    ) -> None:
        self.what, self.path, self.target = run, path, target
        self.engine, self.reporter, self.save_every = engine, reporter, save_every
        self.want, self.headers = run.want, run.headers
        self.layouts = run.layouts(self.headers)
        self.sizes = [plan.positions(d.n) for d, plan in zip(run.datasets, run.plans, strict=True)]
        self.units = [engine.drawn_at_once(plan) for plan in run.plans]
        self.speed, self.computed = FIRST_SPEED, 0

    def run(self, overwrite: bool, part: tuple[int, int] | None) -> Results:
        journal = journal_of(self.target, part)
        contents = self._contents(journal, overwrite)
        names = [data.name for data in self.what.datasets]
        bounds = [(0, contents.total)] * len(names) if part is None else shares(self.sizes, contents.total, *part)
        todo = [contents.missing(name, *own) for name, own in zip(names, bounds, strict=True)]
        if any(todo):
            self._make(contents, journal, todo, part, overwrite)
        if part is not None:
            results = Results(spec=self.want, complete=False, computed=self.computed)
        else:
            self._pack(contents, journal)
            results = open_results(self.path)
            results.computed = self.computed
        self.reporter.end()
        return results

    def _contents(self, journal: Path, overwrite: bool) -> Contents:
        """What is there of this run; what is there of another one is refused."""
        if overwrite:
            return Contents(self.want, self.headers, self.layouts, None, [])
        file, journals = stored_file(self.path), read_journals([journal])
        for line in journals.notes:
            self.reporter.say(line)
        if file is not None:
            self._check(file.have, file.headers, f"output={self.path}", file.spec)
        if journals.head is not None:
            self._check(
                {**journals.head.spec, "datasets": journals.head.spec["datasets"]}, journals.head.headers, str(journal)
            )
        return Contents(self.want, self.headers, self.layouts, file, journals.blocks)

    def _check(self, have: Mapping[str, Any], headers: Mapping[str, Header], where: str, spec: Any = None) -> None:
        lines = conflicts(have, self.want, headers, self.headers)
        other = "give another --output, or --overwrite to replace it"
        if lines and have["measurement"] != self.want["measurement"]:
            raise InputError(f"{where} {lines[0].removeprefix('it ')}; {other}")
        if lines:
            raise InputError(f"{where} holds another {self.what.measurement.command}; {other}\n  " + "\n  ".join(lines))
        if spec is not None and (lines := lacking(have, self.want)):
            command = command_of(union(have, self.want), self.what.measurement.command, self.path)
            hint = f"this extends it:\n  {command}" if command else "ask for that as well"
            raise InputError(f"{where} holds more than this command asks for; {hint}\n  " + "\n  ".join(lines))

    def _pack(self, contents: Contents, journal: Path) -> None:
        """Puts the journal into the file, if there is anything that the file does not say yet."""
        file = contents.file
        if file is None or file.spec != _plain(self.want) or file.done != contents.ends:
            pack(contents, self.target)
        with contextlib.suppress(FileNotFoundError):
            journal.unlink()

    # ------------------------------------------------------------------------------------------------------ the loop

    def _make(
        self,
        contents: Contents,
        path: Path,
        todo: Sequence[Sequence[Gap]],
        part: tuple[int, int] | None,
        overwrite: bool,
    ) -> None:
        """Makes all blocks that are to be done; each is on disk before the next one is waited for."""
        left = sum(size * (g.stop - g.first) for size, gaps in zip(self.sizes, todo, strict=True) for g in gaps)
        every = left if part is not None else max(left, len(self.what.spec.repetitions) * sum(self.sizes))
        if overwrite:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        with Journal(path) as journal:
            self.reporter.begin(every, every - left)
            keys = [key_of(self.want, dataset) for dataset in self.want["datasets"]]
            try:
                journal.add(
                    {"kind": "head"}, {"image": np.frombuffer(head(self.want, self.headers, self.layouts), np.uint8)}
                )
                for block, arrays, about in self._blocks(todo):
                    journal.add(self._key(block, keys[block.number], about), arrays)
                    self.computed += block.stop - block.first
            except BaseException:
                if part is None and journal.size <= PACKED_EARLY:
                    self._keep(path)
                raise
        self._reread(contents, path)

    def _key(self, block: Block, key: str, about: Mapping[str, Any]) -> dict[str, Any]:
        plan = block.plan
        digests = [[plan.digest(p, e) for e in range(len(plan.epsilons))] for p in range(len(plan.protocols))]
        return {
            **{"kind": "block", "dataset": self.what.datasets[block.number].name, "key": key},
            **{"first": block.first, "stop": block.stop, "protocols": plan.protocols, "epsilons": plan.epsilons},
            **{"digests": digests, **about},
        }

    def _reread(self, contents: Contents, path: Path) -> None:
        known = Contents(self.want, self.headers, self.layouts, contents.file, read_journals([path]).blocks)
        contents.__dict__.update(known.__dict__)

    def _keep(self, path: Path) -> None:
        """After an interruption: a small journal is packed if all of it makes a full rectangle; else it stays."""
        with contextlib.suppress(StoreError, MemoryError, InputError):
            contents = Contents(self.want, self.headers, self.layouts, None, [])
            contents.file = stored_file(self.path)
            self._reread(contents, path)
            if contents.ends and contents.whole:
                self._pack(contents, path)
            elif not read_journals([path]).blocks:
                path.unlink()

    def _blocks(self, todo: Sequence[Sequence[Gap]]) -> Iterator[tuple[Block, Mapping[str, Any], dict[str, Any]]]:
        measurement, seed = self.what.measurement, self.what.spec.seed
        cut = self._cut(todo)
        if self.engine.stream is not None:
            jobs = ((self.what.datasets[b.number], measured, (measurement, b, seed, self._repetitions(b))) for b in cut)
            for (_, block, *_), (arrays, about) in self.engine.stream(jobs):
                self._timed(block, about["seconds"])
                self.reporter.advance(self.sizes[block.number] * (block.stop - block.first))
                yield block, arrays, about
            return
        # What follows from the counts is worked out while the next block is counted: a device need not wait for it.
        with ThreadPoolExecutor(1, "gpu-rsfd-writer") as writer:
            before: Any = None
            for block in cut:
                started = time.perf_counter()
                data, repetitions = self.what.datasets[block.number], self._repetitions(block)
                view = View(measurement.name, block.plan, data, seed, repetitions, self.engine, self.reporter.advance)
                try:
                    if measurement.counts_first:
                        view.tallies()
                finally:  # the block before is done, whatever becomes of this one
                    if before is not None:
                        yield before[0], *before[1].result()
                before = block, writer.submit(_finished, measurement, view, started, self.engine)
                if not measurement.counts_first:
                    before[1].result()
                self._timed(block, time.perf_counter() - started)
            if before is not None:
                yield before[0], *before[1].result()

    def _repetitions(self, block: Block) -> range:
        return self.what.spec.repetitions[block.first : block.stop]

    def _timed(self, block: Block, seconds: float) -> None:
        self.speed = self.sizes[block.number] * (block.stop - block.first) / max(seconds, 1e-9)

    def _cut(self, todo: Sequence[Sequence[Gap]]) -> Iterator[Block]:
        """Blocks of full rectangles: seconds of work, arrays that fit into memory."""
        for index, gaps in enumerate(todo):
            if gaps:
                self.reporter.dataset(self.what.datasets[index].name)
            for gap in gaps:
                first = gap.first
                while first < gap.stop:
                    count = self._size(index, first, gap.stop - first)
                    for plan in self._rectangles(index, gap, count):
                        yield Block(index, first, first + count, plan)
                    first += count

    def _rectangles(self, index: int, gap: Gap, count: int) -> Iterator[Plan]:
        """The cells of a gap as plans: protocols with the same epsilons together, as many as fit into memory."""
        plan, kinds = self.what.plans[index], dict[bytes, list[int]]()
        for p, row in enumerate(gap.cells):
            if row.any():
                kinds.setdefault(row.tobytes(), []).append(p)
        for protocols in kinds.values():
            epsilons = np.flatnonzero(gap.cells[protocols[0]]).tolist()
            most = max(1, VIEW_BYTES // (8 * count * len(epsilons) * self._numbers(index)))
            for i in range(0, len(protocols), most):
                some = protocols[i : i + most]
                wanted = np.zeros_like(gap.cells)
                wanted[np.ix_(some, epsilons)] = True
                yield plan.only(wanted).take(some, epsilons)

    def _numbers(self, index: int) -> int:
        """Numbers of a cell and repetition, or counts behind them."""
        name = self.what.datasets[index].name
        header, layout = self.headers[name], self.layouts[name]
        return max(header.plan.values, sum(math.prod(layout.sizes(header, array)) for array in layout.arrays))

    def _size(self, index: int, first: int, left: int) -> int:
        """Repetitions of the next block: seconds of work, whole batches, few in memory, and no small rest."""
        size, unit = self.sizes[index], self.units[index]
        multiple = self.engine.batch_multiple(self.what.datasets[index].n)
        seconds = max(self.save_every, SHORTEST_BLOCK) if self.computed else self.save_every
        wanted = max(1, int(seconds * self.speed / size))
        count = -(-wanted // multiple) * multiple if wanted >= multiple else wanted
        cells = len(self.what.spec.protocols) * len(self.what.spec.epsilons)
        room = max(1, VIEW_BYTES // (8 * cells * self._numbers(index)))
        if unit > 1:  # memory is saved by protocols, not by repetitions
            room = max(room, unit)
            count = max(count, (first // unit + 1) * unit - first)
        if left < 1.5 * count:
            count = left
        count = min(count, room)
        if self.engine.stream is not None:  # something for everybody
            count = min(count, max(1, -(-left // (2 * getattr(self.engine, "threads", 1)))))
        if unit > 1 and count < left and (first + count) // unit * unit > first:
            count = (first + count) // unit * unit - first  # up to where what is drawn at once ends
        return min(count, left)


def _plain(document: Any) -> Any:
    """As JSON gives it back."""
    import json

    return json.loads(json.dumps(document))


# --------------------------------------------------------------------------------------------------------------- parts


def check_part(number: object, parts: object) -> tuple[int, int]:
    """Which of how many parts."""
    if not isinstance(number, int) or not isinstance(parts, int) or not 1 <= number <= parts <= MOST_PARTS:
        raise InputError(f"part={number}/{parts} must be a part and the number of parts, 1 to {MOST_PARTS:,}")
    return number, parts


def shares(sizes: Sequence[int], total: int, number: int, parts: int) -> list[tuple[int, int]]:
    """First and stop of the repetitions of each data set that are part `number` of `parts`: equal amounts of work.

    `sizes` is the work of a repetition of each.  A repetition belongs to the part in which its middle falls.
    """
    work = sum(sizes) * total
    found, before = [], 0
    for size in sizes:
        # the smallest r with before + size * (r + 1/2) >= work * limit / parts
        bounds = [
            min(total, max(0, -((before * 2 * parts + size * parts - 2 * work * limit) // (2 * size * parts))))
            for limit in (number - 1, number)
        ]
        found.append((bounds[0], bounds[1]))
        before += size * total
    return found


def merge(output: Path, others: Sequence[Path] = ()) -> Results:
    """Join the journals that parts of a run left beside `output`, here or elsewhere, and give what the file then holds.

    A part is removed if it is not running and all of it is in the file; merging again changes nothing.
    """
    target = check_output(output)
    with locked(target):
        remove_leftovers(target)
        parts = {path: cut for place in (target, *others) for path, cut in parts_beside(place).items()}
        file, journals = stored_file(output), read_journals([journal_of(target), *parts])
        if journals.head is None:
            if file is not None:
                return open_results(output)
            raise InputError(
                f"{output} has no parts beside it; `gpu-rsfd sweep --part 1/16 --output {output}` makes one"
            )
        new = journals.head
        if file is not None and (
            lines := [*conflicts(file.have, new.spec, file.headers, new.headers), *lacking(file.have, new.spec)]
        ):
            raise InputError(f"{output} holds another run than the parts beside it\n  " + "\n  ".join(lines))
        contents = Contents(new.spec, new.headers, new.layouts, file, journals.blocks)
        held = {} if file is None else file.done
        if contents.ends and all(contents.ends.get(name, 0) >= done for name, done in held.items()):
            pack(contents, target)
        gaps = {name: found for name in contents.keys if (found := contents.missing(name, 0, contents.total))}
        if gaps:
            raise RunError(
                "\n  ".join([f"{output} is not complete; {_missing(contents, gaps, parts)}", *journals.notes])
            )
        for path in (journal_of(target), *parts):
            if not is_locked(path):
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
    return open_results(output)


def _missing(contents: Contents, gaps: Mapping[str, Sequence[Gap]], parts: Mapping[Path, tuple[int, int]]) -> str:
    """For people: the repetitions, and the parts that would bring them."""
    lists = [
        f"{name}: {', '.join(f'{g.first} … {g.stop - 1}' if g.stop - g.first > 1 else str(g.first) for g in found)}"
        for name, found in gaps.items()
    ]
    line = f"missing repetitions (of 0 … {contents.total - 1}): {'; '.join(lists)}"
    cuts = {of for _, of in parts.values()}
    if len(cuts) == 1:
        of, sizes = cuts.pop(), [header.plan.positions(header.n) for header in contents.headers.values()]
        numbers = [
            str(number)
            for number in range(1, of + 1)
            if any(
                first < gap.stop and gap.first < stop
                for name, (first, stop) in zip(contents.keys, shares(sizes, contents.total, number, of), strict=True)
                for gap in gaps.get(name, ())
            )
        ]
        line += f"; to be run again: part {', '.join(numbers)} of {of}"
    return line
