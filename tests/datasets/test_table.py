"""One's own data: values in, codes and labels out, in every kind of file and frame."""

import gzip
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

import gpu_rsfd
from gpu_rsfd.datasets import as_dataset, is_table, options, table

TABLE = """city,age,income,married
Bern,30,10.5,yes
Aarau,9,20,no
 Bern ,100,,yes
"Chur, upper",9,1e3,?
Aarau,41,20,no
"""


def load(tmp_path, content, name="t.csv", **given):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return gpu_rsfd.load_table(path, **given)


def column(values, name="x"):
    return "\n".join([name, *map(str, values), ""])


def rows(data):
    """The table again, in labels."""
    columns = [[data.labels[j][code] for code in data.column(j, 0, data.n)] for j in range(data.d)]
    return list(zip(*columns, strict=True))


# Options


def test_functions_take_what_is_declared():
    names = [option.name for option in options.OPTIONS]
    assert len(set(names)) == len(names)
    for function in (gpu_rsfd.load_table, gpu_rsfd.describe):
        parameters = inspect.signature(function).parameters
        assert list(parameters) == ["table", "name", *names]
        for option in options.OPTIONS:
            assert parameters[option.name].default == option.default
            assert f"    {option.name} : {option.type_text}\n        {option.help}" in function.__doc__
    for option in options.OPTIONS:
        text = option.example.strip("'")
        option.check(option.read([text] if option.many else text))
    with pytest.raises(gpu_rsfd.InputError, match=r"unknown option 'colums' of a table; did you mean columns\?"):
        gpu_rsfd.load_table("t.csv", colums=["a"])


def test_a_description_can_be_given_again_on_the_command_line(tmp_path):
    given = {
        "exclude": ["id"],
        "missing_values": ["n,a", "c=-"],
        "bins": {"c": [0, 2.5, 10]},
        "group_rare": 0.005,
        "delimiter": "tab",
        "encoding": "latin-1",
        "decimal": ",",
        "max_bytes": 10**6,
        "missing": "category",  # the default: not kept
    }
    content = "id\ta, b\tc\n1\tx\t1,5\n2\t-\t2,5\n3\té\t-\n4\tn,a\t9\n"
    data = load(tmp_path, content.encode("latin-1"), **given)
    assert data.labels == (("-", "x", "é", "(missing)"), ("[0, 2.5)", "[2.5, 10]", "(missing)"))
    loaded = data.describe()["loaded"]
    assert loaded == {
        **{key: value for key, value in given.items() if key != "missing"},
        **{"file": "t.csv", "bins": {"c": "0:2.5:10"}, "group_rare": "0.005", "max_bytes": "1000000"},
    }
    words = options.command_words(loaded)
    texts = {flag.removeprefix("--"): text for flag, text in zip(words[::2], words[1::2], strict=True)}
    again = gpu_rsfd.load_table(tmp_path / "t.csv", **options.parse_options(texts))
    assert again.describe() == data.describe()


