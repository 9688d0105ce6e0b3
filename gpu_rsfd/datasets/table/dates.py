"""Dates among the values of a column, and their bins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from gpu_rsfd.errors import InputError

UNITS = ("year", "month")  # bins that are no number
DAY = 86_400  # seconds

_DATE = re.compile(
    r"(\d{1,4})([-./])(\d{1,2})\2(\d{1,4})(?:[T ](\d{1,2}):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?)?\s?(?:Z|UTC|[+-]\d\d:?\d\d)?"
)
_Parts = tuple[str, int, int, int, int, int, int]
T = TypeVar("T")


class Dates:
    """The dates that some texts are, as the clock reads; a zone or a fraction of a second is left out.

    `2024-03-31`, `2024/03/31`, `31.03.2024`, and with slashes or hyphens also `31/03/2024` or `03/31/2024`: whichever
    fits all of the texts.  If both do, `unclear` is one of the texts.
    """

    def __init__(self, moments: list[datetime], unclear: str | None) -> None:
        self.moments = moments
        self.unclear = unclear

    @classmethod
    def of(cls, texts: Sequence[str]) -> Dates | None:
        """None if any text is not a date, or there is none."""
        if not texts:
            return None
        moments = _all(map(_iso, texts))  # by far the fastest, and most dates are such
        if moments is not None:
            return cls(moments, None)
        parts = _all(map(_parts, texts))
        if parts is None:
            return None
        slashed = [i for i, (order, *_) in enumerate(parts) if order == "?"]
        orders = [order for order in ("dmy", "mdy") if all(_moment(parts[i], order) is not None for i in slashed)]
        moments = _all(_moment(part, orders[0]) for part in parts) if orders else None
        if moments is None:
            return None
        clear = len(orders) == 1 or all(parts[i][1] == parts[i][2] for i in slashed)  # 04/04/2024 is the same in both
        return cls(moments, None if clear else texts[slashed[0]])

    def seconds(self) -> list[int]:
        """Since the beginning of the year 1."""
        return [
            moment.toordinal() * DAY + moment.hour * 3600 + moment.minute * 60 + moment.second
            for moment in self.moments
        ]

    def units(self, unit: str) -> list[int]:
        """The number of each date's year, or month since the year 0."""
        return [m.year if unit == "year" else m.year * 12 + m.month - 1 for m in self.moments]

    def check_clear(self, column: str) -> None:
        if self.unclear is not None:
            raise InputError(
                f"bins of {column!r}: {self.unclear!r} can be read with the day or the month first; write dates "
                "such as 2024-03-31, or use bins by year"
            )


def _all(found: Iterable[T | None]) -> list[T] | None:
    """All of them, or None if one is None; those after it are not made."""
    made: list[T] = []
    for each in found:
        if each is None:
            return None
        made.append(each)
    return made


def _iso(text: str) -> datetime | None:
    """2024-03-31, with or without a time."""
    if len(text) < 10 or text[4] != "-" or text[7] != "-":
        return None
    try:
        return datetime.fromisoformat(text).replace(microsecond=0, tzinfo=None)
    except ValueError:
        return None


def _parts(text: str) -> _Parts | None:
    """(order, three numbers, hour, minute, second); the order is `?` if day and month could be exchanged."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    first, mark, second, third, *clock = match.groups()
    if (len(first) == 4) == (len(third) == 4) or 3 in (len(first), len(third)):
        return None  # no year of four digits, or two
    order = "ymd" if len(first) == 4 else "dmy" if mark == "." else "?"
    hour, minute, seconds = (int(part or 0) for part in clock)
    return order, int(first), int(second), int(third), hour, minute, seconds


def _moment(part: _Parts, unclear_order: str) -> datetime | None:
    order, first, second, third, hour, minute, seconds = part
    named = dict(zip(unclear_order if order == "?" else order, (first, second, third), strict=True))
    try:
        return datetime(named["y"], named["m"], named["d"], hour, minute, seconds)
    except ValueError:
        return None


def unit_label(unit: str, number: int) -> str:
    """`1987`, or `1987-03`."""
    return f"{number:04d}" if unit == "year" else f"{number // 12:04d}-{number % 12 + 1:02d}"


def moment_label(seconds: float) -> str:
    """A date, with the time of day unless it is midnight."""
    moment = datetime(1, 1, 1) + timedelta(seconds=seconds - DAY)
    return str(moment.date() if seconds % DAY == 0 else moment)
