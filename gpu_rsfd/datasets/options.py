"""The options of a table, each declared once.

Keyword arguments of `load_table` and `describe`, options of the command line, keys of a spec file, the description in a
results file and the table in the docs all come from `OPTIONS`.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import Option, choice, entries, read_list, split_list, unknown_name, whole_number, with_keywords

OF_TEXT_FILES = ("delimiter", "decimal", "encoding")  # no other table has a use for these


def _or_table(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, where a spec file may have a table, too."""
    return lambda value: dict(value) if isinstance(value, Mapping) else read(value)


def _read_bins(value: Any) -> dict[str, Any]:
    """`age=10` texts."""
    pairs = [text.rpartition("=") for text in split_list(entries(value), "bins")]
    for column, _, bins in pairs:
        if not column or not bins:
            raise InputError(f"bins={column}{bins} must be COLUMN=BINS, such as age=10, age=10q or age=0:18:65:120")
    return {column: bins for column, _, bins in pairs}


def _check_bins(value: Any) -> dict[str, str]:
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"bins={value!r} must map columns to bins, such as {{'age': 10}}")
    return {str(column): ":".join(map(str, entries(bins))) for column, bins in (value or {}).items()}


def _check_texts(name: str, value: Any) -> list[str] | None:
    """A text, or several."""
    if value is None:
        return None
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise InputError(f"{name}={value!r} must be a list of texts")
    return [value] if isinstance(value, str) else [str(entry) for entry in value]


def _texts(name: str) -> dict[str, Any]:
    """What an option says that is a list of texts."""
    read, check = read_list(name.replace("_", "-")), partial(_check_texts, name)
    return {"read": read, "check": check, "many": True, "type_text": "str or list of str, optional"}


def _check_rounds(value: Any) -> dict[str, str]:
    """`hours=h_*`, or `h_*`, whose attribute is called h; a text can hold several."""
    given = [f"{x}={str(at).replace('=', '?')}" for x, at in value.items()] if isinstance(value, Mapping) else value
    texts = split_list([given], "rounds_in") if isinstance(given, str) else _check_texts("rounds_in", given) or ()
    pairs = [text.rpartition("=") for text in texts]
    found = {name or re.sub(r"[\W_]*[*?[\]]+[\W_]*", " ", at).strip() or "value": at for name, _, at in pairs}
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
    Option("columns", "LIST", "Columns of a table, in this order.", "sex,age", default_text="all", **_texts("columns")),
    Option("exclude", "LIST", "Columns to leave out.", "id,comments", **_texts("exclude")),
    Option("bins", "LIST", "Bins of numbers: equal width (10), quantiles (5q), or their edges (0:18:65:120).",
           "age=10,pay=5q", check=_check_bins, read=_or_table(_read_bins), many=True,
           type_text="mapping from column to int, str or list of edges, optional"),
    Option("group_rare", "SHARE", "Merge values held by a smaller share of users into one value, other.", "0.5%",
           check=_check_share, type_text="float or str, optional"),
    Option("missing", "NAME",
           "Missing values: a category of their own (category), drop the user (drop) or refuse (error).", "drop",
           default="category", default_text="category", **choice("missing", ("category", "drop", "error"))),
    Option("missing_values", "LIST",
           "Texts that mean missing, in every column or in one (rhesus=-), besides nulls, and in text files empty "
           "cells, ?, NA, N/A, n/a, NaN, nan, NULL and null.", "n.a.,rhesus=-", **_texts("missing_values")),
    Option("domain_file", "FILE", "JSON or TOML file with the list of values of each column.", "domain.json",
           check=lambda value: None if value is None else Path(value), type_text="path, optional"),
    Option("delimiter", "CHARACTER", "Delimiter of a text file: a semicolon, tab or another character.", "';'",
           check=_check_delimiter, default_text="guessed", known=("tab",)),
    Option("decimal", "CHARACTER", "Decimal mark of the numbers in a text file: a point or a comma.", ",",
           default=".", default_text="a point", **choice("decimal mark", (".", ","))),
    Option("encoding", "NAME", "Encoding of a text file.", "latin-1", check=_check_encoding, default="utf-8",
           default_text="utf-8"),
    Option("rounds_in", "LIST", "Columns that hold an attribute in one round each, in the order of the rounds.",
           "'hours=h_*,mood=m_*'", check=_check_rounds, read=_or_table(read_list("rounds-in")), many=True,
           type_text="str, list of str or mapping from attribute to pattern, optional"),
    Option("missing_rounds", "NAME", "A value missing in a round: refuse, or take that of the round before (last).",
           "last", default="refuse", default_text="refuse", **choice("missing_rounds", ("refuse", "last"))),
    Option("keep_identifiers", "LIST", "Columns to use although they look like identifiers or free text.", "postcode",
           **_texts("keep_identifiers")),
    Option("min_count", "N", "Show no number of a value that fewer users hold.", "5", default=10, default_text="10",
           **whole_number("min_count", 0, 2**62)),
    Option("max_bytes", "N", "Refuse a file with more bytes, unpacked.", "2e10", default=8 << 30, default_text="8 GiB",
           **whole_number("max_bytes", 1, 2**62)),
)  # fmt: skip
BY_NAME = {option.name: option for option in OPTIONS}


def check_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every option with its checked value; an unknown name is an error that suggests the nearest."""
    for name in given:
        if name not in BY_NAME:
            raise InputError(unknown_name(name, BY_NAME, where=" of a table"))
    checked = {o.name: o.check(o.default if given.get(o.name) is None else given[o.name]) for o in OPTIONS}
    if checked["missing_rounds"] == "last" and not checked["rounds_in"]:
        raise InputError("missing_rounds=last needs rounds_in")
    return checked


def parse_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of `load_table` from the options of a command line or a spec file, by keys (`domain-file`)."""
    return {o.name: o.read(given[o.key]) for o in OPTIONS if given.get(o.key) not in (None, [])}


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
