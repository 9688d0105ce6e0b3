"""What people pass from Python: names, paths, arrays, frames, NumPy scalars, classes of their own."""

import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.errors import InputError

DATA = gpu_rsfd.Dataset([[0, 1], [1, 2], [1, 0]], (2, 3))
QUICK = {"epsilons": 1.0, "protocols": "spl-grr", "repetitions": 1}


def test_a_data_set_by_name_or_path(tmp_path):
    by_name = gpu_rsfd.simulate("nursery", **QUICK)
    assert np.array_equal(by_name.counts, gpu_rsfd.simulate(gpu_rsfd.load_dataset("nursery"), **QUICK).counts)
    path = tmp_path / "t.csv"
    path.write_text("x,y\n0,1\n1,2\n1,0\n")
    expected = gpu_rsfd.simulate(DATA, **QUICK).counts
    for table in (path, str(path), np.str_(path)):
        assert np.array_equal(gpu_rsfd.simulate(table, **QUICK).counts, expected)
        assert np.array_equal(gpu_rsfd.reports(table, "spl-grr", 1.0).counts(), expected[0, 0, 0])


@pytest.mark.parametrize("data,message", [
    ("syn7", r"unknown data set 'syn7'; available: syn1, "),
    ("nobody.csv", r"nobody.csv does not exist"),
    (Path("nobody.csv"), r"nobody.csv does not exist"),
    (np.zeros((3, 2), int), r"data is of type ndarray; needed: a Dataset, .*; codes become one by Dataset\("),
    ([[0, 1]], r"data is of type list; needed: a Dataset, the name of one, a table's path or a data frame"),
    (None, r"data is of type NoneType; needed"),
    (gpu_rsfd.Dataset, r"data is of type type; needed"),
])  # fmt: skip
def test_anything_else_is_told_what_to_do(data, message):
    with pytest.raises(InputError, match=message):
        gpu_rsfd.simulate(data)
    with pytest.raises(InputError, match=message):
        gpu_rsfd.reports(data, "spl-grr", 1.0)


@pytest.mark.parametrize(
    "epsilon", [np.float32(1), np.float64(1), np.int64(1), np.array(1.0), [np.float32(1)], Fraction(1), Decimal(1), 1]
)
def test_numbers_of_any_kind_are_epsilons(epsilon):
    result = gpu_rsfd.simulate(
        DATA, epsilons=epsilon, protocols=np.str_("spl-grr"), repetitions=np.int64(2), seed=np.uint8(0)
    )
    assert np.array_equal(
        result.counts, gpu_rsfd.simulate(DATA, epsilons=1.0, protocols="spl-grr", repetitions=2).counts
    )
    spec = result.spec
    assert [type(x) for x in (spec["epsilons"][0], spec["protocols"][0], spec["seed"])] == [float, str, int]
    assert spec["repetitions"] == [0, 2, 1]


def test_arrays_of_protocols_and_epsilons():
    result = gpu_rsfd.simulate(
        DATA, epsilons=np.array([0.5, 1]), protocols=np.array(["spl-grr", "smp-oue"]), repetitions=1
    )
    assert (result.epsilons, result.protocols) == ((0.5, 1.0), ("spl-grr", "smp-oue"))
    assert result.mechanism("spl-grr", 1.0, 0).name == "grr"
    gpu_rsfd.reports(DATA, np.str_("spl-grr"), np.float32(1), np.int64(0), np.int64(1))


@pytest.mark.parametrize("make,message", [
    (lambda: gpu_rsfd.Dataset([[0], [1]], 2), r"domain=2 must be a list of sizes, one for each attribute"),
    (lambda: gpu_rsfd.Dataset([[0], [1]], "2"), r"domain='2' must be a list of sizes"),
    (lambda: gpu_rsfd.SyntheticDataset(5, 2), r"domain=2 must be a list of sizes"),
    (lambda: gpu_rsfd.Dataset([[0], [1, 0]], (2,)), r"codes is not a table \[users, attributes\]: .*"),
    (lambda: gpu_rsfd.Dataset([[0], [1]], (2,), labels=["ab"]), r"labels\[0\]='ab' must be a list of labels"),
    (lambda: gpu_rsfd.Dataset([[0], [1]], (2,), labels=[3]), r"labels\[0\]=3 must be a list of labels"),
    (lambda: gpu_rsfd.load_table(3), r"the int can't be read: .* not '?int'?"),
    (lambda: gpu_rsfd.load_table("t.csv", bins=["age=3"]), r"bins=\['age=3'\] must map columns to bins, such as"),
])  # fmt: skip
def test_wrong_types(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("options,message", [
    ({"epsilons": None}, "epsilon=None must be a number > 0"),
    ({"epsilons": object}, "must be a number > 0"),
    ({"protocols": None}, "unknown protocol None"),
    ({"protocols": 3}, "unknown protocol 3"),
])  # fmt: skip
def test_what_is_no_list_and_no_number(options, message):
    with pytest.raises(InputError, match=message):
        gpu_rsfd.simulate(DATA, **options)


SCRIPT = """
import numpy as np
import gpu_rsfd

class Mine(gpu_rsfd.Dataset):
    def column(self, j, start, stop):
        return super().column(j, start, stop)

data = Mine(np.arange(200_000).reshape(-1, 2) % 2, (2, 2))
quick = dict(epsilons=1.0, protocols=["spl-grr", "spl-oue"], repetitions=200)
a = gpu_rsfd.simulate(data, **quick).counts
b = gpu_rsfd.simulate(data, workers=1, **quick).counts
c = gpu_rsfd.simulate(data, sampler="marginals", workers=2, **quick).counts
print((a == b).all())
for sampler in ("users", "counts"):
    backend = "numpy" if sampler == "users" else "auto"
    gpu_rsfd.simulate(data, sampler=sampler, backend=backend, workers=2, **quick)
"""


@pytest.mark.slow
def test_a_class_that_workers_cannot_import(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["True"], "in one process, then"


def test_a_class_within_a_function():
    class Mine(gpu_rsfd.Dataset):
        pass

    data = Mine([[0], [1]], (2,))
    for options in ({}, {"backend": "numpy", "workers": 2}):
        assert gpu_rsfd.simulate(data, **QUICK, **options).n == 2
