"""Your own data: a table in a file, as a data set."""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.table import text
from gpu_rsfd.datasets.table.arrow import Choose, parquet_names, read_csv, read_parquet
from gpu_rsfd.datasets.table.coded import coded_table, read_hdf5, read_npz
from gpu_rsfd.datasets.table.columns import (
    MISSING,
    Column,
    Encoded,
    domain_text,
    encode_bins,
    encode_domain,
    encode_values,
    shorten,
)
from gpu_rsfd.errors import InputError
from gpu_rsfd.textfiles import toml_loads

SUFFIXES = (*text.SUFFIXES, ".parquet", ".npz", ".h5")
OF_CODES = (".npz", ".h5")
MISSING_POLICIES = ("category", "drop", "error")

P = ParamSpec("P")


def _remembered(load: Callable[P, Dataset]) -> Callable[P, Dataset]:
    """The data set then knows how another process can load it from the same file."""

    @functools.wraps(load)
    def loaded(*given: P.args, **named: P.kwargs) -> Dataset:
        data = load(*given, **named)
        options: dict[str, Any] = inspect.signature(load).bind(*given, **named).arguments
        if options.get("domain_file") is not None:
            options["domain_file"] = os.path.abspath(options["domain_file"])
        data.origin = (os.path.abspath(options.pop("path")), {**options, "name": data.name})
        return data

    return loaded


@_remembered
def load_table(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    bins: Mapping[str, int | str] | None = None,
    missing: str = "category",
    domain_file: str | os.PathLike[str] | None = None,
    name: str | None = None,
    delimiter: str | None = None,
) -> Dataset:
    """A data set from a file: .csv, .tsv, .txt or .parquet with any values, .npz or .h5 with codes.

    `columns`: which, in this order (default: all).  `bins`: for numeric columns, `{"age": 10}` for ten bins of equal
    width, `{"age": "10q"}` for ten with about equally many users.  `missing`: a category of its own, drop the user, or
    an error; in a text file a cell is missing if it is empty, ?, NA, N/A, n/a, NaN, nan, NULL or null.
    `domain_file`: JSON or TOML, column -> list of values; a column that is not in it takes its values from the data.
    `name`: of the data set (default: the file's).  `delimiter`: of a text file, such as `;` or `tab` (default: the one
    of , ; tab | that fits the header and the first rows).
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"path is of type {type(path).__name__}; the path of a table is needed")
    if bins is not None and not isinstance(bins, Mapping):
        raise InputError(f"bins={bins!r} must map columns to numbers, such as {{'age': 10}}")
    path = Path(path)
    if missing not in MISSING_POLICIES:
        raise InputError(f"missing={missing!r} is unknown; available: {', '.join(MISSING_POLICIES)}")
    suffix = _suffix(path, delimiter)
    wanted = [columns] if isinstance(columns, str) else columns
    every: list[str] = []  # all columns of the file, chosen or not

    def choose(available: list[str]) -> list[str]:
        every.extend(available)
        return _chosen(path, available, wanted, bins or {})

    name = path.stem if name is None else name
    if suffix in OF_CODES:
        if bins or domain_file is not None:
            option = "bins" if bins else "domain_file"
            raise InputError(f"{option} needs a table of values (.csv or .parquet); {path} holds codes already")
        return _coded(path, name, choose)
    source = path.name
    if suffix == ".parquet":
        table = read_parquet(path, choose)
    else:
        content = text.read_text(path, None if delimiter is None else text.check_delimiter(delimiter))
        table = read_csv(content, choose, every=wanted is None)
        source += f" ({content.note})" if content.note else ""
    if not len(table[0].places):
        raise InputError(f"{path} has no rows; at least one is needed")
    domains = {} if domain_file is None else _read_domains(Path(domain_file))
    where = f"{domain_file}"
    for column in domains:
        if column not in every:
            raise InputError(f"{where} names the column {column!r}, which {path} has not; columns: {shorten(every)}")
    table = _treat_missing(path, table, missing)
    encoded = [_encode(column, bins or {}, domains, where) for column in table]
    return Dataset(
        np.stack([codes.astype(np.uint16) for codes, _ in encoded], axis=1),
        [len(labels) for _, labels in encoded],
        names=[column.name for column in table],
        name=name,
        labels=[labels for _, labels in encoded],
        source=source,
    )


def column_names(path: str | os.PathLike[str], delimiter: str | None = None) -> list[str]:
    """The columns of a file, in its order."""
    path = Path(path)
    suffix = _suffix(path, delimiter)
    if suffix in OF_CODES:
        return coded_table(path, (read_npz if suffix == ".npz" else read_hdf5)(path))[2]
    if suffix == ".parquet":
        return parquet_names(path)
    return text.read_text(path, None if delimiter is None else text.check_delimiter(delimiter)).header


def _suffix(path: Path, delimiter: str | None) -> str:
    """The suffix of a file that is there and that `delimiter` is for."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path} has the unknown suffix {path.suffix!r}; available: {', '.join(SUFFIXES)}")
    _check_file(path)
    if delimiter is not None and suffix not in text.SUFFIXES:
        raise InputError(f"delimiter={delimiter!r} is for text files ({', '.join(text.SUFFIXES)}); {path} has none")
    return suffix


