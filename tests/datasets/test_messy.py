"""Six tables as people have them, each through `gpu-rsfd data`: what it prints, and that its advice is enough."""

import json
import shlex

import messy
import pytest
from command import call

import gpu_rsfd
from gpu_rsfd.datasets import describe, load_and_describe, report_text

pytest.importorskip("pyarrow")

HOSPITAL = """\
hospital.csv: 3,000 rows, 10 columns; cp1252, delimiter ';'

column        kind        k  missing  commonest values
Fall-Nr       text    3,000        –  F100000 <0.1%, F100007 <0.1%, F100014 <0.1%
Geschlecht    text        4        –  m 33.6%, w 32.8%, M 17.3%
Alter         number     78        –  41 2.2%, 44 1.9%, 80 1.8%
Geburtsdatum  date    2,844        –  01.03.1958 0.1%, 17.12.1985 0.1%, 29.11.1937 0.1%
Station       text       12        –  Station 2 9.2%, Station 3 8.8%, Station 8 8.8%
Diagnose      text        5        –  Grippe 32.8%, Diabetes 17.3%, Fraktur 17.2%
Gewicht       number    783        –  112,5 0.4%, 59,7 0.3%, 61,4 0.3%
Blutgruppe    mixed       5        –  A 21.0%, 0 20.0%, B 20.0%
Pflegegrad    mixed       5        –  n.a. 20.7%, 4 20.4%, 3 20.0%
Klinik        text        1        –  Zürich 100.0%

Settle before use:
  line 2 (byte 0xfc) is not UTF-8; the file is shown as cp1252: is that right?  →  --encoding cp1252
  Blutgruppe: mixes numbers and text: 'AB' (row 3) beside '0' (row 1)  →  --as-text Blutgruppe
  Pflegegrad: 'n.a.' (621 users) may mean missing  →  --missing-values n.a.
  Klinik: one value only, 'Zürich'  →  --exclude Klinik

Worth a look:
  Fall-Nr: an identifier? 3,000 values in 3,000 rows  →  --exclude Fall-Nr
  Geschlecht: m = M, W = w: they differ by case or spaces only  →  --merge-spellings Geschlecht
  Alter: 78 different numbers  →  --bins Alter=10
  Gewicht: 783 different numbers  →  --bins Gewicht=10
  Geburtsdatum: 2,844 different dates  →  --bins Geburtsdatum=year
  Station: 'Station 10' is sorted before 'Station 2'  →  --order natural
  Diagnose: '-' (479 users) may mean missing  →  --missing-values -
  Blutgruppe: 'k.A.' (579 users) may mean missing  →  --missing-values k.A.

With every option that helps:
  gpu-rsfd data hospital.csv --exclude Fall-Nr,Klinik --bins Alter=10,Geburtsdatum=year,Gewicht=10 \
--merge-spellings Geschlecht --as-text Blutgruppe --order natural --missing-values -,k.A.,n.a. --encoding cp1252
"""

SURVEY = """\
survey.csv: 1,200 rows, 7 columns; UTF-8, delimiter ','

column      kind        k  missing  commonest values
respondent  number  1,200        –  1 0.1%, 2 0.1%, 3 0.1%
satisfied   text        5    16.2%  yes 30.2%, Yes 19.2%, None 17.3%
visits      mixed       5        –  1 21.1%, 3 19.9%, 2 19.9%
age group   text        5    21.3%  (missing) 21.3%, 18-29 21.2%, 45-64 19.8%
employer    text       90        –  company 0 7.1%, company 3 2.2%, company 4 2.2%
"""

TYPED = """\
typed.parquet: 2,500 rows, 6 columns

column  kind            k  missing  commonest values
sensor  text           11        –  S4 10.2%, S3 9.8%, S1 9.7%
state   text            4    20.4%  ok 38.6%, n.a. 20.8%, (missing) 20.4%
at      date        2,324        –  2021-08-03 01:30:00.000 0.1%, 2021-09-16 16:30:00.000 0.1%, \
2021-11-14 16:30:00.000 0.1%
value   number        399     0.4%  22.375 0.6%, 34.375 0.6%, 8.375 0.5%
valid   true/false      2        –  true 66.4%, false 33.6%
day     date            5        –  2021-03-01 21.8%, 2021-03-04 20.2%, 2021-03-03 19.5%

Settle before use:
  trace: has type list<element: int64>; text, numbers, true/false and dates are valid  →  --exclude trace

Worth a look:
  sensor: 'S10' is sorted before 'S2'  →  --order natural
  state: 'n.a.' (520 users) may mean missing  →  --missing-values n.a.
  at: 2,324 different dates  →  --bins at=year
  value: 398 different numbers  →  --bins value=10

With every option that helps:
  gpu-rsfd data typed.parquet --exclude trace --bins at=year,value=10 --order natural --missing-values n.a.
"""

