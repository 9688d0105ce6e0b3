"""gpu-rsfd: multidimensional frequency estimation under local differential privacy, simulated exactly and fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_rsfd.backends.literal import Reports, reports
from gpu_rsfd.datasets import CountedDataset, Dataset, SyntheticDataset, available, load_dataset, load_table
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.protocols import PAPER, PROTOCOLS, Terms, label, mechanism, mechanisms
from gpu_rsfd.results import Result, Results
from gpu_rsfd.simulation import simulate
from gpu_rsfd.spec import PAPER_EPSILONS, Spec
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.version import __version__

if TYPE_CHECKING:
    from gpu_rsfd.store.reading import open_results
    from gpu_rsfd.sweeping import merge, sweep

__all__ = [
    "PAPER",
    "PAPER_EPSILONS",
    "PROTOCOLS",
    "STREAM_VERSION",
    "CountedDataset",
    "Dataset",
    "Domain",
    "InputError",
    "Reports",
    "Result",
    "Results",
    "RunError",
    "Spec",
    "SyntheticDataset",
    "Terms",
    "__version__",
    "available",
    "label",
    "load_dataset",
    "load_table",
    "mechanism",
    "mechanisms",
    "merge",
    "open_results",
    "reports",
    "simulate",
    "sweep",
]

_LATE = {  # found when first used: h5py is imported only where a file is read or written
    "merge": "gpu_rsfd.sweeping",
    "open_results": "gpu_rsfd.store.reading",
    "sweep": "gpu_rsfd.sweeping",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
