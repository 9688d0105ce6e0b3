"""Means and standard errors where estimates are missing; what `show` says about them; numbers that can be read."""

import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from stats import normal_bound

import gpu_rsfd
from gpu_rsfd.results.result import Results
from gpu_rsfd.show import tables

SMP = ["smp-grr", "smp-oue", "smp-adp"]


def tiny(repetitions=1000, n=30, d=10, protocols=SMP, assignment="uniform", sampler="marginals"):
    kind = gpu_rsfd.CountedDataset.of_distribution if sampler == "marginals" else gpu_rsfd.SyntheticDataset
    data = kind(n, (3,) * d)
    return gpu_rsfd.simulate(
        data,
        epsilons=1.0,
        protocols=protocols,
        repetitions=repetitions,
        seed=3,
        assignment=assignment,
        sampler=sampler,
        workers=1,
    )


@pytest.mark.slow
def test_missing_estimates_are_averaged_as_the_theory_does():
    """Groups share the users: where one is empty the others are larger, so whole repetitions must not be left out."""
    result = tiny(4000, sampler="counts")
    mean, error = tables.summary(result, "none")
    z = (mean - tables.expected(result, "none")) / error
    bound = normal_bound(z.size) * 1.1  # room for the skewness of a sum of squares
    assert np.abs(z).max() < bound
    mse = result.mse("none")  # whole repetitions left out, as it was done before: refuted
    whole = np.array([[row[np.isfinite(row)].mean() for row in cell] for cell in mse])
    assert ((whole - tables.expected(result, "none")) / error).min() > bound


def test_the_standard_error_is_that_of_many_tries():
    long = tiny(20 * 400, n=12, d=6, protocols="smp-grr")
    means, errors = [], []
    for first in range(0, 20 * 400, 20):
        part = slice(first, first + 20)
        short = replace(
            long,
            repetitions=range(20),
            counts=long.counts[:, :, part],
            reporters=long.reporters[:, :, part],
        )
        mean, error = tables.summary(short, "none")
        means.append(mean[0, 0])
        errors.append(error[0, 0])
    # the spread of 400 means is known to 1 / sqrt(800), somewhat worse for skew ones
    tolerance = normal_bound(1) * 1.5 / math.sqrt(800)
    assert math.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(means, ddof=1), rel=tolerance)


def test_nothing_missing_is_the_mean_and_standard_error_of_repetitions():
    result = tiny(50, n=3000, protocols=["smp-grr", "rsfd-grr"])
    for postprocess in ("none", "simplex"):
        mse = result.mse(postprocess)
        mean, error = tables.summary(result, postprocess)
        assert np.array_equal(mean, mse.sum(axis=-1) / 50)
        squares = ((mse - mean[..., None]) ** 2).sum(axis=-1)
        assert np.array_equal(error, np.sqrt(squares / 49 / 50))


def test_cells_with_every_estimate_stay_as_they_are():
    both = tiny(40, protocols=["rsfd-grr", "smp-grr"])
    alone = tiny(40, protocols=["rsfd-grr"])
    assert np.array_equal(tables.summary(both, "clip")[0][0], tables.summary(alone, "clip")[0][0])
    assert np.array_equal(tables.summary(both, "clip")[1][0], tables.summary(alone, "clip")[1][0])


def test_an_attribute_that_nobody_ever_sampled():
    result = tiny(5, n=3, d=4, protocols=["smp-grr"], assignment="balanced")
    mean, error = tables.summary(result, "none")
    assert np.isnan(mean).all()
    assert np.isnan(error).all()
    assert [x.tolist() for x in tables.with_estimate(result)] == [[[0]], [[0]]]


def test_how_many_repetitions_have_an_estimate(capsys):
    result = tiny(200, n=20, d=6, protocols=["rsfd-grr", *SMP])
    reported = result.reporters[1, 0] > 0
    complete, fewest = int(reported.all(axis=1).sum()), int(reported.sum(axis=0).min())
    assert complete < fewest < 200
    results = Results({"tiny": result})
    tables.show(results, "none")
    shown = capsys.readouterr().out
    assert (
        f"Smp[GRR], Smp[OUE], Smp[ADP]: {complete} of 200 repetitions have an estimate of every attribute, "
        f"{fewest} of the attribute that fewest sampled" in shown
    )
    tables.show(results, "none", "csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["repetitions_with_estimate"] for row in rows] == ["200", *[str(fewest)] * 3]
    assert [row["repetitions_with_every_estimate"] for row in rows] == ["200", *[str(complete)] * 3]
    tables.show(results, "none", "json")
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["repetitions_with_estimate"] for row in rows] == [200, *[fewest] * 3]
    assert rows[1]["repetitions"] == 200