EVENTS = """\
events.jsonl: 1,500 rows, 5 columns

column   kind          k  missing  commonest values
event    text          4        –  click 25.6%, buy 25.4%, Click 24.9%
day      date        361        –  2024-03-13 0.7%, 2024-02-09 0.7%, 2024-08-14 0.7%
seconds  number       90        –  74 1.8%, 38 1.7%, 32 1.7%
mobile   true/false    3    33.7%  false 34.0%, (missing) 33.7%, true 32.3%
room     text          5     6.7%  room 10 25.5%, room 1 23.0%, - 22.7%

Worth a look:
  event: Click = click: they differ by case or spaces only  →  --merge-spellings event
  day: 361 different dates  →  --bins day=month
  seconds: 90 different numbers  →  --bins seconds=10
  room: '-' (341 users) may mean missing  →  --missing-values -
  room: 'room 10' is sorted before 'room 2'  →  --order natural

With every option that helps:
  gpu-rsfd data events.jsonl --bins day=month,seconds=10 --merge-spellings event --order natural --missing-values -
"""


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """`gpu-rsfd data`, in a folder of its own: what it prints."""
    monkeypatch.chdir(tmp_path)

    def printed(*arguments):
        code = call(monkeypatch, "data", *arguments)
        out, err = capsys.readouterr()
        assert (code, err) == (0, "")
        return out

    return printed


def advised(command, out):
    """The report of the command that a report ends with; it must have nothing more to say."""
    words = shlex.split(out.splitlines()[-1])
    assert words[:2] == ["gpu-rsfd", "data"]
    report = json.loads(command(*words[2:], "--json"))
    assert report["usable"]
    assert report["notices"] == []
    assert report["suggested"] == report["given"]
    return report


def test_a_hospitals_export(command, tmp_path):
    messy.hospital(tmp_path)
    out = command("hospital.csv")
    assert out == HOSPITAL
    report = advised(command, out)
    columns = {column["name"]: column for column in report["columns"]}
    assert [(name, column["k"]) for name, column in columns.items()] == [
        ("Geschlecht", 2), ("Alter", 10), ("Geburtsdatum", 80), ("Station", 12), ("Diagnose", 5), ("Gewicht", 10),
        ("Blutgruppe", 5), ("Pflegegrad", 5),
    ]  # fmt: skip
    assert columns["Diagnose"]["missing"] == 479
    assert (report["rows"], report["users"], report["encoding"], report["delimiter"]) == (3000, 3000, "cp1252", ";")
    data = gpu_rsfd.load_table("hospital.csv", **report["suggested"])
    assert data.labels[3] == tuple(f"Station {i}" for i in range(1, 13))
    assert data.labels[2][0] == "1930"
    assert data.labels[4] == ("Diabetes", "Fraktur", "Grippe", "Müdigkeit", "(missing)")


def test_all_problems_of_a_file_come_at_once(tmp_path):
    path = messy.hospital(tmp_path)
    with pytest.raises(gpu_rsfd.InputError) as error:
        gpu_rsfd.load_table(path, encoding="latin-1", columns=["Klinik", "Blutgruppe", "Ort"], bins={"Alter": 5})
    assert str(error.value).splitlines() == [
        f"{path} has 4 problems:",
        f"  {path} has no column 'Ort'; columns: Fall-Nr, Geschlecht, Alter, Geburtsdatum, Station, Diagnose, Gewicht, "
        "Blutgruppe, Pflegegrad, Klinik",
        "  bins are given for 'Alter', which is not among the columns: Klinik, Blutgruppe",
        "  column 'Klinik' has one value only, 'Zürich'; an attribute needs at least 2: leave the column out "
        "(exclude=Klinik), or list its values in a domain file",
        "  column 'Blutgruppe' mixes numbers and text: 'AB' (row 3) beside '0' (row 1); if both are meant, list it in "
        "as_text (as_text=Blutgruppe), or its values in a domain file",
    ]


