"""Differences are paired, and the mark goes to all that are not significantly worse; closer looks; filters."""

import csv
import io
import json
import math

import numpy as np
import pytest
from command import call, refusal
from files import store, with_errors

import gpu_rsfd
from gpu_rsfd.results.result import Results
from gpu_rsfd.show import details, tables
from gpu_rsfd.show.comparison import CONFIDENCE, among_best, among_best_of, differences, quantile, t_distribution
from gpu_rsfd.show.selection import select
from gpu_rsfd.show.summary import deviations, summary

PROTOCOLS = ["rsfd-grr", "rsfd-oue-z", "rsfd-adp", "spl-adp", "smp-adp"]
LABELS = [["no", "yes", "[maybe]"], ["a", "b", "c", "d"]]


@pytest.fixture(scope="module")
def data():
    codes = np.random.Generator(np.random.Philox(3)).integers(0, (3, 4), (2000, 2))
    return gpu_rsfd.Dataset(codes, (3, 4), names=["answer", "group"], labels=LABELS, name="mine")


@pytest.fixture(scope="module")
def result(data):
    return gpu_rsfd.simulate(
        data, epsilons=[math.log(2), 1.0, 3.0], protocols=PROTOCOLS, repetitions=30, seed=5, workers=1
    )


@pytest.fixture
def file(tmp_path, data, result):
    store(tmp_path / "r.h5", [data], [result])
    return tmp_path / "r.h5"


def show(monkeypatch, capsys, file, *arguments):
    assert call(monkeypatch, "show", str(file), *arguments) == 0
    return capsys.readouterr().out


# values of Student's t as every textbook prints them
@pytest.mark.parametrize("probability,freedom,value", [
    (0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 3, 3.182), (0.95, 4, 2.132), (0.99, 29, 2.462), (0.975, 120, 1.980),
    (0.975, 10**6, 1.960),
])  # fmt: skip
def test_quantiles_of_students_distribution(probability, freedom, value):
    assert quantile(probability, freedom) == pytest.approx(value, abs=6e-4)
    assert t_distribution(quantile(probability, freedom), freedom) == pytest.approx(probability, abs=1e-9)


def test_differences_are_those_of_the_repetitions(result):
    found = differences(result, "rsfd-adp", "smp-adp", "clip")
    mse = result.mse("clip")
    pairs = mse[2] - mse[4]
    assert np.allclose(found.difference, pairs.mean(axis=-1))
    assert np.allclose(found.error, pairs.std(axis=-1, ddof=1) / math.sqrt(30))
    assert np.allclose(found.ratio, mse[2].mean(axis=-1) / mse[4].mean(axis=-1))
    unpaired = np.sqrt(summary(result, "clip")[1][2] ** 2 + summary(result, "clip")[1][4] ** 2)
    assert not np.allclose(found.error, unpaired, rtol=1e-3)
    bound = quantile(0.975, 29) * found.error
    assert np.array_equal(found.significant, np.abs(found.difference) > bound)


def test_deviations_give_the_standard_error_also_where_estimates_are_missing():
    tiny = gpu_rsfd.SyntheticDataset(20, (3,) * 6)
    result = gpu_rsfd.simulate(tiny, epsilons=1.0, protocols=["rsfd-grr", "smp-grr"], repetitions=50, seed=1, workers=1)
    assert (result.reporters[1] == 0).any()
    mean, error = summary(result, "none")
    again, away = deviations(result, "none")
    assert np.array_equal(mean, again)
    assert np.allclose(np.sqrt((away**2).sum(axis=-1)), error)


def test_all_that_are_not_significantly_worse_are_marked(result, capsys):
    best = among_best(result, "clip-normalize")
    mean = result.mse("clip-normalize").mean(axis=-1)
    assert best[mean.argmin(axis=0), range(3)].all()
    assert (best.sum(axis=0) > 1).any()  # more than the smallest mean alone
    assert not best[3, :2].any()  # Spl is far off
    tables.show(Results({"mine": result}), "clip-normalize")
    shown = capsys.readouterr().out
    assert shown.count("*") == best.sum() + 1
    assert "* not significantly worse than the best in its column (paired differences, 95 %)" in shown


