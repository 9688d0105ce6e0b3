"""From a column of values to codes and labels: domains, bins, missing values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import MAX_DOMAIN, MIN_DOMAIN
from gpu_rsfd.errors import InputError

MISSING_LABEL = "(missing)"
MISSING = -1  # the place of a missing value

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Column:
    """One column, dictionary-encoded: row i holds `values[places[i]]`, or nothing if places[i] is -1.

    `strict` columns come from untyped text, so that numbers and text in one column are a likely mistake.
    """

    name: str
    places: Places
    values: list[str]
    strict: bool = False
    rows: Places | None = None  # where each place was in the file, if rows were dropped
    decimal_comma: bool = False  # 12,5 is a number

    @property
    def missing(self) -> int:
        return int(np.count_nonzero(self.places == MISSING))

    def row_of(self, place: int) -> int:
        """The first row, counted from 1 without the header, that holds a value."""
        row = int(np.argmax(self.places == place))
        return (row if self.rows is None else int(self.rows[row])) + 1

    def number(self, place: int) -> float | None:
        """The number that a value is, if it is one."""
        return as_number(self._dotted(place))

    def exact(self, place: int) -> Decimal | float | None:
        """The same without rounding: equal if and only if two values are the same number."""
        return exact_number(self._dotted(place))

    def _dotted(self, place: int) -> str:
        return self.values[place].replace(",", ".") if self.decimal_comma else self.values[place]

    def only(self, rows: Places) -> Column:
        """The column with these rows alone."""
        return replace(self, places=self.places[rows], rows=rows)

    def present(self) -> npt.NDArray[np.int64]:
        """The places in use: not all of them, once rows were dropped."""
        held = self.places[self.places != MISSING]
        return np.flatnonzero(np.bincount(held, minlength=len(self.values)))


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


def _finish(column: Column, code_of_place: npt.NDArray[np.int64], labels: list[str]) -> Encoded:
    """Codes of all rows; missing values, if any, become the last category."""
    if column.missing:
        label = MISSING_LABEL
        while label in labels:
            label = f"({label})"
        code_of_place, labels = np.append(code_of_place, len(labels)), [*labels, label]  # place -1 is the last
    if len(labels) < MIN_DOMAIN:
        raise InputError(
            f"column {column.name!r} has one value only, {labels[0]!r}; an attribute needs at least {MIN_DOMAIN}: "
            "leave the column out, or list its values in a domain file"
        )
    if len(labels) > MAX_DOMAIN:
        raise InputError(_too_many(column, len(labels)))
    return Encoded(code_of_place[column.places], labels)


def _too_many(column: Column, count: int) -> str:
    return (
        f"column {column.name!r} has {count:,} values; at most {MAX_DOMAIN:,} are valid: leave it out, or put its "
        "numbers into bins"
    )


def encode_values(column: Column) -> Encoded:
    """The domain is what the data hold: numbers in their order, else text in its own.

    In a column of untyped text that is all numbers, spellings of the same number are one value.
    """
    present = column.present().tolist()
    if not present:
        raise InputError(f"column {column.name!r} has no values; all {len(column.places):,} are missing")
    numbers = {place: column.number(place) for place in present}
    text = [place for place, number in numbers.items() if number is None]
    if column.strict and 0 < len(text) < len(present):
        if len(present) > MAX_DOMAIN:
            raise InputError(_too_many(column, len(present)))
        number = next(place for place in present if numbers[place] is not None)
        word, digits = (f"{column.values[place]!r} (row {column.row_of(place):,})" for place in (text[0], number))
        raise InputError(
            f"column {column.name!r} mixes numbers and text: {word} beside {digits}; if both are meant, list "
            "its values in a domain file"
        )
    if text:
        groups = [[place] for place in sorted(present, key=lambda place: column.values[place])]
    elif column.strict:
        same: dict[Any, list[int]] = {}
        for place in present:
            same.setdefault(column.exact(place), []).append(place)
        groups = [same[number] for number in sorted(same)]
    else:
        groups = [[place] for place in sorted(present, key=lambda place: (numbers[place], column.values[place]))]
    if len(groups) > MAX_DOMAIN:
        raise InputError(_too_many(column, len(groups)))
    code_of_place = np.zeros(len(column.values), np.int64)
    for code, places in enumerate(groups):
        code_of_place[places] = code
    return _finish(column, code_of_place, [plainest([column.values[p] for p in places]) for places in groups])


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
    for place in column.present().tolist():
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


def parse_bins(name: str, bins: Any) -> tuple[int, bool]:
    """(number of bins, whether they are quantiles): `10` is equal width, `10q` quantiles."""
    match = re.fullmatch(r"(\d{1,6})(q?)", str(bins).strip()) if not isinstance(bins, bool) else None
    if match is None or not MIN_DOMAIN <= int(match[1]) <= MAX_DOMAIN:
        raise InputError(
            f"bins of {name!r}={str(bins)!r} must be a number from {MIN_DOMAIN} to {MAX_DOMAIN:,}, such as 10 (equal "
            "width), or with a q, such as 10q (quantiles)"
        )
    return int(match[1]), bool(match[2])


def encode_bins(column: Column, bins: Any) -> Encoded:
    """Numbers in intervals [low, high), the last one closed, of equal width or with about equally many users."""
    count, quantiles = parse_bins(column.name, bins)
    present = column.present().tolist()
    numbers = np.full(len(column.values), np.nan)
    for place in present:
        number = column.number(place)
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
    edges = np.quantile(held, np.linspace(0, 1, count + 1)) if quantiles else np.linspace(low, high, count + 1)
    inner = np.unique(edges[1:-1])
    inner = inner[inner > low]  # values that many users share can swallow a quantile: fewer bins, none without a user
    if not len(inner):
        inner = np.array([np.min(held[held > low])])
    labels = interval_labels([low, *inner.tolist(), high])
    code_of_place = np.searchsorted(inner, numbers, side="right").astype(np.int64)  # NaN is no place in use
    return _finish(column, code_of_place, labels)


def interval_labels(edges: list[float]) -> list[str]:
    """`[17, 24.3)` … `[82.7, 90]`, with as many digits as it takes to tell the edges apart."""
    for digits in (6, 9, 12, 17):
        text = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(text[:-1])) == len(edges) - 1 and (text[-1] != text[-2] or edges[-1] == edges[-2]):
            break
    labels = [f"[{a}, {b})" for a, b in pairwise(text)]
    labels[-1] = labels[-1][:-1] + "]"
    return labels
