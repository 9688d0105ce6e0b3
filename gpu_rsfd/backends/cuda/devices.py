"""Which CUDA devices work, found out without raising."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import lru_cache

from gpu_rsfd.errors import RunError

EXTRAS = (
    "install the extra cuda13 (driver 580 or newer) or cuda12: "
    'scripts/install cuda13 in a clone, or pip install "gpu-rsfd[cuda13]"'
)


@dataclass(frozen=True)
class Device:
    index: int
    name: str
    capability: str  # "80" for compute capability 8.0
    memory: int  # bytes

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


@lru_cache(maxsize=1)
def probe() -> Probe:
    """Looks for CuPy, a driver and devices, and makes each device add up: about half a second, once per process."""
    try:
        import cupy
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "cupy"
        return Probe(
            (), (f"CuPy is not installed: {EXTRAS}" if missing else f"CuPy cannot be imported: {_line(error)}",)
        )
    except Exception as error:  # a broken installation fails in any way it likes
        return Probe((), (f"CuPy cannot be imported: {_line(error)}",))
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        why = "no CUDA driver on this machine" if _no_driver() else f"no CUDA device ({_line(error)})"
        return Probe((), (why,))
    devices, problems = [], []
    for index in range(count):
        try:
            properties = cupy.cuda.runtime.getDeviceProperties(index)
            with cupy.cuda.Device(index):
                if int(cupy.ones(3, "uint8").get().sum()) != 3:
                    raise RunError("memory came back changed")
        except Exception as error:
            problems.append(f"CUDA device {index} does not work: {_line(error)}")
            continue
        capability = f"{properties['major']}{properties['minor']}"
        devices.append(Device(index, properties["name"].decode(), capability, properties["totalGlobalMem"]))
    if not count:
        problems.append("no CUDA device found by the driver")
    return Probe(tuple(devices), tuple(problems))


def _no_driver() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return True
    return False


def _line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
