"""`collect`: data sets x repetitions of a measurement, in blocks that go to the journal.  The only loop."""

from __future__ import annotations

import contextlib
import json
import math
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.backends.engine import Engine
from gpu_rsfd.command import command_of
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError, RunError, heed_signals
from gpu_rsfd.files import StoreError, remove_leftovers
from gpu_rsfd.measure import Measurement
from gpu_rsfd.measure.view import View, finished, measured
from gpu_rsfd.planning import Plan
from gpu_rsfd.results.result import Header, Result, Results
from gpu_rsfd.spec import SAVE_EVERY, Spec
from gpu_rsfd.store import contents as store
from gpu_rsfd.store.contents import Contents, Gap, Source, journal_of, open_file, open_journal, open_results
from gpu_rsfd.store.files import locked
from gpu_rsfd.store.hdf5 import Described, document_of
from gpu_rsfd.store.identity import clashing, conflicts, key_of, lacking, union
from gpu_rsfd.store.journal import Journal
from gpu_rsfd.tape import STREAM_VERSION

VIEW_BYTES = 64 << 20  # of the arrays of one call
PACKED_EARLY = 64 << 20  # bytes of a journal that are still packed when a run is interrupted
FIRST_SPEED = 5e6  # positions in the first block and second of what counts first; else it has one repetition
SHORTEST_BLOCK = 0.2  # seconds of work, once the speed is known: a sync takes a part of that
MOST_PARTS = 100_000
LARGE = 1 << 30  # positions of a repetition: some 10 s of one worker


