"""The host's own time per repetition on the CuPy backend: a stand-in for CuPy whose kernels do nothing; no GPU needed.

    python benchmarks/host.py [--base COMMIT]

What is left is what keeps a fast device waiting: launches, unpacking of counts.  With --base the same is measured for
another commit, which is checked out into a temporary folder, in turn with this one.
Goals: at most 30 microseconds for syn1 at 10,000 repetitions, 500 for syn6 at 100.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = {"syn1": (10_000, 30), "syn6": (100, 500)}  # repetitions, goal in microseconds
TIMES = 3  # processes; the best counts


def measure(name: str) -> tuple[float, float]:
    """Microseconds per repetition, of the first run after one that compiles: by the clock, and of the processor."""
    sys.path[:0] = [str(ROOT / "tests" / "standin"), str(ROOT / "tests")]
    import cupy
    import numpy as np

    from gpu_rsfd import PAPER, PAPER_EPSILONS, SyntheticDataset, load_dataset
    from gpu_rsfd.backends.cuda.backend import CupyBackend
    from gpu_rsfd.planning import Plan

    cupy.ones = lambda shape, dtype: cupy.asarray(np.ones(shape, dtype))  # older commits have need of these two
    cupy.ndarray.fill = lambda array, value: None
    cupy._reset(idle=True, memory=16 << 30)
    data = load_dataset(name)
    plan = Plan.of(data.domain, PAPER, PAPER_EPSILONS)
    repetitions, _ = RUNS[name]
    with CupyBackend() as backend:
        backend.count(plan, SyntheticDataset(64, data.domain), 1, range(1))  # compiles
        started, worked = time.perf_counter(), time.process_time()
        backend.count(plan, data, 1, range(repetitions))
        took = time.perf_counter() - started, time.process_time() - worked
        return took[0] / repetitions * 1e6, took[1] / repetitions * 1e6


def measured_at(folder: Path, name: str) -> str:
    """The best of some processes."""
    environment = dict(os.environ, PYTHONPATH=str(folder))
    command = [sys.executable, str(Path(__file__).resolve()), "--measure", name]
    runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(TIMES)]
    clock, processor = (min(column) for column in zip(*(map(float, run.stdout.split()) for run in runs), strict=True))
    return f"{clock:,.0f} ({processor:,.0f} of the processor)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="another commit, measured as well")
    parser.add_argument("--measure", choices=RUNS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(*measure(options.measure))
        return
    folders = {"now": ROOT}
    with tempfile.TemporaryDirectory() as temporary:
        if options.base:
            folders = {options.base: Path(temporary) / "base", **folders}
            git = ["git", "-C", str(ROOT), "worktree"]
            subprocess.run([*git, "add", "--quiet", "--detach", str(folders[options.base]), options.base], check=True)
        try:
            for name, (repetitions, goal) in RUNS.items():
                times = ", ".join(f"{which} {measured_at(folder, name)}" for which, folder in folders.items())
                print(
                    f"{name}, {repetitions:,} repetitions: microseconds a repetition: {times} (goal {goal})", flush=True
                )
        finally:
            if options.base:
                subprocess.run([*git, "remove", "--force", str(folders[options.base])], check=True)


if __name__ == "__main__":
    main()
