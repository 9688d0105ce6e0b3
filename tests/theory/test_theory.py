"""The expected error: against simulation, against arithmetic by hand, and turned around into users needed."""

import functools
import math

import numpy as np
import pytest
from stats import normal_bound

import gpu_rsfd
from gpu_rsfd.protocols import PROTOCOLS, mechanism
from gpu_rsfd.theory import expected as theory
from gpu_rsfd.theory import needs as planning

ASSIGNMENTS = ("uniform", "balanced")
EPSILONS = (0.7, 2.5)
REPETITIONS = 1500


@functools.cache
def simulated(sampler, n, distribution, assignment, domain=(2, 5, 20, 5)):
    kind = gpu_rsfd.CountedDataset.of_distribution if sampler == "marginals" else gpu_rsfd.SyntheticDataset
    data = kind(n, domain, distribution)
    return gpu_rsfd.simulate(
        data,
        epsilons=EPSILONS,
        protocols=PROTOCOLS,
        repetitions=REPETITIONS,
        seed=21,
        assignment=assignment,
        sampler=sampler,
        workers=1,
    )


def check_mse(result, expected, what):
    mse = result.mse("none")
    error = mse.std(axis=-1, ddof=1) / math.sqrt(REPETITIONS)
    z = (mse.mean(axis=-1) - expected) / error
    bound = normal_bound(z.size) * 1.1  # room for the skewness of a sum of squares
    worst = np.unravel_index(np.argmax(np.abs(z)), z.shape)
    assert abs(z[worst]) < bound, f"{what}: {PROTOCOLS[worst[0]]} z={z[worst]:.1f}, bound {bound:.1f}"


def expected_of(result, postprocess="none", n=None):
    return np.array([
        [theory.expected_mse(p, e, n or result.n, result.domain, result.frequencies, result.plan.assignment,
                             postprocess) for e in EPSILONS]
        for p in PROTOCOLS
    ])  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("sampler,n,distribution,assignment", [
    ("users", 203, "zipf:1.5", "uniform"),
    ("users", 203, "zipf:1.5", "balanced"),
    ("marginals", 18, "zipf:1.5", "balanced"),  # groups of 5, 5, 4 and 4
    ("marginals", 1001, "uniform", "uniform"),
    ("marginals", 1001, "uniform", "balanced"),
    ("marginals", 100_003, "zipf:1.0", "uniform"),
    ("marginals", 100_003, "zipf:1.0", "balanced"),
])  # fmt: skip
def test_raw_error_is_the_simulated_one(sampler, n, distribution, assignment):
    result = simulated(sampler, n, distribution, assignment)
    check_mse(result, expected_of(result), f"{sampler}, n={n}, {assignment}")


@pytest.mark.slow
def test_the_assignment_matters():
    """Negative control: the theory of the other assignment is refuted, and so is that of 8 % more users."""
    result = simulated("marginals", 1001, "zipf:3.0", "balanced", (2, 2, 2, 2, 2, 2, 2, 2))
    check_mse(result, expected_of(result), "the right one")
    wrong = np.array([[theory.expected_mse(p, e, 1001, result.domain, result.frequencies) for e in EPSILONS]
                      for p in PROTOCOLS])  # fmt: skip
    with pytest.raises(AssertionError, match="rsfd-"):
        check_mse(result, wrong, "the theory of uniform assignment")
    with pytest.raises(AssertionError, match="z="):
        check_mse(result, expected_of(result, n=1081), "more users")


