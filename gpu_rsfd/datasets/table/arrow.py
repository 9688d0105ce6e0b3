"""Tables through pyarrow, whose dictionary encoding does the work: CSV, JSON lines, Parquet, frames in memory.

Without pyarrow, CSV is read by Python's own reader, which is slower.
"""

from __future__ import annotations

import contextlib
import csv
import re
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.datasets.table.columns import MISSING, Column, are_decimal_commas
from gpu_rsfd.datasets.table.text import TextTable, check_rows, line_count, read_bytes, records
from gpu_rsfd.errors import InputError

MISSING_TEXT = frozenset({"", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null"})  # in a CSV file

BLOCK_BYTES = 1 << 26  # of a text file, parsed at a time: no row may be longer
EXACT = 2**53  # floats up to here hold every whole number

Missing = frozenset[str]


class Opened(NamedTuple):
    """A table whose columns are known and not yet read.

    `read(names, every, missing)`: the columns with these names, or what is wrong with them.  `every`: no columns were
    asked for.  `missing`: texts that mean missing.
    """

    names: list[str]
    read: Callable[[list[str], bool, Missing], list[Column | InputError]]


class MissingExtraError(InputError):
    """An optional package is not installed; the message names the extra that brings it."""


def _arrow(what: str) -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.json
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(
            f"{what} need pyarrow, which is not installed ({error}); install the extra data: "
            'scripts/install data in a clone, or pip install "gpu-rsfd[data]"'
        ) from None
    return pyarrow


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def open_csv(table: TextTable) -> Opened:
    """All cells as text: whether a column is numeric is decided by all of its values, not by the first block's."""
    return Opened(
        [name for name in table.header if name], lambda names, every, missing: _read_csv(table, names, every, missing)
    )


def _read_csv(table: TextTable, names: list[str], every: bool, missing: Missing) -> list[Column | InputError]:
    """The columns of a text table; one without a name is refused, unless it is empty (a trailing delimiter)."""
    if not line_count(table) or not table.content[table.start :].strip():
        raise InputError(f"{table.path} has no rows; at least one is needed")
    places = [table.header.index(name) for name in names]
    unnamed = [place for place, name in enumerate(table.header) if not name] if every else []
    try:
        cells = _arrow_cells(_arrow("CSV files"), table, [*places, *unnamed])
    except MissingExtraError:
        cells = _plain_cells(table, [*places, *unnamed])
    columns = [
        _text_column(name, held, texts, missing | MISSING_TEXT, decimal_comma=table.delimiter != ",")
        for name, (held, texts) in zip([*names, *("" for _ in unnamed)], cells, strict=True)
    ]
    nameless = [
        InputError(
            f"column {place + 1} of {table.path} has no name in the header, but holds {column.values[0]!r} "
            f"(row {column.row_of(0):,}); name it, or choose columns"
        )
        for place, column in zip(unnamed, columns[len(names) :], strict=True)
        if column.values
    ]
    return [*columns[: len(names)], *nameless]


def _arrow_cells(arrow: Any, table: TextTable, places: list[int]) -> list[tuple[Any, list[str]]]:
    """(places, distinct texts) of some columns, which are named by their places: names may occur twice in a file."""
    named, text = [str(place) for place in range(len(table.header))], arrow.dictionary(arrow.int32(), arrow.string())
    try:
        cells = arrow.csv.read_csv(
            arrow.BufferReader(arrow.py_buffer(table.content).slice(table.start)),
            read_options=arrow.csv.ReadOptions(column_names=named, block_size=BLOCK_BYTES),
            parse_options=arrow.csv.ParseOptions(delimiter=table.delimiter, newlines_in_values=True),
            convert_options=arrow.csv.ConvertOptions(
                include_columns=[str(place) for place in places],
                column_types=dict.fromkeys(map(str, places), text),
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except arrow.ArrowInvalid as error:
        check_rows(table)
        raise InputError(f"{table.path} is not a readable CSV file: {_first_line(error)}") from None
    if cells.num_rows != line_count(table):  # blank lines, newlines within quotes, or quotes gone wrong
        check_rows(table, cells.num_rows)
    found = (_dictionary(cells.column(str(place))) for place in places)
    return [(held, dictionary.to_pylist()) for held, dictionary in found]


def _plain_cells(table: TextTable, places: list[int]) -> list[tuple[Any, list[str]]]:
    """The same without pyarrow."""
    held = [array("q") for _ in places]
    known: list[dict[str, int]] = [{} for _ in places]
    try:
        for _, _, record in records(table):
            if len(record) != len(table.header):
                check_rows(table)
            for cells, texts, place in zip(held, known, places, strict=True):
                cells.append(texts.setdefault(record[place], len(texts)))
    except csv.Error as error:
        raise InputError(f"{table.path} has a cell that needs pyarrow ({error}): install the extra data") from None
    return [(np.array(cells, np.int64), list(texts)) for cells, texts in zip(held, known, strict=True)]


def open_parquet(path: Path) -> Opened:
    """Columns with the types that the file declares; only nulls and NaN are missing."""
    arrow = _arrow("Parquet files")

    def read(names: list[str], every: bool, missing: Missing) -> list[Column | InputError]:
        with _parquet(arrow, path) as file:
            table = file.read(columns=names)
        return _typed_columns(arrow, table, names, missing)

    with _parquet(arrow, path) as file:
        return Opened(list(file.schema_arrow.names), read)


@contextlib.contextmanager
def _parquet(arrow: Any, path: Path) -> Iterator[Any]:
    try:
        with arrow.parquet.ParquetFile(path) as file:
            yield file
    except (arrow.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a readable Parquet file: {_first_line(error)}") from None


def open_json(path: Path) -> Opened:
    """One JSON object per line, with the types that JSON has; text that looks like a date stays text."""
    arrow = _arrow("JSON lines")
    content = read_bytes(path).removeprefix(b"\xef\xbb\xbf")
    if not content.strip():
        raise InputError(f"{path} has no rows; at least one is needed")

    def read(*texts: str) -> Any:
        schema = arrow.schema([(name, arrow.string()) for name in texts])
        return arrow.json.read_json(
            arrow.BufferReader(content),
            read_options=arrow.json.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=arrow.json.ParseOptions(explicit_schema=schema),
        )

    try:
        table = read()
        moments = [field.name for field in table.schema if arrow.types.is_timestamp(field.type)]
        if moments:
            table = read(*moments).select(table.column_names)
    except arrow.ArrowInvalid as error:
        raise InputError(
            f"{path} is not a readable file of JSON lines: {_first_line(error)} (from 0, in each "
            f"{BLOCK_BYTES >> 20} MiB); needed: one JSON object per line, and one type per column"
        ) from None
    return Opened(
        list(table.column_names),
        lambda names, every, missing: _typed_columns(arrow, table, names, missing, exact=True),
    )


def is_frame(table: object) -> bool:
    """Whether a table in memory can be taken: a pandas DataFrame, or anything with the Arrow PyCapsule interface."""
    return not isinstance(table, type) and (hasattr(table, "__arrow_c_stream__") or _is_pandas(table))


def _is_pandas(table: object) -> bool:
    kind = type(table)
    return kind.__module__.partition(".")[0] == "pandas" and kind.__name__ == "DataFrame"


def open_frame(frame: Any) -> Opened:
    """A table in memory, with the types of its columns; the index of a pandas DataFrame is left out."""
    arrow = _arrow("data frames")
    try:
        table = arrow.Table.from_pandas(frame, preserve_index=False) if _is_pandas(frame) else arrow.table(frame)
    except (arrow.ArrowException, TypeError, ValueError) as error:
        why = re.sub(r"[(),'\"]{2,}", "", "; ".join(map(str, error.args)))
        raise InputError(f"the {type(frame).__name__} can't be read: {why}; convert the column to one type") from None
    return Opened(list(table.column_names), lambda names, every, missing: _typed_columns(arrow, table, names, missing))


def _dictionary(chunks: Any) -> tuple[Any, Any]:
    """(places, distinct values) of a dictionary-encoded column."""
    array = chunks.unify_dictionaries().combine_chunks()
    return array.indices.cast("int64").fill_null(MISSING).to_numpy(zero_copy_only=False), array.dictionary


def _text_column(name: str, places: Any, texts: list[str], missing: Missing, *, decimal_comma: bool) -> Column:
    merged: dict[str, int] = {}
    moved = np.array(
        [MISSING if text in missing else merged.setdefault(text, len(merged)) for text in map(str.strip, texts)],
        np.int64,
    )
    values = list(merged)
    return Column(name, moved[places], values, decimal_comma=decimal_comma and are_decimal_commas(values))


def _typed_columns(
    arrow: Any, table: Any, names: list[str], missing: Missing, *, exact: bool = False
) -> list[Column | InputError]:
    """`exact`: floats that may be rounded whole numbers are refused."""

    def column(name: str) -> Column | InputError:
        try:
            return _typed_column(arrow, name, table.column(name), missing, exact)
        except InputError as error:
            return error

    return [column(name) for name in names]


def _typed_column(arrow: Any, name: str, chunks: Any, missing: Missing, exact: bool) -> Column:
    types = arrow.types
    if types.is_dictionary(chunks.type):
        value_type = chunks.type.value_type
    else:
        value_type = chunks.type
        if types.is_null(value_type):
            return Column(name, np.full(len(chunks), MISSING, np.int64), [], declared="text")
        if types.is_nested(value_type) or types.is_binary(value_type):
            raise InputError(
                f"column {name!r} has type {value_type}; text, numbers, true/false and dates are valid: "
                f"leave it out (exclude={name})"
            )
        chunks = chunks.dictionary_encode()
    places, dictionary = _dictionary(chunks)
    merged: dict[str, int] = {}
    moved = np.full(len(dictionary) + 1, MISSING, np.int64)  # the last one for places that are missing already
    if types.is_floating(value_type) or types.is_boolean(value_type) or types.is_integer(value_type):
        held = [None if v != v else v for v in dictionary.to_pylist()]
        if exact and any(isinstance(v, float) and abs(v) > EXACT for v in held):
            raise InputError(f"column {name!r} has numbers beyond 2**53, which JSON may round; write them as text")
        texts = [None if v is None else _plain(v) for v in held]
    else:
        texts = dictionary.cast(arrow.string()).to_pylist()
    for place, text in enumerate(texts):
        if text is not None and (not missing or text.strip() not in missing):
            moved[place] = merged.setdefault(text, len(merged))
    return Column(name, moved[places], list(merged), declared=_declared(types, value_type))


def _declared(types: Any, value_type: Any) -> str:
    if types.is_date(value_type) or types.is_timestamp(value_type):
        return "date"
    if types.is_boolean(value_type):
        return "true/false"
    numbers = (types.is_floating, types.is_integer, types.is_decimal)
    return "number" if any(is_kind(value_type) for is_kind in numbers) else "text"


def _plain(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
