"""The paper's real data sets: from their rules, their published counts, or the files that their publishers offer."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from itertools import chain
from pathlib import Path
from sys import intern
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError
from gpu_rsfd.tape import Codes, Tape, code_dtype

PUBLISHED = ("nursery", "adult", "ms-fimu", "census-income")
ORIGINALS = {  # data set -> its original files
    "nursery": ("nursery.data",),
    "adult": ("adult.data", "adult.test"),
    "ms-fimu": ("Personal_table.csv",),
    "census-income": ("census-income.data", "census-income.test"),
}
SHA256 = {
    "nursery.data": "8e0389c3dd37590248a921c2726d869ee96b817761a35eb8416afa24f31f931d",
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "census-income.data": "3676a81db7d3528f3f8b9f3c699d0f0aa28db45e6e994fa0b8ed38327539ee86",
    "census-income.test": "98402b1ab879573d0a7f38a699a40258080e25e33d3401e7bf9c96d3fa0fab8c",
}  # adult.test is found with and without its first line, Personal_table.csv has no fixed edition: their counts decide
SHAPES = {  # fields of a line, and the places of the attributes among them
    "adult": (15, (1, 3, 5, 6, 7, 8, 9, 13, 14)),
    "census-income": (42, (*range(1, 5), *range(6, 16), *range(19, 24), *range(25, 30), *range(31, 39), 40)),
}

_ORDER_SEED = 0  # of the DATA stream that spreads a column's values over the users


@lru_cache
def _resource(file: str) -> Any:
    return json.loads((resources.files(__package__) / "resources" / file).read_text(encoding="utf-8"))


def published_counts(name: str) -> dict[str, Any]:
    """`users`, and of each of the `attributes` its `name`, `labels` and `counts`; `placeholders` mark unknown names."""
    return _resource("published.json")[name]


def _dataset(codes: npt.ArrayLike, attributes: list[dict[str, Any]], name: str, source: str) -> Dataset:
    labels = [attribute["labels"] for attribute in attributes]
    return Dataset(codes, map(len, labels), [attribute["name"] for attribute in attributes], name, labels, source)


def nursery(source: str = "rows regenerated from the rules") -> Dataset:
    """All 12,960 rows: each combination of the eight attributes, the last varying fastest, and its class.

    The rules are the hierarchical model that the data set was made from: five tables of 94 cells in all.
    """
    rules: dict[str, Any] = _resource("nursery.json")
    table = {name: np.array(rules[name]) for name in ("employ", "structure", "struct_finan", "soc_health", "class")}
    sizes = [len(attribute["labels"]) for attribute in rules["attributes"][:-1]]
    parents, has_nurs, form, children, housing, finance, social, health = columns = np.indices(sizes).reshape(8, -1)
    finances = table["struct_finan"][table["structure"][form, children], housing, finance]
    decision = table["class"][table["employ"][parents, has_nurs], finances, table["soc_health"][social, health]]
    return _dataset(np.column_stack([*columns, decision]), rules["attributes"], "nursery", source)


def rebuilt_column(counts: list[int], attribute: int) -> Codes:
    """A column with these counts, in an order that is fixed but looks random and differs between attributes.

    User i has word i of column `attribute` of the DATA stream (seed 0).  The counts[0] users with the smallest words
    hold value 0, the next counts[1] hold value 1, and so on.  The words are independent of every simulation's.
    """
    values = np.repeat(np.arange(len(counts), dtype=code_dtype(len(counts))), counts)
    order = np.argsort(Tape(_ORDER_SEED).data(attribute, 0, len(values)))  # no two words are equal: any sort will do
    column = np.empty_like(values)
    column[order] = values
    return column


def rebuilt(name: str) -> Dataset:
    """Columns with the published counts, independent of each other.

    They give every attribute's frequencies exactly, hence the exact mean of MSE_avg of every protocol.  They can give
    nothing that depends on which values a user holds together.
    """
    attributes = published_counts(name)["attributes"]
    columns = [rebuilt_column(a["counts"], j) for j, a in enumerate(attributes)]
    return _dataset(np.stack(columns, axis=1), attributes, name, "columns rebuilt from published counts")


def has_originals(name: str, folder: Path) -> bool:
    """Whether any of a set's original files is in `folder`."""
    return any((folder / file).is_file() for file in ORIGINALS[name])


def from_originals(name: str, folder: Path) -> Dataset:
    """The real rows of a set from its original files in `folder`."""
    files = ORIGINALS[name]
    paths = [folder / file for file in files]
    for path in paths:
        if not path.is_file():
            raise InputError(f"{folder} is incomplete for {name}: no {path.name}; needed: {', '.join(files)}")
        digest, expected = hashlib.sha256(path.read_bytes()).hexdigest(), SHA256.get(path.name)
        if expected not in (None, digest):
            raise InputError(f"{path} is not the original file, or not all of it: sha256={digest}; valid: {expected}")
    if name == "nursery":  # the digest is that of the rows that the rules give
        return nursery("rows of nursery.data")
    where, attributes = f"{' and '.join(files)} in {folder}", published_counts(name)["attributes"]
    try:
        columns = list(zip(*chain.from_iterable(_rows(name, path) for path in paths), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{where}: not the text that is expected: {error}") from None
    codes, named = [], []
    for attribute, column in zip(attributes, columns or [()] * len(attributes), strict=True):
        counts, labels = Counter(column), attribute["labels"]
        if "placeholders" in attribute:  # the counts are known in the order of the names, most of the names are not
            labels = sorted(counts)
        if attribute["counts"] != [counts[label] for label in labels] or len(column) != sum(attribute["counts"]):
            raise InputError(f"{where}: {attribute['name']!r} has other counts than published: incomplete file?")
        code = {label: i for i, label in enumerate(labels)}
        codes.append(np.array([code[value] for value in column], np.uint16))
        named.append({**attribute, "labels": labels})
    return _dataset(np.stack(codes, axis=1), named, name, f"rows of {' and '.join(files)}")


def _rows(name: str, path: Path) -> Iterator[list[str]]:
    """The cleaned rows of one file, the set's attributes only; lines of another length are no rows.

    Of Adult, rows with an unknown value are dropped, and the dot after the test file's classes.
    """
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines)
        width, places = SHAPES.get(name, (0, ()))
        if name == "ms-fimu":
            header = [field.strip() for field in next(reader, [])]
            names = [attribute["name"] for attribute in published_counts(name)["attributes"]]
            if lacking := [attribute for attribute in names if attribute not in header]:
                raise InputError(f"{path} has no column {lacking[0]!r}; columns: {', '.join(header) or 'none'}")
            width, places = len(header), tuple(map(header.index, names))
        for line in reader:
            fields = [intern(field.strip()) for field in line]
            if len(fields) == width and not (name == "adult" and "?" in fields):
                row = [fields[place] for place in places]
                yield [*row[:-1], row[-1].rstrip(".")] if name == "adult" else row
