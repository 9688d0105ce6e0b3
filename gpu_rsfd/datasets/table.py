"""Your own data: a table in a file or in memory becomes a report of what is in it, and a data set.

A table is opened (what columns there are), the chosen columns are read (row i holds `values[places[i]]`), and each is
encoded (codes and labels).  What is wrong with columns is collected on the way, and told at once.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import math
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import MAX_ATTRIBUTES, MAX_DOMAIN, MIN_DOMAIN
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.options import OPTIONS, TEXT, check_options, with_options
from gpu_rsfd.errors import InputError
from gpu_rsfd.textfiles import toml_loads

OF_TEXT, OF_JSON = (".csv", ".tsv", ".txt"), (".jsonl", ".ndjson")
DELIMITERS = (",", ";", "\t", "|")  # those that are guessed
SAMPLE = 101  # records that a guessed delimiter must fit
BLOCK_BYTES = 1 << 26  # of a text file, parsed at a time: no row may be longer
CELL_BYTES = 8  # of a column that has been read

MISSING = -1  # the place of a missing value
MISSING_TEXT = frozenset({"", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null"})  # in a text file
MISSING_LABEL, OTHER_LABEL = "(missing)", "other"

COMMONEST, SHOWN_COLUMNS, WIDTH = 3, 40, 24  # of a report: values of a column, columns, characters of a name or value

Places = npt.NDArray[np.int64]
Encoded = tuple[Places, list[str]]  # codes and labels


# Columns: from values to codes and labels


@dataclass(frozen=True)
class Column:
    """One column, dictionary-encoded: row i holds `values[places[i]]`, or nothing if places[i] is -1."""

    name: str
    places: Places
    values: list[Any]  # texts; None for missing ones, until `_settled`
    declared: str = ""  # the kind of a typed column: number, text, date or true/false
    decimal: str = "."  # the mark in numbers
    rows: Places | None = None  # where each place was in the file, if rows were dropped

    def shown(self, place: int) -> str:
        """A value and the first row, counted from 1 without the header, that holds it."""
        row = int(np.argmax(self.places == place))
        return f"{self.values[place]!r} (row {(row if self.rows is None else int(self.rows[row])) + 1:,})"

    def exact(self, place: int) -> Decimal | float | None:
        """The number that a value is, without rounding: long identifiers must not become equal."""
        value: str = self.values[place]
        return exact_number(value if self.decimal == "." else value.replace(".", "_").replace(self.decimal, "."))

    @cached_property
    def numbers(self) -> dict[int, Decimal | float]:
        """The values in use that are numbers."""
        return {place: number for place in self.present if (number := self.exact(place)) is not None}

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many rows hold each value; the last are the missing ones."""
        return np.bincount(self.places + (self.places < 0) * (len(self.values) + 1), minlength=len(self.values) + 1)

    @cached_property
    def present(self) -> list[int]:
        """The places in use: not all of them, once rows were dropped."""
        return np.flatnonzero(self.counts[:-1]).tolist()

    @property
    def kind(self) -> str:
        """What the values are, whatever becomes of them."""
        numeric = len(self.numbers) == len(self.present)
        return self.declared or ("empty" if not self.present else "number" if numeric else "text")


def exact_number(text: str) -> Decimal | float | None:
    """The number that a text is, if it is one; not a number is none."""
    try:
        number = float(text) if "_" not in text else math.nan
        return None if math.isnan(number) else Decimal(text) if math.isfinite(number) else number
    except InvalidOperation:  # an exponent beyond all bounds
        return number
    except ValueError:
        return None


def _plainest(spellings: list[str]) -> str:
    """`1` of 1, 1.0, 01, +1 and 1e0."""
    return min(spellings, key=lambda s: ("e" in s.lower(), re.match(r"\+|-?0\d", s) is not None, len(s), s))


def _unused(label: str, labels: Sequence[str]) -> str:
    while label in labels:
        label = f"({label})"
    return label


