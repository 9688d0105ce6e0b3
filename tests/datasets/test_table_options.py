"""The options of a table: each declared once, and what each does."""

import inspect
import json
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command import call, refusal

import gpu_rsfd
from gpu_rsfd.datasets import as_dataset, describe, is_table, options
from gpu_rsfd.datasets.table.columns import natural_key
from gpu_rsfd.datasets.table.dates import Dates
from gpu_rsfd.datasets.table.load import parse_options
from gpu_rsfd.options import markdown

DOCS = Path(gpu_rsfd.__file__).parents[1] / "docs" / "data.md"


def load(tmp_path, content, name="t.csv", **given):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return gpu_rsfd.load_table(path, **given)


def refused(tmp_path, content, message, name="t.csv", **given):
    with pytest.raises(gpu_rsfd.InputError, match=message):
        load(tmp_path, content, name, **given)


def column(values, name="x"):
    return "\n".join([name, *map(str, values), ""])


# Declarations


def test_functions_take_what_is_declared():
    names = [option.name for option in options.OPTIONS]
    assert len(set(names)) == len(names)
    for function in (gpu_rsfd.load_table, describe):
        parameters = inspect.signature(function).parameters
        assert list(parameters) == ["table", "name", *names]
        assert all(parameters[option.name].default == option.default for option in options.OPTIONS)
        for option in options.OPTIONS:
            assert f"    {option.name} : {option.type_text}\n        {option.help}" in function.__doc__
    with pytest.raises(gpu_rsfd.InputError, match=r"unknown option 'colums' of a table; did you mean columns\?"):
        gpu_rsfd.load_table("t.csv", colums=["a"])


def test_the_examples_are_valid():
    for option in options.OPTIONS:
        text = option.example.strip("'")
        value = option.read([text] if option.many else text, ())
        assert option.given(value)
        option.check(value)
        assert option.default is None or option.check(option.default) == option.default
        assert all(option.check(known) for known in option.known)


