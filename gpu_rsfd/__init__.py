"""gpu-rsfd: multidimensional frequency estimation under local differential privacy, simulated exactly and fast."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from gpu_rsfd.datasets import CountedDataset, Dataset, SyntheticDataset, available, load_dataset, load_table
from gpu_rsfd.protocols import PAPER, PROTOCOLS, label, mechanism
from gpu_rsfd.reports import Reports, reports
from gpu_rsfd.simulate import Result, simulate
from gpu_rsfd.spec import PAPER_EPSILONS
from gpu_rsfd.tape import STREAM_VERSION

if TYPE_CHECKING:
    from gpu_rsfd.store import Results

__version__ = "0.1.0"

__all__ = [
    "PAPER",
    "PAPER_EPSILONS",
    "PROTOCOLS",
    "STREAM_VERSION",
    "CountedDataset",
    "Dataset",
    "Reports",
    "Result",
    "SyntheticDataset",
    "__version__",
    "available",
    "label",
    "load_dataset",
    "load_table",
    "mechanism",
    "open_results",
    "reports",
    "simulate",
]


def open_results(path: str | PathLike[str]) -> Results:
    """The results of a sweep, per data set, each as `simulate` gives it; what is done, if the sweep is unfinished."""
    from gpu_rsfd.store import open_results as read  # h5py is imported only where a file is read

    return read(path)
