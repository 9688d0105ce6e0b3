"""`gpu-rsfd paper`: both CPU backends, and all of it but counting.

    python benchmarks/paper.py [--numpy-repetitions N]      (a C compiler; minutes)

Goals: every user, 100 repetitions: native at least 6 times as fast as NumPy, and under a minute on two AVX-512 cores.
All but counting at most 4 s: a run of `--sampler marginals` without what the sampler takes.  Seconds of the processor,
of the command itself and of the process that draws a part of the figures meanwhile; other programs matter little.
NumPy runs fewer repetitions, which are scaled up; what does not grow with them is left out of that.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import gpu_rsfd
from gpu_rsfd.backends import open_backend
from gpu_rsfd.backends.cpu.backend import cores
from gpu_rsfd.planning import plan_for

REPETITIONS = 100
FASTER, ALL_OF_IT, REST = 6, 60.0, 4.0  # goals
ROUNDS = 3
COMMAND = """
import resource, sys
from gpu_rsfd.cli import main
sys.argv = ["gpu-rsfd", "paper", "--quiet", *sys.argv[1:]]
try:
    main()
finally:
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        print(used.ru_utime + used.ru_stime)
"""


class Used(NamedTuple):
    own: float  # seconds of the processor
    others: float  # of the processes that it started
    wall: float

    @property
    def cpu(self) -> float:
        return self.own + self.others


def used(*arguments: str) -> Used:
    """What a run of the command takes."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        command = [sys.executable, "-c", COMMAND, "--output", str(Path(folder, "paper.h5")), *arguments]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        return Used(float(told[-2]), float(told[-1]), time.perf_counter() - started)


def sampler() -> float:
    """Seconds of the processor in which the sampler draws the counts of all ten data sets."""
    spec = gpu_rsfd.Spec(sampler="marginals")
    datasets = [gpu_rsfd.load_dataset(name) for name in gpu_rsfd.available()]
    plans = [plan_for(spec, data) for data in datasets]
    for data in datasets:
        data.frequencies  # noqa: B018  (not a part of sampling)
    with open_backend(sampler="marginals")[0] as backend:
        started = time.process_time()
        for data, plan in zip(datasets, plans, strict=True):
            backend.count(plan, data, 0, range(REPETITIONS))
        return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numpy-repetitions", type=int, default=10)
    some = parser.parse_args().numpy_repetitions
    counting = min(sampler() for _ in range(ROUNDS))
    rest = min((used("--sampler", "marginals") for _ in range(ROUNDS)), key=lambda u: u.own)
    print(
        f"all but counting: {rest.own - counting:.2f} s, and {rest.others:.2f} s in the second process "
        f"(goal {REST:.0f} s; the sampler took {counting:.2f} s of {rest.cpu:.2f} s)",
        flush=True,
    )
    fixed = rest.cpu - counting
    native = used("--backend", "native")
    print(
        f"native: {native.cpu:.1f} s of the processor, {native.wall:.1f} s passed; on {cores()} free cores "
        f"{native.cpu / cores():.1f} s (goal {ALL_OF_IT:.0f} s)",
        flush=True,
    )
    numpy = used("--backend", "numpy", "--repetitions", str(some))
    whole = (numpy.cpu - fixed) * REPETITIONS / some + fixed
    print(
        f"NumPy: {whole:.1f} s of the processor, scaled up from {numpy.cpu:.1f} s for {some} repetitions: "
        f"native is {whole / native.cpu:.1f} times as fast (goal {FASTER})"
    )


if __name__ == "__main__":
    main()
