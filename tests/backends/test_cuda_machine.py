"""What a machine with GPUs may be like, on a stand-in for CuPy that follows CUDA's rules: which devices are touched,
which can run a kernel, processes, threads, folders and memory that fail.
"""

import gc
import os
import re
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from cuda_standin import FOLDER, SEED, WAYS, check, in_memory, launches, needs_compiler

import gpu_rsfd
from gpu_rsfd.backends import BackendUnavailable, open_backend
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.cuda import devices, runner
from gpu_rsfd.backends.cuda.backend import CupyBackend, DeviceLost, Limits
from gpu_rsfd.backends.cuda.kernels import BARE, OPTIONS, source
from gpu_rsfd.backends.cuda.passes import KEY, AttributeJob, key_rounds
from gpu_rsfd.backends.cuda.speed import kernel_times
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import Recipe, Unsampled
from gpu_rsfd.tape import Tape

pytestmark = needs_compiler

DATA = gpu_rsfd.SyntheticDataset(900, (5, 3), seed=3)
PLAN = Plan.of(DATA.domain, WAYS, [1.0])


# Which devices are touched


def test_going_back_to_a_device_touches_it(standin):
    """The rule that the next test relies on: since CUDA 12 a device that becomes current gets a context."""
    standin._reset(devices=2)
    with standin.cuda.Device(1):
        assert standin._settings.contexts == {1}
    assert standin._settings.contexts == {0, 1}
    assert standin.cuda.Device(1).mem_info
    standin._reset(devices=2, broken=(0,))
    with pytest.raises(standin.CUDARuntimeError, match="busy or unavailable"), standin.cuda.Device(1):
        pass


def test_only_the_devices_asked_for_are_touched(standin):
    """Device 0 is in exclusive mode, and somebody else's."""
    standin._reset(devices=3, broken=(0,))
    with CupyBackend([1]) as backend:
        check(backend, PLAN, DATA)
        with backend.limited(Limits(groups=6, repetitions=2)):
            check(backend, PLAN, DATA)
        assert kernel_times(backend, lambda: check(backend, PLAN, DATA))
    assert standin._settings.contexts == {1}
    assert [d.index for d in devices.probe([2, 7]).devices] == [2]
    assert standin._settings.contexts == {1, 2}
    assert len(devices.probe().devices) == 2


def test_close_gives_back_what_every_device_has(standin, monkeypatch):
    standin._reset(devices=3)
    backend = CupyBackend([1, 2])
    for device in backend._runners:  # which of them gets how much in a shared run is a matter of luck
        device.submit(lambda device=device: device._values(job_of(backend, PLAN, DATA), 0, 15)).result()
    assert all(standin._settings.used[i] + standin._settings.pooled[i] for i in (1, 2))
    backend.close()
    assert standin._settings.used == standin._settings.pooled == [0, 0, 0]
    assert standin._settings.contexts == {1, 2}
    check(backend, PLAN, DATA)  # it may be used again
    backend.close()


def test_an_interrupt_waits_for_the_device_that_it_interrupts(standin):
    """The copy is on its way from device 1."""
    standin._reset(devices=2)

    def interrupt(_):
        assert standin._settings.copies[1]
        raise KeyboardInterrupt

    with CupyBackend([1]) as backend, backend.limited(Limits(repetitions=1)):
        with pytest.raises(KeyboardInterrupt):
            backend.count(PLAN, DATA, 1, range(6), interrupt)
        assert not standin._settings.copies[1]


# Devices that can't run a kernel