def test_declarations_import_no_numpy():
    program = (
        "import sys, types\n"
        "for name in ('gpu_rsfd', 'gpu_rsfd.datasets'):\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        f"    sys.modules[name].__path__ = [{str(Path(gpu_rsfd.__file__).parent)!r} + name[8:].replace('.', '/')]\n"
        "from gpu_rsfd.datasets.options import OPTIONS\n"
        "print('numpy' in sys.modules, len(OPTIONS))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (f"False {len(options.OPTIONS)}\n", "")


def test_the_docs_list_them():
    assert markdown(options.OPTIONS) in DOCS.read_text(encoding="utf-8")


def test_a_description_can_be_given_again_on_the_command_line(tmp_path):
    (tmp_path / "t.csv").write_text('id,"a, b",c\n1,x,2020-01-01\n2,X,2021-01-01\n3,"y,z",-\n')
    given = {
        "exclude": ["id"],
        "merge_spellings": ["a, b"],
        "bins": {"c": "year"},
        "missing_values": ["-", "n,a"],
        "group_rare": 0.005,
        "order": "natural",
        "delimiter": "comma",
        "encoding": "latin-1",
        "missing": "category",  # the default: not kept
    }
    data = gpu_rsfd.load_table(tmp_path / "t.csv", **given)
    loaded = data.describe()["loaded"]
    assert loaded == {"file": "t.csv", **{k: v for k, v in given.items() if k != "missing"}, "group_rare": "0.005"}
    words = options.command_words(loaded)
    texts = {}
    for flag, text in zip(words[::2], words[1::2], strict=True):
        key = flag.removeprefix("--")
        texts[key] = [text] if options.BY_NAME[key.replace("-", "_")].many else text
    again = gpu_rsfd.load_table(tmp_path / "t.csv", **parse_options(tmp_path / "t.csv", texts))
    assert again.describe() == data.describe()
    assert data.labels == (("x", "y,z"), ("2020", "2021", "(missing)"))


@pytest.mark.parametrize("given,message", [
    ({"group_rare": "2"}, r"group_rare='2' must be a share of the users above 0 and below 1, such as 0.5%"),
    ({"group_rare": "few"}, r"group_rare='few' must be"),
    ({"group_rare": True}, r"group_rare=True must be"),
    ({"encoding": "klingon"}, r"encoding='klingon' is unknown; valid: a name that Python knows, such as latin-1"),
    ({"encoding": "rot13"}, r"encoding='rot13' is unknown"),
    ({"order": "size"}, r"order='size' is unknown; available: text, natural"),
    ({"exclude": 3}, r"exclude=3 must be a list of texts"),
    ({"exclude": ["z"]}, r"exclude names 'z', which is no column of .*t.csv; columns: x, y"),
    ({"exclude": ["x", "y"]}, r"no columns chosen of"),
    ({"exclude": ["x"], "columns": ["x"]}, r"column 'x' is in columns and in exclude; only one of them is valid"),
    ({"exclude": ["x"], "bins": {"x": 2}}, r"bins are given for 'x', which is not among the columns: y"),
    ({"merge_spellings": ["x"], "bins": {"x": 2}}, r"column 'x' has bins and merge_spellings; only one of them"),
    ({"as_text": ["x"], "bins": {"x": 2}}, r"column 'x' has bins and as_text; only one of them is valid"),
])  # fmt: skip
def test_wrong_values(tmp_path, given, message):
    refused(tmp_path, "x,y\n1,a\n2,b\n", message, **given)


# What they do


def test_exclude(tmp_path):
    assert load(tmp_path, "x,y,z\n1,a,u\n2,b,v\n", exclude="y").names == ("x", "z")
    assert load(tmp_path, "x,x,z\n1,a,u\n2,b,v\n", exclude=["x"]).names == ("z",)


def test_missing_values(tmp_path):
    content = "n,t\n1,a\n-,n.a.\n#N/A,b\n2, n.a. \n"
    data = load(tmp_path, content, missing_values=["-", "#N/A", "n.a."])
    assert data.labels == (("1", "2", "(missing)"), ("a", "b", "(missing)"))
    assert data.counts.tolist() == [1, 1, 2, 1, 1, 2]
    assert load(tmp_path, content, missing_values="-", columns="t").labels == (("a", "b", "n.a."),)
    refused(tmp_path, content, r"'n' mixes .*: '-' \(row 2\) beside '1' \(row 1\); if it is missing there: missing_v")


def test_missing_values_of_typed_columns(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"n": [1, -999, 2], "t": ["a", "b", "none"]})
    data = gpu_rsfd.load_table(table, missing_values=["-999", "none"])
    assert data.labels == (("1", "2", "(missing)"), ("a", "b", "(missing)"))


def test_encodings(tmp_path):
    rows = "name;town\nJosé;Zürich\nAnn;Genève\n"
    data = load(tmp_path, rows.encode("latin-1"), encoding="Latin-1")
    assert data.labels == (("Ann", "José"), ("Genève", "Zürich"))
    assert data.source == "t.csv (latin-1, delimiter ';')"
    assert load(tmp_path, rows.encode("utf-16-le"), encoding="utf-16-le").labels == data.labels
    assert load(tmp_path, rows.encode("utf-8-sig"), encoding="utf-8").source == "t.csv (delimiter ';')"
    refused(tmp_path, rows.encode("latin-1"), r"t.csv is not UTF-8 in line 2 \(byte 0xe9\); .*encoding=cp1252$")
    header = rows.replace("town", "località").encode("latin-1")
    refused(tmp_path, header, r"t.csv is not UTF-8 in line 1 \(byte 0xe0\); .*encoding=cp1252$")
    refused(tmp_path, rows.encode("latin-1"), r"it is not in the encoding utf-8: ", encoding="utf-8")
    report = describe(tmp_path / "t.csv")
    assert (report.encoding, report.usable, report.suggested()) == ("cp1252", False, {"encoding": "cp1252"})
    (tmp_path / "t.csv").write_bytes(rows.encode("latin-1") + b"\x81;\x81\n")  # not in cp1252
    assert describe(tmp_path / "t.csv").encoding == "latin-1"