@pytest.mark.parametrize("given,message", [
    ({"columns": ["z"]}, r"t.csv has no column 'z'; columns: x, y$"),
    ({"exclude": ["z"]}, r"t.csv has no column 'z'; columns: x, y$"),
    ({"bins": {"z": 3}}, r"t.csv has no column 'z'"),
    ({"missing_values": ["z=-"]}, r"t.csv has no column 'z'"),
    ({"columns": []}, r"no columns chosen of .*t.csv; columns: x, y"),
    ({"exclude": ["x", "y"]}, r"no columns chosen of"),
    ({"exclude": 3}, r"exclude=3 must be a list of texts"),
    ({"missing": "keep"}, r"unknown missing 'keep'; available: category, drop, error"),
    ({"group_rare": "2"}, r"group_rare='2' must be a share above 0 and below 1, such as 0.5%"),
    ({"group_rare": "few"}, r"group_rare='few' must be"),
    ({"group_rare": True}, r"group_rare=True must be"),
    ({"encoding": "klingon"}, r"encoding='klingon' is unknown; valid: latin-1"),
    ({"encoding": "rot13"}, r"encoding='rot13' is unknown"),
    ({"delimiter": "ab"}, r"delimiter='ab' must be one character such as"),
    ({"delimiter": "x"}, r"delimiter='x' must be one character"),
    ({"decimal": ";"}, r"unknown decimal mark ';'; available: ., ,"),
    ({"max_bytes": 9}, r"t.csv has more than 9 bytes, unpacked; give a larger max_bytes"),
    ({"max_bytes": 0}, r"max_bytes=0 must be a whole number"),
    ({"bins": {"y": 3}}, r"bins of 'y' need numbers, but row 1 holds something else"),
    ({"bins": {"x": "ten"}}, r"bins of 'x'='ten' must be a number up to 65,535, such as 10, or 10q"),
    ({"bins": {"x": 1}}, r"bins of 'x'='1' must be"),
    ({"bins": {"x": 70_000}}, r"bins of 'x'='70000' must be"),
    ({"bins": {"x": [3, 2, 1]}}, r"bins of 'x'='3:2:1' must be .* rising edges"),
    ({"bins": {"x": [2, 3, 4]}}, r"bins of 'x' need numbers from 2 to 4, but row 1 holds something else"),
])  # fmt: skip
def test_wrong_values_of_options(tmp_path, given, message):
    with pytest.raises(gpu_rsfd.InputError, match=message) as error:
        load(tmp_path, "x,y\n1,a\n2,b\n", **given)
    assert "\n" not in str(error.value)


# Values


def test_text_numbers_and_missing_values(tmp_path):
    data = load(tmp_path, TABLE, "people.csv")
    assert (data.name, data.n, data.names) == ("people", 5, ("city", "age", "income", "married"))
    assert data.labels == (
        ("Aarau", "Bern", "Chur, upper"),
        ("9", "30", "41", "100"),  # numbers in their own order
        ("10.5", "20", "1e3", "(missing)"),
        ("no", "yes", "(missing)"),
    )
    assert rows(data)[2:4] == [("Bern", "100", "(missing)", "yes"), ("Chur, upper", "9", "1e3", "(missing)")]
    chosen = gpu_rsfd.load_table(tmp_path / "people.csv", columns=["married", "city"], name="mine")
    assert (chosen.name, chosen.names) == ("mine", ("married", "city"))
    assert load(tmp_path, TABLE, exclude="city").names == ("age", "income", "married")
    dropped = load(tmp_path, TABLE, missing="drop")
    assert rows(dropped) == [("Bern", "30", "10.5", "yes"), ("Aarau", "9", "20", "no"), ("Aarau", "41", "20", "no")]
    assert dropped.domain == (2, 3, 2, 2)
    with pytest.raises(gpu_rsfd.InputError, match=r"column 'income' has 1 missing values; missing=category or drop"):
        load(tmp_path, TABLE, missing="error")
    assert gpu_rsfd.simulate(data, epsilons=1.0, protocols="spl-grr", repetitions=2).labels == data.labels


def test_missing_values_of_every_column_or_of_one(tmp_path):
    content = "rhesus,name,n\n-,-,1\n+,n.a.,-\n+,Ann,2\n"
    data = load(tmp_path, content, missing_values=["n.a.", "name=-", "n=-"])
    assert data.labels == (("+", "-"), ("Ann", "(missing)"), ("1", "2", "(missing)"))
    assert load(tmp_path, content, missing_values="-").labels[0] == ("+", "(missing)")
    assert load(tmp_path, content).labels[2] == ("-", "1", "2")  # one text makes a column text
    frame = pandas.DataFrame({"x": ["NA", "a", None], "y": [1.0, -999, 2]})
    assert as_dataset(frame).labels[0] == ("NA", "a", "(missing)")  # NA is a text where types are declared
    assert gpu_rsfd.load_table(frame, missing_values=["y=-999.0"]).labels[1] == ("1.0", "2.0", "(missing)")