@pytest.mark.parametrize("settings,reason", [
    ({"capability": "70"}, r"does not work: nvrtc: error: invalid value for --gpu-architecture \(-arch\); "
     r"NVRTC 13\.0 has no sm_70: install the extra cuda12 in place of cuda13$"),
    ({"capability": "120", "nvrtc": (12, 4)}, r"does not work: CUDA_ERROR_NO_BINARY_FOR_GPU: .*; "
     r"NVRTC 12\.4 has no sm_120: install the extra cuda13, or a newer CUDA 12 \(12\.8 or later for sm_120\)$"),
    ({"nvrtc": None}, r'does not work: Failure finding "libnvrtc\.so".*; the CUDA compiler is missing, .*\[cuda13\]'),
    ({"driver": 12040}, "the driver is too old: it has CUDA 12.4, CuPy here needs 13.0; update it or install the extra "
     "cuda12$"),
    ({"driver": 11080}, "the driver is too old: it has CUDA 11.8, CuPy here needs 13.0; update it$"),
    ({"driver": 0}, r"no CUDA device \(cudaErrorInsufficientDriver"),
    ({"lost_after": 0}, "does not work: CUDA_ERROR_ECC_UNCORRECTABLE"),
])  # fmt: skip
def test_a_device_that_cannot_run_a_kernel_is_not_taken(standin, monkeypatch, settings, reason):
    monkeypatch.setattr(devices, "no_driver", lambda: False)
    standin._reset(**settings)
    with pytest.raises(BackendUnavailable, match=reason):
        open_backend("cupy")
    backend, why = open_backend("auto")
    assert why.startswith(f"{backend.name}, since")
    assert backend.name in ("native", "numpy")


