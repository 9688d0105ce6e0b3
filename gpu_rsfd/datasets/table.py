"""Your own data: a table in a file or in memory becomes a report of what is in it, and a data set.

Readers give the chosen columns (row i holds `values[places[i]]`), each of which is encoded (codes and labels).  What is
wrong with columns is collected on the way, and told at once.
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
from fnmatch import fnmatchcase
from functools import cached_property, partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import MAX_ATTRIBUTES, MAX_DOMAIN, MIN_DOMAIN
from gpu_rsfd.datasets.base import MIN_COUNT, Dataset, withheld
from gpu_rsfd.datasets.evolving import EvolvingDataset
from gpu_rsfd.datasets.options import BY_NAME, OF_TEXT_FILES, check_options, spelled, with_options
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
FEW, MANY, RARE = 20, 30, 0.005  # rows that tell nothing; values that are many; the share of a rare one
ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.\w+")

Places = npt.NDArray[np.int64]
Encoded = tuple[npt.NDArray[Any], list[str]]  # codes and labels
Choose = Callable[[Sequence[str]], list[int]]  # from the names of all columns to the places of those to read


# Columns: from values to codes and labels


@dataclass(frozen=True)
class Column:
    """One column, dictionary-encoded: row i holds `values[places[i]]`, or nothing if places[i] is -1."""

    name: str
    places: Places
    values: list[Any]  # texts; None for missing ones, until `_settled`
    declared: str = ""  # the kind of a typed column: number, text, date or true/false; mixed, if rounds differ
    decimal: str = "."  # the mark in numbers
    rows: Places | None = None  # where each place was in the file, if rows were dropped
    rounds: Sequence[str] = ("",)  # the columns that lie below each other: every user has a row of each

    @property
    def each(self) -> Places:
        """The places as [round, user]."""
        return self.places.reshape(len(self.rounds), -1)

    def row(self, place: int) -> str:
        """The first row, counted from 1 without the header, that holds a value: the value itself is somebody's."""
        r, row = np.argwhere(self.each == place)[0].tolist()
        within = f" of {self.rounds[r]!r}" if self.rounds[r] else ""
        return f"row {(row if self.rows is None else int(self.rows[row])) + 1:,}{within}"

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


def looks_personal(texts: Sequence[str], counts: npt.NDArray[np.int64]) -> str:
    """What a column seems to hold that nobody should publish: `an identifier`, `free text`, or nothing."""
    rows = int(counts.sum())
    held = list(zip(texts, counts.tolist(), strict=True))
    if 2 * sum(count for text, count in held if ADDRESS.fullmatch(text)) > rows > 0:
        return "an identifier"
    if rows < FEW or len(texts) < FEW:
        return ""
    if 5 * len(texts) > rows and sum(count * text.count(" ") for text, count in held) >= 4 * rows:
        return "free text"
    most_differ = 2 * len(texts) > rows  # most users have a value of their own
    measured = all(exact_number(text) is not None for text in texts) and not is_code(texts)
    return "an identifier" if most_differ and not measured else ""


def is_code(texts: Sequence[str]) -> bool:
    """Whether numbers seem to be names, such as postcodes: of one length (no years), with leading zeros, counted up."""
    if not texts or not all(text.isdecimal() for text in texts):
        return False
    numbers, lengths = sorted(map(int, texts)), {*map(len, texts)}
    if 1800 <= numbers[0] <= numbers[-1] <= 2200:  # years
        return False
    counted = numbers[-1] - numbers[0] < 1.1 * len(texts) and numbers[-1] > 10 * MANY
    one_length = len(lengths) == 1 and max(lengths) > 3
    return counted or one_length or any(text[0] == "0" < text for text in texts if len(text) > 1)


def exact_number(text: str) -> Decimal | float | None:
    """The number that a text is, if it is one; not a number is none."""
    try:
        number = float(text) if "_" not in text else math.nan
        return None if math.isnan(number) else Decimal(text) if math.isfinite(number) else number
    except (ValueError, InvalidOperation):  # the latter of an exponent beyond all bounds
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
    return InputError(f"column {name!r} {why}: leave it out ({spelled(exclude=name)})")


def _check_few(name: str, count: int) -> None:
    if count > MAX_DOMAIN:
        helps = f"; bins={name}=10 or group_rare=0.5% makes fewer of them"
        raise _unusable(name, f"has {count:,} values; at most {MAX_DOMAIN:,} are valid{helps}")


