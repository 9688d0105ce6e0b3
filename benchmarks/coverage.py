"""How often stars, comparisons and prediction intervals are right: the table of docs/statistics.md.

    python benchmarks/coverage.py [--repetitions 60000] [--sweeps 1000]

One long simulation is cut into sweeps of 2, 5, 10 and 100 repetitions.  *Natural*: the paper's six protocols, whose
long-run means are taken for the truth.  *Tied*: six protocols of equal expectation, which are disjoint stretches of the
repetitions of one protocol, so that every difference is noise.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import gpu_rsfd
from gpu_rsfd.results.estimate import STORED
from gpu_rsfd.results.result import Result
from gpu_rsfd.show.rows import How, error_cells
from gpu_rsfd.show.statistics import differences, half_width
from gpu_rsfd.show.tables import values_of

REPETITIONS = (2, 5, 10, 100)
POSTPROCESS = "clip-normalize"
EPSILONS = (math.log(2), math.log(5))


def cut(result: Result, errors: Any, size: int, most: int) -> Iterator[Result]:
    """Sweeps of so many repetitions, from errors [protocol, epsilon, repetition, postprocess]."""
    for start in range(0, min(errors.shape[2] // size, most) * size, size):
        part = slice(start, start + size)
        kept = {"counts": result.counts[:, :, part], "reporters": result.reporters[:, :, part]}
        yield replace(result, kept={**kept, "mse": errors[:, :, part]}, repetitions=range(size))


def judged(result: Result, errors: Any, size: int, most: int) -> dict[str, float]:
    """Shares of (sweep, epsilon) in which a statement is right or wrong."""
    kind = STORED.index(POSTPROCESS)
    truth = errors[..., kind].mean(axis=2)  # [protocol, epsilon]
    top = truth <= truth.min(axis=0) * (1 + 1e-9)
    marked, alone, significant, covered = [], [], [], []
    for sweep in cut(result, errors, size, most):
        cells = error_cells("", sweep, How(POSTPROCESS))
        stars = cells.best
        marked.append([stars[top[:, e], e].mean() for e in range(len(EPSILONS))])
        alone.append((stars.sum(axis=0) == 1) & (~(stars & top).any(axis=0) | (top.sum(axis=0) > 1)))
        found = differences(cells.means, 0, 1)
        significant.append(found["significantly_different"])
        away = np.abs(found["difference"] - (truth[0] - truth[1]))
        covered.append(away <= half_width(found["standard_error"], size))
    return {
        "stars: the best expectation is marked": float(np.mean(marked)),
        "stars: a single mark, and wrong": float(np.mean(alone)),
        "compare: called significant": float(np.mean(significant)),
        "compare: the 95 % interval covers the difference": float(np.mean(covered)),
    }


def predicted(result: Result, postprocess: str, size: int, most: int) -> float:
    """How often the interval from `size` repetitions holds the estimate of the next one."""
    inside = []
    for start in range(0, min(len(result.repetitions) // (size + 1), most) * (size + 1), size + 1):
        past, after = slice(start, start + size), slice(start + size, start + size + 1)

        def part(at: slice) -> Result:
            return replace(result, kept={name: result[name][:, :, at] for name in ("counts", "reporters")})

        found, fresh = values_of(part(past), postprocess), part(after).estimates(postprocess)[:, :, 0]
        inside.append(((found.low <= fresh) & (fresh <= found.high)).mean())
    return float(np.mean(inside))


def _line(statement: str, protocols: str, shares: list[float]) -> str:
    return f"| {statement} | {protocols} | {' | '.join(f'{x:.3f}' for x in shares)} |"


def main() -> None:
    """Prints the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=60_000)
    parser.add_argument("--sweeps", type=int, default=1000)
    options = parser.parse_args()
    data = gpu_rsfd.SyntheticDataset(1000, (3, 5, 8), "zipf:1.0", seed=0)
    result = gpu_rsfd.simulate(data, epsilons=EPSILONS, repetitions=options.repetitions, seed=1)
    natural = np.stack([result.mse(kind) for kind in STORED], axis=-1)
    count = len(result.protocols)
    length = options.repetitions // count
    tied = np.stack([natural[1, :, p * length : (p + 1) * length] for p in range(count)])
    tables = {"tied": tied - tied.mean(axis=2, keepdims=True) + tied.mean(), "natural": natural}
    print(f"| {' | '.join(['statement', 'protocols', *(f'{size} repetitions' for size in REPETITIONS)])} |")
    print("|" + "---|" * (2 + len(REPETITIONS)))
    found = {
        (name, size): judged(result, errors, size, options.sweeps)
        for name, errors in tables.items()
        for size in REPETITIONS
    }
    for statement in found["tied", 2]:
        for name in tables:
            print(_line(statement, name, [found[name, size][statement] for size in REPETITIONS]))
    for kind in ("none", POSTPROCESS):
        each = [predicted(result, kind, size, options.sweeps) for size in REPETITIONS]
        print(_line(f"prediction interval holds the next estimate, {kind}", "natural", each))
    gains = {}
    for sampler in ("users", "counts", "marginals"):
        part = gpu_rsfd.simulate(data, epsilons=EPSILONS, repetitions=2000, seed=2, sampler=sampler).mse(POSTPROCESS)
        pairs = [(a, b) for a in range(count) for b in range(a) if not np.array_equal(part[a], part[b])]
        ratio = [(part[a] - part[b]).var(axis=-1) / (part[a].var(axis=-1) + part[b].var(axis=-1)) for a, b in pairs]
        gains[sampler] = float(np.median(ratio))
    print("variance of a paired difference over that of an unpaired one, median over pairs:")
    print(", ".join(f"{sampler} {gain:.2f}" for sampler, gain in gains.items()))


if __name__ == "__main__":
    main()
