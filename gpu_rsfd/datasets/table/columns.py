"""From a column of values to codes and labels: domains, bins, missing values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import MAX_DOMAIN, MIN_DOMAIN
from gpu_rsfd.datasets.table.dates import DAY, UNITS, Dates, moment_label, unit_label
from gpu_rsfd.errors import InputError

MISSING_LABEL = "(missing)"
OTHER_LABEL = "other"  # of rare values
# Values that often mean missing, in lower case; they stay values until told otherwise.
LIKE_MISSING = frozenset({
    "-", "--", "---", ".", "..", "?", "na", "n/a", "n.a.", "n.a", "#n/a", "#na", "#null!", "#ref!", "#value!",
    "#div/0!", "none", "nan", "nat", "nil", "null", "(null)", "<na>", "<null>", "(blank)", "missing", "k.a.",
})  # fmt: skip
MISSING = -1  # the place of a missing value

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Column:
    """One column, dictionary-encoded: row i holds `values[places[i]]`, or nothing if places[i] is -1."""

    name: str
    places: Places
    values: list[str]
    rows: Places | None = None  # where each place was in the file, if rows were dropped
    declared: str = ""  # the kind of a typed column: number, text, date or true/false
    as_text: bool = False  # numbers and dates are texts like any other
    decimal_comma: bool = False  # 12,5 is a number

    @property
    def strict(self) -> bool:
        """Whether it comes from untyped text, so that numbers beside text are a likely mistake."""
        return not self.declared

    @property
    def missing(self) -> int:
        return int(np.count_nonzero(self.places == MISSING))

    def row_of(self, place: int) -> int:
        """The first row, counted from 1 without the header, that holds a value."""
        row = int(np.argmax(self.places == place))
        return (row if self.rows is None else int(self.rows[row])) + 1

    @cached_property
    def numbers(self) -> list[float | None]:
        """The number that each value is, if it is one."""
        if self.as_text:
            return [None] * len(self.values)
        values = [value.replace(",", ".") for value in self.values] if self.decimal_comma else self.values
        return [as_number(value) for value in values]

    def exact(self, place: int) -> Any:
        """The same without rounding: equal if and only if two values are the same number."""
        return exact_number(self.values[place].replace(",", ".") if self.decimal_comma else self.values[place])

    def only(self, rows: Places) -> Column:
        """The column with these rows alone."""
        return replace(self, places=self.places[rows], rows=rows)

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many rows hold each value."""
        return np.bincount(self.places[self.places != MISSING], minlength=len(self.values))

    @cached_property
    def present(self) -> list[int]:
        """The places in use: not all of them, once rows were dropped."""
        return np.flatnonzero(self.counts).tolist()

    @cached_property
    def dates(self) -> Dates | None:
        """The dates that the values in use are, if all of them are."""
        if self.as_text or not self.present or self.numbers[self.present[0]] is not None:
            return None
        return Dates.of([self.values[place] for place in self.present])


class Encoded(NamedTuple):
    codes: npt.NDArray[np.int64]
    labels: list[str]


def as_number(text: str) -> float | None:
    """The number that a text is, if it is one; not a number is none."""
    try:
        number = float(text) if "_" not in text else math.nan
    except ValueError:
        return None
    return None if math.isnan(number) else number


def exact_number(text: str) -> Decimal | float | None:
    """The number that a text is, without rounding: long identifiers must not become equal."""
    number = as_number(text)
    try:
        return Decimal(text) if number is not None and math.isfinite(number) else number
    except InvalidOperation:  # an exponent beyond all bounds
        return number


def are_decimal_commas(values: list[str]) -> bool:
    """Whether a column is numbers with decimal commas: 12,5.  If all commas could be thousands', 1,250, it is not."""
    matches = [re.fullmatch(r"[+-]?\d+(?:,(\d+))?", value) for value in values]
    decimals = [match[1] for match in matches if match is not None and match[1]]
    return None not in matches and any(len(part) != 3 for part in decimals)


def plainest(spellings: list[str]) -> str:
    """`1` of 1, 1.0, 01, +1 and 1e0."""
    return min(spellings, key=lambda s: ("e" in s.lower(), re.match(r"\+|-?0\d", s) is not None, len(s), s))


def folded(text: str) -> str:
    """What spellings that differ by case or spaces only have in common."""
    return " ".join(text.casefold().split())


def natural_key(text: str) -> tuple[list[tuple[bool, int, str]], str]:
    """Sorts numbers within texts by size: Station 2, Station 10.  Texts that differ only in zeros keep their order."""
    parts = re.split(r"([0-9]+)", text)
    return [(bool(i % 2), int(part) if i % 2 else 0, "" if i % 2 else part) for i, part in enumerate(parts)], text


def _unused(label: str, labels: Sequence[str]) -> str:
    while label in labels:
        label = f"({label})"
    return label