def _check_file(path: Path) -> None:
    if not path.exists():
        raise InputError(f"no such file: {path}")
    if not path.is_file():
        raise InputError(f"{path} is not a file")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty")


def _chosen(path: Path, available: list[str], wanted: Sequence[str] | None, bins: Mapping[str, Any]) -> list[str]:
    names = list(available if wanted is None else wanted)
    listed = shorten(available)
    if not names:
        raise InputError(f"no columns chosen of {path}; columns: {listed}")
    for i, name in enumerate(names):
        if name not in available:
            raise InputError(f"{path} has no column {name!r}; columns: {listed}")
        if name in names[:i] or available.count(name) > 1:
            raise InputError(f"column {name!r} is given twice {'in ' + str(path) if wanted is None else 'in columns'}")
    for name in bins:
        if name not in names:
            raise InputError(f"bins are given for {name!r}, which is not among the columns: {shorten(names)}")
    return names


def _treat_missing(path: Path, table: list[Column], policy: str) -> list[Column]:
    if policy == "error":
        for column in table:
            if column.missing:
                row = column.row_of(MISSING)
                raise InputError(
                    f"column {column.name!r} has {column.missing:,} missing values, the first in row {row:,}; "
                    "missing=category or missing=drop would accept them"
                )
    if policy != "drop":
        return table
    keep = np.ones(len(table[0].places), bool)
    for column in table:
        keep &= column.places != MISSING
    if keep.all():
        return table
    if not keep.any():
        raise InputError(f"{path} has no row without a missing value: missing=drop leaves nobody of {len(keep):,}")
    rows = np.flatnonzero(keep)
    return [column.only(rows) for column in table]


def _encode(column: Column, bins: Mapping[str, Any], domains: dict[str, list[str]], where: str) -> Encoded:
    if column.name in bins and column.name in domains:
        raise InputError(f"column {column.name!r} has bins and a domain in {where}; only one of them is valid")
    if column.name in bins:
        return encode_bins(column, bins[column.name])
    if column.name in domains:
        return encode_domain(column, domains[column.name], where)
    return encode_values(column)


def _read_domains(path: Path) -> dict[str, list[str]]:
    _check_file(path)
    try:
        written = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".json":
            content = json.loads(written)
        elif path.suffix.lower() == ".toml":
            content = toml_loads(written)
        else:
            raise InputError(f"unknown suffix {path.suffix!r}; available: .json, .toml")
    except ValueError as error:  # both parsers' errors, and text that is not UTF-8
        raise InputError(f"domain file {path} is not valid: {error}") from None
    valid = "a domain file maps each column to its list of values"
    if not isinstance(content, dict) or not content:
        raise InputError(f"domain file {path} holds {type(content).__name__}; {valid}")
    for column, values in content.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"domain file {path}: {column!r} is {values!r}; {valid}")
    return {
        column: [domain_text(value, f"domain file {path}: {column!r}") for value in values]
        for column, values in content.items()
    }


def _coded(path: Path, name: str, choose: Choose) -> Dataset:
    arrays = (read_npz if path.suffix.lower() == ".npz" else read_hdf5)(path)
    codes, domain, names, labels = coded_table(path, arrays)
    places = [names.index(column) for column in choose(names)]
    for j in places:
        if domain[j] < 2:
            raise InputError(f"column {names[j]!r} of {path} has one value only; an attribute needs at least 2")
    return Dataset(
        codes[:, places],
        [domain[j] for j in places],
        names=[names[j] for j in places],
        name=name,
        labels=None if labels is None else [labels[j] for j in places],
        source=path.name,
    )