def _finish(column: Column, code_of_place: dict[int, int], labels: list[str]) -> Encoded:
    """Codes of all rows; missing values, if any, become the last category."""
    if column.counts[-1]:
        code_of_place = {**code_of_place, MISSING: len(labels)}
        labels = [*labels, _unused(MISSING_LABEL, labels)]
    if len(labels) < MIN_DOMAIN:
        raise _unusable(column.name, f"has one value only, {labels[0]!r}; an attribute needs at least {MIN_DOMAIN}")
    _check_few(column.name, len(labels))
    codes = np.zeros(len(column.values) + 1, np.int64)  # place -1 is the last
    codes[list(code_of_place)] = list(code_of_place.values())
    return codes[column.places], labels


def _unusable(name: str, why: str) -> InputError:
    return InputError(f"column {name!r} {why}: leave it out (exclude={name})")


def _check_few(name: str, count: int) -> None:
    if count > MAX_DOMAIN:
        helps = f"; bins={name}=10 or group_rare=0.5% makes fewer of them"
        raise _unusable(name, f"has {count:,} values; at most {MAX_DOMAIN:,} are valid{helps}")


def encode_values(column: Column, rare: float | None) -> Encoded:
    """The domain is what the data hold: numbers in their order, else text in its own.

    In a column of untyped text that is all numbers, spellings of the same number are one value.  `rare`: values of
    fewer than this share of the rows become one value, if there are two or more of them.
    """
    name, present, values = column.name, column.present, column.values
    if not present:
        raise _unusable(name, f"has no values; all {len(column.places):,} are missing")
    sizes = column.numbers if len(column.numbers) == len(present) else {}
    found: dict[Any, list[int]] = {}
    for place in present:
        found.setdefault(place if column.declared or not sizes else sizes[place], []).append(place)
    least = 0 if rare is None else rare * len(column.places)
    few = [places for places in found.values() if column.counts[places].sum() < least]
    if len(few) == len(found):
        raise _unusable(name, f"has {len(found):,} values, each of them rarer than group_rare={rare:g}")
    out = {places[0] for places in few} if len(few) > 1 else set()
    groups = [places for places in found.values() if places[0] not in out]
    _check_few(name, len(groups))  # before they are sorted, which takes long
    groups.sort(key=lambda places: (sizes.get(places[0], 0), values[places[0]]))
    labels = [_plainest([values[place] for place in places]) for places in groups]
    if out:
        groups.append([place for places in few for place in places])
        labels.append(_unused(OTHER_LABEL, labels))
    return _finish(column, {place: code for code, places in enumerate(groups) for place in places}, labels)


def encode_domain(column: Column, domain: list[str], where: Path) -> Encoded:
    """The domain is given: values that nobody holds are allowed, values outside it are not."""
    codes, exact = {value: code for code, value in enumerate(domain)}, list(map(exact_number, domain))
    by_number = {number: i for i, number in enumerate(exact) if exact.count(number) == 1}  # 07 beside 7: as spelled
    by_number.pop(None, None)
    code_of_place: dict[int, int] = {}
    for place in column.present:
        code = codes.get(column.values[place], by_number.get(column.exact(place)))
        if code is None:
            known = f"not in its domain in {where}: {_shorten(domain)}"
            raise InputError(f"column {column.name!r} holds {column.shown(place)}, {known}")
        code_of_place[place] = code
    return _finish(column, code_of_place, domain)


def encode_bins(column: Column, bins: str) -> Encoded:
    """Numbers in intervals [low, high), the last one closed: of equal width, quantiles, or with given edges."""
    name, borders = column.name, _given_edges(column.name, bins)
    low, high = (borders[0], borders[-1]) if borders else (-math.inf, math.inf)
    numbers = np.full(len(column.values), np.nan)
    for place in column.present:
        number = numbers[place] = float(column.numbers.get(place, math.nan))
        if not low <= number <= high or (not borders and math.isinf(number)):
            within = f" from {low:g} to {high:g}" if borders else ""
            raise InputError(f"bins of {name!r} need numbers{within}, but the column holds {column.shown(place)}")
    held = numbers[column.places[column.places != MISSING]]
    if not borders:
        if not len(held) or held.min() == held.max():
            raise _unusable(name, f"has {len(column.present)} different numbers; bins need at least 2")
        low, high, count = float(held.min()), float(held.max()), int(bins.rstrip("q"))
        edges = np.linspace(low, high, count + 1)
        edges = np.quantile(held, np.linspace(0, 1, count + 1)) if bins.endswith("q") else edges
        inner = np.unique(edges[1:-1])
        inner = inner[inner > low]  # values that many users share can swallow a quantile: no bin without a user
        borders = [low, *(inner.tolist() or [float(np.min(held[held > low]))]), high]
    codes = np.searchsorted(borders[1:-1], numbers, side="right")
    return _finish(column, {place: int(codes[place]) for place in column.present}, _interval_labels(borders))


