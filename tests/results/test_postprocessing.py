"""Each post-processing against its definition, read literally; what is undefined gives no number and says why."""

import json
import math

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.results.estimate import ALIASES, NOT_NEGATIVE, POSTPROCESS, SUM_TO_ONE, needs_context, postprocess
from gpu_rsfd.results.postprocessing import Context, UndefinedError, simplex
from gpu_rsfd.results.result import Results
from gpu_rsfd.show import tables
from gpu_rsfd.show.rows import How

# 2,000 users, 60 of whom report the attribute of 6 values
GRR = Context(n=2000, base=0.12, gain=0.28, variance=0.12 * 0.88 / 60 / 0.28**2, noise="keep")
OUE = Context(n=2000, base=0.25, gain=0.25, variance=0.25 * 0.75 / 60 / 0.25**2, noise="bits")
PRIOR = np.array([0.3, 0.2, 0.1, 0.06, 0.04, 0.02])
SKEWED = Context(n=2000, base=PRIOR, gain=0.28, variance=PRIOR * (1 - PRIOR) / 60 / 0.28**2, noise="keep")
TRUTH = np.array([0.55, 0.3, 0.1, 0.05, 0.0, 0.0])


def drawn(context, rows=40, seed=1):
    """Estimates from reports: with `keep`, one of 6 values by each user; with `bits`, six independent bits."""
    rng = np.random.Generator(np.random.Philox(seed))
    rates = context.base + context.gain * TRUTH
    shape = (rows, 6)
    one = context.noise == "keep"
    counts = rng.multinomial(60, rates, rows) if one else rng.binomial(60, np.broadcast_to(rates, shape))
    return (counts / 60 - context.base) / context.gain


def literal_norm_cut(f):
    out, total = np.zeros(6), 0.0
    for v in sorted(range(6), key=lambda v: -f[v]):
        if total > 1 or f[v] <= 0:
            break
        out[v] = f[v]
        total += f[v]
    return out / total


def literal_base_cut(f, context):
    low, high = -10.0, 10.0
    for _ in range(100):  # the quantile 1 - 2/6 of the normal distribution
        middle = (low + high) / 2
        low, high = (middle, high) if (1 + math.erf(middle / math.sqrt(2))) / 2 < 2 / 3 else (low, middle)
    sigma = np.broadcast_to(np.sqrt(context.variance), 6)
    return np.array([0.0 if f[v] < low * sigma[v] else f[v] for v in range(6)])


def literal_mle_apx(f, context):
    """The multiple x of the variances for which what is not negative sums to 1, by bisection."""
    q, p = context.base, context.base + context.gain
    shares = q + context.gain * f

    def at(x):
        return np.maximum((shares - q - q * (1 - q) * x) / (p - q + (p * (1 - p) - q * (1 - q)) * x), 0)

    low, high = -1.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle).sum() > 1 else (low, middle)
    return at(low)


def literal_power(f, context):
    """Sums over all counts from 1 to n."""
    counts = np.arange(1.0, context.n + 1)
    low, high = 0.0, 20.0
    for _ in range(60):
        a = (low + high) / 2
        prior = counts**-a
        low, high = (a, high) if (counts * prior).sum() / prior.sum() > context.n / 6 else (low, a)
    sigma = np.broadcast_to(np.sqrt(context.variance), 6)
    out = np.empty(6)
    for v in range(6):
        weight = counts**-low * np.exp(-((f[v] * context.n - counts) ** 2) / (2 * (context.n * sigma[v]) ** 2))
        out[v] = (counts * weight).sum() / weight.sum() / context.n
    return out


def applied(name, f, context):
    function = POSTPROCESS[name]
    return function(f, context) if needs_context(function) else function(f)


LITERAL = {
    "norm": lambda f, context: f + (1 - f.sum()) / 6,
    "norm-cut": lambda f, context: literal_norm_cut(f),
    "base-cut": literal_base_cut,
    "mle-apx": literal_mle_apx,
    "power": literal_power,
    "power-ns": lambda f, context: simplex(literal_power(f, context)),
}


@pytest.mark.parametrize("context", [GRR, OUE, SKEWED], ids=["grr", "oue", "prior"])
@pytest.mark.parametrize("name", LITERAL)
def test_definitions(name, context):
    f = drawn(context)
    assert (f < 0).any()
    if name == "mle-apx" and context is SKEWED:
        with pytest.raises(UndefinedError, match="one rate for all values"):
            applied(name, f, context)
        return
    found = applied(name, f, context)
    exact = 1e-3 * float(np.sqrt(np.max(context.variance))) if name.startswith("power") else 1e-9
    np.testing.assert_allclose(found, [LITERAL[name](row, context) for row in f], atol=exact)


