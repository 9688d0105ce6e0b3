"""What tables, figures and pages say is true: stars, headlines, intervals, attacks that belong, looks, guarantees."""

import csv
import io
import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command import call

import gpu_rsfd
from gpu_rsfd import Metric
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.protocols import REGISTRY
from gpu_rsfd.results.result import Results
from gpu_rsfd.show import charts, details, headline, plots, tables
from gpu_rsfd.show.comparison import among_best, among_best_of, half_width, quantile
from gpu_rsfd.show.page import PAIRING, document
from gpu_rsfd.show.privacy import rows as attack_rows
from gpu_rsfd.show.summary import attribute_deviations, summary

AUDIT = gpu_rsfd.SyntheticDataset(5000, (10,) * 5, seed=0)


@pytest.fixture(scope="module")
def audited():
    return gpu_rsfd.simulate(AUDIT, epsilons=[math.log(2), 2.0], repetitions=2, workers=1)


@pytest.fixture(scope="module")
def longer():
    return gpu_rsfd.simulate(AUDIT, epsilons=[math.log(2), 2.0], repetitions=12, workers=1)


# -------------------------------------------------------------------------------------------------- headlines


def test_a_margin_belongs_to_the_protocol_that_is_named(audited, longer):
    for result, metric in itertools.product([audited, longer], ["mse", "mae"]):
        mean, _ = summary(result, "clip-normalize", metric)
        labels = [look.label for look in result.plan.looks]
        for stretch in headline.stretches(result, "clip-normalize", metric):
            first = labels.index(stretch.first)
            for margin in stretch.margins:
                e, behind = result.epsilons.index(margin.epsilon), labels.index(margin.behind)
                assert mean[first, e] == np.nanmin(mean[:, e])
                assert margin.percent == pytest.approx(100 * (1 - mean[first, e] / mean[behind, e]))
    said = headline.of_dataset("syn", audited, "clip-normalize")
    assert said.startswith("On syn, RS+FD[GRR] has the smallest MSE_avg at ε = ln 2 (")
    assert "%" not in said  # two repetitions are not enough for any margin
    said = headline.of_dataset("syn", longer, "clip-normalize")
    assert re.search(r"\(.* not significantly worse\), with \d+.±.\d+.% less MSE_avg than ", said)
    assert said.endswith("±: 95\u00a0% confidence intervals.")


def test_a_margin_has_students_interval(longer):
    """Corrected for the 15 pairs of six protocols."""
    stretch = headline.stretches(longer, "clip-normalize")[0]
    labels = [look.label for look in longer.plan.looks]
    pair = (labels.index(stretch.first), labels.index(stretch.margins[0].behind))
    first, behind = (longer.mse("clip-normalize")[p, 0] for p in pair)
    ratio = first.mean() / behind.mean()
    error = (first - ratio * behind).std(ddof=1) / math.sqrt(12) / behind.mean()
    assert stretch.margins[0].half == pytest.approx(100 * quantile(1 - 0.05 / 30, 11) * error, rel=1e-3)


@pytest.mark.parametrize("larger", [False, True])
def test_headlines_follow_the_metric(audited, larger):
    error = gpu_rsfd.METRICS["max"].function
    metric = Metric((lambda f, g: -error(f, g)) if larger else error, larger, "S")
    said = headline.of_dataset("syn", audited, "clip-normalize", metric)
    assert f"has the {'largest' if larger else 'smallest'} S" in said
    mean, _ = summary(audited, "clip-normalize", metric)
    best = int(mean[:, 0].argmax() if larger else mean[:, 0].argmin())
    assert said.startswith(f"On syn, {audited.plan.looks[best].label} ")
    assert among_best(audited, "clip-normalize", metric)[best, 0]


def test_the_overall_sentence_says_where_one_protocol_is_best(audited):
    said = headline.overall(Results({"syn": audited}), "clip-normalize")
    assert "in none of them is one protocol significantly better than every other" in said
    single = gpu_rsfd.simulate(AUDIT, epsilons=1.0, repetitions=1, workers=1)
    said = headline.overall(Results({"syn": single}), "clip-normalize")
    assert "has the smallest MSE_avg in 1 of 1 case" in said
    assert "significan" not in said