def _given_edges(name: str, bins: str) -> list[float]:
    """The edges of `0:18:65`; none if their number is given, `10` or `10q`."""
    if re.fullmatch(r"\d{1,6}q?", bins) and MIN_DOMAIN <= int(bins.rstrip("q")) <= MAX_DOMAIN:
        return []
    edges = [exact_number(part) for part in bins.split(":")]
    given = [float(edge) for edge in edges if edge is not None]
    if len(given) < max(len(edges), MIN_DOMAIN + 1) or any(a >= b for a, b in pairwise(given)):
        raise InputError(
            f"bins of {name!r}={bins!r} must be a number from {MIN_DOMAIN} to {MAX_DOMAIN:,}, such as 10, or with a q "
            "for quantiles, 10q, or three or more rising edges, such as 0:18:65:inf"
        )
    return given


def _interval_labels(edges: list[float]) -> list[str]:
    """`[17, 24.3)` … `[82.7, 90]`, with as many digits as it takes to tell the edges apart."""
    for digits in (6, 9, 12, 17):
        text = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(text[:-1])) == len(edges) - 1 and (text[-1] != text[-2] or edges[-1] == edges[-2]):
            break
    labels = [f"[{a}, {b})" for a, b in pairwise(text)]
    return [*labels[:-1], f"{labels[-1][:-1]}]"]


def _shorten(values: Iterable[str]) -> str:
    """The first twenty of some values or names, in one line."""
    shown = [value if value.isprintable() else repr(value) for value in values]
    return ", ".join(shown[:20]) + (f", … ({len(shown):,} in all)" if len(shown) > 20 else "")


# Tables: opened, and read column by column


class Opened(NamedTuple):
    """A table whose columns are known and not yet read; `read` gives those at some places, or what is wrong."""

    names: list[str]
    read: Callable[[list[int]], Iterable[Column | InputError]]
    encoding: str | None = None
    delimiter: str | None = None


def _check_size(path: Path, size: int, limit: int) -> None:
    if size > limit:
        raise InputError(f"{path} has more than {limit:,} bytes, unpacked; give a larger max_bytes, or fewer columns")


def _check_columns(what: object, names: Sequence[str] | Mapping[str, Any]) -> None:
    if len(names) > MAX_ATTRIBUTES:
        raise InputError(f"{what} has more than {MAX_ATTRIBUTES:,} columns, which are valid")


def _content(path: Path, limit: int) -> bytes:
    """The content of a file, unpacked if its name ends in .gz."""
    blocks, size = [], 0
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        while block := file.read(1 << 24):
            size += len(block)
            _check_size(path, size, limit)
            blocks.append(block)
    return b"".join(blocks)


def _open_text(path: Path, options: Mapping[str, Any]) -> Opened:
    content = _content(path, options["max_bytes"])
    text = Text(path, content, options["encoding"], options["delimiter"] or "")
    text = text._replace(delimiter=text.delimiter or _guess(text))
    try:
        names = [name.strip() for name in next(text.records(), [])]
    except csv.Error as error:
        raise text.broken(f"its header is not valid: {error}") from None
    return Opened(names, lambda places: _read_text(text, names, places), text.encoding, text.delimiter)


class Text(NamedTuple):
    """The bytes of a text file, and how they are to be read."""

    path: Path
    content: bytes
    encoding: str
    delimiter: str

    def records(self) -> Iterator[list[str]]:
        """The records that are not blank."""
        encoding = "utf-8-sig" if self.encoding == "utf-8" else self.encoding
        stream = io.TextIOWrapper(io.BytesIO(self.content), encoding, newline="")
        return (record for record in csv.reader(stream, delimiter=self.delimiter, strict=True) if record)

    def broken(self, why: str) -> InputError:
        return InputError(f"{self.path} is not a readable CSV file: {why}")


