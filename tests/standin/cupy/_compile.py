"""CUDA source -> shared library, by g++; kept in a folder for temporary files, named by what went into it.

Either the source itself, as C++; or what NVRTC makes of it, PTX, translated to C++.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
if str(FOLDER.parent) not in sys.path:
    sys.path.append(str(FOLDER.parent))

import cuda_nvrtc as nvrtc  # noqa: E402
import cuda_ptx as ptx  # noqa: E402

HEADERS = {"source": FOLDER / "cuda_on_cpu.h", "ptx": FOLDER / "ptx_on_cpu.h"}
_KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(")


class Failed(Exception):  # noqa: N818
    pass


class Array(ctypes.Structure):
    _fields_ = (("address", ctypes.c_uint64), ("bytes", ctypes.c_uint64))


def _gxx(*options: str, text: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # no sanitized compiler
    command = ["g++", *options, "-x", "c++", "-"]
    done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=240, env=environment)
    if done.returncode:
        raise Failed(f"g++ failed:\n{done.stderr[:4000]}")
    return done.stdout


def _as_source(code: str) -> str:
    names = _KERNEL.findall(_gxx("-E", "-P", text=code))
    return code + "".join(f"EXPORT_KERNEL({name})\n" for name in names)


@lru_cache(maxsize=64)
def kernels(code: str, arch: str, options: tuple[str, ...]) -> dict[str, ptx.Kernel]:
    """The translated kernels: their instructions, basic block by basic block."""
    return ptx.translate(nvrtc.ptx(code, arch, options))


@lru_cache(maxsize=256)
def library(
    code: str, flags: tuple[str, ...], arch: str | None = None, options: tuple[str, ...] = ("-std=c++17",)
) -> ctypes.CDLL:
    """The kernels of a CUDA source; with `arch`, such as "80", by way of PTX."""
    if arch is None:
        return _built((code,), flags, "source", lambda: _as_source(code))
    parts = (code, arch, *options)
    return _built(parts, flags, "ptx", lambda: ptx.cpp(kernels(code, arch, options)))


def ptx_library(text: str, flags: tuple[str, ...] = ("-O1",)) -> ctypes.CDLL:
    """The kernels of a PTX module."""
    return _built((text,), flags, "ptx", lambda: ptx.cpp(ptx.translate(text)))


def _built(parts: tuple[str, ...], flags: tuple[str, ...], kind: str, text: Callable[[], str]) -> ctypes.CDLL:
    """The library, compiled unless it is there: `parts` and the files of this folder say what it is made of."""
    folder = Path(tempfile.gettempdir()) / f"gpu-rsfd-standin-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    files = (HEADERS["source"],) if kind == "source" else (*HEADERS.values(), Path(ptx.__file__))
    made_of = (kind, *parts, *flags, *(file.read_text() for file in files))
    digest = hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:24]
    path = folder / f"{digest}.so"
    if not path.exists():
        fresh = folder / f"{digest}.{os.getpid()}.{threading.get_ident()}"
        options = ("-std=c++20", "-fPIC", "-shared", "-w", "-fno-gnu-unique", "-include", str(HEADERS[kind]))
        _gxx(*options, *flags, "-o", str(fresh), text=text())
        fresh.replace(path)
    return ctypes.CDLL(str(path))


def signature(lib: ctypes.CDLL, name: str) -> list[int]:
    """The size of each parameter; of pointers 0, or 8 by way of PTX, which does not tell them from numbers."""
    function = lib[f"{name}_signature"]
    function.restype = ctypes.POINTER(ctypes.c_int)
    sizes, result = function(), []
    while sizes[len(result)] >= 0:
        result.append(sizes[len(result)])
    return result


def launch(lib, name, blocks, threads, shared, values, order, arrays) -> None:
    """`arrays`: address and bytes of those that the kernel may touch, which PTX checks."""
    lib.set_order(ctypes.c_uint(order))
    if hasattr(lib, "set_arrays"):
        lib.set_arrays((Array * len(arrays))(*arrays), ctypes.c_size_t(len(arrays)))
    function = lib[f"{name}_launch"]
    function.restype = ctypes.c_char_p
    pointers = (ctypes.c_void_p * len(values))(*(v.ctypes.data for v in values))
    error = function(ctypes.c_uint(blocks), ctypes.c_uint(threads), ctypes.c_size_t(shared), pointers)
    if error:
        raise RuntimeError(f"{name}: {error.decode()}")


def executed(lib, name, blocks: int, of: str = "warps") -> list[int]:
    """How often each of the kernel's basic blocks was executed so far; the library must have -DCOUNT_BLOCKS."""
    function = lib[f"{name}_{of}"]
    function.restype = ctypes.POINTER(ctypes.c_uint64)
    counts = function()
    return [counts[i] for i in range(blocks)] if counts else [0] * blocks
