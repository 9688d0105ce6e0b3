"""What a Dask cluster adds: tasks that sleep, on four workers of one thread each, against the ideal time.

python benchmarks/cluster.py
"""

from __future__ import annotations

import time

import gpu_rsfd
from gpu_rsfd.backends.cluster import Cluster
from gpu_rsfd.backends.pool import Columns

WORKERS, TASKS, SECONDS = 4, 120, 0.5
RESULT = 1 << 20  # bytes that a task gives back, as a block does
GOAL = 0.90


def nap(columns: Columns, number: int, seconds: float, size: int) -> bytes:
    """A block without the work."""
    time.sleep(seconds)
    return bytes(size)


def main() -> None:
    from benchmarks.cluster import nap as named  # by a name that the workers know

    data = gpu_rsfd.SyntheticDataset(1000, (4, 5))
    with Cluster(f"local:{WORKERS}") as cluster:
        while cluster.threads < WORKERS:
            time.sleep(0.1)
        list(cluster.map(data, named, [(i, 0.0, 1) for i in range(2 * WORKERS)]))  # imports
        start = time.perf_counter()
        for _ in cluster.map(data, named, ((i, SECONDS, RESULT) for i in range(TASKS))):
            pass
        took = time.perf_counter() - start
    ideal = TASKS * SECONDS / WORKERS
    print(f"{TASKS} tasks of {SECONDS} s on {WORKERS} workers: {took:.2f} s, ideal {ideal:.2f} s")
    print(f"efficiency {ideal / took:.1%} (goal > {GOAL:.0%})")


if __name__ == "__main__":
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
