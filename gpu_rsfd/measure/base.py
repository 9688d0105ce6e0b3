"""What `collect` and the store know of a measurement: named arrays with a repetition axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends.base import Progress
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.results.estimate import STORED
from gpu_rsfd.results.result import Header, Measured

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Array:
    """An array [protocol, epsilon, repetition, …] of a measurement."""

    name: str
    dtype: type[np.generic]
    dimension: str = ""  # of what follows the repetition: value, attribute, postprocess; nothing if there is none
    field: str = ""  # what the result calls it, if not by its name

    def tail(self, header: Header) -> tuple[int, ...]:
        """The shape of what follows the repetition."""
        sizes = {"value": header.plan.values, "attribute": len(header.domain), "postprocess": len(STORED)}
        return (sizes[self.dimension],) if self.dimension else ()


class Measurement(Protocol):
    """Makes its arrays for some repetitions, and a result from them.  Picklable: a cluster's workers get it."""

    kind: ClassVar[str]  # as a results file names it
    noun: ClassVar[str]  # as people do

    def described(self) -> dict[str, Any]:
        """What of it decides about the numbers, as plain data; nothing that is as usual."""

    def arrays(self) -> tuple[Array, ...]:
        """What it records."""

    def make(
        self,
        header: Header,
        data: Dataset,
        seed: int,
        repetitions: range,
        engine: Any,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Arrays]]:
        """(protocol, its arrays [epsilon, repetition, …]), one protocol after the other.

        The cells that the header's plan does not ask for may hold anything.
        """

    def pieces(self, header: Header, repetitions: int, engine: Any) -> int:
        """How many times the engine is called for a block: more than once where that saves memory."""

    def check(self, header: Header, arrays: Mapping[str, Any]) -> tuple[str, str] | None:
        """An array that can't be right, and why; None if all can."""

    def result(
        self, header: Header, repetitions: range, spec: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> Measured:
        """What users get.  An array may be a function that gives it."""