def test_group_rare(tmp_path):
    content = column(["a"] * 90 + ["b"] * 6 + ["c"] * 2 + ["other"] + ["?"])
    data = load(tmp_path, content, group_rare="5%")
    assert data.labels == (("a", "b", "other", "(missing)"),)  # c and other are rare
    assert data.counts.tolist() == [90, 6, 3, 1]
    alone = column(["a"] * 90 + ["b"] * 9 + ["c"])
    assert load(tmp_path, alone, group_rare="2%").labels == (("a", "b", "c"),)  # nothing to group it with
    data = load(tmp_path, column(["other"] * 90 + list("abc")), group_rare="5%")
    assert data.labels == (("other", "(other)"),)
    data = load(tmp_path, column([*range(1000), *[7] * 500]), group_rare="1%")
    assert (data.labels, data.counts.tolist()) == ((("7", "other"),), [501, 999])
    refused(tmp_path, column(range(100)), r"'x': each of its 100 values is rarer than group_rare=0.05", group_rare="5%")
    domain = tmp_path / "d.json"
    domain.write_text('{"x": ["a", "b", "c", "other"]}')
    data = load(tmp_path, content, group_rare="5%", domain_file=domain)
    assert data.labels[0][:4] == ("a", "b", "c", "other")


@pytest.mark.slow
def test_group_rare_makes_many_values_few(tmp_path):
    data = load(tmp_path, column([*range(70_000), *["0"] * 70_000]), group_rare="1%")
    assert data.labels == (("0", "other"),)


def test_merge_spellings(tmp_path):
    content = column(["m", "M", "M", "f ", "F", "new  york", "New York", "new york", "new york"])
    assert load(tmp_path, content).domain == (7,)
    data = load(tmp_path, content, merge_spellings="x")
    assert data.labels == (("f", "M", "new york"),) or data.labels == (("F", "M", "new york"),)
    assert sorted(data.counts.tolist()) == [2, 3, 4]
    refused(tmp_path, column(["a", "A"]), r"column 'x' has one value only", merge_spellings="x")


def test_as_text(tmp_path):
    assert load(tmp_path, column(["0", "A", "AB", "0"]), as_text="x").labels == (("0", "A", "AB"),)
    assert load(tmp_path, column(["01234", "1234", "94110"]), as_text=["x"]).domain == (3,)
    data = load(tmp_path, column(["10", "2", "more", "1"]), as_text="x", order="natural")
    assert data.labels == (("1", "2", "10", "more"),)


def test_natural_order_is_asked_for(tmp_path):
    values = ["Station 10", "Station 2", "Station 1", "Station 02", "A", "station 3"]
    before, after = load(tmp_path, column(values)), load(tmp_path, column(values), order="natural")
    assert before.labels == (tuple(sorted(values)),)
    assert after.labels == (("A", "Station 1", "Station 02", "Station 2", "Station 10", "station 3"),)
    # so a results file with the one can't be resumed with the other
    assert before.describe()["sha256"] != after.describe()["sha256"]
    assert before.counts.sum() == after.counts.sum()
    notice = next(notice for notice in describe(tmp_path / "t.csv").notices if notice.kind == "order")
    assert (notice.text, notice.options) == ("'Station 02' is sorted before 'Station 1'", {"order": "natural"})
    assert natural_key("é2") > natural_key("e10")
    assert max(natural_key("x²"), natural_key("x2"))  # ² is a digit for Python, but no number


@pytest.mark.parametrize("texts,moments,clear", [
    (["2024-03-31", "2024-01-01"], ["2024-03-31", "2024-01-01"], True),
    (["2024-03-31T10:20:30Z", "2024-01-01 00:00"], ["2024-03-31 10:20:30", "2024-01-01"], True),
    (["2024-03-31 10:20:30.123456789+01:00"], ["2024-03-31 10:20:30"], True),
    (["2024/3/31"], ["2024-03-31"], True),
    (["31.3.2024", "01.02.2024"], ["2024-03-31", "2024-02-01"], True),
    (["01/02/2024", "31/03/2024"], ["2024-02-01", "2024-03-31"], True),
    (["01/02/2024", "03/31/2024"], ["2024-01-02", "2024-03-31"], True),
    (["01/02/2024", "03/03/2024"], ["2024-02-01", "2024-03-03"], False),
    (["03/03/2024"], ["2024-03-03"], True),
    (["31/03/2024", "03/31/2024"], None, True),
    (["2024-02-30"], None, True),
    (["2024-03-31", "soon"], None, True),
    (["1.2.3"], None, True),
    (["31.03.24"], None, True),
    (["2024"], None, True),
    ([], None, True),
])  # fmt: skip
def test_dates(texts, moments, clear):
    dates = Dates.of(texts)
    assert (dates is None) == (moments is None)
    if dates is not None and moments is not None:
        assert [str(m).removesuffix(" 00:00:00") for m in dates.moments] == moments
        assert (dates.unclear is None) == clear


