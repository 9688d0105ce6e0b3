"""Text tables as people have them: exports of spreadsheets and databases, other delimiters, odd headers."""

import json

import numpy as np
import pytest
from command import refusal, run

import gpu_rsfd
from gpu_rsfd.datasets.table import arrow
from gpu_rsfd.datasets.table import load as table

pytest.importorskip("pyarrow")

ROWS = [("Ann", "1"), ("Bob", "2"), ("Ann", "2")]


def load(tmp_path, content, name="people.csv", **options):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return gpu_rsfd.load_table(path, **options)


def rows(data):
    columns = [[data.labels[j][code] for code in data.column(j, 0, data.n)] for j in range(data.d)]
    return list(zip(*columns, strict=True))


def refused(tmp_path, content, message, name="people.csv", **options):
    with pytest.raises(gpu_rsfd.errors.InputError, match=message) as error:
        load(tmp_path, content, name, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name,content,source", [
    ("t.csv", "name,age\nAnn,1\nBob,2\nAnn,2\n", "t.csv"),
    ("t.csv", b"\xef\xbb\xbfname,age\nAnn,1\nBob,2\nAnn,2\n", "t.csv"),  # Excel, "CSV UTF-8"
    ("t.csv", "name,age\r\nAnn,1\r\nBob,2\r\nAnn,2\r\n", "t.csv"),
    ("t.csv", "name,age\rAnn,1\rBob,2\rAnn,2", "t.csv"),  # old Macintosh
    ("t.csv", "\n\nname,age\n\nAnn,1\n\n\nBob,2\nAnn,2\n\n", "t.csv"),
    ("t.csv", '"name","age"\n"Ann","1"\n"Bob","2"\n"Ann","2"\n', "t.csv"),  # quoted by R
    ("t.csv", " name , age \nAnn , 1\n Bob,2\nAnn, 2", "t.csv"),
    ("t.csv", "name,age,\nAnn,1,\nBob,2,\nAnn,2,\n", "t.csv"),  # a trailing delimiter
    ("t.csv", "name;age\nAnn;1\nBob;2\nAnn;2\n", "t.csv (delimiter ';')"),
    ("t.csv", "sep=;\r\nname;age\r\nAnn;1\r\nBob;2\r\nAnn;2\r\n", "t.csv (delimiter ';')"),
    ("t.csv", "sep=,\nname,age\nAnn,1\nBob,2\nAnn,2\n", "t.csv"),
    ("t.csv", "name|age\nAnn|1\nBob|2\nAnn|2\n", "t.csv (delimiter '|')"),
    ("t.csv", "name\tage\nAnn\t1\nBob\t2\nAnn\t2\n", "t.csv (delimiter tab)"),
    ("t.tsv", "name\tage\nAnn\t1\nBob\t2\nAnn\t2\n", "t.tsv"),
    ("t.tsv", "name,age\nAnn,1\nBob,2\nAnn,2\n", "t.tsv (delimiter ',')"),
    ("t.TXT", "name\tage\r\nAnn\t1\r\nBob\t2\r\nAnn\t2\r\n".encode("utf-16"), "t.TXT (UTF-16, delimiter tab)"),
    ("t.csv", b"\xfe\xff" + "name;age\nAnn;1\nBob;2\nAnn;2\n".encode("utf-16-be"), "t.csv (UTF-16, delimiter ';')"),
])  # fmt: skip
def test_one_table_in_many_shapes(tmp_path, name, content, source):
    data = load(tmp_path, content, name)
    assert data.names == ("name", "age")
    assert rows(data) == ROWS
    assert data.source == data.describe()["source"] == source


@pytest.mark.parametrize("content,names,expected", [
    ("size; in cm\n1\n2\n", ("size; in cm",), [("1",), ("2",)]),  # a name, not a delimiter
    ("name\na;b\nc;d\n", ("name",), [("a;b",), ("c;d",)]),
    ("name;pay, net\nAnn;1\nBob;2\n", ("name", "pay, net"), [("Ann", "1"), ("Bob", "2")]),
    ("a|b,c\n1,2\n2,1\n", ("a|b", "c"), [("1", "2"), ("2", "1")]),
    ('name,text\nAnn,"a; b"\nBob,c\n', ("name", "text"), [("Ann", "a; b"), ("Bob", "c")]),
    ('"a;b"\n"1;2"\n"3;4"\n', ("a;b",), [("1;2",), ("3;4",)]),
])  # fmt: skip
def test_delimiters_are_guessed_with_care(tmp_path, content, names, expected):
    data = load(tmp_path, content)
    assert data.names == names
    assert rows(data) == expected


