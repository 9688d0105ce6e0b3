"""Tables as people have them, made by arithmetic: the same bytes on every machine.

`python tests/datasets/messy.py FOLDER` writes all six; the one with two million rows takes some seconds.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np


def draw(rows: int, salt: int, k: int) -> np.ndarray:
    """Numbers 0 … k - 1 that look random."""
    words = (np.arange(1, rows + 1, dtype=np.uint64) + np.uint64(salt << 32)) * np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(29)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    return ((words >> np.uint64(33)) % np.uint64(k)).astype(np.int64)


def pick(rows: int, salt: int, values: list) -> list:
    return [values[i] for i in draw(rows, salt, len(values))]


def hospital(folder: Path, rows: int = 3000) -> Path:
    """An export of a hospital: Latin-1, semicolons, decimal commas, German dates, spellings, two marks for missing."""
    born = [date(1930, 1, 1) + timedelta(days=day) for day in draw(rows, 5, 29_000).tolist()]
    columns = {
        "Fall-Nr": [f"F{100_000 + 7 * i}" for i in range(rows)],
        "Geschlecht": pick(rows, 1, ["m", "w", "w", "M", "W ", "m"]),
        "Alter": [str(18 + years) for years in draw(rows, 2, 78)],
        "Geburtsdatum": [day.strftime("%d.%m.%Y") for day in born],
        "Station": [f"Station {number + 1}" for number in draw(rows, 3, 12)],
        "Diagnose": pick(rows, 4, ["Grippe", "Diabetes", "Müdigkeit", "Fraktur", "-", "Grippe"]),
        "Gewicht": [f"{45 + tenths / 10:.1f}".replace(".", ",") for tenths in draw(rows, 6, 800)],
        "Blutgruppe": pick(rows, 7, ["0", "A", "B", "AB", "k.A."]),
        "Pflegegrad": pick(rows, 8, ["1", "2", "3", "4", "n.a."]),
        "Klinik": ["Zürich"] * rows,
    }
    lines = [";".join(columns), *(";".join(row) for row in zip(*columns.values(), strict=True))]
    path = folder / "hospital.csv"
    path.write_bytes("\r\n".join([*lines, ""]).encode("latin-1"))
    return path


def survey(folder: Path, rows: int = 1200) -> Path:
    """A survey with free text that has commas and newlines, and missing answers in several spellings."""
    words = [
        "the",
        "staff",
        "were",
        "kind",
        "but",
        "waiting",
        "took",
        "far",
        "too",
        "long;",
        "nobody",
        "said",
        "why\nso",
    ]
    comments = [
        "" if length == 0 else " ".join(words[(start + i) % len(words)] for i in range(4 + length)) + f", {start}"
        for start, length in zip(draw(rows, 1, 500), draw(rows, 2, 6), strict=True)
    ]
    columns = {
        "respondent": [str(i + 1) for i in range(rows)],
        "satisfied": pick(rows, 3, ["yes", "no", "Yes", "n/a", "None", "yes"]),
        "visits": pick(rows, 4, ["1", "2", "3", "4", "#N/A"]),
        "age group": pick(rows, 5, ["18-29", "30-44", "45-64", "65+", "n/a"]),
        "employer": [f"company {i * i // 40}" for i in draw(rows, 6, 100)],
        "comment": comments,
        "wave": ["2024"] * rows,
    }
    path = folder / "survey.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([columns, *zip(*columns.values(), strict=True)])
    return path


def wide(folder: Path, rows: int = 400) -> Path:
    """200 columns, gzipped: questions, some of them never asked, some with a stray word, and a key."""
    columns = {"key": [f"{97 * i + 13}" for i in range(rows)]}
    for j in range(1, 200):
        if j % 40 == 0:
            columns[f"q{j}"] = ["0"] * rows
        elif j % 50 == 7:
            columns[f"q{j}"] = [""] * rows
        elif j % 60 == 11:
            columns[f"q{j}"] = pick(rows, j, ["1", "2", "3", "refused"])
        else:
            columns[f"q{j}"] = pick(rows, j, ["1", "2", "3", "4", "5", ""])
    lines = [",".join(columns), *(",".join(row) for row in zip(*columns.values(), strict=True))]
    path = folder / "wide.csv.gz"
    with path.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
        packed.write("\n".join([*lines, ""]).encode())
    return path


def large(folder: Path, rows: int = 2_000_000) -> Path:
    """Two million rows: an identifier of each, a time stamp, a number with many values and two columns with few."""
    import pyarrow
    import pyarrow.csv

    def taken(salt: int, values: list[str]) -> pyarrow.Array:
        return pyarrow.array(values).take(pyarrow.array(draw(rows, salt, len(values))))

    start = datetime(2023, 1, 1)
    columns = {
        "id": np.arange(10_000_000, 10_000_000 + rows),
        "time": taken(1, [str(start + timedelta(minutes=minute)) for minute in range(60 * 24 * 365)]),
        "amount": taken(2, [f"{i / 100:.2f}" for i in range(50_000)]),
        "country": taken(3, [f"C{i}" for i in range(40)]),
        "kind": taken(4, ["a", "b", "A", "c"]),
    }
    path = folder / "large.csv"
    pyarrow.csv.write_csv(pyarrow.table(columns), path)
    return path


def typed(folder: Path, rows: int = 2500) -> Path:
    """Parquet with dictionaries, time stamps, decimals, nulls and a nested column."""
    import pyarrow
    import pyarrow.parquet

    start = datetime(2021, 3, 1, 8, 30)
    columns = {
        "sensor": pyarrow.array([f"S{i}" for i in draw(rows, 1, 11)]).dictionary_encode(),
        "state": pyarrow.array(pick(rows, 2, ["ok", "warn", None, "ok", "n.a."])).dictionary_encode(),
        "at": pyarrow.array(
            [start + timedelta(hours=hour) for hour in draw(rows, 3, 17_000).tolist()], pyarrow.timestamp("ms")
        ),
        "value": pyarrow.array([None if i == 0 else i / 8 for i in draw(rows, 4, 400)]),
        "valid": pyarrow.array(pick(rows, 5, [True, False, True])),
        "day": pyarrow.array([date(2021, 3, 1) + timedelta(days=i) for i in draw(rows, 6, 5).tolist()]),
        "trace": pyarrow.array([[i, i + 1] for i in draw(rows, 7, 9)]),
    }
    path = folder / "typed.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=700)
    return path


def events(folder: Path, rows: int = 1500) -> Path:
    """JSON lines: a column that begins late, nulls, dates as text, numbers and true and false."""
    values = zip(
        pick(rows, 1, ["view", "click", "Click", "buy"]),
        draw(rows, 2, 365).tolist(),
        draw(rows, 3, 90).tolist(),
        pick(rows, 4, [True, False, None]),
        pick(rows, 5, ["room 1", "room 2", "room 10", "-"]),
        strict=True,
    )
    lines = []
    for i, (kind, day, seconds, mobile, room) in enumerate(values):
        row = {"event": kind, "day": str(date(2024, 1, 1) + timedelta(days=day)), "seconds": seconds, "mobile": mobile}
        lines.append(json.dumps(row if i < 100 else {**row, "room": room}))
    path = folder / "events.jsonl"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


if __name__ == "__main__":
    for make in (hospital, survey, wide, typed, events, large):
        print(make(Path(sys.argv[1])))
