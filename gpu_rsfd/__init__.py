"""gpu-rsfd: multidimensional frequency estimation under local differential privacy, simulated exactly and fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpu_rsfd.backends.literal import Reports, reports
from gpu_rsfd.datasets import CountedDataset, Dataset, SyntheticDataset, available, load_dataset, load_table
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.privacy import AttackResult, ReportChunk, attack, privacy_loss, report_chunks
from gpu_rsfd.protocols import PAPER, PROTOCOLS, Terms, label, mechanism, mechanisms
from gpu_rsfd.results import Result, Results
from gpu_rsfd.simulation import simulate
from gpu_rsfd.spec import PAPER_EPSILONS, Spec
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.version import __version__
from gpu_rsfd.viewing import VIEWS

if TYPE_CHECKING:
    from gpu_rsfd.privacy.files import open_attacks
    from gpu_rsfd.store.reading import open_results
    from gpu_rsfd.sweeping import merge, sweep

__all__ = [
    "PAPER",
    "PAPER_EPSILONS",
    "PROTOCOLS",
    "STREAM_VERSION",
    "AttackResult",
    "CountedDataset",
    "Dataset",
    "Domain",
    "InputError",
    "ReportChunk",
    "Reports",
    "Result",
    "Results",
    "RunError",
    "Spec",
    "SyntheticDataset",
    "Terms",
    "__version__",
    "attack",
    "available",
    "label",
    "load_dataset",
    "load_table",
    "mechanism",
    "mechanisms",
    "merge",
    "open_attacks",
    "open_results",
    "privacy_loss",
    "report_chunks",
    "reports",
    "simulate",
    "sweep",
]

_LATE = {  # found when first used: h5py is imported only where a file is read or written
    "open_attacks": "gpu_rsfd.privacy.files",
    "merge": "gpu_rsfd.sweeping",
    "open_results": "gpu_rsfd.store.reading",
    "sweep": "gpu_rsfd.sweeping",
}


def _view(name: str) -> Callable[..., Any]:
    """How results show themselves: known to the room `show`, imported when first used."""

    def view(*arguments: Any) -> Any:
        from gpu_rsfd.show import notebook

        return getattr(notebook, name)(*arguments)

    return view


VIEWS.update({name: _view(name) for name in ("text", "html", "to_dataframe", "to_xarray", "plot")})


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