def test_bins_of_dates(tmp_path):
    content = column(["31.12.1999", "01.01.2000", "05.07.2002", "?", "05.07.2002"])
    data = load(tmp_path, content, bins={"x": "year"})
    assert data.labels == (("1999", "2000", "2001", "2002", "(missing)"),)
    assert data.counts.tolist() == [1, 1, 0, 2, 1]
    data = load(tmp_path, content, bins={"x": "month"})
    assert data.domain == (32 + 1,)
    assert (data.labels[0][0], data.labels[0][1], data.labels[0][-2]) == ("1999-12", "2000-01", "2002-07")
    data = load(tmp_path, content, bins={"x": 2})
    assert data.labels == (("[1999-12-31, 2001-04-02)", "[2001-04-02, 2002-07-05]", "(missing)"),)
    assert data.counts.tolist() == [2, 2, 1]
    data = load(tmp_path, content, bins={"x": "2q"})
    assert data.counts.tolist()[-1] == 1
    assert sum(data.counts) == 5


@pytest.mark.parametrize("bins", ["3", "8", "5q", "40"])
def test_dates_are_in_the_bins_that_their_labels_say(tmp_path, bins):
    draw = random.Random(3)
    days = [f"2024-{draw.randint(1, 3):02d}-{draw.randint(1, 28):02d} {draw.randint(0, 23):02d}:30" for _ in range(300)]
    data = load(tmp_path, column(days), bins={"x": bins})
    assert data.counts.min() >= (1 if "q" in bins else 0)
    last = len(data.labels[0]) - 1
    for day, code in zip(days, data.column(0, 0, data.n).tolist(), strict=True):
        low, high = data.labels[0][code][1:-1].split(", ")
        assert low <= day
        assert day < high or (code == last and day[:10] <= high[:10])


@pytest.mark.parametrize("values,bins,message", [
    (["2024-01-01", "soon"], "year", r"bins of 'x'=year need dates such as 2024-03-31, but the column holds 'soon'"),
    (["1", "2"], "month", r"bins of 'x'=month need dates such as 2024-03-31, but the column holds '1' \(row 1\)"),
    (["01/02/2024", "03/04/2024"], "month", r"bins of 'x': '01/02/2024' can be read with the day or the month first"),
    (["01/02/2024", "03/04/2024"], "10", r"bins of 'x': '01/02/2024' can be read with the day or the month first"),
    (["31/03/2024", "03/31/2024"], "year", r"need dates such as 2024-03-31, but the column puts the day or the month"),
    (["2024-01-01", "2024-05-01"], "year", r"column 'x' has one value only, '2024'"),
    (["2024-01-01", "2024-05-01"], "week", r"bins of 'x'='week' must be a number .*, or for dates year or month"),
    (["", ""], "year", r"but the column has no values"),
])  # fmt: skip
def test_bins_that_dates_have_not(tmp_path, values, bins, message):
    refused(
        tmp_path, "\n".join(["x,y", *(f"{value},{i}" for i, value in enumerate(values))]), message, bins={"x": bins}
    )


def test_unclear_dates_have_clear_years(tmp_path):
    assert load(tmp_path, column(["01/02/2023", "03/04/2024"]), bins={"x": "year"}).labels == (("2023", "2024"),)


# Kinds of tables


def test_packed_text_and_its_name(tmp_path):
    import gzip

    data = load(tmp_path, gzip.compress(b"x;y\n1;a\n2;b\n"), "people.csv.gz")
    assert (data.name, data.source) == ("people", "people.csv.gz (delimiter ';')")
    assert data.describe()["loaded"] == {"file": "people.csv.gz"}
    assert load(tmp_path, gzip.compress(b"x\ty\n1\ta\n2\tb\n"), "people.tsv.gz").source == "people.tsv.gz"
    refused(tmp_path, b"x,y\n", r"t.csv.gz is not a readable .gz file", "t.csv.gz")
    refused(tmp_path, gzip.compress(b"x,y\n1,2\n" * 99)[:-20], r"t.csv.gz is not a readable .gz file", "t.csv.gz")


