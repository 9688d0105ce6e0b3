"""The paper's results on its ten data sets, from the distribution of the marginals: what `gpu-rsfd paper` must show."""

import functools

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.show.rows import How, error_cells

pytestmark = pytest.mark.slow

REPETITIONS = 200
BOUND = 5.5  # standard errors; 360 cells


@functools.cache
def result_of(name):
    data = gpu_rsfd.load_dataset(name)
    return gpu_rsfd.simulate(data, repetitions=REPETITIONS, seed=7, assignment="balanced", sampler="marginals")


@pytest.mark.parametrize("name", gpu_rsfd.available())
def test_raw_errors_are_the_closed_form(name):
    found = error_cells(name, result_of(name), How("none"))
    z = (found.mean - found.theory) / found.error
    assert np.abs(z).max() < BOUND, z


@pytest.mark.parametrize("name", gpu_rsfd.available())
def test_methods_come_in_the_papers_order(name):
    result = result_of(name)
    mse = dict(zip(result.protocols, result.mse().mean(axis=-1), strict=True))
    others = np.array([mse[p] for p in result.protocols if p != "spl-adp"])
    assert (mse["spl-adp"] > others.max(axis=0)).all()  # Spl is worst everywhere
    best = np.min([mse[p] for p in ("rsfd-grr", "rsfd-oue-z", "rsfd-oue-r")], axis=0)
    assert (mse["rsfd-adp"] < 1.1 * best).all()  # ADP at or near the best of RS+FD
    assert mse["rsfd-adp"][0] < mse["smp-adp"][0]  # RS+FD ahead of Smp at the smallest epsilon


def test_a_wrong_theory_is_refuted():
    """Negative control: the closed form for a fifth more users."""
    found = error_cells("nursery", result_of("nursery"), How("none"))
    assert np.abs((found.mean - found.theory / 1.2) / found.error).max() > BOUND
