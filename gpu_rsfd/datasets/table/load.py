"""Your own data: a table in a file or in memory, as a data set."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.options import ANY, OPTIONS, TEXT, check_options, with_options
from gpu_rsfd.datasets.table import text
from gpu_rsfd.datasets.table.arrow import Opened, is_frame, open_csv, open_frame, open_json, open_parquet
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

OF_JSON = (".jsonl", ".ndjson")
OF_CODES = {".npz": read_npz, ".h5": read_hdf5}
SUFFIXES = (*text.SUFFIXES, *OF_JSON, ".parquet", *OF_CODES)
PACKED = (*text.SUFFIXES, *OF_JSON)  # also with .gz
_SAVE_AS_CSV = "save the sheet as CSV (UTF-8) in the program that wrote it"
FOREIGN = {  # kinds of files that people have, and what to do with them
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods"), _SAVE_AS_CSV),
    **dict.fromkeys((".sav", ".dta", ".sas7bdat", ".rds", ".rdata"), "export it as CSV from the program that wrote it"),
    ".json": "write one JSON object per line, to a file that ends in .jsonl",
    **dict.fromkeys((".zip", ".gz"), "unpack it"),
    **dict.fromkeys((".feather", ".arrow"), "read it in Python, and give the Arrow table to load_table"),
}


@dataclass
class ReadTable:
    """A table with its columns encoded, and all that is wrong with it."""

    what: str  # in messages
    name: str
    source: str
    file: str | None = None  # as it was given
    encoding: str | None = None
    delimiter: str | None = None
    rows: int = 0
    guessed: str = ""  # where it is not UTF-8, if the encoding was guessed
    columns: list[Column] = field(default_factory=list)
    encoded: list[Encoded | InputError] = field(default_factory=list)  # one for each column
    unusable: dict[str, str] = field(default_factory=dict)  # columns that can't be read, and why
    nameless: list[str] = field(default_factory=list)  # columns without a name, and what they hold
    problems: list[str] = field(default_factory=list)  # of the options
    domains: dict[str, list[str]] = field(default_factory=dict)  # of the domain file
    coded: Dataset | None = None  # a file of codes

    def dataset(self) -> Dataset:
        """The data set; every problem of the table in one error, each in a line of its own if there are several."""
        wrong = [str(entry) for entry in self.encoded if isinstance(entry, InputError)]
        problems = [*self.problems, *self.nameless, *self.unusable.values(), *wrong]
        if self.guessed:
            todo = f"save it as UTF-8, or give its encoding, such as encoding={self.encoding}"
            problems.insert(0, f"{self.what} is not UTF-8 in {self.guessed}; {todo}")
        if len(problems) == 1:
            raise InputError(problems[0])
        if problems:
            raise InputError("\n  ".join([f"{self.what} has {len(problems)} problems:", *problems]))
        if self.coded is not None:
            return self.coded
        encoded = [entry for entry in self.encoded if isinstance(entry, Encoded)]
        return Dataset(
            np.stack([codes.astype(np.uint16) for codes, _ in encoded], axis=1),
            [len(labels) for _, labels in encoded],
            names=[column.name for column in self.columns],
            name=self.name,
            labels=[labels for _, labels in encoded],
            source=self.source,
        )


@with_options
def load_table(table: Any, *, name: str | None = None, **options: Any) -> Dataset:
    """Load a data set from a file, a data frame or an Arrow table.

    Parameters
    ----------
    table : path, DataFrame or Arrow table
        .csv, .tsv, .txt, .jsonl, .ndjson (these also with .gz) or .parquet with any values; .npz or .h5 with codes; or
        a pandas DataFrame, or any object with the Arrow PyCapsule interface.
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
    data = read_table(table, name, options).dataset()
    return remember(data, table, options)


def remember(data: Dataset, table: Any, options: Mapping[str, Any]) -> Dataset:
    """The data set then knows how another process can load it from the same file."""
    if isinstance(table, (str, os.PathLike)):
        options = {key: value for key, value in options.items() if value is not None}
        if "domain_file" in options:
            options["domain_file"] = os.path.abspath(options["domain_file"])
        data.origin = (os.path.abspath(table), {**options, "name": data.name})
    return data


