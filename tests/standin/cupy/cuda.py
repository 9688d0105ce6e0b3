"""`cupy.cuda` of the stand-in."""

from __future__ import annotations

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

    @property
    def mem_info(self):
        """Free and total bytes; `hidden` bytes look free and are not."""
        return _cp._settings.memory - _cp._settings.used[self.id], _cp._settings.memory
