"""A measurement of one's own: `gpu-rsfd run examples/growing.py:Growing --steps 2`."""

from dataclasses import dataclass

import numpy as np

import gpu_rsfd


@dataclass(frozen=True)
class Growing(gpu_rsfd.Measurement):
    """Support of the first value, times 1 ... steps."""

    steps: int = 3  # a field is an option
    arrays = {"support": ("step",)}  # dimensions after protocol, epsilon, repetition
    columns = {"support": "support of the first value"}

    def coords(self):
        return {"step": range(1, self.steps + 1)}

    def measure(self, view):
        counts, reporters = view.counts()
        return {"support": counts[..., :1] / reporters[..., :1] * np.arange(1, self.steps + 1)}