def encode_values(column: Column, rare: float | None) -> Encoded:
    """The domain is what the data hold: numbers in their order, else text in its own.

    In a column of untyped text that is all numbers, spellings of the same number are one value; so they are in rounds
    of numbers, whose types may differ.  `rare`: values of fewer than this share of the rows become one value, if there
    are two or more of them, and others.
    """
    name, present, values = column.name, column.present, column.values
    sizes = column.numbers if len(column.numbers) == len(present) else {}
    found: dict[Any, list[int]] = {}
    merged = sizes if column.declared in ("", *("number", "mixed") * (len(column.rounds) > 1)) else {}
    for place in present:
        found.setdefault(merged.get(place, place), []).append(place)
    least = 0 if rare is None else rare * len(column.places)
    few = [places for places in found.values() if column.counts[places].sum() < least]
    out = {places[0] for places in few} if 1 < len(few) < len(found) else set()
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
    codes, times = {value: code for code, value in enumerate(domain)}, Counter(map(exact_number, domain))
    by_number = {number: code for value, code in codes.items() if times[number := exact_number(value)] == 1}
    code_of_place: dict[int, int] = {}
    for place in column.present:
        number = column.exact(place)
        code = codes.get(column.values[place], None if number is None else by_number.get(number))  # 07, 7: as spelled
        if code is None:
            known = f"a value that is not in its domain in {where}: {shorten(domain)}"
            raise InputError(f"column {column.name!r} holds in {column.row(place)} {known}")
        code_of_place[place] = code
    return _finish(column, code_of_place, domain)


def encode_bins(column: Column, bins: str) -> Encoded:
    """Numbers in intervals [low, high), the last one closed: of equal width, quantiles, or with given edges."""
    name, given = column.name, given_edges(column.name, bins)
    low, high = (given[0], given[-1]) if given else (-math.inf, math.inf)
    numbers = np.full(len(column.values), np.nan)
    for place in column.present:
        number = numbers[place] = float(column.numbers.get(place, math.nan))
        if not low <= number <= high or (not given and math.isinf(number)):
            within = f" from {low:g} to {high:g}" if given else ""
            raise InputError(f"bins of {name!r} need numbers{within}, but {column.row(place)} holds something else")
    held = numbers[column.places[column.places != MISSING]]
    borders = given
    if not given:
        if not len(held) or held.min() == held.max():
            raise _unusable(name, f"has {len(column.present)} different numbers; bins need at least 2")
        borders = [-math.inf, *_edges(held, bins, MIN_COUNT * len(column.rounds)), math.inf]
    labels = interval_labels(borders)
    if not given:  # whose extremes are open
        labels[0], labels[-1] = f"< {borders[1]:.12g}", f"≥ {borders[-2]:.12g}"
    codes = np.searchsorted(borders[1:-1], numbers, side="right")
    return _finish(column, {place: int(codes[place]) for place in column.present}, labels)


def interval_labels(edges: Sequence[float]) -> list[str]:
    """`[0, 18)`, and so on; the last one is closed."""
    texts = [f"{edge:.12g}" for edge in edges]
    return [f"[{a}, {b}" + ")]"[b is texts[-1]] for a, b in pairwise(texts)]


def _edges(held: npt.NDArray[np.float64], bins: str, least: int) -> list[float]:
    """The edges between bins, rounded: none is the number of one user, and `least` at either end decide nothing."""
    held, count = np.sort(held), int(bins.rstrip("q"))
    few = least - 1 if len(held) >= 4 * least and held[least] < held[-least] else 0
    low, high = float(held[few]), float(held[-1 - few])
    shares = np.linspace(0, 1, count + 1)[1:-1]
    edges = np.quantile(held, shares) if bins.endswith("q") else low + shares * (high - low)
    gap = float(np.diff(np.unique([low, *edges, high])).min())
    inner = np.unique(np.round(edges, min(1 - math.floor(math.log10(gap)), 300)))
    # values that many users share can swallow a quantile: no bin without a user
    inner = inner[(inner > held[0]) & (inner <= held[-1])]
    return inner.tolist() or [float(held[0] + np.min(held[held > held[0]])) / 2]


