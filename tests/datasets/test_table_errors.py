"""Tables that cannot be used: one line that says what, where, and what is valid."""

import sys

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import gpu_rsfd

TEXT = b"city,age,id\nBern,30,1\nChur,old,2\nBern,,3\n"


def refused(path, message, **options):
    with pytest.raises(ValueError, match=message) as error:
        gpu_rsfd.load_table(path, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content,options,message", [
    (TEXT, {"columns": ["town"]}, r"t.csv has no column 'town'; columns: city, age, id"),
    (TEXT, {"columns": ["town"], "bins": {"age": 3}}, r"t.csv has no column 'town'; columns: city, age, id$"),
    (TEXT, {"columns": []}, r"no columns chosen of .*t.csv; columns: city, age, id"),
    (TEXT, {"columns": ["city", "city"]}, r"column 'city' is given twice in columns"),
    (TEXT, {}, r"column 'age' mixes numbers and text: 'old' \(row 2\) beside '30' \(row 1\); if both are meant, list"),
    (TEXT, {"missing": "error"}, r"column 'age' has 1 missing values, the first in row 3; missing=category or"),
    (TEXT, {"missing": "keep"}, r"missing='keep' is unknown; available: category, drop, error"),
    (TEXT, {"bins": {"age": 3}}, r"bins of 'age' need numbers, but the column holds 'old' \(row 2\)"),
    (TEXT, {"columns": ["city"], "bins": {"city": 3}}, r"bins of 'city' need numbers, but the column holds 'Bern'"),
    (TEXT, {"columns": ["id"], "bins": {"town": 3}}, r"bins are given for 'town', which is not among the columns: id"),
    (TEXT, {"columns": ["id"], "bins": {"id": "ten"}}, r"bins of 'id'='ten' must be a number from 2 to 65,535"),
    (TEXT, {"columns": ["id"], "bins": {"id": 1}}, r"bins of 'id'='1' must be a number from 2"),
    (TEXT, {"columns": ["id"], "bins": {"id": 70_000}}, r"bins of 'id'='70000' must be"),
    (b"x\n1\ninf\n", {"bins": {"x": 2}}, r"bins of 'x' need numbers, but the column holds 'inf' \(row 2\)"),
    (b"x\n1\n1\n", {"bins": {"x": 2}}, r"bins of 'x' need at least 2 different numbers; the column has 1"),
    (b"x,y\n1,a\n1,b\n", {}, r"column 'x' has one value only, '1'; an attribute needs at least 2"),
    (b"x,y\n,a\n?,b\n", {}, r"column 'x' has no values; all 2 are missing"),
    (b"x,y\n,a\n1,\n", {"missing": "drop"}, r"has no row without a missing value: missing=drop leaves nobody of 2"),
    (b"x,z\n,1\n1,2\n2,b\n", {"missing": "drop"}, r"'z' mixes numbers and text: 'b' \(row 3\) beside '2' \(row 2\)"),
    (b"x,x\n1,2\n2,3\n", {}, r"column 'x' is given twice in .*t.csv"),
    (b"", {}, r"t.csv is empty"),
    (b"x,y\n", {}, r"t.csv has no rows; at least one is needed"),
    (b"x,y\n1,2\n1,2,3\n", {}, r"is not a readable CSV file: row 2 \(line 3\) has 3 fields, but the header has 2"),
    (b"x,y\n" + b"a,2\nb,3\n" * 4500 + b"\xff\xfe,2\n", {}, r"t.csv is not UTF-8 in line 9,002 \(byte 0xff\); save"),
    (b"\xff\xfe,y\n1,2\n", {}, r"t.csv is not a readable CSV file: it begins like UTF-16, but is not"),
])  # fmt: skip
def test_csv(tmp_path, content, options, message):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    refused(path, message, **options)


@pytest.mark.slow
def test_too_many_values(tmp_path):
    path = tmp_path / "ids.csv"
    path.write_text("id\n" + "\n".join(map(str, range(65_536))))
    refused(
        path, r"column 'id' has 65,536 values; at most 65,535 are valid: leave it out, or put its numbers into bins"
    )
    assert gpu_rsfd.load_table(path, bins={"id": 100}).domain == (100,)
    path.write_text("id,b\n" + "\n".join(f"{i},{i % 2}" for i in range(65_535)))
    assert gpu_rsfd.load_table(path).domain == (65_535, 2)
    path.write_text("id,b\n" + "\n".join(f"{i},{i % 2}" for i in range(65_535)) + "\n,1\n")
    refused(path, r"column 'id' has 65,536 values")


def test_files(tmp_path):
    refused(tmp_path / "nowhere.csv", r"no such file: .*nowhere.csv")
    (tmp_path / "t.xlsx").write_text("x")
    refused(tmp_path / "t.xlsx", r"has the unknown suffix '.xlsx'; save the sheet as CSV .*; available: .csv, .tsv")
    (tmp_path / "folder.csv").mkdir()
    refused(tmp_path / "folder.csv", r"folder.csv is not a file")