def test_a_delimiter_that_is_given_wins(tmp_path):
    content = "name,a;b,age\nAnn,1;2,3\nBob,2;1,4\n"
    refused(tmp_path, content, r"people.csv can be read with the delimiter ',' or ';'; give the one that is meant")
    assert load(tmp_path, content, delimiter=",").names == ("name", "a;b", "age")
    assert load(tmp_path, content, delimiter=";").names == ("name,a", "b,age")
    assert load(tmp_path, "a b\n1 2\n2 1\n", delimiter=" ").source == "people.csv (delimiter ' ')"
    assert load(tmp_path, "a\tb\n1\t2\n2\t1\n", delimiter="tab").d == 2
    assert load(tmp_path, "a;b\n1;2\n2;1\n", "t.tsv", delimiter="semicolon").source == "t.tsv (delimiter ';')"
    for wrong in ("", "ab", '"', "\n", "x", "7", "é"):
        refused(tmp_path, content, r"delimiter='.*' must be one character such as", delimiter=wrong)


def test_a_delimiter_is_for_text_files(tmp_path):
    np.savez(tmp_path / "t.npz", codes=[[0, 1], [1, 0]])
    with pytest.raises(ValueError, match=r"delimiter=';' is for text files \(.csv, .tsv, .txt\); .*t.npz has none"):
        gpu_rsfd.load_table(tmp_path / "t.npz", delimiter=";")


def test_newlines_within_quotes(tmp_path):
    data = load(tmp_path, '"full\nname",age\n"Ann\nA.",1\nBob,2\n"Ann\nA.",2\n')
    assert data.names == ("full\nname", "age")
    assert rows(data) == [("Ann\nA.", "1"), ("Bob", "2"), ("Ann\nA.", "2")]


def test_newlines_within_quotes_in_many_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow, "BLOCK_BYTES", 1000)
    lines = [f'"line {i % 7}\nof {i % 3}, ""quoted""",{i % 5}\n' for i in range(2000)]
    data = load(tmp_path, "note,x\n" + "".join(lines))
    assert data.n == 2000
    assert rows(data)[1999] == ('line 4\nof 1, "quoted"', "4")
    assert data.domain == (21, 5)


def test_long_cells(tmp_path):
    data = load(tmp_path, "note,x\n" + "".join(f"{'ab'[i % 2] * 3_000_000},{i}\n" for i in range(2)))
    assert data.domain == (2, 2)


@pytest.mark.parametrize("content,message", [
    ('a,b\n1,"2\n3,4\n', r"row 1 \(line 2\): a quotation mark is opened and never closed"),
    ('a,b\n1,2\n1,"x\n2,"y"\n', r"row 2 \(line 3\): a closing quotation mark is followed by neither ',' nor the end"),
    ('a,"b\n1,2\n', r"its header is not valid: a quotation mark is opened and never closed"),
    ('a,b\n1,2\n"x\ny",2\n3\n', r"row 3 \(line 5\) has 1 field, but the header has 2, cut at ','"),
    ("a;b\n1;2\n1;2;3\n", r"row 2 \(line 3\) has 3 fields, but the header has 2, cut at ';'"),
    ("a,b\n" + "1,2\n" * 5000 + "1\n" + "1,2\n" * 5000, r"row 5,001 \(line 5,002\) has 1 field, but"),
    ("a,b\n1,2\n".encode("utf-16-le"), r"line 1 holds a NUL character; is it text, in UTF-8 \(or UTF-16 with"),
    ("a,b\nx,1\ny\0,2\n", r"line 3 holds a NUL character"),
])  # fmt: skip
def test_broken_text_is_refused_in_one_line(tmp_path, content, message):
    refused(tmp_path, content, "people.csv is not a readable CSV file: " + message)


def test_headers_with_a_name_twice_or_none(tmp_path):
    content = "x,x,y,\n1,2,3,9\n2,1,4,9\n"
    refused(tmp_path, content.replace(",9", ","), r"column 'x' is given twice in .*people.csv")
    assert rows(load(tmp_path, content, columns=["y"])) == [("3",), ("4",)]
    refused(tmp_path, ",y\n0,a\n1,b\n", r"column 1 of .*people.csv has no name in the header, but holds '0' \(row 1\)")
    assert rows(load(tmp_path, ",y\n0,a\n1,b\n", columns=["y"])) == [("a",), ("b",)]
    refused(tmp_path, "x,y\n\n", r"people.csv has no rows; at least one is needed")


def test_spellings_of_a_number_are_one_value(tmp_path):
    data = load(tmp_path, "x\n1\n1.0\n01\n+1\n1e0\n10\n2\n-0\n0\n")
    assert data.labels == (("0", "1", "2", "10"),)
    assert data.counts.tolist() == [2, 5, 1, 1]
    assert load(tmp_path, f"x\n1e-{'9' * 20}\n1e{'9' * 20}\n1\n").domain == (3,)
    assert load(tmp_path, "x\n+1\n01\n1.0\n2\n").labels == (("1.0", "2"),)  # the plainest, whatever the order
    assert load(tmp_path, "x\n1\n1.0\none\ntwo\n", columns=["x"], domain_file=domains(tmp_path, x=[1, "one", "two"])).n


