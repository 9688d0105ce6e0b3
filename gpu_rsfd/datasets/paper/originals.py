"""The paper's real data sets from the files that their publishers offer: checked, cleaned, coded."""

from __future__ import annotations

import csv
import hashlib
from array import array
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.paper.published import nursery, nursery_rules, published_counts
from gpu_rsfd.errors import InputError

Rows = Iterator[list[str]]

SHA256 = {
    "nursery.data": "8e0389c3dd37590248a921c2726d869ee96b817761a35eb8416afa24f31f931d",
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "census-income.data": "3676a81db7d3528f3f8b9f3c699d0f0aa28db45e6e994fa0b8ed38327539ee86",
    "census-income.test": "98402b1ab879573d0a7f38a699a40258080e25e33d3401e7bf9c96d3fa0fab8c",
}  # adult.test is found with and without its first line, Personal_table.csv has no fixed edition: their counts decide

ADULT_COLUMNS = (1, 3, 5, 6, 7, 8, 9, 13, 14)
CENSUS_COLUMNS = (*range(1, 5), *range(6, 16), *range(19, 24), *range(25, 30), *range(31, 39), 40)


class Original(NamedTuple):
    files: tuple[str, ...]
    rows: Callable[[Path], Rows]  # the cleaned rows of one file, the set's attributes only


def _fields(path: Path, width: int) -> Rows:
    """The comma-separated fields of each line, blanks around them dropped; empty lines and `|` comments skipped."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("|"):
                continue
            fields = [field.strip() for field in line.split(",")]
            if len(fields) != width:
                raise InputError(f"{path} line {number} has {len(fields)} fields; {width} are valid: incomplete file?")
            yield fields


def nursery_rows(path: Path) -> Rows:
    return _fields(path, 9)


def adult_rows(path: Path) -> Rows:
    """Rows with an unknown value are dropped; the test file ends its classes in a dot."""
    for fields in _fields(path, 15):
        if "?" not in fields:
            fields[14] = fields[14].rstrip(".")
            yield [fields[i] for i in ADULT_COLUMNS]


def census_rows(path: Path) -> Rows:
    """No row is dropped: `?` and `NA` are values like any other."""
    for fields in _fields(path, 42):
        yield [fields[i] for i in CENSUS_COLUMNS]


def ms_fimu_rows(path: Path) -> Rows:
    """The attributes by name.  Lines with too many fields are skipped, as the paper's authors did."""
    names = [a["name"] for a in published_counts("ms-fimu")["attributes"]]
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines)
        header = [field.strip() for field in next(reader, [])]
        for name in names:
            if name not in header:
                raise InputError(f"{path} has no column {name!r}; columns: {', '.join(header) or 'none'}")
        places = [header.index(name) for name in names]
        for fields in reader:
            if fields and len(fields) < len(header):
                raise InputError(
                    f"{path} line {reader.line_num} has {len(fields)} fields; {len(header)} are valid: incomplete file?"
                )
            if len(fields) == len(header):
                yield [fields[i].strip() for i in places]


ORIGINALS = {
    "nursery": Original(("nursery.data",), nursery_rows),
    "adult": Original(("adult.data", "adult.test"), adult_rows),
    "ms-fimu": Original(("Personal_table.csv",), ms_fimu_rows),
    "census-income": Original(("census-income.data", "census-income.test"), census_rows),
}


def has_originals(name: str, folder: Path) -> bool:
    """Whether any of a set's original files is in `folder`."""
    return any((folder / file).is_file() for file in ORIGINALS[name].files)


def from_originals(name: str, folder: Path) -> Dataset:
    """The real rows of a set from its original files in `folder`."""
    original = ORIGINALS[name]
    paths = [folder / file for file in original.files]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise InputError(f"{folder} is incomplete for {name}: no {missing[0]}; needed: {', '.join(original.files)}")
    for path in paths:
        _check_sha256(path)
    attributes = nursery_rules()["attributes"] if name == "nursery" else published_counts(name)["attributes"]
    places: list[dict[str, int]] = [{} for _ in attributes]  # value -> code, in order of appearance
    codes = [array("I") for _ in attributes]
    where = f"{' and '.join(original.files)} in {folder}"
    try:
        for row in chain.from_iterable(map(original.rows, paths)):
            for value, place, column in zip(row, places, codes, strict=True):
                column.append(place.setdefault(value, len(place)))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{where}: not the text that is expected: {error}") from None
    if name == "nursery":
        return _checked_nursery(places, codes, where)
    users = published_counts(name)["users"]
    if len(codes[0]) != users:
        raise InputError(f"{where}: {len(codes[0]):,} users after cleaning; {name} has {users:,}: incomplete file?")
    pairs = [_coded(*column, where) for column in zip(attributes, places, codes, strict=True)]
    return Dataset(
        np.stack([column for column, _ in pairs], axis=1),
        [len(labels) for _, labels in pairs],
        names=[a["name"] for a in attributes],
        name=name,
        labels=[labels for _, labels in pairs],
        source=f"rows of {' and '.join(original.files)}",
    )


def _check_sha256(path: Path) -> None:
    expected = SHA256.get(path.name)
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    if expected is not None and digest.hexdigest() != expected:
        raise InputError(
            f"{path} is not the original file, or not all of it: sha256={digest.hexdigest()}; valid: {expected}"
        )


def _coded(
    attribute: dict[str, Any], place: dict[str, int], codes: array[int], where: str
) -> tuple[npt.NDArray[np.uint16], list[str]]:
    """A column in the published order of labels, after a check that its counts are the published ones."""
    labels: list[str] = attribute["labels"]
    if "placeholders" in attribute and len(place) == len(labels):
        labels = sorted(place)  # the counts are known in the order of the names, most of the names are not
    for value in place:
        if value not in labels:
            raise InputError(
                f"{where}: {attribute['name']!r} has the unknown value {value!r}; valid: {', '.join(labels)}"
            )
    final = np.array([labels.index(value) for value in place], np.uint16)
    column = final[np.frombuffer(codes, np.uintc)]
    for label, count, expected in zip(
        labels, np.bincount(column, minlength=len(labels)), attribute["counts"], strict=True
    ):
        if count != expected:
            raise InputError(
                f"{where}: {attribute['name']!r} is {label!r} for {count:,} users; the published count is {expected:,}"
            )
    return column, labels


def _checked_nursery(places: list[dict[str, int]], codes: list[array[int]], where: str) -> Dataset:
    """The rules give every row, so the file can only confirm them."""
    data = nursery()
    for j, (place, column) in enumerate(zip(places, codes, strict=True)):
        values = np.array(list(place), dtype=np.str_)[np.frombuffer(column, np.uintc)]
        assert data.labels is not None
        expected = np.array(data.labels[j])[data.column(j, 0, data.n)]
        if not np.array_equal(values, expected):
            raise InputError(
                f"{where}: {data.names[j]!r} is not what the rules of Nursery give; valid: the {data.n:,} rows"
            )
    data.source = "rows of nursery.data"
    return data