def test_the_page_has_the_messages_as_they_are(standin, monkeypatch):
    """Each row of docs/cuda.md's table is said by a machine that is like that."""
    monkeypatch.setattr(devices, "no_driver", lambda: False)
    said = []
    for settings in ({"capability": "70"}, {"capability": "120", "nvrtc": (12, 4)}, {"driver": 12040}, {"nvrtc": None},
                     {"broken": (0,)}, {}):  # fmt: skip
        devices.forget()
        standin._reset(**settings)
        standin._settings.process = None if settings else -1  # of another process
        said.append(devices.probe().reason)
    page = (FOLDER.parent.parent / "docs" / "cuda.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)
    assert len(rows) == len(said)
    for row, reason in zip(rows, said, strict=True):
        assert re.search(re.escape(row).replace("…", r"\d+"), reason)


def test_a_driver_of_the_same_major_version_is_not_too_old(standin, monkeypatch):
    """For 13.0, where CuPy has 13.2: something else is the matter."""

    def count():
        raise standin.CUDARuntimeError("cudaErrorSystemNotReady: system not yet initialized")

    monkeypatch.setattr(devices, "no_driver", lambda: False)
    monkeypatch.setattr(standin.cuda.runtime, "getDeviceCount", count)
    assert devices.probe().reason == "no CUDA device (cudaErrorSystemNotReady: system not yet initialized)"


@pytest.mark.parametrize("settings", [{"capability": "70", "nvrtc": (12, 9)}, {"capability": "120"}])
def test_one_that_can_is_taken(standin, settings):
    standin._reset(**settings)
    assert open_backend("auto")[0].name == "cupy"


def test_a_kernel_that_gives_wrong_numbers_is_noticed(standin, monkeypatch):
    monkeypatch.setattr(devices, "PROBE", devices.PROBE.replace("+ 1", "+ 2"))
    assert devices.probe().reason == "CUDA device 0 does not work: a kernel gave wrong numbers"


def test_a_forked_process_looks_again(standin):
    backend = CupyBackend()
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads
        child = os.fork()
    if child == 0:
        text = "no error"
        try:
            text = devices.probe().reason
            backend.count(PLAN, DATA, 1, range(1))
        except RunError as error:
            text += f"; {error}"
        finally:
            os.write(write, text.encode())
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    assert text.startswith("CUDA can't be used in a process that was forked from one that used it")
    assert text.endswith("can't be used in a process forked from the one that opened it: open it again")
    assert devices.probe().devices
    backend.close()


# Threads


@pytest.mark.slow
def test_two_threads_get_their_own_counts(standin, monkeypatch):
    """Which data set's values are on the device is looked at and then relied upon."""
    data = [gpu_rsfd.SyntheticDataset(900, (5, 3), seed=s) for s in (1, 2)]
    plans = [Plan.of(DATA.domain, WAYS, [1.0]), Plan.of(DATA.domain, WAYS, [2.0])]
    with NumpyBackend(workers=1) as engine:
        right = [engine.count(p, x, SEED, range(2)) for p, x in zip(plans, data, strict=True)]
    holds, other = runner.Runner._holds, threading.Event()

    def slowly(device, job):
        answer = holds(device, job)
        other.wait(0.05)  # long enough for another thread to bring its own
        return answer

    monkeypatch.setattr(runner.Runner, "_holds", slowly)
    wrong = []
    with CupyBackend() as backend:

        def work(i):
            for _ in range(4):
                counts, sampled = backend.count(plans[i], data[i], SEED, range(2))
                if not all(map(np.array_equal, [*counts, sampled], [*right[i][0], right[i][1]])):
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_two_threads_have_their_own_plans(standin):
    """What a plan needs is remembered for the next call, and by another thread for another plan."""
    both = threading.Barrier(2)

    class Shared(CupyBackend):
        @property
        def _known(self):
            return self._kept

        @_known.setter
        def _known(self, value):
            self._kept = value
            if value is not None:
                both.wait(30)  # until both have remembered theirs

    few = Plan.of(DATA.domain, ("spl-oue",), [2.0])
    errors = []

    def work(backend, plan):
        try:
            check(backend, plan, DATA)
        except BaseException as error:
            errors.append(error)

    with Shared() as backend:
        threads = [threading.Thread(target=work, args=(backend, plan)) for plan in (PLAN, few)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors


# What fails and need not end the run


def test_without_pinned_memory(standin):
    """One line of ours, none of CuPy's; and where warnings are errors, the device works all the same."""
    standin._reset(pinned_fails=True)
    assert len(devices.probe().devices) == 1  # warnings are errors here
    with CupyBackend() as backend, backend.limited(Limits(repetitions=2)):
        with pytest.warns(UserWarning, match=r"\(device 0, sm_80\) has too little pinned memory: copies take") as told:
            check(backend, PLAN, in_memory(900, (5, 3)))
        check(backend, PLAN, DATA)  # without another word
        assert [warning.category for warning in told] == [UserWarning]
    assert standin._settings.pinned == 0


@pytest.mark.parametrize("what,many", [("launch", 1), ("launch", 3), ("module", 1), ("event", 2)])
def test_too_little_memory_for_a_launch_a_module_or_an_event(standin, what, many):
    """Less at a time, as when an array does not fit."""
    with CupyBackend() as backend:
        standin._settings.short = {what: many}
        with pytest.warns(UserWarning, match="short of memory: smaller batches from here on") as told:
            check(backend, PLAN, DATA)
        assert standin._settings.short == {what: 0}
    assert len(told) == 1


def test_a_kernel_s_error_is_not_taken_for_too_little_pinned_memory(standin, monkeypatch):
    """Any call may bring it."""

    def allocate(_):
        raise standin.CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")

    monkeypatch.setattr(standin.cuda, "alloc_pinned_memory", allocate)
    with CupyBackend() as backend, pytest.raises(DeviceLost, match=r"sm_80\) failed: cudaErrorIllegalAddress"):
        backend.count(PLAN, DATA, 1, range(2))  # without a word: warnings are errors here


def test_a_batch_that_is_given_up_holds_no_memory(standin, monkeypatch):
    """Or its half would not fit, either."""
    launch, values, calls, held = runner._Users.launch, runner.Runner._values, [], []

    def short(users, first, last):
        calls.append(users.groups)
        if len(calls) > 2 and users.groups == 15:
            raise standin.cuda.memory.OutOfMemoryError("Out of memory")
        return launch(users, first, last)

    def noted(device, job, start, stop):
        held.append(standin._settings.used[0])
        return values(device, job, start, stop)

    monkeypatch.setattr(runner._Users, "launch", short)
    monkeypatch.setattr(runner.Runner, "_values", noted)
    with CupyBackend() as backend, backend.limited(Limits(repetitions=1)), pytest.warns(UserWarning, match="-> 512"):
        check(backend, PLAN, DATA)
    assert calls.count(15) == 3
    assert held == [0, 0, 0]


@pytest.mark.parametrize("memory,n", [(100_000, 120_000), (120_000, 120_000)])
def test_values_that_go_leave_no_pieces(standin, memory, n):
    """A small array would take a piece of theirs, and a large one would not fit beside it."""
    standin._reset(memory=memory)
    with CupyBackend() as backend:
        for domain in ((16,), (2, 16)):  # without a word of too little memory
            data = gpu_rsfd.SyntheticDataset(n, domain)
            backend.count(Plan.of(domain, ["spl-oue"], [1.0]), data, 1, range(1))


@pytest.mark.slow
def test_a_failure_touches_no_other_device(standin):
    """What the failed work held ends in the device's own thread; so do the events of a stopwatch."""
    standin._reset(devices=2, broken=(0,))
    with CupyBackend([1]) as backend:

        def failing():
            backend.count(PLAN, DATA, 1, range(2))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            kernel_times(backend, failing)
        assert standin._settings.contexts == {1}
        for lost_at in ("launch", "later"):
            standin._settings.lost.clear()
            standin._settings.__dict__.update(lost_at=lost_at, lost_after=len(standin._settings.launches) + 2)
            with pytest.raises(DeviceLost) as caught:
                backend.count(PLAN, DATA, 1, range(6))
            assert caught.value.__cause__ is not None
            del caught
            gc.collect()
            assert standin._settings.contexts == {1}


def test_an_error_that_is_no_device_s_touches_no_other_device(standin):
    """Events of what was on its way end in the device's thread, with `close`; what the traceback holds, before."""
    standin._reset(devices=2, broken=(0,))
    limits = Limits(repetitions=1)
    with pytest.raises(ZeroDivisionError) as caught, CupyBackend([1]) as backend, backend.limited(limits):
        backend.count(PLAN, DATA, 1, range(6), lambda _: 1 / 0)
    del backend, caught
    gc.collect()
    assert standin._settings.contexts == {1}


PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import cupy
from gpu_rsfd.cli.program import main
cupy._reset(**eval(sys.argv.pop(1)))
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("settings,code,said", [
    ({"lost_after": 8}, 1,
     r"\(device 0, sm_80\) failed: CUDA_ERROR_ECC.*; nothing was finished.* to continue:\n  .*\n"),
    ({"devices": 2, "lost_after": 5, "lost_device": 1, "lost_at": "later", "pinned_fails": True}, 0,
     r"\(device \d, sm_80\) has too little pinned .*\n"
     r"gpu-rsfd: CPU stand-in \(device 1, sm_80\) failed: cudaErrorIllegal.*; the other devices count its rep.*\n"),
    ({"pinned_fails": True}, -1, r"\(device 0, sm_80\) has too little pinned memory: .*\n"),
], ids=["lost", "one of two lost", "a warning that is an error"])  # fmt: skip
def test_standard_error_has_our_lines_alone(tmp_path, settings, code, said):
    """Nothing of CuPy's, which warns where pinned memory is short, and unloads modules when the process ends."""
    options = "sweep --backend cupy --users 2000 --domain 5,3 --repetitions 6 --no-plot --quiet --output"
    python = [sys.executable, *(["-W", "error"] if code < 0 else [])]
    program = [*python, "-c", PROGRAM, str(FOLDER), repr(settings), *options.split(), str(tmp_path / "r.h5")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert done.returncode == abs(code)
    assert re.fullmatch(f"gpu-rsfd: CPU stand-in {said}", done.stderr), done.stderr


def test_without_a_folder_for_kernels(standin, monkeypatch):
    """A full disk, or a home that can't be written to: kernels are compiled in memory."""
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "0")
    standin._reset(cache_fails=True)
    assert len(devices.probe().devices) == 1
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "0")
    with CupyBackend() as backend:
        check(backend, PLAN, DATA)
    assert os.environ["CUPY_CACHE_IN_MEMORY"] == "1"


def test_cupy_is_imported_without_a_home(monkeypatch, tmp_path):
    """The real one makes a folder there."""
    pytest.importorskip("cupy", exc_type=ImportError)
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "file" / "folder"))
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "0")
    assert devices._import_cupy().__version__
    assert os.environ["CUPY_CACHE_IN_MEMORY"] == "1"
    assert os.path.isdir(os.environ["CUPY_CACHE_DIR"])