def _finish(column: Column, code_of_place: npt.NDArray[np.int64], labels: list[str]) -> Encoded:
    """Codes of all rows; missing values, if any, become the last category."""
    if column.missing:
        label = _unused(MISSING_LABEL, labels)
        code_of_place, labels = np.append(code_of_place, len(labels)), [*labels, label]  # place -1 is the last
    if len(labels) < MIN_DOMAIN:
        raise InputError(
            f"column {column.name!r} has one value only, {labels[0]!r}; an attribute needs at least {MIN_DOMAIN}: "
            f"leave the column out (exclude={column.name}), or list its values in a domain file"
        )
    if len(labels) > MAX_DOMAIN:
        raise InputError(_too_many(column, len(labels)))
    return Encoded(code_of_place[column.places], labels)


def _too_many(column: Column, count: int) -> str:
    return (
        f"column {column.name!r} has {count:,} values; at most {MAX_DOMAIN:,} are valid: leave it out, or put its "
        f"numbers into bins (exclude={column.name}, bins={column.name}=10, or group_rare=0.5%)"
    )


def encode_values(column: Column, *, natural: bool = False, merge: bool = False, rare: float | None = None) -> Encoded:
    """The domain is what the data hold: numbers in their order, else text in its own.

    In a column of untyped text that is all numbers, spellings of the same number are one value.  `natural`: numbers
    within texts are sorted by size.  `merge`: texts that differ by case or spaces only are one value.  `rare`: values
    of fewer than this share of the rows become one value, if there are two or more of them.
    """
    present = column.present
    if not present:
        raise InputError(
            f"column {column.name!r} has no values; all {len(column.places):,} are missing: leave it "
            f"out (exclude={column.name})"
        )
    numbers = column.numbers
    text = [place for place in present if numbers[place] is None]
    if column.strict and 0 < len(text) < len(present):
        too_many = len(present) > MAX_DOMAIN
        raise InputError(_too_many(column, len(present)) if too_many else _mixed(column, present, text))
    if rare is None and not (text and merge):  # said at once: to sort and to compare millions of values takes long
        least = len({numbers[place] for place in present}) if column.strict and not text else len(present)
        if least > MAX_DOMAIN:
            raise InputError(_too_many(column, least))
    values, order = column.values, natural_key if natural else str
    same: Callable[[int], Any] = int  # what places of one value have in common
    if text:
        ordered = sorted(present, key=lambda place: order(values[place]))
        same = (lambda place: folded(values[place])) if merge else same
    elif column.strict:
        same = column.exact
        ordered = sorted(present, key=same)
    else:
        ordered = sorted(present, key=lambda place: (numbers[place], values[place]))
    found: dict[Any, list[int]] = {}
    for place in ordered:
        found.setdefault(same(place), []).append(place)
    groups, counts, grouped = list(found.values()), column.counts.tolist(), []
    if rare is not None:
        few = [places for places in groups if sum(counts[place] for place in places) < rare * len(column.places)]
        if len(few) == len(groups):
            raise InputError(
                f"column {column.name!r}: each of its {len(groups):,} values is rarer than group_rare={rare:g}; leave "
                f"it out (exclude={column.name}), or choose a smaller share"
            )
        if len(few) > 1:
            grouped = [place for places in few for place in places]
            out = set(grouped)
            groups = [places for places in groups if places[0] not in out]
    if text and merge:  # the commonest spelling
        labels = [values[max(places, key=lambda place: (counts[place], -place))] for places in groups]
    else:
        labels = [plainest([values[place] for place in places]) for places in groups]
    if grouped:
        groups.append(grouped)
        labels.append(_unused(OTHER_LABEL, labels))
    code_of_place = np.zeros(len(values), np.int64)
    for code, places in enumerate(groups):
        code_of_place[places] = code
    return _finish(column, code_of_place, labels)


def _mixed(column: Column, present: list[int], text: list[int]) -> str:
    number = next(place for place in present if column.numbers[place] is not None)
    word, digits = (f"{column.values[place]!r} (row {column.row_of(place):,})" for place in (text[0], number))
    mixes = f"column {column.name!r} mixes numbers and text: {word} beside {digits}"
    words = [column.values[place] for place in text]
    if all(word.casefold() in LIKE_MISSING for word in words):
        return f"{mixes}; if it is missing there: missing_values={','.join(words)}"
    return f"{mixes}; if both are meant, list it in as_text (as_text={column.name}), or its values in a domain file"


