"""Means, standard errors, stars and intervals are what they are said to be, also where estimates are missing."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from stats import normal_bound

import gpu_rsfd
from gpu_rsfd.results.result import Column, Results
from gpu_rsfd.show.rows import How, error_cells, shown
from gpu_rsfd.show.statistics import (
    CONFIDENCE,
    Means,
    advice,
    among_best,
    attribute_means,
    differences,
    enough,
    half_width,
    means,
    quantile,
    t_distribution,
)
from gpu_rsfd.show.tables import show, values_of

SMP = ["smp-grr", "smp-oue", "smp-adp"]


def cells(result, postprocess, metric="mse"):
    return error_cells("data", result, How(postprocess, metric))


def tiny(repetitions=1000, n=30, d=10, protocols=SMP, assignment="uniform", sampler="marginals"):
    kind = gpu_rsfd.CountedDataset.of_distribution if sampler == "marginals" else gpu_rsfd.SyntheticDataset
    how = {"assignment": assignment, "sampler": sampler, "seed": 3, "workers": 1}
    return gpu_rsfd.simulate(kind(n, (3,) * d), epsilons=1.0, protocols=protocols, repetitions=repetitions, **how)


# values of Student's t as every textbook prints them
@pytest.mark.parametrize("probability,freedom,value", [
    (0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 3, 3.182), (0.95, 4, 2.132), (0.99, 29, 2.462), (0.975, 120, 1.980),
    (0.975, 10**6, 1.960),
])  # fmt: skip
def test_quantiles_of_students_distribution(probability, freedom, value):
    assert quantile(probability, freedom) == pytest.approx(value, abs=6e-4)
    assert t_distribution(quantile(probability, freedom), freedom) == pytest.approx(probability, abs=1e-9)


def test_differences_are_those_of_the_repetitions():
    result = gpu_rsfd.simulate("nursery", epsilons=[1.0, 2.0], repetitions=30, workers=1)
    found, mse = differences(cells(result, "clip").means, 3, 5), result.mse("clip")
    pairs = mse[3] - mse[5]
    assert np.allclose(found["difference"], pairs.mean(axis=-1))
    assert np.allclose(found["standard_error"], pairs.std(axis=-1, ddof=1) / math.sqrt(30))
    assert np.allclose(found["ratio"], mse[3].mean(axis=-1) / mse[5].mean(axis=-1))
    assert np.array_equal(
        found["significantly_different"], abs(found["difference"]) > quantile(0.975, 29) * found["standard_error"]
    )
    error = cells(result, "clip").error
    assert not np.allclose(found["standard_error"], np.hypot(error[3], error[5]), rtol=1e-3)  # unpaired


# ------------------------------------------------------------------------------------------------- missing estimates


@pytest.mark.slow
def test_missing_estimates_are_averaged_as_the_theory_does():
    """Groups share the users: where one is empty the others are larger, so whole repetitions must not be left out."""
    found, result = cells(tiny(4000, sampler="counts"), "none"), tiny(4000, sampler="counts")
    bound = normal_bound(found.mean.size) * 1.1  # room for the skewness of a sum of squares
    assert np.abs((found.mean - found.theory) / found.error).max() < bound
    whole = np.array([[row[np.isfinite(row)].mean() for row in cell] for cell in result.mse("none")])  # refuted
    assert ((whole - found.theory) / found.error).min() > bound


def test_the_standard_error_is_that_of_many_tries():
    long = tiny(20 * 400, n=12, d=6, protocols="smp-grr")
    found = []
    for first in range(0, 20 * 400, 20):
        part = {name: long[name][:, :, first : first + 20] for name in ("counts", "reporters")}
        found.append(cells(replace(long, repetitions=range(20), kept=part), "none"))
    # the spread of 400 means is known to 1 / sqrt(800), somewhat worse for skew ones
    tolerance = normal_bound(1) * 1.5 / math.sqrt(800)
    spread = np.std([one.mean[0, 0] for one in found], ddof=1)
    assert math.sqrt(np.mean([one.error[0, 0] ** 2 for one in found])) == pytest.approx(spread, rel=tolerance)
    assert np.allclose(np.sqrt((found[0].means.deviation ** 2).sum(axis=-1)), found[0].error)


def test_nothing_missing_is_the_mean_and_standard_error_of_repetitions():
    both, alone = tiny(40, protocols=["rsfd-grr", "smp-grr"]), tiny(40, protocols=["rsfd-grr"])
    for postprocess in ("none", "simplex"):
        mse, found = alone.mse(postprocess), cells(alone, postprocess)
        assert np.array_equal(found.mean, mse.sum(axis=-1) / 40)
        assert np.array_equal(found.error, np.sqrt(((mse - found.mean[..., None]) ** 2).sum(axis=-1) / 39 / 40))
        assert np.array_equal(cells(both, postprocess).error[0], found.error[0])


def test_an_attribute_that_nobody_ever_sampled():
    found = cells(tiny(5, n=3, d=4, protocols=["smp-grr"], assignment="balanced"), "none")
    assert np.isnan(found.mean).all()
    assert np.isnan(found.error).all()
    assert (found.means.known.tolist(), found.complete.tolist(), found.best.tolist()) == ([[0]], [[0]], [[False]])


# ------------------------------------------------------------------------------------------------------------ stars


@pytest.mark.slow
def test_all_that_are_not_significantly_worse_are_marked():
    result = gpu_rsfd.simulate("nursery", epsilons=[math.log(2), 3.0], repetitions=30, workers=1)
    best, mean = cells(result, "clip-normalize").best, result.mse().mean(axis=-1)
    assert best[mean.argmin(axis=0), range(2)].all()
    assert (best.sum(axis=0) > 1).any()  # more than the smallest mean alone
    assert not best[4].any()  # Spl is far off
    once = gpu_rsfd.simulate("nursery", epsilons=1.0, repetitions=1, workers=1)
    assert np.array_equal(cells(once, "none").best, once.mse("none").mean(axis=-1) == once.mse("none").min())


@pytest.mark.parametrize("larger", [False, True])
def test_stars_follow_the_metric(larger):
    result = gpu_rsfd.simulate("nursery", epsilons=[1.0], repetitions=8, workers=1)
    error = gpu_rsfd.METRICS["max"].function
    metric = gpu_rsfd.Metric((lambda f, g: -error(f, g)) if larger else error, larger, "S")
    assert np.array_equal(cells(result, "none", metric).best, cells(result, "none", "max").best)


def tied(protocols, repetitions, tries=4000, seed=3, common=0.0):
    """Numbers of protocols with equal expectations."""
    draws = np.random.Generator(np.random.Philox(seed))
    noise = draws.normal(size=(protocols, tries, repetitions)) + common * draws.normal(size=(tries, repetitions))
    return means(noise + 100)


@pytest.mark.parametrize("protocols,repetitions", [(2, 5), (2, 100), (6, 10)])
def test_equal_protocols_are_rarely_called_different(protocols, repetitions):
    excluded = ~among_best(tied(protocols, repetitions), "smaller").all(axis=0)
    assert 0.02 < excluded.mean() <= 0.05 + 5 * math.sqrt(0.05 * 0.95 / 4000)


def test_the_best_is_missed_as_rarely_as_is_said():
    """Four protocols of equal expectation and a common part, as the tape gives: left out in 5 % at most."""
    found = tied(4, 12, 2000, seed=7, common=3.0)
    missed = 1 - among_best(found, "smaller")[0].mean()
    assert missed <= 1 - CONFIDENCE + 5 * math.sqrt(0.05 * 0.95 / 2000)
    assert missed > 0.005  # and the mark is not given to everybody
    ahead = found._replace(mean=found.mean + np.array([0, 3, 3, 3])[:, None])
    assert among_best(ahead, "smaller")[1:].mean() < 0.05  # a clear difference, paired, is seen


def test_an_unknown_standard_error_excludes_nobody():
    data = gpu_rsfd.SyntheticDataset(6, (2,) * 4, "zipf:1.0", seed=1)
    result = gpu_rsfd.simulate(data, epsilons=3.0, protocols=["smp-grr", "smp-sue"], repetitions=2, workers=1)
    found = cells(result, "clip-normalize")
    assert np.isfinite(found.mean).all()
    assert np.isnan(found.error).all()
    assert found.best.all()
    nothing = Means(np.array([1.0, math.nan, 5.0]), None, np.full((3, 2), math.nan), np.full(3, 2), None)
    assert among_best(nothing, "smaller").tolist() == [True, False, True]


def test_stars_hold_where_estimates_are_missing():
    """Two protocols of the same mechanism, each with its own missing estimates: both are marked in 95 %."""
    data = gpu_rsfd.SyntheticDataset(12, (2,) * 4, "zipf:1.0", seed=1)
    kept = 0
    for seed in range(120):
        pair = [
            gpu_rsfd.simulate(data, epsilons=3.0, protocols="smp-grr", repetitions=3, seed=2 * seed + i, workers=1)
            for i in (0, 1)
        ]
        found = attribute_means(np.concatenate([r.error_per_attribute("mse", "none") for r in pair])[:, 0])
        whole = Means(found.mean.mean(-1), None, found.deviation.mean(axis=-2), found.known.min(axis=-1), None)
        kept += among_best(whole, "smaller")[0]
    assert kept / 120 >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / 120)


# ------------------------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize("repetitions", [2, 5, 20])
def test_a_prediction_interval_covers_the_next_collection(repetitions):
    data = gpu_rsfd.SyntheticDataset(20_000, (4,) * 40, seed=2)
    how = {"protocols": "rsfd-grr", "sampler": "marginals", "workers": 1}
    result = gpu_rsfd.simulate(data, epsilons=2.0, repetitions=repetitions + 1, **how)
    estimates = result.estimates("none")[0, 0]
    past = replace(result, kept={name: result[name][:, :, :-1] for name in ("counts", "reporters")})
    found = values_of(past, "none")
    inside = (found.low[0, 0] <= estimates[-1]) & (estimates[-1] <= found.high[0, 0])
    assert inside.mean() >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / 40)
    middle = np.quantile(estimates[:-1], [0.025, 0.975], axis=0)  # what it was: far too narrow
    assert repetitions == 20 or ((middle[0] <= estimates[-1]) & (estimates[-1] <= middle[1])).mean() < 0.9
    assert half_width(1.0, 2) == pytest.approx(quantile(0.975, 1))


def test_intervals_of_clipped_estimates_stay_where_estimates_are():
    result = gpu_rsfd.simulate("nursery", epsilons=1.0, repetitions=3, workers=1)
    for postprocess, low, high in (("clip", 0, math.inf), ("clip-normalize", 0, 1), ("simplex", 0, 1)):
        found = values_of(result, postprocess)
        assert found.low.min() >= low
        assert found.high.max() <= high
    assert values_of(result, "none").low.min() < 0


def test_values_that_nobody_reported():
    result = tiny(4, n=3, d=4, protocols=["smp-grr"], assignment="balanced", sampler="users")
    assert np.isnan(values_of(result, "none").low[0, 0, -3:]).all()


def coarse(repetitions, protocols, rng):
    """Means of a metric that takes few different values, of protocols that are all the same."""
    return means(rng.integers(0, 5, (protocols, 400, repetitions)) / 4)


@pytest.mark.parametrize("protocols", [2, 6])
@pytest.mark.parametrize("repetitions", [2, 3, 5, 12, 30])
def test_few_repetitions_of_a_discrete_metric_give_no_verdict(protocols, repetitions):
    """Of equal protocols none may be left out, nor two be called different, in more than 5 % of columns."""
    found = coarse(repetitions, protocols, np.random.default_rng(5))
    stars = among_best(found, "larger", discrete=True)
    few = repetitions < enough(protocols)
    assert stars.any() != few
    limit = 0.05 + 5 * math.sqrt(0.05 * 0.95 / 400)
    assert few or (~stars).any(axis=0).mean() < limit
    assert differences(found, 0, 1, discrete=True)["significantly_different"].mean() < limit
    undeclared = among_best(found, "larger")  # a column of one's own: equal differences alone exclude nobody
    assert (~undeclared).any(axis=0).mean() < limit
    said = advice(Column("topk", "larger", discrete=True), found)
    assert said == (f"topk takes few different values: no * below {enough(protocols)} repetitions" if few else "")


def test_enough_is_where_equal_signs_are_evidence():
    for protocols, pairs in ((2, 1), (6, 15), (39, 741)):
        assert 2.0 ** (1 - enough(protocols)) <= 0.05 / pairs < 2.0 ** (2 - enough(protocols))


def test_a_table_says_how_many_repetitions_would_do(capsys):
    data = gpu_rsfd.SyntheticDataset(500, (12, 15), "zipf:1", seed=3)
    few = gpu_rsfd.simulate(data, epsilons=1.0, repetitions=2, seed=1)
    show(Results({"few": few}), How("none", "topk:3"))
    text = capsys.readouterr().out
    assert "topk:3_avg takes few different values: no * below 10 repetitions" in text
    assert text.count("*") == 1
    show(Results({"few": few}), How())
    hint = r"all are marked; about ([\d,]+) repetitions would exclude half of them"
    number = re.search(hint, capsys.readouterr().out)
    more = gpu_rsfd.simulate(data, epsilons=1.0, repetitions=4 * int(number[1].replace(",", "")), seed=1)
    assert not shown(Results({"more": more}), "more", How())[0].best.all()


def test_advice_names_its_table():
    """Also where two columns are drawn on axes of the same name."""
    found = means(np.array([[[1.0, 1.2]], [[1.1, 1.15]]]))
    labels = ["of a round", "of means"]
    said = [advice(Column(label, "smaller", axis="MSE"), found) for label in labels]
    assert [line.partition(":")[0] for line in said] == labels


def test_advice_is_for_a_whole_table():
    """The largest number of repetitions; nothing where some place has a verdict."""
    column, noise = Column("cost", "smaller"), np.array([1.0, -1.0, 1.0, -1.0])
    close, closer, apart = (means(1 + np.array([[noise], [step - noise]])) for step in (1.5, 1.0, 50.0))
    assert advice(column, close, closer) == advice(column, closer) != advice(column, close) != ""
    assert advice(column, close, apart) == ""
