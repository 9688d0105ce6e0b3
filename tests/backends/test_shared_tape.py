"""What methods, epsilons and data sets share on one tape, and what that is worth: docs/stream.md, "What is shared"."""

import functools
import math

import numpy as np
import pytest
from stats import normal_bound

import gpu_rsfd

REPETITIONS = 1000
EPSILONS = (math.log(2), math.log(7))
PROTOCOLS = ("rsfd-grr", "rsfd-oue-z", "rsfd-oue-r", "spl-oue", "smp-adp")


@functools.cache
def errors(d, n=500):
    """[protocol, epsilon, repetition]"""
    data = gpu_rsfd.SyntheticDataset(n, (10,) * d)
    return gpu_rsfd.simulate(data, epsilons=EPSILONS, protocols=PROTOCOLS, repetitions=REPETITIONS, workers=1).mse(
        "none"
    )


def between(x, y):
    """The range that a correlation lies in, by Fisher's transformation."""
    z = math.atanh(np.corrcoef(x, y)[0, 1])
    room = normal_bound(1) * 1.2 / math.sqrt(REPETITIONS - 3)  # squares are not normal
    return math.tanh(z - room), math.tanh(z + room)


def error(protocol, epsilon, d=5):
    return errors(d)[PROTOCOLS.index(protocol), epsilon]


@pytest.mark.parametrize("protocol,least", [("rsfd-grr", 0.6), ("spl-oue", 0.5), ("rsfd-oue-z", 0.0)])
def test_epsilons_of_a_mechanism_go_together(protocol, least):
    assert between(error(protocol, 0), error(protocol, 1))[0] > least


def test_unary_encodings_of_rsfd_go_together():
    assert between(error("rsfd-oue-z", 0), error("rsfd-oue-r", 0))[0] > 0.5


@pytest.mark.parametrize("a,b", [("rsfd-grr", "rsfd-oue-z"), ("rsfd-grr", "spl-oue"), ("smp-adp", "rsfd-oue-z")])
def test_different_mechanisms_hardly_do(a, b):
    for epsilon in range(len(EPSILONS)):
        low, high = between(error(a, epsilon), error(b, epsilon))
        assert low < 0.1
        assert high > -0.1
        assert high < 0.4


@pytest.mark.slow
def test_data_sets_share_columns_and_errors():
    syn1, syn3 = gpu_rsfd.load_dataset("syn1"), gpu_rsfd.load_dataset("syn3")
    assert syn1.n == syn3.n
    for j in range(5):
        assert np.array_equal(syn1.column(j, 0, 1000), syn3.column(j, 0, 1000))
    assert between(error("spl-oue", 0), error("spl-oue", 0, d=10))[0] > 0.4
    assert between(error("rsfd-grr", 0), error("rsfd-grr", 0, d=10))[0] > 0.2
