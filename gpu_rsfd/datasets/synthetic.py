"""Synthetic data sets: a value is a function of (data seed, attribute, user), so any chunk can be made on its own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import numpy as np

from gpu_rsfd.checks import check_seed
from gpu_rsfd.datasets.base import Dataset, Names
from gpu_rsfd.errors import InputError
from gpu_rsfd.tape import Codes, Tape, Words, by_thresholds, scale

# Section 4.1 of the paper: name -> (users, domain sizes)
PAPER_SYNTHETIC: dict[str, tuple[int, tuple[int, ...]]] = {
    "syn1": (50_000, (10,) * 5),
    "syn2": (500_000, (10,) * 5),
    "syn3": (50_000, (10,) * 10),
    "syn4": (500_000, (10,) * 10),
    "syn5": (500_000, tuple(range(10, 101, 10))),
    "syn6": (500_000, tuple(k for k in range(10, 101, 10) for _ in range(2))),
}


class SyntheticDataset(Dataset):
    """Users whose attributes are independent and drawn from a distribution.

    Parameters
    ----------
    n : int
        Number of users.
    domain : sequence of int
        Number of values of each attribute.
    distribution : str
        `uniform`, or `zipf:S`: P(v) proportional to ``(v + 1) ** -S``.
    seed : int
        Seed of the data.  The seed of a simulation does not change the data.
    names, name
        As in `Dataset`.
    """

    def __init__(
        self,
        n: int,
        domain: Iterable[int],
        distribution: str = "uniform",
        seed: int = 0,
        names: Names = None,
        name: str = "synthetic",
    ) -> None:
        self._describe_shape(name, n, domain, names)
        self.distribution = distribution
        self.seed = check_seed(seed)
        exponent = parse_distribution(distribution)
        self.source = f"drawn: {distribution}, seed {self.seed}"
        # of the attributes with so many values: `zipf_thresholds`, or None for uniform
        self.thresholds = {k: None if exponent is None else zipf_thresholds(k, exponent) for k in {*self.domain}}

    def column(self, j: int, start: int, stop: int, round: int = 0) -> Codes:
        k = self.domain[j]
        return values_of(Tape(self.seed).data(j, start, stop), self.thresholds[k], k)

    def describe(self) -> dict[str, Any]:
        return self._described(distribution=self.distribution, seed=self.seed)


def values_of(words: Words, thresholds: Words | None, k: int) -> Codes:
    """Values of an attribute from random words: by the thresholds of their distribution, or uniform."""
    return scale(words, k) if thresholds is None else by_thresholds(words, thresholds, k)


def parse_distribution(distribution: str) -> float | None:
    """None for `uniform`, the exponent for `zipf:1.2`."""
    if distribution == "uniform":
        return None
    kind, _, number = str(distribution).partition(":")
    try:
        exponent = float(number)
    except ValueError:
        exponent = math.nan
    if kind != "zipf" or not 0 <= exponent < math.inf:
        raise InputError(f"unknown distribution {distribution!r}; available: uniform, zipf:S with a number S >= 0")
    return exponent


def zipf_thresholds(k: int, exponent: float) -> Words:
    """k - 1 integers out of 2**32: a user holds v if exactly v of them are <= the word's high half."""
    weights = [(v + 1) ** -exponent for v in range(k)]
    total = sum(weights)
    thresholds = (min(math.floor(running / total * 2**32), 2**32) for running in accumulate(weights[:-1]))
    return np.array([*thresholds], np.uint64)
