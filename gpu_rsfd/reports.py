"""What each user sends, read straight from the paper: the reference that every backend must agree with.

Slow and obvious on purpose: user by user, attribute by attribute.  The only source of randomness is the tape.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import check_epsilon, check_seed, integer
from gpu_rsfd.datasets import as_dataset
from gpu_rsfd.datasets.base import Dataset, check_rows
from gpu_rsfd.protocols import Mechanism, check_protocol, mechanism, solution_of
from gpu_rsfd.tape import Tape, check_assignment, keep_draw, scale

_BLOCK = 4096  # users whose words are drawn together


@dataclass(frozen=True, eq=False)
class Reports:
    """The reports of one repetition.

    values[j]  what the users `users[j]` send for attribute j: a value each (GRR, int64 [m]) or a bit vector each
               (unary encodings, uint8 0/1 [m, k_j]).  m is n, except for Smp: there only the users who sampled
               attribute j report it, and m is n_j.
    users[j]   the users behind values[j], ascending.
    sampled    the attribute that each user sampled, [n]: secret under RS+FD, sent under Smp, unused by Spl.
    """

    values: list[npt.NDArray[Any]]
    users: list[npt.NDArray[np.int64]]
    sampled: npt.NDArray[np.int64]
    mechanisms: tuple[Mechanism, ...]

    def counts(self) -> npt.NDArray[np.int64]:
        """How often each value was reported, over all attributes' values in order."""
        return np.concatenate(
            [
                sent.sum(axis=0, dtype=np.int64) if m.recipe.unary else np.bincount(sent, minlength=m.k)
                for sent, m in zip(self.values, self.mechanisms, strict=True)
            ]
        )


class _User:
    """One user's share of the tape: word for word what Section 3 calls random."""

    def __init__(self, tape: _Block, i: int) -> None:
        self._tape, self._i = tape, i

    def sample_attribute(self) -> int:
        """j <- Uniform({1, …, d})"""
        return int(self._tape.sampled[self._i])

    def uniform_value(self, j: int) -> int:
        """y <- Uniform({1, …, k_j})"""
        return int(self._tape.y[j][self._i])

    def keep(self, j: int, m: Mechanism) -> bool:
        """True with probability p - q"""
        return int(self._tape.h[j][self._i]) < m.recipe.keep

    def uniforms(self, j: int) -> npt.NDArray[np.uint32]:
        """One 24-bit uniform per bit of attribute j's vector"""
        return self._tape.u[j][self._i]


class _Block:
    """The words of users start … stop - 1."""

    def __init__(
        self,
        tape: Tape,
        assignment: str,
        repetition: int,
        data: Dataset,
        ms: tuple[Mechanism, ...],
        start: int,
        stop: int,
    ) -> None:
        self.sampled = tape.assigned(assignment, repetition, data.n, data.d, start, stop)
        words = [tape.value(j, repetition, start, stop) for j in range(data.d)]
        self.y = [scale(w, k) for w, k in zip(words, data.domain, strict=True)]
        self.h = [keep_draw(w) for w in words]
        offsets = [0, *accumulate(data.domain)]
        self.u = [
            np.stack([tape.uniforms(offsets[j] + v, repetition, start, stop) for v in range(k)], axis=1)
            if ms[j].recipe.unary
            else np.empty(0, np.uint32)
            for j, k in enumerate(data.domain)
        ]


def grr(user: _User, j: int, v: int, m: Mechanism) -> int:
    """Section 2.2.1: the true value with probability p, any other with probability q.

    The same law, drawn as: keep v with probability p - q, otherwise take a uniform one of all k values.
    """
    return v if user.keep(j, m) else user.uniform_value(j)


def encode(v: int, k: int) -> npt.NDArray[np.uint8]:
    """B = [0, 0, …, 1, 0, … 0]"""
    bits = np.zeros(k, np.uint8)
    bits[v] = 1
    return bits