def test_json_lines(tmp_path):
    pytest.importorskip("pyarrow")
    content = '\ufeff{"a": 1, "d": "2024-01-01", "z": true}\n\n{"a": 2, "d": "2024-02-01", "z": null, "new": "1"}\n'
    for name in ("t.jsonl", "t.NDJSON"):
        data = load(tmp_path, content, name)
        assert data.names == ("a", "d", "z", "new")
        assert data.labels == (
            ("1", "2"), ("2024-01-01", "2024-02-01"), ("true", "(missing)"), ("1", "(missing)"),
        )  # fmt: skip
    long = json.dumps({"a": "x" * 3_000_000, "b": 1}) + '\n{"a": "y", "b": 2}\n'
    assert load(tmp_path, long, "long.jsonl").domain == (2, 2)


@pytest.mark.parametrize("content,message", [
    ('{"a": 1}\n{"a": "x"}\n', r"Column\(/a\) changed from number to string in row 1 \(from 0.*one type per column"),
    ('{"a": 1}\n{"a": \n', r"not a readable file of JSON lines: .* in row 1 .*one JSON object per line"),
    ('[{"a": 1}, {"a": 2}]', r"not a readable file of JSON lines: .*one JSON object per line"),
    (" \n", r"has no rows; at least one is needed"),
    ('{"a": 12345678901234567890}\n{"a": 12345678901234567891}\n', r"column 'a' has numbers beyond 2\*\*53"),
    ('{"a": {"b": 1}}\n{"a": {"b": 2}}\n', r"column 'a' has type struct<.*: leave it out \(exclude=a\)"),
])  # fmt: skip
def test_broken_json_lines(tmp_path, content, message):
    pytest.importorskip("pyarrow")
    refused(tmp_path, content, message, "t.jsonl")


@pytest.mark.parametrize("name,message", [
    ("t.xlsx", r"t.xlsx has the unknown suffix '.xlsx'; save the sheet as CSV \(UTF-8\) in the program that wrote it"),
    ("t.json", r"'.json'; write one JSON object per line, to a file that ends in .jsonl; available: .csv, "),
    ("t.dat", r"t.dat has the unknown suffix '.dat'; if it is a text table, rename it to .csv; available: .csv, "),
    ("people", r"people has the unknown suffix ''; if it is a text table, rename it to .csv; available: "),
    ("t.parquet.gz", r"has the unknown suffix '.gz'; unpack it; available: "),
])  # fmt: skip
def test_a_file_of_an_unknown_kind_is_no_unknown_data_set(tmp_path, monkeypatch, capsys, name, message):
    monkeypatch.chdir(tmp_path)
    assert not is_table("syn1")
    Path(name).write_text("x\n1\n2\n")
    Path("syn1").write_text("x\n1\n2\n")  # a data set's name stays one
    assert not is_table("syn1")
    for what in (name, Path(name)):
        with pytest.raises(gpu_rsfd.InputError, match=message):
            as_dataset(what)
    for command in (["sweep", "--dataset", name], ["data", name]):
        (line,) = refusal(monkeypatch, capsys, tmp_path, command)
        assert "has the unknown suffix" in line


def test_a_row_with_too_many_fields_is_not_alone(tmp_path):
    content = "a,b\n1,2\n1,2,3\n1,2\n1\n1\n"
    refused(tmp_path, content, r"row 2 \(line 3\) has 3 fields, .*; 3 rows differ from the header$")


FRAME = {"sex": ["f", "m", None, "f"], "age": [30, 4, 5, 30], "pay": [1.5, None, 2.0, 2.0], "ok": [True, False] * 2}
LABELS = (("f", "m", "(missing)"), ("4", "5", "30"), ("1.5", "2.0", "(missing)"), ("false", "true"))