def read_table(table: Any, name: str | None, given: Mapping[str, Any]) -> ReadTable:
    """A table from a file or in memory.  What can't be read at all is an error, anything else is among its problems."""
    options = check_options(given)
    if is_frame(table):
        kind, what = type(table).__name__, f"the {type(table).__name__}"
        _check_scope(what, "", given)
        read = ReadTable(what, "data" if name is None else name, f"{kind} in memory")
        opened = open_frame(table)
    elif isinstance(table, (str, os.PathLike)):
        path = Path(table)
        suffix = _suffix(path)
        _check_scope(str(path), suffix, given)
        file = os.fsencode(path.name).decode(errors="replace")  # in any locale
        stem = file[: -len(suffix)] if path.suffix.lower() == suffix else file[: -len(suffix + ".gz")]
        read = ReadTable(str(path), stem if name is None else name, file, str(path))
        if suffix in OF_CODES:
            read.coded = _coded(read, path, suffix, options)
            return read
        opened = _open(read, path, suffix, options)
    else:
        raise InputError(f"table is of type {type(table).__name__}; a path, a data frame or an Arrow table is needed")
    _read_columns(read, opened, options)
    return read


def _open(read: ReadTable, path: Path, suffix: str, options: Mapping[str, Any]) -> Opened:
    if suffix == ".parquet":
        return open_parquet(path)
    if suffix in OF_JSON:
        return open_json(path)
    content = text.read_text(path, options["delimiter"], options["encoding"])
    read.source += f" ({content.note})" if content.note else ""
    read.encoding, read.delimiter, read.guessed = content.encoding, content.delimiter, content.problem
    return open_csv(content)


def _read_columns(read: ReadTable, opened: Opened, options: Mapping[str, Any]) -> None:
    """Reads and encodes the chosen columns; `read` then has them, and their problems."""
    names = _chosen(read, opened.names, options)
    where = f"{options['domain_file']}"
    if options["domain_file"] is not None:
        read.domains = _read_domains(options["domain_file"])
    for column in read.domains:
        if column not in opened.names:
            listed = shorten(opened.names)
            read.problems.append(
                f"{where} names the column {column!r}, which {read.what} does not have; columns: {listed}"
            )
    found = opened.read(names, options["columns"] is None, frozenset(options["missing_values"] or ()))
    for name, entry in zip_longest(names, found):  # those without a name come last
        if isinstance(entry, Column):
            read.columns.append(replace(entry, as_text=name in (options["as_text"] or ())))
        elif name is not None:
            read.unusable[name] = str(entry)
        else:
            read.nameless.append(str(entry))
    if not read.columns:
        read.dataset()  # raises what is wrong
    read.rows = len(read.columns[0].places)
    if not read.rows:
        raise InputError(f"{read.what} has no rows; at least one is needed")
    if options["missing"] == "drop":
        read.columns = _drop_missing(read.what, read.columns)
    read.encoded = [_encoded(column, options, read.domains, where) for column in read.columns]


def column_names(path: Path, options: Mapping[str, Any]) -> list[str]:
    """The columns of a file, in its order."""
    suffix = _suffix(path)
    if suffix in OF_CODES:
        return coded_table(path, OF_CODES[suffix](path))[2]
    return _open(ReadTable(str(path), "", ""), path, suffix, check_options(options)).names


