"""`sweep`: data sets x repetitions in blocks, each block saved when it is done.  The only loop."""

from __future__ import annotations

import io
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Protocol, SupportsIndex

import numpy as np

from gpu_rsfd.backends.base import Backend, Progress
from gpu_rsfd.backends.cluster import ClusterBackend, Job, engine_here
from gpu_rsfd.backends.cpu.backend import POSITIONS_PER_TASK
from gpu_rsfd.backends.law.substreams import groups_of
from gpu_rsfd.backends.pool import Columns
from gpu_rsfd.datasets import as_dataset
from gpu_rsfd.datasets.base import Dataset, check_rows
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.plan import Counts, Plan
from gpu_rsfd.protocols import PAPER, TERMS
from gpu_rsfd.results import Result, Results
from gpu_rsfd.simulation import open_engine
from gpu_rsfd.spec import PAPER_EPSILONS, Spec
from gpu_rsfd.store.blocks import BlockFile, Blocks, adopt, folder_of, heads_of, parts_of, spec_of
from gpu_rsfd.store.files import FIGURES, locked, replace_file, replaced
from gpu_rsfd.store.growing import Store
from gpu_rsfd.store.hdf5 import chunk_rows
from gpu_rsfd.store.identity import KEEP, continues, differences
from gpu_rsfd.store.reading import check_results_file, open_results
from gpu_rsfd.tape import STREAM_VERSION

SAVE_EVERY = 2.0  # seconds of work that a killed run may lose, as far as blocks can be cut
UPDATE_EVERY = 5  # times that, and the file is brought up to date with the blocks
SAVE_SHARE = 20  # work takes at least this many times as long as bringing the file up to date
SHORTEST_BLOCK = 0.2  # seconds of work, once the speed is known: making a file for each takes a tenth of that
BLOCK_BYTES = 96 << 20  # counts in memory at a time
MOST_PARTS = 100_000
FIRST_SPEED = 1e8  # positions per second, a guess until the first block has been timed


class Reporter(Protocol):
    """Told what happens; shows it or not."""

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


def describe(datasets: Sequence[Dataset], spec: Spec, keep: str = "counts") -> dict[str, Any]:
    """The whole spec as plain data: equal descriptions mean equal results."""
    return {
        "datasets": [dataset.describe() for dataset in datasets],
        **spec.described(),
        "stream_version": STREAM_VERSION,
        # the tape is the same for ever; a sampler's draws are NumPy's, and those of one version
        **({} if spec.sampler == "users" else {"numpy_version": np.__version__}),
        **({} if keep == "counts" else {"keep": keep}),
    }


def check_output(path: Path, inputs: Iterable[Path] = ()) -> Path:
    """The file that is written, a link followed; refused if it holds anything but results of gpu-rsfd."""
    if path.is_dir():
        raise InputError(f"output={path} is a directory; a file name such as {path / 'results.h5'} is needed")
    if path.suffix.lower() in FIGURES:
        raise InputError(
            f"output={path} ends like a figure; a results file, such as {path.with_suffix('.h5')}, is needed"
        )
    if not path.parent.is_dir():
        raise InputError(f"output={path}: the folder {path.parent} does not exist")
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if not target.parent.is_dir():
        raise InputError(f"output={path} is a link into {target.parent}, a folder that does not exist")
    if path.exists():
        for given in inputs:
            if given.exists() and path.samefile(given):
                raise InputError(f"output={path} is {given}, which this command reads; give another --output")
        try:
            check_results_file(path)
        except InputError as error:
            raise InputError(f"output={path} can't be replaced: {error}; give another --output") from None
    return target


def check_datasets(datasets: object, sampler: str) -> list[Dataset]:
    """One data set or several, each as such, by its name or as a table's path; with different names."""
    single = isinstance(datasets, (str, os.PathLike, Dataset, np.ndarray)) or not isinstance(datasets, Iterable)
    found = [as_dataset(datasets)] if single else [as_dataset(data) for data in datasets]  # type: ignore[attr-defined]
    if not found:
        raise InputError("no data set given; at least one is needed")
    names = [data.name for data in found]
    for data in found:
        check_rows(data, sampler)
        if names.count(data.name) > 1:
            raise InputError(f"data set {data.name!r} is given twice")
        if "/" in data.name or not data.name:
            raise InputError(f"data set {data.name!r} can't be a group of the results file; its name must have no /")
    return found