def domains(tmp_path, **values):
    path = tmp_path / "domains.json"
    path.write_text(json.dumps(values))
    return path


def test_identifiers_keep_their_zeros_and_their_digits(tmp_path):
    assert load(tmp_path, "zip\n01234\n94110\n00501\n").labels == (("00501", "01234", "94110"),)
    long = ["12345678901234567890", "12345678901234567891"]  # equal as floats
    assert load(tmp_path, "id\n" + "\n".join(long)).labels == (tuple(long),)
    # a spreadsheet drops zeros: both are the same place, unless a domain file says otherwise
    assert load(tmp_path, "zip\n01234\n1234\n94110\n").labels == (("1234", "94110"),)
    path = domains(tmp_path, zip=["01234", "1234", "94110"])
    assert load(tmp_path, "zip\n01234\n1234\n94110\n", domain_file=path).counts.tolist() == [1, 1, 1]
    refused(tmp_path, "zip\n1234.0\n01234\n", "holds '1234.0'", domain_file=path)


def test_text_declared_as_such_is_not_merged(tmp_path):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"x": ["1", "01", "1.0"]}), tmp_path / "t.parquet")
    assert gpu_rsfd.load_table(tmp_path / "t.parquet").labels == (("01", "1", "1.0"),)


def test_decimal_commas(tmp_path):
    data = load(tmp_path, "name;pay\nAnn;9,5\nBob;10\nCem;10,0\nDan;1250,75\n", columns=["pay"])
    assert data.labels == (("9,5", "10", "1250,75"),)
    assert data.counts.tolist() == [1, 2, 1]
    data = load(tmp_path, "name;pay\nAnn;9,5\nBob;10\nCem;19,5\n", columns=["pay"], bins={"pay": 2})
    assert (data.labels, data.counts.tolist()) == ((("[9.5, 14.5)", "[14.5, 19.5]"),), [2, 1])
    # 1,250 may be a thousand: no number, so no bins
    refused(tmp_path, "a;pay\n1;1,250\n2;2,500\n", r"bins of 'pay' need numbers", bins={"pay": 2})
    assert load(tmp_path, 'a,pay\n1,"9,5"\n2,"10,5"\n').labels[1] == ("10,5", "9,5")


COMMAS = 'sex,"pay, net"\nf,1\nm,2\nf,3\n'


@pytest.mark.parametrize("options,names", [
    (["--columns", "pay, net"], ("pay, net",)),
    (["--columns", "pay, net", "--columns", "sex"], ("pay, net", "sex")),
    (["--columns", 'sex,"pay, net"'], ("sex", "pay, net")),
    (["--bins", "pay, net=2"], ("sex", "pay, net")),
    (["--bins", '"pay, net"=2'], ("sex", "pay, net")),
])  # fmt: skip
def test_columns_with_a_comma_in_their_name(tmp_path, options, names):
    from gpu_rsfd.cli.inputs import datasets_of

    (tmp_path / "people.csv").write_text(COMMAS)
    given = {"dataset": [str(tmp_path / "people.csv")]}
    for key, value in zip(options[::2], options[1::2], strict=True):
        given.setdefault(key[2:], []).append(value)
    (data,) = datasets_of(given, "sweep", quiet=True)
    assert data.names == names
    if "bins" in given:
        assert data.labels[1] == ("[1, 2)", "[2, 3]")


def test_columns_of_every_kind_of_file(tmp_path):
    import h5py
    import pyarrow
    import pyarrow.parquet

    names = ["sex", "pay, net"]
    codes = np.array([[0, 1], [1, 0]])
    np.savez(tmp_path / "t.npz", codes=codes, names=names)
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["codes"], file["names"] = codes, names
    pyarrow.parquet.write_table(pyarrow.table({name: [0, 1] for name in names}), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text(COMMAS)
    for suffix in (".npz", ".h5", ".parquet", ".csv"):
        assert table.column_names(tmp_path / f"t{suffix}", {}) == names


@pytest.mark.slow
def test_the_command_line_takes_a_delimiter(tmp_path, monkeypatch, capsys):
    (tmp_path / "people.csv").write_text("sex~city\nf~Bern\nm~Chur\nf~Bern\n")
    options = ["--dataset", "people.csv", "--epsilon", "1", "--repetitions", "1", "--no-plot", "--quiet"]
    run("sweep", *options, "--delimiter", "~", cwd=tmp_path)
    results = gpu_rsfd.open_results(tmp_path / "results.h5")
    assert results["people"].names == ("sex", "city")
    assert results.spec["datasets"][0]["source"] == "people.csv (delimiter '~')"
    for wrong in ("", "ab"):
        (line,) = refusal(monkeypatch, capsys, tmp_path, ["sweep", *options, "--delimiter", wrong])
        assert "delimiter=" in line
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["sweep", "--dataset", "syn1", "--delimiter", ";"])
    assert "--delimiter needs a file of data" in line
