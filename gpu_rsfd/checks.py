"""Checks of user input that need nothing but the value itself: a number in its range, or one clear line."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from typing import SupportsIndex

from gpu_rsfd.errors import InputError

MAX_WORD = 2**64 - 1
MAX_USERS = 2**53  # counts stay exact as floats
MIN_DOMAIN, MAX_DOMAIN = 2, 65_535
MAX_ATTRIBUTES = 65_535

ASSIGNMENTS = ("uniform", "balanced")  # how users sample an attribute
# What epsilon bounds: what the paper's budgets give (not the same for all solutions); the loss between any two users;
# the loss between two users who differ in one attribute.
GUARANTEES = ("paper", "user", "attribute")


def one_of(name: str, value: object, known: Collection[str]) -> str:
    """A name that is known."""
    if value not in known:
        raise InputError(f"unknown {name} {value!r}; available: {', '.join(known)}")
    return str(value)


def integer(name: str, value: object, low: int, high: int) -> int:
    """`value` as an int in low … high, or a ValueError that says what is valid."""
    if high == MAX_WORD:
        valid = f"must be a whole number >= {low} and < 2**64"
    elif high == MAX_USERS:
        valid = f"must be a whole number >= {low} and <= 2**53"
    else:
        valid = f"must be a whole number from {low:,} to {high:,}"
    if isinstance(value, bool):
        raise InputError(f"{name}={value!r} {valid}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{name}={value!r} {valid}") from None
    if not low <= number <= high:
        raise InputError(f"{name}={number} {valid}")
    return number


def check_seed(seed: object, name: str = "seed") -> int:
    return integer(name, seed, 0, MAX_WORD)


def check_users(n: object) -> int:
    return integer("users", n, 1, MAX_USERS)


def check_epsilon(epsilon: object) -> float:
    try:
        value = float(epsilon)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"epsilon={epsilon!r} must be a number > 0") from None
    if not 0 < value < math.inf:
        raise InputError(f"epsilon={value} must be finite and > 0")
    return value


def check_repetitions(repetitions: SupportsIndex | range) -> range:
    """A count R means repetitions 0 … R - 1; a range means itself."""
    if not isinstance(repetitions, range):
        return range(integer("repetitions", repetitions, 1, MAX_USERS))
    if not repetitions or repetitions.step < 1 or repetitions.start < 0 or repetitions[-1] > MAX_WORD:
        raise InputError(f"repetitions={repetitions} must be a non-empty, ascending range of numbers >= 0 and < 2**64")
    return repetitions


def check_share(name: str, value: object, sign: str = ">") -> float:
    """A number above 0, or with the sign >= at least 0, and at most 1."""
    try:
        share = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"{name}={value!r} must be a number {sign} 0 and <= 1") from None
    if not 0 <= share <= 1 or (share == 0 and sign == ">"):
        raise InputError(f"{name}={share} must be {sign} 0 and <= 1")
    return share
