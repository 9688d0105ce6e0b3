"""The CuPy backend's host code on a strict stand-in for CuPy: devices, memory, limits, failures."""

import sys
import warnings

import numpy as np
import pytest
from cuda_standin import needs_compiler, no_cupy, standin  # noqa: F401

import gpu_rsfd
from gpu_rsfd.backends import BACKENDS, BackendUnavailable, open_backend
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.cuda import devices
from gpu_rsfd.backends.cuda import runner as cuda
from gpu_rsfd.backends.cuda.backend import CupyBackend, DeviceLost
from gpu_rsfd.backends.cuda.kernels import source
from gpu_rsfd.backends.reference import ON_DEVICES
from gpu_rsfd.planning import Plan

DATA = gpu_rsfd.SyntheticDataset(3000, (5, 3), "zipf:1", seed=4)
PLAN = Plan.of(DATA.domain, ON_DEVICES, [0.5, 2.0])
REPETITIONS = range(4, 25, 2)
HOST = ("native", "numpy")
RIGHT = NumpyBackend(workers=1).count(PLAN, DATA, 9, REPETITIONS)


def is_right(result):
    return all(np.array_equal(a, b) for a, b in zip(result[0], RIGHT[0], strict=True)) and np.array_equal(
        result[1], RIGHT[1]
    )


def count(**options):
    with CupyBackend(**options) as backend:
        return backend.count(PLAN, DATA, 9, REPETITIONS)


@pytest.mark.slow
@needs_compiler
def test_two_devices_share_the_repetitions(standin, monkeypatch):  # noqa: F811
    standin._reset(devices=2)
    monkeypatch.setattr(cuda, "BATCH_WORDS", 1)  # a repetition at a time
    assert is_right(count())
    counted = [device for name, device in standin._settings.launches if name == "assign"]
    assert (counted.count(0), counted.count(1)) == (6, 5)
    standin._settings.launches.clear()
    assert is_right(count(devices=[1]))
    assert {device for _, device in standin._settings.launches} == {1}


@needs_compiler
def test_more_devices_than_repetitions(standin):  # noqa: F811
    standin._reset(devices=3)
    with CupyBackend() as backend:
        counts, _ = backend.count(PLAN, DATA, 9, REPETITIONS[:2])
    assert all(np.array_equal(a, b[:, :2]) for a, b in zip(counts, RIGHT[0], strict=True))


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("memory", [40_000, 30_000])
def test_batches_fit_the_memory(standin, memory):  # noqa: F811
    """Without a word: the free memory is known beforehand."""
    standin._reset(memory=memory)
    assert is_right(count())
    assert 0 < standin._settings.peak[0] <= memory
    assert len(standin._settings.launches) > 20


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("hidden", [950_000, 967_000])
def test_out_of_memory_halves_the_batch_and_says_so_once(standin, hidden):  # noqa: F811
    standin._reset(memory=1_000_000)
    standin._settings.hidden = hidden  # taken by another program after we looked
    with pytest.warns(UserWarning, match="short of memory: smaller batches from here on") as caught:
        assert is_right(count())
    assert len(caught) == 1