def test_numbers_are_compared_digit_by_digit(tmp_path):
    data = load(tmp_path, column(["1", "1.0", "01", "+1", "1e0", "10", "2", "-0", "0"]))
    assert (data.labels, data.counts.tolist()) == ((("0", "1", "2", "10"),), [2, 5, 1, 1])
    assert load(tmp_path, column(["+1", "01", "1.0", "2"])).labels == (("1.0", "2"),)
    long = ["12345678901234567890", "12345678901234567891"]  # equal as floats
    assert load(tmp_path, column(long)).labels == (tuple(long),)
    assert load(tmp_path, column(["01234", "94110", "00501"])).labels == (("00501", "01234", "94110"),)
    typed = pyarrow.table({"x": ["1", "01", "1.0"]})  # declared text
    assert gpu_rsfd.load_table(typed).labels == (("01", "1", "1.0"),)
    signed = gpu_rsfd.load_table(pyarrow.table({"x": [0.0, -0.0, 1.0, -0.0]}))  # results files know them as two values
    assert (signed.labels, signed.counts.tolist()) == ((("-0.0", "0.0", "1.0"),), [2, 1, 1])


def test_decimal_commas_are_asked_for(tmp_path):
    content = "name;pay\nAnn;9,5\nBob;10\nCem;10,0\nDan;1250,75\n"
    data = load(tmp_path, content, columns=["pay"], decimal=",")
    assert (data.labels, data.counts.tolist()) == ((("9,5", "10", "1250,75"),), [1, 2, 1])
    assert load(tmp_path, content, columns=["pay"]).labels == (("10", "10,0", "1250,75", "9,5"),)
    assert load(tmp_path, content, columns=["pay"], decimal=",", bins={"pay": 2}).counts.tolist() == [3, 1]
    with pytest.raises(gpu_rsfd.InputError, match=r"need numbers, but row 2 holds something else"):
        load(tmp_path, "x;y\n1,5;a\n1.250;b\n", decimal=",", bins={"x": 2})  # a thousand, or less than two?


@pytest.mark.parametrize("bins", [2, 7, "10", "4q", "10q", [0, 5, 20, 1000], [-np.inf, 20, np.inf]])
def test_bins_hold_what_their_labels_say(tmp_path, bins):
    numbers = np.round(np.random.Generator(np.random.Philox(5)).lognormal(3, 1, 2000), 2)
    data = load(tmp_path, column(numbers.tolist()), bins={"x": bins})
    assert data.domain[0] == (len(bins) - 1 if isinstance(bins, list) else int(str(bins).rstrip("q")))
    for number, (label,) in zip(numbers, rows(data), strict=True):
        ends = {"<": f"[-inf, {label[2:]})", "≥": f"[{label[2:]}, inf)"}.get(label[0], label)
        low, high = (float(edge) for edge in ends[1:-1].split(", "))
        assert low <= number <= high
    if str(bins).endswith("q"):
        assert data.counts.max() - data.counts.min() <= 12  # edges are rounded
    if not isinstance(bins, list):  # no edge is the number of one user, or tells the extremes of all
        assert (data.labels[0][0][0], data.labels[0][-1][0]) == ("<", "≥")
        edges = set(re.findall(r"[\d.]+", " ".join(data.labels[0])))
        assert str(bins).endswith("q") or not {f"{number:g}" for number in numbers} & edges
        more = load(tmp_path, column([*numbers.tolist(), *(0.01, 1e9) * 4]), bins={"x": bins})
        assert more.domain == data.domain
        assert float(more.labels[0][-1][2:]) < numbers.max()


def test_quantiles_of_a_value_that_most_users_share(tmp_path):
    data = load(tmp_path, column([0] * 90 + list(range(1, 11))), bins={"x": "20q"})
    assert data.counts.min() > 0
    assert data.counts[0] == 90
    data = load(tmp_path, column([0] * 99 + [5]), bins={"x": "4q"})
    assert (data.labels[0], data.counts.tolist()) == (("< 2.5", "≥ 2.5"), [99, 1])
    assert load(tmp_path, column([1e6, 1e6 + 1]), bins={"x": 2}).labels[0][0] == "< 1000000.5"


