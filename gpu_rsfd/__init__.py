"""gpu-rsfd: multidimensional frequency estimation under local differential privacy, simulated exactly and fast."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gpu_rsfd.late import MAKERS
from gpu_rsfd.version import __version__

if TYPE_CHECKING:
    from gpu_rsfd.backends.literal import Reports, reports
    from gpu_rsfd.collecting.collection import Client, Collection, State, collection
    from gpu_rsfd.contract import check
    from gpu_rsfd.datasets import available, describe, load_dataset, load_table
    from gpu_rsfd.datasets.base import Dataset
    from gpu_rsfd.datasets.counted import CountedDataset
    from gpu_rsfd.datasets.evolving import EvolvingDataset
    from gpu_rsfd.datasets.synthetic import SyntheticDataset
    from gpu_rsfd.domain import Domain
    from gpu_rsfd.errors import InputError, RunError
    from gpu_rsfd.measure.base import Measurement
    from gpu_rsfd.measure.reports import ReportChunk, report_chunks
    from gpu_rsfd.measure.view import View
    from gpu_rsfd.protocols import PAPER, PROTOCOLS, PrivacySettings, label, mechanism, mechanisms
    from gpu_rsfd.protocols.exposure import privacy_loss
    from gpu_rsfd.protocols.own import protocol
    from gpu_rsfd.results.aggregate import Aggregate, aggregate
    from gpu_rsfd.results.estimate import POSTPROCESS
    from gpu_rsfd.results.metrics import METRICS, Metric
    from gpu_rsfd.results.result import Column, Result, Results
    from gpu_rsfd.running.experiments import attack, merge, rounds, run, simulate, sweep
    from gpu_rsfd.spec import PAPER_EPSILONS, Spec
    from gpu_rsfd.store.contents import open_results
    from gpu_rsfd.tape import STREAM_VERSION
    from gpu_rsfd.theory.decision import plan

__all__ = [
    "METRICS",
    "PAPER",
    "PAPER_EPSILONS",
    "POSTPROCESS",
    "PROTOCOLS",
    "STREAM_VERSION",
    "Aggregate",
    "Client",
    "Collection",
    "Column",
    "CountedDataset",
    "Dataset",
    "Domain",
    "EvolvingDataset",
    "InputError",
    "Measurement",
    "Metric",
    "PrivacySettings",
    "ReportChunk",
    "Reports",
    "Result",
    "Results",
    "RunError",
    "Spec",
    "State",
    "SyntheticDataset",
    "View",
    "__version__",
    "aggregate",
    "attack",
    "available",
    "check",
    "collection",
    "describe",
    "label",
    "load_dataset",
    "load_table",
    "mechanism",
    "mechanisms",
    "merge",
    "open_results",
    "plan",
    "privacy_loss",
    "protocol",
    "report_chunks",
    "reports",
    "rounds",
    "run",
    "simulate",
    "sweep",
]

_HOMES = {  # where each name is found when it is first used: importing the package imports nothing else
    "results.aggregate": "Aggregate aggregate",
    "backends.literal": "Reports reports",
    "contract": "check",
    "collecting.collection": "Client Collection State collection",
    "datasets": "CountedDataset Dataset EvolvingDataset SyntheticDataset available describe load_dataset load_table",
    "domain": "Domain",
    "errors": "InputError RunError",
    "results.estimate": "POSTPROCESS",
    "running.experiments": "attack merge rounds run simulate sweep",
    "measure.base": "Measurement",
    "measure.view": "View",
    "measure.reports": "ReportChunk report_chunks",
    "results.metrics": "METRICS Metric",
    "protocols": "PAPER PROTOCOLS PrivacySettings label mechanism mechanisms",
    "protocols.exposure": "privacy_loss",
    "protocols.own": "protocol",
    "results.result": "Column Result Results",
    "spec": "PAPER_EPSILONS Spec",
    "store.contents": "open_results",
    "tape": "STREAM_VERSION",
    "theory.decision": "plan",
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names.split():
            found = getattr(_module(home), name)
            globals()[name] = found
            return found
    if name in _SUBMODULES:
        return _module(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES])


def _module(name: str) -> Any:

    return importlib.import_module(f"gpu_rsfd.{name}")


# Who draws: rooms that know nothing of drawing ask here.
MAKERS["aggregated"] = lambda: _module("show.aggregated")
MAKERS["notebook"] = lambda: _module("show.notebook")
MAKERS["planned"] = lambda: _module("show.planned")

_SUBMODULES = ("theory",)  # as `gpu_rsfd.theory.expected_mse`
