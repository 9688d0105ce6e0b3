"""From the rows that kernels count to the counts of recipes."""

import numpy as np
import pytest

from gpu_rsfd.backends.cuda.passes import AttributeJob, UnaryPass, _runs
from gpu_rsfd.backends.reference import ON_DEVICES
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import PAPER
from gpu_rsfd.spec import PAPER_EPSILONS


@pytest.mark.parametrize("pairs,number", [
    ([], 0),
    ([(3, 7)], 1),
    ([(0, 2), (1, 4), (2, 6), (3, 8)], 1),
    ([(0, 2), (1, 4), (3, 6), (4, 8)], 2),  # recipes that are not neighbours
    ([(0, 2), (1, 4), (2, 5), (3, 6)], 2),  # another step
    ([(0, 5), (1, 3), (2, 1)], 3),  # backwards
    ([(0, 5), (1, 5), (2, 5)], 3),  # the same row
    ([(4, 0), (5, 1)], 1),
])  # fmt: skip
def test_runs_are_the_pairs(pairs, number):
    runs = _runs(pairs)
    spelled = [
        pair
        for left, right in runs
        for pair in zip(range(100)[left], range(100)[right], strict=True)
    ]  # fmt: skip
    assert spelled == pairs
    assert len(runs) == number


def test_every_recipe_is_unpacked_once():
    for protocols in (PAPER, ON_DEVICES):
        for attribute in Plan.of((5, 40), protocols, PAPER_EPSILONS).attributes:
            job = AttributeJob.of(attribute)
            everywhere = range(len(attribute.recipes))
            found = [i for recipes, *_ in (*job.sums, *job.copies) for i in everywhere[recipes]]
            found += [i for v in job.designs for i, *_ in v.places(attribute)]
            assert sorted(found) == list(everywhere)


def test_the_kernel_is_as_large_as_the_thresholds_are_many():
    """What the paper's six methods and epsilons need, and what comes next."""
    (unary,) = AttributeJob.of(Plan.of((10,) * 10, PAPER, PAPER_EPSILONS).attributes[0]).passes
    assert (len(unary.slots), unary.kernel, unary.cells) == (13, "count_unary_13", 26)
    sizes = {
        n: UnaryPass(tuple(("own", 2**20 + i, 2**23) for i in range(n)), False, None).thresholds for n in range(1, 19)
    }
    assert all(n <= size <= n + (n % 2) for n, size in sizes.items())


def test_unpacking_takes_few_calls():
    """The paper's thirty recipes and more of an attribute."""
    job = AttributeJob.of(Plan.of((10, 10), PAPER, PAPER_EPSILONS).attributes[0])
    assert len(job.plan.recipes) >= 24
    assert len(job.sums) + len(job.copies) <= 12


@pytest.mark.parametrize("add", [False, True])
def test_adding_is_setting_twice(add):
    job = AttributeJob.of(Plan.of((4, 5), ON_DEVICES, (0.5, 1.0, 2.0)).attributes[0])
    random = np.random.default_rng(1)
    first, second = random.integers(0, 100, (2, 3 * job.cells))
    one, two = (np.empty((len(job.plan.recipes), 3, 4), np.int64) for _ in range(2))
    job.unpack(first.copy(), one, add=False)
    job.unpack(second.copy(), two, add=False)
    both = one.copy()
    job.unpack(second.copy(), both, add=add)
    assert np.array_equal(both, one + two if add else two)
