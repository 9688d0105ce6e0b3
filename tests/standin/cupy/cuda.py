"""`cupy.cuda` of the stand-in."""

from __future__ import annotations

import time
import types

import cupy as _cp


def _count():
    if _cp._settings.devices is None:
        raise _cp.CUDARuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")
    return _cp._settings.devices


def _properties(index):
    return {"name": b"CPU stand-in", "major": 8, "minor": 0, "totalGlobalMem": _cp._settings.memory}


runtime = types.SimpleNamespace(
    CUDARuntimeError=_cp.CUDARuntimeError,
    driverGetVersion=lambda: 13000,
    getDeviceCount=_count,
    getDeviceProperties=_properties,
    runtimeGetVersion=lambda: 13000,
)
compiler = types.SimpleNamespace(CompileException=_cp.CompileException)
driver = types.SimpleNamespace(CUDADriverError=_cp.CUDADriverError)
memory = types.SimpleNamespace(OutOfMemoryError=_cp.OutOfMemoryError)


class Device:
    def __init__(self, index):
        if not 0 <= index < _count():
            raise _cp.CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        self.id = index
        self._before = []

    def __enter__(self):
        self._before.append(_cp._current())
        _cp._local.device = self.id
        return self

    def __exit__(self, *_):
        _cp._local.device = self._before.pop()

    def synchronize(self):
        _cp._wait(self.id)

    @property
    def mem_info(self):
        """Free and total bytes; `hidden` bytes look free and are not."""
        _cp._settings.contexts.add(self.id)
        settings = _cp._settings
        return settings.memory - settings.used[self.id] - settings.pooled[self.id], settings.memory


class Event:
    """A place in the order of a device's work: after what was asked for before `record`."""

    def __init__(self, block=False, disable_timing=False):
        self._timed = not disable_timing

    def record(self):
        self._device = _cp._current()
        self._copies = _cp._settings.asked[self._device]
        self._time = time.perf_counter()

    def synchronize(self):
        _cp._wait(self._device, self._copies)


def get_elapsed_time(start, end):
    """Milliseconds."""
    if not (start._timed and end._timed):
        raise _cp.CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
    return (end._time - start._time) * 1e3


def alloc_pinned_memory(size):
    _cp._settings.pinned += size
    return bytearray(b"\xcd") * size