def test_a_lost_device_names_the_kernel(standin):
    with CupyBackend() as backend:
        check(backend, PLAN, DATA)
        standin._settings.lost_after = len(standin._settings.launches) + 1  # assign, then count_values
        with pytest.raises(
            DeviceLost, match=r"\(in the kernel count_values or one before; CUDA_LAUNCH_BLOCKING=1 or c"
        ):
            backend.count(PLAN, DATA, 1, range(2))


def test_a_noise_that_the_kernels_do_not_have(standin):
    from dataclasses import dataclass, replace

    @dataclass(frozen=True)
    class Hashed:
        g: int = 4

    attributes = [replace(a, recipes=(*a.recipes, Recipe(Unsampled.OWN, Hashed()))) for a in PLAN.attributes]
    with (
        CupyBackend() as backend,
        pytest.raises(InputError, match=r"the cupy backend does not know the noise .*Hashed\(g=4\); it knows"),
    ):
        backend.count(replace(PLAN, attributes=tuple(attributes)), DATA, 1, range(1))


# Limits


def job_of(backend, plan, data, repetitions=range(1)):
    return runner.Job(plan, [AttributeJob.of(a) for a in plan.attributes], data, SEED, repetitions)


def test_indices_do_not_wrap(standin):
    """A thread steps beyond the last group by a block, a block by a tile: both in 32 bits."""
    data = gpu_rsfd.SyntheticDataset(2**39, (2,))
    job = job_of(None, Plan.of((2,), ("spl-oue",), [1.0]), data)
    assert 2**31 < job.most_groups() < 2**32 - runner.TILE - 2**16 - runner.BLOCK