def given_edges(name: str, bins: str) -> list[float]:
    """The edges of `0:18:65`; none if their number is given, `10` or `10q`."""
    if re.fullmatch(r"\d{1,6}q?", bins) and MIN_DOMAIN <= int(bins.rstrip("q")) <= MAX_DOMAIN:
        return []
    edges = [exact_number(part) for part in bins.split(":")]
    given = [float(edge) for edge in edges if edge is not None]
    if len(given) < max(len(edges), MIN_DOMAIN + 1) or any(a >= b for a, b in pairwise(given)):
        valid = f"a number up to {MAX_DOMAIN:,}, such as 10, or 10q for quantiles, or rising edges such as 0:18:65:inf"
        raise InputError(f"bins of {name!r}={bins!r} must be {valid}")
    return given


_starred = partial(re.sub, r"\d+|[][=]", lambda found: "?" if found[0] in "[=]" else "*")  # `h_*` of h_12


def shorten(values: Iterable[str]) -> str:
    """The first twenty of some values or names, in one line."""
    shown = [value if value.isprintable() else repr(value) for value in values]
    return ", ".join(shown[:20]) + (f", … ({len(shown):,} in all)" if len(shown) > 20 else "")


# Readers: the chosen columns of a file or frame


def _check_size(path: Path, size: int, limit: int) -> None:
    if size > limit:
        raise InputError(f"{path} has more than {limit:,} bytes, unpacked; give a larger max_bytes, or fewer columns")


def _content(path: Path, options: Mapping[str, Any]) -> bytes:
    """The content of a file, unpacked if its name ends in .gz."""
    blocks, size = [], 0
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        while block := file.read(1 << 24):
            size += len(block)
            _check_size(path, size, options["max_bytes"])
            blocks.append(block)
    return b"".join(blocks)


def _text_columns(path: Path, options: dict[str, Any], choose: Choose) -> Iterator[Column]:
    """All cells as text: whether a column is numeric is decided by all of its values, not by the first block's.

    Columns are called by their places, since a header may have a name twice; it is read as a row, and left out.
    """
    import pyarrow
    import pyarrow.csv as reader

    csv.field_size_limit(BLOCK_BYTES)  # for this process, and no harm
    content, encoding = _content(path, options), options["encoding"]
    records = partial(_records, content, encoding)
    delimiter = options["delimiter"] = options["delimiter"] or _guess(path, records)
    names = [name.strip() for name in next(records(delimiter), [])]
    kept = {str(place): names[place] for place in choose(names)}
    types = dict.fromkeys(kept, pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    every, found = [str(place) for place in range(len(names))], None
    with contextlib.suppress(pyarrow.ArrowException):  # its message quotes the row
        found = reader.read_csv(
            pyarrow.BufferReader(content),
            reader.ReadOptions(column_names=every, block_size=BLOCK_BYTES, encoding=encoding),
            reader.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            reader.ConvertOptions(include_columns=list(kept), column_types=types, null_values=[]),
        )
    if found is None or b'"' in content:  # Arrow takes an open quotation mark for one that ends the file
        rows = _count_records(path, records(delimiter), delimiter)
        if found is None or found.num_rows != rows:
            raise InputError(f"{path} can't be read: a row is longer than {BLOCK_BYTES:,} bytes, or quoted wrongly")
    for place, name in kept.items():
        held, texts = _dictionary(found.column(place).slice(1))
        yield Column(name, held, [text.strip() for text in texts.to_pylist()])


def _records(content: bytes, encoding: str, delimiter: str) -> Iterator[list[str]]:
    """The records that are not blank."""
    stream = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig" if encoding == "utf-8" else encoding, newline="")
    return (record for record in csv.reader(stream, delimiter=delimiter, strict=True) if record)


def _count_records(path: Path, records: Iterator[list[str]], delimiter: str) -> int:
    """How many there are, with the header; one that is cut otherwise than it is refused."""
    number, width = -1, 0
    try:
        for number, record in enumerate(records):
            width = width or len(record)
            if len(record) != width:
                cut = f"but the header has {width}, cut at {_show_delimiter(delimiter)}"
                raise InputError(f"{path} can't be read: row {number:,} has {len(record)} fields, {cut}")
    except csv.Error as error:
        raise InputError(f"{path} can't be read: row {number + 1:,} has wrong quotation marks: {error}") from None
    return number + 1


def _guess(path: Path, records: Callable[[str], Iterator[list[str]]]) -> str:
    """The only delimiter that cuts the header and the first rows into equally many fields, two or more.

    If none does, the only one that cuts them all; else a comma.
    """
    even: dict[str, bool] = {}
    for delimiter in DELIMITERS:
        widths: list[int] = []
        with contextlib.suppress(csv.Error):
            widths.extend(map(len, islice(records(delimiter), SAMPLE)))
        if widths and min(widths) > 1:
            even[delimiter] = min(widths) == max(widths)
    found = [delimiter for delimiter, fits in even.items() if fits] or list(even) or [","]
    if len(found) > 1:
        shown = " or ".join(map(_show_delimiter, found))
        raise InputError(f"{path} can be read with the delimiter {shown}; give the one that is meant (delimiter)")
    return found[0]


def _show_delimiter(delimiter: str) -> str:
    return "tab" if delimiter == "\t" else repr(delimiter)


def _json_columns(path: Path, options: dict[str, Any], choose: Choose) -> Iterator[Column | InputError]:
    """One JSON object per line, with the types that JSON has.

    Not by Arrow's reader, which rounds large numbers, takes texts for dates, orders columns as its threads come, and
    makes a cell for every column in every row.
    """
    from pyarrow import ArrowException, chunked_array

    rows: list[dict[str, Any]] = []
    try:
        lines = io.TextIOWrapper(io.BytesIO(_content(path, options)), "utf-8-sig")
        rows.extend({**json.loads(line)} for line in lines if line.strip())
    except (TypeError, RecursionError, ValueError) as error:
        why = {TypeError: "no object", RecursionError: "nested too deeply"}.get(type(error), "a number is too long")
        why = f"{path} is no file of JSON objects, one per line: line {len(rows) + 1:,}: {getattr(error, 'msg', why)}"
        raise (error if isinstance(error, UnicodeError) else InputError(why)) from None
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    kept = [names[place] for place in choose(names)]
    _check_size(path, CELL_BYTES * len(rows) * len(kept), options["max_bytes"])
    for name in kept:
        cells = [row.get(name) for row in rows]
        try:
            nested = any(isinstance(cell, (list, dict)) for cell in cells)
            yield _unusable(name, "holds lists or objects") if nested else _typed(name, chunked_array([cells]))
        except (ArrowException, OverflowError):
            yield _unusable(name, "holds values of several types, or numbers beyond 64 bits")


def _parquet_columns(path: Path, options: dict[str, Any], choose: Choose) -> Iterator[Column | InputError]:
    """Columns with the types that the file declares; only nulls and NaN are missing."""
    import pyarrow.parquet as parquet
    from pyarrow.types import is_string

    schema = parquet.read_schema(path)
    kept = [schema.names[place] for place in choose(schema.names)]
    texts = [name for name in kept if is_string(schema.field(name).type)]  # so that they stay packed
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        sizes = [file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)]
        _check_size(path, max(sum(sizes), CELL_BYTES * file.metadata.num_rows * len(kept)), options["max_bytes"])
        table = file.read(columns=kept)
    yield from (_typed(name, table.column(name)) for name in kept)


