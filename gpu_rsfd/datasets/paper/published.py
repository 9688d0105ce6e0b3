"""The paper's real data sets without any download: Nursery from its rules, the others from their published counts."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.tape import Codes, Tape, code_dtype

PUBLISHED = ("nursery", "adult", "ms-fimu", "census-income")

_ORDER_SEED = 0  # of the DATA stream that spreads a column's values over the users


@lru_cache
def _resource(file: str) -> Any:
    return json.loads((resources.files(__package__) / "resources" / file).read_text(encoding="utf-8"))


def nursery_rules() -> dict[str, Any]:
    """The hierarchical model that the Nursery data set was made from: five tables of 94 cells in all."""
    rules: dict[str, Any] = _resource("nursery.json")
    return rules


def published_counts(name: str) -> dict[str, Any]:
    """`users`, and of each of the `attributes` its `name`, `labels` and `counts`; `placeholders` mark unknown names."""
    published: dict[str, Any] = _resource("published.json")[name]
    return published


def nursery_codes() -> npt.NDArray[np.uint8]:
    """All 12,960 rows: each combination of the eight attributes, the last varying fastest, and its class."""
    rules = nursery_rules()
    table = {name: np.array(rules[name]) for name in ("employ", "structure", "struct_finan", "soc_health", "class")}
    sizes = [len(attribute["labels"]) for attribute in rules["attributes"][:-1]]
    parents, has_nurs, form, children, housing, finance, social, health = columns = np.indices(sizes).reshape(8, -1)
    structure = table["structure"][form, children]
    decision = table["class"][
        table["employ"][parents, has_nurs],
        table["struct_finan"][structure, housing, finance],
        table["soc_health"][social, health],
    ]
    return np.column_stack([*columns, decision]).astype(np.uint8)


def nursery() -> Dataset:
    attributes = nursery_rules()["attributes"]
    return Dataset(
        nursery_codes(),
        [len(a["labels"]) for a in attributes],
        names=[a["name"] for a in attributes],
        name="nursery",
        labels=[a["labels"] for a in attributes],
        source="rows regenerated from the rules",
    )


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
    return Dataset(
        np.stack(columns, axis=1),
        [len(a["counts"]) for a in attributes],
        names=[a["name"] for a in attributes],
        name=name,
        labels=[a["labels"] for a in attributes],
        source="columns rebuilt from published counts",
    )