def _guess(text: Text) -> str:
    """The only delimiter that cuts the header and the first rows into equally many fields, two or more.

    If none does, the only one that cuts them all; else a comma.
    """
    fit: list[str] = []
    cut: list[str] = []
    for delimiter in DELIMITERS:
        widths: list[int] = []
        with contextlib.suppress(csv.Error):
            widths.extend(map(len, islice(text._replace(delimiter=delimiter).records(), SAMPLE)))
        if widths and min(widths) > 1:
            (fit if min(widths) == max(widths) else cut).append(delimiter)
    found = fit or cut or [","]
    if len(found) > 1:
        shown = " or ".join(map(_show_delimiter, found))
        raise InputError(f"{text.path} can be read with the delimiter {shown}; give the one that is meant (delimiter)")
    return found[0]


def _show_delimiter(delimiter: str) -> str:
    return "tab" if delimiter == "\t" else repr(delimiter)


def _read_text(text: Text, names: list[str], places: list[int]) -> Iterator[Column]:
    """All cells as text: whether a column is numeric is decided by all of its values, not by the first block's.

    Columns are called by their places, since a header may have a name twice; it is read as a row, and left out.
    """
    import pyarrow
    import pyarrow.csv as reader

    every, kept = [str(place) for place in range(len(names))], [str(place) for place in places]
    types = dict.fromkeys(kept, pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    try:
        found = reader.read_csv(
            pyarrow.BufferReader(text.content),
            reader.ReadOptions(column_names=every, block_size=BLOCK_BYTES, encoding=text.encoding),
            reader.ParseOptions(delimiter=text.delimiter, newlines_in_values=True),
            reader.ConvertOptions(include_columns=kept, column_types=types, null_values=[], strings_can_be_null=False),
        )
    except pyarrow.ArrowException:  # its message quotes the row
        _check_records(text, len(names), None)
        raise text.broken(f"a row may have up to {BLOCK_BYTES:,} bytes") from None
    count = text.content.count
    if found.num_rows != count(b"\n") + count(b"\r") - count(b"\r\n") + (not text.content.endswith((b"\n", b"\r"))):
        _check_records(text, len(names), found.num_rows)  # blank lines, newlines within quotes, or quotes gone wrong
    for name in kept:
        held, texts = _dictionary(found.column(name).slice(1))
        yield Column(names[int(name)], held, [cell.strip() for cell in texts.to_pylist()])


def _check_records(text: Text, width: int, rows: int | None) -> None:
    """Refuses records that are cut wrongly, naming the first; `rows` are how many Arrow found, with the header."""
    number = -1
    try:
        for number, record in enumerate(text.records()):
            if len(record) != width:
                cut = f"but the header has {width}, cut at {_show_delimiter(text.delimiter)}"
                raise text.broken(f"row {number:,} has {len(record)} field{'s' * (len(record) != 1)}, {cut}")
    except csv.Error as error:
        if "limit" in str(error):  # a cell too long for this reader
            return
        raise text.broken(f"the quotation marks of row {number + 1:,} make no sense ({error})") from None
    if rows not in (None, number + 1):
        raise text.broken(f"its quotation marks can be read as {number:,} or as {(rows or 0) - 1:,} rows")


def _open_json(path: Path, options: Mapping[str, Any]) -> Opened:
    """One JSON object per line, with the types that JSON has.

    Not by Arrow's reader, which rounds large numbers, takes texts for dates, orders columns as its threads come, and
    makes a cell for every column in every row.
    """
    from pyarrow import ArrowException, chunked_array

    rows: list[dict[str, Any]] = []
    found: dict[str, None] = {}
    number = 0
    try:
        for line in io.TextIOWrapper(io.BytesIO(_content(path, options["max_bytes"])), "utf-8-sig"):
            number += 1
            if line.strip():
                rows.append(json.loads(line))
                found.update(dict.fromkeys(rows[-1].keys()))
                _check_columns(path, found)
    except (AttributeError, RecursionError, UnicodeDecodeError, json.JSONDecodeError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else getattr(error, "msg", "no object in UTF-8")
        raise InputError(f"{path} is not a file of JSON lines, an object each: line {number:,}: {why}") from None
    names = list(found)

    def read(places: list[int]) -> Iterator[Column | InputError]:
        _check_size(path, CELL_BYTES * len(rows) * len(places), options["max_bytes"])
        for name in [names[place] for place in places]:
            cells = [row.get(name) for row in rows]
            try:
                nested = any(isinstance(cell, (list, dict)) for cell in cells)
                yield _unusable(name, "holds lists or objects") if nested else _typed(name, chunked_array([cells]))
            except (ArrowException, OverflowError):
                yield _unusable(name, "holds values of several types, or numbers beyond 64 bits")

    return Opened(names, read)


def _open_parquet(path: Path, options: Mapping[str, Any]) -> Opened:
    """Columns with the types that the file declares; only nulls and NaN are missing."""
    import pyarrow.parquet as parquet
    from pyarrow.types import is_string

    schema = parquet.read_schema(path)

    def read(places: list[int]) -> Iterator[Column | InputError]:
        kept = [schema.field(place) for place in places]
        texts = [each.name for each in kept if is_string(each.type)]  # so that they stay packed
        with parquet.ParquetFile(path, read_dictionary=texts) as file:
            sizes = [file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)]
            cells = file.metadata.num_rows * len(kept)
            _check_size(path, max(sum(sizes), CELL_BYTES * cells), options["max_bytes"])
            table = file.read(columns=[each.name for each in kept])
        return (_typed(each.name, table.column(each.name)) for each in kept)

    return Opened(list(schema.names), read)


def is_frame(table: object) -> bool:
    """Whether a table in memory can be taken: a pandas DataFrame, or anything with the Arrow PyCapsule interface."""
    arrow = hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__")
    return not isinstance(table, type) and (arrow or _is_pandas(table))


def _is_pandas(table: object) -> bool:
    return (type(table).__module__.partition(".")[0], type(table).__name__) == ("pandas", "DataFrame")


def _open_frame(frame: Any) -> Opened:
    """A table in memory, with the types of its columns; the index of a pandas DataFrame is left out."""
    import pyarrow

    table = pyarrow.Table.from_pandas(frame, preserve_index=False) if _is_pandas(frame) else pyarrow.table(frame)
    names = table.column_names
    return Opened(names, lambda places: (_typed(names[place], table.column(place)) for place in places))


def _typed(name: str, chunks: Any) -> Column | InputError:
    """A column of an Arrow table."""
    from pyarrow import ArrowException, large_string, types

    kind = chunks.type.value_type if types.is_dictionary(chunks.type) else chunks.type
    if types.is_null(kind):
        return Column(name, np.full(len(chunks), MISSING, np.int64), [], "text")
    numeric = types.is_floating(kind) or types.is_integer(kind)
    try:
        places, values = _dictionary(chunks if kind != chunks.type else chunks.dictionary_encode())
        texts = values.to_pylist() if numeric else values.cast(large_string()).to_pylist()
    except ArrowException:
        return _unusable(name, f"has type {kind}; text, numbers, true/false and dates are valid")
    if numeric:
        texts = [None if value is None or value != value else str(value) for value in texts]
    declared = "number" if numeric or types.is_decimal(kind) else "true/false" if types.is_boolean(kind) else "text"
    return Column(name, places, texts, "date" if types.is_temporal(kind) else declared)


def _dictionary(chunks: Any) -> tuple[Places, Any]:
    """(places, distinct values) of a dictionary-encoded column."""
    whole = chunks.unify_dictionaries().combine_chunks()
    return whole.indices.cast("int64").fill_null(MISSING).to_numpy(zero_copy_only=False), whole.dictionary


# All of it together


@with_options
def load_table(table: Any, *, name: str | None = None, **options: Any) -> Dataset:
    """Load a data set from a file, a data frame or an Arrow table.

    Parameters
    ----------
    table : path, DataFrame or Arrow table
        .csv, .tsv, .txt, .jsonl, .ndjson (these also with .gz) or .parquet with any values; .npz with codes; or a
        pandas DataFrame, or any object with the Arrow PyCapsule interface.
    name : str, optional
        Name of the data set.  Default: the file's, or `data`.
    **options
        See docs/data.md.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If the table can't be used: all of its problems, each with what helps.
    """
    return describe(table, name=name, **options).dataset()


@with_options
def describe(table: Any, *, name: str | None = None, **options: Any) -> TableReport:
    """Describe a table: its columns, their commonest values, and what must be resolved before it is used.

    Parameters
    ----------
    table : path, DataFrame, Arrow table or Dataset
        As in `load_table`; a data set takes no options.
    name : str, optional
        Name of the data set.  Default: the file's, or `data`.
    **options
        See docs/data.md.

    Returns
    -------
    TableReport
        `print` shows it in words, `to_dict` gives what JSON can hold.

    Raises
    ------
    InputError
        If the table can't be read at all.
    """
    if isinstance(table, Dataset):
        if given := [option.name for option in OPTIONS if option.given(options.get(option.name))]:
            raise InputError(f"{given[0]} needs a table; {table.name!r} is a data set already")
        return _of_dataset(table)
    from pyarrow import ArrowException

    frame, what = is_frame(table), f"the {type(table).__name__}"
    if not frame and not isinstance(table, (str, os.PathLike)):
        raise InputError(f"table is of type {type(table).__name__}; a path, a data frame or an Arrow table is needed")
    checked = check_options(options)
    try:
        if not frame:
            return _of_file(Path(table), name, options, checked)
        _check_scope(what, "", options)
        return _made(what, _open_frame(table), checked, (name or "data", f"{type(table).__name__} in memory", None))
    except (ArrowException, TypeError, OSError, EOFError, MemoryError, UnicodeError, zlib.error) as error:
        helps = "; give its encoding, such as encoding=cp1252" if isinstance(error, UnicodeError) else ""
        why = str(error.args[-1] if error.args and not helps else error)  # of a frame, the last names the column
        where = what if frame else table
        raise InputError(f"{where} can't be read: {why.partition(chr(10))[0]}{helps}") from None


def _of_file(path: Path, name: str | None, given: Mapping[str, Any], options: Mapping[str, Any]) -> TableReport:
    _check_file(path)
    source = os.fsencode(path.name).decode(errors="replace")  # in any locale
    inner = Path(source[:-3] if source.lower().endswith(".gz") else source)
    suffix = inner.suffix.lower() if inner.suffix.lower() in (*OF_TEXT, *OF_JSON) else path.suffix.lower()
    if suffix not in (*OF_TEXT, *OF_JSON, ".parquet"):
        known = f"available: {', '.join((*OF_TEXT, *OF_JSON))} (also with .gz) and .parquet"
        raise InputError(f"{path} has the unknown suffix {path.suffix!r}; {known}; else give load_table a data frame")
    _check_scope(str(path), suffix, given)
    open_file = _open_text if suffix in OF_TEXT else _open_json if suffix in OF_JSON else _open_parquet
    named = (inner.stem if name is None else name, source, str(path))
    report = _made(str(path), open_file(path, options), options, named)
    if report.data is not None:  # it then knows how another process can load it from the same file
        kept = {key: value for key, value in given.items() if value is not None}
        if "domain_file" in kept:
            kept["domain_file"] = os.path.abspath(kept["domain_file"])
        report.data.origin = (os.path.abspath(path), {**kept, "name": named[0]})
    return report


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path} is not a file" if path.exists() else f"no such file: {path}")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty")


