"""The options of a table, each declared once.

Keyword arguments of `load_table` and `describe`, options of the command line, keys of a spec file, the description in a
results file and the table in the docs all come from `OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import Option, entries, read_list, read_text, split_list, unknown_name, with_keywords

MISSING_POLICIES = ("category", "drop", "error")
ORDERS = ("text", "natural")
DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}

# What an option is for: every table, tables of values (not of codes), or text files alone.
ANY, VALUES, TEXT = "any", "values", "text"


@dataclass(frozen=True)
class DataOption(Option):
    """An option of a table.

    Attributes
    ----------
    scope : str
        `ANY`, `VALUES` (not for files of codes) or `TEXT` (text files only).
    """

    scope: str = VALUES


def _read_bins(value: Any, names: Container[str]) -> dict[str, str]:
    """`age=10` texts, or a table of a spec file."""
    if isinstance(value, Mapping):
        return {str(column): str(bins) for column, bins in value.items()}
    texts = [str(text) for text in entries(value)]
    whole = [text for text in texts if text.rpartition("=")[0] in names]
    pairs = [text.rpartition("=") for text in split_list(texts, "bins", whole)]
    for column, _, bins in pairs:
        if not column or not bins:
            raise InputError(f"bins={column}{bins} must be COLUMN=NUMBER, such as age=10, or age=10q for quantiles")
    return {column: bins for column, _, bins in pairs}


def _check_names(name: str) -> Callable[[Any], list[str] | None]:
    """A name, or several."""

    def check(value: Any) -> list[str] | None:
        if value is None:
            return None
        if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
            raise InputError(f"{name}={value!r} must be a list of texts")
        return [value] if isinstance(value, str) else [str(entry) for entry in value]

    return check


def _check_bins(value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"bins={value!r} must map columns to numbers, such as {{'age': 10}}")
    return {str(column): bins for column, bins in (value or {}).items()}


def _check_one_of(name: str, known: Sequence[str]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in known:
            raise InputError(f"{name}={value!r} is unknown; available: {', '.join(known)}")
        return str(value)

    return check


def _check_share(value: Any) -> float | None:
    """0.005 or "0.5%"."""
    if value is None:
        return None
    text = str(value).strip()
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1 or isinstance(value, bool):
        raise InputError(
            f"group_rare={value!r} must be a share of the users above 0 and below 1, such as 0.5% or 0.005"
        )
    return share


def _check_path(value: Any) -> Path | None:
    return None if value is None else Path(value)


def _check_delimiter(value: Any) -> str | None:
    """One character, or its name."""
    if value is None:
        return None
    text = DELIMITER_NAMES.get(str(value).lower(), str(value))
    if len(text) != 1 or not text.isascii() or text.isalnum() or text in '"\r\n\0':
        raise InputError(
            f"delimiter={str(value)!r} must be one character such as ',', ';' or '|' (no letter, digit or "
            f"quotation mark), or one of {', '.join(name for name in DELIMITER_NAMES if name.isalpha())}"
        )
    return text


def _check_encoding(value: Any) -> str | None:
    if value is None:
        return None
    try:
        "x".encode(str(value))  # codecs that are no encodings of text, such as zip, refuse
    except (LookupError, ValueError):  # a NUL character in the name is a ValueError
        raise InputError(
            f"encoding={str(value)!r} is unknown; valid: a name that Python knows, such as latin-1, cp1252 or utf-16"
        ) from None
    return str(value)


OPTIONS = (
    DataOption(
        "columns",
        "LIST",
        "Columns of a file, in this order.",
        "sex,age",
        check=_check_names("columns"),
        read=read_list("columns"),
        many=True,
        default_text="all",
        scope=ANY,
        type_text="str or list of str, optional",
    ),
    DataOption(
        "exclude",
        "LIST",
        "Columns to leave out.",
        "id,comments",
        check=_check_names("exclude"),
        read=read_list("exclude"),
        many=True,
        scope=ANY,
        type_text="str or list of str, optional",
    ),
    DataOption(
        "bins",
        "LIST",
        "Bins of numbers or dates: equal width (10), quantiles (5q), or the year or month of a date.",
        "age=10,pay=5q,birth=year",
        check=_check_bins,
        read=_read_bins,
        many=True,
        type_text="mapping from column to int or str, optional",
    ),
    DataOption(
        "group_rare",
        "SHARE",
        "Merge values held by a smaller share of users into one value, other.",
        "0.5%",
        check=_check_share,
        read=read_text,
        type_text="float or str, optional",
    ),
    DataOption(
        "merge_spellings",
        "LIST",
        "Columns in which values that differ only in case or spaces are merged.",
        "sex,city",
        check=_check_names("merge_spellings"),
        read=read_list("merge-spellings"),
        many=True,
        type_text="str or list of str, optional",
    ),
    DataOption(
        "as_text",
        "LIST",
        "Columns to read as text even if values look like numbers: 0, A and AB, or 01234 and 1234.",
        "blood,zip",
        check=_check_names("as_text"),
        read=read_list("as-text"),
        many=True,
        type_text="str or list of str, optional",
    ),
    DataOption(
        "order",
        "NAME",
        "Order of text values: by characters (text), or with embedded numbers by size (natural).",
        "natural",
        check=_check_one_of("order", ORDERS),
        read=read_text,
        default="text",
        default_text="text",
        known=ORDERS,
        type_text="{'text', 'natural'}, optional",
    ),
    DataOption(
        "missing",
        "NAME",
        "Missing values: a category of their own (category), drop the user (drop) or refuse (error).",
        "drop",
        check=_check_one_of("missing", MISSING_POLICIES),
        read=read_text,
        default="category",
        default_text="category",
        known=MISSING_POLICIES,
        type_text="{'category', 'drop', 'error'}, optional",
    ),
    DataOption(
        "missing_values",
        "LIST",
        "Texts that mean missing, besides empty cells, ?, NA, N/A, n/a, NaN, nan, NULL and null in text files.",
        "-,n.a.,#N/A",
        check=_check_names("missing_values"),
        read=read_list("missing-values"),
        many=True,
        type_text="str or list of str, optional",
    ),
    DataOption(
        "domain_file",
        "FILE",
        "JSON or TOML file with the list of values of each column.",
        "domain.json",
        check=_check_path,
        read=read_text,
        type_text="path, optional",
    ),
    DataOption(
        "delimiter",
        "CHARACTER",
        "Delimiter of a text file: ;, tab or another character.",
        "';'",
        check=_check_delimiter,
        read=read_text,
        default_text="guessed",
        known=tuple(name for name in DELIMITER_NAMES if name.isalpha()),
        scope=TEXT,
    ),
    DataOption(
        "encoding",
        "NAME",
        "Encoding of a text file.",
        "latin-1",
        check=_check_encoding,
        read=read_text,
        default_text="UTF-8, or UTF-16 with its mark",
        scope=TEXT,
    ),
)
BY_NAME = {option.name: option for option in OPTIONS}


def check_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every option with its checked value; an unknown name is an error that suggests the nearest."""
    for name in given:
        if name not in BY_NAME:
            raise InputError(unknown_name(name, BY_NAME, where=" of a table"))
    return {option.name: option.check(given.get(option.name, option.default)) for option in OPTIONS}


def stored(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that change anything, as a results file keeps them: text, lists and tables of text."""
    found: dict[str, Any] = {}
    for option in OPTIONS:
        value: Any = given.get(option.name)
        if not option.given(value):
            continue
        if option.name == "domain_file":
            found[option.name] = Path(value).name
        elif isinstance(value, Mapping):
            found[option.name] = {str(column): str(entry) for column, entry in value.items()}
        elif option.many:
            found[option.name] = [value] if isinstance(value, str) else [str(entry) for entry in value]
        else:
            found[option.name] = str(value)
    return found


def command_words(loaded: Mapping[str, Any]) -> list[str]:
    """The words of a command line that give `stored` options."""
    return [word for option in OPTIONS if option.name in loaded for word in option.words(loaded[option.name])]


with_options = with_keywords(OPTIONS)
