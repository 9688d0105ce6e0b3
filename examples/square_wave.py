"""A client and a server of one's own: the square wave of Li et al. (SIGMOD 2020).

A number x in [0, 1] is reported as a number in [-b, 1 + b], up to b from x with exp(epsilon)
times the density of any other place; the server finds the distribution by expectation
maximisation.  The protocol that is named plays no part.
"""

from dataclasses import dataclass

import numpy as np

import gpu_rsfd


@dataclass(frozen=True)
class SquareWave(gpu_rsfd.Measurement):
    """Wasserstein distance between a column, taken as numbers in [0, 1], and its estimate."""

    column: int = 0
    iterations: int = 100
    arrays = {"distance": ()}
    columns = {"distance": gpu_rsfd.Column("Wasserstein distance", "smaller")}

    def measure(self, view):
        k, codes = view.data.domain[self.column], view.data.column(self.column, 0, view.data.n)
        truth = np.bincount(codes, minlength=k) / view.data.n
        distance = np.empty((len(view.protocols), len(view.epsilons), len(view.repetitions)))
        for p, e, r in np.ndindex(distance.shape):
            epsilon = view.epsilons[e]
            rng = view.rng(view.protocols[p], epsilon, view.repetitions[r])
            reports = sent((codes + 0.5) / k, epsilon, rng)
            found = estimated(reports, epsilon, k, self.iterations)
            distance[p, e, r] = np.abs(np.cumsum(found - truth)).mean()
        return {"distance": distance}


def width(epsilon):
    """b, which makes the reports most informative."""
    power = np.exp(epsilon)
    return (epsilon * power - power + 1) / (2 * power * (power - 1 - epsilon))


def sent(x, epsilon, rng):
    """The client: near x, or anywhere else."""
    b, power = width(epsilon), np.exp(epsilon)
    near = rng.random(len(x)) < 2 * b * power / (2 * b * power + 1)
    place = rng.random(len(x))  # the rest has length 1: x on the left, 1 - x on the right
    return np.where(near, x + b * (2 * place - 1), np.where(place < x, place - b, place + b))


def buckets(epsilon, k, number):
    """Probabilities [bucket, value] of reports, and the edges of the buckets."""
    b, power = width(epsilon), np.exp(epsilon)
    edges, x = np.linspace(-b, 1 + b, number + 1), (np.arange(k) + 0.5) / k
    below = edges[:, None] + b + (power - 1) * np.clip(edges[:, None] - (x - b), 0, 2 * b)
    return np.diff(below, axis=0) / (2 * b * power + 1), edges


def estimated(reports, epsilon, k, iterations):
    """The server: expectation maximisation from uniform frequencies."""
    likelihood, edges = buckets(epsilon, k, 4 * k)
    seen = np.histogram(reports, edges)[0] / len(reports)
    f = np.full(k, 1 / k)
    for _ in range(iterations):
        f *= likelihood.T @ (seen / (likelihood @ f))
    return f


if __name__ == "__main__":
    data = gpu_rsfd.SyntheticDataset(20_000, (16,), "zipf:1.2", name="numbers")
    budgets = {"epsilons": [0.5, 2.0], "repetitions": 5}
    results = gpu_rsfd.run(SquareWave(), data, protocols="smp-grr", **budgets)
    print(results["numbers"].distance.mean(axis=-1))
