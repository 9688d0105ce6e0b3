"""Which CUDA devices work, found out without raising."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

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


def probe(wanted: Sequence[int] | None = None) -> Probe:
    """Looks for CuPy, a driver and devices: half a second, once per process.

    A device is made to hold data, which takes memory of its driver: with `wanted`, no other device is touched.
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


@lru_cache(maxsize=1)
def _count() -> int | str:
    """How many devices the driver has, or why there are none."""
    try:
        import cupy
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "cupy"
        return f"CuPy is not installed: {EXTRAS}" if missing else f"CuPy cannot be imported: {first_line(error)}"
    except Exception as error:  # a broken installation fails in any way it likes
        return f"CuPy cannot be imported: {first_line(error)}"
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception as error:
        return "no CUDA driver on this machine" if _no_driver() else f"no CUDA device ({first_line(error)})"


@cache
def _device(index: int) -> Device | str:
    """A device that works, or why it does not."""
    import cupy

    try:
        properties = cupy.cuda.runtime.getDeviceProperties(index)
        with cupy.cuda.Device(index):
            if cupy.asarray(np.arange(3, dtype=np.uint8)).get().tolist() != [0, 1, 2]:
                raise RunError("memory came back changed")
    except Exception as error:
        return f"CUDA device {index} does not work: {first_line(error)}"
    capability = f"{properties['major']}{properties['minor']}"
    return Device(index, properties["name"].decode(), capability, properties["totalGlobalMem"])


def _no_driver() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return True
    return False


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
