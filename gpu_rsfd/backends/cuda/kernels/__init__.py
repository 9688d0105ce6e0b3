"""The CUDA source of the CuPy backend, as one text for NVRTC."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

FILES = ("tape.cuh", "planes.cuh", "users.cu", "values.cu", "unary.cu")
OPTIONS = ("-std=c++17", "-device-int128")

# Thresholds that one pass compares: kernel count_unary_N (tp = 2**23) or count_paired_N (tq and tp in turn).
UNARY = (2, 6, 12, 18)
PAIRED = (6, 18)
KERNELS = (
    "pack_codes",
    "draw_codes",
    "assign",
    "count_sampled",
    "count_values",
    *(f"count_unary_{n}" for n in UNARY),
    *(f"count_paired_{n}" for n in PAIRED),
)


@lru_cache(maxsize=8)
def source(names: tuple[str, ...] = FILES) -> str:
    """The files one after another, so that no include path is needed and the text alone identifies the module."""
    texts = [files(__name__).joinpath(name).read_text(encoding="utf-8") for name in names]
    lines = (
        line for text in texts for line in text.splitlines() if not line.startswith(('#include "', "#pragma once"))
    )
    return "\n".join(lines) + "\n"
