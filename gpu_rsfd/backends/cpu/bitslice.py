"""Arithmetic on 64 users at a time: one bit of a word per user, [..., groups] words for [..., 64 groups] users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.tape import LANES, LEVELS, ONE, Words

_POPCOUNT_VALUES = 64  # up to about this many values, popcounts beat numpy.bincount


def pack(flags: npt.NDArray[Any]) -> Words:
    """[..., 64 groups] booleans (or uint8, non-zero = true) -> [..., groups] words."""
    return np.packbits(flags, axis=-1, bitorder="little").view(np.uint64)


def digit_planes(codes: npt.NDArray[np.unsignedinteger], k: int) -> list[Words]:
    """The binary digits of codes 0 … k - 1, least significant first, each packed into words."""
    return [pack((codes & codes.dtype.type(1 << b)) != 0) for b in range((k - 1).bit_length())]


def one_hot(planes: Sequence[Words], among: Words, k: int) -> Iterator[Words]:
    """For v = 0 … k - 1, the users of `among` whose code is v: a binary tree over the digits, its leaves in order."""

    def walk(users: Words, digit: int, first: int) -> Iterator[Words]:
        if digit < 0:
            yield users
            return
        ones = users & planes[digit]
        yield from walk(users ^ ones, digit - 1, first)
        if first + (1 << digit) < k:
            yield from walk(ones, digit - 1, first + (1 << digit))

    return walk(among, len(planes) - 1, 0)


def valid_lanes(users: int) -> Words:
    """[groups]: the lanes that belong to a user; only the last word can have others."""
    return pack(np.arange(-(-users // LANES) * LANES) < users)


# Rows of a digit table: the 24 digits, then `a & b` and `a | b` of each pair of neighbouring digits (2 i, 2 i + 1).
_ANDS, _ORS = LEVELS, LEVELS + LEVELS // 2
ROWS = 2 * LEVELS


@lru_cache(maxsize=4096)
def _steps(threshold: int) -> tuple[tuple[Any, int], ...]:
    """U >= T from the least significant digit up: `& w` where T's digit is 1, `| w` where it is 0.

    (The complement of the tape's `x | ~w` and `x & ~w`: no word needs to be inverted.)  Below T's lowest 1 nothing
    is to be done, since U >= 0 holds there; that digit itself gives w.  Two equal digits of a pair take one step.
    """
    level = (threshold & -threshold).bit_length() - 1
    steps: list[tuple[Any, int]] = [(None, level)]
    level += 1
    while level < LEVELS:
        digit, combine = threshold >> level & 1, (np.bitwise_or, np.bitwise_and)[threshold >> level & 1]
        if level % 2 == 0 and threshold >> (level + 1) & 1 == digit:
            steps.append((combine, (_ANDS if digit else _ORS) + level // 2))
            level += 2
        else:
            steps.append((combine, level))
            level += 1
    return tuple(steps)


def pairs_of(thresholds: Iterable[int]) -> list[tuple[Any, int, int]]:
    """The pair rows that these thresholds use, as (operation, first digit, row)."""
    rows = {row for t in thresholds if t < ONE for _, row in _steps(t) if row >= LEVELS}
    return [
        (np.bitwise_or, 2 * (row - _ORS), row) if row >= _ORS else (np.bitwise_and, 2 * (row - _ANDS), row)
        for row in sorted(rows)
    ]


Program = tuple[Words, list[tuple[Any, Words]]]


def program(threshold: int, digits: Sequence[Words]) -> Program:
    """How to find the users with U >= threshold (1 … 2**24) in a digit table: a first row, then steps with others."""
    if threshold >= ONE:
        return np.zeros_like(digits[0]), []
    (_, lowest), *steps = _steps(threshold)
    return digits[lowest], [(combine, digits[row]) for combine, row in steps]


def at_least(way: Program, out: Words) -> Words:
    """The users with U >= the program's threshold, for what the digit table holds now.  May use `out`."""
    have, steps = way
    for combine, row in steps:
        combine(have, row, out)
        have = out
    return have


def value_counts(codes: npt.NDArray[np.unsignedinteger], valid: Words, k: int) -> npt.NDArray[np.int64]:
    """[repetition, 64 groups] codes -> [repetition, k]: how often each value occurs in the valid lanes."""
    repetitions = len(codes)
    if k <= _POPCOUNT_VALUES:
        users = np.broadcast_to(valid, (repetitions, len(valid)))
        counts = [
            np.bitwise_count(mask).sum(axis=1, dtype=np.int64) for mask in one_hot(digit_planes(codes, k), users, k)
        ]
        return np.stack(counts, axis=1)
    n = int(np.bitwise_count(valid).sum(dtype=np.int64))
    cells = codes[:, :n] + np.arange(repetitions)[:, None] * k
    return np.bincount(cells.ravel(), minlength=repetitions * k).reshape(repetitions, k)
