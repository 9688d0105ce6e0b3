"""NVRTC through ctypes: CUDA source -> PTX, without CuPy, a driver or a GPU."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path


class Missing(Exception):  # noqa: N818
    """There is no NVRTC here."""


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    try:
        import nvidia  # a namespace package: one folder per site directory
    except ImportError:
        raise Missing("NVRTC is not installed: pip install nvidia-cuda-nvrtc") from None
    for folder in nvidia.__path__:
        for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.*")):
            return ctypes.CDLL(str(path))
    raise Missing("NVRTC is not installed: pip install nvidia-cuda-nvrtc")


def available() -> bool:
    try:
        _library()
    except (Missing, OSError):
        return False
    return True


def version() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return f"{major.value}.{minor.value}"


def ptx(source: str, arch: str, options: tuple[str, ...]) -> str:
    """The source as PTX for compute capability `arch`, such as "80"."""
    return _compiled(source, (f"-arch=compute_{arch}", *options))[0]


def log(source: str, arch: str, options: tuple[str, ...]) -> str:
    """What the compiler says of the binary for sm_`arch`: registers and spills of each kernel."""
    return _compiled(source, (f"-arch=sm_{arch}", "--ptxas-options=-v", *options))[1]


def _compiled(source: str, options: tuple[str, ...]) -> tuple[str, str]:
    """PTX and log."""
    lib, program = _library(), ctypes.c_void_p()
    given = ["--device-as-default-execution-space", *options]
    array = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
    _check(lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"gpu_rsfd.cu", 0, None, None))
    try:
        if lib.nvrtcCompileProgram(program, len(given), array):
            raise RuntimeError(_text(lib.nvrtcGetProgramLogSize, lib.nvrtcGetProgramLog, program)[:4000])
        text = _text(lib.nvrtcGetPTXSize, lib.nvrtcGetPTX, program)
        return text, _text(lib.nvrtcGetProgramLogSize, lib.nvrtcGetProgramLog, program)
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))


def _text(size_of, read, program) -> str:
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(read(program, text))
    return text.value.decode()


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"NVRTC failed with status {status}")
