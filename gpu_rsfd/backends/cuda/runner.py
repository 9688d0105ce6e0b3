"""One CUDA device: what fits into its memory, and the launches of one batch of repetitions.

The device is kept busy: batch i + 1 is launched before the counts of batch i are unpacked.  It has a thread of its own,
where all of this is done: a thread that goes from one device to another and back would touch both.
"""

from __future__ import annotations

import threading
import traceback
import weakref
from collections import defaultdict
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends.cuda.devices import Device, compiled, copied, first_line, keep
from gpu_rsfd.backends.cuda.kernels import module_of, source
from gpu_rsfd.backends.cuda.passes import KEY, AttributeJob, ValuePass, digits_of, key_rounds
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.synthetic import SyntheticDataset
from gpu_rsfd.errors import RunError
from gpu_rsfd.planning import Counts, Plan
from gpu_rsfd.protocols.form import Thresholds
from gpu_rsfd.tape import LANES

BLOCK = 128  # threads; the unary kernels are compiled for at most so many
TILE = 8 * BLOCK  # groups of 64 users that a block works through
SHARED_BYTES = 48 << 10  # what every device gives a block without asking
MEMORY_SHARE = 0.8  # of the memory that is free
BATCH_POSITIONS = 1 << 33  # enough to fill any device, a fraction of a second on a large one
BATCH_WORDS = 1 << 21  # of counts: what the host unpacks while the device works on the next batch
MAX_BLOCKS = 2**31 - 1
FIND = "CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer show which"
OUT_OF_MEMORY = 2  # a status of the driver and of the runtime
MAX_INDEX = 2**32 - 2**17  # the kernels count words of the device's arrays in 32 bits, and step beyond the last one

_kernels: dict[tuple[int, str], Any] = {}  # by device and name
_compiling = threading.Lock()

U32, U64 = np.uint32, np.uint64
T = TypeVar("T")


