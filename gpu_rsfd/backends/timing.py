"""How long a backend would take, from a small sample: some attributes with some of their values, and so few users that
it takes a fraction of a second, whatever the size of the whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from gpu_rsfd.backends.pool import CACHED_BYTES
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.synthetic import SyntheticDataset
from gpu_rsfd.domain import Domain
from gpu_rsfd.planning import Plan
from gpu_rsfd.tape import code_dtype

SAMPLE_ATTRIBUTES, SAMPLE_VALUES = 4, 256
MOST_USERS = 1 << 21
LONG_ENOUGH = 0.05  # seconds that tell a speed
COMMAND_BYTES, WORKER_BYTES = 120 << 20, 55 << 20  # a process with its libraries, before any work; measured


def code_bytes(dataset: Dataset) -> int:
    """What the codes of a data set take."""
    every = dataset.n * sum(code_dtype(k).itemsize for k in dataset.domain)
    return min(CACHED_BYTES, every) if isinstance(dataset, SyntheticDataset) else every * dataset.has_rows


def small(plan: Plan, attributes: int, values: int) -> Plan:
    """A plan of a few attributes with a few values, and the recipes of the whole one."""
    some = plan.attributes[:: -(-plan.d // attributes)]
    sizes = Domain(min(a.k, max(2, values // len(some))) for a in some)
    return replace(
        plan,
        domain=sizes,
        attributes=tuple(
            replace(a, index=j, k=k, offset=sizes.offsets[j]) for j, (a, k) in enumerate(zip(some, sizes, strict=True))
        ),
        cells=tuple(tuple(tuple(cell[a.index] for a in some) for cell in row) for row in plan.cells),
    )


def words(plan: Plan) -> int:
    """Of the tape, per 64 users: what a backend's work grows with."""
    return sum(a.words_per_group for a in plan.attributes)


def draws(plan: Plan) -> int:
    """Counts that a sampler draws in a repetition."""
    return sum(a.k * len(a.recipes) for a in plan.attributes)


def timed(do: Callable[[], object]) -> float:
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


def growing(n: int, time_of: Callable[[int], float]) -> tuple[int, float]:
    """As many users as take long enough to tell, within bounds; and their seconds."""
    most = min(n, MOST_USERS)
    users = min(most, 1 << 12)
    while (seconds := time_of(users)) < LONG_ENOUGH and users < most:
        users = min(most, 8 * users)
    return users, seconds
