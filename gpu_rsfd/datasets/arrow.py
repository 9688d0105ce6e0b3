"""CSV and Parquet through pyarrow, whose dictionary encoding does the work."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gpu_rsfd.datasets.columns import MISSING, Column
from gpu_rsfd.errors import InputError

MISSING_TEXT = frozenset({"", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null"})  # in a CSV file

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


def read_csv(path: Path, choose: Choose) -> list[Column]:
    """All cells as text: whether a column is numeric is decided by all of its values, not by the first block's."""
    arrow = _arrow()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = [name.strip() for name in next(csv.reader(file), [])]
        names = choose(header)
        table = arrow.csv.read_csv(
            path,
            read_options=arrow.csv.ReadOptions(column_names=header, skip_rows=1),
            convert_options=arrow.csv.ConvertOptions(
                include_columns=names,
                column_types={name: arrow.dictionary(arrow.int32(), arrow.string()) for name in names},
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except (arrow.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a readable CSV file: {_first_line(error)}") from None
    return [_text_column(name, *_dictionary(table.column(name))) for name in names]


def read_parquet(path: Path, choose: Choose) -> list[Column]:
    """Columns with the types that the file declares; only nulls and NaN are missing."""
    arrow = _arrow()
    try:
        with arrow.parquet.ParquetFile(path) as file:
            names = choose(list(file.schema_arrow.names))
            table = file.read(columns=names)
    except (arrow.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a readable Parquet file: {_first_line(error)}") from None
    return [_typed_column(arrow, name, table.column(name)) for name in names]


def _dictionary(chunks: Any) -> tuple[Any, Any]:
    """(places, distinct values) of a dictionary-encoded column."""
    array = chunks.unify_dictionaries().combine_chunks()
    return array.indices.fill_null(MISSING).to_numpy(zero_copy_only=False).astype(np.int64), array.dictionary


def _text_column(name: str, places: Any, dictionary: Any) -> Column:
    merged: dict[str, int] = {}
    moved = np.array(
        [
            MISSING if text in MISSING_TEXT else merged.setdefault(text, len(merged))
            for text in map(str.strip, dictionary.to_pylist())
        ],
        np.int64,
    )
    return Column(name, moved[places], list(merged), strict=True)


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
