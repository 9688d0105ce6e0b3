"""Speed against a peer and against the raw random generator, each measured in the same run.

    python benchmarks/against_peers.py [--peer-users N] [--skip-peer]      (pip install -e ".[bench]")

Goals: the package multi-freq-ldpy takes at least so many times as long for one repetition of the paper's six methods
at its six epsilons as each backend; and a simulation takes at most RAW_GOAL times the time that numpy.random.Philox
needs to draw the words of the same tape.  Goals of the native backend are for AVX-512, with two cores.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np

import gpu_rsfd
from gpu_rsfd import PAPER, PAPER_EPSILONS
from gpu_rsfd.backends import open_backend
from gpu_rsfd.backends.cpu.backend import cores
from gpu_rsfd.planning import Plan
from gpu_rsfd.tape import ASSIGN, BITS, VALUE

PEER_CASES = [  # name, domain sizes, goals
    ("n=50,000 d=10 k=10", (10,) * 10, {"native": 15_000, "numpy": 2000}),
    (
        "n=50,000 d=20 k=10,10,20,20,…,100,100",
        tuple(k for k in range(10, 101, 10) for _ in range(2)),
        {"native": 6000, "numpy": 1000},
    ),
]
PEER_N = 50_000
RAW_CASES = [("syn4: n=500,000 d=10 k=10", "syn4", 8), ("syn6: n=500,000 d=20 k=10…100", "syn6", 1)]
RAW_GOAL = {"native": 0.5, "numpy": 3}


def peer_repetition(codes: np.ndarray, domain: list[int]) -> float:
    """Seconds that multi-freq-ldpy needs for all six methods at all six epsilons, clients and aggregators."""
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
            start = time.perf_counter()
            aggregator([client(row, domain, d, epsilon) for row in codes], domain, d, epsilon)
            seconds += time.perf_counter() - start
    return seconds


def our_repetition(data: gpu_rsfd.Dataset, repetitions: int, backend: str) -> float:
    """Seconds per repetition of a whole `simulate` call, start of worker processes or threads included."""
    start = time.perf_counter()
    gpu_rsfd.simulate(data, repetitions=repetitions, seed=1, backend=backend)
    return (time.perf_counter() - start) / repetitions


def raw_words(data: gpu_rsfd.Dataset) -> float:
    """Seconds to draw the words of one repetition's tape with numpy.random.Philox, and do nothing with them."""
    plan = Plan.of(data.domain, PAPER, PAPER_EPSILONS)
    columns = [(ASSIGN, 0, data.n)]
    for a in plan.attributes:
        if a.needs_value:
            columns.append((VALUE, a.index, data.n))
        if a.needs_bits:
            columns += [(BITS, a.offset + v, -(-data.n // 64) * 24) for v in range(a.k)]
    start = time.perf_counter()
    for stream, column, count in columns:
        np.random.Philox(key=[1, stream], counter=[0, column, 0, 0]).random_raw(count)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-users", type=int, default=PEER_N, help="simulate fewer users with the peer, scaled up")
    parser.add_argument("--skip-peer", action="store_true")
    options = parser.parse_args()
    print(f"six methods x six epsilons, {cores()} cores")
    for name, domain, goals in [] if options.skip_peer else PEER_CASES:
        data = gpu_rsfd.SyntheticDataset(PEER_N, domain)
        ours = {backend: our_repetition(data, 100, backend) for backend in goals}
        codes = np.stack([data.column(j, 0, options.peer_users) for j in range(data.d)], axis=1).astype(np.int64)
        peer_repetition(codes[:200], list(domain))  # warm-up
        peer = peer_repetition(codes, list(domain)) * PEER_N / options.peer_users
        for backend, goal in goals.items():
            print(
                f"{name}: multi-freq-ldpy {peer:.1f} s a repetition, {backend} {ours[backend] * 1e3:.1f} ms "
                f"(a repetition of 100): {peer / ours[backend]:,.0f} times (goal {goal:,})",
                flush=True,
            )
    for name, dataset, repetitions in RAW_CASES:
        data = gpu_rsfd.load_dataset(dataset)
        plan = Plan.of(data.domain, PAPER, PAPER_EPSILONS)
        for name_of_backend, workers in itertools.product(RAW_GOAL, sorted({1, cores()})):
            pairs = []
            with open_backend(name_of_backend, workers)[0] as backend:
                backend.count(plan, data, 1, range(1))
                for _ in range(5):
                    start = time.perf_counter()
                    backend.count(plan, data, 1, range(repetitions))
                    pairs.append(((time.perf_counter() - start) / repetitions, raw_words(data)))
            ratio = float(np.median([ours / raw for ours, raw in pairs]))
            ours, raw = np.median(pairs, axis=0)
            print(
                f"{name}: raw Philox words {raw:.3f} s in one process, {backend.name} {ours:.3f} s in {workers}: "
                f"{ratio:.2f} times (goal {RAW_GOAL[backend.name]})",
                flush=True,
            )


if __name__ == "__main__":
    main()