def is_frame(table: object) -> bool:
    """Whether a table in memory can be taken: a pandas DataFrame, or anything with the Arrow PyCapsule interface."""
    arrow = hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__")
    return not isinstance(table, type) and (arrow or _is_pandas(table))


def _is_pandas(table: object) -> bool:
    return (type(table).__module__.partition(".")[0], type(table).__name__) == ("pandas", "DataFrame")


def _frame_columns(frame: Any, options: dict[str, Any], choose: Choose) -> Iterator[Column | InputError]:
    """A table in memory, with the types of its columns; the index of a pandas DataFrame is left out."""
    import pyarrow

    table = pyarrow.Table.from_pandas(frame, preserve_index=False) if _is_pandas(frame) else pyarrow.table(frame)
    yield from (_typed(table.column_names[place], table.column(place)) for place in choose(table.column_names))


def _coded_columns(data: Dataset, options: dict[str, Any], choose: Choose) -> Iterator[Column]:
    for j in choose(data.names):
        labels = list(map(str, range(data.domain[j]))) if data.labels is None else list(data.labels[j])
        yield Column(data.names[j], data.column(j, 0, data.n).astype(np.int64), labels, "codes")


def _typed(name: str, chunks: Any) -> Column | InputError:
    """A column of an Arrow table."""
    from pyarrow import ArrowException, large_string, types

    kind = chunks.type.value_type if types.is_dictionary(chunks.type) else chunks.type
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
        .csv, .tsv, .txt, .jsonl, .ndjson (these also with .gz) or .parquet; or a pandas DataFrame, or any object with
        the Arrow PyCapsule interface.
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
        As in `load_table`.
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
    from pyarrow import ArrowException

    kind, checked = type(table).__name__, check_options(options)
    if isinstance(table, Dataset):
        return _made(table.name, partial(_coded_columns, table), checked, (table.name, table.source, None))
    what = str(table) if isinstance(table, (str, os.PathLike)) else f"the {kind}"
    try:
        if not is_frame(table):
            return _of_file(Path(table), name, options, checked)
        _check_scope(what, "", options)
        return _made(what, partial(_frame_columns, table), checked, (name or "data", f"{kind} in memory", None))
    except (ArrowException, TypeError, OSError, EOFError, MemoryError, zlib.error, csv.Error) as error:
        why = str(error.args[-1] if error.args else error).partition("\n")[0]  # of a frame, the last names the column
        raise InputError(f"{what} can't be read: {why}") from None
    except UnicodeError:
        raise InputError(f"{what} is not {checked['encoding']} text; give its encoding, such as cp1252") from None


