"""What README.md and docs/mathematics.md say a report of RS+FD gives away: by adding up every possible report."""

import itertools
import math

import pytest

from gpu_rsfd.protocols import REGISTRY, mechanism
from gpu_rsfd.protocols.adaptive import choose
from gpu_rsfd.protocols.budgets import amplified


def chances(name, e, k, value):
    """report -> probability that the randomised value gives it; `value` None: the attribute is not sampled."""
    big = math.exp(e)
    if name == "grr":
        p, q = big / (big + k - 1), 1 / (big + k - 1)
        return {v: 1 / k if value is None else p if v == value else q for v in range(k)}
    s = math.exp(e / 2)
    p, q = (0.5, 1 / (big + 1)) if name.startswith("oue") else (s / (s + 1), 1 / (s + 1))

    def bits(encoded):
        return {
            report: math.prod((p if v == encoded else q) if bit else 1 - (p if v == encoded else q)
                              for v, bit in enumerate(report))
            for report in itertools.product((0, 1), repeat=k)
        }  # fmt: skip

    if value is not None or name.endswith("-z"):
        return bits(value)
    fakes = [bits(fake) for fake in range(k)]
    return {report: math.fsum(f[report] for f in fakes) / k for report in fakes[0]}


def loss(names, epsilon, domain, changed):
    """The largest log-likelihood ratio of a report between users who hold 0 or 1 in each of the changed attributes.

    Values are exchangeable, so two of them are enough.
    """
    d, e = len(domain), amplified(epsilon, len(domain))
    fakes = [chances(name, e, k, None) for name, k in zip(names, domain, strict=True)]
    held = [[chances(name, e, k, v) for v in (0, 1)] for name, k in zip(names, domain, strict=True)]
    worst = 0.0
    for report in itertools.product(*fakes):

        def likelihood(user, report=report):
            return sum(
                math.prod((held[j][user[j]] if j == t else fakes[j])[report[j]] for j in range(d)) for t in range(d)
            )

        other = [1 if j in changed else 0 for j in range(d)]
        worst = max(worst, abs(math.log(likelihood([0] * d) / likelihood(other))))
    return worst


@pytest.mark.parametrize("name", ["oue-z", "sue-z", "grr"])
def test_one_attribute_loses_epsilon(name):
    assert loss([name] * 2, 1.0, (3, 3), {0}) == pytest.approx(1.0, abs=1e-9)


def test_zero_vectors_with_unequal_domains_lose_epsilon():
    assert loss(["oue-z"] * 2, 1.0, (2, 5), {1}) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("name", ["oue-r", "sue-r"])
def test_random_vectors_lose_more(name):
    assert loss([name] * 2, 1.0, (3, 3), {0}) == pytest.approx(1.125, abs=5e-4)


def test_unequal_domains_lose_more_with_grr():
    assert loss(["grr"] * 2, 1.0, (2, 5), {1}) > 1.1
    assert loss(["grr"] * 2, 1.0, (2, 5), {0}) < 1


def test_an_adaptive_mixture_loses_more():
    """k = 2 takes GRR, k = 14 OUE-z.  The loss of OUE-z does not depend on k, so a small one is enough to add up."""
    e = amplified(1.0, 2)
    assert [choose(REGISTRY["rsfd-adp"].variants, e, 2, k).name for k in (2, 14)] == ["grr", "oue-z"]
    for k in (3, 6):
        assert loss(["grr", "oue-z"], 1.0, (2, k), {1}) == pytest.approx(1.147, abs=5e-4)


@pytest.mark.parametrize("name", ["grr", "oue-z", "oue-r", "sue-z", "sue-r"])
def test_all_attributes_lose_the_amplified_budget(name):
    assert loss([name] * 2, 1.0, (2, 3), {0, 1}) == pytest.approx(amplified(1.0, 2), abs=1e-9)


@pytest.mark.parametrize("protocol,epsilon,share", [("rsfd-oue-z", math.log(7), 0.35), ("rsfd-sue-z", 3.0, 0.52)])
def test_what_balanced_groups_save(protocol, epsilon, share):
    """docs/balanced.md: of the variance of a value that all users hold, with d = 10."""
    m = mechanism(protocol, epsilon, 10, 10)
    n = 10**6
    assert 1 - m.fixed_variance(1.0, n, "balanced", 0) / m.fixed_variance(1.0, n) == pytest.approx(share, abs=0.005)