@pytest.mark.slow
def test_group_rare(tmp_path):
    content = column(["a"] * 90 + ["b"] * 6 + ["c"] * 2 + ["other"] + ["?"])
    data = load(tmp_path, content, group_rare="5%")
    assert (data.labels, data.counts.tolist()) == ((("a", "b", "other", "(missing)"),), [90, 6, 3, 1])
    alone = column(["a"] * 90 + ["b"] * 9 + ["c"])
    assert load(tmp_path, alone, group_rare="2%").labels == (("a", "b", "c"),)  # nothing to group it with
    assert load(tmp_path, column(["other"] * 90 + list("abc")), group_rare=0.05).labels == (("other", "(other)"),)
    many = load(tmp_path, column([*range(70_000), *["0"] * 70_000]), group_rare="1%")
    assert many.labels == (("0", "other"),)


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_domain_files(tmp_path, suffix):
    path, content = (
        tmp_path / f"d{suffix}",
        {"city": ["Zug", "Bern", "Aarau", "Chur, upper"], "age": [100, 41.0, 30, 9, 8]},
    )
    lines = [f"{key} = {json.dumps(values)}" for key, values in content.items()]
    path.write_text(json.dumps(content) if suffix == ".json" else "\n".join(lines))
    data = load(tmp_path, TABLE, columns=["city", "age", "married"], domain_file=path)
    assert data.labels[:2] == (("Zug", "Bern", "Aarau", "Chur, upper"), ("100", "41.0", "30", "9", "8"))
    assert data.counts[:9].tolist() == [0, 2, 2, 1, 1, 1, 1, 2, 0]


@pytest.mark.parametrize("content,message", [
    ('{"x": ["a"]}', r"column 'x' holds in row 2 a value that is not in its domain in .*d.json: a$"),
    ('{"x": ["a", "b", "a"]}', r"labels\[0\] has 'a' twice"),
    ('{"y": ["01", "1"]}', r"column 'y' holds in row 1 a value that is not in its domain"),  # spelling decides
    ('{"z": ["a"]}', r"t.csv has no column 'z'; columns: x, y"),
    ('{"x": "ab"}', r"'x' has no list of texts, numbers, true and false; it maps each column to its values"),
    ('{"x": [["a"]]}', r"'x' has no list of texts"),
    ("[1]", r"domain file .*d.json is not valid: "),
    ("{", r"domain file .*d.json is not valid: "),
    ("[" * 100_000, r"domain file .*d.json is not valid: "),
])  # fmt: skip
def test_wrong_domain_files(tmp_path, content, message):
    (tmp_path / "d.json").write_text(content)
    with pytest.raises(gpu_rsfd.InputError, match=message):
        load(tmp_path, "x,y\na,1.0\nb,2\n", domain_file=tmp_path / "d.json")
    with pytest.raises(gpu_rsfd.InputError, match=r"e.json does not exist"):
        load(tmp_path, "x,y\na,1\nb,2\n", domain_file=tmp_path / "e.json")


# Text files