def _check_scope(what: str, suffix: str, given: Mapping[str, Any]) -> None:
    for option in OPTIONS:
        if option.scope == TEXT and suffix not in OF_TEXT and option.given(given.get(option.name)):
            raise InputError(f"{option.name} is for text files ({', '.join(OF_TEXT)}); {what} is none")


def _chosen(what: str, names: list[str], options: Mapping[str, Any], others: Mapping[str, Iterable[str]]) -> list[int]:
    """The places of the columns to read: none without a name.

    `others` are more names of columns that must be there, by the options that name them.
    """
    there, wanted, excluded = Counter(filter(None, names)), options["columns"], options["exclude"] or ()
    listed = f"columns: {_shorten(there)}"
    for option, named in {"columns": wanted, "exclude": excluded, "bins": options["bins"], **others}.items():
        for name in named or ():
            if name not in there:
                raise InputError(f"{what} has no column {name!r} ({option}); {listed}")
    chosen = [name for name in (there if wanted is None else dict.fromkeys(wanted)) if name not in excluded]
    for name in chosen:
        if there[name] > 1:
            raise InputError(f"column {name!r} is twice in {what}: leave it out (exclude={name}), or rename it there")
    if not chosen:
        raise InputError(f"no columns chosen of {what}; {listed}")
    place = {name: j for j, name in enumerate(names)}
    return [place[name] for name in chosen]