def parse_options(path: str | os.PathLike[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of `load_table` from a command line's or a spec file's options, by their keys (`domain-file`).

    A list is cut at its commas; a column of the file with a comma in its name is not.
    """
    found = {option.name: (option, given[option.key]) for option in OPTIONS if given.get(option.key) not in (None, [])}
    entries = [entry for _, value in found.values() for entry in (value if isinstance(value, list) else [value])]
    names: list[str] = []
    if any("," in str(entry) for entry in entries if not isinstance(entry, Mapping)):
        kept = {name: option.read(value, ()) for name, (option, value) in found.items() if option.scope == TEXT}
        names = column_names(Path(path), kept)
    return {name: option.read(value, names) for name, (option, value) in found.items()}


def _suffix(path: Path) -> str:
    """The suffix of a file that is there and of a known kind."""
    _check_file(path)
    suffix = text.suffix_of(path) if text.suffix_of(path) in PACKED else path.suffix.lower()
    if suffix not in SUFFIXES:
        hint = FOREIGN.get(suffix, "if it is a text table, rename it to .csv")
        raise InputError(
            f"{path} has the unknown suffix {path.suffix!r}; {hint}; available: {', '.join(SUFFIXES)}, and .gz of text"
        )
    return suffix


def _check_scope(what: str, suffix: str, given: Mapping[str, Any]) -> None:
    """Refuses options that this kind of table has no use for."""
    for option in OPTIONS:
        value = given.get(option.name)
        if not option.given(value) or option.scope == ANY:
            continue
        if option.scope == TEXT and suffix not in text.SUFFIXES:
            raise InputError(f"{option.name}={value!r} is for text files ({', '.join(text.SUFFIXES)}); {what} has none")
        if suffix in OF_CODES:
            raise InputError(f"{option.name} needs a table of values (.csv or .parquet); {what} holds codes already")


def _check_file(path: Path) -> None:
    if not path.exists():
        raise InputError(f"no such file: {path}")
    if not path.is_file():
        raise InputError(f"{path} is not a file")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty")


def _chosen(read: ReadTable, available: list[str], options: Mapping[str, Any]) -> list[str]:
    """The columns to read; names that don't fit are among the problems."""
    wanted, excluded = options["columns"], options["exclude"] or []
    listed = shorten(available)
    names: list[str] = []
    for name in available if wanted is None else wanted:
        if wanted is None and name in excluded:
            continue
        if name not in available:
            read.problems.append(f"{read.what} has no column {name!r}; columns: {listed}")
        elif name in names:
            read.problems.append(f"column {name!r} is given twice in columns")
        elif available.count(name) > 1:
            read.unusable[name] = (
                f"column {name!r} is given twice in {read.what}: leave it out (exclude={name}), or rename it there"
            )
        elif name in excluded:
            read.problems.append(f"column {name!r} is in columns and in exclude; only one of them is valid")
        else:
            names.append(name)
    for name in excluded:
        if name not in available:
            read.problems.append(f"exclude names {name!r}, which is no column of {read.what}; columns: {listed}")
    for option in ("bins", "merge_spellings", "as_text") if names else ():
        for name in options[option] or ():
            if name not in names:
                read.problems.append(
                    f"{option} are given for {name!r}, which is not among the columns: {shorten(names)}"
                )
    if not names and not read.problems and not read.unusable:
        raise InputError(f"no columns chosen of {read.what}; columns: {listed}")
    return names


def _drop_missing(what: str, columns: list[Column]) -> list[Column]:
    keep = np.ones(len(columns[0].places), bool)
    for column in columns:
        keep &= column.places != MISSING
    if keep.all():
        return columns
    if not keep.any():
        raise InputError(f"{what} has no row without a missing value: missing=drop leaves nobody of {len(keep):,}")
    rows = np.flatnonzero(keep)
    return [column.only(rows) for column in columns]


def _encoded(
    column: Column, options: Mapping[str, Any], domains: Mapping[str, list[str]], where: str
) -> Encoded | InputError:
    name, bins = column.name, options["bins"]
    try:
        if options["missing"] == "error" and column.missing:
            raise InputError(
                f"column {name!r} has {column.missing:,} missing values, the first in row {column.row_of(MISSING):,}; "
                "missing=category or missing=drop would accept them"
            )
        ways = [option for option in ("bins", "merge_spellings", "as_text") if name in (options[option] or ())]
        ways += [f"a domain in {where}"] if name in domains else []
        if len(ways) > 1 and ways != ["merge_spellings", "as_text"]:
            raise InputError(f"column {name!r} has {' and '.join(ways)}; only one of them is valid")
        if name in bins:
            return encode_bins(column, bins[name])
        if name in domains:
            return encode_domain(column, domains[name], where)
        return encode_values(
            column,
            natural=options["order"] == "natural",
            merge=name in (options["merge_spellings"] or ()),
            rare=options["group_rare"],
        )
    except InputError as error:
        return error


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


def _coded(read: ReadTable, path: Path, suffix: str, options: Mapping[str, Any]) -> Dataset:
    """A file of codes; its problems are an error."""
    codes, domain, names, labels = coded_table(path, OF_CODES[suffix](path))
    places = [names.index(column) for column in _chosen(read, names, options)]
    read.problems += [
        f"column {names[j]!r} of {path} has one value only; an attribute needs at least 2: leave it out "
        f"(exclude={names[j]})"
        for j in places
        if domain[j] < 2
    ]
    if read.problems:
        return read.dataset()
    return Dataset(
        codes[:, places],
        [domain[j] for j in places],
        names=[names[j] for j in places],
        name=read.name,
        labels=None if labels is None else [labels[j] for j in places],
        source=path.name,
    )
