"""Which messages support a value: families of sets, of which any two share equally many messages.

There are M messages; value v has the set S_v of s of them.  The members of a set are numbered in ascending order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from gpu_rsfd.errors import InputError

Messages = npt.NDArray[np.integer[Any]]

MOST_MESSAGES = 1 << 20  # each then has its probability to within 2**-12 of it, as 2**32 draws are dealt out to them
MOST_ENTRIES = 50_000_000  # of a table
_GATHERED = 1 << 20  # numbers that are added up at a time
_CHECKS, _WEIGHTS = 3, 1 << 20  # random vectors that a design is checked with, and how many values their entries have


@dataclass(frozen=True)
class Design:
    """M messages, and a set of `size` of them for each value; any two sets have `shared` messages in common.

    Two designs are equal if their integers are: `digest` stands for the sets, 0 for Hadamard's, which need no table.
    """

    messages: int
    size: int
    shared: int
    digest: int
    source: Any = field(default=None, compare=False, repr=False)  # (q, t, k) of a projective one, or the table itself

    @property
    def table(self) -> npt.NDArray[np.uint32] | None:
        """[value, member]; None if no table is needed."""
        if self.source is None and self.digest:
            raise InputError(f"the message sets with digest {self.digest} are not known here, only their numbers")
        return _projective_table(*self.source) if isinstance(self.source, tuple) else self.source

    def members(self, v: int) -> Messages:
        """S_v, ascending: from its definition."""
        table = self.table
        if table is not None:
            return table[v]
        return np.flatnonzero(np.bitwise_count(np.arange(self.messages) & (v + 1)) % 2 == 0)

    def sets(self, k: int) -> Iterator[Messages]:
        """S_0 … S_(k-1)"""
        return map(self.members, range(k))

    def elements(self, values: Messages, numbers: Messages) -> npt.NDArray[np.uint32]:
        """Member number i of S_v, for many pairs of a value and a number.

        Hadamard: the lowest 1 of v + 1 is a digit of the message that the others decide, so i has all digits but it.
        """
        table = self.table
        if table is not None:
            return table.ravel()[values.astype(np.int64) * self.size + numbers]
        v = values.astype(np.uint32) + np.uint32(1)
        i = numbers.astype(np.uint32, copy=False)
        pivot = v & -v
        low = i & (pivot - np.uint32(1))
        message = ((i ^ low) << np.uint32(1)) | low
        message |= pivot * (np.bitwise_count(message & v) & np.uint8(1))
        return message

    def supported(self, histogram: npt.NDArray[np.int64], k: int) -> npt.NDArray[np.int64]:
        """[…, message] how often each was sent -> […, value] how often a message of the value's set was."""
        table = self.table
        if table is None:
            total, spread = histogram.sum(axis=-1, keepdims=True), _walsh_hadamard(histogram)
            return (total + spread[..., 1 : k + 1]) // 2
        out = np.empty((*histogram.shape[:-1], k), np.int64)
        rows = max(1, _GATHERED // (self.size * max(1, histogram[..., 0].size)))
        for v in range(0, k, rows):
            some = table[v : min(v + rows, k)]
            histogram.take(some, axis=-1).sum(axis=-1, out=out[..., v : v + len(some)])
        return out


def _walsh_hadamard(x: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[…, v]: the sum of the entries m with an even number of 1s in v & m, minus that of the others."""
    shape, half = x.shape, 1
    while half < shape[-1]:
        pairs = x.reshape(*shape[:-1], -1, 2, half)
        x = np.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], axis=-2)
        half *= 2
    return x.reshape(shape)


@lru_cache(maxsize=1 << 12)
def hadamard(k: int) -> Design:
    """Rows 1 … k of a Hadamard matrix: S_v has the messages m with an even number of 1s in (v + 1) & m."""
    messages = 1 << k.bit_length()  # the least power of 2 above k
    return Design(messages, messages // 2, messages // 4, 0)


# ------------------------------------------------------------------------------------- projective geometry


def field_order(least: int) -> int:
    """The least prime from `least` on."""
    while any(least % i == 0 for i in range(2, int(least**0.5) + 1)):
        least += 1
    return least


def projective_shape(q: int, k: int) -> tuple[int, int, int, int]:
    """(t, M, s, shared) of the smallest projective geometry over F_q with k points: t is its dimension, plus 1."""
    points = [0, 1]  # of the geometries of dimension -1, 0, 1, …
    while points[-1] < k:
        points.append(points[-1] * q + 1)
    return len(points) - 1, *points[:-4:-1]  # type: ignore[return-value]


@lru_cache(maxsize=1 << 10)
def projective(q: int, k: int) -> Design:
    """Points of a projective geometry over F_q: S_v has those that are orthogonal to point v."""
    t, messages, size, shared = projective_shape(q, k)
    check_size(k, messages, size)
    return Design(messages, size, shared, _digest(f"projective {q} {t} {k}".encode()), (q, t, k))


def check_size(k: int, messages: int, size: int) -> None:
    """Refuses what would take too much memory, or too many messages for draws of 32 bits."""
    if k * size > MOST_ENTRIES:
        raise InputError(
            f"a table of {k:,} x {size:,} messages is needed, one set for each value; "
            f"at most {MOST_ENTRIES:,} entries are valid"
        )
    if messages > MOST_MESSAGES:
        raise InputError(f"{messages:,} messages are needed; at most {MOST_MESSAGES:,} are valid")


def _points(q: int, t: int) -> npt.NDArray[np.int64]:
    """[point, coordinate], ascending as numbers to the base q; the first coordinate that is not 0 is 1."""
    places = q ** np.arange(t - 1, -1, -1, dtype=np.int64)
    numbers = np.concatenate([np.arange(place, 2 * place) for place in places[::-1]])
    return numbers[:, None] // places % q


@lru_cache(maxsize=64)
def _projective_table(q: int, t: int, k: int) -> npt.NDArray[np.uint32]:
    """[v, member]: the points that are orthogonal to point v, ascending.

    With c the last coordinate of v that is not 0, a point of the other coordinates decides coordinate c.  If all of its
    coordinates before c are 0, so is that: the first one that is not 0 stays 1.
    """
    points, others = _points(q, t)[:k], _points(q, t - 1)
    last = t - 1 - np.argmax(points[:, ::-1] != 0, axis=1)
    inverse = np.array([0, *(pow(i, -1, q) for i in range(1, q))], np.int64)
    powers = q ** np.arange(t + 1, dtype=np.int64)
    before = np.cumsum(powers) - powers  # (q^r - 1) / (q - 1)
    table = np.empty((k, len(others)), np.uint32)
    for c in range(t):
        rest = np.delete(np.arange(t), c)
        first = rest[np.argmax(others != 0, axis=1)]
        numbers = others @ q ** (t - 1 - rest) + before[t - 1 - first] - q ** (t - 1 - first)
        (here,) = np.nonzero(last == c)
        step = max(1, _GATHERED // len(others))
        for some in (here[i : i + step] for i in range(0, len(here), step)):
            decided = -(points[some][:, rest] @ others.T) * inverse[points[some, c]][:, None] % q
            table[some] = np.sort(numbers + decided * q ** (t - 1 - c), axis=1)
    return table


def _digest(content: bytes) -> int:
    """63 bits that stand for the sets, never 0."""
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "little") >> 1 | 1


# --------------------------------------------------------------------------------------------- one's own


def own_design(sets: object) -> Design:
    """A design from a table, a row of messages for each value.  Raises with the reason if it is none."""
    try:
        table = np.asarray(sets)
    except ValueError:  # rows of unequal lengths
        sizes = [len(row) if hasattr(row, "__len__") else 0 for row in cast("Iterable[Any]", sets)]
        for v, size in enumerate(sizes):
            if size != sizes[0]:
                message = f"value 0 has {sizes[0]} message(s), value {v} has {size}: all must have equally many"
                raise InputError(message) from None
        table = np.empty(0)
    if table.ndim != 2 or table.dtype.kind not in "iu" or table.shape[0] < 2 or table.shape[1] < 1:
        raise InputError(
            "they must be a table of integers, a row of equally many messages for each of 2 or more values"
        )
    if table.min() < 0:
        raise InputError(f"message {table.min()} is negative; messages are numbered from 0 on")
    k, size, messages = *table.shape, int(table.max()) + 1
    check_size(k, messages, size)
    table = np.sort(table.astype(np.uint32), axis=1)
    twice = np.argwhere(table[:, 1:] == table[:, :-1])
    if len(twice):
        v, i = twice[0]
        raise InputError(f"value {v} has message {table[v, i]} twice")
    shared = len(np.intersect1d(table[0], table[1]))
    _check_shared(table, messages, shared)
    if shared == size:
        raise InputError("all values have the same messages")
    return Design(messages, size, shared, _digest(f"{k} {size} ".encode() + table.astype("<u4").tobytes()), table)


def _check_shared(table: npt.NDArray[np.uint32], messages: int, shared: int) -> None:
    """Whether any two sets have `shared` messages in common: by random vectors, wrong once in 2**60 at most.

    With B the matrix of which messages are in which sets, B B' = (s - shared) I + shared J; both are multiplied by x.
    """
    k, size = table.shape
    random = np.random.Generator(np.random.Philox(key=0))
    for _ in range(_CHECKS):
        x = np.asarray(random.integers(_WEIGHTS, size=k))
        loads = np.zeros(messages, np.int64)
        np.add.at(loads, table, x[:, None])
        differs = np.flatnonzero(loads[table].sum(axis=1) != (size - shared) * x + shared * x.sum())
        if len(differs):
            v = int(differs[0])
            common = np.isin(table, table[v]).sum(axis=1)
            other = next(u for u in range(k) if u != v and common[u] != shared)
            raise InputError(
                f"the sets of values 0 and 1 share {shared} message(s), those of {min(v, other)} and {max(v, other)} "
                f"share {common[other]}: any two must share equally many, or the estimates would be biased"
            )