def test_a_survey(command, tmp_path):
    messy.survey(tmp_path)
    out = command("survey.csv")
    assert out.startswith(SURVEY)
    assert "  comment: free text? " in out
    assert "  visits: '#N/A' (237 users) may mean missing  →  --missing-values '#N/A'" in out
    assert "  satisfied: 'None' (208 users) may mean missing  →  --missing-values None" in out
    assert "  respondent: an identifier? 1,200 values in 1,200 rows  →  --exclude respondent" in out
    assert "  wave: one value only, '2024'  →  --exclude wave" in out
    columns = advised(command, out)["columns"]
    assert [(column["name"], column["kind"], column["k"]) for column in columns] == [
        ("satisfied", "text", 3), ("visits", "number", 5), ("age group", "text", 5), ("employer", "text", 90),
    ]  # fmt: skip


def test_200_columns_in_a_packed_file(command, tmp_path):
    messy.wide(tmp_path)
    out = command("wide.csv.gz")
    assert out.startswith("wide.csv.gz: 400 rows, 200 columns; UTF-8, delimiter ','\n")
    assert "\n… and 160 more columns\n" in out
    assert len(out.splitlines()) < 70
    report = advised(command, out)
    assert len(report["columns"]) == 200 - 1 - 4 - 4
    assert report["suggested"]["as_text"] == ["q11", "q71", "q131", "q191"]
    assert report["suggested"]["exclude"] == ["key", "q7", "q40", "q57", "q80", "q107", "q120", "q157", "q160"]


def test_many_columns_with_the_same_are_listed_in_short(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\n".join([",".join(f"c{j}" for j in range(30)), *(",".join(["1"] * 29 + [x]) for x in "ab")]))
    text = str(describe(path))
    assert "  c2: one value only, '1'  →  --exclude c2\n  … the same in 26 more columns: c3, c4, c5, c6, " in text


def test_parquet_with_dictionaries_and_time_stamps(command, tmp_path):
    messy.typed(tmp_path)
    out = command("typed.parquet")
    assert out.replace("list<item", "list<element") == TYPED  # pyarrow's name of it changed
    columns = advised(command, out)["columns"]
    assert [(column["name"], column["k"]) for column in columns] == [
        ("sensor", 11), ("state", 3), ("at", 3), ("value", 11), ("valid", 2), ("day", 5),
    ]  # fmt: skip


def test_json_lines(command, tmp_path):
    messy.events(tmp_path)
    out = command("events.jsonl")
    assert out == EVENTS
    columns = advised(command, out)["columns"]
    assert [(column["name"], column["k"]) for column in columns] == [
        ("event", 3), ("day", 12), ("seconds", 10), ("mobile", 3), ("room", 4),
    ]  # fmt: skip


@pytest.mark.slow
def test_two_million_rows(command, tmp_path):
    messy.large(tmp_path)
    out = command("large.csv")
    assert out.startswith("large.csv: 2,000,000 rows, 5 columns; UTF-8, delimiter ','\n")
    assert "  id: an identifier? 2,000,000 values in 2,000,000 rows  →  --exclude id\n" in out
    assert "  amount: 50,000 different numbers  →  --bins amount=10\n" in out
    columns = advised(command, out)["columns"]
    assert [(column["name"], column["k"]) for column in columns] == [
        ("time", 12), ("amount", 10), ("country", 40), ("kind", 3),
    ]  # fmt: skip


def test_one_reading_gives_the_data_set_and_its_report(tmp_path):
    path = messy.events(tmp_path)
    options = {"bins": {"day": "month", "seconds": 10}, "merge_spellings": ["event"]}
    data, report = load_and_describe(path, "gpu-rsfd sweep --dataset", **options)
    assert data.describe() == gpu_rsfd.load_table(path, **options).describe()
    assert report == describe(path, **options)
    assert (
        report_text(report, "gpu-rsfd sweep --dataset")
        .splitlines()[-1]
        .startswith(
            f"  gpu-rsfd sweep --dataset {path} --bins day=month,seconds=10 --merge-spellings event --order natural"
        )
    )
