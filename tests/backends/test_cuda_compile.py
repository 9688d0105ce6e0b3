"""The kernels compiled for real GPUs by NVRTC, and the names used checked against the real CuPy; no GPU needed."""

import ast
import functools
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_standin import FOLDER
from filelock import FileLock

from gpu_rsfd.backends.cuda.kernels import KERNELS, source

pytestmark = pytest.mark.slow
cupy = pytest.importorskip("cupy", exc_type=ImportError)
pytest.importorskip("cupy.cuda.compiler", exc_type=ImportError)

_path = Path(__file__).parents[2] / "benchmarks" / "kernel_report.py"
_spec = importlib.util.spec_from_file_location("kernel_report", _path)
report = sys.modules[_spec.name] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(report)


@functools.lru_cache(maxsize=1)
def table():
    """What the script prints: (architecture, kernel) -> registers, spilled, …  All processes of the tests share it."""
    made_of = [_path.read_text(), str(cupy.cuda.nvrtc.getVersion()), *map(source, KERNELS)]
    digest = hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:24]
    path = Path(os.environ["GPU_RSFD_CACHE"], f"kernel-report-{digest}.json")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            fresh = path.with_suffix(".new")
            fresh.write_text(json.dumps(compiled()))
            fresh.replace(path)
        return {(arch, name): row for arch, name, row in json.loads(path.read_text())}


def compiled():
    """Two processes: NVRTC compiles one program at a time."""
    shares = report.ARCHITECTURES[::2], report.ARCHITECTURES[1::2]
    runs = [subprocess.Popen([sys.executable, _path, *share], stdout=subprocess.PIPE, text=True) for share in shares]
    lines = [run.communicate(timeout=900)[0].splitlines() for run in runs]
    assert not any(run.returncode for run in runs)
    head = lines[0][0].split("kernel")[1].replace("a position", "position").split()
    rows = [line.split() for part in lines for line in part[1:]]
    return [(arch, name, dict(zip(head, map(float, row), strict=False))) for arch, name, *row in rows]


INSTRUCTIONS, REGISTERS = 43, 80
MORE_REGISTERS = ("100", "103", "110")  # architectures with room for five blocks of 96 registers, not for six of 80


@pytest.mark.parametrize("arch", report.ARCHITECTURES)
def test_what_the_kernels_are_made_of(arch):
    rows = table()
    kernels = {name: row for (sm, name), row in rows.items() if sm == f"sm_{arch}"}
    assert set(kernels) == set(KERNELS)
    assert {name: row["spilled"] for name, row in kernels.items() if row["spilled"]} == {}
    assert max(row["registers"] for row in kernels.values()) <= 128
    hot = kernels["count_unary_18"]
    assert hot["registers"] <= (96 if arch in MORE_REGISTERS else REGISTERS)
    assert 30 < hot["position"] <= (42 if arch in MORE_REGISTERS else INSTRUCTIONS)  # what the registers are for
    paper = kernels["count_unary_13"]  # what the paper's six methods and epsilons need
    assert 30 < paper["position"] <= (36 if arch in MORE_REGISTERS else 37)
    # counts that several threads add to are added to by atomic instructions
    for name, row in kernels.items():
        if match := re.fullmatch(r"count_(unary|paired)_(\d+)", name):
            assert row["atomic"] >= 1
            assert row["shared"] >= int(match[2]) * (2 if match[1] == "unary" else 1)
    assert kernels["count_values"]["atomic"] >= 2
    assert kernels["count_values"]["shared"] >= 1
    assert kernels["count_sampled"]["shared"] >= 1


def test_the_architectures():
    assert set(report.ARCHITECTURES) >= {"75", "80", "86", "89", "90", "100", "103", "110", "120", "121"}


def test_the_limits_can_fail():
    """A comparison that takes more than one instruction, and more registers than there are, are seen."""
    text = source("count_unary_18").replace("#ifdef __CUDA_ARCH__", "#ifdef NEVER")
    slow = report.build("80", text.replace("PLAIN_BLOCKS 6", "PLAIN_BLOCKS 8"))["count_unary_18"]
    assert slow.spilled > 0
    assert slow.per_position() > INSTRUCTIONS


def names_offered():
    """Dotted names of what the stand-in offers to the backend, from its source."""
    for module, file in (("", "__init__.py"), ("cuda.", "cuda.py")):
        for node in ast.parse((FOLDER / "cupy" / file).read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                if node.name.endswith(("Error", "Exception")):
                    continue  # offered below, where CuPy has them
                yield module + node.name
                for member in node.body if isinstance(node, ast.ClassDef) else ():
                    if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                        yield f"{module}{node.name}.{member.name}"
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.keywords:
                for keyword in node.value.keywords:
                    yield f"{module}{node.targets[0].id}.{keyword.arg}"


def exists(name):
    try:
        functools.reduce(getattr, name.split("."), cupy)
    except AttributeError:
        return False
    return True


def test_each_name_of_the_stand_in_exists_in_cupy():
    names = {  # CuPy has the pools, which nobody but the stand-in makes, elsewhere
        f"cuda.{name}" if name.startswith(("MemoryPool", "PinnedMemoryPool", "MemoryPointer")) else name
        for name in names_offered()
    }
    assert {"RawModule.get_function", "cuda.runtime.getDeviceCount", "cuda.Device.mem_info", "ndarray.get"} <= names
    assert {"cuda.MemoryPool.free_bytes", "cuda.PinnedMemoryPool.free_all_blocks", "cuda.Event.synchronize"} <= names
    assert {
        "cuda.nvrtc.getSupportedArchs",
        "cuda.set_pinned_memory_allocator",
        "cuda.Device.use",
        "RawKernel.num_regs",
    } <= names
    names -= {"Module", "PerformanceWarning"}  # of cupy.cuda.function and cupy._util
    assert sorted(name for name in names if not exists(name)) == []
    assert not exists("cuda.Device.memory_info")


def test_the_real_cupy_behaves_as_the_backend_expects_without_a_device():
    if cupy.cuda.is_available():
        pytest.skip("this machine has a GPU: gpu-rsfd doctor --self-test says more")
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        cupy.cuda.runtime.getDeviceCount()
    assert issubclass(cupy.cuda.driver.CUDADriverError, RuntimeError)
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)
    assert not issubclass(cupy.cuda.memory.OutOfMemoryError, RuntimeError)
