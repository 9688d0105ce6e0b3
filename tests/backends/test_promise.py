"""Stream version 1 is a promise: the counts of the first fourteen protocols are what they always were."""

import json

import numpy as np
import pytest
from checksums import CASES, PROTOCOLS, TABLE, checksums
from native_builds import needs_compiler

KEPT = json.loads(TABLE.read_text())


@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=needs_compiler)])
@pytest.mark.parametrize("case", CASES)
def test_counts_of_users_never_change(case, backend):
    assert checksums(case, backend=backend) == KEPT["users"][case]


@pytest.mark.skipif(KEPT["numpy"] != np.__version__, reason="a sampler's draws are promised for one NumPy version")
@pytest.mark.parametrize("sampler", ["counts", "marginals"])
@pytest.mark.parametrize("case", CASES)
def test_draws_of_the_samplers_are_the_same(case, sampler):
    assert checksums(case, sampler) == KEPT[sampler][case]


def test_the_table_has_every_cell():
    for sampler in ("users", "counts", "marginals"):
        assert set(KEPT[sampler]) == set(CASES)
        assert all(set(row) == set(PROTOCOLS) for row in KEPT[sampler].values())
