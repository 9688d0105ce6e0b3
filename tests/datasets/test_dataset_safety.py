"""A data set holds what it was made from: it is nobody's buffer, and can be stored as it is."""

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.errors import InputError


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int64, bool])
def test_the_callers_buffer_can_be_used_again(order, dtype):
    codes = np.array([[0, 1], [1, 0], [1, 1]], dtype=dtype, order=order)
    data = gpu_rsfd.Dataset(codes, (2, 2))
    before = data.describe()
    codes[:] = 0
    assert data.describe() == before
    assert data.column(0, 0, 3).tolist() == [0, 1, 1]
    assert data.counts.tolist() == [1, 2, 1, 2]


def test_it_cannot_be_changed_from_outside():
    data = gpu_rsfd.Dataset([[0, 1], [1, 0]], (2, 2))
    for values in (data.column(0, 0, 2), data.counts, gpu_rsfd.CountedDataset(3, (2,), [[1, 2]]).counts):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1


def test_counts_are_a_copy():
    row = np.array([1, 2])
    data = gpu_rsfd.CountedDataset(3, (2,), [row])
    row[:] = 0
    assert data.counts.tolist() == [1, 2]


def test_masks_are_not_ignored():
    codes = np.ma.masked_array([[0, 1], [1, 0]], mask=[[False, True], [False, False]])
    for masked in (codes, list(codes)):
        with pytest.raises(InputError, match=r"^codes has masked entries, which have no value; leave these users out"):
            gpu_rsfd.Dataset(masked, (2, 2))
    assert gpu_rsfd.Dataset(np.ma.masked_array(codes.data), (2, 2)).n == 2  # nothing is masked
    with pytest.raises(InputError, match=r"^table\[0\] has masked entries"):
        gpu_rsfd.CountedDataset(1, (2,), [np.ma.masked_array([1, 5], mask=[False, True])])


@pytest.mark.parametrize("options,message", [
    ({"labels": [["a", "b\0"]]}, r"labels\[0\]\[1\]='b\\x00' holds a NUL character"),
    ({"labels": [["a", None]]}, r"labels\[0\]\[1\]=None must be text"),
    ({"labels": [["a", b"b"]]}, r"labels\[0\]\[1\]=b'b' must be text"),
    ({"labels": [["a", "\ud800"]]}, r"labels\[0\]\[1\]='\\ud800' is not valid Unicode"),
    ({"names": ["a\0"]}, r"names\[0\]='a\\x00' holds a NUL character"),
    ({"names": [3]}, r"names\[0\]=3 must be text"),
    ({"names": [None]}, r"names\[0\]=None must be text"),
    ({"names": "a"}, r"names='a' is one text; a list with a name for each attribute is needed"),
    ({"name": "a\0b"}, r"name='a\\x00b' holds a NUL character"),
    ({"name": 5}, r"name=5 must be text"),
])  # fmt: skip
def test_what_no_file_can_hold_is_refused_at_once(options, message):
    with pytest.raises(InputError, match="^" + message):
        gpu_rsfd.Dataset([[0], [1]], (2,), **options)
    if "labels" not in options:
        with pytest.raises(InputError, match="^" + message):
            gpu_rsfd.SyntheticDataset(5, (2,), **options)


def test_numbers_and_numpy_text_are_good_labels():
    data = gpu_rsfd.Dataset([[0], [1]], (2,), names=np.array(["x"]), labels=np.array([[10, 20]]), name=np.str_("n"))
    assert (data.names, data.labels, type(data.names[0]), type(data.name)) == (("x",), (("10", "20"),), str, str)
