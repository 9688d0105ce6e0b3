"""Text from the command line or a spec file -> checked numbers."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from typing import Any

from gpu_rsfd.checks import MAX_ATTRIBUTES, check_domain, check_epsilon, check_users
from gpu_rsfd.errors import InputError


def toml_loads(text: str) -> dict[str, Any]:
    """A TOML document; a ValueError if it is none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def items(texts: Iterable[object]) -> list[str]:
    """Repeated options and comma lists, flattened: ["a,b", "c"] -> [a, b, c]."""
    return [part.strip() for text in texts for part in str(text).split(",") if part.strip()]


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
    return [check_users(whole("users", text)) for text in items(texts)]


def epsilons(texts: Iterable[object]) -> list[float]:
    """Numbers and logarithms: 0.5, ln2, ln(2)."""
    return [_epsilon(text) for text in items(texts)]


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
    for text in items(texts):
        match = re.fullmatch(r"([0-9]{1,9})(?:x(0*[1-9][0-9]{0,8}))?", text)
        if match is None:
            raise InputError(
                f"domain={text} must be domain sizes such as 10,10,20 or 10x5 (five attributes of 10 values)"
            )
        size, times = int(match[1]), int(match[2] or 1)
        if times > MAX_ATTRIBUTES:
            raise InputError(f"domain={text} has {times:,} attributes; valid: 1 to {MAX_ATTRIBUTES:,}")
        sizes += [size] * times
    return check_domain(sizes)


def show_epsilon(epsilon: float) -> str:
    """`ln 2` for logarithms of whole numbers, else the number."""
    power = round(math.exp(epsilon)) if epsilon < 10 else 0
    if power >= 2 and math.isclose(epsilon, math.log(power), rel_tol=1e-12):
        return f"ln {power}"
    return f"{epsilon:g}"