class Capsule:
    """Anything with the Arrow PyCapsule interface."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_tables_in_memory():
    pyarrow, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    table = pyarrow.table(FRAME)
    sexes = table["sex"].dictionary_encode().combine_chunks()
    unsigned = pyarrow.DictionaryArray.from_arrays(sexes.indices.cast("uint32"), sexes.dictionary)  # as Polars has it
    frames = [
        pandas.DataFrame(FRAME),
        pandas.DataFrame(FRAME, index=list("abcd")),
        pandas.DataFrame(FRAME).astype({"sex": "category"}),
        table,
        Capsule(table),
        Capsule(table.set_column(0, "sex", unsigned)),
    ]
    for frame in frames:
        data = as_dataset(frame)
        assert (data.names, data.labels, data.name) == (tuple(FRAME), LABELS, "data")
        assert data.source == f"{type(frame).__name__} in memory"
        assert "loaded" not in data.describe()
    data = gpu_rsfd.load_table(frames[0], name="mine", columns=["age"], bins={"age": 2})
    assert (data.name, data.labels) == ("mine", (("[4, 17)", "[17, 30]"),))
    assert gpu_rsfd.simulate(frames[0], epsilons=1.0, protocols="spl-grr", repetitions=1).labels == LABELS
    with pytest.raises(gpu_rsfd.InputError, match=r"delimiter=';' is for text files .*; the DataFrame has none"):
        gpu_rsfd.load_table(frames[0], delimiter=";")
    with pytest.raises(gpu_rsfd.InputError, match=r"the DataFrame can't be read: .*column mixed .*to one type"):
        gpu_rsfd.load_table(pandas.DataFrame({"mixed": [1, "a"]}))
    with pytest.raises(gpu_rsfd.InputError, match=r"the DataFrame has no rows"):
        gpu_rsfd.load_table(pandas.DataFrame({"x": [], "y": []}))
    text = str(describe(pandas.DataFrame({"sex": ["m", "M", "f"]})))
    assert text.endswith("With every option that helps:\n  load_table(…, merge_spellings=['sex'])")


TEXTS = [
    b'city,age,income\nBern,30,10.5\nAarau,9,20\n Bern ,100,\n"Chur, upper",9,1e3\n',
    "prénom;pay\r\nJosé;9,5\r\nAnn;10\r\n".encode("utf-16"),
    b'note|x\n"two\nlines ""quoted"""|1\n\nb|01\nc|?\n',
    b"x,y,\r1,a,\r2,b,\r",
]


@pytest.mark.parametrize("content", TEXTS)
def test_csv_without_pyarrow_gives_the_same(tmp_path, monkeypatch, content):
    pytest.importorskip("pyarrow")
    expected = load(tmp_path, content)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    data = load(tmp_path, content)
    assert data.describe() == expected.describe()
    assert data.labels == expected.labels


@pytest.mark.parametrize("content,message", [
    (b"a,b\n1,2\n1,2,3\n", r"row 2 \(line 3\) has 3 fields, but the header has 2"),
    (b'a,b\n1,"2\n', r"row 1 \(line 2\): a quotation mark is opened and never closed"),
    (b"a,b\n1,\xe9\n", r"t.csv is not UTF-8 in line 2 \(byte 0xe9\)"),
    (b"a,b\n1," + b"x" * 200_000 + b"\n", r"has a cell that needs pyarrow .*: install the extra data"),
])  # fmt: skip
def test_broken_csv_without_pyarrow(tmp_path, monkeypatch, content, message):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused(tmp_path, content, message)


# The command


def test_data_of_a_name_of_codes_and_of_nothing(tmp_path, monkeypatch, capsys):
    import numpy as np

    monkeypatch.chdir(tmp_path)
    np.savez("t.npz", codes=[[0, 1], [1, 0], [1, 2]], names=["a", "b"])
    assert call(monkeypatch, "data", "t.npz", "--columns", "b") == 0
    assert "b       codes  3        –  0 33.3%, 1 33.3%, 2 33.3%" in capsys.readouterr().out
    assert call(monkeypatch, "data", "nursery") == 0
    assert capsys.readouterr().out.startswith("nursery: 12,960 rows, 9 columns\n")
    for arguments, message in (
        (["nobody.csv"], "no such file: nobody.csv"),
        (["syn7"], "unknown data set 'syn7'"),
        (["nursery", "--columns", "a"], "columns needs a table; 'nursery' is a data set already"),
        (["t.npz", "--bins", "a=2"], "bins needs a table of values"),
        (["t.npz", "--columns", "c"], "t.npz has no column 'c'; columns: a, b"),
        (["t.npz", "--exclude", ","], "exclude=',' is an empty list"),
        (["t.npz", "--encoding", ""], "encoding='' is empty"),
    ):
        (line,) = refusal(monkeypatch, capsys, tmp_path, ["data", *arguments])
        assert message in line


