"""Which CUDA devices work, found out without raising."""

from __future__ import annotations

import ctypes
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends.cuda.kernels import OPTIONS
from gpu_rsfd.errors import RunError

EXTRAS = (
    "install the extra cuda13 (driver 580 or newer) or cuda12: "
    'scripts/install cuda13 in a clone, or pip install "gpu-rsfd[cuda13]"'
)
_DRIVER = Path("/proc/driver/nvidia/version")
_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
PROBE = 'extern "C" __global__ void probe(unsigned* words) { words[threadIdx.x] += threadIdx.x + 1; }\n'
T = TypeVar("T")


@dataclass(frozen=True)
class Device:
    index: int
    name: str
    capability: str  # "80" for compute capability 8.0
    memory: int  # bytes
    time_limit: bool = False  # kernels that take seconds are ended: a display hangs on it, or it is Windows' device

    def __str__(self) -> str:
        return f"{self.name} (device {self.index}, sm_{self.capability})"


@dataclass(frozen=True)
class Probe:
    """The devices that work, and one line for each thing that does not."""

    devices: tuple[Device, ...]
    problems: tuple[str, ...]

    @property
    def reason(self) -> str:
        return "; ".join(self.problems) or f"{len(self.devices)} CUDA device{'s' * (len(self.devices) != 1)} found"


def probe(wanted: Sequence[int] | None = None) -> Probe:
    """Looks for CuPy, a driver and devices, and lets each device run a kernel: a second, once per process.

    That takes memory of a device's driver: with `wanted`, no other device is touched.
    """
    count = _count()
    if isinstance(count, str):
        return Probe((), (count,))
    found = [_device(index) for index in (range(count) if wanted is None else wanted) if index < count]
    problems = [device for device in found if isinstance(device, str)]
    if not count:
        problems.append("no CUDA device found by the driver")
    return Probe(tuple(device for device in found if isinstance(device, Device)), tuple(problems))


def forget() -> None:
    """Look again the next time."""
    _count.cache_clear()
    _device.cache_clear()


os.register_at_fork(after_in_child=forget)  # what works in a process does not work in one forked from it


def wsl() -> bool:
    """Whether this is Linux inside Windows, which ends kernels that take long and has little pinned memory."""
    return "microsoft" in platform.release().lower()


def compiled(code: str, *names: str) -> list[Any]:
    """Kernels for the current device; in memory if the folder where CuPy keeps them is full or read-only."""
    import cupy

    def kernels() -> list[Any]:
        module = cupy.RawModule(code=code, options=OPTIONS)
        return [module.get_function(name) for name in names]

    try:
        found = kernels()
    except OSError:
        os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
        found = kernels()
    keep(found)
    return found


def keep(things: list[Any]) -> None:
    """To the end of the process: what ends on a device that was lost is an error that CuPy prints."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(things))


def copied(values: npt.NDArray[Any]) -> Any:
    """On the current device.  CuPy's `asarray` takes pinned memory for it, and warns where that is short."""
    import cupy

    array = cupy.empty(values.shape, values.dtype)
    array.set(values)
    return array


def _import_cupy() -> Any:
    """CuPy makes a folder for kernels when it is imported, which must not be what it fails for."""
    try:
        os.makedirs(os.environ.get("CUPY_CACHE_DIR", os.path.expanduser("~/.cupy/kernel_cache")), exist_ok=True)
    except OSError:
        os.environ.update(CUPY_CACHE_DIR=tempfile.gettempdir(), CUPY_CACHE_IN_MEMORY="1")  # written to by nobody
    import cupy

    return cupy


@lru_cache(maxsize=1)
def _count() -> int | str:
    """How many devices the driver has, or why there are none."""
    try:
        cupy = _import_cupy()
    except Exception as error:  # a broken installation fails in any way it likes
        missing = isinstance(error, ModuleNotFoundError) and error.name == "cupy"
        return f"CuPy is not installed: {EXTRAS}" if missing else f"CuPy cannot be imported: {first_line(error)}"
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception as error:
        return _no_device(cupy, error)


def _no_device(cupy: Any, error: Exception) -> str:
    """Why the driver has no device, and what would help."""
    if "InitializationError" in str(error):
        return "CUDA can't be used in a process that was forked from one that used it: start it by `spawn`"
    if no_driver():
        return "no CUDA driver on this machine"
    try:
        driver, runtime = int(cupy.cuda.runtime.driverGetVersion()), int(cupy.cuda.runtime.runtimeGetVersion())
    except Exception:
        driver = runtime = 0
    if 0 < driver < runtime // 1000 * 1000:
        other = " or install the extra cuda12" if driver >= 12000 else ""
        needed = f"CuPy here needs {runtime // 1000}.0"  # within a major version any driver does
        return f"the driver is too old: it has CUDA {version(driver)}, {needed}; update it{other}"
    return f"no CUDA device ({first_line(error)})"


