"""The CuPy backend's host code: users and repetitions in pieces, memory, order of work, failures.

Each test fails for a mutant that other tests let pass.
"""

import threading
from dataclasses import replace

import numpy as np
import pytest
from cuda_standin import PTX, needs_compiler, needs_nvrtc

import gpu_rsfd
from gpu_rsfd.backends import timing
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.cpu.counting import Task
from gpu_rsfd.backends.cpu.counting import run as run_on_cpu
from gpu_rsfd.backends.cuda import backend as backend_module
from gpu_rsfd.backends.cuda import devices, runner
from gpu_rsfd.backends.cuda.backend import CupyBackend, DeviceLost, Limits
from gpu_rsfd.backends.cuda.kernels import source
from gpu_rsfd.backends.cuda.passes import AttributeJob
from gpu_rsfd.backends.cuda.work import Work
from gpu_rsfd.backends.pool import Columns
from gpu_rsfd.plan import Plan
from gpu_rsfd.protocols import Bits, Keep, Others, Recipe
from gpu_rsfd.tape import LANES, Tape

pytestmark = needs_compiler

WAYS = ("rsfd-grr", "spl-grr", "smp-grr", "rsfd-oue-r", "rsfd-oue-z", "spl-sue", "smp-oue")
SEED = 2**63 + 9


@pytest.fixture(params=["source", pytest.param("ptx", marks=[needs_nvrtc, pytest.mark.slow])])
def machine(request, standin):
    """The kernels as g++ takes their source, and by way of PTX, where each access to memory is checked."""
    settings = {} if request.param == "source" else PTX

    def reset(**more):
        standin._reset(**{**settings, **more})
        return standin

    reset()
    return reset


def in_memory(n, domain, seed=5):
    random = np.random.default_rng(seed)
    return gpu_rsfd.Dataset(np.stack([random.integers(0, k, n) for k in domain], axis=1), domain)


def check(backend, plan, data, repetitions=range(1, 6), seed=SEED):
    ours = backend.count(plan, data, seed, repetitions)
    with NumpyBackend(workers=1) as engine:
        right = engine.count(plan, data, seed, repetitions)
    for a, b in zip([*ours[0], ours[1]], [*right[0], right[1]], strict=True):
        assert np.array_equal(a, b)


def launches(standin, name):
    return sum(launched == name for launched, _ in standin._settings.launches)


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
            for part in device._users(job, start, start + 3, Work(0, 3)):
                job.unpack(replace(part, first_user=0), counts, sampled)
            stop = min((start + 3) * LANES, n)
            task = Task(start * LANES, stop, n, 2, assignment, tuple(repetitions), plan.attributes, True)
            right = run_on_cpu(task, SEED, Columns(data))
            assert np.array_equal(sampled, right.sampled)
            for a, b in zip(counts, right.counts, strict=True):
                assert np.array_equal(a, b)


# Thresholds that a draw meets exactly


def crafted(domain, recipes, assignment="uniform"):
    plan = Plan.of(domain, ("smp-grr", "rsfd-grr"), [1.0], assignment)
    return replace(plan, attributes=tuple(replace(a, recipes=tuple(recipes)) for a in plan.attributes))


@pytest.mark.parametrize("others", [Others.OWN, Others.NOTHING, Others.FAKE])
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
    recipes = [Recipe(Others.FAKE, Keep(2**30), prior), Recipe(Others.FAKE, Bits(2**23, 2**20), prior)]
    with CupyBackend() as backend:
        check(backend, crafted(data.domain, recipes), data, range(1, 3))


@pytest.mark.parametrize("tq", [1, 2**23 - 1, 2**23, 2**24 - 1])
@pytest.mark.parametrize("others", list(Others))
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
@pytest.mark.parametrize("hidden,batches", [(850_000, 4), (890_000, 4), (960_000, 21)])
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
        seconds = backend.kernel_seconds(lambda: backend.count(plan, data, 1, range(3)))
        assert {name for name, _ in standin._settings.launches} == set(seconds)
        assert all(s > 0 for s in seconds.values())
        before = len(standin._settings.launches)
        assert backend._runners[0].watch is None
        backend.count(plan, data, 1, range(3))
        assert len(standin._settings.launches) > before


