"""Speed against peers, all measured in the same run.

    python benchmarks/against_peers.py [--peer-users N]      (pip install -e ".[bench]")

Goals: the package multi-freq-ldpy takes at least so many times as long for one repetition of the paper's six methods
at its six epsilons as each backend; those of the native backend are for AVX-512.

Seconds of the processor, since other programs may use the machine.  The peer has one thread and is given some of the
users, `--peer-users`; its time is proportional to them and is scaled up.  We simulate all of them, many repetitions in
one call of `simulate`, once with one thread or process and once on all cores; the latter's seconds are divided by the
cores, which is what passes if nothing else runs.

Then one attribute of ten values at epsilon 1, nanoseconds a user: multi-freq-ldpy, NumPy by hand and, where they are
installed, pure-ldp and OpenDP, which is made to release, not to simulate.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gpu_rsfd
from gpu_rsfd import PAPER_EPSILONS
from gpu_rsfd.backends.cpu.backend import cores
from gpu_rsfd.backends.native.backend import NativeBackend
from gpu_rsfd.planning import Plan

PEER_CASES = [  # name, domain sizes, goals
    ("n=50,000 d=10 k=10", (10,) * 10, {"native": 15_000, "numpy": 2000}),
    (
        "n=50,000 d=20 k=10,10,20,20,…,100,100",
        tuple(k for k in range(10, 101, 10) for _ in range(2)),
        {"native": 6000, "numpy": 1000},
    ),
]
PEER_N = 50_000
REPETITIONS = {"native": 100, "numpy": 20}
ROUNDS = 3


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


def single_cases(values: list[int], k: int, epsilon: float) -> dict[str, tuple[str, Callable[[], object]]]:
    """One attribute at one epsilon: name -> (our protocol, a peer's reports of all values and their counts)."""
    p, ones = math.exp(epsilon) / (math.exp(epsilon) + k - 1), 1 / (math.exp(epsilon) + 1)
    cases: dict[str, tuple[str, Callable[[], object]]] = {}
    random, codes = np.random.default_rng(1), np.array(values)

    def grr() -> object:
        lies = (codes + random.integers(1, k, len(codes))) % k
        return np.bincount(np.where(random.random(len(codes)) < p, codes, lies), minlength=k)

    def oue() -> object:
        bits = random.random((len(codes), k)) < ones
        bits[np.arange(len(codes)), codes] = random.random(len(codes)) < 0.5
        return bits.sum(axis=0)

    cases["NumPy by hand, GRR"] = "spl-grr", grr
    cases["NumPy by hand, OUE"] = "spl-oue", oue
    with contextlib.suppress(ImportError):
        from multi_freq_ldpy.pure_frequency_oracles import GRR, UE

        cases["multi-freq-ldpy, GRR"] = "spl-grr", lambda: [GRR.GRR_Client(v, k, epsilon) for v in values]
        cases["multi-freq-ldpy, OUE"] = "spl-oue", lambda: [UE.UE_Client(v, k, epsilon, True) for v in values]
    with contextlib.suppress(ImportError):
        from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
        from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

        def collected(client: Any, server: Any) -> Callable[[], object]:
            return lambda: [server.aggregate(client.privatise(v + 1)) for v in values]

        cases["pure-ldp, GRR"] = "spl-grr", collected(DEClient(epsilon, k), DEServer(epsilon, k))
        cases["pure-ldp, OUE"] = "spl-oue", collected(UEClient(epsilon, k, True), UEServer(epsilon, k, True))
    with contextlib.suppress(ImportError):
        import opendp.prelude as dp

        dp.enable_features("contrib")
        release = dp.m.make_randomized_response(categories=list(range(k)), prob=p)
        cases["OpenDP, GRR (a release for each user)"] = "spl-grr", lambda: [release(v) for v in values]
    return cases


def single(users: int, k: int = 10, epsilon: float = 1.0) -> None:
    """Nanoseconds a user of one attribute, and how many times as long as ours that is."""
    data = gpu_rsfd.SyntheticDataset(1_000_000, (k,))
    values = [int(v) for v in data.column(0, 0, users)]
    ours = {}
    with NativeBackend(1) as native:
        for protocol in ("spl-grr", "spl-oue"):
            plan = Plan.of(data.domain, [protocol], [epsilon])
            native.count(plan, data, 0, range(1))  # draws the users
            ours[protocol] = min(processor_time(lambda: native.count(plan, data, 0, range(1))) for _ in range(7))  # noqa: B023
    for name, (protocol, do) in single_cases(values, k, epsilon).items():
        do()
        theirs = min(processor_time(do) for _ in range(ROUNDS)) / users
        mine = ours[protocol] / data.n
        print(f"k={k}, {name}: {theirs * 1e9:,.0f} ns a user, ours {mine * 1e9:.2f}: {theirs / mine:,.0f} times")


def processor_time(do: Callable[[], object]) -> float:
    start = time.process_time()
    do()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-users", type=int, default=2000, help="of 50,000, simulated with the peer")
    options = parser.parse_args()
    if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]  # its coverage.py is not what Numba looks for
    print(f"six methods x six epsilons, {cores()} cores")
    for name, domain, goals in PEER_CASES:
        data = gpu_rsfd.SyntheticDataset(PEER_N, domain)
        sides = list(itertools.product(goals, sorted({1, cores()})))
        ours = {side: min(our_repetition(data, REPETITIONS[side[0]], *side) for _ in range(ROUNDS)) for side in sides}
        codes = np.stack([data.column(j, 0, options.peer_users) for j in range(data.d)], axis=1).astype(np.int64)
        peer_repetition(codes[:200], list(domain))  # warm-up
        peer = min(peer_repetition(codes, list(domain)) for _ in range(ROUNDS)) * PEER_N / options.peer_users
        for (backend, workers), seconds in ours.items():
            print(
                f"{name}: multi-freq-ldpy {peer:.1f} s a repetition, {backend} {seconds * 1e3:.2f} ms on {workers} "
                f"core{'s' * (workers > 1)}: {peer / seconds:,.0f} times (goal {goals[backend]:,})",
                flush=True,
            )
    single(options.peer_users)


if __name__ == "__main__":
    main()