@pytest.mark.parametrize("suffix,what", [(".parquet", "Parquet"), (".npz", ".npz"), (".h5", "HDF5")])
def test_broken_files(tmp_path, suffix, what):
    path = tmp_path / f"broken{suffix}"
    path.write_bytes(b"PAR1 this is nothing that anybody could read")
    refused(path, rf"broken{suffix} is not a readable {what} file")
    whole = tmp_path / f"whole{suffix}"
    if suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.table({"x": [1, 2] * 500}), whole)
    elif suffix == ".npz":
        np.savez(whole, codes=np.zeros((1000, 2), np.uint8))
    else:
        with h5py.File(whole, "w") as file:
            file["codes"] = np.zeros((1000, 2), np.uint8)
    path.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])  # a copy that was cut short
    refused(path, rf"broken{suffix} is not a readable {what} file")


def test_parquet_types_without_values(tmp_path):
    path = tmp_path / "nested.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": pyarrow.array([], pyarrow.string())}), path)
    refused(path, r"nested.parquet has no rows; at least one is needed")
    pyarrow.parquet.write_table(pyarrow.table({"a": [[1], [2]]}), path)
    refused(path, r"column 'a' has type list<.*>; text, numbers, true/false and dates are valid")


@pytest.mark.parametrize("arrays,message", [
    ({"table": [[0, 1]]}, "has no `codes`; valid: an array `codes`"),
    ({"codes": [0, 1]}, r"codes has shape \(2,\) and dtype int64; valid: an array `codes` \[users, attributes\]"),
    ({"codes": [[0.5, 1]]}, r"codes has shape \(1, 2\) and dtype float64"),
    ({"codes": np.zeros((0, 2), int)}, r"codes has shape \(0, 2\)"),
    ({"codes": [[0, 1], [0, 0]]}, r"column 'A1' of .*t.npz has one value only; an attribute needs at least 2"),
    ({"codes": [[0, 1], [1, 0]], "domain": [2]}, r"domain has 1 entries, but codes has 2 columns"),
    ({"codes": [[0, 1], [1, 0]], "names": ["a"]}, r"names has 1 entries, but codes has 2 columns"),
    ({"codes": [[0, 1], [1, 0]], "labels_json": "[1"}, r"labels_json is not a list of lists of labels"),
    ({"codes": [[0, 1], [1, 0]], "labels_json": '[["a", "b"], ["a"]]'}, r"labels\[1\] has 1 entries, but domain"),
    ({"codes": [[0, 1], [1, 0]], "labels_json": '[["a", "b"], ["a", "a"]]'}, r"labels\[1\] has 'a' twice"),
    ({"codes": [[0, 5], [1, 0]], "domain": [2, 3]}, r"codes\[:, 1\] holds 5, outside 0 … 2"),
])  # fmt: skip
def test_files_of_codes(tmp_path, arrays, message):
    path = tmp_path / "t.npz"
    np.savez(path, **arrays)
    refused(path, message)


def test_codes_need_no_bins_and_no_domains(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, codes=[[0, 1], [1, 0]])
    refused(path, r"bins needs a table of values \(.csv or .parquet\); .*t.npz holds codes already", bins={"A1": 2})
    refused(path, r"domain_file needs a table of values", domain_file="domains.json")


@pytest.mark.parametrize("file,content,message", [
    ("d.json", '{"x": ["a"]}', r"column 'x' holds 'b' \(row 2\), which is not in its domain in .*d.json: a$"),
    ("d.json", '{"x": ["a", "b", "a"]}', r"column 'x' has the value 'a' twice"),
    ("d.json", '{"z": ["a"]}', r"names the column 'z', which .*t.csv does not have; columns: x, y"),
    ("d.json", '{"x": "ab"}', r"'x' is 'ab'; a domain file maps each column to its list of values"),
    ("d.json", '{"x": [["a"]]}', r"'x' holds \['a'\]; values are text, numbers, true and false"),
    ("d.json", "[1]", r"d.json holds list; a domain file maps each column to its list of values"),
    ("d.json", "{", r"domain file .*d.json is not valid: "),
    ("d.yaml", "x: [a]", r"domain file .*d.yaml is not valid: unknown suffix '.yaml'; available: .json, .toml"),
    ("d.json", "", r"d.json is empty"),
])  # fmt: skip
def test_domain_files(tmp_path, file, content, message):
    (tmp_path / "t.csv").write_text("x,y\na,1\nb,2\n")
    (tmp_path / file).write_text(content)
    refused(tmp_path / "t.csv", message, domain_file=tmp_path / file)


def test_bins_and_domain_of_one_column(tmp_path):
    (tmp_path / "t.csv").write_text("x\n1\n2\n")
    (tmp_path / "d.json").write_text('{"x": [1, 2]}')
    refused(tmp_path / "t.csv", "column 'x' has bins and a domain in", bins={"x": 2}, domain_file=tmp_path / "d.json")
    refused(tmp_path / "t.csv", "no such file: .*e.json", domain_file=tmp_path / "e.json")


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    for name, what in (("t.parquet", "Parquet files"), ("t.jsonl", "JSON lines")):
        (tmp_path / name).write_text("x\n1\n2\n")
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        refused(tmp_path / name, rf"{what} need pyarrow, which is not installed .*scripts/install data ")