def threads_for(groups: int) -> int:
    """Threads of a block: whole warps, and not many more than there are groups.  Any number would be right."""
    return min(BLOCK, -(-groups // 32) * 32)


class DeviceLost(RunError):  # noqa: N818  (it says what is the matter)
    """A CUDA device failed in the middle of its work; what was counted before is right."""


class Job:
    """A call of `count`, as every device sees it."""

    def __init__(
        self, plan: Plan, attributes: list[AttributeJob], dataset: Dataset, seed: int, repetitions: range
    ) -> None:
        self.plan, self.dataset, self.seed, self.repetitions = plan, dataset, seed, repetitions
        self.n, self.d, self.attributes = dataset.n, plan.d, attributes
        self.groups = -(-dataset.n // LANES)
        self.assigned_digits = digits_of(plan.d)
        self.needs_assignment = plan.d > 1 and (
            plan.needs_reporters or any(a.needs_assignment for a in plan.attributes)
        )
        self.key = key_of(seed)
        self.passes = [[p.argument(seed) for p in a.passes] for a in attributes]
        self.words_per_group = sum(a.digits for a in attributes)
        self.codes_per_group = 0 if type(dataset) is SyntheticDataset else 2 * LANES // 8  # words on their way in
        self.encoded_digits = max(a.encoded_digits for a in attributes)
        self.words_per_group_and_repetition = self.assigned_digits * self.needs_assignment + self.encoded_digits
        self.words_per_repetition = sum(a.cells for a in attributes) + self.d
        self.designs = list(dict.fromkeys(v.design for a in attributes for v in a.designs if v.design is not None))
        self.words_of_designs = sum(table.size // 2 + 1 for d in self.designs if (table := d.table) is not None)

    @cached_property
    def tables(self) -> tuple[npt.NDArray[np.uint64], dict[tuple[int, ...], slice]]:
        """All thresholds that kernels look up, one after another; and where each list of them is."""
        found: dict[tuple[int, ...], slice] = {}
        words: list[int] = []
        for a in self.attributes:
            for v in (*a.values, *a.designs):
                for table in ((*v.mine, *v.all), v.prior or ()):
                    if table and table not in found:
                        found[table] = slice(len(words), len(words) + len(table))
                        words += table
        return np.array(words or [0], U64), found

    def most_groups(self) -> int:
        """As many as 32-bit indices and the size of a grid allow, for a single repetition."""
        words = MAX_INDEX // max(self.words_per_group, self.words_per_group_and_repetition)
        return min(words, MAX_BLOCKS // max(max(a.plan.k for a in self.attributes), self.d) * TILE)

    def most_repetitions(self, groups: int) -> int:
        """As many as 32-bit indices and the size of a grid allow."""
        tiles = -(-groups // TILE)
        blocks = max(max(a.plan.k for a in self.attributes) * tiles, self.d)
        words = max(self.words_per_group_and_repetition, 1) * groups
        share = max(1, BATCH_POSITIONS // self.plan.positions(groups * LANES))
        counts = max(1, BATCH_WORDS // self.words_per_repetition)
        return min(MAX_BLOCKS // blocks, MAX_INDEX // words, share, counts)

    def unpack(self, part: Part, counts: list[Counts], sampled: Counts) -> None:
        """The counts of a part into those of the job; the first users' come first and are set, the others' added."""
        rows, at, add = part.last - part.first, 0, part.first_user > 0
        here = slice(part.first, part.last)
        for a, table in zip(self.attributes, counts, strict=True):
            size = rows * a.cells
            a.unpack(part.words[at : at + size], table[:, here], add)
            at += size
        if not self.plan.needs_reporters:
            return
        found = part.words[at : at + rows * self.d].reshape(rows, self.d) if self.d > 1 else part.users
        sampled[here] = sampled[here] + found if add else found


@dataclass(frozen=True)
class Part:
    """Counts of some users in the repetitions first … last - 1 (positions in the job's range), on their way.

    `words` are valid when they have arrived, and until the next part is asked for.
    """

    first: int
    last: int
    first_user: int
    users: int
    words: Counts
    copied: Any  # the event after the copy

    def arrived(self) -> Part:
        """Waits for the device.  What went wrong in a kernel is raised here."""
        self.copied.synchronize()
        return self


@dataclass(frozen=True)
class Limits:
    """Less than what would fit, so that a self-test reaches what only large data would."""

    groups: int = 2**63  # of 64 users at a time
    repetitions: int = 2**63  # in a batch


class KernelTime(NamedTuple):
    """What a kernel did in which time."""

    seconds: float = 0.0
    items: int = 0  # users x values in kernels of unary encodings, users in the others; in all repetitions


class Stopwatch:
    """Time on the device, kernel by kernel, from CUDA events: without the host's, however slow that is."""

    def __init__(self) -> None:
        self._events: list[tuple[str, int, Any, Any]] = []

    def around(self, cp: Any, name: str, items: int, launch: Callable[[], None]) -> None:
        before, after = cp.cuda.Event(), cp.cuda.Event()
        self._events.append((name, items, before, after))
        before.record()
        try:
            launch()
        finally:
            after.record()

    def times(self, cp: Any) -> dict[str, KernelTime]:
        """By kernel; all launches must be done."""
        found: dict[str, KernelTime] = defaultdict(KernelTime)
        for name, items, before, after in self._events:
            seconds = cp.cuda.get_elapsed_time(before, after) / 1e3
            found[name] = KernelTime(found[name].seconds + seconds, found[name].items + items)
        return found


class Runner:
    """Runs jobs on one device.  `tell` is called with a line when memory is short, and of which kind."""

    def __init__(self, device: Device, tell: Callable[[str, str], None]) -> None:
        import cupy

        self.device, self._cp, self._tell = device, cupy, tell
        self.watch: Stopwatch | None = None
        self.limits = Limits()
        self.lost = False
        cuda = cupy.cuda
        self._errors = cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError, cuda.compiler.CompileException
        self._held: tuple[weakref.ref[Dataset], list[Any]] | None = None  # a whole data set's values
        self.events: list[Any] = []  # of the job
        self._last = ""  # kernel that was launched
        self._thread: ThreadPoolExecutor | None = None

    def submit(self, do: Callable[..., T], *args: Any) -> Future[T]:
        """Something to do in the device's thread, after what was submitted before."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"cuda{self.device.index}")
        return self._thread.submit(self._here, do, *args)

    def _here(self, do: Callable[..., T], *args: Any) -> T:
        try:
            self._cp.cuda.Device(self.device.index).use()
            return do(*args)
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)  # what they hold ends here: elsewhere it would touch another
            if not isinstance(error, self._errors):
                raise
            self.lost = True
            keep([self.events, self.watch])
            where = f" (in the kernel {self._last} or one before; {FIND})" if self._last else ""
            # without a traceback, whose functions hold what their frames do
            raise DeviceLost(f"{self.device} failed: {first_line(error)}{where}") from error.with_traceback(None)

    def close(self) -> None:
        """Gives the device's memory back, and ends its thread."""
        with suppress(DeviceLost):  # which has nothing to give back
            self.submit(self._give_back).result()
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def _give_back(self) -> None:
        self.events = []  # of a job that an error ended
        self._drop_values()
        self._cp.get_default_pinned_memory_pool().free_all_blocks()

    def _drop_values(self) -> None:
        """With the pool's blocks: pieces of them would be taken for small arrays, and a large one would not fit."""
        self._held = None
        self._cp.get_default_memory_pool().free_all_blocks()

    def run(self, job: Job, first: int, last: int) -> Generator[Part, None, None]:
        """All users in the repetitions first … last - 1, part by part.  In the device's thread."""
        size = job.groups if self._holds(job) else self._groups_that_fit(job)
        for start in range(0, job.groups, size):  # the values are read once for all repetitions
            yield from self._users(job, start, min(start + size, job.groups), first, last)
        self.events = []

    def _free_words(self) -> int:
        pool = self._cp.get_default_memory_pool()
        return int((self._cp.cuda.Device(self.device.index).mem_info[0] + pool.free_bytes()) * MEMORY_SHARE) // 8

    def _holds(self, job: Job) -> bool:
        """Whether the data set's values are here, with room for a repetition beside them; if not, they go."""
        if self._held is not None and self._held[0]() is job.dataset:
            counts = 2 * job.words_per_repetition + job.words_of_designs
            needed = job.words_per_group_and_repetition * job.groups + counts
            if needed <= self._free_words() and job.groups <= self._most_groups(job):
                return True
        if self._held is not None:
            self._drop_values()
        return False

    def _most_groups(self, job: Job) -> int:
        """Of users at a time, whatever the memory.  A kernel that is not to be ended must not take long."""
        soon = BATCH_POSITIONS // job.plan.positions(LANES) if self.device.time_limit else job.groups
        return min(job.most_groups(), self.limits.groups, max(1, soon))

    def _groups_that_fit(self, job: Job) -> int:
        """Groups of users whose values fit, with at least one repetition beside them."""
        words = self._free_words() - 2 * job.words_per_repetition - job.words_of_designs
        fit = words // (job.words_per_group + job.codes_per_group + job.words_per_group_and_repetition)
        return max(1, min(fit, self._most_groups(job), job.groups))

    def _users(self, job: Job, start: int, stop: int, first: int, last: int) -> Generator[Part, None, None]:
        """The users of groups start … stop - 1; if even one repetition does not fit, one half after the other."""
        groups = stop - start
        users: _Users | None = None
        launched: Part | None = None
        following: Part | None = None
        try:
            while first < last:
                try:
                    if users is None:
                        users = _Users(self, job, start, stop, self._values(job, start, stop))
                        each = job.words_per_group_and_repetition * groups + 2 * job.words_per_repetition
                        most = min(self._free_words() // each, job.most_repetitions(groups), self.limits.repetitions)
                    batch = max(1, min(most, last - first))
                    following = users.launch(first, first + batch)
                except (self._cp.cuda.memory.OutOfMemoryError, *self._errors) as error:
                    if not self._short(error):
                        raise
                if launched is not None:
                    yield launched.arrived()
                launched, following = following, None  # or its memory would stay, whatever becomes of the batch
                if launched is not None:
                    first = launched.last
                    continue
                self._finish()  # a launch may have failed after others
                if users is None or batch == 1:
                    break
                users.drop_scratch()
                self._cp.get_default_memory_pool().free_all_blocks()
                most = batch // 2
                self._say(f"repetitions at a time: {batch} -> {most}")
            if launched is not None:
                yield launched.arrived()
                launched = None
        finally:
            if launched is not None:  # interrupted: what it copies to must stay until it is done
                self._finish()
        if first < last:
            users = None
            self._drop_values()
            if groups == 1:
                raise MemoryError(f"{self.device} has too little free memory for even 64 users")
            middle = start + -(-groups // 2)
            self._say(f"users at a time: {groups * LANES:,} -> {(middle - start) * LANES:,}")
            yield from self._users(job, start, middle, first, last)
            yield from self._users(job, middle, stop, first, last)

    def _values(self, job: Job, start: int, stop: int) -> list[Any]:
        """Per attribute [digit, group]: the users' values; those of a whole data set stay for the next job."""
        whole = (start, stop) == (0, job.groups)
        if whole and self._held is not None:
            return self._held[1]
        values = [self._load(job, a, start, stop) for a in job.attributes]
        if whole:
            self._held = weakref.ref(job.dataset), values
        return values

    def _load(self, job: Job, a: AttributeJob, start: int, stop: int) -> Any:
        """Synthetic values are drawn on the device."""
        cp, dataset, k, groups = self._cp, job.dataset, a.plan.k, stop - start
        planes = cp.empty((a.digits, groups), U64)
        if type(dataset) is SyntheticDataset:
            table = dataset.thresholds[k]
            thresholds = None if table is None else copied(table)
            where = (U64(start), U32(groups), U32(k), U32(a.digits))
            args: tuple[Any, ...] = (key_of(dataset.seed), U32(a.plan.index), *where, thresholds, planes)
            self.launch("draw_codes", groups * LANES, self.over(groups), args)
        else:
            first, last = start * LANES, min(stop * LANES, job.n)
            codes = copied(dataset.column(a.plan.index, first, last).astype(np.uint16))
            args = (codes, U64(last - first), U32(groups), U32(a.digits), planes)
            self.launch("pack_codes", groups * LANES, self.over(groups), args)
        return planes

    def _finish(self) -> None:
        with suppress(*self._errors):  # a lost device copies nothing any more
            self._cp.cuda.Device(self.device.index).synchronize()

    def _short(self, error: BaseException) -> bool:
        """Whether there was too little memory: of the pool, or for a launch, an event or a module."""
        return isinstance(error, MemoryError) or getattr(error, "status", None) == OUT_OF_MEMORY

    def _say(self, change: str) -> None:
        less = f"smaller batches from here on ({change}); results stay the same"
        self._tell("memory", f"{self.device} is short of memory: {less}")

    def host_words(self, words: int) -> npt.NDArray[np.uint64]:
        """Memory that the device copies to by itself; where there is little of it, as under WSL2, any other."""
        try:
            return np.frombuffer(self._cp.cuda.alloc_pinned_memory(8 * words), U64, words)
        except self._errors as error:
            if not self._short(error):
                raise
        self._tell("pinned", f"{self.device} has too little pinned memory: copies take longer; results stay the same")
        return np.empty(words, U64)

    def launch(
        self, name: str, items: int, blocks: int, args: tuple[Any, ...], threads: int = BLOCK, shared: int = 0
    ) -> None:
        """`items`: what the kernel goes through, for the stopwatch."""
        self._last = name
        kernel = self.kernel(name)
        if self.watch is None:
            kernel((blocks,), (threads,), args, shared_mem=shared)
        else:
            self.watch.around(self._cp, name, items, lambda: kernel((blocks,), (threads,), args, shared_mem=shared))

    def stop_watch(self) -> dict[str, KernelTime]:
        """By kernel, since `watch` was set.  Its events end here, in the device's thread, as they began."""
        self._cp.cuda.Device(self.device.index).synchronize()
        watch, self.watch = self.watch, None
        return {} if watch is None else watch.times(self._cp)

    def over(self, items: int) -> int:
        """Blocks for a kernel that strides over items: enough to fill the device."""
        return max(1, min(-(-items // BLOCK), 1 << 16))

    def kernel(self, name: str) -> Any:
        """A kernel, compiled once per device and process; CuPy keeps the binary on disk, too."""
        with _compiling:
            if (self.device.index, name) not in _kernels:
                together = module_of(name)
                for each, kernel in zip(together, compiled(source(*together), *together), strict=True):
                    _kernels[self.device.index, each] = kernel
            return _kernels[self.device.index, name]


class _Users:
    """Some users on the device, and the launches that count their reports.

    All launches are in one stream: what a batch needs while it is counted is used again by the next one.
    """

    def __init__(self, runner: Runner, job: Job, start: int, stop: int, values: list[Any]) -> None:
        self._runner, self._job, self._cp, self._x = runner, job, runner._cp, values
        self.groups, self.first_user = stop - start, start * LANES
        self.users = min(stop * LANES, job.n) - self.first_user
        tail = self.users % LANES
        self._where = (U64(start), U32(self.groups), U64((1 << tail) - 1 if tail else 2**64 - 1))
        words, self._places = job.tables
        self._tables = copied(words)
        self._members = {d: copied(table) for d in job.designs if (table := d.table) is not None}
        self._sampled: Any = None
        self._encoded: Any = None
        self._room = 0  # repetitions that the scratch arrays have room for
        self._outputs: list[tuple[Any, npt.NDArray[np.uint64]]] = []  # two in turn: on the device, on the host
        self._turn = 1

    def drop_scratch(self) -> None:
        self._sampled = self._encoded = None
        self._outputs, self._room = [], 0

    def _table(self, words: tuple[int, ...] | None) -> Any:
        return self._tables[self._places[words]] if words else None

    def _reserve(self, rows: int) -> tuple[Any, npt.NDArray[np.uint64], Any]:
        """Memory for a batch of so many repetitions; its output, and the event after it, are not those before."""
        cp, job = self._cp, self._job
        if rows > self._room:
            self.drop_scratch()
            if job.needs_assignment:
                self._sampled = cp.empty(rows * job.assigned_digits * self.groups, U64)
            if job.encoded_digits:
                self._encoded = cp.empty(rows * job.encoded_digits * self.groups, U64)
            self._room = rows
        self._turn ^= 1
        while len(self._outputs) <= self._turn:
            words = self._room * job.words_per_repetition
            self._outputs.append((cp.empty(words, U64), self._runner.host_words(words)))
        while len(self._runner.events) <= self._turn:
            self._runner.events.append(cp.cuda.Event(block=True, disable_timing=True))
        return *self._outputs[self._turn], self._runner.events[self._turn]

    def launch(self, first: int, last: int) -> Part:
        """Everything for the repetitions first … last - 1 of the job, up to the copy of their counts to the host."""
        job, rows = self._job, last - first
        device, host, copied = self._reserve(rows)
        which = (U64(job.repetitions[first]), U64(job.repetitions.step))
        words = rows * job.words_per_repetition
        out = device[:words]
        out.data.memset_async(0, out.nbytes)  # `fill` would be another kernel to compile
        if job.needs_assignment:
            self._assign(rows, which)
        at = 0

        def take(cells: int) -> Any:
            nonlocal at
            at += rows * cells
            return out[at - rows * cells : at]

        for i in range(job.d):
            self._attribute(i, which, rows, take)
        if job.needs_assignment and job.plan.needs_reporters:
            args = (*self._where[1:], U32(job.d), U32(job.assigned_digits), self._sampled, take(job.d))
            self._runner.launch("count_sampled", rows * self.users, rows * job.d, args)
        out.get(out=host[:words], blocking=False)
        copied.record()
        return Part(first, last, self.first_user, self.users, host[:words].view(np.int64), copied)

    def _assign(self, rows: int, which: tuple[Any, Any]) -> None:
        """[repetition, digit, group]: the attribute that each user sampled."""
        job = self._job
        balanced = max(8, digits_of(job.n)) if job.plan.assignment == "balanced" else 0
        who = (U32(rows), U64(job.n), U32(balanced), *self._where[:2], U32(job.d), U32(job.assigned_digits))
        blocks = self._runner.over(rows * self.groups)
        self._runner.launch("assign", rows * self.users, blocks, (job.key, *which, *who, self._sampled))

    def _attribute(self, i: int, which: tuple[Any, Any], rows: int, take: Callable[[int], Any]) -> None:
        job, a, x = self._job, self._job.attributes[i], self._x[i]
        k, sampled = a.plan.k, self._sampled
        tiles = -(-self.groups // TILE)
        threads = threads_for(self.groups)
        digits = U32(job.assigned_digits if job.needs_assignment else 0)
        place = (*self._where, U32(TILE), U32(a.plan.index), digits)
        encoded: dict[Thresholds | None, Any] = {}
        size = rows * a.digits * self.groups

        def count_values(v: ValuePass) -> None:
            if v.encodes:  # [repetition, digit, group]
                encoded[v.prior] = self._encoded[len(encoded) * size : (len(encoded) + 1) * size]
            cells = v.rows * v.messages
            shared = cells * 4 if cells * 4 <= SHARED_BYTES else 0
            bins = take(cells) if v.rows else None
            members = None if v.design is None else self._members.get(v.design)
            shape = (U32(k), U32(a.digits), U32(v.messages), U32(0 if v.design is None else v.design.size))
            many = (U32(v.rows), U32(len(v.mine)), U32(len(v.all)), U32(shared > 0))
            tables = (members, self._table(v.prior), self._table((*v.mine, *v.all)))
            arrays = (*tables, x, sampled, encoded.get(v.prior) if v.encodes else None, bins)
            values = (job.key, *which, U32(rows * v.messages), *place, *shape, *many, *arrays)
            self._runner.launch("count_values", rows * self.users, rows * tiles, values, threads, shared)

        for v in a.values:
            count_values(v)
        for p, argument in zip(a.passes, job.passes[i], strict=True):
            random = encoded.get(p.prior)
            stride = U32(a.digits * self.groups if random is not None else 0)
            planes = (x, sampled, x if random is None else random)
            args = (argument, *which, U32(rows * k), *place, U64(a.plan.offset), U32(k), U32(a.digits), stride, *planes)
            items = rows * k * self.users
            self._runner.launch(p.kernel, items, rows * k * tiles, (*args, take(k * p.cells)), threads)
        for v in a.designs:
            count_values(v)


def key_of(seed: int) -> npt.NDArray[Any]:
    return np.array([(key_rounds(seed),)], KEY)
