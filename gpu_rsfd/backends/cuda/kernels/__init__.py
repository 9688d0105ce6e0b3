"""The CUDA source of the CuPy backend, as texts for NVRTC: a module has the kernels that it is asked for."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

OPTIONS = ("-std=c++17", "-device-int128")

# Thresholds that one pass compares: kernel count_unary_N (tp = 2**23) or count_paired_N (tq and tp in turn).  The
# paper's six methods at its six epsilons need 13 for attributes of ten values; what is not used costs time.
UNARY = (2, 4, 6, 8, 10, 12, 13, 14, 16, 18)
PAIRED = tuple(n for n in UNARY if n % 2 == 0)
BARE = "bare_tape"  # a yardstick: nothing is counted with it

_USERS = ("pack_codes", "draw_codes", "assign", "count_sampled", "count_values")
KERNELS = (*_USERS, *(f"count_unary_{n}" for n in UNARY), *(f"count_paired_{n}" for n in PAIRED))
FILES = ("tape.cuh", "planes.cuh", "users.cu", "values.cu", "unary.cu")


@lru_cache(maxsize=8)
def text(name: str) -> str:
    """A file, without its includes."""
    lines = files(__name__).joinpath(name).read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith(('#include "', "#pragma once"))) + "\n"


def module_of(kernel: str) -> tuple[str, ...]:
    """The kernels that are compiled together with this one.

    The kernels of unary encodings take the compiler longest, and a plan needs one or two of their sizes: each is alone.
    """
    return _USERS if kernel in _USERS else (kernel,)


def source(*kernels: str) -> str:
    """A module with these kernels: no include path is needed, and the text alone identifies it."""
    unary = [kernel for kernel in kernels if kernel.startswith(("count_unary_", "count_paired_"))]
    names = ["tape.cuh", "planes.cuh"]
    names += ["users.cu", "values.cu"] if set(kernels) & set(_USERS) else []
    names += ["unary.cu"] if unary else []
    names += ["bare.cu"] if BARE in kernels else []
    return "".join(map(text, names)) + "".join(map(_sized, unary))


def _sized(kernel: str) -> str:
    """The line that makes a kernel of one size."""
    paired, size = kernel.startswith("count_paired_"), kernel.rpartition("_")[2]
    blocks = "PAIRED_BLOCKS" if paired else "PLAIN_BLOCKS"
    return f"COUNT_UNARY({kernel}, {size}, {str(paired).lower()}, {blocks})\n"
