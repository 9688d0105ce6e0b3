"""CUDA source -> shared library, by g++; kept in a folder for temporary files, named by what went into it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

HEADER = Path(__file__).resolve().parent.parent / "cuda_on_cpu.h"
_KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(")


class Failed(Exception):  # noqa: N818
    pass


def _gxx(*options: str, text: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # no sanitized compiler
    command = ["g++", *options, "-x", "c++", "-"]
    done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=240, env=environment)
    if done.returncode:
        raise Failed(f"g++ failed:\n{done.stderr[:4000]}")
    return done.stdout


@lru_cache(maxsize=64)
def library(code: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    folder = Path(tempfile.gettempdir()) / f"gpu-rsfd-standin-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    digest = hashlib.sha256("\0".join((code, HEADER.read_text(), *flags)).encode()).hexdigest()[:24]
    path = folder / f"{digest}.so"
    if not path.exists():
        names = _KERNEL.findall(_gxx("-E", "-P", text=code))
        text = code + "".join(f"EXPORT_KERNEL({name})\n" for name in names)
        fresh = folder / f"{digest}.{os.getpid()}"
        options = ("-std=c++20", "-fPIC", "-shared", "-w", "-fno-gnu-unique", "-include", str(HEADER))
        _gxx(*options, *flags, "-o", str(fresh), text=text)
        fresh.replace(path)
    return ctypes.CDLL(str(path))


def signature(lib: ctypes.CDLL, name: str) -> list[int]:
    """The size of each parameter, 0 for pointers."""
    function = lib[f"{name}_signature"]
    function.restype = ctypes.POINTER(ctypes.c_int)
    sizes, result = function(), []
    while sizes[len(result)] >= 0:
        result.append(sizes[len(result)])
    return result


def launch(lib, name, blocks, threads, shared, values, order) -> None:
    lib.set_order(ctypes.c_uint(order))
    function = lib[f"{name}_launch"]
    function.restype = ctypes.c_char_p
    pointers = (ctypes.c_void_p * len(values))(*(v.ctypes.data for v in values))
    error = function(ctypes.c_uint(blocks), ctypes.c_uint(threads), ctypes.c_size_t(shared), pointers)
    if error:
        raise RuntimeError(f"{name}: {error.decode()}")
