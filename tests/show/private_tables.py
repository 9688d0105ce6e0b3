"""Three tables with identifiers, free text, rare values and an extreme number: CSV, JSON lines, Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Table(NamedTuple):
    """A file, what nobody may see of it, and the options that `data` proposes."""

    path: Path
    secrets: tuple[str, ...]  # values of identifiers and free text, and a number that one user holds
    rare: tuple[float, ...]  # shares of values that fewer than 10 users hold
    options: tuple[str, ...]


def _drawn(salt: int, rows: int, values: list[str], rare: dict[str, int]) -> list[str]:
    draw = np.random.Generator(np.random.Philox(salt))
    column = draw.choice(values, rows).tolist()
    places = iter(draw.permutation(rows).tolist())
    for value, times in rare.items():
        for _ in range(times):
            column[next(places)] = value
    return column


def voters(folder: Path, rows: int = 907) -> Table:
    """A register: an ID, a telephone number, parties and religions that few hold, an income of one."""
    draw = np.random.Generator(np.random.Philox(31))
    columns = {
        "national id": [f"{19300101 + 37 * i % 700000:08d}-{7919 * i % 9973:04d}" for i in range(rows)],
        "phone": [f"+41 79 {100 + i * 389 % 900} {10 + i * 7 % 90} {10 + i * 3 % 90}" for i in range(rows)],
        "party": _drawn(1, rows, ["red", "blue", "green"], {"void": 4}),
        "religion": _drawn(2, rows, ["none", "protestant", "catholic"], {"Yazidi": 3, "Druze": 6}),
        "district": [f"{8000 + i % 12}" for i in draw.permutation(rows)],
        "income": [*np.exp(draw.normal(10.5, 0.6, rows - 1)).astype(int).tolist(), 98_765_432],
    }
    path = folder / "voters.csv"
    lines = [";".join(columns), *(";".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    secrets = (*columns["national id"], *columns["phone"], "98765432")
    rare = tuple(count / rows for count in (3, 4, 6))
    return Table(path, secrets, rare, ("--exclude", "national id,phone", "--bins", "income=10"))


def tickets(folder: Path, rows: int = 1511) -> Table:
    """A help desk's: a UUID, a message, a product of one user, a status that two have."""
    draw = np.random.Generator(np.random.Philox(32))
    columns = {
        "uuid": [f"{i * 2654435761 % 2**32:08x}-{i * 7 % 9999:04d}" for i in range(rows)],
        "message": [f"My order {13 * i} for Mrs. Smith{i} has not arrived, please call" for i in range(rows)],
        "product": _drawn(3, rows, ["chair", "table", "lamp", "bed"], {"prototype X": 1}),
        "urgent": [i % 11 == 0 for i in range(rows)],
        "hiv": _drawn(4, rows, ["unknown"], {"positive": 2}),
        "minutes": [*draw.integers(1, 240, rows - 1).tolist(), 9_973_157],
    }
    path = folder / "tickets.jsonl"
    made = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    secrets = (*columns["uuid"], *columns["message"], "9973157")
    return Table(path, secrets, (1 / rows, 2 / rows), ("--exclude", "uuid,message", "--bins", "minutes=10"))


def pupils(folder: Path, rows: int = 709) -> Table:
    """A school's: a name, an IBAN, an allergy of one pupil, a need of four."""
    import pyarrow
    import pyarrow.parquet

    first, last = ["Anna", "Ben", "Chloe", "David", "Eva", "Finn"], ["Meier", "Huber", "Schmid", "Keller"]
    columns = {
        "name": [f"{first[i % 6]} {last[i % 4]} {i}" for i in range(rows)],
        "iban": [f"CH{i * 7919 % 97:02d}{10**11 + 31 * i}" for i in range(rows)],
        "grade": np.random.Generator(np.random.Philox(33)).integers(1, 7, rows).tolist(),
        "allergy": _drawn(5, rows, ["none", "none", "nuts", "pollen"], {"latex": 1}),
        "need": _drawn(6, rows, ["no"], {"yes": 4}),
    }
    path = folder / "pupils.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    secrets = (*columns["name"], *columns["iban"])
    return Table(path, secrets, (1 / rows, 4 / rows), ("--exclude", "name,iban"))
