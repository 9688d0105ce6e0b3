"""Text of the command line or a spec file -> checked numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpu_rsfd.checks import MAX_ATTRIBUTES, check_users, integer
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import split_list, whole


def users(texts: Iterable[object]) -> list[int]:
    return [check_users(whole("users", text)) for text in split_list(texts, "users")]


def sizes(name: str, texts: Iterable[object], low: int, high: int) -> list[int]:
    return [integer(name, whole(name, text), low, high) for text in split_list(texts, name)]


def domain(texts: Iterable[object]) -> Domain:
    """Domain sizes: 10,10,20, or 10x5 for five times 10, or both mixed."""
    sizes: list[int] = []
    for text in split_list(texts, "domain"):
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
    from gpu_rsfd.running.collect import check_part

    number, slash, parts = text.partition("/")
    if not slash or not number.strip().isdecimal() or not parts.strip().isdecimal():
        raise InputError(f"part={text} must be a part and the number of parts, such as 3/16")
    return check_part(int(number), int(parts))
