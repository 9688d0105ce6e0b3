"""What storing takes: syn3's results file against the bare simulation, and a sweep with 2 GB of counts.

python benchmarks/storing.py          both
python benchmarks/storing.py syn3     time that storing adds to the simulation of syn3
python benchmarks/storing.py large    resident size and time of a sweep with 2 GB of counts
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gpu_rsfd

GOAL = 0.10
MOST_MEGABYTES = 600
ROUNDS = 3
LARGE = """
import resource, sys, time
import gpu_rsfd
from gpu_rsfd.protocols import PROTOCOLS
data = gpu_rsfd.CountedDataset.of_distribution(10**6, (50,) * 100, "zipf:1", name="large")
start = time.perf_counter()
results = gpu_rsfd.sweep(data, epsilons=[0.25 * i for i in range(1, 21)], protocols=list(PROTOCOLS)[:14],
                         repetitions=200, sampler="marginals", output=sys.argv[1])
swept = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
opened = gpu_rsfd.open_results(sys.argv[1])["large"]
opening = time.perf_counter() - start
assert opened.repetitions == range(200)
print(f"{8 * 14 * 20 * 200 * 5000 / 1e9:.2f} GB of counts swept in {swept:.1f} s, "
      f"at most {peak / 1024:.0f} MB resident, opened in {opening * 1000:.0f} ms")
"""


def syn3() -> None:
    from gpu_rsfd.backends.cpu.backend import NumpyBackend
    from gpu_rsfd.planning import Plan
    from gpu_rsfd.spec import Spec

    data, spec = gpu_rsfd.load_dataset("syn3"), Spec.of()
    plan = Plan.of(data.domain, spec.protocols, spec.epsilons)
    shares = []
    with NumpyBackend() as backend, tempfile.TemporaryDirectory() as folder:
        backend.count(plan, data, 0, range(backend.batch_multiple(data.n)))  # starts the processes
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


def large() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.h5")
        subprocess.run([sys.executable, "-c", LARGE, str(path)], check=True)
        print(f"file: {os.path.getsize(path) / 1e9:.2f} GB; goal: under {MOST_MEGABYTES} MB resident")


def main() -> None:
    wanted = sys.argv[1:] or ["syn3", "large"]
    for name in wanted:
        {"syn3": syn3, "large": large}[name]()


if __name__ == "__main__":
    main()
