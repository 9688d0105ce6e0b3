"""Your own data: values in, codes and labels out."""

import json

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from realdata import SHARED, shared_rows

import gpu_rsfd
from gpu_rsfd.datasets.table.columns import interval_labels

TABLE = """city,age,income,married
Bern,30,10.5,yes
Aarau,9,20,no
 Bern ,100,,yes
"Chur, upper",9,1e3,?
Aarau,41,20,no
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def rows(data):
    """The table again, in labels."""
    columns = [[data.labels[j][code] for code in data.column(j, 0, data.n)] for j in range(data.d)]
    return list(zip(*columns, strict=True))


def test_csv_text_numbers_and_missing_values(table):
    data = gpu_rsfd.load_table(table)
    assert (data.name, data.n, data.names) == ("people", 5, ("city", "age", "income", "married"))
    assert data.labels == (
        ("Aarau", "Bern", "Chur, upper"),
        ("9", "30", "41", "100"),  # numbers in their own order
        ("10.5", "20", "1e3", "(missing)"),
        ("no", "yes", "(missing)"),
    )
    assert rows(data)[2] == ("Bern", "100", "(missing)", "yes")
    assert rows(data)[3] == ("Chur, upper", "9", "1e3", "(missing)")
    assert data.counts.tolist() == [2, 2, 1, 2, 1, 1, 1, 1, 2, 1, 1, 2, 2, 1]


def test_columns_in_the_order_asked_for(table):
    data = gpu_rsfd.load_table(table, columns=["married", "city"], name="mine")
    assert (data.name, data.names) == ("mine", ("married", "city"))
    assert rows(data)[0] == ("yes", "Bern")
    assert gpu_rsfd.load_table(table, columns="age").names == ("age",)


def test_dropped_rows_take_their_values_along(table):
    data = gpu_rsfd.load_table(table, missing="drop")
    assert rows(data) == [("Bern", "30", "10.5", "yes"), ("Aarau", "9", "20", "no"), ("Aarau", "41", "20", "no")]
    assert data.domain == (2, 3, 2, 2)


def test_equal_width_bins(table):
    data = gpu_rsfd.load_table(table, columns=["age", "income"], bins={"age": "2", "income": 3})
    assert data.labels[0] == ("[9, 54.5)", "[54.5, 100]")
    assert data.column(0, 0, 5).tolist() == [0, 0, 1, 0, 0]
    assert data.labels[1] == ("[10.5, 340.333)", "[340.333, 670.167)", "[670.167, 1000]", "(missing)")
    assert data.column(1, 0, 5).tolist() == [0, 0, 3, 2, 0]


@pytest.mark.parametrize("bins", [2, 7, 10, "10", "4q", "10q"])
def test_bins_hold_what_their_labels_say(tmp_path, bins):
    numbers = np.round(np.random.Generator(np.random.Philox(5)).lognormal(3, 1, 2000), 2)
    path = tmp_path / "numbers.csv"
    path.write_text("x\n" + "\n".join(map(str, numbers.tolist())))
    data = gpu_rsfd.load_table(path, bins={"x": bins})
    assert data.d == 1
    assert data.domain[0] == int(str(bins).rstrip("q"))
    for number, (label,) in zip(numbers, rows(data), strict=True):
        low, high = (float(edge) for edge in label[1:-1].split(", "))
        slack = 1e-5 * high  # labels show six digits
        assert low - slack <= number <= high + slack
    if str(bins).endswith("q"):
        assert data.counts.max() - data.counts.min() <= 3  # a few numbers occur twice
    assert data.labels[0][0].startswith(f"[{numbers.min():.6g}, ")
    assert data.labels[0][-1].endswith(f", {numbers.max():.6g}]")


def test_quantiles_of_a_value_that_most_users_share(tmp_path):
    path = tmp_path / "gains.csv"
    path.write_text("gain\n" + "0\n" * 90 + "".join(f"{i}\n" for i in range(1, 11)))
    data = gpu_rsfd.load_table(path, bins={"gain": "20q"})
    assert data.counts.min() > 0
    assert data.counts[0] == 90
    path.write_text("gain\n" + "0\n" * 99 + "5\n")
    data = gpu_rsfd.load_table(path, bins={"gain": "4q"})
    assert (data.labels[0], data.counts.tolist()) == (("[0, 5)", "[5, 5]"), [99, 1])


def test_interval_labels_have_enough_digits():
    assert interval_labels([17, 24.3, 31.6]) == ["[17, 24.3)", "[24.3, 31.6]"]
    assert interval_labels([1e6, 1e6 + 0.5, 1e6 + 1]) == ["[1000000, 1000000.5)", "[1000000.5, 1000001]"]


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_domain_files(table, tmp_path, suffix):
    domain = tmp_path / f"domains{suffix}"
    content = {"city": ["Zug", "Bern", "Aarau", "Chur, upper"], "age": [100, 41.0, 30, 9, 8]}
    if suffix == ".json":
        domain.write_text(json.dumps(content))
    else:
        domain.write_text("\n".join(f"{k} = {json.dumps(v)}" for k, v in content.items()))
    data = gpu_rsfd.load_table(table, columns=["city", "age", "married"], domain_file=domain)
    assert data.labels[:2] == (("Zug", "Bern", "Aarau", "Chur, upper"), ("100", "41.0", "30", "9", "8"))
    assert data.counts[:9].tolist() == [0, 2, 2, 1, 1, 1, 1, 2, 0]
    assert gpu_rsfd.load_table(table, columns=["married"], domain_file=domain).names == ("married",)


def test_a_domain_file_settles_mixed_types(tmp_path):
    path, domain = tmp_path / "nursery.csv", tmp_path / "domains.json"
    path.write_text("children\n1\nmore\n2\n")
    with pytest.raises(ValueError, match=r"'children' mixes numbers and text: 'more' \(row 2\) beside '1' \(row 1\)"):
        gpu_rsfd.load_table(path)
    domain.write_text('{"children": [1, 2, 3, "more"]}')
    assert gpu_rsfd.load_table(path, domain_file=domain).column(0, 0, 3).tolist() == [0, 3, 1]


def test_parquet_types(tmp_path):
    path = tmp_path / "typed.parquet"
    columns = {
        "i": pyarrow.array([3, 10, None, 3]),
        "f": pyarrow.array([0.5, float("nan"), None, 2.0]),
        "b": pyarrow.array([True, False, True, True]),
        "s": pyarrow.array(["7", "NA", "x", "7"]),  # declared text: numbers, words and NA are values
        "c": pyarrow.array(["u", "v", None, "u"]).dictionary_encode(),
        "t": pyarrow.array([0, 1, 1, 0], pyarrow.date32()),
    }
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
    assert gpu_rsfd.load_table(path, columns=["i", "s"], missing="drop").n == 3


def test_csv_and_parquet_agree_over_many_blocks(tmp_path):
    """Some megabytes, so that both readers see several dictionaries; a million rows take seconds."""
    n = 150_000
    draw = np.random.Generator(np.random.Philox(1))
    words = np.array([f"a rather long value, number {i:03d}" for i in range(300)])
    table = pyarrow.table({"word": words[draw.integers(0, 300, n)], "number": draw.integers(0, 500, n)})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=40_000)
    pyarrow.csv.write_csv(table, tmp_path / "t.csv")
    a, b = (gpu_rsfd.load_table(tmp_path / f"t.{suffix}") for suffix in ("csv", "parquet"))
    assert a.describe() == {**b.describe(), "source": "t.csv", "loaded": {"file": "t.csv"}}
    assert a.labels == b.labels
    assert a.labels[0] == tuple(words)
    assert np.array_equal(words[a.column(0, 0, n)], table["word"].to_numpy())


@pytest.mark.parametrize("layout", ["plain", "named", "shared"])
@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_files_of_codes(tmp_path, layout, suffix):
    codes = np.array([[0, 2], [1, 0], [1, 1]], np.uint8)
    labels = [["no", "yes"], ["a", "b", "c", "d"]]
    arrays = {
        "plain": {"codes": codes},
        "named": {"codes": codes, "domain": np.array([2, 4]), "names": ["x", "y"]},
        "shared": {"codes": codes, "k": np.array([2, 4]), "attributes": ["x", "y"], "labels_json": json.dumps(labels)},
    }[layout]
    path = tmp_path / f"codes{suffix}"
    if suffix == ".npz":
        np.savez(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for key, value in arrays.items():
                file[key] = value
    data = gpu_rsfd.load_table(path)
    assert [data.column(j, 0, 3).tolist() for j in range(2)] == codes.T.tolist()
    assert data.domain == ((2, 3) if layout == "plain" else (2, 4))
    assert data.names == (("A1", "A2") if layout == "plain" else ("x", "y"))
    assert data.labels == (tuple(map(tuple, labels)) if layout == "shared" else None)
    last = gpu_rsfd.load_table(path, columns=data.names[1:])
    assert (last.names, last.counts[:3].tolist()) == (data.names[1:], [1, 1, 1])


def test_the_real_adult_table_loads():
    codes, names, labels = shared_rows("adult")
    data = gpu_rsfd.load_table(SHARED / "adult.npz")
    assert (list(data.names), [list(row) for row in data.labels]) == (names, labels)
    assert np.array_equal(data.column(8, 0, data.n), codes[:, 8])


def test_own_data_goes_through_a_simulation(table):
    data = gpu_rsfd.load_table(table, bins={"age": 2})
    result = gpu_rsfd.simulate(data, epsilons=1.0, protocols="spl-grr", repetitions=2)
    assert (result.names, result.labels) == (data.names, data.labels)