def tied(protocols, repetitions, tries=4000, seed=3):
    """Means and deviations of protocols with equal expectations."""
    noise = np.random.Generator(np.random.Philox(seed)).normal(size=(protocols, tries, repetitions))
    mean = noise.mean(axis=-1)
    return mean + 100, (noise - mean[..., None]) / math.sqrt(repetitions * (repetitions - 1))


@pytest.mark.parametrize("protocols,repetitions", [(2, 5), (2, 100), (6, 10)])
def test_equal_protocols_are_rarely_called_different(protocols, repetitions):
    excluded = ~among_best_of(*tied(protocols, repetitions)).all(axis=0)
    assert 0.02 < excluded.mean() <= 0.05 + 5 * math.sqrt(0.05 * 0.95 / 4000)


# ------------------------------------------------------------------------------------------------------ stars


def test_an_unknown_standard_error_excludes_nobody():
    tiny = gpu_rsfd.SyntheticDataset(6, (2,) * 4, "zipf:1.0", seed=1)
    result = gpu_rsfd.simulate(tiny, epsilons=3.0, protocols=["smp-grr", "smp-sue"], repetitions=2, workers=1)
    mean, error = summary(result, "clip-normalize")
    assert np.isfinite(mean).all()
    assert np.isnan(error).all()
    assert among_best(result, "clip-normalize").all()
    nothing = among_best_of(np.array([[1.0], [math.nan], [5.0]]), np.full((3, 1, 2), math.nan))
    assert nothing[:, 0].tolist() == [True, False, True]


def test_stars_hold_where_estimates_are_missing():
    """Two protocols of the same mechanism, each with its own missing estimates: both are marked in 95 %."""
    tiny = gpu_rsfd.SyntheticDataset(12, (2,) * 4, "zipf:1.0", seed=1)
    kept = 0
    for seed in range(120):
        pair = [
            gpu_rsfd.simulate(tiny, epsilons=3.0, protocols="smp-grr", repetitions=3, seed=2 * seed + i, workers=1)
            for i in (0, 1)
        ]
        each = np.concatenate([r.error_per_attribute("mse", "none") for r in pair])[:, 0]
        means, deviation = attribute_deviations(each)
        known = np.isfinite(each).sum(axis=1).min(axis=-1)
        kept += among_best_of(means.mean(axis=-1), deviation.mean(axis=-1), known)[0]
    assert kept / 120 >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / 120)


# -------------------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize("repetitions", [2, 5, 20])
def test_a_prediction_interval_covers_the_next_collection(repetitions):
    data = gpu_rsfd.SyntheticDataset(20_000, (4,) * 40, seed=2)
    result = gpu_rsfd.simulate(
        data, epsilons=2.0, protocols="rsfd-grr", repetitions=repetitions + 1, sampler="marginals", workers=1
    )
    estimates = result.estimates("none")[0, 0]
    past = replace(result, counts=result.counts[:, :, :-1], reporters=result.reporters[:, :, :-1])
    found = details.values_of(past, "none")
    inside = (found.low[0, 0] <= estimates[-1]) & (estimates[-1] <= found.high[0, 0])
    assert inside.mean() >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / 40)
    middle = np.quantile(estimates[:-1], [0.025, 0.975], axis=0)  # what it was: far too narrow
    assert repetitions == 20 or ((middle[0] <= estimates[-1]) & (estimates[-1] <= middle[1])).mean() < 0.9
    assert half_width(1.0, 2) == pytest.approx(quantile(0.975, 1))


def test_intervals_of_clipped_estimates_stay_where_estimates_are(audited):
    for postprocess, low, high in (("clip", 0, math.inf), ("clip-normalize", 0, 1), ("simplex", 0, 1)):
        found = details.values_of(audited, postprocess)
        assert found.low.min() >= low
        assert found.high.max() <= high
    assert details.values_of(audited, "none").low.min() < 0