@pytest.mark.parametrize(("means", "unit"), [
    ([0.99, 1.0], 0), ([16.8, 265.0], 0), ([0.02, 0.5], -2), ([2e-4, 3e-3], -4), ([2e3, 5e3], 3), ([0.0], 0),
])  # fmt: skip
def test_shares_and_small_numbers_are_shown_as_they_are(means, unit):
    assert tables.unit_of(np.array(means)) == unit


def test_nothing_is_said_where_nothing_is_missing(capsys):
    tables.show(Results({"large": tiny(10, n=5000)}), "none")
    assert "estimate of every attribute" not in capsys.readouterr().out


def test_the_source_of_the_data_is_named(capsys):
    result = tiny(3, n=500)
    described = [{"name": "a", "source": "published counts"}, {"name": "b"}]
    results = Results({"a": result, "b": result}, spec={"datasets": described})
    tables.show(results, "none")
    lines = [line for line in capsys.readouterr().out.splitlines() if ": n = " in line]
    assert [line.endswith("; data: published counts") for line in lines] == [True, False]
    tables.show(results, "none", "csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {(row["dataset"], row["source"]) for row in rows} == {("a", "published counts"), ("b", "")}
    tables.show(results, "none", "json")
    assert json.loads(capsys.readouterr().out)["rows"][0]["source"] == "published counts"


@pytest.mark.parametrize("mean,error,text", [
    (1.8671, 0.0996, "1.87(10)"),
    (1.8671, 0.00999, "1.867(10)"),
    (9.996, 0.94, "10.00(94)"),
    (12345.678, math.nan, "12345.7"),
    (1.5, 1e-15, "1.500"),
    (0.0, 0.0, "0.000"),
])  # fmt: skip
def test_two_digits_of_the_error(mean, error, text):
    assert tables.concise(mean, error) == text


@pytest.mark.parametrize("mean,error,text", [
    (3.4251e-3, 7.2e-5, "3.425(72)e-03"),
    (3.4251e12, math.nan, "3.425e+12"),
    (1.0, 0.0, "1.000"),
    (math.nan, 1.0, "–"),
    (0.0, 0.0, "0.000"),
    (5e-324, math.nan, "0.000e-300"),
])  # fmt: skip
def test_cells_with_a_power_of_their_own(mean, error, text):
    assert tables.scientific(mean, error) == text


@pytest.mark.parametrize("postprocess", ["none", "clip"])
def test_a_wide_range_is_readable(capsys, postprocess):
    data = gpu_rsfd.CountedDataset.of_distribution(1000, (3,) * 10)
    result = gpu_rsfd.simulate(
        data, epsilons=[0.001, 9.0], protocols=["spl-grr", "rsfd-grr"], repetitions=5, sampler="marginals", workers=1
    )
    tables.show(Results({"wide": result}), postprocess)
    header, _, _, *cells = capsys.readouterr().out.splitlines()
    assert "units" not in header
    for line in cells[:4]:
        assert all(sum(c.isdigit() for c in word) <= 9 for word in line.split()[1:]), line
        assert all("e" in word for word in line.split()[1:]), line


def test_a_sweep_without_any_estimate_is_shown(capsys):
    result = tiny(2, n=3, d=4, protocols=["smp-grr"], assignment="balanced")
    for postprocess in ("none", "clip", "clip-normalize"):
        tables.show(Results({"nothing": result}), postprocess)
        shown = capsys.readouterr().out
        assert "nan" not in shown
        assert "–" in shown


def test_rough_theory_is_marked(capsys):
    few, many = tiny(5, n=90, d=3), tiny(5, n=20_000, d=3)
    assert tables.rough(few, "clip").all()
    assert not tables.rough(few, "none").any()
    assert not tables.rough(many, "clip").any()
    tables.show(Results({"few": few}), "clip")
    shown = capsys.readouterr().out
    assert shown.count("~") == 4
    assert "fewer than 20 expected reports" in shown
    tables.show(Results({"many": many}), "clip")
    assert "~" not in capsys.readouterr().out