def _settled(column: Column, missing: set[str], options: Mapping[str, Any]) -> Column:
    """The column without its missing values, and with what the options say of numbers."""
    merged: dict[str, int] = {}
    moved = np.full(len(column.values) + 1, MISSING, np.int64)  # the last one for places that are missing already
    for place, text in enumerate(column.values):
        if text is not None and text.strip() not in missing:
            moved[place] = merged.setdefault(text, len(merged))
    decimal = "." if column.declared else options["decimal"]
    return replace(column, places=moved[column.places], values=list(merged), decimal=decimal)


def _made(what: str, opened: Opened, options: Mapping[str, Any], named: tuple[str, str, str | None]) -> TableReport:
    """Reads and encodes the chosen columns; `named`: name and source of the data set, and its file."""
    _check_columns(what, opened.names)
    domains = {} if options["domain_file"] is None else _read_domains(options["domain_file"])
    marks = [entry.rpartition("=") for entry in options["missing_values"] or ()]  # `n.a.`, or `rhesus=-`
    owners = [owner for owner, equals, _ in marks if equals]
    places = _chosen(what, opened.names, options, {"domain_file": domains, "missing_values": owners})
    columns: list[Column] = []
    problems: list[str] = []
    for column in opened.read(places):
        if isinstance(column, InputError):
            problems.append(str(column))
            continue
        missing = {text for owner, equals, text in marks if not equals or owner == column.name}
        columns.append(_settled(column, missing if opened.delimiter is None else missing | MISSING_TEXT, options))
    rows = len(columns[0].places) if columns else 0
    if not rows:
        raise InputError("\n  ".join(problems) or f"{what} has no rows; at least one is needed")
    if options["missing"] == "drop":
        keep = np.flatnonzero(np.all([column.places != MISSING for column in columns], axis=0))
        if not len(keep):
            raise InputError(f"{what} has no row without a missing value: missing=drop leaves nobody of {rows:,}")
        columns = [replace(column, places=column.places[keep], rows=keep) for column in columns]
    reports, made = [], []
    for column in columns:
        counts, labels, k = column.counts[:-1], column.values, len(column.present)
        try:
            codes, labels = _encoded(column, options, domains)
            counts, k = np.bincount(codes, minlength=len(labels)), len(labels)
            made.append((column.name, codes.astype(np.uint16), labels))
        except InputError as error:
            problems.append(str(error))
        common = _commonest(counts, labels, len(column.places))
        reports.append(ColumnReport(column.name, column.kind, k, int(column.counts[-1]), common))
    data = None
    if not problems:
        names, codes, labels = zip(*made, strict=True)
        data = Dataset(np.stack(codes, axis=1), map(len, labels), names, named[0], labels, source=named[1])
    how = (rows, len(columns[0].places), opened.encoding, opened.delimiter)
    return TableReport(*named, *how, tuple(reports), tuple(problems), data)


