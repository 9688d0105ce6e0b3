"""CSV and Parquet through pyarrow, whose dictionary encoding does the work."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpu_rsfd.datasets.table.columns import MISSING, Column, are_decimal_commas
from gpu_rsfd.datasets.table.text import TextTable, check_encoding, check_rows, line_count
from gpu_rsfd.errors import InputError

MISSING_TEXT = frozenset({"", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null"})  # in a CSV file

BLOCK_BYTES = 1 << 20  # of a CSV file, parsed at a time

Choose = Callable[[list[str]], list[str]]  # from the file's columns to the wanted ones


class MissingExtraError(InputError):
    """An optional package is not installed; the message names the extra that brings it."""


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(
            f"CSV and Parquet files need pyarrow, which is not installed ({error}); install the extra data: "
            'scripts/install data in a clone, or pip install "gpu-rsfd[data]"'
        ) from None
    return pyarrow


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def read_csv(table: TextTable, choose: Choose, *, every: bool) -> list[Column]:
    """All cells as text: whether a column is numeric is decided by all of its values, not by the first block's.

    `every`: no columns were asked for, so one without a name is refused, unless it is empty (a trailing delimiter).
    """
    arrow = _arrow()
    names = choose([name for name in table.header if name])
    if not line_count(table) or not table.content[table.start :].strip():
        raise InputError(f"{table.path} has no rows; at least one is needed")
    places = [table.header.index(name) for name in names]
    unnamed = [place for place, name in enumerate(table.header) if not name] if every else []
    try:
        cells = _cells(arrow, table, [*places, *unnamed], BLOCK_BYTES)
    except arrow.ArrowInvalid as error:
        check_encoding(table)
        check_rows(table)
        if "straddl" not in str(error):
            raise InputError(f"{table.path} is not a readable CSV file: {_first_line(error)}") from None
        cells = _cells(arrow, table, [*places, *unnamed], len(table.content))  # a row longer than a block
    if cells.num_rows != line_count(table):  # blank lines, newlines within quotes, or quotes gone wrong
        check_rows(table, cells.num_rows)
    columns = [
        _text_column(name, *_dictionary(cells.column(str(place))), decimal_comma=table.delimiter != ",")
        for name, place in zip([*names, *("" for _ in unnamed)], [*places, *unnamed], strict=True)
    ]
    for place, column in zip(unnamed, columns[len(names) :], strict=True):
        if column.values:
            raise InputError(
                f"column {place + 1} of {table.path} has no name in the header, but holds {column.values[0]!r} "
                f"(row {column.row_of(0):,}); name it, or choose columns"
            )
    return columns[: len(names)]


def _cells(arrow: Any, table: TextTable, places: list[int], block: int) -> Any:
    """The cells of some columns, which are named by their places: names may occur twice in a file."""
    text = arrow.dictionary(arrow.int32(), arrow.string())
    return arrow.csv.read_csv(
        arrow.BufferReader(arrow.py_buffer(table.content).slice(table.start)),
        read_options=arrow.csv.ReadOptions(
            column_names=[str(place) for place in range(len(table.header))], block_size=min(block, 2**31 - 1)
        ),
        parse_options=arrow.csv.ParseOptions(delimiter=table.delimiter, newlines_in_values=True),
        convert_options=arrow.csv.ConvertOptions(
            include_columns=[str(place) for place in places],
            column_types={str(place): text for place in places},
            null_values=[],
            strings_can_be_null=False,
        ),
    )


def read_parquet(path: Path, choose: Choose) -> list[Column]:
    """Columns with the types that the file declares; only nulls and NaN are missing."""
    arrow = _arrow()
    with _parquet(arrow, path) as file:
        names = choose(list(file.schema_arrow.names))
        table = file.read(columns=names)
    return [_typed_column(arrow, name, table.column(name)) for name in names]


def parquet_names(path: Path) -> list[str]:
    with _parquet(_arrow(), path) as file:
        return list(file.schema_arrow.names)


@contextlib.contextmanager
def _parquet(arrow: Any, path: Path) -> Iterator[Any]:
    try:
        with arrow.parquet.ParquetFile(path) as file:
            yield file
    except (arrow.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a readable Parquet file: {_first_line(error)}") from None


def _dictionary(chunks: Any) -> tuple[Any, Any]:
    """(places, distinct values) of a dictionary-encoded column."""
    array = chunks.unify_dictionaries().combine_chunks()
    return array.indices.fill_null(MISSING).to_numpy(zero_copy_only=False).astype(np.int64), array.dictionary


def _text_column(name: str, places: Any, dictionary: Any, *, decimal_comma: bool) -> Column:
    merged: dict[str, int] = {}
    moved = np.array(
        [
            MISSING if text in MISSING_TEXT else merged.setdefault(text, len(merged))
            for text in map(str.strip, dictionary.to_pylist())
        ],
        np.int64,
    )
    values = list(merged)
    return Column(name, moved[places], values, strict=True, decimal_comma=decimal_comma and are_decimal_commas(values))


def _typed_column(arrow: Any, name: str, chunks: Any) -> Column:
    types = arrow.types
    if types.is_dictionary(chunks.type):
        value_type = chunks.type.value_type
    else:
        value_type = chunks.type
        if types.is_nested(value_type) or types.is_binary(value_type) or types.is_null(value_type):
            raise InputError(f"column {name!r} has type {value_type}; text, numbers, true/false and dates are valid")
        chunks = chunks.dictionary_encode()
    places, dictionary = _dictionary(chunks)
    merged: dict[str, int] = {}
    moved = np.full(len(dictionary) + 1, MISSING, np.int64)  # the last one for places that are missing already
    if types.is_floating(value_type) or types.is_boolean(value_type) or types.is_integer(value_type):
        texts = [None if v is None or v != v else _plain(v) for v in dictionary.to_pylist()]
    else:
        texts = dictionary.cast(arrow.string()).to_pylist()
    for place, text in enumerate(texts):
        if text is not None:
            moved[place] = merged.setdefault(text, len(merged))
    return Column(name, moved[places], list(merged))


def _plain(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