def sweep(
    datasets: Dataset | str | os.PathLike[str] | Sequence[Dataset | str | os.PathLike[str]],
    epsilons: float | Sequence[float] = PAPER_EPSILONS,
    protocols: str | Sequence[str] = PAPER,
    repetitions: SupportsIndex | range = 100,
    seed: int = 0,
    assignment: str = "uniform",
    sampler: str = "users",
    first_report: float = TERMS.first_report,
    guarantee: str = TERMS.guarantee,
    prior: object = None,
    prior_seed: int = 0,
    *,
    output: str | os.PathLike[str],
    overwrite: bool = False,
    backend: str | Backend = "auto",
    workers: int | None = None,
    devices: Sequence[int] | None = None,
    save_every: float = SAVE_EVERY,
    keep: str = "counts",
    part: tuple[int, int] | None = None,
    cluster: str | None = None,
    reporter: Reporter | None = None,
) -> Results:
    """Simulate data sets x protocols x epsilons x repetitions into one HDF5 file, and give what it then holds.

    A file that has a part of this very sweep is continued, also by more repetitions than it was to have; one that has
    all of it is read; one with another sweep is refused unless `overwrite` is given.  `datasets`: one or several, as
    `simulate` takes them.  `backend`: a name, or an open backend, which stays open.  `save_every`: seconds of work
    between saves.  `keep`: `mse` keeps the errors alone, no counts.  `part`: (3, 16) simulates the third of sixteen
    parts into blocks beside the file, which `merge` joins.  `cluster`: of Dask, as in `simulate`.  `reporter` is told
    what happens.  All else is as in `simulate`.
    """
    spec = Spec.of(
        protocols, epsilons, repetitions, seed, assignment, sampler, first_report, guarantee, prior, prior_seed
    )
    if not isinstance(save_every, (int, float)) or not 0 <= save_every < math.inf:
        raise InputError(f"save_every={save_every} must be a number of seconds >= 0")
    if keep not in KEEP:
        raise InputError(f"keep={keep!r} is unknown; available: {', '.join(KEEP)}")
    if part is not None:
        check_part(*part)
        if overwrite:
            raise InputError("overwrite can't be used with a part: other parts may be under way")
    found = check_datasets(datasets, spec.sampler)
    path = Path(output)
    target = check_output(path)
    opened = None
    if cluster is not None and not isinstance(backend, str):
        raise InputError(f"cluster={cluster} and an open backend exclude each other")
    if isinstance(backend, str):
        opened = open_engine(cluster, backend, workers, devices, spec.sampler)[0]
    engine: Any = backend if opened is None else opened
    with opened or nullcontext():
        return _Sweep(found, spec, path, target, engine, reporter or Silent(), save_every, keep).run(overwrite, part)


def check_part(number: object, parts: object) -> tuple[int, int]:
    """Which of how many parts."""
    if not isinstance(number, int) or not isinstance(parts, int) or not 1 <= number <= parts <= MOST_PARTS:
        raise InputError(f"part={number}/{parts} must be a part and their number, from 1/1 to {MOST_PARTS:,} parts")
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


def merge(output: str | os.PathLike[str], others: Sequence[str | os.PathLike[str]] = ()) -> Results:
    """Joins the blocks that parts of a sweep left beside `output` into this file, and gives what it then holds.

    `others`: outputs in other folders, whose blocks are of the same sweep and are copied first.  What is missing is a
    `RunError` that names it; what is there is in the file nevertheless, as far as nothing before it is missing.
    """
    path = Path(output)
    target = check_output(path)
    with locked(target):
        for other in others:
            adopt(target, folder_of(Path(other)))
        spec = spec_of(folder_of(target))
        existing = open_results(path) if path.exists() else None
        if spec is None:
            if existing is None or not existing.complete:
                raise InputError(
                    f"{path} has no blocks beside it; `gpu-rsfd sweep --part 1/16 --output {path}` makes some"
                )
            return existing
        if existing is not None and continues(existing.spec, spec):
            spec = existing.spec
        if existing is not None and not continues(spec, existing.spec):
            lines = "\n  ".join(differences(existing.spec, spec))
            raise InputError(f"{path} holds another sweep than the blocks beside it\n  {lines}")
        heads = heads_of(folder_of(target), spec)
        store = Store(target, spec, heads, [rows_of(head) for head in heads], existing)
        missing = [store.missing(i, 0, len(head.repetitions)) for i, head in enumerate(heads)]
        if store.outdated or existing is None:
            store.bring_up_to_date()
        if any(missing):
            raise RunError(f"{path} is not complete; {_what_is_missing(store, missing)}")
        store.blocks.end()
    return open_results(path)


