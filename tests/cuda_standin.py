"""Fixtures and helpers of the CUDA tests: the stand-in for CuPy in place of the real one."""

import importlib
import re
import shutil
import sys
from pathlib import Path

import cuda_nvrtc as nvrtc
import pytest

from gpu_rsfd import doctor
from gpu_rsfd.backends.cuda import devices
from gpu_rsfd.backends.cuda import runner as cuda
from gpu_rsfd.backends.cuda.kernels import source
from gpu_rsfd.protocols import PROTOCOLS

FOLDER = Path(__file__).parent / "standin"
FIRST = PROTOCOLS[:14]  # few enough for the small kernels that `mutated` leaves in

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="g++ is not installed: the CUDA kernels cannot be run on the CPU"
)
needs_nvrtc = pytest.mark.skipif(
    shutil.which("g++") is None or not nvrtc.available(), reason="NVRTC or g++ is not installed: no PTX to run"
)
MUTANT_CASES = [
    doctor.Case(65, (3, 2), (1.0,), FIRST),
    doctor.Case(5000, (2, 3), (1.0,), FIRST, repetitions=range(1)),
]
PTX = {"ptx": "80", "flags": ("-O1",)}  # settings of the stand-in: kernels by way of PTX


def _forget_cupy(monkeypatch):
    for name in [name for name in sys.modules if name == "cupy" or name.startswith("cupy.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(cuda, "_modules", {})
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
    """The CUDA source with one occurrence of `old` replaced, without the kernels that a small case does not need."""
    parts = source().split(old)
    assert len(parts) > which + 1, f"{old!r} occurs {len(parts) - 1} times in the kernels"
    text = old.join(parts[: which + 1]) + new + old.join(parts[which + 1 :])
    return re.sub(r"^COUNT_UNARY\(count_\w+_(2|12|18), .*$", "", text, flags=re.M)


def mutate(monkeypatch, *mutation):
    text = mutated(*mutation)
    monkeypatch.setattr(cuda, "source", lambda: text)