@cache
def _device(index: int) -> Device | str:
    """A device that works, or why it does not."""
    return _in_a_thread(lambda: _try(index))


def on_device(index: int, do: Callable[[], T]) -> T:
    """In a thread of its own, whose current device it stays: going back to another one would touch that, too."""
    import cupy

    def there() -> T:
        cupy.cuda.Device(index).use()
        return do()

    return _in_a_thread(there)


def _in_a_thread(do: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(do).result()


def _try(index: int) -> Device | str:
    import cupy

    capability = ""
    try:
        properties = cupy.cuda.runtime.getDeviceProperties(index)
        capability = f"{properties['major']}{properties['minor']}"
        limit = cupy.cuda.runtime.deviceGetAttribute(cupy.cuda.runtime.cudaDevAttrKernelExecTimeout, index)
        cupy.cuda.Device(index).use()
        words = copied(np.arange(3, dtype=np.uint32))
        (kernel,) = compiled(PROBE, "probe")
        kernel((1,), (3,), (words,))
        if words.get().tolist() != [1, 3, 5]:
            raise RunError("a kernel gave wrong numbers")
    except Exception as error:
        return f"CUDA device {index} does not work: {first_line(error)}{_remedy(cupy, error, capability)}"
    return Device(index, properties["name"].decode(), capability, properties["totalGlobalMem"], bool(limit) or wsl())


def _remedy(cupy: Any, error: Exception, capability: str) -> str:
    """What would help a device that can't compile or run a kernel, as far as that can be known."""
    try:
        compiler = ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
        known = cupy.cuda.nvrtc.getSupportedArchs()
    except Exception:  # its library is loaded when it is first used
        if "nvrtc" in str(error).lower():
            return '; the CUDA compiler is missing, which the extras bring: pip install "gpu-rsfd[cuda13]" or [cuda12]'
        return ""
    if not capability or min(known) <= int(capability) <= max(known):
        return ""
    older = "the extra cuda12 in place of cuda13"
    newer = "the extra cuda13, or a newer CUDA 12 (12.8 or later for sm_120)"
    return f"; NVRTC {compiler} has no sm_{capability}: install {older if int(capability) < min(known) else newer}"


def no_driver() -> bool:
    """Whether this machine has no GPU that CUDA could use, as far as can be told without CuPy."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return True
    return False


def version(number: int) -> str:
    """CUDA's, such as 12.4 for 12040."""
    return f"{number // 1000}.{number % 1000 // 10}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# --------------------------------------------------------------------------------------------------- for people


def about() -> dict[str, str]:
    """CuPy, CUDA, the driver, the compiler, each device, and each problem; to have no GPU is none."""
    found = probe()
    lines = _versions()
    lines |= {f"device {device.index}": _line(device) for device in found.devices}
    if not found.devices and no_driver():
        return {**lines, "GPU": f"none: {found.reason}"}
    return lines | {"problem" if i == 0 else f"problem {i + 1}": text for i, text in enumerate(found.problems)}


def _versions() -> dict[str, str]:
    try:
        import cupy
    except Exception as error:
        return {"CuPy": "not installed" if isinstance(error, ModuleNotFoundError) else first_line(error)}
    lines = {"CuPy": str(cupy.__version__)}
    try:
        driver, runtime = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
        lines["CUDA"] = f"runtime {version(runtime)}, {f'driver for {version(driver)}' if driver else 'no driver'}"
    except Exception as error:  # no driver: which exception is not promised
        lines["CUDA"] = first_line(error)
    with suppress(OSError):
        lines["driver"] = _DRIVER.read_text(encoding="utf-8").splitlines()[0].removeprefix("NVRM version:").strip()
    try:
        lines["NVRTC"] = ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
    except Exception as error:
        lines["NVRTC"] = first_line(error)
    return lines


def _line(device: Device) -> str:
    import cupy

    runtime = cupy.cuda.runtime

    def attribute(name: str) -> Any:
        return runtime.deviceGetAttribute(getattr(runtime, f"cudaDevAttr{name}"), device.index)

    free = on_device(device.index, lambda: cupy.cuda.Device(device.index).mem_info[0])
    mode = attribute("ComputeMode")
    return (
        f"{device.name}, sm_{device.capability}, {device.memory / 2**30:.1f} GiB ({free / 2**30:.1f} free), "
        f"{attribute('MultiProcessorCount')} multiprocessors, {attribute('ClockRate') / 1000:.0f} MHz, "
        f"PCI {runtime.deviceGetPCIBusId(device.index)}, compute mode {_MODES.get(mode, mode)}, "
        f"{'a' if device.time_limit else 'no'} run-time limit"
    )