def _encoded(column: Column, options: Mapping[str, Any], domains: Mapping[str, list[str]]) -> Encoded:
    name, bins = column.name, options["bins"]
    if options["missing"] == "error" and column.counts[-1]:
        helps = "missing=category or missing=drop would accept them"
        raise InputError(f"column {name!r} has {column.counts[-1]:,} missing values; {helps}")
    if name in bins and name in domains:
        raise InputError(f"column {name!r} has bins and a domain in {options['domain_file']}; only one is valid")
    if name in bins:
        return encode_bins(column, bins[name])
    if name in domains:
        return encode_domain(column, domains[name], options["domain_file"])
    return encode_values(column, options["group_rare"])


def _read_domains(path: Path) -> dict[str, list[str]]:
    _check_file(path)
    found: dict[str, list[str]] = {}
    try:
        written = path.read_text(encoding="utf-8-sig")
        content = toml_loads(written) if path.suffix.lower() == ".toml" else json.loads(written)
        for column, values in content.items():
            if not isinstance(values, list) or not all(isinstance(value, (str, int, float)) for value in values):
                raise ValueError(f"{column!r} has no list of texts, numbers, true and false")
            found[column] = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    except (
        AttributeError,
        ValueError,
        RecursionError,
    ) as error:  # of the parsers, of text that is not UTF-8, of a list
        raise InputError(f"domain file {path} is not valid: {error}; it maps each column to its values") from None
    return found