def test_the_best_is_missed_as_rarely_as_is_said():
    """Four protocols of equal expectation and a common part, as the tape gives: left out in 5 % at most."""
    draws = np.random.Generator(np.random.Philox(7))
    tries, protocols, repetitions = 2000, 4, 12
    noise = draws.normal(size=(protocols, tries, repetitions)) + 3 * draws.normal(size=(tries, repetitions))
    mean = noise.mean(axis=-1)
    away = (noise - mean[..., None]) / math.sqrt(repetitions * (repetitions - 1))
    missed = 1 - among_best_of(mean + 100, away)[0].mean()
    tolerance = 5 * math.sqrt(0.05 * 0.95 / tries)
    assert missed <= 1 - CONFIDENCE + tolerance
    assert missed > 0.005  # and the mark is not given to everybody
    ahead = mean + 100 + np.array([0, 3, 3, 3])[:, None]
    assert among_best_of(ahead, away)[1:].mean() < 0.05  # a clear difference, paired, is seen


def test_one_repetition_marks_the_smallest_and_says_so(data, capsys):
    result = gpu_rsfd.simulate(data, epsilons=1.0, protocols=PROTOCOLS, repetitions=1, workers=1)
    best = among_best(result, "none")
    assert np.array_equal(best, result.mse("none").mean(axis=-1) == result.mse("none").min())
    tables.show(Results({"mine": result}), "none")
    assert "* the smallest in its column\n" in capsys.readouterr().out


def test_nothing_known_is_never_the_best():
    mean = np.array([[math.nan, 2.0], [math.nan, math.nan]])
    assert among_best_of(mean, np.zeros((2, 2, 3))).tolist() == [[False, True], [False, False]]


