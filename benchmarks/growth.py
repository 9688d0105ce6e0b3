"""How time grows with users, attributes, values, epsilons and protocols for each sampler; and what very much takes.

    python benchmarks/growth.py      (a C compiler; minutes)

One of them after another is multiplied, and the others stay as they are: time is proportional to it to the power that
is printed.  Goal: none above 1.15.  The last lines scale up to 1e9 users, 50 attributes of ten values, 20 epsilons and
100 repetitions, with all protocols, or for `users` those that the native backend knows: `users` by user, value and
repetition, `counts` by user; `marginals` is measured as it is.  Seconds of the processor, one thread, the minimum of
several rounds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from gpu_rsfd import PROTOCOLS, CountedDataset, SyntheticDataset
from gpu_rsfd.backends.exact.samplers import CountsSampler, MarginalsSampler
from gpu_rsfd.backends.native.backend import NativeBackend
from gpu_rsfd.backends.native.tables import NOISES
from gpu_rsfd.planning import Plan

ROUNDS = 3
REPETITIONS = {"users": 4, "counts": 4, "marginals": 100}  # `marginals` draws many at once
EPSILONS = tuple(0.25 * i for i in range(1, 21))
GOAL = 1.15


def known(protocol: str) -> bool:
    """Whether the native backend counts it."""
    attributes = Plan.of((5, 5), [protocol], [1.0]).attributes
    return all(type(r.noise) in NOISES for a in attributes for r in a.recipes)


KNOWN = tuple(filter(known, PROTOCOLS))
SAMPLERS = {"users": NativeBackend, "counts": CountsSampler, "marginals": MarginalsSampler}
BASE = {"users": 250_000, "d": 8, "k": 16, "epsilons": 8, "protocols": 12}
FACTOR = 4  # from the smaller to the larger


def seconds(
    sampler: str,
    users: int,
    domain: Sequence[int],
    protocols: Sequence[str],
    epsilons: Sequence[float],
    rounds: int = ROUNDS,
) -> float:
    """Of a repetition."""
    in_memory = SyntheticDataset if sampler != "marginals" else CountedDataset.of_distribution
    data, repetitions = in_memory(users, tuple(domain)), REPETITIONS[sampler]
    plan, best = Plan.of(data.domain, protocols, epsilons), math.inf
    with SAMPLERS[sampler](1) as backend:
        for _ in range(rounds):
            started = time.process_time()
            backend.count(plan, data, 1, range(repetitions))
            best = min(best, (time.process_time() - started) / repetitions)
    return best


def of(sampler: str, shape: dict[str, int]) -> float:
    domain = (shape["k"],) * shape["d"]
    return seconds(sampler, shape["users"], domain, KNOWN[: shape["protocols"]], EPSILONS[: shape["epsilons"]])


def exponents(measure: Callable[[str, dict[str, int]], float] = of) -> None:
    print(f"from {BASE}: each x {FACTOR}; epsilons and protocols x 2")
    for sampler in SAMPLERS:
        base, powers = measure(sampler, BASE), {}
        for what in BASE:
            factor = 2 if what in ("epsilons", "protocols") else FACTOR
            more = measure(sampler, {**BASE, what: BASE[what] * factor})
            powers[what] = math.log(more / base) / math.log(factor)
        told = ", ".join(f"{what} {power:.2f}" for what, power in powers.items())
        over = ", ".join(what for what, power in powers.items() if power > GOAL)
        print(f"{sampler:9} {base * 1e3:8.2f} ms; {told}; above {GOAL}: {over or 'none'}", flush=True)


def very_much(users: int = 10**9, d: int = 50, k: int = 10, repetitions: int = 100) -> None:
    n = 20_000
    each = seconds("users", n, (k,) * 5, KNOWN, EPSILONS) / n / 5
    hours = each * users * d * repetitions / 3600
    print(f"users: {len(KNOWN)} protocols, {each / k * 1e9:.2f} ns a position: {hours:,.0f} hours of a core")
    few, more = (seconds("counts", n, (k,) * 5, ["smp-grr"], [1.0]) for n in (1_000_000, 8_000_000))
    drawn = seconds("counts", 1000, (k,) * d, PROTOCOLS, EPSILONS)  # once it is known who sampled what
    hours = (drawn + (more - few) / 7_000_000 * users) * repetitions / 3600
    print(f"counts: {len(PROTOCOLS)} protocols: {hours:,.1f} hours of a core", flush=True)
    taken = seconds("marginals", users, (k,) * d, PROTOCOLS, EPSILONS, 1) * repetitions
    print(f"marginals: {len(PROTOCOLS)} protocols: {taken:,.0f} s of a core", flush=True)


def main() -> None:
    exponents()
    very_much()


if __name__ == "__main__":
    main()
