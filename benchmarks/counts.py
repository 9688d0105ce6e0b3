"""Counts without users: how much faster, all samplers measured in the same run.

    python benchmarks/counts.py [--rounds N] [--cpu]

Goals, at n=1,000,000, d=10, k=10, the paper's six methods and six epsilons: `counts` at least COUNTS_GOAL times as fast
as `users` on the NumPy backend, `marginals` at least MARGINALS_GOAL times; and a billion users with `marginals`,
100 repetitions, in less than BILLION_GOAL seconds.  All use every core; on a machine that is busy with other things,
--cpu compares the processor time of one worker instead.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import gpu_rsfd
from gpu_rsfd import PAPER, PAPER_EPSILONS
from gpu_rsfd.backends.cpu.backend import NumpyBackend, cores
from gpu_rsfd.backends.exact.samplers import CountsSampler, MarginalsSampler, Sampler
from gpu_rsfd.planning import Plan

N, DOMAIN = 1_000_000, (10,) * 10
COUNTS_GOAL, MARGINALS_GOAL, BILLION_GOAL = 50, 2000, 10.0
REPETITIONS = {"users": 2, "counts": 40, "marginals": 2000}


def seconds(
    backend: NumpyBackend | Sampler, plan: Plan, data: gpu_rsfd.Dataset, repetitions: range, clock: Callable[[], float]
) -> float:
    """Seconds per repetition of a backend that is warm."""
    start = clock()
    backend.count(plan, data, 1, repetitions)
    return (clock() - start) / len(repetitions)


def compare(assignment: str, rounds: int, cpu: bool) -> dict[str, float]:
    """The median of some rounds for each sampler: they take turns, so that a busy machine is busy for all of them."""
    data = gpu_rsfd.SyntheticDataset(N, DOMAIN)
    plan = Plan.of(DOMAIN, PAPER, PAPER_EPSILONS, assignment)
    _ = data.counts  # known once, as a table in memory is
    workers, clock = (1, time.process_time) if cpu else (None, time.perf_counter)
    taken: dict[str, list[float]] = {name: [] for name in REPETITIONS}
    with NumpyBackend(workers) as users, CountsSampler(workers) as counts, MarginalsSampler(workers) as marginals:
        backends: dict[str, NumpyBackend | Sampler] = {"users": users, "counts": counts, "marginals": marginals}
        for backend in backends.values():
            backend.count(plan, data, 0, range(cores()))
        for _ in range(rounds):
            for name, backend in backends.items():
                taken[name].append(seconds(backend, plan, data, range(REPETITIONS[name]), clock))
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu", action="store_true", help="processor time of one worker")
    arguments = parser.parse_args()
    used = "processor time of one worker" if arguments.cpu else f"{cores()} cores"
    print(f"{used}; n={N:,} d=10 k=10, {len(PAPER)} methods, {len(PAPER_EPSILONS)} epsilons, per repetition")
    for assignment in ("uniform", "balanced"):
        taken = compare(assignment, arguments.rounds, arguments.cpu)
        for name, goal in (("users", 1), ("counts", COUNTS_GOAL), ("marginals", MARGINALS_GOAL)):
            ratio = taken["users"] / taken[name]
            target = f"goal {goal:,}: {'met' if ratio >= goal else 'MISSED'}" if assignment == "uniform" else "no goal"
            print(f"  {assignment:8s} {name:9s} {taken[name] * 1e3:10.3f} ms   {ratio:8,.0f} times as fast   {target}")
    start = time.perf_counter()
    billion = gpu_rsfd.CountedDataset.of_distribution(1_000_000_000, DOMAIN)
    gpu_rsfd.simulate(billion, repetitions=100, sampler="marginals").mse()
    billions = time.perf_counter() - start
    met = "met" if billions < BILLION_GOAL else "MISSED"
    print(
        f"  n=1,000,000,000 marginals, 100 repetitions and errors: {billions:.2f} s   goal {BILLION_GOAL:.0f} s: {met}"
    )


if __name__ == "__main__":
    main()
