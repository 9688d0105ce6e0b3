"""What storing adds to the simulation of syn3: the sweep with its results file against the bare simulation, one run.

python benchmarks/storing.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import gpu_rsfd
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.plan import Plan
from gpu_rsfd.spec import Spec

GOAL = 0.10
ROUNDS = 3


def main() -> None:
    data, spec = gpu_rsfd.load_dataset("syn3"), Spec.of()
    plan = Plan.of(data.domain, spec.protocols, spec.epsilons)
    shares = []
    with NumpyBackend() as backend, tempfile.TemporaryDirectory() as folder:
        backend.count(plan, data, 0, range(backend.grain(data.n)))  # starts the processes
        for i in range(ROUNDS):
            start = time.perf_counter()
            backend.count(plan, data, 0, spec.repetitions)
            bare = time.perf_counter() - start
            start = time.perf_counter()
            gpu_rsfd.sweep(data, output=Path(folder) / f"{i}.h5", backend=backend)
            stored = time.perf_counter() - start
            shares.append(stored / bare - 1)
            print(f"syn3, 100 repetitions: simulated in {bare:.2f} s, simulated and stored in {stored:.2f} s")
    print(f"storing adds {sorted(shares)[ROUNDS // 2]:.1%} (median; goal < {GOAL:.0%})")


if __name__ == "__main__":
    main()
