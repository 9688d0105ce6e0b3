"""The normal form of a report: what a backend must know of a protocol, integers only.

For one attribute a protocol says how a value is randomised (`Keep`, `Sets`, `Bits` or `Subsets`; over rounds, a `Chain`
of two of them), and what is sent for an attribute that the user did not sample (`Unsampled`).  Equal recipes have equal
counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols.designs import Design
from gpu_rsfd.tape import KEEP_ONE, ONE

T = TypeVar("T")
Thresholds: TypeAlias = tuple[int, ...]  # k - 1 ascending integers out of 2**32: v if exactly v of them are <= the draw


class Common:
    """What most noises have in common: integers, p(k) and q(k) are their own."""

    __slots__ = ()
    kind: ClassVar[str]  # what a results file calls it
    unary: ClassVar[Any] = False  # whether a bit vector is sent, not a message

    @property
    def integers(self) -> tuple[int, ...]:
        """What a results file keeps of it."""
        return tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    @property
    def informative(self) -> bool:
        """Whether the report depends on the value at all."""
        return self.integers[0] > 0  # the threshold below which the value is kept

    @property
    def address(self) -> tuple[int | str, ...]:
        """Its part of the address of a sampler's substream."""
        return self.kind, *self.integers

    @property
    def shared_address(self) -> tuple[int, ...] | None:
        """Of the draws that it shares with other noises of its kind; None if it shares none."""
        return None

    def fakes(self, k: int) -> float:
        """P(a uniform fake supports v), before it is randomised if it is"""
        return 1 / k


@dataclass(frozen=True, slots=True)
class Keep(Common):
    """One value: the true one if the keep draw h < threshold (out of 2**32), else a uniform one of all k."""

    threshold: int

    kind: ClassVar[str] = "keep"
    design: ClassVar[None] = None  # a value is its own message

    @property
    def address(self) -> tuple[int, ...]:
        """As in stream version 1: (keep, tp, tq), -1 for none."""
        return self.threshold, -1, -1

    def p(self, k: int) -> float:
        """P(report v | v)"""
        return self.q(k) + self.threshold / KEEP_ONE

    def q(self, k: int) -> float:
        """P(report v | not v)"""
        return (1 - self.threshold / KEEP_ONE) / k

    def messages(self, k: int) -> int:
        """How many different messages there are."""
        return k


@dataclass(frozen=True, slots=True)
class Sets(Common):
    """One message: of the true value's set if the keep draw h < threshold (out of 2**32), else a uniform one of all.

    A message supports the values of whose sets it is a member.  `Keep` is the case of sets of one message each.
    """

    threshold: int
    design: Design

    kind: ClassVar[str] = "sets"

    @classmethod
    def stored(cls, threshold: int, messages: int, size: int, shared: int, digest: int) -> Sets:
        """From its integers: without the sets themselves."""
        return cls(threshold, Design(messages, size, shared, digest))

    @property
    def integers(self) -> tuple[int, ...]:
        design = self.design
        return self.threshold, design.messages, design.size, design.shared, design.digest

    @property
    def given(self) -> tuple[float, float]:
        """P(a message | a value of whose set it is a member), and P(it | any other value)."""
        keep = self.threshold / KEEP_ONE
        other = (1 - keep) / self.design.messages
        return keep / self.design.size + other, other

    def p(self, k: int) -> float:
        """P(support v | v)"""
        return self.design.size * self.given[0]

    def q(self, k: int) -> float:
        """P(support v | not v)"""
        inside, outside = self.given
        return self.design.shared * inside + (self.design.size - self.design.shared) * outside

    def fakes(self, k: int) -> float:
        return self.design.size / self.design.messages

    def messages(self, k: int) -> int:
        return self.design.messages


@dataclass(frozen=True, slots=True)
class Bits(Common):
    """A bit per value: bit v is U < tp if v is the encoded value, else U < tq (out of 2**24)."""

    tp: int
    tq: int

    kind: ClassVar[str] = "bits"
    unary: ClassVar[bool] = True

    @property
    def address(self) -> tuple[int, ...]:
        return -1, self.tp, self.tq

    @property
    def shared_address(self) -> tuple[int, ...]:
        """Noises of equal tp share the 1s of those who encode a value, as they do on the tape."""
        return (self.tp,)

    def p(self, k: int) -> float:
        return self.tp / ONE

    def q(self, k: int) -> float:
        return self.tq / ONE

    @property
    def informative(self) -> bool:
        return self.tp > self.tq


@dataclass(frozen=True, slots=True)
class Subsets(Common):
    """A set of `size` of the k values: the own one is in it if its U < tp (out of 2**24), the rest is uniform."""

    tp: int
    size: int

    kind: ClassVar[str] = "subsets"
    unary: ClassVar[bool] = True

    def p(self, k: int) -> float:
        return self.tp / ONE

    def q(self, k: int) -> float:
        return (self.size - self.p(k)) / (k - 1)

    def given(self, k: int) -> tuple[float, float]:
        """P(a set | a value in it), and P(it | a value that is not in it)."""
        p = self.p(k)
        return p / math.comb(k - 1, self.size - 1), (1 - p) / math.comb(k - 1, self.size)


