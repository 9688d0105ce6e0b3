"""Data sets: n users, each with one code 0 … k_j - 1 for each of d attributes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gpu_rsfd.checks import one_of
from gpu_rsfd.datasets.base import Dataset as Dataset
from gpu_rsfd.datasets.counted import CountedDataset as CountedDataset
from gpu_rsfd.datasets.evolving import EvolvingDataset as EvolvingDataset
from gpu_rsfd.datasets.paper import ORIGINALS, PUBLISHED, from_originals, has_originals, nursery, rebuilt
from gpu_rsfd.datasets.synthetic import PAPER_SYNTHETIC
from gpu_rsfd.datasets.synthetic import SyntheticDataset as SyntheticDataset
from gpu_rsfd.datasets.table import describe as describe
from gpu_rsfd.datasets.table import is_frame as is_frame
from gpu_rsfd.datasets.table import load_table as load_table
from gpu_rsfd.errors import InputError

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
        one_of("data set", name, available())
    published = [name for name in names if name in PUBLISHED]
    option = DATA_VARIABLE if data_dir is None else "data_dir"
    folder = os.environ.get(DATA_VARIABLE) or None if data_dir is None else data_dir
    if published and folder is not None:
        if not str(folder) or not Path(folder).is_dir():
            raise InputError(f"{option}={str(folder)!r} is not a folder; valid: the folder of the original files")
        if data_dir is not None and not any(has_originals(name, Path(folder)) for name in published):
            needed = "; ".join(f"{name}: {', '.join(ORIGINALS[name])}" for name in published)
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
    return text not in available() and ("/" in text or Path(text).suffix != "" or Path(text).is_file())


def as_dataset(data: object) -> Dataset:
    """A data set, given as such, by its name, as a table's path, or as a data frame or Arrow table."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str) and not is_table(data):
        return load_dataset(str(data))
    if isinstance(data, (str, os.PathLike)) or is_frame(data):
        return load_table(data)
    needed = "a Dataset, the name of one, a table's path or a data frame; codes become one by Dataset(codes, domain)"
    raise InputError(f"data is of type {type(data).__name__}; needed: {needed}")
