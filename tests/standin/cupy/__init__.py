"""A strict stand-in for the part of CuPy that gpu-rsfd uses, for machines without a GPU.

Arrays are NumPy arrays behind CuPy's rules: they live on a device, count against its memory, start out as rubbish and
have red zones around them.  The pool keeps and cuts what they give back; modules and events end as CUDA's do.  Kernels
are the unchanged CUDA source, compiled by g++ and run on the CPU.  A name that is not here does not exist.
"""

from __future__ import annotations

import os
import threading
import types
import warnings
import weakref

import numpy as _np

from . import _compile

__version__ = "14.0.0"

_RED, _PAGE = 64, 512  # bytes of a red zone; CuPy rounds allocations up to pages


class CUDARuntimeError(RuntimeError):
    short = "cudaErrorMemoryAllocation: out of memory"

    def __init__(self, status):
        """CuPy takes a number, and finds its name."""
        super().__init__(self.short if status == 2 else status)
        self.status = status if status == 2 else 999


class CUDADriverError(CUDARuntimeError):
    short = "CUDA_ERROR_OUT_OF_MEMORY: out of memory"


class PerformanceWarning(RuntimeWarning):
    """Of CuPy's utilities."""


class OutOfMemoryError(MemoryError):
    pass


class CompileException(Exception):  # noqa: N818
    pass


class DynamicLibNotFoundError(RuntimeError):
    """Of the module that finds libraries for CuPy."""


_settings = types.SimpleNamespace()


def _reset(
    devices=1, memory=1 << 30, orders=(0,), broken=(), lost_after=None, lost_at="launch", lost_device=None,
    max_threads=1024, max_blocks=2**31 - 1, flags=("-O2",), ptx=None, idle=False, capability="80", nvrtc=(13, 0),
    driver=13000, time_limit=(), pinned_fails=False, cache_fails=False,
):  # fmt: skip
    """What the machine looks like.

    broken      devices that are busy in exclusive mode: no context can be made there
    nvrtc       the compiler's version; None: its library is missing
    time_limit  devices that end kernels which take long

    lost_after  launches of its own after which a device is lost (`lost_device`, or all of them)
    lost_at     "launch": the launch fails; "later": what waits for it
    short       how many of the next "launch", "module" or "event" get no memory
    ptx         such as "80": kernels by way of the PTX for this architecture
    idle        kernels but the probe do nothing, and memory is as it comes: what is left is the host's own time
    """
    each = max(devices or 0, 1)
    _settings.__dict__.update(locals(), used=[0] * each, pooled=[0] * each, peak=[0] * each, largest=0, hidden=0)
    _settings.__dict__.update(
        launches=[], contexts=set(), lost={}, pinned=0, short={}, blocks=[[] for _ in range(each)]
    )
    _settings.__dict__.update(asked=[0] * each, copies=[[] for _ in range(each)], clock=[0] * each)
    _settings.__dict__.update(limit=[0] * each, process=None, allocator=None)


_reset()
_local = threading.local()
_launching = threading.Lock()
_counting = threading.RLock()  # bytes, which arrays give back whenever they are collected


def _check_process():
    if _settings.process not in (None, os.getpid()):
        raise CUDARuntimeError("cudaErrorInitializationError: initialization error")


def _touch(device):
    """A context is made on a device by whatever is done there, and by making it current."""
    _settings.process = _settings.process or os.getpid()
    _check_process()
    if device in _settings.broken:
        raise CUDARuntimeError("cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable")
    _settings.contexts.add(device)


def _current():
    return getattr(_local, "device", 0)


def _short_of(what, error=CUDADriverError):
    if _settings.short.get(what, 0) > 0:
        _settings.short[what] -= 1
        raise error(2)


def _wait(device, until=None):
    """Delivers the copies that were asked for, up to number `until`; errors of kernels arrive here, too."""
    _touch(device)
    if device in _settings.lost:
        raise CUDARuntimeError(_settings.lost[device])
    waiting = _settings.copies[device]
    while waiting and (until is None or waiting[0][0] <= until):
        _, target, values = waiting.pop(0)
        target[...] = values


class _Piece:
    """Of a block of memory."""

    def __init__(self, size, used):
        self.size, self.used = size, used


def _account(device):
    pieces = [piece for block in _settings.blocks[device] for piece in block]
    _settings.used[device] = sum(piece.size for piece in pieces if piece.used)
    _settings.pooled[device] = sum(piece.size for piece in pieces if not piece.used)


def _free_blocks(device):
    """Those of which no piece is in use."""
    blocks = _settings.blocks[device]
    blocks[:] = [block for block in blocks if any(piece.used for piece in block)]
    _account(device)