@dataclass(frozen=True, slots=True)
class Chain(Common):
    """Two steps: `memo` once for each value that is held, and remembered; `second` on that, anew for each report.

    Both are `Keep`, or both `Bits`.  With hash cells they randomise the value's cell, by a hash that the user keeps.
    A second step that changes nothing is Keep(2**32) or Bits(2**24, 0); so is a memo step that remembers nothing.
    """

    memo: Keep | Bits
    second: Keep | Bits
    cells: int = 0  # of the hash; 0: there is none

    kind: ClassVar[str] = "chain"

    @classmethod
    def stored(cls, *integers: int) -> Chain:
        """From its integers."""
        form: Any = Keep if len(integers) == 3 else Bits
        half = len(integers) // 2
        return cls(form(*integers[:half]), form(*integers[half:-1]), integers[-1])

    @property
    def unary(self) -> bool:
        """As with one report of it: a cell supports several values, like bits."""
        return self.cells > 0 or self.memo.unary

    @property
    def integers(self) -> tuple[int, ...]:
        return *self.memo.integers, *self.second.integers, self.cells

    def steps(self, k: int) -> tuple[float, float, float, float]:
        """p1, q1 of the memo and p2, q2 of the second step: for values, bits, or cells if there are any."""
        size = self.cells or k
        return self.memo.p(size), self.memo.q(size), self.second.p(size), self.second.q(size)

    def p(self, k: int) -> float:
        p1, _, p2, q2 = self.steps(k)
        return q2 + p1 * (p2 - q2)

    def q(self, k: int) -> float:
        _, q1, p2, q2 = self.steps(k)
        return 1 / self.cells if self.cells else q2 + q1 * (p2 - q2)

    @property
    def informative(self) -> bool:
        return self.memo.informative and self.second.informative


Noise: TypeAlias = Keep | Sets | Bits | Subsets | Chain
NOISES: dict[str, Callable[..., Noise]] = {  # from integers
    Keep.kind: Keep,
    Sets.kind: Sets.stored,
    Bits.kind: Bits,
    Subsets.kind: Subsets,
    Chain.kind: Chain.stored,
}


@dataclass(frozen=True, slots=True)
class UnknownNoise:
    """A noise that a results file names, but this version of gpu-rsfd does not have: no backend runs it."""

    kind: str
    integers: tuple[int, ...]

    unary: ClassVar[bool] = False
    informative: ClassVar[bool] = True

    def p(self, k: int) -> float:
        return math.nan

    q = fakes = p  # no probability of it is known


def noise_of(kind: str, integers: Sequence[int]) -> Any:
    """A noise from what a results file keeps of it."""
    return NOISES[kind](*integers) if kind in NOISES else UnknownNoise(kind, tuple(integers))


def implementation(table: Mapping[type, T], noise: object, who: str) -> T:
    """What `table` has for the class of a noise; an error, never zeros, if it has nothing."""
    if type(noise) not in table:
        raise unknown_noise(table, noise, who)
    return table[type(noise)]


def unknown_noise(known: Iterable[type], noise: object, who: str) -> InputError:
    names = ", ".join(sorted(each.__name__ for each in known))
    return InputError(f"{who} does not know the noise {noise!r}; it knows: {names}")


class Unsampled(Enum):
    """What is sent for an attribute that the user did not sample."""

    OWN = "own"  # there is no sampling: every attribute is randomised
    NOTHING = "nothing"  # the sampled attribute alone is sent
    ZERO = "zero"  # noise on the empty encoding, no value at all
    FAKE = "fake"  # a made-up value: as it is with Keep, randomised with Bits; a made-up message with Sets

    @property
    def samples(self) -> bool:
        """Whether a user samples an attribute."""
        return self is not Unsampled.OWN

    @property
    def hides(self) -> bool:
        """Whether every user reports every attribute, whichever was sampled."""
        return self in (Unsampled.ZERO, Unsampled.FAKE)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One attribute in normal form.  `prior`: the distribution of fake values, uniform if None."""

    unsampled: Unsampled
    noise: Noise
    prior: Thresholds | None = None

    def __post_init__(self) -> None:
        if isinstance(self.noise, (Keep, Sets)) and self.unsampled is Unsampled.ZERO:
            raise TypeError("Keep sends a value, Sets a message: there is no empty encoding that it could randomise")
        if isinstance(self.noise, Sets) and self.prior is not None:
            raise TypeError("a prior is a distribution of values: the fakes of Sets are messages")
        if isinstance(self.noise, Subsets) and self.unsampled.hides:
            raise TypeError("Subsets has no fakes: it is for Spl and Smp")
        if self.prior is not None and self.unsampled is not Unsampled.FAKE:
            raise TypeError(f"a prior is the distribution of fake values: {self.unsampled} has none")

    @property
    def unary(self) -> bool:
        """Whether what is sent is a bit vector."""
        return self.noise.unary

    @property
    def encodes_fakes(self) -> bool:
        """Whether fake values are encoded as bits, and so are needed user by user."""
        return self.unary and self.unsampled is Unsampled.FAKE

    @property
    def words(self) -> str:
        """For people: what is sent, and with which integers."""
        others = {"own": "", "nothing": "", "zero": ", fakes: zeros", "fake": ", fakes: values"}[self.unsampled.value]
        return f"{self.noise.kind}({', '.join(map(str, self.noise.integers))}){others}"

    @property
    def identity(self) -> str:
        """All that the counts depend on, as text."""
        prior = "" if self.prior is None else f" {','.join(map(str, self.prior))}"
        return f"{self.unsampled.value} {self.noise.kind} {','.join(map(str, self.noise.integers))}{prior}"


def prior_frequencies(prior: Thresholds | None, k: int) -> npt.NDArray[np.float64]:
    """The distribution of fake values, as its thresholds realise it."""
    if prior is None:
        return np.full(k, 1 / k)
    return np.diff(np.array([0, *prior, KEEP_ONE], np.float64)) / KEEP_ONE