@pytest.mark.parametrize("content,given", [
    ("name,age\nAnn,1\nBob,2\nAnn,2\n", {}),
    (b"\xef\xbb\xbfname,age\nAnn,1\nBob,2\nAnn,2\n", {}),  # Excel, "CSV UTF-8"
    ("name,age\r\nAnn,1\r\nBob,2\r\nAnn,2\r\n", {}),
    ("name,age\rAnn,1\rBob,2\rAnn,2", {}),  # old Macintosh
    ("\n\nname,age\n\nAnn,1\n\n\nBob,2\nAnn,2\n\n", {}),
    ('"name","age"\n"Ann","1"\n"Bob","2"\n"Ann","2"\n', {}),  # quoted by R
    (" name , age \nAnn , 1\n Bob,2\nAnn, 2", {}),
    ("name,age,\nAnn,1,\nBob,2,\nAnn,2,\n", {}),  # a trailing delimiter
    (",name,age\n0,Ann,1\n1,Bob,2\n2,Ann,2\n", {}),  # the index that pandas writes
    ("name;age\nAnn;1\nBob;2\nAnn;2\n", {}),
    ("name|age\nAnn|1\nBob|2\nAnn|2\n", {}),
    ("name\tage\nAnn\t1\nBob\t2\nAnn\t2\n", {}),
    ("name~age\nAnn~1\nBob~2\nAnn~2\n", {"delimiter": "~"}),
    ("name\tage\r\nAnn\t1\r\nBob\t2\r\nAnn\t2\r\n".encode("utf-16"), {"encoding": "utf-16"}),
    (gzip.compress(b"name;age\nAnn;1\nBob;2\nAnn;2\n", mtime=0), {"packed": True}),
])  # fmt: skip
def test_one_table_in_many_shapes(tmp_path, content, given):
    file = "t.csv.gz" if given.pop("packed", False) else "t.csv"
    data = load(tmp_path, content, file, **given)
    assert (data.name, data.names, data.source) == ("t", ("name", "age"), file)
    assert rows(data) == [("Ann", "1"), ("Bob", "2"), ("Ann", "2")]


@pytest.mark.parametrize("content,names,expected", [
    ("size; in cm\n1\n2\n", ("size; in cm",), [("1",), ("2",)]),  # a name, not a delimiter
    ("name\na;b\nc;d\n", ("name",), [("a;b",), ("c;d",)]),
    ("name;pay, net\nAnn;1\nBob;2\n", ("name", "pay, net"), [("Ann", "1"), ("Bob", "2")]),
    ("a|b,c\n1,2\n2,1\n", ("a|b", "c"), [("1", "2"), ("2", "1")]),
    ('"a;b"\n"1;2"\n"3;4"\n', ("a;b",), [("1;2",), ("3;4",)]),
    ('"full\nname",x\n"Ann\nA.",1\nBob,2\n', ("full\nname", "x"), [("Ann\nA.", "1"), ("Bob", "2")]),
])  # fmt: skip
def test_delimiters_are_guessed_with_care(tmp_path, content, names, expected):
    data = load(tmp_path, content)
    assert (data.names, rows(data)) == (names, expected)


def test_many_blocks_and_long_cells(tmp_path, monkeypatch):
    long = load(tmp_path, "note,x\n" + "".join(f'"{"ab"[i % 2] * 3_000_000}",{i}\n' for i in range(2)))
    assert long.domain == (2, 2)
    monkeypatch.setattr(table, "BLOCK_BYTES", 1000)
    data = load(
        tmp_path, "note,x\n" + "".join(f'"line {i % 7}\nof {i % 3}, ""quoted""",{i % 5}\n' for i in range(2000))
    )
    assert (data.n, data.domain, rows(data)[1999]) == (2000, (21, 5), ('line 4\nof 1, "quoted"', "4"))