def _take(device, size, there):
    """As CuPy's pool: a piece of the smallest free one that is large enough, or else a block of its own."""
    blocks = _settings.blocks[device]
    free = [(piece.size, i, j) for i, b in enumerate(blocks) for j, piece in enumerate(b) if not piece.used]
    if large := [place for place in free if place[0] >= size]:
        available, i, j = min(large)
        block, rest = blocks[i], [_Piece(available - size, False)]
        block[j : j + 1] = [_Piece(size, True), *(rest if available > size else [])]
        found = block, block[j]
    else:
        if _settings.used[device] + _settings.pooled[device] + size > there:
            _free_blocks(device)  # CuPy gives the pool's memory back and tries once more
            if _settings.used[device] + _settings.pooled[device] + size > there:
                raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes")
        block = [_Piece(size, True)]
        blocks.append(block)
        found = block, block[0]
    _account(device)
    return found


class MemoryPool:
    """Keeps what arrays give back, until `free_all_blocks`."""

    def free_all_blocks(self):
        with _counting:
            _free_blocks(_current())

    def free_bytes(self):
        return _settings.pooled[_current()]

    def set_limit(self, size=None):
        """Of the current device's arrays; 0: none."""
        _settings.limit[_current()] = size


def get_default_memory_pool():
    return MemoryPool()


class PinnedMemoryPool:
    def malloc(self, size):
        return cuda._pinned(size)

    def free_all_blocks(self):
        _settings.pinned = 0


def get_default_pinned_memory_pool():
    return PinnedMemoryPool()


def _give_back(device, block, piece):
    """To the pool, which joins free neighbours."""
    with _counting:
        piece.used = False
        at = block.index(piece)
        for left in (at, at - 1):
            if left >= 0 and left + 1 < len(block) and not (block[left].used or block[left + 1].used):
                block[left : left + 2] = [_Piece(block[left].size + block[left + 1].size, False)]
        _account(device)


class MemoryPointer:
    def __init__(self, values):
        self._values = values

    def memset_async(self, value, size):
        if size != self._values.nbytes:
            raise ValueError("the stand-in sets whole arrays only")
        if not _settings.idle:
            self._values.view(_np.uint8)[...] = value