# Reports


@dataclass(frozen=True)
class ColumnReport:
    """One column: its values as the options make them, or as they are if the column can't be used."""

    name: str
    kind: str  # number, text, date, true/false, mixed, empty or codes
    k: int  # different values, `(missing)` among them if it is one
    missing: int
    commonest: tuple[tuple[str, int, float], ...]  # label, users, share


@dataclass(frozen=True)
class TableReport:
    """What `describe` finds in a table; `print` shows it in words."""

    name: str
    source: str
    file: str | None  # as it was given
    rows: int
    users: int  # rows that are left, with missing=drop
    encoding: str | None
    delimiter: str | None
    columns: tuple[ColumnReport, ...]
    problems: tuple[str, ...] = ()  # each must be resolved before the table can be used
    data: Dataset | None = field(default=None, repr=False, compare=False)  # None if there are problems

    def dataset(self) -> Dataset:
        """The data set; every problem of the table in one error, each in a line of its own if there are several."""
        if self.data is None:
            several = [f"{self.file or self.name} has {len(self.problems)} problems:"] if len(self.problems) > 1 else []
            raise InputError("\n  ".join([*several, *self.problems]))
        return self.data

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {key: value for key, value in asdict(replace(self, data=None)).items() if key != "data"}

    def __str__(self) -> str:
        how = [f"; {self.encoding}, delimiter {_show_delimiter(self.delimiter)}"] if self.delimiter else []
        users = f" ({self.users:,} without missing values)" if self.users != self.rows else ""
        d = len(self.columns)
        rows = [("column", "kind", "k", "missing", "commonest values")]
        for column in self.columns[:SHOWN_COLUMNS]:
            values = ", ".join(f"{_cut(label)} {_percent(share)}" for label, _, share in column.commonest)
            missing = _percent(column.missing / self.users) if column.missing else "–"
            rows.append((_cut(column.name), column.kind, f"{column.k:,}", missing, values))
        a, b, c, e = (max(len(row[i]) for row in rows) for i in range(4))
        head = f"{self.file or self.name}: {self.rows:,} rows{users}, {d:,} column{'s' * (d != 1)}"
        lines = ["".join([head, *how]), ""]
        lines += [f"{row[0]:<{a}}  {row[1]:<{b}}  {row[2]:>{c}}  {row[3]:>{e}}  {row[4]}".rstrip() for row in rows]
        lines += [f"… and {d - SHOWN_COLUMNS:,} more columns"] if d > SHOWN_COLUMNS else []
        lines += ["", "Resolve before use:", *(f"  {text}" for text in self.problems)] if self.problems else []
        return "\n".join(lines)


def _of_dataset(data: Dataset) -> TableReport:
    columns = []
    for j, (name, k) in enumerate(zip(data.names, data.domain, strict=True)):
        labels = list(map(str, range(k))) if data.labels is None else data.labels[j]
        common = _commonest(data.counts[data.domain.slices[j]], labels, data.n)
        columns.append(ColumnReport(name, "codes", k, 0, common))
    return TableReport(data.name, data.source, None, data.n, data.n, None, None, tuple(columns), data=data)


def _commonest(counts: npt.NDArray[np.int64], labels: Sequence[str], users: int) -> tuple[tuple[str, int, float], ...]:
    places = np.argsort(-counts, kind="stable")[:COMMONEST]
    return tuple((labels[place], int(counts[place]), float(counts[place] / users)) for place in places if counts[place])


def _percent(share: float) -> str:
    return "<0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}%"


def _cut(text: str) -> str:
    shown = text if text.isprintable() else repr(text)[1:-1]
    return shown if len(shown) <= WIDTH else f"{shown[: WIDTH - 1]}…"