@pytest.mark.parametrize("content,message", [
    (b"", r"no columns chosen of .*t.csv"),
    (b"x,y\n\n", r"t.csv has no rows; at least one is needed"),
    (b'a,b\n1,"2\n3,4\n', r"t.csv can't be read: row 1 has wrong quotation marks"),
    (b'a,b\n1,2\n1,"x\n2,"y"\n', r"t.csv can't be read: row 2 has wrong quotation marks"),
    (b'a,"b\n1,2\n', r"t.csv can't be read: "),
    (b'a,b\n1,2\n"x\ny",2\n3\n', r"row 3 has 1 fields, but the header has 2, cut at ','"),
    (b"a;b\n1;2\n1;2;3\n", r"row 2 has 3 fields, but the header has 2, cut at ';'"),
    (b"name,a;b,age\nAnn,1;2,3\n", r"can be read with the delimiter ',' or ';'; give the one that is meant"),
    (b"a,b\nx,1\ny\0,2\n", r"holds a NUL character"),
    (b"x,y\n" + b"a,2\nb,3\n" * 4500 + b"\xff\xfe,2\n", r"t.csv is not utf-8 text; give its encoding, such as cp1252"),
    (b"x,x,y\n1,2,3\n2,1,4\n", r"column 'x' is twice in .*t.csv: leave it out \(--exclude x\), or rename it"),
    (b"x,y\n1,a\n1,b\n", r"column 'x' has one value only, '1'; .*: leave it out \(--exclude x\)"),
    (b"x,y\n,a\n?,b\n", r"column 'x' has one value only, '\(missing\)'"),
    (column([i / 2 for i in range(65_536)]).encode(), r"column 'x' has 65,536 values; at most 65,535 are valid"),
    (",".join(map(str, range(65_536))).encode() + b"\n", r"t.csv has 65,536 columns; at most 65,535 are valid"),
])  # fmt: skip
def test_text_that_cannot_be_used_is_refused_in_one_line(tmp_path, content, message):
    with pytest.raises(gpu_rsfd.InputError, match=message) as error:
        load(tmp_path, content)
    assert "\n" not in str(error.value)
    assert "Ann" not in str(error.value)


def test_all_problems_of_the_columns_come_at_once(tmp_path):
    with pytest.raises(gpu_rsfd.InputError) as error:
        load(tmp_path, "a,b,c\n1,x,5\n1,x,6\n", bins={"c": [6, 7, 8]})
    assert [line.strip().partition(";")[0] for line in str(error.value).splitlines()] == [
        "column 'a' has one value only, '1'",
        "column 'b' has one value only, 'x'",
        "bins of 'c' need numbers from 6 to 8, but row 1 holds something else",
    ]


# Other files, and frames


def test_parquet_types(tmp_path):
    columns = {
        "i": pyarrow.array([3, 10, None, 3]),
        "f": pyarrow.array([0.5, float("nan"), None, 2.0]),
        "b": pyarrow.array([True, False, True, True]),
        "s": pyarrow.array(["7", "NA", "x", "7"]),  # declared text: numbers, words and NA are values
        "c": pyarrow.array(["u", "v", None, "u"]).dictionary_encode(),
        "t": pyarrow.array([0, 1, 1, 0], pyarrow.date32()),
    }
    path = tmp_path / "typed.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=3)
    data = gpu_rsfd.load_table(path)
    assert data.labels == (
        ("3", "10", "(missing)"),
        ("0.5", "2.0", "(missing)"),
        ("false", "true"),
        ("7", "NA", "x"),
        ("u", "v", "(missing)"),
        ("1970-01-01", "1970-01-02"),
    )
    assert data.counts.tolist() == [2, 1, 1, 1, 1, 2, 1, 3, 2, 1, 1, 2, 1, 1, 2, 2]
    assert [c.kind for c in gpu_rsfd.describe(path).columns] == [
        "number",
        "number",
        "true/false",
        "text",
        "text",
        "date",
    ]
    for given, message in (
        ({"max_bytes": 100}, "more than 100 bytes, unpacked"),
        ({"delimiter": ";"}, "is for text files"),
    ):
        with pytest.raises(gpu_rsfd.InputError, match=message):
            gpu_rsfd.load_table(path, **given)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(gpu_rsfd.InputError, match=r"typed.parquet can't be read: "):
        gpu_rsfd.load_table(path)


def test_csv_and_parquet_agree_over_many_blocks(tmp_path):
    """Some megabytes, so that both readers see several dictionaries."""
    n, draw = 150_000, np.random.Generator(np.random.Philox(1))
    words = np.array([f"a rather long value, number {i:03d}" for i in range(300)])
    content = pyarrow.table({"word": words[draw.integers(0, 300, n)], "number": draw.integers(0, 500, n)})
    pyarrow.parquet.write_table(content, tmp_path / "t.parquet", row_group_size=40_000)
    pyarrow.csv.write_csv(content, tmp_path / "t.csv")
    a, b = (gpu_rsfd.load_table(tmp_path / f"t.{suffix}") for suffix in ("csv", "parquet"))
    assert a.describe() == {**b.describe(), "source": "t.csv", "loaded": {"file": "t.csv"}}
    assert a.labels[0] == tuple(words)
    assert np.array_equal(words[a.column(0, 0, n)], content["word"].to_numpy())