def test_several_problems_on_the_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("a,b,c\n1,x,5\nz,x,6\n")
    lines = refusal_lines(monkeypatch, capsys, tmp_path, ["sweep", "--dataset", "t.csv"])
    assert lines[0] == "gpu-rsfd: t.csv has 2 problems:"
    assert [line.partition(";")[0] for line in lines[1:]] == [
        "  column 'a' mixes numbers and text: 'z' (row 2) beside '1' (row 1)",
        "  column 'b' has one value only, 'x'",
        "With every option that helps:",
        "  gpu-rsfd sweep --dataset t.csv --exclude b --as-text a",
    ]
    assert call(monkeypatch, *shlex.split(lines[-1])[1:], "--epsilon", "1", "--repetitions", "2", "--no-plot") == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("t.csv: 2 rows, 2 columns; UTF-8, delimiter ','\n")
    assert "  a: " not in shown.err
    assert "t.csv: 2 rows" not in shown.out
    more = ["--epsilon", "1", "--repetitions", "3", "--no-plot", "--quiet"]
    assert call(monkeypatch, *shlex.split(lines[-1])[1:], *more) == 0
    assert capsys.readouterr() == ("", "")
    for quiet in ([], ["--quiet"]):
        plan = ["plan", "--dataset", "t.csv", "--exclude", "b", "--as-text", "a", "--epsilon", "1", "--no-attack"]
        assert call(monkeypatch, *plan, *quiet) == 0
        assert capsys.readouterr().err.startswith("t.csv: 2 rows, 2 columns") != bool(quiet)


def refusal_lines(monkeypatch, capsys, folder, arguments):
    monkeypatch.chdir(folder)
    assert call(monkeypatch, *arguments) == 2
    return capsys.readouterr().err.splitlines()


def test_columns_without_a_name_or_with_one_twice(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(",x,x,y,z\n0,1,2,a,u\n1,2,1,b,v\n")  # the index that pandas writes
    assert call(monkeypatch, "data", "t.csv") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "  gpu-rsfd data t.csv --columns y,z"
    assert (
        "  column 1 of t.csv has no name in the header, but holds '0' (row 1); name it, or choose columns" in lines[-5]
    )
    assert "  x: is given twice in t.csv  →  --exclude x" in lines
    assert gpu_rsfd.load_table("t.csv", columns=["y", "z"]).d == 2
    with pytest.raises(
        gpu_rsfd.InputError, match=r"t.csv has 2 problems:\n  column 1 of .*\n  column 'x' is given twice"
    ):
        gpu_rsfd.load_table("t.csv")


def test_a_suggested_command_finds_the_domain_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("x,y\na,m\nb,M\n")
    Path("sub").mkdir()
    Path("sub/d.json").write_text('{"x": ["a", "b", "c"]}')
    report = describe("t.csv", domain_file="sub/d.json")
    assert str(report).splitlines()[-1] == "  gpu-rsfd data t.csv --merge-spellings y --domain-file sub/d.json"
    assert [column.k for column in report.columns] == [3, 2]


def test_a_column_that_is_left_out_needs_nothing_else(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,sex\n" + "".join(f"P{i},{'mf'[i % 2]}\n" for i in range(50)) + "-,m\n")
    report = describe(path)
    assert [(notice.kind, notice.column) for notice in report.notices] == [("missing", "id"), ("identifier", "id")]
    assert report.suggested() == {"exclude": ["id"]}
    report = describe(path, columns=["id", "sex"], merge_spellings=["id"])
    assert report.suggested() == {"columns": ["sex"]}


def test_bins_that_were_refused_are_not_suggested(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("age,sex\n" + "".join(f"{i % 9},{'mf'[i % 2]}\n" for i in range(50)))
    assert describe(path, bins={"age": "3q", "sex": 4}).suggested() == {"bins": {"age": "3q"}}
