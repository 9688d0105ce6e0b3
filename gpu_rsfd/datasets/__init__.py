"""Data sets: n users, each with one code 0 … k_j - 1 for each of d attributes."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.counted import CountedDataset
from gpu_rsfd.datasets.paper.originals import ORIGINALS, from_originals, has_originals
from gpu_rsfd.datasets.paper.published import PUBLISHED, nursery, rebuilt
from gpu_rsfd.datasets.synthetic import PAPER_SYNTHETIC, SyntheticDataset
from gpu_rsfd.datasets.table.arrow import is_frame
from gpu_rsfd.datasets.table.load import FOREIGN, SUFFIXES, load_table
from gpu_rsfd.datasets.table.report import TableReport, load_and_describe, report_text
from gpu_rsfd.datasets.table.report import describe as _describe_table
from gpu_rsfd.errors import InputError

__all__ = [
    "DATA_VARIABLE",
    "CountedDataset",
    "Dataset",
    "SyntheticDataset",
    "TableReport",
    "as_dataset",
    "available",
    "describe",
    "is_table",
    "load_and_describe",
    "load_dataset",
    "load_datasets",
    "load_table",
    "report_text",
]

DATA_VARIABLE = "GPU_RSFD_DATA"  # names the folder of original files


def available() -> tuple[str, ...]:
    """Names of the data sets that `load_dataset` knows.

    Returns
    -------
    tuple of str
        syn1 … syn6, nursery, adult, ms-fimu, census-income.
    """
    return (*PAPER_SYNTHETIC, *PUBLISHED)


def load_dataset(name: str, seed: int = 0, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set of the paper.

    Nursery is regenerated completely.  Without the original files, the columns of Adult, MS-FIMU and Census-Income are
    rebuilt from the published counts: each attribute has the right frequencies, and so the mean of MSE_avg is right,
    but the joint distribution of attributes is not.  The attribute `source` of the data set says which it is.

    Parameters
    ----------
    name : str
        A name of `available()`.
    seed : int
        Seed of syn1 … syn6.  The seed of a simulation does not change the data.
    data_dir : str or path, optional
        Folder with the original files.  Default: the environment variable GPU_RSFD_DATA, whose folder may lack files.

    Returns
    -------
    Dataset
        The data set.

    Raises
    ------
    InputError
        If the name is unknown, or `data_dir` lacks the original files or holds others.
    """
    return load_datasets([name], seed, data_dir)[0]


def load_datasets(names: Sequence[str], seed: int = 0, data_dir: str | os.PathLike[str] | None = None) -> list[Dataset]:
    """Several data sets: it is enough if `data_dir` has the files of one of them."""
    for name in names:
        if name not in available():
            raise InputError(f"unknown data set {name!r}; available: {', '.join(available())}")
    published = [name for name in names if name in PUBLISHED]
    option, folder = "data_dir", data_dir
    if folder is None:
        option, folder = DATA_VARIABLE, os.environ.get(DATA_VARIABLE) or None
    if published and folder is not None:
        if not str(folder) or not Path(folder).is_dir():
            raise InputError(f"{option}={str(folder)!r} is not a folder; valid: the folder of the original files")
        if data_dir is not None and not any(has_originals(name, Path(folder)) for name in published):
            needed = "; ".join(f"{name}: {', '.join(ORIGINALS[name].files)}" for name in published)
            raise InputError(f"{option}={str(folder)!r} has no original file of these data sets; needed: {needed}")
    return [_load(name, seed, None if folder is None else Path(folder)) for name in names]


def _load(name: str, seed: int, folder: Path | None) -> Dataset:
    if name in PAPER_SYNTHETIC:
        n, domain = PAPER_SYNTHETIC[name]
        return SyntheticDataset(n, domain, seed=seed, name=name)
    if folder is not None and has_originals(name, folder):
        return from_originals(name, folder)
    return nursery() if name == "nursery" else rebuilt(name)


def is_table(text: str) -> bool:
    """Whether a text is meant as the path of a table, not as a data set's name."""
    if text in available():
        return False
    known = Path(text).suffix.lower() in (*SUFFIXES, *FOREIGN, ".gz")
    return known or "/" in text or Path(text).is_file()


def as_dataset(data: object) -> Dataset:
    """A data set, given as such, by its name, as a table's path, or as a data frame or Arrow table."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str):
        return load_table(data) if is_table(data) else load_dataset(str(data))
    if isinstance(data, os.PathLike) or is_frame(data):
        return load_table(data)
    what, todo = (
        f"of type {type(data).__name__}",
        "a Dataset, the name of one, a table's path or a data frame is needed",
    )
    if hasattr(data, "to_numpy") and hasattr(data, "columns"):
        todo = "write it to a file, frame.to_csv('people.csv', index=False), and use load_table('people.csv')"
    elif hasattr(data, "__array__") or isinstance(data, (list, tuple)):
        what += f" with shape {data.shape}" if isinstance(data, np.ndarray) else ""
        todo = "make a data set of it: Dataset(codes, domain), codes[i, j] from 0 to domain[j] - 1"
    raise InputError(f"data is {what}, not a data set; {todo}")


@functools.wraps(_describe_table)
def describe(table: Any, **options: Any) -> TableReport:
    """As for a table; the name of a data set is one, too."""
    if isinstance(table, str) and not is_table(table):
        table = load_dataset(table)
    return _describe_table(table, **options)
