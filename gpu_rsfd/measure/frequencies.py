"""Frequencies: how often each value was reported, and the error of what is estimated from that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpu_rsfd.backends.base import Progress
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure.base import Array, Arrays
from gpu_rsfd.results.estimate import errors_of
from gpu_rsfd.results.result import Header, Result, each_protocol
from gpu_rsfd.spec import MEASURED

KEEP = MEASURED["sweep"].values  # what a results file keeps of each repetition
BLOCK_BYTES = 96 << 20  # counts in memory at a time
NUMBERS_AT_ONCE = 1 << 20  # estimates that are worked out at a time


@dataclass(frozen=True)
class Frequencies:
    """Counts of reports and the users behind them; `keep` = mse leaves the counts out."""

    keep: str = "counts"

    kind: ClassVar[str] = "frequencies"
    noun: ClassVar[str] = "sweep"

    def __post_init__(self) -> None:
        if self.keep not in KEEP:
            raise InputError(f"keep={self.keep!r} is unknown; available: {', '.join(KEEP)}")

    def described(self) -> dict[str, Any]:
        return {} if self.keep == "counts" else {"keep": self.keep}

    def arrays(self) -> tuple[Array, ...]:
        rest = (Array("reporters", np.int64, "attribute"), Array("mse", np.float64, "postprocess", "errors"))
        return (Array("counts", np.int64, "value"), *rest) if self.keep == "counts" else rest

    def pieces(self, header: Header, repetitions: int, engine: Any) -> int:
        """All protocols together; where many repetitions are drawn at once, as many as fit into memory."""
        if engine.drawn_at_once(header.plan) == 1:
            return 1
        protocols = len(header.plan.looks)
        each = 8 * repetitions * len(header.epsilons) * header.plan.values
        return -(-protocols // max(1, BLOCK_BYTES // each))

    def make(
        self,
        header: Header,
        data: Dataset,
        seed: int,
        repetitions: range,
        engine: Any,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Arrays]]:
        asked = header.plan.asked
        pieces = self.pieces(header, len(repetitions), engine)
        step = -(-len(asked) // pieces)
        for first in range(0, len(asked), step):
            wanted = asked.copy()
            wanted[:first] = wanted[first + step :] = False
            if not wanted.any():
                continue
            plan = header.plan.only(wanted)
            told = progress if progress is None or pieces == 1 else _divided(progress, pieces)
            counts, sampled = engine.count(plan, data, seed, repetitions, told)
            for p, one in each_protocol(plan):
                if wanted[p].any():
                    table, reporters = one.expand(counts), one.reporters(header.n, sampled)
                    rows = max(1, NUMBERS_AT_ONCE // (table.shape[1] * table.shape[3]))
                    errors = [
                        errors_of(one, header.frequencies, table[:, :, i : i + rows], reporters[:, :, i : i + rows])
                        for i in range(0, len(repetitions), rows)
                    ]
                    made = {"counts": table[0], "reporters": reporters[0], "mse": np.concatenate(errors, axis=2)[0]}
                    yield p, {array.name: made[array.name] for array in self.arrays()}

    def check(self, header: Header, arrays: Mapping[str, Any]) -> tuple[str, str] | None:
        valid = f"numbers from 0 to users={header.n} are valid"
        counts, reporters = arrays.get("counts"), arrays.get("reporters")
        for name, numbers in (("counts", counts), ("reporters", reporters)):
            if numbers is not None and numbers.size and (least := numbers.min()) < 0:
                return name, f"has {least}; {valid}"
        if reporters is not None and reporters.size and (most := reporters.max()) > header.n:
            return "reporters", f"has {most}; {valid}"
        if counts is not None and reporters is not None:
            for j, columns in enumerate(header.domain.slices):
                if (counts[..., columns].max(axis=-1, initial=0) > reporters[..., j]).any():
                    return "counts", f"has more reports of a value of attribute {j} than reporters"
        return None

    def result(self, header: Header, repetitions: range, spec: Mapping[str, Any], arrays: Mapping[str, Any]) -> Result:
        fields = {array.name: array.field or array.name for array in self.arrays()}
        kept = {fields.get(name, name): content for name, content in arrays.items()}
        return Result.from_header(header, repetitions, spec, **kept)

    def simulated(
        self, header: Header, repetitions: range, spec: Mapping[str, Any], counts: Any, sampled: Any
    ) -> Result:
        """A result from a backend's counts; errors are worked out when they are asked for."""
        plan = header.plan
        arrays = {"counts": plan.expand(counts), "reporters": plan.reporters(header.n, sampled)}
        return Result.from_header(header, repetitions, spec, **arrays)


def _divided(progress: Progress, number: int) -> Progress:
    return lambda positions: progress(positions // number)