@pytest.mark.slow
def test_power_where_counts_are_integrated():
    """More users than are summed one by one; noise that is small, and noise that is large."""
    for variance in (1e-8, 1e-5, 1e-3):
        context = Context(n=30_000, base=0.1, gain=0.3, variance=variance, noise="keep")
        f = TRUTH + np.array([-3.0, 2.0, -1.0, 0.0, 1.0, -4.0]) * math.sqrt(variance)
        np.testing.assert_allclose(
            POSTPROCESS["power"](f[None], context)[0], literal_power(f, context), atol=1e-3 * math.sqrt(variance)
        )
    few = Context(n=300, base=0.1, gain=0.3, variance=9e-8, noise="keep")  # noise of a tenth of a user
    f = np.random.default_rng(28).uniform(0.0, 0.5, (120_000, 6))  # so many that they are tabulated
    found, exact = POSTPROCESS["power"](f, few)[:500], np.array([literal_power(row, few) for row in f[:500]])
    np.testing.assert_allclose(found, exact, atol=1e-3 * 3e-4)
    with pytest.raises(UndefinedError, match="n = 6 and k = 6"):
        POSTPROCESS["power"](f[None], Context(n=6, base=0.1, gain=0.3, variance=0.1, noise="keep"))


def log_likelihood(f, shares, context):
    rates = context.base + context.gain * f
    return (shares * np.log(rates)).sum(axis=-1)


@pytest.mark.parametrize("context", [GRR, SKEWED], ids=["grr", "prior"])
def test_mle_has_the_largest_likelihood(context):
    """As good as iterative Bayesian updates that have converged; nothing near it is better."""
    f = drawn(context)
    shares = context.base + context.gain * f
    found = POSTPROCESS["mle"](f, context)
    np.testing.assert_allclose(found.sum(axis=-1), 1)
    channel = np.broadcast_to(context.base, 6)[:, None] + context.gain * np.eye(6)  # [reported, held]
    ibu = np.full_like(f, 1 / 6)
    for _ in range(4000):
        ibu *= (shares / (ibu @ channel.T)) @ channel
    best = log_likelihood(found, shares, context)
    assert (best >= log_likelihood(ibu, shares, context) - 1e-12).all()
    np.testing.assert_allclose(found, ibu, atol=2e-3)
    rng = np.random.Generator(np.random.Philox(2))
    near = 0.99 * found[:, None] + 0.01 * rng.dirichlet(np.ones(6), (40, 200))
    assert (best[:, None] >= log_likelihood(near, shares[:, None], context)).all()
    assert (POSTPROCESS["simplex"](f) != found).any()
    assert (best > log_likelihood(POSTPROCESS["simplex"](f), shares, context) - 1e-12).all()


def test_mle_is_the_published_rule():
    """Smallest shares are dropped while q S > (1 - j q) share, S the sum of the rest."""
    q, p = GRR.base, GRR.base + GRR.gain
    for f, found in zip(drawn(GRR), POSTPROCESS["mle"](drawn(GRR), GRR), strict=True):
        shares = q + GRR.gain * f
        ascending, j = np.sort(shares), 0
        while q * ascending[j:].sum() > (1 - j * q) * ascending[j]:
            j += 1
        total = ascending[j:].sum()
        expected = ((1 - j * q) * shares - total * q) / (total * (p - q))
        np.testing.assert_allclose(found, np.where(shares < ascending[j], 0, expected), atol=1e-12)


def test_what_the_names_promise():
    for context in (GRR, OUE):
        f = np.concatenate([drawn(context), [TRUTH, [-0.1] * 6, [0.5] * 6, [2.0, 0, 0, 0, 0, 0]]])
        for name in POSTPROCESS:
            if name == "mle" and context is OUE:
                continue
            found = applied(name, f, context)
            assert (found >= 0).all() == (name in (*NOT_NEGATIVE, "base-cut")), (
                name
            )  # whose threshold is > 0 from k = 5 on
            assert np.allclose(found.sum(axis=-1), 1) == (name in (*SUM_TO_ONE, "norm")), name
    assert set(ALIASES.values()) <= set(POSTPROCESS)


@pytest.fixture(scope="module")
def result():
    data = gpu_rsfd.SyntheticDataset(3000, (4, 30), "zipf:1.0", seed=2, name="one")
    protocols = ["rsfd-grr", "smp-grr", "smp-oue", "rsfd-adp"]
    return gpu_rsfd.simulate(data, epsilons=[0.5, 2.0], protocols=protocols, repetitions=5, backend="numpy", workers=1)