class ndarray:  # noqa: N801
    __array_ufunc__ = None
    __hash__ = None

    def __init__(self, values, raw, device):
        self._values, self._raw, self._device = values, raw, device

    @classmethod
    def _new(cls, shape, dtype):
        dtype, device = _np.dtype(dtype), _current()
        _touch(device)
        nbytes = int(_np.prod(shape, dtype=_np.int64)) * dtype.itemsize
        size = -(-max(nbytes, 1) // _PAGE) * _PAGE
        with _counting:
            there = min(_settings.memory - _settings.hidden, _settings.limit[device] or _settings.memory)
            block, piece = _take(device, size, there)
        _settings.peak[device] = max(_settings.peak[device], _settings.used[device])
        _settings.largest = max(_settings.largest, nbytes)
        raw = (
            _np.empty(nbytes + 2 * _RED, _np.uint8) if _settings.idle else _np.full(nbytes + 2 * _RED, 0xCD, _np.uint8)
        )
        array = cls(raw[_RED : _RED + nbytes].view(dtype).reshape(shape), raw, device)
        weakref.finalize(raw, _give_back, device, block, piece)
        return array

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __getitem__(self, part):
        if not isinstance(part, slice):
            raise NotImplementedError("the stand-in knows slices only")
        return ndarray(self._values[part], self._raw, self._device)

    @property
    def nbytes(self):
        return self._values.nbytes

    @property
    def data(self):
        return MemoryPointer(self._values)

    def get(self, out=None, blocking=True):
        """As on a device, `blocking=False` returns at once: `out` is rubbish until an event after it is waited for."""
        _touch(_current())
        if blocking:
            _wait(self._device)
        if out is None:
            return self._values.copy()
        if out.shape != self._values.shape or out.dtype != self._values.dtype:
            raise TypeError("out has another shape or dtype")
        if blocking:
            out[...] = self._values
        elif not _settings.idle:
            if any(_np.shares_memory(out, target) for _, target, _ in _settings.copies[self._device]):
                raise RuntimeError("two copies are on their way to the same memory")
            out.view(_np.uint8)[...] = 0xCD
            _settings.asked[self._device] += 1
            _settings.copies[self._device].append((_settings.asked[self._device], out, self._values.copy()))
        return out


def _set(array, values):
    if array._values.shape != values.shape or array._values.dtype != values.dtype or not values.flags.c_contiguous:
        raise ValueError("set takes an array of the same shape and dtype, without gaps")
    _touch(_current())
    array._values[...] = values


ndarray.set = _set


def empty(shape, dtype):
    return ndarray._new(shape, dtype)


def zeros(shape, dtype):
    array = ndarray._new(shape, dtype)
    array._values[...] = 0
    return array


def asarray(values):
    try:
        cuda._pinned(values.nbytes)
    except CUDARuntimeError as error:
        message = f"Using synchronous transfer as pinned memory ({values.nbytes} bytes) could not be allocated. {error}"
        warnings.warn(message, PerformanceWarning, stacklevel=2)
    array = ndarray._new(values.shape, values.dtype)
    array._values[...] = values
    return array


class RawModule:
    def __init__(self, code, *, options=()):
        if not isinstance(options, tuple):
            raise TypeError(f"Argument 'options' has incorrect type (expected tuple, got {type(options).__name__})")
        self._code, self._options = code, options

    def get_function(self, name):
        _touch(_current())
        if _settings.nvrtc is None:
            raise DynamicLibNotFoundError('Failure finding "libnvrtc.so": No such file: libnvrtc.so*')
        arch, known = int(_settings.capability), cuda.nvrtc.getSupportedArchs()
        if arch < min(known):
            raise CompileException("nvrtc: error: invalid value for --gpu-architecture (-arch)\n")
        if arch // 10 > max(known) // 10:  # CuPy compiles for the newest that there is
            raise CUDADriverError("CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available for execution on the dev")
        if _settings.cache_fails and os.environ.get("CUPY_CACHE_IN_MEMORY") != "1":
            raise OSError(28, "No space left on device")
        _short_of("module")
        try:
            return RawKernel(_compile.library(self._code, tuple(_settings.flags), _settings.ptx, self._options), name)
        except _compile.Failed as error:
            raise CompileException(str(error)) from None


class Module:
    """Unloaded when its last kernel is gone: from a lost device that fails, and Python says so on standard error."""

    def __init__(self, device):
        self._device = device

    def __del__(self):
        if self._device in _settings.lost:
            raise CUDADriverError(_settings.lost[self._device])


class RawKernel:
    def __init__(self, library, name):
        if not hasattr(library, f"{name}_launch"):
            raise CUDADriverError("CUDA_ERROR_NOT_FOUND: named symbol not found")
        self._library, self._name, self._device = library, name, _current()
        self._module = Module(self._device)

    def _check_device(self):
        if self._device != _current():
            raise CUDADriverError("CUDA_ERROR_INVALID_HANDLE: the kernel belongs to another device")

    @property
    def num_regs(self):
        self._check_device()
        return 80

    @property
    def local_size_bytes(self):
        self._check_device()
        return 0

    def __call__(self, grid, block, args, *, shared_mem=0):
        self._check_device()
        (blocks,), (threads,) = grid, block
        for number in (blocks, threads, shared_mem):
            if type(number) is not int:
                raise TypeError(f"{self._name}: an integer is required, not {number!r}")
        if not (
            0 < blocks <= _settings.max_blocks and 0 < threads <= _settings.max_threads and 0 <= shared_mem <= 48 << 10
        ):
            raise CUDADriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")
        with _launching:  # the emulation has one block's shared memory
            _touch(_current())
            _settings.launches.append((self._name, _current()))
            _settings.clock[_current()] += 1  # every kernel takes a millisecond of the device's own time
            _short_of("launch")
            mine = sum(device == _current() for _, device in _settings.launches)
            lost = _settings.lost_after is not None and mine > _settings.lost_after
            if (lost and _settings.lost_device in (None, _current())) or _current() in _settings.lost:
                if _settings.lost_at == "launch":
                    _settings.lost[_current()] = "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered"
                    raise CUDADriverError(_settings.lost[_current()])
                _settings.lost[_current()] = "cudaErrorIllegalAddress: an illegal memory access was encountered"
                return
            if _settings.idle and self._name != "probe":
                return
            order = _settings.orders[len(_settings.launches) % len(_settings.orders)]
            arrays = [(a._values.ctypes.data, a._values.nbytes) for a in args if isinstance(a, ndarray)]
            _compile.launch(self._library, self._name, blocks, threads, shared_mem, self._values(args), order, arrays)
        for array in (a for a in args if isinstance(a, ndarray) and not _settings.idle):
            if (array._raw[:_RED] != 0xCD).any() or (array._raw[-_RED:] != 0xCD).any():
                raise CUDADriverError(f"{self._name} wrote outside an array of {array._values.nbytes} bytes")

    def _values(self, args):
        """The arguments as one-element NumPy arrays; CUDA itself would check nothing."""
        sizes = _compile.signature(self._library, self._name)
        if len(args) != len(sizes):
            raise TypeError(f"{self._name} takes {len(sizes)} arguments, got {len(args)}")
        values = []
        for i, (value, size) in enumerate(zip(args, sizes, strict=True)):
            if isinstance(value, ndarray):
                if value._device != _current():
                    raise CUDADriverError("CUDA_ERROR_ILLEGAL_ADDRESS: the array is on another device")
                given, memory = 0, _np.array([value._values.ctypes.data], _np.uint64)
            elif value is None:
                given, memory = 0, _np.zeros(1, _np.uint64)
            elif isinstance(value, _np.generic) or (isinstance(value, _np.ndarray) and value.size == 1):
                memory = _np.asarray(value).reshape(1)
                given = memory.itemsize
            else:
                raise TypeError(f"argument {i} of {self._name}: {type(value).__name__} has no width of its own")
            if given != size and (given, size, _settings.ptx is None) != (0, 8, False):
                raise TypeError(f"argument {i} of {self._name}: {given} bytes given, {size} wanted (0: a pointer)")
            values.append(memory)
        return values


from . import cuda  # noqa: E402
