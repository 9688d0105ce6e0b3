"""Data sets: n users, each with one code 0 … k_j - 1 for each of d attributes."""

from __future__ import annotations

import os
from pathlib import Path

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.counted import CountedDataset
from gpu_rsfd.datasets.originals import from_originals
from gpu_rsfd.datasets.published import PUBLISHED, nursery, rebuilt
from gpu_rsfd.datasets.synthetic import PAPER_SYNTHETIC, SyntheticDataset
from gpu_rsfd.datasets.table import load_table
from gpu_rsfd.errors import InputError

__all__ = [
    "DATA_VARIABLE",
    "CountedDataset",
    "Dataset",
    "SyntheticDataset",
    "available",
    "load_dataset",
    "load_table",
]

DATA_VARIABLE = "GPU_RSFD_DATA"  # names the folder of original files


def available() -> tuple[str, ...]:
    """The names that `load_dataset` knows."""
    return (*PAPER_SYNTHETIC, *PUBLISHED)


def load_dataset(name: str, seed: int = 0, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """A data set of the paper by name.

    syn1 … syn6 are drawn from `seed`, the data set's own: the simulation's seed never changes the data.  Nursery is
    complete.  Adult, MS-FIMU and Census-Income are real rows if their original files are in the folder `data_dir`
    (default: environment variable GPU_RSFD_DATA), else columns rebuilt from the published counts: right for each
    attribute alone, and so for the mean of MSE_avg, but not for what a user holds together.  `.source` tells which.
    """
    if name in PAPER_SYNTHETIC:
        n, domain = PAPER_SYNTHETIC[name]
        return SyntheticDataset(n, domain, seed=seed, name=name)
    if name not in PUBLISHED:
        raise InputError(f"unknown data set {name!r}; available: {', '.join(available())}")
    option, folder = "data_dir", data_dir
    if folder is None:
        option, folder = DATA_VARIABLE, os.environ.get(DATA_VARIABLE) or None
    if folder is not None:
        if not Path(folder).is_dir():
            raise InputError(f"{option}={str(folder)!r} is not a folder; valid: the folder of the original files")
        data = from_originals(name, Path(folder))
        if data is not None:
            return data
    return nursery() if name == "nursery" else rebuilt(name)