def _what_is_missing(store: Store, missing: Sequence[Sequence[tuple[int, int]]]) -> str:
    names = [dataset["name"] for dataset in store.want["datasets"]]
    total = len(store.heads[0].repetitions)
    lists = [
        f"{name}: {', '.join(f'{a} … {b - 1}' if b - a > 1 else str(a) for a, b in gaps)}"
        for name, gaps in zip(names, missing, strict=True)
        if gaps
    ]
    line = f"missing repetitions (of 0 … {total - 1}): {'; '.join(lists)}"
    if parts := parts_of(store.blocks.folder):
        sizes = [head.plan.positions(head.n) for head in store.heads]
        numbers = [
            str(number)
            for number in range(1, parts + 1)
            if any(store.missing(i, *share) for i, share in enumerate(shares(sizes, total, number, parts)))
        ]
        line += f"; to be run again: part {', '.join(numbers)} of {parts}"
    return line


class _Block(NamedTuple):
    """Repetitions number `first` … `stop` - 1 of a data set, made at once."""

    number: int  # of the data set
    first: int
    stop: int


class _Sweep:
    def __init__(
        self,
        datasets: Sequence[Dataset],
        spec: Spec,
        path: Path,
        target: Path,
        backend: Backend,
        reporter: Reporter,
        save_every: float,
        keep: str,
    ) -> None:
        self.datasets, self.spec, self.path, self.target = datasets, spec, path, target
        self.backend, self.reporter, self.save_every = backend, reporter, save_every
        self.want = describe(datasets, spec, keep)
        self.plans = [
            Plan.of(d.domain, spec.protocols, spec.epsilons, spec.assignment, spec.terms_for(d)) for d in datasets
        ]
        self.sizes = [plan.positions(d.n) for d, plan in zip(datasets, self.plans, strict=True)]
        self.units = [drawn_at_once(spec.sampler, plan) for plan in self.plans]
        self.speed, self.computed = FIRST_SPEED, 0
        self.split = [False] * len(datasets)  # of those whose users many workers share

    def run(self, overwrite: bool, part: tuple[int, int] | None) -> Results:
        if part is None:
            with locked(self.target):
                return self._whole(overwrite)
        folder = folder_of(self.target)
        spec_of(folder)  # refuses what is not ours
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"output={self.path} can't be written: {error.strerror}: {folder}") from None
        with locked(self.target, folder / f"part-{part[0]}-of-{part[1]}.lock"):
            return self._part(*part)

    def _store(self, overwrite: bool) -> tuple[Store, Results | None]:
        existing = None
        if self.path.exists() and not overwrite:
            existing = open_results(self.path)
            if not continues(self.want, existing.spec):
                lines = "\n  ".join(differences(existing.spec, self.want))
                raise InputError(
                    f"output={self.path} holds another sweep; give another --output, or --overwrite to replace it\n"
                    f"  {lines}"
                )
            for dataset, plan in zip(self.datasets, self.plans, strict=True):
                if dataset.name in existing and existing[dataset.name].terms != plan.terms:
                    raise InputError(
                        f"output={self.path} has another realised prior for {dataset.name} (drawn by another NumPy?); "
                        "give another --output, or --overwrite to replace it"
                    )
        Blocks(self.target, self.want).check(overwrite)
        heads = [_head(d, plan, self.spec) for d, plan in zip(self.datasets, self.plans, strict=True)]
        return Store(self.target, self.want, heads, [rows_of(head) for head in heads], existing), existing

    def _whole(self, overwrite: bool) -> Results:
        store, existing = self._store(overwrite)
        total = len(self.spec.repetitions)
        todo = [store.missing(index, 0, total) for index in range(len(self.datasets))]
        if existing is not None and existing.complete and not store.outdated:
            store.blocks.end()
            existing.spec = self.want
            return existing
        saved, saving, fresh, written = time.perf_counter(), 0.0, 0, 0
        try:
            for block in self._blocks(store, todo):
                now = time.perf_counter()
                fresh += block.stop - block.first
                due = now - saved >= SAVE_SHARE * saving or fresh >= written  # copying twice as much is never much
                if due and now - saved >= UPDATE_EVERY * self.save_every:
                    store.bring_up_to_date()
                    written, fresh, saved = written + fresh, 0, time.perf_counter()
                    saving = saved - now
            if store.outdated:
                store.bring_up_to_date()
        except BaseException:
            store.keep_what_is_done()
            raise
        store.blocks.end()
        self.reporter.end()
        return self._results()

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

    def _results(self) -> Results:
        results = open_results(self.path)
        results.spec, results.computed = self.want, self.computed
        return results

    def _blocks(self, store: Store, todo: Sequence[Sequence[tuple[int, int]]], parts: int = 0) -> Iterator[_Block]:
        """Makes all blocks that are to be done; each is on disk when it is given."""
        left = sum(size * (b - a) for size, gaps in zip(self.sizes, todo, strict=True) for a, b in gaps)
        if not left:
            return
        store.backend, store.device = self.backend.name, self.backend.device
        store.blocks.begin(store.heads, parts)
        every = left if parts else len(self.spec.repetitions) * sum(self.sizes)
        self.reporter.begin(every, every - left)
        if isinstance(self.backend, ClusterBackend):
            yield from self._on_cluster(self.backend, store, todo)
            return
        # Errors are worked out and written while the next block is counted: a device need not wait for them.
        with ThreadPoolExecutor(1, "gpu-rsfd-writer") as writer:
            writing: tuple[_Block, Future[None]] | None = None
            for block in self._cut(store, todo):
                n, started = block.number, time.perf_counter()
                repetitions, path = self.spec.repetitions[block.first : block.stop], store.blocks.path(*block)
                form = Form(store.heads[n], store.rows[n], store.counts, store.blocks.key, self.units[n])
                counted = _counted(form, self.datasets[n], repetitions, self.backend, self.reporter.advance)
                at_once = len(_groups(form, len(repetitions))) == 1  # else piece by piece, to save memory
                made = iter(list(counted)) if at_once else counted
                if writing is not None:
                    yield self._written(*writing)
                what = (path, form, len(repetitions), made, self.backend)
                if at_once:
                    writing = block, writer.submit(_write_block, *what)
                else:
                    _write_block(*what)
                    writing = None
                    self.computed += block.stop - block.first
                    yield block
                self.speed = self.sizes[n] * (block.stop - block.first) / (time.perf_counter() - started)
            if writing is not None:
                yield self._written(*writing)

    def _written(self, block: _Block, done: Future[None]) -> _Block:
        """A block, once it is on disk."""
        done.result()
        self.computed += block.stop - block.first
        return block

    def _on_cluster(
        self, backend: ClusterBackend, store: Store, todo: Sequence[Sequence[tuple[int, int]]]
    ) -> Iterator[_Block]:
        """Workers make whole blocks, in any order; but where a repetition is too much for one, all make each block."""
        split = self.split = [
            backend.splits_users(d, plan, sum(b - a for a, b in gaps))
            for d, plan, gaps in zip(self.datasets, self.plans, todo, strict=True)
        ]
        mine, theirs = ([gaps if flag is own else [] for gaps, flag in zip(todo, split, strict=True)]
                        for own in (True, False))  # fmt: skip
        forms = [
            Form(head, rows, store.counts, store.blocks.key, unit)
            for head, rows, unit in zip(store.heads, store.rows, self.units, strict=True)
        ]

        def jobs() -> Iterator[Job]:
            for block in self._cut(store, theirs):
                repetitions = self.spec.repetitions[block.first : block.stop]
                arguments = (block, forms[block.number], repetitions, backend.backend, self.spec.sampler)
                yield self.datasets[block.number], _block_there, arguments

        for (_, _, (block, *_)), (image, seconds) in backend.pool.stream(jobs()):
            replace_file(store.blocks.path(*block), image)
            count = block.stop - block.first
            self.computed += count
            self.speed = self.sizes[block.number] * count / max(seconds, 1e-9)
            self.reporter.advance(self.sizes[block.number] * count)
            yield block
        for block in self._cut(store, mine):
            with replaced(store.blocks.path(*block)) as image:
                repetitions = self.spec.repetitions[block.first : block.stop]
                _block(
                    image, forms[block.number], self.datasets[block.number], repetitions, backend, self.reporter.advance
                )
            self.computed += block.stop - block.first
            yield block

    def _cut(self, store: Store, todo: Sequence[Sequence[tuple[int, int]]]) -> Iterator[_Block]:
        for index, gaps in enumerate(todo):
            if gaps:
                self.reporter.dataset(self.datasets[index].name)
            for first, stop in gaps:
                while first < stop:
                    count = self._size(index, first, stop - first, store.rows[index])
                    yield _Block(index, first, first + count)
                    first += count

    def _size(self, index: int, first: int, left: int, rows: int) -> int:
        """Repetitions of the next block: seconds of work, whole batches, few in memory, and no small rest."""
        size, unit, grain = self.sizes[index], self.units[index], self.backend.grain(self.datasets[index].n)
        seconds = max(self.save_every, SHORTEST_BLOCK) if self.computed else self.save_every
        wanted = max(1, int(seconds * self.speed / size))
        count = -(-wanted // grain) * grain if wanted >= grain else wanted
        room = max(
            1, BLOCK_BYTES // (8 * len(self.spec.protocols) * len(self.spec.epsilons) * self.plans[index].values)
        )
        if unit > 1:  # memory is saved by protocols, not by repetitions
            room = max(room, unit)
        if left < 1.5 * count:
            count = left
        count = min(count, room)
        if isinstance(self.backend, ClusterBackend):  # something for everybody
            threads = self.backend.pool.threads
            several = -(-8 * threads * POSITIONS_PER_TASK // size)  # tasks for each: few wait for the last one
            count = min(several, left, room) if self.split[index] else min(count, -(-left // (2 * threads)))
        for whole in (rows, unit):  # up to where chunks end, and where what is drawn at once ends
            if count >= whole and count < left and (first + count) // whole * whole > first:
                count = (first + count) // whole * whole - first
        if unit > 1 and count < unit:
            count = (first // unit + 1) * unit - first
        return min(count, left)


def drawn_at_once(sampler: str, plan: Plan) -> int:
    """Repetitions that take as long as one of them: marginals draws them together."""
    return min(group.block_rows for group in groups_of(plan)) if sampler == "marginals" else 1


def rows_of(head: Result) -> int:
    """Repetitions in a chunk of a data set's counts."""
    unit = drawn_at_once(head.spec.sampler, head.plan)
    return chunk_rows(head.plan.values, len(head.epsilons), len(head.repetitions), unit)


class Form(NamedTuple):
    """How the blocks of a data set are made."""

    head: Result
    rows: int  # repetitions in a chunk
    counts: bool  # whether they are kept
    key: str
    unit: int  # repetitions that are drawn at once


def _head(data: Dataset, plan: Plan, spec: Spec) -> Result:
    """A result without repetitions."""
    empty = [np.empty((len(a.recipes), 0, a.k), np.int64) for a in plan.attributes]
    head = Result.of(data, plan, spec, empty, np.empty((0, plan.d), np.int64))
    head.__dict__["plan"] = plan
    return head


Counted = Iterator[tuple[int, Plan, list[Counts], Counts, float]]  # first protocol, its plan, counts, n_j, seconds


def _groups(form: Form, repetitions: int) -> list[slice]:
    """Protocols that are counted together: all of them, or so many that their counts are not too much at a time."""
    protocols = len(form.head.protocols)
    each = 8 * repetitions * len(form.head.epsilons) * form.head.plan.values
    step = max(1, BLOCK_BYTES // each) if form.unit > 1 else protocols
    return [slice(p, p + step) for p in range(0, protocols, step)]


def _counted(
    form: Form, dataset: Dataset, repetitions: range, backend: Backend, progress: Progress | None = None
) -> Counted:
    """Simulates repetitions, group by group."""
    plan, groups = form.head.plan, _groups(form, len(repetitions))
    for chosen in groups:
        part = plan
        if len(groups) > 1:
            part = Plan.of(plan.domain, plan.protocols[chosen], plan.epsilons, plan.assignment, plan.terms)
        started = time.perf_counter()
        told = progress if progress is None or len(groups) == 1 else _divided(progress, len(groups))
        counts, sampled = backend.count(part, dataset, form.head.spec.seed, repetitions, told)
        yield chosen.start, part, counts, sampled, time.perf_counter() - started


def _put(image: Any, form: Form, repetitions: int, counted: Counted, backend: Backend) -> None:
    seconds = 0.0
    with BlockFile(image, form.head, repetitions, form.rows, form.counts, form.key) as file:
        for first, part, counts, sampled, took in counted:
            file.put(first, part, counts, sampled)
            seconds += took
        file.end(seconds, backend.name, backend.device)


def _write_block(path: Path, form: Form, repetitions: int, counted: Counted, backend: Backend) -> None:
    with replaced(path) as image:
        _put(image, form, repetitions, counted, backend)


def _block(
    image: Any,
    form: Form,
    dataset: Dataset,
    repetitions: range,
    backend: Backend,
    progress: Progress | None = None,
) -> None:
    """Simulates repetitions and writes them to a block."""
    _put(image, form, len(repetitions), _counted(form, dataset, repetitions, backend, progress), backend)


def _block_there(
    columns: Columns, block: _Block, form: Form, repetitions: range, backend: str, sampler: str
) -> tuple[bytes, float]:
    """What a worker of a cluster does: a block as it will lie on disk, and the seconds that it took."""
    started, image = time.perf_counter(), io.BytesIO()
    _block(image, form, columns.dataset, repetitions, engine_here(backend, sampler))
    return image.getvalue(), time.perf_counter() - started


def _divided(progress: Progress, number: int) -> Progress:
    return lambda positions: progress(positions // number)
