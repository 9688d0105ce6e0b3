"""The normal form of a report: what a backend must know of a protocol, integers only.

For one attribute a protocol says how a value is randomised (`Keep` or `Bits`), and what is sent for an attribute that
the user did not sample (`Others`).  Equal recipes have equal counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpu_rsfd.tape import KEEP_ONE, ONE

Thresholds: TypeAlias = tuple[int, ...]  # k - 1 ascending integers out of 2**32: v if exactly v of them are <= the draw


@dataclass(frozen=True, slots=True)
class Keep:
    """One value: the true one if the keep draw h < threshold (out of 2**32), else a uniform one of all k."""

    threshold: int

    def p(self, k: int) -> float:
        """P(report v | v)"""
        return self.q(k) + self.threshold / KEEP_ONE

    def q(self, k: int) -> float:
        """P(report v | not v)"""
        return (1 - self.threshold / KEEP_ONE) / k

    @property
    def informative(self) -> bool:
        """Whether the report depends on the value at all."""
        return self.threshold > 0


@dataclass(frozen=True, slots=True)
class Bits:
    """A bit per value: bit v is U < tp if v is the encoded value, else U < tq (out of 2**24)."""

    tp: int
    tq: int

    def p(self, k: int) -> float:
        return self.tp / ONE

    def q(self, k: int) -> float:
        return self.tq / ONE

    @property
    def informative(self) -> bool:
        return self.tp > self.tq


Noise: TypeAlias = Keep | Bits


class Others(Enum):
    """What is sent for an attribute that the user did not sample."""

    OWN = "own"  # there is no sampling: every attribute is randomised
    NOTHING = "nothing"  # the sampled attribute alone is sent
    ZERO = "zero"  # noise on the empty encoding, no value at all
    FAKE = "fake"  # a made-up value: as it is with Keep, randomised with Bits

    @property
    def samples(self) -> bool:
        """Whether a user samples an attribute."""
        return self is not Others.OWN

    @property
    def hides(self) -> bool:
        """Whether every user reports every attribute, whichever was sampled."""
        return self in (Others.ZERO, Others.FAKE)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One attribute in normal form.  `prior`: the law of fake values, uniform if None."""

    others: Others
    noise: Noise
    prior: Thresholds | None = None

    def __post_init__(self) -> None:
        if isinstance(self.noise, Keep) and self.others is Others.ZERO:
            raise TypeError("Keep sends a value: there is no empty encoding that it could randomise")
        if self.prior is not None and self.others is not Others.FAKE:
            raise TypeError(f"a prior is the law of fake values: {self.others} has none")

    @property
    def unary(self) -> bool:
        return isinstance(self.noise, Bits)

    @property
    def encodes_fakes(self) -> bool:
        """Whether fake values are encoded as bits, and so are needed user by user."""
        return self.unary and self.others is Others.FAKE

    @property
    def stored(self) -> tuple[int, int, int]:
        """(keep, tp, tq) as a results file has them: -1 where there is none."""
        match self.noise:
            case Keep(threshold):
                return threshold, -1, -1
            case Bits(tp, tq):
                return -1, tp, tq


def prior_frequencies(prior: Thresholds | None, k: int) -> npt.NDArray[np.float64]:
    """The law of fake values, as its thresholds realise it."""
    if prior is None:
        return np.full(k, 1 / k)
    return np.diff(np.array([0, *prior, KEEP_ONE], np.float64)) / KEEP_ONE