READERS = dict.fromkeys(OF_TEXT, _text_columns) | dict.fromkeys(OF_JSON, _json_columns) | {".parquet": _parquet_columns}


def _of_file(path: Path, name: str | None, given: Mapping[str, Any], options: dict[str, Any]) -> TableReport:
    _check_file(path)
    source = os.fsencode(path.name).decode(errors="replace")  # in any locale
    inner = Path(source[:-3] if source.lower().endswith(".gz") else source)
    suffix = inner.suffix.lower() if inner.suffix.lower() in (*OF_TEXT, *OF_JSON) else path.suffix.lower()
    if suffix not in READERS:
        known = f"available: {', '.join(READERS)}; text also with .gz"
        raise InputError(f"{path} has the unknown suffix {path.suffix!r}; {known}; else give load_table a data frame")
    _check_scope(str(path), suffix, given)
    named = (inner.stem if name is None else name, source, str(path))
    report = _made(str(path), partial(READERS[suffix], path), options, named)
    if report.data is not None:  # it then knows how another process can load it from the same file
        kept = {k: os.path.abspath(v) if k == "domain_file" else v for k, v in given.items() if v is not None}
        report.data.origin = (os.path.abspath(path), {**kept, "name": named[0]})
    return report


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path} is not a file" if path.exists() else f"{path} does not exist")


def _check_scope(what: str, suffix: str, given: Mapping[str, Any]) -> None:
    for name in OF_TEXT_FILES:
        if suffix not in OF_TEXT and BY_NAME[name].given(given.get(name)):
            raise InputError(f"{name} is for text files ({', '.join(OF_TEXT)}); {what} is none")


def _chosen(what: str, options: dict[str, Any], owners: list[str], notes: list[str], names: Sequence[str]) -> list[int]:
    """The places of the columns to read: none without a name; `owners` are more columns that must be there.

    `rounds_in` becomes the columns of each attribute, where `columns` and `exclude` leave it any.
    """
    if len(names) > MAX_ATTRIBUTES:
        raise InputError(f"{what} has {len(names):,} columns; at most {MAX_ATTRIBUTES:,} are valid")
    there, wanted, excluded = Counter(filter(None, names)), options["columns"], options["exclude"] or ()
    patterns = options["rounds_in"]
    fits = {name: {one: 0 for one in there if one == p or fnmatchcase(one, p)} for name, p in patterns.items()}
    for name in (*(wanted or ()), *excluded, *options["bins"], *owners):
        if name not in there and name not in fits:
            raise InputError(f"{what} has no column {name!r}; columns: {shorten(there)}")
    listed, out = ({one: 0 for name in some for one in fits.get(name, [name])} for some in (wanted or (), excluded))
    kept = [name for name in (there if wanted is None else listed) if name not in out]
    rounds = {name: [one for one in kept if one in found] for name, found in fits.items()}
    order = sorted(rounds, key=lambda name: [*map(kept.index, rounds[name][:1])] if wanted else [])
    chosen = Counter(chain.from_iterable(rounds.values()) if patterns else kept)
    if single := [name for name in (*options["bins"], *owners) if patterns and name in chosen and name not in fits]:
        raise InputError(f"column {single[0]!r} is one round; name what rounds_in makes of it: {shorten(patterns)}")
    if unused := Counter(kept) - chosen:
        notes.append(f"columns that rounds_in does not name are not used: {shorten(unused)}")
    if twice := [name for name, times in chosen.items() if times * there[name] > 1]:
        where = what if there[twice[0]] > 1 else "rounds_in"
        raise InputError(f"{_unusable(twice[0], f'is twice in {where}')}, or rename it")
    if not chosen:
        raise InputError(f"no columns chosen of {what}; columns: {shorten(there)}")
    options["rounds_in"] = rounds = {name: rounds[name] for name in order if rounds[name] or not fits[name]}
    most = max(map(len, rounds.values()), default=2)
    if most < 2 or any(len(each) < most and each != [patterns[name]] for name, each in rounds.items()):
        sizes = shorten(f"{name}={patterns[name]} fits {len(each)}" for name, each in rounds.items())
        raise InputError(f"rounds_in: {sizes} columns; each needs two or more, equally many, or one by its full name")
    place = {name: j for j, name in enumerate(names)}
    return [place[name] for name in chosen]