def unary(user: _User, j: int, bits: npt.NDArray[np.uint8], m: Mechanism) -> npt.NDArray[np.uint8]:
    """Section 2.2.2, OUE or SUE: Pr[B'[i] = 1] is p if B[i] = 1 and q if B[i] = 0."""
    threshold = np.where(bits == 1, m.recipe.tp, m.recipe.tq)
    return (user.uniforms(j) < threshold).astype(np.uint8)


def randomize(user: _User, j: int, v: int, m: Mechanism) -> Any:
    """A(v_j, k_j, budget): the attribute's own randomiser."""
    return unary(user, j, encode(v, m.k), m) if m.recipe.unary else grr(user, j, v, m)


def fake(user: _User, i: int, m: Mechanism) -> Any:
    """The fake data of a non-sampled attribute i."""
    if m.recipe.fake == "y":
        return user.uniform_value(i)  # Algorithm 1, line 6
    if m.recipe.fake == "z":
        return unary(user, i, np.zeros(m.k, np.uint8), m)  # Algorithm 2, lines 6 and 7
    return unary(user, i, encode(user.uniform_value(i), m.k), m)  # Algorithm 3, lines 6 to 8


def rsfd(user: _User, v: list[int], ms: tuple[Mechanism, ...]) -> dict[int, Any]:
    """Algorithms 1, 2 and 3 (eps' is in the mechanisms): the sampled attribute randomised, hidden among fakes."""
    j = user.sample_attribute()
    y = {j: randomize(user, j, v[j], ms[j])}
    for i in range(len(v)):
        if i != j:
            y[i] = fake(user, i, ms[i])
    return y


def spl(user: _User, v: list[int], ms: tuple[Mechanism, ...]) -> dict[int, Any]:
    """Spl: every attribute, each with eps / d."""
    return {j: randomize(user, j, v[j], ms[j]) for j in range(len(v))}


def smp(user: _User, v: list[int], ms: tuple[Mechanism, ...]) -> dict[int, Any]:
    """Smp: the sampled attribute alone, with eps."""
    j = user.sample_attribute()
    return {j: randomize(user, j, v[j], ms[j])}


def reports(
    data: Dataset | str | os.PathLike[str],
    protocol: str,
    epsilon: float,
    seed: int = 0,
    repetition: int = 0,
    assignment: str = "uniform",
) -> Reports:
    """What each user of `data` sends in one repetition: the reports behind `simulate`'s counts, bit by bit."""
    protocol = check_protocol(protocol)
    check_assignment(assignment)
    epsilon, seed = check_epsilon(epsilon), check_seed(seed)
    repetition = integer("repetition", repetition, 0, 2**64 - 1)
    data = as_dataset(data)
    check_rows(data, "users")
    ms = tuple(mechanism(protocol, epsilon, data.d, k) for k in data.domain)
    send = {"rsfd": rsfd, "spl": spl, "smp": smp}[solution_of(protocol)]
    tape = Tape(seed)
    sent: list[list[Any]] = [[] for _ in ms]
    senders: list[list[int]] = [[] for _ in ms]
    sampled = np.empty(data.n, np.int64)
    for start in range(0, data.n, _BLOCK):
        stop = min(start + _BLOCK, data.n)
        block = _Block(tape, assignment, repetition, data, ms, start, stop)
        codes = np.stack([data.column(j, start, stop) for j in range(data.d)], axis=1, dtype=np.int64).tolist()
        sampled[start:stop] = block.sampled
        for i, v in enumerate(codes):
            for j, y in send(_User(block, i), v, ms).items():
                sent[j].append(y)
                senders[j].append(start + i)
    values = [
        np.array(y, np.uint8).reshape(-1, m.k) if m.recipe.unary else np.array(y, np.int64)
        for y, m in zip(sent, ms, strict=True)
    ]
    return Reports(values, [np.array(s, np.int64) for s in senders], sampled, ms)
