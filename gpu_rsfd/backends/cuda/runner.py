"""One CUDA device: what fits into its memory, and the launches of one batch of repetitions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends.cuda.devices import Device
from gpu_rsfd.backends.cuda.kernels import OPTIONS, source
from gpu_rsfd.backends.cuda.passes import KEY, AttributeJob, digits_of, key_rounds
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.synthetic import SyntheticDataset
from gpu_rsfd.errors import RunError
from gpu_rsfd.plan import Counts, Plan
from gpu_rsfd.protocols.form import Thresholds
from gpu_rsfd.tape import LANES

BLOCK = 128  # threads; the unary kernels are compiled for at most so many
TILE = 8 * BLOCK  # groups of 64 users that a block works through
SHARED_BYTES = 48 << 10  # what every device gives a block without asking
MEMORY_SHARE = 0.8  # of the memory that is free
BATCH_POSITIONS = 1 << 34  # enough to fill any device, a fraction of a second on a large one
MAX_BLOCKS = 2**31 - 1
MAX_INDEX = 2**32 - 1  # the kernels count words of the device's arrays in 32 bits

_modules: dict[int, tuple[Any, dict[str, Any]]] = {}  # by device: the module and its kernels
_compiling = threading.Lock()

U32, U64 = np.uint32, np.uint64


def threads_for(groups: int) -> int:
    """Threads of a block: whole warps, and not many more than there are groups.  Any number would be right."""
    return min(BLOCK, -(-groups // 32) * 32)


class DeviceLost(RunError):  # noqa: N818  (it says what is the matter)
    """A CUDA device failed in the middle of its work; what was counted before is right."""


class Job:
    """A call of `count`, as every device sees it."""

    def __init__(self, plan: Plan, dataset: Dataset, seed: int, repetitions: range) -> None:
        self.plan, self.dataset, self.seed, self.repetitions = plan, dataset, seed, repetitions
        self.n, self.d = dataset.n, plan.d
        self.attributes = [AttributeJob.of(a) for a in plan.attributes]
        self.groups = -(-dataset.n // LANES)
        self.assigned_digits = digits_of(plan.d)
        self.needs_assignment = plan.needs_reporters or any(a.needs_assignment for a in plan.attributes)
        self.key = _key(seed)

    @property
    def words_per_group(self) -> int:
        """Device memory for 64 users' values: their binary digits, and the codes of one attribute on their way in."""
        return sum(a.digits for a in self.attributes) + 2 * LANES // 8

    @property
    def words_per_group_and_repetition(self) -> int:
        return self.assigned_digits + max(a.encoded_digits for a in self.attributes)

    @property
    def words_per_repetition(self) -> int:
        return sum(a.cells for a in self.attributes) + self.d

    def most_repetitions(self, groups: int) -> int:
        """As many as 32-bit indices and the size of a grid allow."""
        tiles = -(-groups // TILE)
        blocks = max(max(a.plan.k for a in self.attributes) * tiles, self.d)
        words = max(self.words_per_group_and_repetition, 1) * groups
        share = max(1, BATCH_POSITIONS // self.plan.positions(groups * LANES))
        return min(MAX_BLOCKS // blocks, MAX_INDEX // words, share)


@dataclass(frozen=True)
class Part:
    """Counts of some users in the repetitions first … last - 1 (positions in the job's range)."""

    first: int
    last: int
    users: int
    counts: list[Counts]
    sampled: Counts


class Runner:
    """Runs jobs on one device.  `tell` is called with a line when memory runs out."""

    def __init__(self, device: Device, tell: Callable[[str], None]) -> None:
        import cupy

        self.device, self._cp, self._tell = device, cupy, tell
        self._errors = (
            cupy.cuda.runtime.CUDARuntimeError,
            cupy.cuda.driver.CUDADriverError,
            cupy.cuda.compiler.CompileException,
        )

    def close(self) -> None:
        try:
            with self._cp.cuda.Device(self.device.index):
                self._cp.get_default_memory_pool().free_all_blocks()
        except self._errors:
            pass  # a lost device has nothing to give back

    def run(self, job: Job, first: int, last: int) -> Iterator[Part]:
        """All users in the repetitions first … last - 1, part by part."""
        try:
            with self._cp.cuda.Device(self.device.index):
                size = self._groups_that_fit(job)
                for start in range(0, job.groups, size):
                    yield from self._users(job, start, min(start + size, job.groups), first, last)
        except self._errors as error:
            raise DeviceLost(f"{self.device} failed: {str(error).splitlines()[0]}") from error

    def _free_words(self) -> int:
        pool = self._cp.get_default_memory_pool()
        return int((self._cp.cuda.Device(self.device.index).mem_info[0] + pool.free_bytes()) * MEMORY_SHARE) // 8

    def _groups_that_fit(self, job: Job) -> int:
        """Groups of users whose values fit, with at least one repetition beside them."""
        words = self._free_words() - job.words_per_repetition
        fit = words // (job.words_per_group + job.words_per_group_and_repetition)
        most = MAX_INDEX // max(job.words_per_group, job.words_per_group_and_repetition)
        tiles = MAX_BLOCKS // max(a.plan.k for a in job.attributes)
        return max(1, min(fit, most, tiles * TILE, job.groups))

    def _users(self, job: Job, start: int, stop: int, first: int, last: int) -> Iterator[Part]:
        """The users of groups start … stop - 1; if even one repetition does not fit, one half after the other."""
        groups = stop - start
        try:
            users: _Users | None = _Users(self, job, start, stop)
            each = job.words_per_group_and_repetition * groups + job.words_per_repetition
            batch = max(1, min(self._free_words() // each, job.most_repetitions(groups), last - first))
        except self._cp.cuda.memory.OutOfMemoryError:
            users, batch = None, 1
        while users is not None and first < last:
            stop_at = min(first + batch, last)
            try:
                part = users.count(first, stop_at)
            except self._cp.cuda.memory.OutOfMemoryError:
                self._cp.get_default_memory_pool().free_all_blocks()
                self._say(f"repetitions at a time: {batch} -> {batch // 2 or 1}")
                users = users if batch > 1 else None
                batch = batch // 2 or 1
                continue
            yield part
            first = stop_at
        if first < last:
            if groups == 1:
                raise MemoryError(f"{self.device} has too little free memory for even 64 users")
            self._say(f"users at a time: {groups * LANES:,} -> {-(-groups // 2) * LANES:,}")
            middle = start + -(-groups // 2)
            yield from self._users(job, start, middle, first, last)
            yield from self._users(job, middle, stop, first, last)

    def _say(self, change: str) -> None:
        self._tell(f"{self.device} is short of memory: smaller batches from here on ({change}); results stay the same")

    def launch(self, name: str, blocks: int, args: tuple[Any, ...], threads: int = BLOCK, shared: int = 0) -> None:
        self._kernel(name)((blocks,), (threads,), args, shared_mem=shared)

    def over(self, items: int) -> int:
        """Blocks for a kernel that strides over items: enough to fill the device."""
        return max(1, min(-(-items // BLOCK), 1 << 16))

    def _kernel(self, name: str) -> Any:
        """A kernel of the module, which is compiled once per device and process; CuPy keeps the binary on disk, too."""
        with _compiling:
            if self.device.index not in _modules:
                _modules[self.device.index] = self._cp.RawModule(code=source(), options=OPTIONS), {}
            module, kernels = _modules[self.device.index]
            if name not in kernels:
                kernels[name] = module.get_function(name)
            return kernels[name]


class _Users:
    """The values of some users on the device, and the launches that count their reports."""

    def __init__(self, runner: Runner, job: Job, start: int, stop: int) -> None:
        self._runner, self._job, self._cp = runner, job, runner._cp
        self.first_group, self.groups = start, stop - start
        self.first_user = start * LANES
        self.users = min(stop * LANES, job.n) - self.first_user
        tail = self.users % LANES
        self.last_lanes = U64((1 << tail) - 1 if tail else 2**64 - 1)
        self._where = (U64(self.first_group), U32(self.groups), self.last_lanes)
        self._x = [self._load(a) for a in job.attributes]

    def _load(self, a: AttributeJob) -> Any:
        """[digit, group]: the users' values of an attribute; synthetic ones are drawn on the device."""
        cp, runner, dataset, k = self._cp, self._runner, self._job.dataset, a.plan.k
        planes = cp.empty((a.digits, self.groups), U64)
        blocks = runner.over(self.groups)
        if type(dataset) is SyntheticDataset:
            law = dataset.thresholds(k)
            thresholds = None if law is None else cp.asarray(law)
            key, attribute = _key(dataset.seed), U32(a.plan.index)
            args = (key, attribute, *self._where[:2], U32(k), U32(a.digits), thresholds, planes)
            runner.launch("draw_codes", blocks, args)
        else:
            codes = dataset.column(a.plan.index, self.first_user, self.first_user + self.users)
            table = cp.asarray(codes.astype(np.uint16))
            runner.launch("pack_codes", blocks, (table, U64(self.users), U32(self.groups), U32(a.digits), planes))
        return planes

    def count(self, first: int, last: int) -> Part:
        """All counts of the repetitions first … last - 1 of the job."""
        cp, job, runner = self._cp, self._job, self._runner
        rows, step = last - first, job.repetitions.step
        which = (U64(job.repetitions[first]), U64(step))
        out = cp.zeros(rows * job.words_per_repetition, U64)
        sampled = self._assign(rows, which) if job.needs_assignment and job.d > 1 else None
        at = 0

        def take(cells: int) -> Any:
            nonlocal at
            at += rows * cells
            return out[at - rows * cells : at]

        for a, x in zip(job.attributes, self._x, strict=True):
            self._attribute(a, x, sampled, which, rows, take)
        if sampled is not None and job.plan.needs_reporters:
            args = (*self._where[1:], U32(job.d), U32(job.assigned_digits), sampled, take(job.d))
            runner.launch("count_sampled", rows * job.d, args)
        return self._part(first, last, out.get().view(np.int64))

    def _assign(self, rows: int, which: tuple[Any, Any]) -> Any:
        """[repetition, digit, group]: the attribute that each user sampled."""
        job = self._job
        balanced = max(8, digits_of(job.n)) if job.plan.assignment == "balanced" else 0
        sampled = self._cp.empty((rows, job.assigned_digits, self.groups), U64)
        args = (job.key, *which, U32(rows), U64(job.n), U32(balanced), *self._where[:2], U32(job.d))
        self._runner.launch("assign", self._runner.over(rows * self.groups), (*args, U32(job.assigned_digits), sampled))
        return sampled

    def _attribute(
        self, a: AttributeJob, x: Any, sampled: Any, which: tuple[Any, Any], rows: int, take: Callable[[int], Any]
    ) -> None:
        cp, job, k = self._cp, self._job, a.plan.k
        tiles = -(-self.groups // TILE)
        threads = threads_for(self.groups)
        digits = U32(job.assigned_digits if sampled is not None else 0)
        column = (*which, *self._where, U32(TILE), U32(a.plan.index), digits)
        encoded: dict[Thresholds | None, Any] = {}
        for v in a.values:
            if v.encodes:
                encoded[v.prior] = cp.empty((rows, a.digits, self.groups), U64)
            prior = None if v.prior is None else cp.asarray(np.array(v.prior, U64))
            keeps = cp.asarray(np.array([*v.mine, *v.all], U64)) if v.rows else None
            shared = v.rows * k * 4 if v.rows * k * 4 <= SHARED_BYTES else 0
            bins = take(v.rows * k) if v.rows else None
            shape = (U32(v.rows), U32(len(v.mine)), U32(len(v.all)), U32(shared > 0))
            arrays = (prior, keeps, x, sampled, encoded.get(v.prior), bins)
            values = (job.key, *column, U32(k), U32(a.digits), *shape, *arrays)
            self._runner.launch("count_values", rows * tiles, values, threads, shared)
        for p in a.passes:
            random = encoded.get(p.prior)
            stride = U32(a.digits * self.groups if random is not None else 0)
            planes = (x, sampled, x if random is None else random)
            args = (p.argument(job.seed), *column, U64(a.plan.offset), U32(k), U32(a.digits), stride, *planes)
            self._runner.launch(p.kernel, rows * k * tiles, (*args, take(k * p.cells)), threads)

    def _part(self, first: int, last: int, cells: npt.NDArray[np.int64]) -> Part:
        job, rows, at = self._job, last - first, 0

        def take(*shape: int) -> Counts:
            nonlocal at
            size = rows * int(np.prod(shape))
            at += size
            return cells[at - size : at].reshape(rows, *shape)

        counts = []
        for a in job.attributes:
            table = np.zeros((len(a.plan.recipes), rows, a.plan.k), np.int64)
            for v in a.values:
                if v.rows:
                    v.counts(a.plan, take(v.rows, a.plan.k), table)
            for p in a.passes:
                p.counts(a.plan, take(a.plan.k, p.cells), table)
            counts.append(table)
        sampled = np.zeros((rows, job.d), np.int64)
        if job.plan.needs_reporters:
            sampled[:] = take(job.d) if job.d > 1 else self.users
        return Part(first, last, self.users, counts, sampled)


def _key(seed: int) -> npt.NDArray[Any]:
    key = np.zeros(1, KEY)
    key["rounds"][0] = key_rounds(seed)
    return key