def _settled(column: Column, options: Mapping[str, Any]) -> Column:
    """The column without its missing values: texts that mean missing everywhere, or in this column."""
    missing = {text for owner, equals, text in options["missing_values"] if not equals or owner == column.name}
    missing |= set() if column.declared else MISSING_TEXT
    merged: dict[str, int] = {}
    moved = np.full(len(column.values) + 1, MISSING, np.int64)  # the last one for places that are missing already
    for place, text in enumerate(column.values):
        if text is not None and text.strip() not in missing:
            moved[place] = merged.setdefault(text, len(merged))
    return replace(column, places=moved[column.places], values=list(merged), decimal=options["decimal"])


def _rounds(columns: Sequence[Column], options: Mapping[str, Any], notes: list[str]) -> Iterator[Column]:
    """A column for each attribute, in which its rounds lie below each other; one round of what stays the same."""
    read, last = {column.name: column for column in columns}, options["missing_rounds"] == "last"
    for name, names in options["rounds_in"].items():
        numbers = [[*map(int, re.findall(r"\d+", each))] for each in names]
        known = numbers == sorted(numbers) or {*names} <= {*(options["columns"] or ())}  # as the user lists them
        if len({*map(_starred, names)}) == 1 and not known:  # such as h_1, h_10, h_2
            raise InputError(f"list the columns of {name!r} in their order (--columns): it is hardly {shorten(names)}")
        shown = shorten(names if len(names) <= FEW else [*names[:2], "…", names[-1]])
        notes += [f"{name} has {len(names)} rounds: {shown}"] if len(names) > 1 else []
        steps = [sum(b) - sum(a) for a, b in pairwise(numbers)]
        if 0 < min(steps, default=0) < max(steps) < 7:  # not where years begin: 202312, 202401, or 2023_12, 2024_01
            r = steps.index(max(steps))
            notes.append(f"{name} has no round between {names[r]} and {names[r + 1]}")
        rounds = [read[each] for each in names]
        values = {text: i for i, text in enumerate(dict.fromkeys(text for one in rounds for text in one.values))}
        places = np.concatenate([np.array([*map(values.get, c.values), MISSING])[c.places] for c in rounds])
        declared = rounds[0].declared if len({one.declared for one in rounds}) == 1 else "mixed"
        each = (column := _settled(Column(name, places, [*values], declared, rounds=names), options)).each
        for r in range(1, len(names)) if last else ():
            each[r] = np.where(each[r] == MISSING, each[r - 1], each[r])
        lacking = [at for at, held in zip(names, each, strict=True) if MISSING in held]
        if lacking and options["missing"] != "drop":
            helps = "" if last or len(names) < 2 else ", or take the value before (missing_rounds=last), or both"
            raise InputError(f"column {lacking[0]!r} has missing values: drop these users (missing=drop){helps}")
        yield column


