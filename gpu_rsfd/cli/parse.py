"""Text from the command line or a spec file -> checked numbers."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Container, Iterable

from gpu_rsfd.checks import MAX_ATTRIBUTES, check_epsilon, check_users
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError


def items(texts: Iterable[object], name: str = "list", exact: Container[str] = ()) -> list[str]:
    """Repeated options and comma lists, flattened: ["a,b", "c"] -> [a, b, c].  An empty text is an error.

    A text in `exact` is one item as it is; quotes keep a comma within an item: 'a,"b, c"' -> [a, b, c].
    """
    found: list[str] = []
    for text in map(str, texts):
        if text in exact:
            found.append(text)
            continue
        parts = [part.strip() for part in _split(text) if part.strip()]
        if not parts:
            raise InputError(f"{name}={text!r} is an empty list; at least one entry is needed")
        found += parts
    return found


def _split(text: str) -> list[str]:
    if '"' not in text:
        return text.split(",")
    return next(csv.reader([text], skipinitialspace=True), [])


def whole(name: str, text: object) -> int:
    """A count such as 1000, 1e6 or 1_000_000."""
    plain = str(text).replace("_", "")
    try:
        number = float(plain)
        value = int(plain) if plain.lstrip("+-").isdigit() else int(number)
    except (ValueError, OverflowError):
        raise InputError(f"{name}={text} must be a whole number, such as 1000, 1e6 or 1_000_000") from None
    if value != number and not plain.lstrip("+-").isdigit():
        raise InputError(f"{name}={text} must be a whole number, such as 1000, 1e6 or 1_000_000")
    return value


def users(texts: Iterable[object]) -> list[int]:
    return [check_users(whole("users", text)) for text in items(texts, "users")]


def epsilons(texts: Iterable[object]) -> list[float]:
    """Numbers and logarithms: 0.5, ln2, ln(2)."""
    return [_epsilon(text) for text in items(texts, "epsilon")]


def _epsilon(text: str) -> float:
    logarithm = re.fullmatch(r"ln\s*\(?\s*([0-9.eE+]+)\s*\)?", text)
    try:
        value = math.log(float(logarithm[1])) if logarithm else float(text)
    except ValueError:
        raise InputError(f"epsilon={text} must be a number > 0 or a logarithm such as ln2") from None
    return check_epsilon(value)


def domain(texts: Iterable[object]) -> tuple[int, ...]:
    """Domain sizes: 10,10,20, or 10x5 for five times 10, or both mixed."""
    sizes: list[int] = []
    for text in items(texts, "domain"):
        match = re.fullmatch(r"([0-9]{1,9})(?:x([0-9]{1,9}))?", text)
        size, times = (int(part or 1) for part in match.groups()) if match else (0, 0)
        if match is None or times < 1:
            raise InputError(
                f"domain={text} must be domain sizes such as 10,10,20 or 10x5 (five attributes of 10 values)"
            )
        if times > MAX_ATTRIBUTES:
            raise InputError(f"domain={text} has {times:,} attributes; valid: 1 to {MAX_ATTRIBUTES:,}")
        sizes += [size] * times
    return Domain.of(sizes)


def part(text: str) -> tuple[int, int]:
    """`3/16` as (3, 16)."""
    number, slash, parts = text.partition("/")
    if not slash or not number.strip().isdecimal() or not parts.strip().isdecimal():
        raise InputError(f"part={text} must be a part and their number, such as 3/16")
    return int(number), int(parts)
