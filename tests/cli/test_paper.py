"""The paper's results on its ten data sets, from the distribution of the marginals: what `gpu-rsfd paper` must show."""

import functools

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.show.summary import expected, summary

pytestmark = pytest.mark.slow

REPETITIONS = 200
BOUND = 5.5  # standard errors; 360 cells


@functools.cache
def result_of(name):
    data = gpu_rsfd.load_dataset(name)
    return gpu_rsfd.simulate(data, repetitions=REPETITIONS, seed=7, assignment="balanced", sampler="marginals")


@pytest.mark.parametrize("name", gpu_rsfd.available())
def test_raw_errors_are_the_closed_form(name):
    result = result_of(name)
    mean, error = summary(result, "none")
    z = (mean - expected(result, "none")) / error
    assert np.abs(z).max() < BOUND, z


@pytest.mark.parametrize("name", gpu_rsfd.available())
def test_methods_come_in_the_papers_order(name):
    result = result_of(name)
    mse = dict(zip(result.protocols, summary(result, "clip-normalize")[0], strict=True))
    others = np.array([mse[p] for p in result.protocols if p != "spl-adp"])
    assert (mse["spl-adp"] > others.max(axis=0)).all()  # Spl is worst everywhere
    best = np.min([mse[p] for p in ("rsfd-grr", "rsfd-oue-z", "rsfd-oue-r")], axis=0)
    assert (mse["rsfd-adp"] < 1.1 * best).all()  # ADP at or near the best of RS+FD
    assert mse["rsfd-adp"][0] < mse["smp-adp"][0]  # RS+FD ahead of Smp at the smallest epsilon


def test_a_wrong_theory_is_refuted():
    """Negative control: the closed form for a fifth more users."""
    result = result_of("nursery")
    mean, error = summary(result, "none")
    assert np.abs((mean - expected(result, "none") / 1.2) / error).max() > BOUND