def _made(
    what: str, read: Callable[..., Iterator[Any]], options: dict[str, Any], named: tuple[str, str, str | None]
) -> TableReport:
    """Reads and encodes the chosen columns; `named`: name and source of the data set, and its file."""
    notes: list[str] = []
    domains = {} if options["domain_file"] is None else read_domains(options["domain_file"])
    marks = options["missing_values"] = [entry.rpartition("=") for entry in options["missing_values"] or ()]
    owners = [*domains, *(owner for owner, equals, _ in marks if equals)]
    found = list(read(options, partial(_chosen, what, options, owners, notes)))
    problems = [str(column) for column in found if isinstance(column, InputError)]
    columns = [column for column in found if isinstance(column, Column)]
    rows = users = len(columns[0].places) if columns else 0
    if not rows or (problems and options["rounds_in"]):
        raise InputError("\n  ".join(problems) or f"{what} has no rows; at least one is needed")
    shapes = Counter(_starred(c.name) for c in columns if not (options["rounds_in"] or c.declared == "codes"))
    likely = [spelled(rounds_in=[shape]) for shape, times in shapes.items() if times > 2]
    notes += [f"numbered columns are attributes of their own; as rounds of one: {' '.join(likely)}"] if likely else []
    columns = [*_rounds(columns, options, notes)] if options["rounds_in"] else [_settled(c, options) for c in columns]
    if options["missing"] == "drop":
        keep = np.flatnonzero(np.all([(column.each != MISSING).all(axis=0) for column in columns], axis=0))
        if not len(keep):
            raise InputError(f"{what} has no row without a missing value: missing=drop leaves nobody of {rows:,}")
        columns, users = [replace(c, places=c.each[:, keep].ravel(), rows=keep) for c in columns], len(keep)
    reports, made, personal = [], [], []
    for column in columns:
        counts, labels, k = column.counts[:-1], column.values, len(column.present)
        chosen = column.name in (*options["bins"], *domains) or column.declared == "codes"
        held = np.sort(column.each, axis=0)  # [round, user]
        users_of = np.bincount(held[np.diff(held, axis=0, prepend=MISSING) != 0])  # each user once
        looks = "" if chosen else looks_personal([labels[i] for i in column.present], users_of[column.present])
        try:
            if looks and column.name not in (options["keep_identifiers"] or ()):
                personal.append(column)
                helps = f"or give it bins or a domain file, or keep it ({spelled(keep_identifiers=column.name)})"
                raise InputError(f"{_unusable(column.name, f'looks like {looks}, with {k:,} values')}, {helps}")
            codes, labels = _encoded(column, options, domains)
            counts, k = np.bincount(codes, minlength=len(labels)), len(labels)
            made.append((codes.astype(np.uint16), labels))
        except InputError as error:
            problems.append(str(error))
        least = 0 if column.declared == "codes" else options["min_count"] * len(column.rounds)
        common = () if looks or k > max(FEW, rows / 2) else _commonest(counts, labels, len(column.places), least)
        gaps = None if 0 < column.counts[-1] < least else int(column.counts[-1])
        reports.append(ColumnReport(column.name, looks.removeprefix("an ") or column.kind, k, gaps, common))
    data, texts = None, [labels for _, labels in made]
    if not problems:
        shape = max(len(column.rounds) for column in columns), users  # what stays the same is repeated
        table = np.stack([np.resize(codes, shape) for codes, _ in made], axis=1).T
        kind, codes = (EvolvingDataset, table) if options["rounds_in"] else (Dataset, table[:, :, 0])
        data = kind(codes, map(len, texts), [column.name for column in columns], named[0], texts, named[1])
    proposed = _proposed([c for c in columns if c.name not in domains], [c.name for c in personal], options)
    return TableReport(*named, rows, users, options["delimiter"], reports, problems, notes, proposed, data, columns)


