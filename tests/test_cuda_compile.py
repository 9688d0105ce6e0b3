"""The kernels compiled for real GPUs by NVRTC, and the names used checked against the real CuPy; no GPU needed."""

import ast
import functools
import importlib.util
import sys
from pathlib import Path

import pytest
from cuda_standin import FOLDER

from gpu_rsfd.kernels import KERNELS

cupy = pytest.importorskip("cupy", exc_type=ImportError)
pytest.importorskip("cupy.cuda.compiler", exc_type=ImportError)

_path = Path(__file__).parent.parent / "benchmarks" / "kernel_report.py"
_spec = importlib.util.spec_from_file_location("kernel_report", _path)
report = sys.modules[_spec.name] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(report)
build = functools.lru_cache(report.build)

LIMITED = ("80", "90", "120")  # where the hot loop has a limit
INSTRUCTIONS, REGISTERS = 45, 80


@pytest.mark.parametrize("arch", report.ARCHITECTURES)
def test_every_kernel_compiles_without_spills(arch):
    kernels = build(arch)
    assert set(kernels) == set(KERNELS)
    assert {name: k.spilled for name, k in kernels.items() if k.spilled} == {}
    hot = kernels["count_unary_18"]
    assert hot.registers <= REGISTERS
    if arch in LIMITED:
        assert 30 < hot.per_position() <= INSTRUCTIONS
        assert {name for name, k in kernels.items() if k.registers > 128} == set()


def test_the_limits_can_fail():
    """A pass that does not use its digits as masks, and one with too many registers, are seen."""
    from gpu_rsfd.kernels import source

    slow = source().replace("u32 result = 0;\n#ifdef __CUDA_ARCH__", "u32 result = 0;\n#ifdef NEVER")
    assert slow != source()
    greedy = slow.replace("__launch_bounds__(128, 6)", "__launch_bounds__(128, 8)")
    assert greedy != slow
    kernel = report.build("80", greedy)["count_unary_18"]
    assert kernel.spilled > 0
    assert kernel.per_position() > INSTRUCTIONS


def names_offered():
    """Dotted names of what the stand-in offers to the backend, from its source."""
    for module, file in (("", "__init__.py"), ("cuda.", "cuda.py")):
        for node in ast.parse((FOLDER / "cupy" / file).read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                if node.name in ("CUDARuntimeError", "CUDADriverError", "OutOfMemoryError"):
                    continue  # offered below, where CuPy has them
                yield module + node.name
                for member in node.body if isinstance(node, ast.ClassDef) else ():
                    if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                        yield f"{module}{node.name}.{member.name}"
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.keywords:
                for keyword in node.value.keywords:
                    yield f"{module}{node.targets[0].id}.{keyword.arg}"


def test_each_name_of_the_stand_in_exists_in_cupy():
    names = set(names_offered()) - {"MemoryPool", "MemoryPool.free_bytes", "MemoryPool.free_all_blocks"}
    assert {"RawModule.get_function", "cuda.runtime.getDeviceCount", "cuda.Device.mem_info", "ndarray.get"} <= names
    missing = []
    for name in sorted(names | {"cuda.MemoryPool.free_bytes", "cuda.MemoryPool.free_all_blocks"}):
        try:
            functools.reduce(getattr, name.split("."), cupy)
        except AttributeError:
            missing.append(name)
    assert missing == []


def test_the_real_cupy_behaves_as_the_backend_expects_without_a_device():
    if cupy.cuda.is_available():
        pytest.skip("this machine has a GPU: gpu-rsfd doctor --self-test says more")
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        cupy.cuda.runtime.getDeviceCount()
    assert issubclass(cupy.cuda.driver.CUDADriverError, RuntimeError)
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)
    assert not issubclass(cupy.cuda.memory.OutOfMemoryError, RuntimeError)
