"""The literal reports behind the contract of a backend: slow, obvious, and what every other backend must equal."""

from __future__ import annotations

import numpy as np

from gpu_rsfd.backends.base import Engine, Progress, check_noises
from gpu_rsfd.backends.literal import LITERAL, literal, reported
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.planning import Counts, Plan


class ReferenceBackend(Engine):
    """Counts what each user sends, user by user, for one cell of the plan after another."""

    name = "reference"
    noises = frozenset(LITERAL)
    device = "one CPU process, user by user"

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute]."""
        check_noises(plan, self.name, self.noises)
        counts = [np.zeros((len(a.recipes), len(repetitions), a.k), np.int64) for a in plan.attributes]
        sampled = np.zeros((len(repetitions), plan.d), np.int64)
        cells = dict.fromkeys(cell for row in plan.cells for cell in row)  # equal cells send equal reports
        for row, repetition in enumerate(repetitions):
            for cell in cells:
                recipes = [a.recipes[i] for a, i in zip(plan.attributes, cell, strict=True)]
                values, _, assigned = literal(dataset, recipes, seed, repetition, plan.assignment)
                for a, i, sent in zip(plan.attributes, cell, values, strict=True):
                    counts[a.index][i, row] = reported(sent, a.k, a.recipes[i])
                if plan.needs_reporters:
                    sampled[row] = np.bincount(assigned, minlength=plan.d)
            if progress is not None:
                progress(plan.positions(dataset.n))
        return counts, sampled