@pytest.mark.slow
@pytest.mark.parametrize("n", [1000, 5000])
@pytest.mark.parametrize("protocol", [p for p in PROTOCOLS if not p.startswith("smp")])
def test_clipped_error_is_good_to_one_percent(protocol, n):
    """Against the exact distribution of a count, the convolution of two binomials; from 20 expected reports on."""
    checked = apart = 0
    for epsilon in (0.5, 1.5, 3.0):
        for k in (2, 10, 50):
            m = mechanism(protocol, epsilon, 3, k)
            for holders in (0, n // 500, n // 50, n // 3):
                law = np.convolve(binomial(holders, m.base + m.gain), binomial(n - holders, m.base))
                if law @ np.arange(n + 1) < 20:
                    continue
                f = np.array([holders / n])
                exact = law @ (np.maximum(m.estimate(np.arange(n + 1), n), 0) - f) ** 2
                moments = theory.estimate_moments(m, f, n)
                assert theory.squared_error(f, moments, "clip")[0] == pytest.approx(exact, rel=0.01), (
                    epsilon,
                    k,
                    holders,
                )
                checked += 1
                apart += abs(moments.variance[0] / exact - 1) > 0.1
    assert checked > 15
    assert apart > 4  # the raw error would not do


def binomial(n, p):
    m = np.arange(n + 1)
    logs = np.cumsum(np.concatenate([[0.0], np.log(np.maximum(n - m[:-1], 1) / m[1:] * (p / (1 - p)))]))
    law = np.exp(logs - logs.max())
    return law / law.sum()


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("n,distribution", [(1000, "zipf:2.0"), (30_000, "zipf:1.0")])
def test_clipped_error_is_the_simulated_one(n, distribution, assignment):
    """Raw and clipped errors go together, and the raw one is known exactly: it is used to lower the noise."""
    result = simulated("marginals", n, distribution, assignment, (4, 30, 30))
    raw, clipped = result.mse("none"), result.mse("clip")
    exact, expected = expected_of(result), expected_of(result, "clip")
    away = raw - raw.mean(axis=-1, keepdims=True)
    slope = (away * clipped).mean(axis=-1) / (away**2).mean(axis=-1)
    rest = clipped - slope[..., None] * (raw - exact[..., None])
    gap = np.abs(rest.mean(axis=-1) / expected - 1)
    error = rest.std(axis=-1, ddof=1) / math.sqrt(REPETITIONS) / expected
    assert error.max() < 0.008
    assert (gap < 0.01 + normal_bound(gap.size) * error).all(), (gap - normal_bound(gap.size) * error).max()
    assert (expected < exact * 0.95).any()


def test_balanced_groups_by_hand():
    """RS+FD[OUE-z], 3 users and 2 attributes: 2 users sample the first.  Both choices of s, written out."""
    m = mechanism("rsfd-oue-z", 1.0, 2, 2)
    f, n, group = 1 / 3, 3, 2
    mean = variance = 0.0
    for s, probability in ((0, 1 / 3), (1, 2 / 3)):  # the only holder is among the 2 of 3, or is not
        estimate = m.estimate(s * m.p + (n - s) * m.q, n)
        noise = (s * m.p * (1 - m.p) + (n - s) * m.q * (1 - m.q)) / (n * m.gain) ** 2
        mean += probability * estimate
        variance += probability * (noise + estimate**2)
    moments = theory.estimate_moments(m, np.array([f]), n, "balanced", 0)
    assert moments.bias[0] == pytest.approx(mean - f, abs=1e-14)
    assert moments.bias[0] == pytest.approx(f * (group * 2 / n - 1))
    assert moments.variance[0] == pytest.approx(variance - mean**2)


def users_needed(protocol, epsilon, domain, target, frequencies=None, assignment="uniform", postprocess="none"):
    options = frequencies, assignment, target, postprocess
    return planning.plan_table(100, domain, [epsilon], [protocol], *options)[0].users_needed


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("target", [0.3, 0.02, 1e-5])
def test_users_needed_is_the_smallest_number(target, assignment):
    domain, frequencies = (3, 2, 7), [0.5, 0.5, 0, 0.9, 0.1, 0.4, 0.3, 0.1, 0.1, 0.1, 0, 0]
    for protocol in PROTOCOLS:
        for postprocess in ("none", "clip") if assignment == "uniform" else ("none",):
            n = users_needed(protocol, 1.0, domain, target, frequencies, assignment, postprocess)
            options = (domain, frequencies, assignment, postprocess)
            assert theory.expected_mse(protocol, 1.0, n, *options) <= target**2
            for fewer in range(max(1, n - 7), n):
                assert not theory.expected_mse(protocol, 1.0, fewer, *options) <= target**2, (protocol, n, fewer)


def test_one_user_is_enough_for_a_target_that_anything_meets():
    assert users_needed("spl-grr", 5.0, (2, 2), 100.0) == 1
    assert users_needed("smp-grr", 5.0, (2, 2, 2), 100.0, assignment="balanced") == 3


def test_bits_per_user():
    assert planning.bits_per_user("rsfd-grr", 1.0, (2, 8)) == pytest.approx(1 + 3)
    assert planning.bits_per_user("spl-oue", 1.0, (2, 8)) == 10
    assert planning.bits_per_user("smp-grr", 1.0, (2, 8)) == pytest.approx(2 + 1)  # half of 1 + 3, and which
    assert planning.bits_per_user("smp-adp", 1.0, (2, 1000)) == pytest.approx((1 + 1000) / 2 + 1)
    assert planning.bits_per_user("smp-oue", 1.0, (5,)) == 5


def test_plan_table():
    rows = planning.plan_table(5000, (4, 6), epsilons=(1.0, 2.0), protocols=PROTOCOLS, target_rmse=0.05)
    assert [(r.protocol, r.epsilon) for r in rows] == [(p, e) for p in PROTOCOLS for e in (1.0, 2.0)]
    for row in rows:
        assert row.mse == theory.expected_mse(row.protocol, row.epsilon, 5000, (4, 6))
        assert row.rmse == math.sqrt(row.mse)
        assert (row.users_needed <= 5000) == (row.rmse <= 0.05)
    assert planning.plan_table(5000, (4, 6))[0].users_needed is None


def test_nobody_for_an_attribute():
    assert math.isnan(theory.expected_mse("smp-grr", 1.0, 2, (2, 2, 2), assignment="balanced"))


@pytest.mark.parametrize("options,message", [
    ({"protocol": "x"}, r"unknown protocol 'x'; available: "),
    ({"epsilon": 0}, r"epsilon=0.0 must be finite and > 0"),
    ({"n": 0}, r"users=0 must be"),
    ({"n": 2**53 + 1}, r"users=9007199254740993 must be a whole number >= 1 and <= 2\*\*53"),
    ({"domain": (1,)}, r"domain\[0\]=1 must be"),
    ({"frequencies": [0.5, 0.6]}, r"frequencies of attribute 0 sum to 1.1, least 0.5; they must be >= 0 and sum to 1"),
    ({"frequencies": [1.5, -0.5]}, r"frequencies of attribute 0 sum to 1.0, least -0.5"),
    ({"frequencies": [float("nan"), 1.0]}, r"frequencies of attribute 0 sum to nan"),
    ({"frequencies": [1.0]}, r"frequencies has shape \(1,\); one for each of the 2 values is needed"),
    ({"assignment": "fair"}, r"unknown assignment 'fair'; available: uniform, balanced"),
    ({"postprocess": "simplex"}, r"no theory for postprocess 'simplex'; available: none, clip"),
])  # fmt: skip
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        theory.expected_mse(**{"protocol": "spl-grr", "epsilon": 1.0, "n": 10, "domain": (2,), **options})


@pytest.mark.parametrize("target,message", [
    (0, r"target_rmse=0 must be finite and > 0"),
    (float("nan"), r"target_rmse=nan must be"),
])  # fmt: skip
def test_bad_target(target, message):
    with pytest.raises(ValueError, match=message):
        users_needed("spl-grr", 1.0, (2, 2), target)


def test_a_target_out_of_reach_is_a_row_that_says_so():
    (row,) = planning.plan_table(100, (2, 2), [1.0], ["spl-grr"], target_rmse=1e-12)
    assert (row.users_needed, row.unreachable) == (None, "more than 2**53")
