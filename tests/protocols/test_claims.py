"""Numbers and claims of the docs: priors, L-GRR, THE, local hashing, bias, one attribute, post-processings."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from command import call

import gpu_rsfd
from gpu_rsfd.protocols import REGISTRY, PrivacySettings, mechanisms
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.protocols.priors import Prior
from gpu_rsfd.theory.expected import expected_mse

DOCS = Path(__file__).parents[2] / "docs"


def docs(name):
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


def test_the_true_prior_is_not_the_best():
    data = gpu_rsfd.SyntheticDataset(50_000, (10,) * 5, "zipf:1.5", seed=0)
    common = [[float(v == f.argmax()) for v in range(10)] for f in np.split(data.frequencies, 5)]
    found, loss = {}, {}
    for name, prior in (("uniform", "uniform"), ("true", "true"), ("common", common)):
        settings = PrivacySettings(priors=Prior.of(prior).thresholds(data.domain, data.counts))
        found[name] = expected_mse("rsrfd-grr", math.log(2), data.n, data.domain, data.frequencies, settings=settings)
        loss[name] = losses(mechanisms("rsrfd-grr", math.log(2), data.domain, settings))[0]
    assert found["uniform"] == pytest.approx(4.0e-4, abs=5e-6)
    assert found["true"] == pytest.approx(3.4e-4, abs=5e-6)
    assert found["common"] == pytest.approx(1.2e-4, abs=5e-6)
    assert loss["common"] > 2 * loss["uniform"]
    assert "4.0e-4 with uniform fakes, 3.4e-4 with `true`, and 1.2e-4" in docs("privacy.md")


def published(k, everything, first):
    """P(v | v) and P(v | other) of a report of L-GRR with the published parameters of both steps."""
    a, b = math.exp(everything), math.exp(first)
    p = a / (a + k - 1)
    q = (1 - p) / (k - 1)
    again = (q - b * p) / (-p * b + k * q * b - q * b - p * (k - 1) + q)
    other = (1 - again) / (k - 1)
    return p * again + (k - 1) * q * other, p * other + q * again + (k - 2) * q * other


def test_l_grr_spends_what_it_may_and_the_published_one_does_not():
    def variance(p, q):
        return q * (1 - q) / (p - q) ** 2

    for k, loss, ratio in ((2, 0.3, 1.0), (32, 0.055, 38.3)):
        p, q = published(k, 0.5, 0.3)
        (ours,) = mechanisms("smp-l-grr", 0.5, (k,), PrivacySettings(first_report=0.6))
        assert ours.loss == pytest.approx(0.3, abs=1e-6)
        assert math.log(p / q) == pytest.approx(loss, abs=5e-4)
        assert variance(p, q) / variance(ours.p, ours.q) == pytest.approx(ratio, rel=1e-3)
    assert "that report loses 0.055, and the variance (at $f = 0$) is 38 times as large" in docs("protocols.md")


def test_plan_labels_the_loss_of_a_first_report(monkeypatch, capsys):
    arguments = ("--users", "1000", "--domain", "4x2", "--epsilon", "1", "--no-attack")
    assert call(monkeypatch, "plan", *arguments, "--protocol", "smp-l-grr,smp-grr") == 0
    out = capsys.readouterr().out
    assert re.search(r"Smp\[L-GRR\].* 0\.500 first +0\.500 first", out)
    assert not re.search(r"Smp\[GRR\].*first", out)
    assert "first: loss of a longitudinal protocol's first report" in out
    assert call(monkeypatch, "plan", *arguments, "--protocol", "smp-grr") == 0
    assert not re.search(r"\d first|first report", capsys.readouterr().out)


@pytest.mark.parametrize("guarantee", ["user", "attribute"])
def test_the_does_not_use_up_its_budget(guarantee):
    settings = PrivacySettings(guarantee=guarantee)
    assert losses(mechanisms("smp-the", 1.0, (5, 5), settings))[0] == pytest.approx(0.896, abs=5e-4)
    assert losses(mechanisms("smp-oue", 1.0, (5, 5), settings))[0] == pytest.approx(1.0, abs=1e-5)
    assert "(0.896 at $\\varepsilon' = 1$)" in docs("protocols.md")


def test_no_loss_grows_without_bound():
    for name, most in (("oue", 16.7), ("grr", 22.9), ("sue", 33.3)):
        for epsilon in (50, 500):
            assert gpu_rsfd.mechanism(f"smp-{name}", epsilon, 1, 2).loss == pytest.approx(most, abs=0.1)
            assert gpu_rsfd.mechanism(f"smp-{name}", epsilon, 1, 2).loss < most
    assert "below 16.7 (OUE), 22.9 (GRR, k = 2) and 33.3 (SUE)" in docs("privacy.md")


def test_olh_is_blh_below_ln_1_5():
    for e, same in ((0.1, True), (math.log(1.5) - 1e-9, True), (math.log(1.5) + 1e-9, False)):
        hashes = [gpu_rsfd.mechanism(f"smp-{name}", e, 1, 10).recipe for name in ("olh", "blh")]
        assert (hashes[0] == hashes[1]) == same


def test_sources_are_named():
    page = docs("bibliography.md")
    assert "Further study on frequency estimation under local differential privacy" in page.replace("*", "")
    assert "PVLDB 16(5), 2023" in page
    assert REGISTRY["smp-rue"].variants[0].noise.source.endswith("USENIX Security 2025")


def test_the_bias_of_rsrfd_grr_exceeds_d_over_n_where_the_docs_say_so():
    """Exactly, from the probabilities of sampled and other users; c = (f~ - q) / (p - q) is no frequency."""
    n, d, k = 1001, 5, 4
    prior = ((0.97, 0.01, 0.01, 0.01),) * d
    settings = PrivacySettings(priors=Prior.of(prior).thresholds((k,) * d))
    m = mechanisms("rsrfd-grr", 0.3, (k,) * d, settings)[0]
    f = np.array([0.7, 0.1, 0.1, 0.1])
    size = -(-n // d)
    count = size * (m.q + f * (m.p - m.q)) + (n - size) * m.fake_rate
    right = (count / n - m.base) / m.gain - f
    assert m.bias(f, n, "balanced", 0) == pytest.approx(right, abs=1e-12)
    c = (np.array(prior[0]) - m.q) / (m.p - m.q)
    assert right == pytest.approx((d * size / n - 1) * (f - c), abs=1e-9)
    assert c.min() < 0
    assert c.max() > 1
    assert np.abs(right).max() > d / n
    assert "below d/n: for the" in docs("balanced.md")
    assert "can exceed d/n" in docs("balanced.md")


def test_one_attribute_is_a_plain_frequency_oracle():
    for noise in ("grr", "oue", "sue", "olh", "blh", "the", "rue", "adp"):
        split, sampled = (gpu_rsfd.mechanism(f"{solution}-{noise}", 1.0, 1, 20) for solution in ("spl", "smp"))
        assert split.recipe.noise == sampled.recipe.noise
        assert split.budget == sampled.budget == 1.0
    assert "simulator of frequency oracles" in docs("protocols.md")


def test_norm_sub_halves_the_error_on_skewed_data():
    data = gpu_rsfd.SyntheticDataset(50_000, (41,) * 9, "zipf:1.5", seed=0)
    result = gpu_rsfd.simulate(
        data, epsilons=math.log(2), protocols="rsfd-grr", repetitions=200, sampler="marginals", workers=1
    )
    mul, sub = (result.mse(name).mean() for name in ("clip-normalize", "simplex"))
    assert mul == pytest.approx(7.8e-4, rel=0.03)
    assert sub == pytest.approx(4.1e-4, rel=0.03)
    page = docs("metrics.md")
    assert "Base-Pos is `clip`, Norm-Mul `clip-normalize`, Norm-Sub `simplex`" in page
    assert "7.8e-4 after `clip-normalize`, 4.1e-4 after `simplex`" in page


def test_what_the_attack_is_said_to_be():
    page = docs("privacy.md")
    assert "no attacker does better, whatever the correlation" in page
    assert "optimal among attackers who know the marginals" in page
    assert "2 EPS for changing a user's values" in page
    assert "good to ± .01" in page
    for text in (page, gpu_rsfd.attack.__doc__, Prior.__doc__):
        assert not re.search(r"best (attacker|prior there)|strongest attacker", text)