def test_undefined_is_no_number_with_a_reason(result, capsys):
    assert result.undefined("simplex") == result.undefined(lambda f: f) == {}
    assert list(result.undefined("mle")) == ["Smp[OUE]", "RS+FD[ADP]"]  # which takes OUE at 0.5
    estimates, errors = result.estimates("mle"), result.error("mae", "mle")
    assert np.isfinite(estimates[:2]).all()
    assert np.isnan(estimates[2]).all()
    assert np.isnan(estimates[3]).any(axis=(1, 2)).tolist() == [True, False]
    assert np.isfinite(errors[:2]).all()
    assert np.isnan(errors[2]).all()
    assert np.isnan(errors[3]).all(axis=-1).tolist() == [True, False]
    results = Results({"one": result})
    tables.show(results, How.of("MLE", "mae"))
    shown = capsys.readouterr().out
    assert "MAE_avg, postprocess=mle" in shown.splitlines()[0]
    assert (
        "Smp[OUE], RS+FD[ADP]: – where mle is not defined: it is the likelihood of reports that support one value each"
        in shown
    )
    row = next(line.split() for line in shown.splitlines() if line.startswith("Smp[OUE] "))
    assert row == ["Smp[OUE]", "–", "–"]
    tables.show(results, How("mle"), "csv")
    lines = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    place = lines[0].index("error")
    assert [line[place] == "nan" for line in lines[1:]] == [False] * 4 + [True] * 3 + [False]
    tables.show(results, How("mle"), "json")
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["error"] is None for row in rows] == [False] * 4 + [True] * 3 + [False]
    assert not any(row["among_best"] for row in rows[4:7])
    tables.compare(results, "rsfd-grr", "smp-oue", How("mle"))
    assert "\nSmp[OUE]: – where mle is not defined" in capsys.readouterr().out  # of these two alone
    tables.per(results, "attribute", How("mle"))
    assert capsys.readouterr().out.count("mle is not defined") == 1


def test_mle_where_a_report_happens_to_support_one_value():
    """Subset selection takes subsets of one value at a large epsilon, and projective geometry sets of one message."""
    data = gpu_rsfd.SyntheticDataset(2000, (3,), "zipf:1.0", seed=2)
    result = gpu_rsfd.simulate(
        data, epsilons=[3.0, 0.5], protocols=["smp-ss", "smp-pgr", "smp-hr"], repetitions=2, backend="numpy", workers=1
    )
    single = [[result.mechanism(p, e, 0).recipe.noise.integers[-1 if p == "smp-ss" else 2] == 1 for e in (3.0, 0.5)]
              for p in result.protocols]  # fmt: skip
    assert single[:2] == [[True, True], [True, True]]
    estimates = result.estimates("mle")
    assert np.isfinite(estimates).all(axis=(2, 3)).tolist() == single
    np.testing.assert_allclose(estimates[:2].sum(axis=-1), 1)
    raw = result.estimates()
    inside = (raw >= 0).all(axis=-1) & np.isclose(raw.sum(axis=-1), 1)
    assert inside[0, 0].all()
    np.testing.assert_allclose(estimates[0, 0], raw[0, 0], atol=1e-9)  # it is the maximum where it is possible


def test_the_literatures_names(result, capsys):
    for alias, name in {**ALIASES, "Norm-Sub": "simplex", "Base-Pos": "clip", "PowerNS": "power-ns"}.items():
        assert np.array_equal(result.error("l2", alias), result.error("l2", name))
        assert np.array_equal(result.mse(alias), result.mse(name))
        assert np.array_equal(result.estimates(alias), result.estimates(name))
    tables.show(Results({"one": result}), How.of("Raw"))
    shown = capsys.readouterr().out
    assert "postprocess=none" in shown
    assert "theory" in shown


def test_processing_alone_needs_no_context():
    f = drawn(OUE)
    assert np.array_equal(postprocess("norm-cut", f, (6,)), POSTPROCESS["norm-cut"](f))
    with pytest.raises(gpu_rsfd.InputError, match="postprocess 'mle' needs to know the protocol"):
        postprocess("mle", f, (6,))


def test_norm_cut_goes_on_until_the_sum_is_above_1():
    cut = POSTPROCESS["norm-cut"]
    assert cut(np.array([0.5, 0.5, 0.25, 0.25])) == pytest.approx([0.4, 0.4, 0.2, 0.0])  # at a sum of 1, one more
    assert cut(np.array([0.75, 0.5, 0.25, 0.25])) == pytest.approx([0.6, 0.4, 0.0, 0.0])