def test_a_kernel_is_short_where_its_time_is_limited(standin, monkeypatch):
    """Each launch of a display's device goes through so many positions at most."""
    monkeypatch.setattr(runner, "BATCH_POSITIONS", 2000)
    data = gpu_rsfd.SyntheticDataset(900, (5, 3), seed=3)
    for limited, chunks in (((), 1), ((0,), 5)):  # 15 groups of 64 users x 8 values: at most 3 at a time
        devices.forget()
        standin._reset(time_limit=limited)
        with CupyBackend() as backend:
            check(backend, PLAN, data, range(2))
            check(backend, PLAN, data, range(2))  # values that stayed make no difference
        assert launches(standin, "draw_codes") == 2 * (chunks if chunks == 1 else 2 * chunks)


def test_windows_limits_the_time(standin, monkeypatch):
    assert not devices.probe().devices[0].time_limit
    monkeypatch.setattr("platform.release", lambda: "5.15.167.4-microsoft-standard-WSL2")
    devices.forget()
    assert devices.probe().devices[0].time_limit


# The yardstick


@pytest.mark.parametrize("groups,columns", [(5, 1), (130, 3)])
def test_the_bare_tape_draws_the_words_of_the_unary_kernels(standin, groups, columns):
    kernel = standin.RawModule(code=source(BARE), options=OPTIONS).get_function(BARE)
    key, sums = np.zeros(1, KEY), standin.empty(groups, np.uint64)
    key["rounds"][0] = key_rounds(SEED)
    kernel((1,), (128,), (key, np.uint64(columns), np.uint32(groups), sums))
    right = np.zeros(groups, np.uint64)
    for column in range(columns):
        right ^= np.bitwise_xor.reduce(Tape(SEED).bits(column, 0, 0, groups).reshape(groups, -1), axis=1)
    assert np.array_equal(sums.get(), right)


def test_the_host_can_be_timed_alone(standin):
    """`benchmarks/host.py`: kernels do nothing, and a device is taken all the same."""
    standin._reset(idle=True)
    with CupyBackend() as backend:
        backend.count(PLAN, DATA, 1, range(2))
    assert launches(standin, "assign") == 1