def test_json_lines(tmp_path):
    lines = ['{"b": 1, "d": "2024-01-01", "z": true}', "", '{"new": "1", "b": 12345678901234567, "d": "x", "z": null}']
    for name in ("t.jsonl", "t.NDJSON"):
        data = load(tmp_path, "\ufeff" + "\n".join(lines), name)
        assert data.names == ("b", "d", "z", "new")  # in the order of the file
        assert data.labels == (
            ("1", "12345678901234567"), ("2024-01-01", "x"), ("true", "(missing)"), ("1", "(missing)"),
        )  # fmt: skip
    late = "".join(json.dumps({"a": i % 2, **({"b": "x"} if i > 99_000 else {})}) + "\n" for i in range(100_000))
    assert load(tmp_path, gzip.compress(late.encode()), "late.jsonl.gz").counts.tolist() == [
        50_000,
        50_000,
        999,
        99_001,
    ]


@pytest.mark.parametrize("content,message", [
    ('{"a": 1}\n{"a": "x"}\n', r"column 'a' holds values of several types, .*: leave it out \(--exclude a\)"),
    ('{"a": 12345678901234567890123}\n{"a": 1}\n', r"or numbers beyond 64 bits"),
    ('{"a": {"b": 1}}\n{"a": null}\n', r"column 'a' holds lists or objects: leave it out \(--exclude a\)"),
    ('{"a": ' * 100_000, r"t.jsonl is no file of JSON objects, one per line: line 1: nested too deeply"),
    ('{"a": 1}\n{"a": \n', r"line 2: Expecting value"),
    ('[{"a": 1}, {"a": 2}]', r"t.jsonl is no file of JSON objects, one per line: line 1: no object"),
    ('{"a": 1}\n[["a", 2]]\n', r"line 2: no object"),
    ('{"a": 1}\n{"a": ' + "9" * 5000 + "}\n", r"line 2: a number is too long$"),
    (b'{"a": "\xff"}\n', r"t.jsonl is not utf-8 text"),
    (" \n", r"no columns chosen of .*t.jsonl"),
    ("".join(f'{{"k{i}": 1}}\n' for i in range(65_536)), r"t.jsonl has 65,536 columns; at most 65,535 are valid"),
    ("".join(f'{{"k{i}": 1}}\n' for i in range(60_000)), r"t.jsonl has more than 8,589,934,592 bytes, unpacked"),
])  # fmt: skip
def test_json_that_cannot_be_used_is_refused_at_once(tmp_path, content, message):
    with pytest.raises(gpu_rsfd.InputError, match=message):
        load(tmp_path, content, "t.jsonl")


def test_a_packed_file_is_unpacked_up_to_a_limit(tmp_path):
    with pytest.raises(
        gpu_rsfd.InputError, match=r"t.csv.gz has more than 1,000,000 bytes, unpacked; give a larger max"
    ):
        load(tmp_path, gzip.compress(b"x,y\n" + b"1,2\n" * 10**6), "t.csv.gz", max_bytes=10**6)
    with pytest.raises(gpu_rsfd.InputError, match=r"t.csv.gz can't be read: "):
        load(tmp_path, gzip.compress(b"x,y\n1,2\n" * 99)[:-20], "t.csv.gz")


