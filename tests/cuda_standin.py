"""Fixtures and helpers of the CUDA tests: the stand-in for CuPy in place of the real one."""

import importlib
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import cuda_nvrtc as nvrtc
import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.cuda import devices, kernels
from gpu_rsfd.backends.cuda import runner as cuda
from gpu_rsfd.backends.cuda.backend import CupyBackend
from gpu_rsfd.backends.reference import Case
from gpu_rsfd.doctor import compared
from gpu_rsfd.planning import Plan

FOLDER = Path(__file__).parent / "standin"
WAYS = ("rsfd-grr", "spl-grr", "smp-grr", "rsfd-oue-r", "rsfd-oue-z", "spl-sue", "smp-oue")  # one of each kind

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="g++ is not installed: the CUDA kernels cannot be run on the CPU"
)
needs_nvrtc = pytest.mark.skipif(
    shutil.which("g++") is None or not nvrtc.available(), reason="NVRTC or g++ is not installed: no PTX to run"
)
MUTANT_CASES = [
    Case(65, (3, 2), (1.0,), WAYS),
    Case(5000, (2, 3), (1.0,), WAYS, repetitions=range(1)),
]
SEED = 2**63 + 9
PTX = {"ptx": "80", "flags": ("-O1",)}  # settings of the stand-in: kernels by way of PTX


def _forget_cupy(monkeypatch):
    for name in [name for name in sys.modules if name == "cupy" or name.startswith("cupy.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(cuda, "_kernels", {})
    devices.forget()


@pytest.fixture
def standin(monkeypatch):
    """The stand-in, imported as `cupy`.  `standin._reset(...)` describes the machine."""
    _forget_cupy(monkeypatch)
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("cupy")
    assert Path(module.__file__).is_relative_to(FOLDER)
    yield module
    for name in [name for name in sys.modules if name == "cupy" or name.startswith("cupy.")]:
        del sys.modules[name]
    devices.forget()


@pytest.fixture
def no_cupy(monkeypatch):
    """A machine without CuPy."""
    _forget_cupy(monkeypatch)
    monkeypatch.setitem(sys.modules, "cupy", None)
    yield
    devices.forget()


def mutated(old, new, which=0):
    """The one file of the CUDA source that has occurrence number `which` of `old`, and its text with `new` there."""
    for name in kernels.FILES:
        parts = kernels.text(name).split(old)
        if which < len(parts) - 1:
            return name, old.join(parts[: which + 1]) + new + old.join(parts[which + 1 :])
        which -= len(parts) - 1
    raise AssertionError(f"there are not so many {old!r} in the kernels")


def mutate(monkeypatch, *mutation):
    changed, text = mutated(*mutation)
    original = kernels.text
    monkeypatch.setattr(kernels, "text", lambda name: text if name == changed else original(name))


def in_memory(n, domain, seed=5):
    random = np.random.default_rng(seed)
    return gpu_rsfd.Dataset(np.stack([random.integers(0, k, n) for k in domain], axis=1), domain)


def check(backend, plan, data, repetitions=range(1, 6), seed=SEED, progress=None):
    """The counts are NumPy's."""
    ours = backend.count(plan, data, seed, repetitions, progress)
    with NumpyBackend(workers=1) as engine:
        right = engine.count(plan, data, seed, repetitions)
    for a, b in zip([*ours[0], ours[1]], [*right[0], right[1]], strict=True):
        assert np.array_equal(a, b)


def first_difference(cases):
    """Of the device from NumPy; empty if there is none."""
    with CupyBackend() as backend:
        return next(filter(None, (compared(backend, case) for case in cases)), "")


def launches(standin, name):
    return sum(launched == name for launched, _ in standin._settings.launches)


def crafted(domain, recipes, assignment="uniform"):
    """A plan of these recipes."""
    plan = Plan.of(domain, ("smp-grr", "rsfd-grr"), [1.0], assignment)
    return replace(plan, attributes=tuple(replace(a, recipes=tuple(recipes)) for a in plan.attributes))
