"""The CuPy backend's host code: users and repetitions in pieces, memory, order of work, failures.

Each test fails for a mutant that other tests let pass.
"""

import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
from cuda_standin import PTX, SEED, WAYS, check, crafted, in_memory, launches, needs_compiler, needs_nvrtc

import gpu_rsfd
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.cpu.counting import Task, run_task
from gpu_rsfd.backends.cuda import backend as backend_module
from gpu_rsfd.backends.cuda import devices, runner
from gpu_rsfd.backends.cuda.backend import CupyBackend, DeviceLost, Limits
from gpu_rsfd.backends.cuda.kernels import BARE, KERNELS, source
from gpu_rsfd.backends.cuda.passes import AttributeJob
from gpu_rsfd.backends.cuda.speed import kernel_times
from gpu_rsfd.backends.pool import Columns
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import Bits, Keep, Recipe, Unsampled
from gpu_rsfd.tape import LANES, Tape

pytestmark = needs_compiler

PLAN = Plan.of((5, 3), WAYS, [1.0])
MANY = Plan.of((8, 8), ("spl-oue", "smp-oue", "spl-grr", "smp-grr"), [0.1 * i for i in range(1, 21)])
FEW, FAKES = (Plan.of((8, 8), (protocol,), [1.0]) for protocol in ("spl-oue", "rsfd-oue-r"))


@pytest.fixture(params=["source", pytest.param("ptx", marks=[needs_nvrtc, pytest.mark.slow])])
def machine(request, standin):
    """The kernels as g++ takes their source, and by way of PTX, where each access to memory is checked."""
    settings = {} if request.param == "source" else PTX

    def reset(**more):
        standin._reset(**{**settings, **more})
        return standin

    reset()
    return reset


# Users and repetitions in pieces


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
@pytest.mark.parametrize("data", [
    gpu_rsfd.SyntheticDataset(1000, (5, 3, 33), "zipf:1.3", seed=4),
    gpu_rsfd.SyntheticDataset(1000, (5, 70), seed=4),
    gpu_rsfd.SyntheticDataset(1000, (6,), seed=4),
    in_memory(1000, (5, 3, 33)),
    in_memory(1000, (300,)),
], ids=["zipf", "uniform", "one attribute", "in memory", "one in memory"])  # fmt: skip
def test_users_in_chunks(machine, data, assignment):
    """The second chunk begins at its own user, group and word of the tape; reporters are those of each chunk."""
    standin = machine(orders=(1, 2))
    plan = Plan.of(data.domain, WAYS, [1.0], assignment)
    with CupyBackend() as backend, backend.limited(Limits(groups=6, repetitions=2)):
        check(backend, plan, data)
    loads = launches(standin, "pack_codes") + launches(standin, "draw_codes")
    assert loads == 3 * data.d  # 16 groups: 6, 6, 4


def test_limits_end(machine):
    standin = machine()
    data = gpu_rsfd.SyntheticDataset(1000, (5, 3))
    plan = Plan.of(data.domain, WAYS, [1.0])
    with CupyBackend() as backend:
        with backend.limited(Limits(repetitions=1)):
            check(backend, plan, data)
        few = launches(standin, "assign")
        check(backend, plan, data)
    assert (few, launches(standin, "assign") - few) == (5, 1)


@pytest.mark.slow
def test_the_grid_and_the_index_have_limits(machine, monkeypatch):
    """Kernels have 32-bit indices; a larger grid is refused."""
    standin = machine(max_blocks=40)
    data = gpu_rsfd.SyntheticDataset(3000, (5, 3), seed=1)
    plan = Plan.of(data.domain, WAYS, [1.0])
    monkeypatch.setattr(runner, "MAX_BLOCKS", 40)
    with CupyBackend() as backend:
        check(backend, plan, data, range(30))
    standin = machine()
    monkeypatch.setattr(runner, "MAX_BLOCKS", 2**31 - 1)
    monkeypatch.setattr(runner, "MAX_INDEX", 1000)
    with CupyBackend() as backend:
        check(backend, plan, data, range(30))
    assert launches(standin, "assign") == 6  # 47 groups x (1 digit of the attribute + 3 of encoded fakes) x 5
    monkeypatch.setattr(runner, "MAX_INDEX", 100)  # fewer groups than there are
    standin = machine()
    with CupyBackend() as backend:
        check(backend, plan, data, range(4))
    assert launches(standin, "draw_codes") >= 4