@pytest.mark.parametrize("name", ["t.xlsx", "t.json", "t.npz", "people", "t.parquet.gz"])
def test_files_of_other_kinds(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("x\n1\n2\n")
    Path("syn1").write_text("x\n1\n2\n")
    assert not is_table("syn1")  # a data set's name stays one
    for what in (name, Path(name)):
        with pytest.raises(
            gpu_rsfd.InputError, match=r"has the unknown suffix .*; available: .csv, .tsv, .txt, .jsonl, "
        ):
            as_dataset(what)
    Path("folder.csv").mkdir()
    for wrong, message in (("folder.csv", "folder.csv is not a file"), ("nobody.csv", "nobody.csv does not exist")):
        with pytest.raises(gpu_rsfd.InputError, match=message):
            as_dataset(wrong)


FRAME = {"sex": ["f", "m", None, "f"], "age": [30, 4, 5, 30], "pay": [1.5, None, 2.0, 2.0], "ok": [True, False] * 2}
LABELS = (("f", "m", "(missing)"), ("4", "5", "30"), ("1.5", "2.0", "(missing)"), ("false", "true"))


class Stream:
    """Anything with the Arrow PyCapsule interface, as a stream."""

    def __init__(self, content):
        self.content = content

    def __arrow_c_stream__(self, requested_schema=None):
        return self.content.__arrow_c_stream__(requested_schema)


class Batch:
    """The same as one array."""

    def __init__(self, content):
        self.content = content

    def __arrow_c_array__(self, requested_schema=None):
        return self.content.__arrow_c_array__(requested_schema)


def test_tables_in_memory():
    content = pyarrow.table(FRAME)
    sexes = content["sex"].dictionary_encode().combine_chunks()
    unsigned = pyarrow.DictionaryArray.from_arrays(sexes.indices.cast("uint32"), sexes.dictionary)  # as Polars has it
    old = int(pyarrow.__version__.partition(".")[0]) < 19  # which can't make such strings
    frames = [
        pandas.DataFrame(FRAME),
        pandas.DataFrame(FRAME, index=list("abcd")),
        pandas.DataFrame(FRAME).astype({"sex": "category"}),
        content,
        Stream(content),
        Stream(content.set_column(0, "sex", unsigned)),
        *([] if old else [Stream(content.set_column(0, "sex", content["sex"].cast(pyarrow.string_view())))]),
        Batch(pyarrow.record_batch(FRAME)),
    ]
    for frame in frames:
        data = as_dataset(frame)
        assert (data.names, data.labels, data.name) == (tuple(FRAME), LABELS, "data")
        assert data.source == f"{type(frame).__name__} in memory"
        assert "loaded" not in data.describe()
    data = gpu_rsfd.load_table(frames[0], name="mine", columns=["age"], bins={"age": 2})
    assert (data.name, data.labels) == ("mine", (("< 17", "≥ 17"),))
    for frame, message in (
        (pandas.DataFrame({"mixed": [1, "secret"]}), "the DataFrame can't be read: Conversion failed for column mixed"),
        (pandas.DataFrame({"x": [], "y": []}), "the DataFrame has no rows"),
        (Batch(pyarrow.array([1, 2])), "the Batch can't be read: "),
        (pyarrow.table({"a": [[1], [2]]}), r"column 'a' has type list<.*>; text, numbers, true/false and dates are"),
        (pyarrow.table({"a": [b"\xff", b"b"]}), r"column 'a' has type binary"),
    ):
        with pytest.raises(gpu_rsfd.InputError, match=message) as error:
            gpu_rsfd.load_table(frame)
        assert "secret" not in str(error.value)
    with pytest.raises(
        gpu_rsfd.InputError, match=r"delimiter is for text files \(.csv, .tsv, .txt\); the DataFrame is none"
    ):
        gpu_rsfd.load_table(frames[0], delimiter=";")


def test_missing_values_of_a_data_set():
    data = gpu_rsfd.Dataset([[0, 1], [1, 2], [0, 0]], (2, 3), labels=[["no", "yes"], ["?", "a", "b"]])
    report = gpu_rsfd.describe(data, missing_values=["A2=?"], min_count=0)
    assert (report.dataset().labels, report.columns[1].missing) == ((("no", "yes"), ("a", "b", "(missing)")), 1)
    assert gpu_rsfd.describe(data).dataset().labels == data.labels  # none of its own