def test_what_is_timed_has_been_compiled(standin, monkeypatch):
    """Or a dry run would multiply the compiler's seconds by the repetitions."""
    data = gpu_rsfd.SyntheticDataset(5000, (5, 3))
    plan = Plan.of(data.domain, WAYS, [1.0])
    timed = []

    def time_of(do):
        before = {name for _, kernels in runner._modules.values() for name in kernels}
        do()
        timed.append({name for _, kernels in runner._modules.values() for name in kernels} - before)
        return 1.0

    monkeypatch.setattr(timing, "timed", time_of)
    with CupyBackend() as backend:
        assert backend.seconds_per_repetition(data, plan, 1000) > 0
    assert timed
    assert not any(timed)


# Devices


def test_only_the_devices_asked_for_are_touched(standin):
    standin._reset(devices=3)
    with CupyBackend([1]) as backend:
        data = gpu_rsfd.SyntheticDataset(200, (5, 3))
        check(backend, Plan.of(data.domain, WAYS, [1.0]), data)
    assert standin._settings.contexts == {1}
    assert [d.index for d in devices.probe([2, 7]).devices] == [2]
    assert standin._settings.contexts == {1, 2}
    assert len(devices.probe().devices) == 3


def in_two_devices(standin, monkeypatch, **settings):
    standin._reset(devices=2, **settings)
    monkeypatch.setattr(backend_module, "LEAST_POSITIONS", 1)
    monkeypatch.setattr(runner, "BATCH_WORDS", 1)  # a repetition at a time
    data = gpu_rsfd.SyntheticDataset(200, (5, 3))
    return CupyBackend(), Plan.of(data.domain, ("smp-grr",), [1.0]), data


def test_a_slow_device_does_not_keep_the_others_waiting(standin, monkeypatch):
    """Device 0 gets nothing done until device 1 has done nearly everything."""
    backend, plan, data = in_two_devices(standin, monkeypatch)
    done, most = [0, 0], threading.Event()

    def progress(positions):
        device = standin._current()
        done[device] += positions // plan.positions(data.n)
        if done[1] >= 34:
            most.set()

    unpack = runner.Job.unpack

    def slow(job, part, *out):
        if standin._current() == 0:
            assert most.wait(30)
        unpack(job, part, *out)

    monkeypatch.setattr(runner.Job, "unpack", slow)
    with backend:
        backend.count(plan, data, 1, range(40), progress)
    assert sum(done) == 40


def stopped(monkeypatch):
    """An event that is set when no more work is given out."""
    event, stop = threading.Event(), Work.stop
    monkeypatch.setattr(Work, "stop", lambda work: (stop(work), event.set()))
    return event


def test_a_lost_device_ends_the_work_of_the_others(standin, monkeypatch):
    backend, plan, data = in_two_devices(standin, monkeypatch, lost_after=0, lost_device=0)
    end, done = stopped(monkeypatch), []

    def progress(positions):
        assert end.wait(30)
        done.append(positions)

    with backend, pytest.raises(DeviceLost, match="device 0"):
        backend.count(plan, data, 1, range(200), progress)
    assert end.is_set()
    assert len(done) <= 2


def test_an_interrupt_ends_the_work_of_all(standin, monkeypatch):
    backend, plan, data = in_two_devices(standin, monkeypatch)
    end, done, started = stopped(monkeypatch), [], threading.Event()

    def progress(positions):
        started.set()
        assert end.wait(30)
        done.append(positions)

    def interrupted(*_, **__):
        assert started.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(backend_module, "wait", interrupted)
    with backend, pytest.raises(KeyboardInterrupt):
        backend.count(plan, data, 1, range(200), progress)
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
    assert source().isascii()