def test_compare(monkeypatch, capsys, file, result):
    out = show(monkeypatch, capsys, file, "--compare", "rsfd-adp,smp-adp", "--postprocess", "none")
    assert "difference" in out
    assert "ratio" in out
    assert "MSE_avg of RS+FD[ADP] minus that of Smp[ADP], repetition by repetition" in out
    found = differences(result, "rsfd-adp", "smp-adp", "none")
    line = next(line for line in out.splitlines() if line.startswith("difference"))
    assert line.count("*") == found.significant.sum()
    out = show(monkeypatch, capsys, file, "--compare", "rsfd-adp,smp-adp", "--postprocess", "none", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert np.allclose([float(row["difference"]) for row in rows], found.difference)
    assert np.allclose([float(row["standard_error"]) for row in rows], found.error)
    out = show(monkeypatch, capsys, file, "--compare", "rsfd-adp,smp-adp", "--json")
    assert json.loads(out)["rows"][0]["against"] == "smp-adp"


def test_per_attribute(monkeypatch, capsys, file, result):
    out = show(monkeypatch, capsys, file, "--per", "attribute", "--postprocess", "none", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == len(PROTOCOLS) * 3 * 2
    each = result.error_per_attribute("mse", "none")
    mine = next(r for r in rows if (r["protocol"], r["epsilon"], r["attribute"]) == ("smp-adp", "1.0", "group"))
    assert float(mine["error"]) == pytest.approx(each[4, 1, :, 1].mean())
    assert float(mine["standard_error"]) == pytest.approx(each[4, 1, :, 1].std(ddof=1) / math.sqrt(30))
    off = np.abs(result.estimates("none")[4, 1, :, 3:] - result.frequencies[3:])
    assert float(mine["largest_value_error"]) == pytest.approx(off.max(axis=-1).mean())
    table = show(monkeypatch, capsys, file, "--per", "attribute", "--epsilon", "ln2")
    assert table.count("  largest") == 2
    assert "answer (k = 3)" in table


def test_per_value(monkeypatch, capsys, file, result):
    arguments = ("--per", "value", "--protocol", "rsfd-adp", "--epsilon", "1", "--postprocess", "none")
    rows = list(csv.DictReader(io.StringIO(show(monkeypatch, capsys, file, *arguments, "--csv"))))
    assert [row["value"] for row in rows] == [*LABELS[0], *LABELS[1]]
    estimates = result.estimates("none")[2, 1]
    assert np.allclose([float(row["estimate"]) for row in rows], estimates.mean(axis=0))
    half = quantile(0.975, 29) * math.sqrt(1 + 1 / 30) * estimates.std(axis=0, ddof=1)
    assert np.allclose([float(row["low"]) for row in rows], estimates.mean(axis=0) - half)
    assert np.allclose([float(row["high"]) for row in rows], estimates.mean(axis=0) + half)
    table = show(monkeypatch, capsys, file, *arguments)
    assert "[maybe]" in table
    assert "interval" in table
    several = show(monkeypatch, capsys, file, "--per", "value", "--epsilon", "1")
    assert "interval" not in several.rpartition("a single --protocol")[0]
    assert "Smp[ADP]" in several


def test_values_that_nobody_reported():
    tiny = gpu_rsfd.SyntheticDataset(3, (3,) * 4)
    result = gpu_rsfd.simulate(
        tiny, epsilons=1.0, protocols=["smp-grr"], repetitions=4, assignment="balanced", workers=1
    )
    for postprocess in ("none", "clip-normalize"):
        for what in details.PER:
            details.per(Results({"tiny": result}), what, postprocess)
    assert np.isnan(details.values_of(result, "none").low[0, 0, -3:]).all()


@pytest.mark.parametrize("options,shape", [
    ({"protocols": ["smp-adp", "rsfd-grr"]}, (2, 3)),
    ({"epsilons": [0.693, 3.0]}, (5, 2)),
    ({"protocols": ["spl-adp"], "epsilons": [1.0]}, (1, 1)),
    ({"datasets": ["mine"]}, (5, 3)),
])  # fmt: skip
def test_a_part_of_results(result, options, shape):
    part = select(Results({"mine": with_errors(result), "other": result}), **options)["mine"]
    assert part.counts.shape[:2] == shape
    assert np.array_equal(part.mse("clip"), part.error_per_attribute("mse", "clip").mean(axis=-1))
    for p, protocol in enumerate(part.protocols):
        for e, epsilon in enumerate(part.epsilons):
            whole = result.mse("none")[PROTOCOLS.index(protocol), result.epsilons.index(epsilon)]
            assert np.array_equal(part.mse("none")[p, e], whole)


def test_filters_of_plot(monkeypatch, capsys, file):
    from gpu_rsfd.show import plots

    seen = []
    monkeypatch.setattr(plots, "figure_of", lambda results, *_: seen.append(results["mine"]))
    monkeypatch.setattr(plots, "save_figure", lambda *_: None)
    assert call(monkeypatch, "plot", str(file), "--protocol", "smp-adp", "--epsilon", "1,3") == 0
    assert (seen[0].protocols, seen[0].epsilons) == (("smp-adp",), (1.0, 3.0))


@pytest.mark.parametrize("arguments,message", [
    (["--compare", "rsfd-adp"], "compare=rsfd-adp names 1; two protocols are needed, such as rsfd-adp,smp-adp"),
    (["--compare", "rsfd-adp,rsfd-adp"], "compare=rsfd-adp,rsfd-adp names the same protocol twice"),
    (["--compare", "rsfd-adp,mine"], "no protocol 'mine' in the results; protocols: rsfd-grr, rsfd-oue-z, rsfd-adp"),
    (["--compare", "a,b", "--per", "value"], "--compare and --per exclude each other"),
    (["--compare", "a,b", "--protocol", "a"], "--compare and --protocol exclude each other"),
    (["--per", "user"], "per=user must be one of attribute, value"),
    (["--dataset", "syn9"], "no data set 'syn9' in the results; data sets: mine"),
    (["--protocol", "smp-grr"], "no protocol 'smp-grr' in the results; protocols: rsfd-grr"),
    (["--epsilon", "ln3"], "no epsilon 1.09861 in the results; epsilons: ln2, 1, 3"),
    (["--epsilon", "-1"], "epsilon=-1.0 must be"),
])  # fmt: skip
def test_bad_input_of_show(monkeypatch, capsys, file, arguments, message):
    assert message in refusal(monkeypatch, capsys, file.parent, ["show", "r.h5", *arguments])[-1]