def test_the_grid_limits_the_users_too(machine, monkeypatch):
    """Many tiles: even one repetition would be too many blocks."""
    standin = machine(max_blocks=40)
    monkeypatch.setattr(runner, "MAX_BLOCKS", 40)
    monkeypatch.setattr(runner, "TILE", 2)
    data = gpu_rsfd.SyntheticDataset(3000, (5, 3), seed=1)
    with CupyBackend() as backend:
        check(backend, Plan.of(data.domain, WAYS, [1.0]), data, range(3))
    assert launches(standin, "draw_codes") == 2 * 3  # 47 groups: 16, 16, 15


def test_a_batch_is_no_larger_than_the_host_unpacks_at_a_time(machine, monkeypatch):
    standin = machine()
    data = gpu_rsfd.SyntheticDataset(200, (5, 3))
    plan = Plan.of(data.domain, WAYS, [1.0])
    words = runner.Job(plan, [AttributeJob.of(a) for a in plan.attributes], data, 0, range(1)).words_per_repetition
    monkeypatch.setattr(runner, "BATCH_WORDS", 4 * words)
    with CupyBackend() as backend:
        check(backend, plan, data, range(12))
    assert launches(standin, "assign") == 3
    monkeypatch.setattr(runner, "BATCH_POSITIONS", plan.positions(-(-data.n // LANES) * LANES) * 2)
    standin = machine()
    with CupyBackend() as backend:
        check(backend, plan, data, range(12))
    assert launches(standin, "assign") == 6


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
@pytest.mark.parametrize("law", ["uniform", "zipf:0.7"])
@pytest.mark.parametrize("n", [2**40 + 77, 2**33])
def test_the_last_of_very_many_users(machine, n, law, assignment):
    """Indices beyond 32 bits: of words on the tape, of users in the permutation, of the shift."""
    machine()
    data = gpu_rsfd.SyntheticDataset(n, (5, 3), law, seed=8)
    plan = Plan.of(data.domain, WAYS, [1.0], assignment)
    last = -(-n // LANES)
    repetitions = range(7, 12, 2)
    with CupyBackend() as backend:
        device = backend._runners[0]
        job = runner.Job(plan, [AttributeJob.of(a) for a in plan.attributes], data, SEED, repetitions)
        for start in (0, 2**26 - 1, 2**31 - 1, last - 3):
            if start + 3 > last:
                continue
            counts = [np.zeros((len(a.recipes), 3, a.k), np.int64) for a in plan.attributes]
            sampled = np.zeros((3, 2), np.int64)
            for part in device._users(job, start, start + 3, 0, 3):
                job.unpack(replace(part, first_user=0), counts, sampled)
            stop = min((start + 3) * LANES, n)
            task = Task(start * LANES, stop, n, 2, assignment, tuple(repetitions), plan.attributes, True)
            right = run_task(Columns(data), task, SEED)
            assert np.array_equal(sampled, right.sampled)
            for a, b in zip(counts, right.counts, strict=True):
                assert np.array_equal(a, b)


# Thresholds that a draw meets exactly


@pytest.mark.parametrize("others", [Unsampled.OWN, Unsampled.NOTHING, Unsampled.FAKE])
def test_keep_thresholds_that_are_draws(machine, others):
    """h < threshold: a user whose draw is the threshold does not keep."""
    machine()
    data = gpu_rsfd.SyntheticDataset(150, (4, 3), seed=2)
    draws = sorted({int(w) & 0xFFFFFFFF for w in Tape(SEED).value(0, 1, 0, data.n)})
    for thresholds in (draws[::9], [t + 1 for t in draws[::9]], [0, 2**32]):
        with CupyBackend() as backend:
            check(backend, crafted(data.domain, [Recipe(others, Keep(t)) for t in thresholds]), data, range(1, 2))


@pytest.mark.parametrize("more", [0, 1])
def test_zipf_and_prior_thresholds_that_are_draws(machine, more):
    """v thresholds are <= the draw: one that is equal counts."""
    machine()
    data = gpu_rsfd.SyntheticDataset(150, (9, 9), "zipf:1", seed=2)

    def of(words):
        return np.sort(words >> np.uint64(32))[10:90:10] + np.uint64(more)

    data._thresholds = {9: of(Tape(2).data(0, 0, data.n))}
    prior = tuple(int(t) for t in of(Tape(SEED).value(0, 1, 0, data.n)))
    assert len(prior) == 8
    recipes = [Recipe(Unsampled.FAKE, Keep(2**30), prior), Recipe(Unsampled.FAKE, Bits(2**23, 2**20), prior)]
    with CupyBackend() as backend:
        check(backend, crafted(data.domain, recipes), data, range(1, 3))


@pytest.mark.parametrize("tq", [1, 2**23 - 1, 2**23, 2**24 - 1])
@pytest.mark.parametrize("others", list(Unsampled))
def test_unary_thresholds_at_the_ends(machine, others, tq):
    machine()
    data = gpu_rsfd.SyntheticDataset(200, (4, 3), seed=2)
    recipes = [Recipe(others, Bits(tp, tq)) for tp in (2**23, 2**24, tq)]
    with CupyBackend() as backend:
        check(backend, crafted(data.domain, recipes), data, range(1, 3))


# Memory


def test_memory_in_the_pool_is_free(standin):
    """What a job gives back, the next one finds: batches stay as large as they were."""
    data = in_memory(5000, (9, 8))
    plan = Plan.of(data.domain, WAYS, [1.0])
    standin._reset(memory=60_000)
    with CupyBackend() as backend:
        check(backend, plan, data, range(10))
        first = launches(standin, "assign")
        for _ in range(3):
            standin._settings.launches.clear()
            check(backend, plan, in_memory(5000, (9, 8), seed=6), range(10))
            assert launches(standin, "assign") == first
    assert first > 1


@pytest.mark.slow
@pytest.mark.parametrize("hidden,batches", [(905_000, 4), (962_500, 8), (975_000, 20)])
def test_a_batch_that_does_not_fit_is_halved_until_it_does(standin, hidden, batches):
    """Memory that another program took: what the first try held is given back before the next one."""
    data = gpu_rsfd.SyntheticDataset(5000, (9, 8))
    standin._reset(memory=1_000_000)
    standin._settings.hidden = hidden
    with CupyBackend() as backend, pytest.warns(UserWarning, match=r"\(repetitions at a time: 40 -> 20\)") as caught:
        check(backend, Plan.of(data.domain, WAYS, [1.0]), data, range(40))
    assert len(caught) == 1
    assert launches(standin, "assign") == batches
    assert launches(standin, "draw_codes") == 2


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [978_000, 985_000, 992_000])
@pytest.mark.parametrize("kind", ["synthetic", "in memory"])
def test_too_little_for_a_repetition_halves_the_users(standin, kind, hidden):
    """The first half's counts are set, the second's are added; each is counted once, and is told so."""
    data = gpu_rsfd.SyntheticDataset(20_000, (5, 3), seed=4) if kind == "synthetic" else in_memory(20_000, (5, 3))
    plan = Plan.of(data.domain, WAYS, [1.0])
    standin._reset(memory=1_000_000)
    with CupyBackend() as backend:
        standin._settings.hidden = hidden  # taken by another program after we looked
        done = []
        with pytest.warns(UserWarning, match="short of memory"):
            check(backend, plan, data, range(3), progress=done.append)
        assert sum(done) == plan.positions(data.n) * 3
    assert launches(standin, "assign") > 3  # a repetition of all users at a time would not do


def test_a_batch_that_fits_after_all_is_counted_once(standin, monkeypatch):
    """What was launched before memory ran out is given once: when users come in chunks, counts are added."""
    data = gpu_rsfd.SyntheticDataset(20_000, (5, 3), seed=4)
    plan = Plan.of(data.domain, WAYS, [1.0])
    with CupyBackend() as backend, backend.limited(Limits(groups=200, repetitions=2)):
        launch, calls, done = runner._Users.launch, [], []

        def short(users, first, last):
            calls.append((first, last))
            if len(calls) in (3, 10):
                raise standin.cuda.memory.OutOfMemoryError("Out of memory")
            return launch(users, first, last)

        monkeypatch.setattr(runner._Users, "launch", short)
        with pytest.warns(UserWarning, match="repetitions at a time: 2 -> 1"):
            check(backend, plan, data, range(8), progress=done.append)
    assert sum(done) == plan.positions(data.n) * 8


def test_the_second_output_is_as_large_as_the_first(standin):
    """Batches need not get smaller: another device may give back what it can't do."""
    data = gpu_rsfd.SyntheticDataset(200, (5, 3))
    plan = Plan.of(data.domain, WAYS, [1.0])
    job = runner.Job(plan, [AttributeJob.of(a) for a in plan.attributes], data, SEED, range(8))
    with CupyBackend() as backend:
        device = backend._runners[0]
        counts = [np.zeros((len(a.recipes), 8, a.k), np.int64) for a in plan.attributes]
        sampled = np.zeros((8, 2), np.int64)

        def launched():
            users = runner._Users(device, job, 0, job.groups, device._values(job, 0, job.groups))
            for share in ((0, 3), (3, 4), (4, 5), (5, 8)):
                job.unpack(users.launch(*share).arrived(), counts, sampled)

        device.submit(launched).result()
    with NumpyBackend(workers=1) as engine:
        right = engine.count(plan, data, SEED, range(8))
    assert all(map(np.array_equal, [*counts, sampled], [*right[0], right[1]]))


@pytest.mark.parametrize("n,domain,memory", [
    (64 * 300, (2,), 26_000),  # the codes on their way take sixteen times what they become
    (64 * 300, (2,), 48_000),
    (640, (300, 2), 150_000),  # there are more counts than users
    (64 * 40, (60, 2), 40_000),
])  # fmt: skip
def test_there_is_room_for_codes_and_counts(standin, n, domain, memory):
    """What fits is known beforehand: nothing is said of too little memory."""
    data = in_memory(n, domain)
    standin._reset(memory=memory)
    with CupyBackend() as backend:
        check(backend, Plan.of(domain, ("spl-oue", "smp-grr"), [1.0]), data, range(3))
        check(backend, Plan.of(domain, ("rsfd-oue-r", "spl-sue", "smp-grr"), [1.0]), data, range(3))  # beside values
    assert 0 < standin._settings.peak[0] <= memory


@pytest.mark.slow
@pytest.mark.parametrize("plans,draws", [
    ([MANY], 2 * 5),  # there are as many counts as would fill the memory that the values leave
    ([FEW, MANY], 2 + 2 * 5),  # … that the values left which stayed: they go
    ([FEW, FAKES], 2 + 2 * 2),  # … as many encoded fakes
], ids=["counts", "counts beside values", "fakes beside values"])  # fmt: skip
def test_there_is_room_for_what_a_repetition_needs(standin, plans, draws):
    standin._reset(memory=50_000)
    data = gpu_rsfd.SyntheticDataset(64 * 700, (8, 8), seed=1)
    with CupyBackend() as backend:
        for plan in plans:
            check(backend, plan, data, range(2))  # without a word of too little memory
    assert launches(standin, "draw_codes") == draws


def test_close_gives_everything_back(standin):
    data = gpu_rsfd.SyntheticDataset(5000, (50, 40))
    backend = CupyBackend()
    check(backend, Plan.of(data.domain, WAYS, [1.0]), data)
    assert standin._settings.used[0] + standin._settings.pooled[0] > 0
    assert standin._settings.pinned > 0
    backend.close()
    assert (standin._settings.used[0], standin._settings.pooled[0], standin._settings.pinned) == (0, 0, 0)


def test_values_stay_on_the_device_between_blocks(standin):
    first, second = (gpu_rsfd.SyntheticDataset(900, (5, 3), seed=s) for s in (1, 2))
    plan = Plan.of(first.domain, WAYS, [1.0])
    with CupyBackend() as backend:
        for block in (range(3), range(3, 5), range(5, 9)):
            check(backend, plan, first, block)
        assert launches(standin, "draw_codes") == 2
        check(backend, Plan.of(first.domain, ["spl-oue"], [2.0]), first)
        assert launches(standin, "draw_codes") == 2
        check(backend, plan, second)
        assert launches(standin, "draw_codes") == 4
        check(backend, plan, first)  # only the last one is kept
        assert launches(standin, "draw_codes") == 6


def test_values_that_stay_keep_to_the_limits(standin):
    data = gpu_rsfd.SyntheticDataset(1000, (5, 3), seed=1)
    plan = Plan.of(data.domain, WAYS, [1.0])
    with CupyBackend() as backend:
        check(backend, plan, data)
        assert launches(standin, "draw_codes") == 2
        done = []
        with backend.limited(Limits(groups=6)):
            check(backend, plan, data, range(5), progress=done.append)
        assert launches(standin, "draw_codes") == 2 + 2 * 3  # 16 groups: 6, 6, 4
        assert sum(done) == plan.positions(data.n) * 5


def test_a_new_data_set_at_an_old_address(standin, monkeypatch):
    """Values belong to a data set, not to where it is."""
    monkeypatch.setattr(runner, "id", lambda _: 1, raising=False)
    with CupyBackend() as backend:
        for seed in (1, 2):
            check(backend, PLAN, gpu_rsfd.SyntheticDataset(900, (5, 3), seed=seed))


class Reversed(gpu_rsfd.SyntheticDataset):
    """Synthetic by descent alone: its values are its own."""

    def column(self, attribute, start, stop):
        return self.domain[attribute] - 1 - super().column(attribute, start, stop)


def test_a_synthetic_data_set_with_values_of_its_own(standin):
    data = Reversed(900, (5, 3), "zipf:1.2", seed=1)
    with CupyBackend() as backend:
        check(backend, Plan.of(data.domain, WAYS, [1.0]), data)
        assert launches(standin, "pack_codes") == 2
    standin._reset(memory=26_000)
    data = Reversed(64 * 300, (2,))
    with CupyBackend() as backend:
        check(backend, Plan.of((2,), ("spl-oue",), [1.0]), data)  # with room for the codes


@pytest.mark.slow
def test_held_values_make_room(standin):
    """Too little memory is left beside the values for a plan that needs more: they go, without a word."""
    data = gpu_rsfd.SyntheticDataset(60_000, (200, 30), seed=1)
    standin._reset(memory=180_000)
    with CupyBackend() as backend:
        check(backend, Plan.of(data.domain, ["spl-oue"], [1.0]), data, range(1))
        assert launches(standin, "draw_codes") == 2
        check(backend, Plan.of(data.domain, ["rsfd-oue-r"], [1.0]), data, range(1))
        assert launches(standin, "draw_codes") == 6  # in two chunks


def test_a_data_set_is_not_kept_alive(standin):
    import gc
    import weakref

    data = gpu_rsfd.SyntheticDataset(900, (5, 3))
    plan = Plan.of(data.domain, WAYS, [1.0])
    with CupyBackend() as backend:
        check(backend, plan, data)
        gone = weakref.ref(data)
        del data
        gc.collect()
        assert gone() is None
        check(backend, plan, gpu_rsfd.SyntheticDataset(900, (5, 3), seed=7))


# The order of work


def test_a_batch_is_launched_before_the_one_before_it_is_unpacked(standin, monkeypatch):
    data = gpu_rsfd.SyntheticDataset(200, (5, 3))
    plan = Plan.of(data.domain, WAYS, [1.0])
    unpack = runner.Job.unpack

    def noted(job, part, *out):
        standin._settings.launches.append(("unpack", part.first))
        unpack(job, part, *out)

    monkeypatch.setattr(runner.Job, "unpack", noted)
    with CupyBackend() as backend, backend.limited(Limits(repetitions=2)):
        check(backend, plan, data, range(7))
    order = [name for name, _ in standin._settings.launches if name in ("assign", "unpack")]
    assert order == ["assign", "assign", "unpack", "assign", "unpack", "assign", "unpack", "unpack"]


def test_kernel_time_comes_from_events(standin):
    data = gpu_rsfd.SyntheticDataset(200, (5, 3))
    plan = Plan.of(data.domain, WAYS, [1.0])
    with CupyBackend() as backend:
        times = kernel_times(backend, lambda: backend.count(plan, data, 1, range(3)))
        assert set(times) == {name for name, _ in standin._settings.launches} - {"probe"}
        for name, took in times.items():  # a launch takes a millisecond of the device's own time
            assert took.seconds == pytest.approx(launches(standin, name) / 1000)
        before = len(standin._settings.launches)
        assert backend._runners[0].watch is None
        backend.count(plan, data, 1, range(3))
        assert len(standin._settings.launches) > before


def test_a_stopwatch_ends_with_what_failed(standin):
    with CupyBackend() as backend:
        with pytest.raises(ZeroDivisionError):
            kernel_times(backend, lambda: 1 / 0)
        assert backend._runners[0].watch is None


def test_the_items_of_a_kernel(standin):
    data = gpu_rsfd.SyntheticDataset(200, (5, 3))
    with CupyBackend() as backend:
        plan = Plan.of(data.domain, ("smp-grr",), [1.0])
        times = kernel_times(backend, lambda: backend.count(plan, data, 1, range(40)))
        assert times["assign"].items == times["count_sampled"].items == 200 * 40
        assert times["count_values"].items == 2 * 200 * 40  # two attributes
        plan = Plan.of(data.domain, ("spl-oue",), [1.0])
        times = kernel_times(backend, lambda: backend.count(plan, data, 1, range(3)))
        assert times["count_unary_2"].items == plan.positions(data.n) * 3


# Devices


def with_devices(standin, monkeypatch, devices=2, **settings):
    standin._reset(devices=devices)
    monkeypatch.setattr(runner, "BATCH_WORDS", 1)  # a repetition at a time
    data = gpu_rsfd.SyntheticDataset(200, (5, 3))
    backend = CupyBackend()
    standin._settings.launches.clear()  # of the probe
    standin._settings.__dict__.update(settings)
    return backend, Plan.of(data.domain, ("smp-grr",), [1.0]), data


@pytest.mark.parametrize("lost_at", ["launch", "later"])
@pytest.mark.parametrize("after", [0, 22])  # of 42: it has counted some of its repetitions
def test_the_others_count_what_a_lost_device_had_to(standin, monkeypatch, lost_at, after):
    backend, plan, data = with_devices(standin, monkeypatch, lost_after=after, lost_device=0, lost_at=lost_at)
    done = []
    with backend:
        with pytest.warns(
            UserWarning, match=r"\(device 0, sm_80\) failed: .*; the other devices count its repet"
        ) as told:
            check(backend, plan, data, range(20), progress=done.append)
        assert sum(done) == plan.positions(data.n) * 20
        standin._settings.launches.clear()
        check(backend, plan, data, range(20))  # it is not tried again
        assert {device for _, device in standin._settings.launches} == {1}
    assert len(told) == 1


def test_all_devices_lost(standin, monkeypatch):
    """The second device fails in its own share, or in that of the first."""
    for after, last in ((8, "device [01]"), (100, "device 1")):  # of the 82 launches of its own share
        devices.forget()
        backend, plan, data = with_devices(standin, monkeypatch)
        launch = standin.RawKernel.__call__

        def lost(kernel, *args, after=after, launch=launch, **options):
            mine = sum(device == kernel._device for _, device in standin._settings.launches)
            if mine >= (4 if kernel._device == 0 else after):
                raise standin.CUDADriverError("CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered")
            return launch(kernel, *args, **options)

        with monkeypatch.context() as patch, warnings.catch_warnings(), backend:
            warnings.simplefilter("ignore", UserWarning)
            patch.setattr(standin.RawKernel, "__call__", lost)
            with pytest.raises(DeviceLost, match=last):
                backend.count(plan, data, 1, range(40))


def test_what_was_handed_on_is_not_handed_on_again(standin, monkeypatch):
    """Device 0 is lost in its own share, device 1 in what is left of it; device 2 would be there."""
    backend, plan, data = with_devices(standin, monkeypatch, devices=3)
    launch = standin.RawKernel.__call__

    def lost(kernel, *args, **options):
        mine = sum(device == kernel._device for _, device in standin._settings.launches)
        if mine >= (4, 42, 10**9)[kernel._device]:  # 10 repetitions of 4 launches, and two that draw the values
            raise standin.CUDADriverError("CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered")
        return launch(kernel, *args, **options)

    monkeypatch.setattr(standin.RawKernel, "__call__", lost)
    with backend:
        with (
            pytest.warns(UserWarning, match=r"\(device 0, .*; the other devices count its repetitions") as told,
            pytest.raises(DeviceLost, match="device 1"),
        ):
            backend.count(plan, data, 1, range(30))
        assert len(told) == 1
        check(backend, plan, data, range(9))  # device 2 does the next call alone


def test_an_error_of_one_device_ends_the_work_of_the_others(standin, monkeypatch):
    backend, plan, data = with_devices(standin, monkeypatch)
    done, failed = [], threading.Event()

    def progress(positions):
        if threading.current_thread().name.startswith("cuda0"):
            failed.set()
            raise ZeroDivisionError
        failed.wait(0.05)  # not for long: one call at a time is made, and the first device may be the last to come
        done.append(positions)

    with backend, pytest.raises(ZeroDivisionError):
        backend.count(plan, data, 1, range(400), progress)
    assert len(done) < 200


def test_an_interrupt_ends_the_work_of_all(standin, monkeypatch):
    backend, plan, data = with_devices(standin, monkeypatch)
    end, done, started, at_work = threading.Event(), [], threading.Event(), []

    def progress(positions):
        at_work.append(1)
        started.set()
        assert end.wait(30)
        threading.Event().wait(0.1)  # a batch that takes longer than the interrupt
        done.append(positions)
        at_work.pop()

    wait = backend_module.wait

    def interrupted(futures, return_when=None):
        if return_when is None:  # afterwards: for the batch that each device has
            end.set()
            return wait(futures)
        assert started.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(backend_module, "wait", interrupted)
    with backend:
        with pytest.raises(KeyboardInterrupt):
            backend.count(plan, data, 1, range(200), progress)
        assert not at_work  # nobody goes on behind our back
    assert end.is_set()
    assert len(done) <= 4


def test_an_interrupt_waits_for_what_is_on_its_way(standin):
    """The device copies into memory that must not be given to anyone else."""
    data = gpu_rsfd.SyntheticDataset(200, (5, 3))
    plan = Plan.of(data.domain, WAYS, [1.0])

    def interrupt(_):
        assert standin._settings.copies[0]  # the next batch has been launched
        raise KeyboardInterrupt

    with CupyBackend() as backend:
        with backend.limited(Limits(repetitions=1)), pytest.raises(KeyboardInterrupt):
            backend.count(plan, data, 1, range(6), interrupt)
        assert not standin._settings.copies[0]
        check(backend, plan, data)


# Failures


def test_errors_that_arrive_late_are_errors_of_the_device(standin):
    data = gpu_rsfd.SyntheticDataset(200, (5, 3))
    plan = Plan.of(data.domain, WAYS, [1.0])
    standin._reset(lost_after=4, lost_at="later")
    with (
        CupyBackend() as backend,
        pytest.raises(DeviceLost, match=r"device 0, sm_80\) failed: cudaErrorIllegalAddress"),
    ):
        backend.count(plan, data, 1, range(6))


def test_an_error_without_a_message(standin, monkeypatch):
    data = gpu_rsfd.SyntheticDataset(200, (5, 3))
    plan = Plan.of(data.domain, WAYS, [1.0])

    def launch(*_, **__):
        raise standin.cuda.driver.CUDADriverError("")

    with CupyBackend() as backend:
        monkeypatch.setattr(runner.Runner, "launch", launch)
        with pytest.raises(DeviceLost, match=r"failed: CUDADriverError$"):
            backend.count(plan, data, 1, range(6))


def test_the_source_is_ascii():
    """CuPy writes it in the locale's encoding."""
    assert source(*KERNELS, BARE).isascii()
