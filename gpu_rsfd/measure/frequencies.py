"""`sweep`: how often each value was reported, and the error of what is estimated from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_rsfd.measure.base import Measurement, keep_field
from gpu_rsfd.results.estimate import STORED, errors_of
from gpu_rsfd.results.result import Column

if TYPE_CHECKING:
    from gpu_rsfd.measure.view import View
    from gpu_rsfd.results.result import Result

NUMBERS_AT_ONCE = 1 << 20  # estimates that are worked out at a time


@dataclass(frozen=True)
class Frequencies(Measurement):
    """Simulate data sets x protocols x epsilons x repetitions into one HDF5 file, with a table and a figure."""

    keep: str = keep_field("counts", "mse")

    name = "frequencies"
    command = "sweep"
    arrays = {"counts": ("value",), "reporters": ("attribute",), "mse": ("postprocess",)}
    columns = {"error": Column("error", "smaller")}
    about = ""
    counts_first = True
    examples = (
        "gpu-rsfd sweep",
        "gpu-rsfd sweep --dataset syn3 --dataset adult --repetitions 10",
        "gpu-rsfd sweep --users 1e4,1e5,1e6 --domain 10x5 --epsilon ln3 --output over_n.h5",
        "gpu-rsfd sweep --dataset people.csv --columns sex,age --bins age=10 --output people.h5",
        "gpu-rsfd sweep --protocol-from mine.py --protocol mine,smp-adp",
    )

    def recorded(self) -> Mapping[str, tuple[str, ...]]:
        return {name: dims for name, dims in self.arrays.items() if name != "counts" or self.keep == "counts"}

    def coords(self) -> Mapping[str, Sequence[Any]]:
        return {"postprocess": STORED}

    def measure(self, view: View) -> Mapping[str, Any]:
        counts, reporters = view.counts()
        errors = np.empty((*counts.shape[:3], len(STORED)))
        for p in range(len(view.protocols)):  # one protocol after the other, so that little is in memory
            one = view.plan.take([p])
            rows = max(1, NUMBERS_AT_ONCE // (counts.shape[1] * counts.shape[3]))
            for i in range(0, counts.shape[2], rows):
                some = slice(p, p + 1), slice(None), slice(i, i + rows)
                errors[some] = errors_of(one, view.truth, counts[some], reporters[some])
        made = {"counts": counts, "reporters": reporters, "mse": errors}
        return {name: made[name] for name in self.recorded()}

    def check(self, result: Result) -> tuple[str, str] | None:
        valid = f"numbers from 0 to users={result.n} are valid"
        reporters = result.reporters
        if reporters.size and not 0 <= reporters.min() <= reporters.max() <= result.n:
            return "reporters", f"has {reporters.min()} and {reporters.max()}; {valid}"
        if not result.has_counts:
            return None
        counts = result.counts
        if counts.size and counts.min() < 0:
            return "counts", f"has {counts.min()}; {valid}"
        for j, columns in enumerate(result.domain.slices):
            if (counts[..., columns].max(axis=-1, initial=0) > reporters[..., j]).any():
                return "counts", f"has more reports of a value of attribute {j} than reporters"
        return None
