"""gpu-rsfd: multidimensional frequency estimation under local differential privacy, simulated exactly and fast."""

from gpu_rsfd.datasets import CountedDataset, Dataset, SyntheticDataset, load_dataset
from gpu_rsfd.protocols import PAPER, PROTOCOLS, label, mechanism
from gpu_rsfd.reports import Reports, reports
from gpu_rsfd.simulate import Result, simulate
from gpu_rsfd.spec import PAPER_EPSILONS
from gpu_rsfd.tape import STREAM_VERSION

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
    "label",
    "load_dataset",
    "mechanism",
    "reports",
    "simulate",
]