def test_the_figure_of_an_attribute_has_these_intervals_on_one_axis(audited):
    figure = plots.frequencies(Results({"syn": audited}), audited.names[0], "clip")
    limits = {axis.get_ylim() for axis in figure.axes}
    assert len(figure.axes) == 2
    assert len(limits) == 1
    assert limits.pop()[0] >= -0.05  # bars of shares stop at 0
    assert "95 % prediction" in figure.legends[0].get_title().get_text()


# ------------------------------------------------------------------------------------------ attacks on the page

ONE = gpu_rsfd.SyntheticDataset(300, (3, 4), seed=1, name="one")
OPTIONS = {"epsilons": [1.0, 2.0], "protocols": ["rsfd-grr", "smp-adp"], "repetitions": 2, "workers": 1}


def attacked(data=ONE, **changes):
    made = gpu_rsfd.attack(data, **{**OPTIONS, **changes})
    return Results({data.name: made}, spec={**made.spec, "datasets": [{"name": data.name}]})


def swept(data=ONE, **changes):
    made = gpu_rsfd.simulate(data, **{**OPTIONS, **changes})
    return Results({data.name: made}, spec={**made.spec, "datasets": [{"name": data.name, "users": data.n}]})


@pytest.mark.parametrize(
    "attack,reason",
    [
        ({"guarantee": "user"}, "guarantee user, the results have paper"),
        ({"assignment": "balanced"}, "assignment balanced"),
        ({"epsilons": [3.0]}, "rsfd-grr, smp-adp at 3, the results have"),
        ({"data": gpu_rsfd.SyntheticDataset(300, (3, 4), seed=2, name="one")}, "frequencies of values"),
        ({"data": gpu_rsfd.SyntheticDataset(301, (3, 4), seed=1, name="one")}, "users 301, the results have 300"),
        ({"data": gpu_rsfd.SyntheticDataset(300, (4, 3), seed=1, name="one")}, "domain"),
        ({"data": gpu_rsfd.SyntheticDataset(300, (3, 4), seed=1, name="two")}, "'two': not in the results"),
    ],
)
def test_an_attack_that_does_not_belong_is_refused(attack, reason):
    with pytest.raises(InputError, match=reason):
        document(swept(), "t", attacked(**attack))


def test_an_attack_with_the_same_name_and_another_mechanism_is_refused():
    mine, other = (
        gpu_rsfd.protocol("mine", solution="rsfd-z", bits=lambda e, k, s=s: (0.5, 1 / (math.exp(s * e) + 1)))
        for s in (1.0, 0.5)
    )
    with pytest.raises(InputError, match="another mechanism mine at epsilon 1"):
        document(swept(protocols=[mine]), "t", attacked(protocols=[other]))


def test_an_attack_that_belongs_is_shown():
    attack = attacked(epsilons=[2.0])  # some of the epsilons
    page = document(swept(), "t", attack)
    cells = page["datasets"][0]["losses"]["value guessed"]
    assert [row[0] for row in cells] == [None, None]
    assert [row[1] for row in cells] == pytest.approx(attack["one"].value_success[:, 0].mean(axis=-1), rel=1e-5)


# ------------------------------------------------------------------------------------------- looks and labels


def test_every_pair_of_protocols_differs_visibly():
    alike = {m: kind for kind in ("ophH8", "Dd", "Xx", "P+") for m in kind}
    for a, b in itertools.combinations(REGISTRY.values(), 2):
        colours = [np.array([int(x.colour[i : i + 2], 16) for i in (1, 3, 5)]) for x in (a, b)]
        far = np.linalg.norm(colours[0] - colours[1]) >= 90
        assert far or alike.get(a.marker, a.marker) != alike.get(b.marker, b.marker), (a.name, b.name)
        assert a.marker not in "1234|_", a.name  # thin strokes, lost in lines and error bars
    shapes = [charts.SHAPES[m] for m in {p.marker for p in REGISTRY.values()}]
    assert len(set(shapes)) == len(shapes)