@needs_compiler
def test_hopelessly_little_memory(standin):  # noqa: F811
    standin._reset(memory=1_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(MemoryError, match="too little free memory for even 64 users"):
            count()


@needs_compiler
def test_a_lost_device_ends_with_one_clear_error(standin):  # noqa: F811
    standin._reset()
    done = []
    with CupyBackend() as backend:
        backend.count(PLAN, DATA, 9, REPETITIONS, done.append)
        assert sum(done) == PLAN.positions(DATA.n) * len(REPETITIONS)
        standin._settings.lost_after = len(standin._settings.launches) + 3
        with pytest.raises(DeviceLost, match=r"CPU stand-in \(device 0, sm_80\) failed: CUDA_ERROR_ECC_UNCORRECTABLE"):
            backend.count(PLAN, DATA, 9, REPETITIONS)
    assert issubclass(DeviceLost, RuntimeError)


@needs_compiler
def test_source_that_does_not_compile_is_a_clear_error_too(standin, monkeypatch):  # noqa: F811
    monkeypatch.setattr(cuda, "source", lambda *_: "__global__ void nonsense(")
    with pytest.raises(DeviceLost, match=r"CPU stand-in \(device 0, sm_80\) failed: g\+\+ failed"):
        count()


@pytest.mark.slow
@needs_compiler
def test_launch_limits_are_kept(standin, monkeypatch):  # noqa: F811
    standin._reset(max_threads=cuda.BLOCK)
    monkeypatch.setattr(cuda, "MAX_BLOCKS", 40)
    assert is_right(count())
    monkeypatch.setattr(cuda, "MAX_INDEX", 2000)
    assert is_right(count())


@pytest.mark.slow
@needs_compiler
def test_a_module_is_compiled_once_per_device(standin, monkeypatch):  # noqa: F811
    standin._reset(devices=2)
    made = []
    module = standin.RawModule

    def noted(code, options):
        made.append((standin._current(), code))
        return module(code=code, options=options)

    monkeypatch.setattr(standin, "RawModule", noted)
    for device in (0, 1, 0, 1):
        assert is_right(count(devices=[device]))
    assert len(set(made)) == len(made)
    assert {code for device, code in made if device == 0} == {code for device, code in made if device == 1}
    assert {devices.PROBE, source("assign", "count_values")} <= {code for _, code in made}


@needs_compiler
def test_the_probe_survives_what_does_not_work(standin):  # noqa: F811
    standin._reset(devices=2, broken=(0,))
    assert [d.index for d in devices.probe().devices] == [1]
    with pytest.raises(
        BackendUnavailable, match=r"device=0 is not available; working CUDA devices: 1; CUDA device 0 doe"
    ):
        CupyBackend([0])
    with pytest.raises(ValueError, match=r"devices=\[1, 1\] must be one or more different"):
        CupyBackend([1, 1])
    devices.forget()
    standin._reset(devices=1, broken=(0,))
    with pytest.raises(BackendUnavailable, match="CUDA device 0 does not work: cudaErrorDevicesUnavailable"):
        open_backend("cupy")
    assert open_backend("auto")[0].name in HOST


def test_no_device_or_no_driver(standin):  # noqa: F811
    standin._settings.devices = 0
    with pytest.raises(BackendUnavailable, match="no CUDA device found by the driver"):
        open_backend("cupy")
    devices.forget()
    standin._settings.devices = None
    with pytest.raises(BackendUnavailable, match=r"no CUDA (driver|device)"):
        open_backend("cupy")
    backend, reason = open_backend("auto")
    assert backend.name in HOST
    assert reason.startswith(f"{backend.name}, since no ")


def test_without_cupy(no_cupy):  # noqa: F811
    backend, reason = open_backend()
    assert backend.name in HOST
    assert backend.name == "numpy" or "CuPy is not installed: install the extra cuda13" in reason
    with pytest.raises(
        BackendUnavailable, match=r'not available: CuPy is not installed: .* pip install "gpu-rsfd\[cuda13\]'
    ):
        gpu_rsfd.simulate(DATA, backend="cupy")


@needs_compiler
def test_auto_takes_a_device_that_works(standin):  # noqa: F811
    backend, reason = open_backend("auto")
    assert (backend.name, reason) == ("cupy", "cupy, since 1 CUDA device can be used")
    assert backend.device == "CPU stand-in (device 0, sm_80)"
    assert open_backend("auto", workers=2)[0].name in HOST
    assert open_backend("auto", devices=[0])[0].name == "cupy"
    r = gpu_rsfd.simulate(DATA, epsilons=[0.5, 2.0], protocols=ON_DEVICES, repetitions=REPETITIONS, seed=9)
    assert np.array_equal(r.counts, PLAN.expand(RIGHT[0]))
    assert standin._settings.launches


@pytest.mark.parametrize("options,message", [
    ({"name": "jax"}, "unknown backend 'jax'; available: auto, cupy, native, numpy"),
    ({"name": "numpy", "devices": [0]}, r"devices=\[0\] cannot be used with backend 'numpy'"),
    ({"name": "auto", "workers": 2, "devices": [0]}, r"workers=2 are for native and numpy, devices=\[0\] for cupy"),
])  # fmt: skip
def test_bad_choices(options, message):
    assert BACKENDS == ("auto", "cupy", "native", "numpy")
    with pytest.raises(ValueError, match=message):
        open_backend(**options)


def test_importing_gpu_rsfd_does_not_import_cupy():
    import subprocess

    program = "import sys, gpu_rsfd, gpu_rsfd.doctor, gpu_rsfd.backends.cuda.backend; sys.exit('cupy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


@needs_compiler
def test_the_stand_in_is_strict(standin):  # noqa: F811
    kernel = standin.RawModule(code=source("pack_codes"), options=()).get_function("pack_codes")
    codes, planes = standin.zeros(64, np.uint16), standin.empty((1, 1), np.uint64)
    good = (codes, np.uint64(64), np.uint32(1), np.uint32(1), planes)
    kernel((1,), (32,), good)
    assert planes.get().tolist() == [[0]]
    for i, bad, message in [
        (0, np.zeros(64, np.uint16), "has no width of its own"),
        (1, 64, "int has no width of its own"),
        (1, np.uint32(64), "4 bytes given, 8 wanted"),
        (4, np.uint64(0), "8 bytes given, 0 wanted"),
    ]:
        with pytest.raises(TypeError, match=message):
            kernel((1,), (32,), (*good[:i], bad, *good[i + 1 :]))
    with pytest.raises(TypeError, match="takes 5 arguments, got 4"):
        kernel((1,), (32,), good[:4])
    for grid, block, shared in [(0, 32, 0), (1, 2048, 0), (2**31, 32, 0), (1, 32, 49_153)]:
        with pytest.raises(standin.cuda.driver.CUDADriverError, match="invalid argument"):
            kernel((grid,), (block,), good, shared_mem=shared)
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(planes)
    with pytest.raises(standin.cuda.driver.CUDADriverError, match="not found"):
        standin.RawModule(code=source("pack_codes"), options=()).get_function("nothing")
    with pytest.raises(standin.cuda.memory.OutOfMemoryError):
        standin.empty(1 << 31, np.uint8)
    assert set(standin.empty(8, np.uint8).get()) == {0xCD}
