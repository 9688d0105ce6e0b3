"""`cupy.cuda` of the stand-in."""

from __future__ import annotations

import types

import cupy as _cp


def _count():
    if _cp._settings.devices is None or _cp._settings.driver < 13000:
        raise _cp.CUDARuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")
    _cp._check_process()
    return _cp._settings.devices


def _properties(index):
    major, minor = divmod(int(_cp._settings.capability), 10)
    return {"name": b"CPU stand-in", "major": major, "minor": minor, "totalGlobalMem": _cp._settings.memory}


def _attribute(which, index):
    return int(index in _cp._settings.time_limit) if which == "limit" else which


def _version():
    if _cp._settings.nvrtc is None:
        raise _cp.DynamicLibNotFoundError('Failure finding "libnvrtc.so"')
    return _cp._settings.nvrtc


def _architectures():
    version = _version()
    return [a for a in (50, 70, 75, 80, 90, 120) if (a >= 75 or version < (13,)) and (a < 120 or version >= (12, 8))]


runtime = types.SimpleNamespace(
    CUDARuntimeError=_cp.CUDARuntimeError,
    cudaDevAttrClockRate=1_000_000,
    cudaDevAttrComputeMode=0,
    cudaDevAttrKernelExecTimeout="limit",
    cudaDevAttrMultiProcessorCount=1,
    deviceGetAttribute=_attribute,
    deviceGetPCIBusId=lambda index: f"0000:{index:02X}:00.0",
    driverGetVersion=lambda: _cp._settings.driver if _cp._settings.devices is not None else 0,
    getDeviceCount=_count,
    getDeviceProperties=_properties,
    runtimeGetVersion=lambda: 13020,
)
compiler = types.SimpleNamespace(CompileException=_cp.CompileException)
driver = types.SimpleNamespace(CUDADriverError=_cp.CUDADriverError)
memory = types.SimpleNamespace(OutOfMemoryError=_cp.OutOfMemoryError)
nvrtc = types.SimpleNamespace(getSupportedArchs=_architectures, getVersion=_version)


class Device:
    """The current device is a thread's; a thread begins with device 0, and has not touched it."""

    def __init__(self, index):
        if not 0 <= index < _count():
            raise _cp.CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        self.id = index
        self._before = []

    def use(self):
        _cp._touch(self.id)
        _cp._local.device = self.id

    def __enter__(self):
        self._before.append(_cp._current())
        if self.id != _cp._current():
            self.use()
        return self

    def __exit__(self, *_):
        """As cudaSetDevice does since CUDA 12: the device that becomes current again gets a context."""
        Device(self._before.pop()).use()

    def synchronize(self):
        with self:
            _cp._wait(self.id)

    @property
    def mem_info(self):
        """Free and total bytes; `hidden` bytes look free and are not."""
        with self:
            _cp._touch(self.id)
            settings = _cp._settings
            return settings.memory - settings.used[self.id] - settings.pooled[self.id], settings.memory


class Event:
    """A place in the order of a device's work: after what was asked for before `record`."""

    def __init__(self, block=False, disable_timing=False):
        self._timed, self._device = not disable_timing, _cp._current()
        _cp._touch(self._device)
        _cp._short_of("event", _cp.CUDARuntimeError)

    def __del__(self):
        """As cudaEventDestroy: it touches the device that is current, whosever the event is; on a lost one it fails."""
        _cp._touch(_cp._current())
        if self._device in _cp._settings.lost:
            raise _cp.CUDARuntimeError(_cp._settings.lost[self._device])

    def record(self):
        if self._device != _cp._current():
            raise _cp.CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
        self._copies = _cp._settings.asked[self._device]
        self._time = _cp._settings.clock[self._device]

    def synchronize(self):
        _cp._wait(self._device, self._copies)


def get_elapsed_time(start, end):
    """Milliseconds of the device's own time."""
    if not (start._timed and end._timed) or start._device != end._device:
        raise _cp.CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
    return float(end._time - start._time)


def alloc_pinned_memory(size):
    return _cp._settings.allocator(size) if _cp._settings.allocator is not None else _pinned(size)


def _pinned(size):
    if _cp._settings.pinned_fails:
        raise _cp.CUDARuntimeError(2)
    _cp._settings.pinned += size
    return bytearray(b"\xcd") * size


def set_pinned_memory_allocator(allocator=None):
    _cp._settings.allocator = allocator