def _proposed(columns: Sequence[Column], personal: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that leave out identifiers, put many numbers into bins and group rare values, with those given."""
    bins, rare = dict(options["bins"]), False
    for column in columns:
        places, texts = column.present, [column.values[place] for place in column.present]
        if column.declared == "codes" or column.name in (*personal, *bins):
            continue
        finite = all(map(math.isfinite, column.numbers.values()))
        if len(texts) > MANY and column.kind == "number" and not is_code(texts) and finite:
            largest = np.bincount(encode_bins(column, "10")[0]).max()
            bins[column.name] = "10q" if 2 * largest > len(column.places) else "10"
            continue
        few = int((column.counts[places] < RARE * len(column.places)).sum())
        rare |= len(texts) > MANY and 1 < few < len(texts) and column.kind == "text"
    found: dict[str, Any] = {"exclude": [*(options["exclude"] or ()), *personal]} if personal else {}
    found |= {"bins": bins} if bins != options["bins"] else {}
    return found | ({"group_rare": f"{RARE:.1%}"} if rare and options["group_rare"] is None else {})


def _encoded(column: Column, options: Mapping[str, Any], domains: Mapping[str, list[str]]) -> Encoded:
    name, missing = column.name, int(column.counts[-1])
    if options["missing"] == "error" and missing:
        raise InputError(f"column {name!r} has {missing:,} missing values; missing=category or drop would accept them")
    if column.declared == "codes":
        return _finish(column, {place: place for place in range(len(column.values))}, column.values)
    if name in options["bins"]:
        return encode_bins(column, options["bins"][name])
    if name in domains:
        return encode_domain(column, domains[name], options["domain_file"])
    return encode_values(column, options["group_rare"])


def read_domains(path: Path) -> dict[str, list[str]]:
    _check_file(path)
    found: dict[str, list[str]] = {}
    try:
        written = path.read_text(encoding="utf-8-sig")
        content = toml_loads(written) if path.suffix.lower() == ".toml" else json.loads(written)
        for column, values in content.items():
            if not isinstance(values, list) or not all(isinstance(value, (str, int, float)) for value in values):
                raise ValueError(f"{column!r} has no list of texts, numbers, true and false")
            found[column] = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    except (AttributeError, ValueError, RecursionError) as error:
        raise InputError(f"domain file {path} is not valid: {error}; it maps each column to its values") from None
    return found


# Reports


@dataclass(frozen=True)
class ColumnReport:
    """One column: its values as the options make them, or as they are if the column can't be used."""

    name: str
    kind: str  # number, text, date, true/false, mixed, empty or codes; identifier or free text, if it looks like that
    k: int  # different values, `(missing)` among them if it is one
    missing: int | None  # None of few users
    commonest: tuple[tuple[str, int | None, float | None], ...]  # label, users (times rounds), share; none of rare ones


@dataclass(frozen=True)
class TableReport:
    """What `describe` finds in a table; `print` shows it in words."""

    name: str
    source: str
    file: str | None  # as it was given
    rows: int
    users: int  # rows that are left, with missing=drop
    delimiter: str | None  # of a text file
    columns: Sequence[ColumnReport]
    problems: Sequence[str] = ()  # each must be resolved before the table can be used
    notes: Sequence[str] = ()  # what else to know
    proposed: dict[str, Any] = field(default_factory=dict)  # options that may help
    data: Dataset | None = field(default=None, repr=False, compare=False)  # None if there are problems
    read: Sequence[Column] = field(default=(), repr=False, compare=False)  # as it is, whatever the problems

    def dataset(self) -> Dataset:
        """The data set; all problems of the table in one error, a line each."""
        if self.data is None:
            raise InputError("\n  ".join(self.problems))
        return self.data

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {k: v for k, v in asdict(replace(self, data=None, read=())).items() if k not in ("data", "read")}

    def __str__(self) -> str:
        how = f"; delimiter {_show_delimiter(self.delimiter)}" if self.delimiter else ""
        users = f" ({self.users:,} without missing values)" if self.users != self.rows else ""
        d = len(self.columns)
        rows = [("column", "kind", "k", "missing", "commonest values")]
        for column in self.columns[:SHOWN_COLUMNS]:
            values = ", ".join(f"{_cut(label)} {_percent(share)}".rstrip() for label, _, share in column.commonest)
            share = None if column.missing is None else column.missing / self.users
            missing = "few" if share is None else _percent(share) if share else "–"
            rows.append((_cut(column.name), column.kind, f"{column.k:,}", missing, values))
        a, b, c, e = (max(len(row[i]) for row in rows) for i in range(4))
        lines = [f"{self.file or self.name}: {self.rows:,} rows{users}, {d:,} column{'s' * (d != 1)}{how}", ""]
        lines += [f"{row[0]:<{a}}  {row[1]:<{b}}  {row[2]:>{c}}  {row[3]:>{e}}  {row[4]}".rstrip() for row in rows]
        lines += [f"… and {d - SHOWN_COLUMNS:,} more columns"] if d > SHOWN_COLUMNS else []
        lines += ["", "Note:", *(f"  {text}" for text in self.notes)] if self.notes else []
        lines += ["", "Resolve before use:", *(f"  {text}" for text in self.problems)] if self.problems else []
        words = spelled(**self.proposed)
        lines += ["", "Proposed, besides the options given:", f"  {words}"] if words else []
        return "\n".join(lines)


def _commonest(counts: Places, labels: Sequence[str], users: int, least: int) -> tuple[Any, ...]:
    places, hidden = np.argsort(-counts, kind="stable")[:COMMONEST], withheld(counts, least)
    each = ((i, (None, None) if hidden[i] else (int(counts[i]), float(counts[i] / users))) for i in places if counts[i])
    return tuple((labels[i], *numbers) for i, numbers in each)


def _percent(share: float | None) -> str:
    return "" if share is None else "<0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}%"


def _cut(text: str) -> str:
    shown = text if text.isprintable() else repr(text)[1:-1]
    return shown if len(shown) <= WIDTH else f"{shown[: WIDTH - 1]}…"