class Silent(contextlib.AbstractContextManager[Any]):
    """Receives progress and messages, and says nothing: the base of those that do."""

    def begin(self, positions: int, done: int) -> None: ...
    def dataset(self, name: str) -> None: ...
    def advance(self, positions: int) -> None: ...
    def say(self, line: str) -> None: ...
    def end(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


class Run(NamedTuple):
    """What is run: a measurement of data sets, compiled."""

    measurement: Measurement
    spec: Spec
    datasets: Sequence[Dataset]
    plans: Sequence[Plan]

    @classmethod
    def of(cls, measurement: Measurement, spec: Spec, datasets: Sequence[Dataset]) -> Run:
        return cls(*measurement.prepared(spec, datasets))

    @property
    def want(self) -> Described:
        """All that is run, as plain data (equal descriptions mean equal results), with its headers and layouts."""
        plain = {
            **self.measurement.described(),
            "datasets": [dataset.describe() for dataset in self.datasets],
            **self.spec.described(),
            "stream_version": STREAM_VERSION,
            # the tape is the same for ever; a sampler's draws are NumPy's, and those of one version
            **({} if self.spec.sampler == "users" else {"numpy_version": np.__version__}),
        }
        try:
            spec = json.loads(json.dumps(plain))
        except TypeError as error:
            raise InputError(f"the fields of {self.measurement.name} must be numbers or text: {error}") from None
        headers = {data.name: Header.of(data, plan) for data, plan in zip(self.datasets, self.plans, strict=True)}
        return Described(spec, headers, {name: self.measurement.layout(header) for name, header in headers.items()})


class Block(NamedTuple):
    """Repetitions number `first` … `stop` - 1 of some protocols and epsilons of a data set, made at once."""

    number: int  # of the data set
    first: int
    stop: int
    plan: Plan


def in_memory(run: Run, engine: Engine, progress: Any = None) -> Results:
    """A run without a file."""
    want = run.want
    results = Results(spec=want.spec, backend=engine.name, device=engine.device)
    for data, plan in zip(run.datasets, run.plans, strict=True):
        block = Block(0, 0, len(run.spec.repetitions), plan)
        arrays, _ = measured(engine, data, run.measurement, block, run.spec.seed, run.spec.repetitions, progress)
        header, layout = want.headers[data.name], want.layouts[data.name]
        results[data.name] = Result.made(header, run.spec.repetitions, want.spec, layout, arrays, data.name)
    return results


def collect(run: Run, output: Path, engine: Engine, **options: Any) -> Results:
    """Run a measurement of data sets into one HDF5 file, and give what it then holds.

    A file that holds a part of it is resumed or extended, in any direction; one that holds all of it is read; one of
    another run is refused unless `overwrite` is given.  `options`: the other fields of `_Collection`.
    """
    target, collection = store.check_output(output), _Collection(run, output, engine, **options)
    with locked(target if collection.part is None else collection.journal):
        remove_leftovers(target)
        return collection.run()


@dataclass
class _Collection:
    what: Run
    output: Path
    engine: Engine
    overwrite: bool = False
    save_every: float = SAVE_EVERY
    part: tuple[int, int] | None = None
    reporter: Silent | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.save_every, (int, float)) or not 0 <= self.save_every < math.inf:
            raise InputError(f"save_every={self.save_every} must be a number of seconds >= 0")
        if self.part is not None and check_part(*self.part) and self.overwrite:
            raise InputError("overwrite can't be used with a part: other parts may be under way")
        self.want, self.speed = self.what.want, FIRST_SPEED * self.what.measurement.counts_first
        self.sizes = [plan.positions(d.n) for d, plan in zip(self.what.datasets, self.what.plans, strict=True)]
        self.told, self.made, self.journal = self.reporter or Silent(), set[Any](), journal_of(self.output, self.part)

    def run(self) -> Results:
        with self._opened() as (contents, file, journal):
            if journal.note:
                self.told.say(journal.note)
            every = (0, contents.total)
            bounds = [every] * len(self.sizes) if self.part is None else shares(self.sizes, every[1], *self.part)
            todo = [contents.missing(data.name, *own) for data, own in zip(self.what.datasets, bounds, strict=True)]
            if not any(todo) and self.part is None:
                self._pack(contents, file)
        if any(todo):
            self._make(todo, journal.end)
        self.told.end()
        results = open_results(self.output) if self.part is None else Results(spec=self.want.spec, complete=False)
        results.computed = sum(stop - first for _, first, stop in self.made)
        return results

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[Contents, Source, Source]]:
        """What is there of this run, with file and journal; what is there of another one is refused."""
        with open_journal(self.journal) as journal, contextlib.ExitStack() as stack:
            file = Source(self.output)
            if not self.overwrite:
                file = stack.enter_context(open_file(self.output))
            elif not journal.replaces or self._conflicts(journal):
                journal = Source(self.journal)  # of the run that is replaced; what was made of this one is used
            for source in (file, journal):
                if source.what.spec:
                    self._check(source)
            yield Contents(self.want, [file, journal]), file, journal

    def _conflicts(self, source: Source) -> list[str]:
        lines = conflicts(source.have, self.want.spec, source.what.headers, self.want.headers)
        lacks = lacking(source.have, self.want.spec)
        return lines or (lacks and lacks + clashing(source.have, self.want.spec))

    def _check(self, source: Source) -> None:
        if lines := self._conflicts(source):
            where = f"output={self.output}" if source.path == self.output else str(source.path)
            part = "" if self.part is None else " --part {}/{}".format(*self.part)
            what = "the results of another run; give another --output" + ", or --overwrite to replace it" * (not part)
            if lines == lacking(source.have, self.want.spec):
                again = command_of(union(source.have, self.want.spec), output=self.output)
                hint = f"this extends it:\n  {again}{part}" if again else "ask for that as well"
                what = f"more than this command asks for; {hint}"
            raise InputError("\n  ".join([f"{where} holds {what}", *lines]))

    def _pack(self, contents: Contents, file: Source) -> None:
        """Puts the journal into the file, if there is anything that the file does not say yet."""
        if (file.what.spec, file.done) != (self.want.spec, contents.ends):
            store.pack(contents, store.resolved(self.output))
        self.journal.unlink(missing_ok=True)

    # ------------------------------------------------------------------------------------------------------ the loop

    def _make(self, todo: Sequence[Sequence[Gap]], end: int) -> None:
        """Makes all blocks that are to be done, each on disk before the next one is waited for, and packs them."""
        each = [(size, g) for size, gaps in zip(self.sizes, todo, strict=True) for g in gaps]
        passes = [len({row.tobytes() for row in g.cells if row.any()}) for _, g in each]  # a rectangle at a time
        left = sum(size * (g.stop - g.first) * many for (size, g), many in zip(each, passes, strict=True))
        every = left if self.part is not None else max(left, len(self.what.spec.repetitions) * sum(self.sizes))
        keys = [key_of(self.want.spec, dataset) for dataset in self.want.spec["datasets"]]
        with contextlib.closing(Journal(self.journal, end)) as journal:
            self.told.begin(every, every - left)
            try:
                journal.add({"kind": "head", "replaces": self.overwrite, **document_of(self.want)}, {})
                for block, arrays, about in self._blocks(todo):
                    journal.add(self._key(block, keys[block.number], about), arrays)
                    self.made.add(block[:3])
            except BaseException:
                if self.part is None and journal.size <= PACKED_EARLY:
                    with contextlib.suppress(StoreError, MemoryError, InputError):
                        self._keep()
                raise
            if self.part is None:
                with self._opened() as (contents, file, _):
                    self._pack(contents, file)

    def _key(self, block: Block, key: str, about: Mapping[str, Any]) -> dict[str, Any]:
        plan, name = block.plan, self.what.datasets[block.number].name
        digests = [[plan.digest(p, e) for e in range(len(plan.epsilons))] for p in range(len(plan.protocols))]
        cells = {"protocols": plan.protocols, "epsilons": plan.epsilons, "digests": digests}
        where = {"dataset": name, "key": key, "first": block.first, "stop": block.stop}
        return {"kind": "block", **where, **cells, **about}

    def _keep(self) -> None:
        """After an interruption: a small journal is packed if nothing would be lost; else it stays."""
        with self._opened() as (contents, file, journal):
            if not journal.pieces:
                self.journal.unlink()
            elif contents.ends and contents.whole and not (self.overwrite and self.output.exists()):
                self._pack(contents, file)

    def _blocks(self, todo: Sequence[Sequence[Gap]]) -> Iterator[tuple[Block, Mapping[str, Any], dict[str, Any]]]:
        measurement, spec = self.what.measurement, self.what.spec
        cut = ((b, self.what.datasets[b.number], spec.repetitions[b.first : b.stop]) for b in self._cut(todo))
        few = sum(g.stop - g.first for gaps in todo for g in gaps) < self.engine.batch_multiple(1)
        if self.engine.stream is not None and not (few and max(self.sizes) > LARGE):  # else workers share the users
            jobs = ((data, measured, (measurement, b, spec.seed, repetitions)) for b, data, repetitions in cut)
            for (_, block, *_), (arrays, about) in self.engine.stream(jobs):
                self._timed(block, about["seconds"])
                self._advance(self.sizes[block.number] * (block.stop - block.first))
                yield block, arrays, about
            return
        # What follows from the counts is worked out while the next block is counted: a device need not wait for it.
        with ThreadPoolExecutor(1, "gpu-rsfd-writer") as writer:
            before: list[Any] = []
            try:
                for block, data, repetitions in cut:
                    heed_signals()
                    started, name = time.perf_counter(), measurement.name
                    view = View(name, block.plan, data, spec.seed, repetitions, self.engine, self._advance)
                    if measurement.counts_first:
                        view.tallies()
                    yield from _taken(before)
                    before.append((block, writer.submit(finished, measurement, view, started, self.engine)))
                    if not measurement.counts_first:
                        before[0][1].result()
                    self._timed(block, time.perf_counter() - started)
            finally:  # the block before is done, whatever becomes of the next one
                yield from _taken(before)

    def _advance(self, positions: int) -> None:
        heed_signals()
        self.told.advance(positions)

    def _timed(self, block: Block, seconds: float) -> None:
        self.speed = self.sizes[block.number] * (block.stop - block.first) / max(seconds, 1e-9)

    def _cut(self, todo: Sequence[Sequence[Gap]]) -> Iterator[Block]:
        """Blocks of full rectangles: seconds of work, arrays that fit into memory."""
        for index, gaps in enumerate(todo):
            if gaps:
                self.told.dataset(self.what.datasets[index].name)
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
        for p in np.flatnonzero(gap.cells.any(axis=1)).tolist():
            kinds.setdefault(gap.cells[p].tobytes(), []).append(p)
        for protocols in kinds.values():
            epsilons = np.flatnonzero(gap.cells[protocols[0]]).tolist()
            most = self._room(index, count * len(epsilons))
            for some in (protocols[i : i + most] for i in range(0, len(protocols), most)):
                wanted = np.zeros_like(gap.cells)
                wanted[np.ix_(some, epsilons)] = True
                yield plan.only(wanted).take(some, epsilons)

    def _room(self, index: int, times: int) -> int:
        """How often so many cells and repetitions, or the counts behind them, fit into a view."""
        name = self.what.datasets[index].name
        header, layout = self.want.headers[name], self.want.layouts[name]
        numbers = max(header.plan.values, sum(math.prod(layout.sizes(header, array)) for array in layout.arrays))
        return max(1, VIEW_BYTES // (8 * times * numbers))

    def _size(self, index: int, first: int, left: int) -> int:
        """Repetitions of the next block: seconds of work, whole batches, few in memory, and no small rest."""
        unit = self.engine.drawn_at_once(self.what.plans[index])
        multiple = self.engine.batch_multiple(self.what.datasets[index].n)
        seconds = max(self.save_every, SHORTEST_BLOCK) if self.made else self.save_every
        count = max(1, int(seconds * self.speed / self.sizes[index]))
        count = -(-count // multiple) * multiple if count >= multiple else count
        # where repetitions are drawn at once, memory is saved by protocols, and a block ends where a draw ends
        room = max(unit, self._room(index, len(self.what.spec.protocols) * len(self.what.spec.epsilons)))
        count = min(left if left < 1.5 * count else count, room)
        if self.engine.stream is not None:  # something for everybody
            count = min(count, max(1, -(-left // (2 * multiple))))
        return min(left, (first + max(count, unit)) // unit * unit - first)


def _taken(before: list[Any]) -> Iterator[Any]:
    while before:
        block, made = before.pop()
        yield block, *made.result()


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
        middle, each = (2 * before + size) * parts, 2 * size * parts
        first, stop = (-((middle - 2 * work * limit) // each) for limit in (number - 1, number))
        found.append((min(total, max(0, first)), min(total, max(0, stop))))
        before += size * total
    return found


def merge(output: Path, others: Sequence[Path] = ()) -> Results:
    """Join the journals that parts of a run left beside `output`, here or elsewhere, and give what the file then holds.

    Parts are removed when all that was asked for is in the file, but for one that is running; merging again changes
    nothing.
    """
    target = store.check_output(output)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # every part is open at once
    with locked(target), contextlib.ExitStack() as stack:
        parts = {path: cut for place in (target, *others) for path, cut in store.parts_beside(place).items()}
        journals = [stack.enter_context(open_journal(path)) for path in (journal_of(target), *parts)]
        file = stack.enter_context(open_file(output))
        sources = [source for source in (file, *journals) if source.what.spec]
        if not sources:
            made = f"`gpu-rsfd sweep --part 1/16 --output {output}` makes one"
            raise InputError(f"{output} has no parts beside it; {made}")
        contents = Contents(_largest(sources), sources)
        if sources != [file] and contents.ends and all(contents.ends.get(n, 0) >= end for n, end in file.done.items()):
            store.pack(contents, target)
        if not contents.complete:
            notes = [journal.note for journal in journals if journal.note]
            raise RunError("\n  ".join([f"{output} is not complete; {_missing(contents, parts)}", *notes]))
        for journal in journals:
            _remove(journal, journal_of(target))
    return open_results(output)


def _remove(journal: Source, own: Path) -> None:
    """Removes a journal that is packed, unless somebody is writing to it, or has since it was read."""
    with (
        contextlib.suppress(OSError, InputError),
        contextlib.nullcontext() if journal.path == own else locked(journal.path, 0),
        open_journal(journal.path) as now,
    ):
        if now.end == journal.end:
            journal.path.unlink()


def _largest(sources: Sequence[Source]) -> Described:
    """What the source says that asks for most; an error if they are not of one run, or none asks for all."""
    chosen = sources[0]
    for source in sources:
        if not lacking(chosen.what.spec, source.what.spec):
            chosen = source
    for source in sources:
        lines = conflicts(source.have, chosen.what.spec, source.what.headers, chosen.what.headers)
        if lines := lines or lacking(source.have, chosen.what.spec):
            raise InputError("\n  ".join([f"{source.path} is of another run than {chosen.path}", *lines]))
    return chosen.what


def _missing(contents: Contents, parts: Mapping[Path, tuple[int, int]]) -> str:
    """For people: the repetitions, and the parts that would bring them."""
    total, lists = contents.total, []
    for name in contents.keys:
        gaps = contents.missing(name, 0, total)
        spans = [f"{g.first} … {g.stop - 1}" if g.stop - g.first > 1 else str(g.first) for g in gaps]
        lists += [f"{name}: {', '.join(spans)}"] if gaps else []
    line = f"missing repetitions (of 0 … {total - 1}): {'; '.join(lists)}"
    if len(cuts := {of for _, of in parts.values()}) == 1:
        of, sizes = cuts.pop(), [header.plan.positions(header.n) for header in contents.want.headers.values()]
        own = {str(i): zip(contents.keys, shares(sizes, total, i, of), strict=True) for i in range(1, of + 1)}
        again = [i for i, bounds in own.items() if any(contents.missing(name, *cut) for name, cut in bounds)]
        line += f"; to be run again: part {', '.join(again)} of {of}"
    return line