@pytest.mark.parametrize("epsilons", [[1e-5, 2e-5, 3e-5], [math.log(2), 1.0, 2.0]])
def test_labels_of_axes_are_distinct(epsilons):
    """As Vega writes them: an error between 1e-3 and 2e-3 needs two digits, and small epsilons their own."""
    drawer = pytest.importorskip("vl_convert")
    looks = [gpu_rsfd.planning.Look.of(REGISTRY[name]) for name in ("rsfd-grr", "smp-olh")]
    rows = [
        {"protocol": look.label, "x": e, "order": e, "mean": mean, "low": mean, "high": mean}
        for look, mean in zip(looks, (1e-3, 2e-3), strict=True)
        for e in epsilons
    ]
    chart = {**charts.error_chart("epsilon", "log", looks, epsilons), "datasets": {"curves": rows}, "width": 500}
    texts = re.findall(r">([^<>]+)</text>", drawer.vegalite_to_svg(chart))
    assert [text for text in texts if text in map(show_epsilon, epsilons)] == list(map(show_epsilon, epsilons))
    errors = [text for text in texts if re.fullmatch(r"[\d.]+e-3", text)]
    assert len(errors) >= 3
    assert len(set(errors)) == len(errors)


def test_riddles_are_not_printed():
    root = Path(gpu_rsfd.__file__).parent
    texts = [path for kind in ("*.py", "*.js", "*.html") for path in root.rglob(kind)]
    texts += [path for folder in (root.parent, root.parent / "docs") for path in folder.glob("*.md")]
    for path in texts:
        found = re.search(
            r"told apart|may be the best|brought up to date|goes on from|of its column\b", path.read_text("utf-8")
        )
        assert not found or path.name == "CHANGELOG.md", (path.name, found)


# ------------------------------------------------------------------------------- what a number depends on


@pytest.mark.parametrize("sampler", ["users", "counts", "marginals"])
def test_the_page_says_what_is_shared(sampler):
    page = document(swept(sampler=sampler), "t")
    assert page["pairing"] == PAIRING[sampler]
    assert ("same random numbers" in page["pairing"]) == (sampler == "users")


def test_unequal_promises_are_stated(capsys):
    results = swept()
    tables.show(results, "none")
    assert "guarantee: paper (unequal for Spl, Smp and RS+FD)" in capsys.readouterr().out
    assert document(results, "t")["guarantee"].startswith("guarantee: paper (")
    assert "guarantee: paper" in results["one"]._repr_html_()
    assert any("guarantee: paper" in line for line in plots.explained(results))
    equal = swept(protocols=["rsfd-grr", "rsfd-oue-z"])
    tables.show(equal, "none")
    assert "guarantee" not in capsys.readouterr().out
    assert document(equal, "t")["guarantee"] == ""


def test_rows_carry_what_they_depend_on():
    results = swept(seed=7, assignment="balanced", guarantee="user")
    run = {"guarantee": "user", "assignment": "balanced", "sampler": "users", "seed": 7}
    every = [
        tables.rows(results, "none"),
        details.attribute_rows(results, "none"),
        details.value_rows(results, "none"),
        details._compared(results, "rsfd-grr", "smp-adp", "none", "mse"),
        attack_rows(attacked(seed=7, assignment="balanced", guarantee="user")),
    ]
    for rows in every:
        row = next(iter(rows))
        assert {key: row[key] for key in run} == run


def test_the_csv_has_them(monkeypatch, capsys, tmp_path):
    gpu_rsfd.sweep(ONE, **OPTIONS, seed=7, output=tmp_path / "r.h5")
    assert call(monkeypatch, "show", str(tmp_path / "r.h5"), "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [rows[0][key] for key in ("guarantee", "assignment", "sampler", "seed")] == [
        "paper",
        "uniform",
        "users",
        "7",
    ]