def domain_text(value: object, where: str) -> str:
    """A value of a domain file as a label."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        raise InputError(f"{where} holds {value!r}; values are text, numbers, true and false")
    return str(value)


def encode_domain(column: Column, domain: list[str], where: str) -> Encoded:
    """The domain is given: values that nobody holds are allowed, values outside it are not."""
    code = {value: i for i, value in enumerate(domain)}
    if len(code) < len(domain):
        twice = next(value for i, value in enumerate(domain) if value in domain[:i])
        raise InputError(f"{where}: column {column.name!r} has the value {twice!r} twice")
    by_number: dict[Any, int | None] = {}
    for i, value in enumerate(domain):
        exact = exact_number(value)
        by_number[exact] = None if exact is None or exact in by_number else i  # 007 beside 7: spelling decides
    code_of_place = np.zeros(len(column.values), np.int64)
    for place in column.present:
        value = column.values[place]
        found = code.get(value, by_number.get(column.exact(place)))
        if found is None:
            raise InputError(
                f"column {column.name!r} holds {value!r} (row {column.row_of(place):,}), which is not in its domain in "
                f"{where}: {shorten(domain)}"
            )
        code_of_place[place] = found
    return _finish(column, code_of_place, list(domain))


def shorten(values: Sequence[str]) -> str:
    """The first twenty of some values or names, in one line."""
    shown = ", ".join(value if value.isprintable() else repr(value) for value in values[:20])
    return shown + (f", … ({len(values):,} in all)" if len(values) > 20 else "")


def parse_bins(name: str, bins: Any) -> tuple[int, str]:
    """(number of bins, what they are): `10` is equal width, `10q` quantiles, `year` and `month` have no number."""
    text = str(bins).strip()
    if text in UNITS:
        return 0, text
    match = re.fullmatch(r"(\d{1,6})(q?)", text) if not isinstance(bins, bool) else None
    if match is None or not MIN_DOMAIN <= int(match[1]) <= MAX_DOMAIN:
        raise InputError(
            f"bins of {name!r}={str(bins)!r} must be a number from {MIN_DOMAIN} to {MAX_DOMAIN:,}, such as 10 (equal "
            "width), or with a q, such as 10q (quantiles), or for dates year or month"
        )
    return int(match[1]), "quantiles" if match[2] else "width"


def encode_bins(column: Column, bins: Any) -> Encoded:
    """Numbers or dates in intervals [low, high), the last one closed, of equal width or with about equally many users.

    Dates also by year or month: all from the first to the last, whether or not a user holds them.
    """
    count, what = parse_bins(column.name, bins)
    present = column.present
    numbers = np.full(len(column.values), np.nan)
    dates = column.dates
    if what in UNITS:
        return _by_unit(column, dates, present, what)
    if dates is not None:
        dates.check_clear(column.name)
        numbers[present] = dates.seconds()
    else:
        for place in present:
            number = column.numbers[place]
            if number is None or not math.isfinite(number):
                raise InputError(
                    f"bins of {column.name!r} need numbers, but the column holds {column.values[place]!r} "
                    f"(row {column.row_of(place):,})"
                )
            numbers[place] = number
    held = numbers[column.places[column.places != MISSING]]
    if len(present) == 0 or held.min() == held.max():
        raise InputError(f"bins of {column.name!r} need at least 2 different numbers; the column has {len(present)}")
    low, high = float(held.min()), float(held.max())
    if what == "quantiles":
        edges = np.quantile(held, np.linspace(0, 1, count + 1))
    else:
        edges = np.linspace(low, high, count + 1)
    step = DAY if high - low >= count * DAY else 1  # of dates: whole days, or seconds if there are not enough days
    if dates is not None:
        edges = np.floor(edges / step) * step
    inner = np.unique(edges[1:-1])
    inner = inner[inner > low]  # values that many users share can swallow a quantile: fewer bins, none without a user
    if not len(inner):
        inner = np.array([np.min(held[held > low])])
    borders = [low, *inner.tolist(), high]
    if dates is None:
        labels = interval_labels(borders)
    else:
        labels = _closed([moment_label(border // step * step) for border in borders])
    code_of_place = np.searchsorted(inner, numbers, side="right").astype(np.int64)  # NaN is no place in use
    return _finish(column, code_of_place, labels)


def _by_unit(column: Column, dates: Dates | None, present: list[int], unit: str) -> Encoded:
    if dates is None:
        what = "puts the day or the month first" if present else "has no values"
        for place in present:
            if Dates.of([column.values[place]]) is None:
                what = f"holds {column.values[place]!r} (row {column.row_of(place):,})"
                break
        raise InputError(f"bins of {column.name!r}={unit} need dates such as 2024-03-31, but the column {what}")
    if unit != "year":
        dates.check_clear(column.name)
    numbers = np.array(dates.units(unit))
    first, last = int(numbers.min()), int(numbers.max())
    code_of_place = np.zeros(len(column.values), np.int64)
    code_of_place[present] = numbers - first
    return _finish(column, code_of_place, [unit_label(unit, number) for number in range(first, last + 1)])


def interval_labels(edges: list[float]) -> list[str]:
    """`[17, 24.3)` … `[82.7, 90]`, with as many digits as it takes to tell the edges apart."""
    for digits in (6, 9, 12, 17):
        text = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(text[:-1])) == len(edges) - 1 and (text[-1] != text[-2] or edges[-1] == edges[-2]):
            break
    return _closed(text)


def _closed(text: list[str]) -> list[str]:
    """Intervals between texts, the last one closed."""
    labels = [f"[{a}, {b})" for a, b in pairwise(text)]
    labels[-1] = labels[-1][:-1] + "]"
    return labels
