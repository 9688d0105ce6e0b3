"""RS+RFD: priors realised as integers; counts as in RS+FD, with fakes of another distribution."""

import functools
import json

import numpy as np
import pytest
from stats import check_means, check_same_law, check_same_moments, check_variances

import gpu_rsfd
from gpu_rsfd.backends import open_backend
from gpu_rsfd.backends.exact.samplers import SAMPLERS
from gpu_rsfd.errors import InputError
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import PROTOCOLS, REGISTRY, PrivacySettings, prior_frequencies
from gpu_rsfd.protocols.priors import Prior

PRIORED = tuple(p for p in PROTOCOLS if REGISTRY[p].prior)
CODES = np.array([[i % 3, (i % 3 + i // 100) % 3, i % 2] for i in range(301)])
CODES[:150] = 0, 1, 1
DATA = gpu_rsfd.Dataset(CODES, (3, 3, 2))
SETTINGS = PrivacySettings(priors=Prior.of([(0.7, 0.2, 0.1), (0.0, 0.4, 0.6), (0.9, 0.1)]).thresholds(DATA.domain))


def realised(prior, domain, counts=None, seed=0):
    thresholds = Prior.of(prior).thresholds(domain, counts, seed) or (None,) * len(domain)
    return [prior_frequencies(t, k) for t, k in zip(thresholds, domain, strict=True)]


def test_names():
    assert PRIORED == ("rsrfd-grr", "rsrfd-oue-r", "rsrfd-sue-r", "rsrfd-l-osue-r", "rsrfd-l-sue-r")
    assert gpu_rsfd.label("rsrfd-oue-r") == "RS+RFD[OUE-r]"


def test_laws():
    zipf = realised("zipf:1", (4, 3))
    assert zipf[1] == pytest.approx(np.array([6, 3, 2]) / 11, abs=1e-9)
    assert realised("true", DATA.domain, DATA.counts)[2] == pytest.approx(DATA.frequencies[6:], abs=1e-9)
    assert realised([(0.25, 0.75), (0, 1, 0)], (2, 3))[1] == pytest.approx([0, 1, 0])
    spread = realised("dirichlet:1000000", (5,) * 3)
    assert all(row == pytest.approx(np.full(5, 0.2), abs=1e-2) for row in spread)
    tiny = np.array(realised("dirichlet:0.001", (5,) * 40))
    assert tiny.sum(axis=1) == pytest.approx(np.ones(40))
    assert (tiny.max(axis=1) > 0.99).mean() > 0.9


def test_dirichlet_has_its_moments():
    draws = np.array(realised("dirichlet:0.5", (4,) * 4000))
    assert draws.mean(axis=0) == pytest.approx(np.full(4, 0.25), abs=0.02)
    assert draws.var(axis=0) == pytest.approx(np.full(4, 0.25 * 0.75 / 3), rel=0.1)  # a (A - a) / (A^2 (A + 1)), A = 2


def test_noisy_counts():
    n = 10**6
    counts = np.array([n // 4, 3 * n // 4] * 3)
    exact = realised("noisy:100000", (2,) * 3, counts)
    assert all(row == pytest.approx([0.25, 0.75], abs=1e-6) for row in exact)
    draws = np.array(realised("noisy:0.01", (2,) * 1000, np.array([n // 2] * 2000)))
    scale = 1000 / 0.01  # d / EPS
    gap = draws[:, 0] - 0.5  # (a - b) / 2 (n + a + b) or so; clipped if far out
    assert 0.1 * scale / n < gap.std() < 0.4
    assert abs(np.median(gap)) < 0.05
    empty = Prior.of("noisy:1e-9").thresholds((2,) * 50, np.array([1, 0] * 50))
    assert any(row is None for row in empty), "all counts clipped to 0 must be uniform"


def test_drawn_priors_follow_their_own_seed():
    for prior in ("dirichlet:1", "noisy:1"):
        first, again, other = (Prior.of(prior).thresholds(DATA.domain, DATA.counts, seed) for seed in (1, 1, 2))
        assert first == again != other


@pytest.mark.parametrize("prior", [None, "uniform", "zipf:0", [(1 / 3,) * 3, (1 / 3,) * 3, (0.5, 0.5)]])
def test_equal_frequencies_are_rsfd_integer_by_integer(prior):
    priors = Prior.of(prior).thresholds(DATA.domain)
    assert priors is None
    plain = tuple(name.replace("rsrfd", "rsfd") for name in PRIORED)
    for guarantee in ("paper", "user", "attribute"):
        settings = PrivacySettings(priors=priors, guarantee=guarantee)
        plan = Plan.of(DATA.domain, plain + PRIORED, [1.0], "uniform", settings)
        assert plan.cells[: len(plain)] == plan.cells[len(plain) :]


def test_the_true_prior_of_even_data_is_uniform():
    data = gpu_rsfd.Dataset([[0, 0], [1, 1], [2, 0]], (3, 2))
    first, second = Prior.of("true").thresholds(data.domain, data.counts)
    assert first is None
    assert second == (2 * 2**32 // 3,)


def test_a_file(tmp_path):
    path = tmp_path / "prior.json"
    path.write_text(json.dumps([[0.5, 0.25, 0.25], [0.1, 0.9]]))
    prior = Prior.of(str(path))
    assert prior.thresholds((3, 2)) == ((2**31, 3 * 2**30), (int(0.1 * 2**32),))
    assert Prior.of(prior.plain) == prior  # the content is kept, not the name
    assert Prior.of(Prior.of("zipf:1.5").plain) == Prior.of("zipf:1.5")


@pytest.mark.parametrize(
    "prior,words",
    [
        ("zip:1", "'zip:1' is unknown, and no such file exists; valid: uniform, true, noisy:EPS"),
        ("zipf:x", "'x' must be a finite number >= 0"),
        ("zipf:-1", "'-1' must be a finite number >= 0"),
        ("noisy:0", "'0' must be a finite number > 0"),
        ("noisy", "is unknown"),
        ("dirichlet:nan", "must be a finite number > 0"),
        (3.5, "prior=3.5 is unknown"),
        ([(0.5, 0.4), (0.5, 0.5)], r"prior\[0\] sums to 0.9, least 0.4; frequencies must be >= 0 and sum to 1"),
        ([(0.5, 0.5), (1.5, -0.5)], r"prior\[1\] sums to 1, least -0.5"),
        ([(0.5, float("nan")), (0.5, 0.5)], r"prior\[0\] sums to nan"),
        ([(0.5, float("inf")), (0.5, 0.5)], r"prior\[0\] sums to nan"),
        ([(), (0.5, 0.5)], r"prior\[0\] sums to 0"),
        ([0.5, 0.5], r"prior\[0\]=0.5 must be the frequencies"),
        ([("a", "b")], r"prior\[0\]=\('a', 'b'\) must be the frequencies"),
        ([(0.5, 0.5)], "prior has 1 attributes, but the data have 2"),
        ([(0.5, 0.5), (0.5, 0.25, 0.25)], r"prior\[1\] has 3 frequencies, but domain\[1\]=2"),
        ("true", "depends on the data"),
    ],
)
def test_bad_priors_are_one_clear_line(prior, words):
    with pytest.raises(InputError, match=words) as caught:
        Prior.of(prior).thresholds((2, 2))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content,words",
    [
        ("{", "is not a JSON file"),
        ('{"a": [1]}', "must hold a list of frequencies for each attribute"),
        ("[[0.5, 0.6]]", "sums to 1.1"),
        ("[[true, false]]", "must be the frequencies"),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path, content, words):
    path = tmp_path / "prior.json"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        Prior.of(path)


# ------------------------------------------------------------------------------------------------------- statistics


def run(sampler, data, settings, repetitions, seed, assignment, epsilon=3.0):
    plan = Plan.of(data.domain, PRIORED, (epsilon,), assignment, settings)
    engine = open_backend("numpy", workers=1)[0] if sampler == "users" else SAMPLERS[sampler](1)
    with engine:
        counts, sampled = engine.count(plan, data, seed, repetitions)
    return plan, plan.expand(counts), sampled


@functools.cache
def experiment(sampler, assignment):
    seed = ("users", "counts", "marginals").index(sampler)
    repetitions = {"users": 3000, "counts": 1500, "marginals": 5000}[sampler]
    return run(sampler, DATA, SETTINGS, range(repetitions), seed, assignment)


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
@pytest.mark.parametrize("sampler", ["users", "counts", "marginals"])
@pytest.mark.parametrize("protocol", PRIORED)
def test_unbiased_with_its_variance_in_every_cell(protocol, sampler, assignment):
    plan, counts, _ = experiment(sampler, assignment)
    p = PRIORED.index(protocol)
    for a in plan.attributes:
        m, f = plan.mechanism(p, 0, a.index), DATA.frequencies[a.columns]
        estimates = m.estimate(counts[p, 0, :, a.columns], DATA.n)
        variance = m.fixed_variance(f, DATA.n, assignment, a.index)
        expected = f + m.bias(f, DATA.n, assignment, a.index)
        what = f"{protocol}, {sampler}, {assignment}, attribute {a.index}"
        check_means(estimates, expected, variance, what)
        check_variances(estimates, variance, what)


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
@pytest.mark.parametrize("protocol", PRIORED)
def test_counts_have_the_moments_of_users(protocol, assignment):
    p = PRIORED.index(protocol)
    users, counts, marginals = (experiment(s, assignment)[1][p, 0] for s in ("users", "counts", "marginals"))
    check_same_moments(users, counts, f"{protocol}, {assignment}")
    for columns in (slice(0, 3), slice(3, 6), slice(6, 8)):
        check_same_moments(counts[:, columns], marginals[:, columns], f"{protocol}, {assignment}, {columns}")


@pytest.mark.slow
def test_full_joint_law_of_a_tiny_case():
    data = gpu_rsfd.Dataset([[0, 0], [1, 1], [0, 1]], (2, 2))
    settings = PrivacySettings(priors=Prior.of([(0.8, 0.2), (0.3, 0.7)]).thresholds(data.domain))
    users, counts = (
        run(s, data, settings, range(r), 5, "uniform", 1.0)[1] for s, r in (("users", 6000), ("counts", 2000))
    )
    for p, protocol in enumerate(PRIORED):
        check_same_law(users[p, 0], counts[p, 0], protocol)


@pytest.mark.slow
def test_a_wrong_prior_is_caught():
    wrong = PrivacySettings(priors=Prior.of([(0.65, 0.25, 0.1), (0.0, 0.4, 0.6), (0.9, 0.1)]).thresholds(DATA.domain))
    _, counts, _ = run("counts", DATA, wrong, range(1500), 1, "uniform")
    for p in range(3):
        with pytest.raises(AssertionError, match="differs by"):
            check_same_moments(experiment("users", "uniform")[1][p, 0], counts[p, 0], "a wrong prior")
