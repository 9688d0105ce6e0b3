"""Speed against a peer, both measured in the same run.

    python benchmarks/against_peers.py [--peer-users N]      (pip install -e ".[bench]")

Goals: the package multi-freq-ldpy takes at least so many times as long for one repetition of the paper's six methods
at its six epsilons as each backend; those of the native backend are for AVX-512.

Seconds of the processor, since other programs may use the machine.  The peer has one thread and is given some of the
users, `--peer-users`; its time is proportional to them and is scaled up.  We simulate all of them, 100 repetitions in
one call of `simulate`, once with one thread or process and once on all cores; the latter's seconds are divided by the
cores, which is what passes if nothing else runs.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import sys
import time

import numpy as np

import gpu_rsfd
from gpu_rsfd import PAPER_EPSILONS
from gpu_rsfd.backends.cpu.backend import cores

PEER_CASES = [  # name, domain sizes, goals
    ("n=50,000 d=10 k=10", (10,) * 10, {"native": 15_000, "numpy": 2000}),
    (
        "n=50,000 d=20 k=10,10,20,20,…,100,100",
        tuple(k for k in range(10, 101, 10) for _ in range(2)),
        {"native": 6000, "numpy": 1000},
    ),
]
PEER_N = 50_000
ROUNDS = 3


def peer_repetition(codes: np.ndarray, domain: list[int]) -> float:
    """Seconds that multi-freq-ldpy needs for all six methods at all six epsilons, clients and aggregators."""
    if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]  # its coverage.py is not what Numba looks for
    from multi_freq_ldpy.mdim_freq_est import RSpFD_solution as rsfd
    from multi_freq_ldpy.mdim_freq_est import SMP_solution as smp
    from multi_freq_ldpy.mdim_freq_est import SPL_solution as spl

    d = len(domain)
    methods = [
        (rsfd.RSpFD_GRR_Client, rsfd.RSpFD_GRR_Aggregator_MI),
        (rsfd.RSpFD_UE_zero_Client, rsfd.RSpFD_UE_zero_Aggregator_MI),
        (rsfd.RSpFD_UE_rnd_Client, rsfd.RSpFD_UE_rnd_Aggregator_MI),
        (rsfd.RSpFD_ADP_Client, rsfd.RSpFD_ADP_Aggregator_MI),
        (spl.SPL_ADP_Client, spl.SPL_ADP_Aggregator_MI),
        (smp.SMP_ADP_Client, smp.SMP_ADP_Aggregator_MI),
    ]
    seconds = 0.0
    for client, aggregator in methods:
        for epsilon in PAPER_EPSILONS:
            start = time.process_time()
            aggregator([client(row, domain, d, epsilon) for row in codes], domain, d, epsilon)
            seconds += time.process_time() - start
    return seconds


def processor() -> float:
    """Seconds of this process and of those that it started and that have ended."""
    return sum(
        u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def our_repetition(data: gpu_rsfd.Dataset, repetitions: int, backend: str, workers: int) -> float:
    """Seconds per repetition of a whole `simulate` call, start of worker processes or threads included."""
    start = processor()
    gpu_rsfd.simulate(data, repetitions=repetitions, seed=1, backend=backend, workers=workers)
    return (processor() - start) / repetitions / workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-users", type=int, default=2000, help="of 50,000, simulated with the peer")
    options = parser.parse_args()
    print(f"six methods x six epsilons, {cores()} cores")
    for name, domain, goals in PEER_CASES:
        data = gpu_rsfd.SyntheticDataset(PEER_N, domain)
        sides = list(itertools.product(goals, sorted({1, cores()})))
        ours = {side: min(our_repetition(data, 100, *side) for _ in range(ROUNDS)) for side in sides}
        codes = np.stack([data.column(j, 0, options.peer_users) for j in range(data.d)], axis=1).astype(np.int64)
        peer_repetition(codes[:200], list(domain))  # warm-up
        peer = min(peer_repetition(codes, list(domain)) for _ in range(ROUNDS)) * PEER_N / options.peer_users
        for (backend, workers), seconds in ours.items():
            print(
                f"{name}: multi-freq-ldpy {peer:.1f} s a repetition, {backend} {seconds * 1e3:.2f} ms on {workers} "
                f"core{'s' * (workers > 1)}: {peer / seconds:,.0f} times (goal {goals[backend]:,})",
                flush=True,
            )


if __name__ == "__main__":
    main()
