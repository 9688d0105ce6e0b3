"""How often the intervals of `gpu_rsfd.aggregate` hold the true frequency: the table of docs/aggregate.md.

    python benchmarks/aggregated.py [--collections 4000]

For every protocol that the package knows, at three epsilons of everyday use and three large ones, at which wrong
reports are rare, so many collections are simulated.  *Users*: the same
users report again and again, and the truth is their own frequencies.  *Population*: each time other users are drawn,
and the truth is the population's.  A share near .95 is right.  A row has the lowest, the mean and the highest share of
a family.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from typing import Any

import numpy as np

import gpu_rsfd
from gpu_rsfd.results.aggregate import intervals

DOMAIN = (2, 5, 12)
EPSILONS = {"ln 2, ln 5, 4": (math.log(2), math.log(5), 4.0), "8, 12, 24": (8.0, 12.0, 24.0)}
USERS = (300, 3000)


def frequencies() -> list[Any]:
    """Of the population: from values that most hold to one that nobody does."""
    parts = [np.arange(k, 0.0, -1) ** 2 - 1 for k in DOMAIN]
    return [part / part.sum() for part in parts]


def drawn(n: int, rng: np.random.Generator) -> gpu_rsfd.Dataset:
    """Users of the population."""
    return gpu_rsfd.Dataset(np.stack([rng.choice(len(f), n, p=f) for f in frequencies()], axis=1), DOMAIN)


def covered(result: Any, truth: Any, against: str) -> Any:
    """[protocol, epsilon, repetition]: the share of values whose interval holds the truth."""
    shape = result.counts.shape[:3]
    inside = np.empty(shape)
    for p, e, r in np.ndindex(shape):
        ms = result.plan.mechanisms[p][e]
        _, _, low, high = intervals(ms, result.counts[p, e, r], result.reporters[p, e, r], result.n, against)
        known = np.isfinite(low)  # few users may leave an attribute of Smp without a report
        inside[p, e, r] = ((low <= truth) & (truth <= high))[known].mean()
    return inside


def main() -> None:
    """Prints the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collections", type=int, default=4000)
    runs, rng = parser.parse_args().collections, np.random.default_rng(7)
    how: dict[str, Any] = {"protocols": gpu_rsfd.PROTOCOLS, "epsilons": sum(EPSILONS.values(), ()), "prior": "zipf:1"}
    shares: dict[tuple[str, str], list[str]] = defaultdict(list)
    worst = 0.0
    for against in ("users", "population"):
        for n in USERS:
            if against == "users":
                data = drawn(n, rng)
                result = gpu_rsfd.simulate(data, repetitions=runs, seed=n, sampler="counts", **how)
                inside = covered(result, data.frequencies, against)
            else:
                truth = np.concatenate(frequencies())
                each = [gpu_rsfd.simulate(drawn(n, rng), repetitions=1, seed=seed, **how) for seed in range(runs)]
                inside = np.concatenate([covered(result, truth, against) for result in each], axis=2)
            worst = max(worst, float(inside.std(axis=2, ddof=1).max()) / math.sqrt(runs))
            mean = inside.mean(axis=2)
            for family in ("RS+FD", "RS+RFD", "Spl", "Smp"):
                rows = [gpu_rsfd.label(name).startswith(f"{family}[") for name in gpu_rsfd.PROTOCOLS]
                for i, epsilons in enumerate(EPSILONS):
                    cells = mean[rows][:, 3 * i : 3 * i + 3]
                    shares[family, epsilons].append(f"{cells.min():.3f} {cells.mean():.3f} {cells.max():.3f}")
    heads = [f"{against}, n = {n:,}" for against in ("users", "population") for n in USERS]
    print(f"| {' | '.join(['family', 'epsilon', *heads])} |")
    print("|" + "---|" * (2 + len(heads)))
    for (family, epsilons), row in shares.items():
        print(f"| {family} | {epsilons} | {' | '.join(row)} |")
    print(f"largest standard error of a cell: {worst:.4f}")


if __name__ == "__main__":
    main()
