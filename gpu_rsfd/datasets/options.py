"""The options of a table, each declared once.

Keyword arguments of `load_table` and `describe`, options of the command line, keys of a spec file, the description in a
results file and the table in the docs all come from `OPTIONS`.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gpu_rsfd.checks import integer
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import Option, entries, one_of, read_list, read_whole, split_list, unknown_name, with_keywords

MISSING_POLICIES = ("category", "drop", "error")
MAX_BYTES = 8 << 30

OF_TEXT_FILES = ("delimiter", "decimal", "encoding")  # no other table has a use for these


def _read_bins(value: Any, names: object = ()) -> dict[str, Any]:
    """`age=10` texts, or a table of a spec file."""
    if isinstance(value, Mapping):
        return dict(value)
    pairs = [text.rpartition("=") for text in split_list(entries(value), "bins")]
    for column, _, bins in pairs:
        if not column or not bins:
            raise InputError(f"bins={column}{bins} must be COLUMN=BINS, such as age=10, age=10q or age=0:18:65:120")
    return {column: bins for column, _, bins in pairs}


def _check_bins(value: Any) -> dict[str, str]:
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"bins={value!r} must map columns to bins, such as {{'age': 10}}")
    return {str(column): _bins_text(bins) for column, bins in (value or {}).items()}


def _bins_text(bins: Any) -> str:
    single = isinstance(bins, str) or not isinstance(bins, Iterable)
    return str(bins) if single else ":".join(map(str, bins))


def _check_texts(name: str) -> Callable[[Any], list[str] | None]:
    """A text, or several."""

    def check(value: Any) -> list[str] | None:
        if value is None:
            return None
        if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
            raise InputError(f"{name}={value!r} must be a list of texts")
        return [value] if isinstance(value, str) else [str(entry) for entry in value]

    return check


def _check_rounds(value: Any) -> dict[str, str]:
    """`hours=h_*`, or `h_*`, whose attribute is called h."""
    given = [f"{name}={pattern}" for name, pattern in value.items()] if isinstance(value, Mapping) else value
    pairs = [text.rpartition("=") for text in _check_texts("rounds_in")(given) or ()]
    found = {name or re.sub(r"[\W_]+", " ", pattern).strip() or pattern: pattern for name, _, pattern in pairs}
    if len(found) < len(pairs):
        raise InputError(f"rounds_in={','.join(map(''.join, pairs))} must give each attribute a name of its own")
    return found


def _check_share(value: Any) -> float | None:
    """0.005 or "0.5%"."""
    text = str(value).strip()
    with contextlib.suppress(ValueError):
        share = None if value is None else float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        if share is None or 0 < share < 1:
            return share
    raise InputError(f"group_rare={value!r} must be a share above 0 and below 1, such as 0.5% or 0.005")


def _check_delimiter(value: Any) -> str | None:
    text = None if value is None else "\t" if value == "tab" else str(value)
    if text is not None and (len(text) != 1 or not text.isascii() or text.isalnum() or text in '"\r\n\0'):
        raise InputError(f"delimiter={text!r} must be one character such as ',', ';' or '|', no letter, or tab")
    return text


def _check_encoding(value: Any) -> str:
    try:
        "x".encode(str(value))  # codecs that are no encodings of text, such as zip, refuse
    except (LookupError, ValueError):  # a NUL character in the name is a ValueError
        raise InputError(f"encoding={str(value)!r} is unknown; valid: latin-1, cp1252, utf-16 or the like") from None
    return str(value).lower()


OPTIONS = (
    Option("columns", "LIST", "Columns of a table, in this order.", "sex,age", check=_check_texts("columns"),
           read=read_list("columns"), many=True, default_text="all",
           type_text="str or list of str, optional"),
    Option("exclude", "LIST", "Columns to leave out.", "id,comments", check=_check_texts("exclude"),
           read=read_list("exclude"), many=True, type_text="str or list of str, optional"),
    Option("bins", "LIST", "Bins of numbers: equal width (10), quantiles (5q), or their edges (0:18:65:120).",
           "age=10,pay=5q", check=_check_bins, read=_read_bins, many=True,
           type_text="mapping from column to int, str or list of edges, optional"),
    Option("group_rare", "SHARE", "Merge values held by a smaller share of users into one value, other.", "0.5%",
           check=_check_share, type_text="float or str, optional"),
    Option("missing", "NAME",
           "Missing values: a category of their own (category), drop the user (drop) or refuse (error).", "drop",
           check=one_of("missing", MISSING_POLICIES), default="category", default_text="category",
           known=MISSING_POLICIES, type_text="{'category', 'drop', 'error'}, optional"),
    Option("missing_values", "LIST",
           "Texts that mean missing, in every column or in one (rhesus=-), besides nulls, and in text files empty "
           "cells, ?, NA, N/A, n/a, NaN, nan, NULL and null.", "n.a.,rhesus=-",
           check=_check_texts("missing_values"), read=read_list("missing-values"), many=True,
           type_text="str or list of str, optional"),
    Option("domain_file", "FILE", "JSON or TOML file with the list of values of each column.", "domain.json",
           check=lambda value: None if value is None else Path(value), type_text="path, optional"),
    Option("delimiter", "CHARACTER", "Delimiter of a text file: ;, tab or another character.", "';'",
           check=_check_delimiter, default_text="guessed", known=("tab",)),
    Option("decimal", "CHARACTER", "Decimal mark of the numbers in a text file: . or a comma.", ",",
           check=one_of("decimal mark", (".", ",")), default=".", default_text=".", known=(".", ",")),
    Option("encoding", "NAME", "Encoding of a text file.", "latin-1", check=_check_encoding, default="utf-8",
           default_text="utf-8"),
    Option("rounds_in", "LIST", "Columns that hold an attribute in one round each, in the order of the rounds.",
           "'hours=h_*,mood=m_*'", check=_check_rounds, read=read_list("rounds-in"), many=True,
           type_text="str, list of str or mapping from attribute to pattern, optional"),
    Option("missing_rounds", "NAME", "A value missing in a round: refuse, or take that of the round before (last).",
           "last", check=one_of("missing_rounds", ("refuse", "last")), default="refuse", default_text="refuse",
           known=("refuse", "last"), type_text="{'refuse', 'last'}, optional"),
    Option("keep_identifiers", "LIST", "Columns to use although they look like identifiers or free text.", "postcode",
           check=_check_texts("keep_identifiers"), read=read_list("keep-identifiers"), many=True,
           type_text="str or list of str, optional"),
    Option("min_count", "N", "Show no number of a value that fewer users hold.", "5", read=read_whole("min-count"),
           check=lambda value: integer("min_count", value, 0, 2**62), default=10, default_text="10",
           type_text="int, optional"),
    Option("max_bytes", "N", "Refuse a file with more bytes, unpacked.", "2e10", read=read_whole("max-bytes"),
           check=lambda value: integer("max_bytes", value, 1, 2**62), default=MAX_BYTES, default_text="8 GiB",
           type_text="int, optional"),
)  # fmt: skip
BY_NAME = {option.name: option for option in OPTIONS}


def check_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every option with its checked value; an unknown name is an error that suggests the nearest."""
    for name in given:
        if name not in BY_NAME:
            raise InputError(unknown_name(name, BY_NAME, where=" of a table"))
    return {
        option.name: option.check(option.default if given.get(option.name) is None else given[option.name])
        for option in OPTIONS
    }


def parse_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of `load_table` from the options of a command line or a spec file, by keys (`domain-file`)."""
    return {o.name: o.read(given[o.key], ()) for o in OPTIONS if given.get(o.key) not in (None, [])}


def stored(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that change anything, as a results file keeps them: text, lists and tables of text."""
    found: dict[str, Any] = {}
    for option in OPTIONS:
        value = given.get(option.name)
        if option.given(value):
            file = option.name == "domain_file"
            found[option.name] = option.check(value) if option.many else Path(str(value)).name if file else str(value)
    return found


def command_words(loaded: Mapping[str, Any]) -> list[str]:
    """The words of a command line that give `stored` options."""
    return [word for option in OPTIONS if option.name in loaded for word in option.words(loaded[option.name])]


def spelled(**given: Any) -> str:
    """Options as they are written on the command line."""
    return shlex.join(command_words(stored(given)))


with_options = with_keywords(OPTIONS)
