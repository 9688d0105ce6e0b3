"""Counts without users: how much faster, all samplers measured in the same run.

    python benchmarks/counts.py [--rounds N]

Goals, at n=1,000,000, d=10, k=10, the paper's six methods and six epsilons: `counts` at least COUNTS_GOAL times as fast
as `users` on the NumPy backend, `marginals` at least MARGINALS_GOAL times; and a billion users with `marginals`,
100 repetitions, in less than BILLION_GOAL seconds.
"""

from __future__ import annotations

import argparse
import time

import gpu_rsfd
from gpu_rsfd import PAPER, PAPER_EPSILONS
from gpu_rsfd.backends.numpy import NumpyBackend, cores
from gpu_rsfd.plan import Plan
from gpu_rsfd.samplers import CountsSampler, MarginalsSampler, Sampler

N, DOMAIN = 1_000_000, (10,) * 10
COUNTS_GOAL, MARGINALS_GOAL, BILLION_GOAL = 50, 2000, 10.0
REPETITIONS = {"users": 4, "counts": 60, "marginals": 4000}


def seconds(backend: NumpyBackend | Sampler, plan: Plan, data: gpu_rsfd.Dataset, repetitions: range) -> float:
    """Seconds per repetition of a backend that is warm."""
    start = time.perf_counter()
    backend.count(plan, data, 1, repetitions)
    return (time.perf_counter() - start) / len(repetitions)


def compare(assignment: str, rounds: int) -> dict[str, float]:
    """The best of some rounds for each sampler: they take turns, so that a busy machine is busy for all of them."""
    data = gpu_rsfd.SyntheticDataset(N, DOMAIN)
    plan = Plan.of(DOMAIN, PAPER, PAPER_EPSILONS, assignment)
    _ = data.counts  # known once, as a table in memory is
    best: dict[str, float] = {}
    with NumpyBackend() as users, CountsSampler() as counts, MarginalsSampler() as marginals:
        backends: dict[str, NumpyBackend | Sampler] = {"users": users, "counts": counts, "marginals": marginals}
        for backend in backends.values():
            backend.count(plan, data, 0, range(cores()))
        for _ in range(rounds):
            for name, backend in backends.items():
                taken = seconds(backend, plan, data, range(REPETITIONS[name]))
                best[name] = min(taken, best.get(name, taken))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{cores()} cores; n={N:,} d=10 k=10, {len(PAPER)} methods, {len(PAPER_EPSILONS)} epsilons, per repetition")
    for assignment in ("uniform", "balanced"):
        best = compare(assignment, arguments.rounds)
        for name, goal in (("users", 1), ("counts", COUNTS_GOAL), ("marginals", MARGINALS_GOAL)):
            ratio = best["users"] / best[name]
            target = f"goal {goal:,}: {'met' if ratio >= goal else 'MISSED'}" if assignment == "uniform" else "no goal"
            print(f"  {assignment:8s} {name:9s} {best[name] * 1e3:10.3f} ms   {ratio:8,.0f} times as fast   {target}")
    start = time.perf_counter()
    billion = gpu_rsfd.CountedDataset.of_distribution(1_000_000_000, DOMAIN)
    gpu_rsfd.simulate(billion, repetitions=100, sampler="marginals").mse()
    taken = time.perf_counter() - start
    met = "met" if taken < BILLION_GOAL else "MISSED"
    print(f"  n=1,000,000,000 marginals, 100 repetitions and errors: {taken:.2f} s   goal {BILLION_GOAL:.0f} s: {met}")


if __name__ == "__main__":
    main()
