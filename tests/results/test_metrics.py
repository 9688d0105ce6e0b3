"""Metrics by their definitions; names, functions and dictionaries are taken alike; what a file can't give is said."""

import math
import re
from itertools import permutations

import numpy as np
import pytest
from doc_tables import tables as doc_tables

import gpu_rsfd
from gpu_rsfd.results.estimate import DEFAULT, POSTPROCESS, STORED, Context
from gpu_rsfd.results.metrics import METRICS, Metric, as_metric, average, first_line, metric_names
from gpu_rsfd.results.result import Results
from gpu_rsfd.show import tables
from gpu_rsfd.show.rows import How, error_cells, tidy_rows

DATA = gpu_rsfd.SyntheticDataset(400, (3, 5), "zipf:1.0", seed=2, name="one")
PROTOCOLS = ["rsfd-grr", "smp-oue", "rsrfd-grr"]
RUN = {"epsilons": [0.5, 2.0], "protocols": PROTOCOLS, "repetitions": 6, "prior": "zipf:1.0"}


@pytest.fixture(scope="module")
def result():
    return gpu_rsfd.simulate(DATA, **RUN, backend="numpy", workers=1)


def literal(metric, truth, estimate):
    """Value by value, as a textbook has it."""
    pairs = list(zip(truth, estimate, strict=True))
    off = [abs(f - t) for t, f in pairs]
    match metric:
        case "mse":
            return sum(x * x for x in off) / len(off)
        case "mae":
            return sum(off) / len(off)
        case "max":
            return max(off)
        case "rmse":
            return math.sqrt(sum(x * x for x in off) / len(off))
        case "nmse":
            return DATA.n * sum(x * x for x in off) / len(off)
        case "l1":
            return sum(off)
        case "l2":
            return math.sqrt(sum(x * x for x in off))
        case "emd":
            return sum(abs(sum(f - t for t, f in pairs[: i + 1])) for i in range(len(pairs)))
        case "topk:2" | "ncr:2":  # the mean over all ways to break ties
            ranked = sorted(range(len(truth)), key=lambda v: -truth[v])[:2]
            worth = dict(zip(ranked, (2, 1) if metric == "ncr:2" else (1, 1), strict=True))
            orders = [sorted(order, key=lambda v: -estimate[v]) for order in permutations(range(len(truth)))]
            return sum(worth.get(v, 0) for order in orders for v in order[:2]) / len(orders) / sum(worth.values())
        case "kl":
            return sum(t * math.log(t / f) for t, f in pairs if t > 0 and f > 0)
        case "js":
            middle = [(t + f) / 2 for t, f in pairs]
            first = sum(t * math.log(t / m) for (t, _), m in zip(pairs, middle, strict=True) if t > 0 and m > 0)
            second = sum(f * math.log(f / m) for (_, f), m in zip(pairs, middle, strict=True) if f > 0 and m > 0)
            return (first + second) / 2
    raise AssertionError(f"{metric} has no definition here")


@pytest.mark.parametrize("postprocess", ["none", "clip-normalize"])
@pytest.mark.parametrize("metric", [name if METRICS[name].top is None else f"{name}:2" for name in METRICS])
def test_each_metric_is_its_definition(result, metric, postprocess):
    estimates, errors = result.estimates(postprocess), result.error(metric, postprocess)
    assert (estimates < 0).any() == (postprocess == "none")
    for p, e, r in ((0, 0, 0), (1, 1, 3), (2, 0, 5)):
        each = [literal(metric, DATA.frequencies[c], estimates[p, e, r, c]) for c in DATA.domain.slices]
        assert errors[p, e, r] == pytest.approx(sum(each) / 2, rel=1e-12)


def test_divergences_of_distributions():
    truth = np.array([0.5, 0.5, 0.0])
    for metric in ("kl", "js"):
        assert average(METRICS[metric], truth, truth, (3,)) == 0
    assert average(METRICS["js"], truth, np.array([0.0, 0.0, 1.0]), (3,)) == pytest.approx(math.log(2))


def test_top_values_and_their_ties():
    truth = np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    for top in (1, 2, 3, 4, 5, 99):
        for name in ("topk", "ncr"):
            assert average(as_metric(f"{name}:{top}"), truth, truth, (5,)) == pytest.approx(
                1
            )  # also where the K-th has equals
    nothing = np.zeros(5)  # by lot, whatever the order of the values
    assert average(as_metric("topk:2"), truth, nothing, (5,)) == pytest.approx(2 / 5)
    assert average(as_metric("ncr:2"), truth, nothing, (5,)) == pytest.approx(2 / 5)
    second = np.array([0.1, 0.9, 0.0, 0.0, 0.0])
    assert average(as_metric("ncr:1"), truth, second, (5,)) == 0
    assert average(as_metric("topk:3"), truth, np.array([0, 0.5, 0.3, 0.2, 0]), (5,)) == 1  # three of five third places
    assert average(as_metric("ncr:3"), truth, np.array([0, 0.5, 0.3, 0.2, 0]), (5,)) == pytest.approx(
        8 / 3 / (5 + 1 / 3)
    )
    assert as_metric("topk").label == "topk:10_avg"
    assert as_metric("topk:3").larger_is_better


def test_names_functions_and_defaults(result):
    def mean_absolute(truth, estimate):
        return np.abs(estimate - truth).mean(axis=-1)

    assert np.array_equal(result.error(mean_absolute), result.error("mae"))
    assert np.array_equal(result.error(Metric(mean_absolute)), result.error("mae", DEFAULT))
    assert np.array_equal(result.mse(), result.error())
    assert np.array_equal(result.mse(), result.mse("clip-normalize"))
    assert not np.array_equal(result.mse(), result.mse("none"))
    assert np.array_equal(result.estimates(), result.estimates("none"))
    assert np.array_equal(result.estimates(lambda f: np.maximum(f, 0)), result.estimates("clip"))
    assert np.array_equal(result.mse(lambda f: np.maximum(f, 0)), result.mse("clip"))
    assert as_metric(mean_absolute).label == "mean_absolute_avg"


def test_a_context_is_that_of_the_cell(result):
    seen = []

    def noted(f, context):
        seen.append((f.shape, context))
        return f

    assert np.array_equal(result.estimates(noted), result.estimates())
    assert len(seen) == len(PROTOCOLS) * 2 * 2
    for p, name in enumerate(PROTOCOLS):
        for e, epsilon in enumerate(RUN["epsilons"]):
            for j, k in enumerate(DATA.domain):
                found = [c for shape, c in seen if shape == (6, k)][p * 2 + e]
                mechanism = result.mechanism(name, epsilon, j)
                assert (found.n, found.noise) == (400, mechanism.recipe.noise.kind)
                assert found.base == pytest.approx(mechanism.base)
                assert found.gain == pytest.approx(mechanism.gain)
                assert found.variance == pytest.approx(mechanism.variance(0.0, 400))
    balanced = gpu_rsfd.simulate(DATA, **{**RUN, "assignment": "balanced"}, backend="numpy", workers=1)
    assert Context.of(balanced.plan, 400, 1, 0, 1).variance == pytest.approx(
        balanced.mechanism("smp-oue", 0.5, 1).fixed_variance(0.0, 400, "balanced", 1)
    )


def test_one_entry_is_all_that_it_takes(result, monkeypatch, capsys):
    """A metric and a post-processing of the user's, in tables, rows and stars."""

    def cut(f, context):
        """Estimates below two standard deviations are set to 0."""
        return np.where(f < 2 * np.sqrt(context.variance), 0.0, f)

    def found(truth, estimate):
        """Whether the most frequent value is found."""
        return np.argmax(estimate, axis=-1) == np.argmax(truth)

    monkeypatch.setitem(POSTPROCESS, "cut", cut)
    monkeypatch.setitem(METRICS, "found", Metric(found, larger_is_better=True))
    results = Results({"one": result})
    tables.show(results, How("cut", "found"))
    shown = capsys.readouterr().out
    assert "found_avg, postprocess=cut" in shown.splitlines()[0]
    rows = list(tidy_rows(results, How("cut", "found")))
    assert {(row["metric"], row["postprocess"]) for row in rows} == {("found", "cut")}
    mean = result.error("found", "cut").mean(axis=-1)
    assert [row["error"] for row in rows] == pytest.approx(mean.ravel().tolist())
    best = error_cells("one", result, How("cut", "found")).best
    assert best[mean.argmax(axis=0), range(2)].all()


def test_larger_may_be_better():
    """The same numbers, called an error and a score: the stars change sides."""
    data = gpu_rsfd.SyntheticDataset(3000, (6, 6, 6), seed=3)
    result = gpu_rsfd.simulate(data, epsilons=0.5, protocols=["smp-adp", "spl-adp"], repetitions=8, workers=1)
    error = METRICS["l1"]
    score = Metric(error.function, larger_is_better=True, label="score")
    assert error_cells("one", result, How("none", error)).best.tolist() == [[True], [False]]
    assert error_cells("one", result, How("none", score)).best.tolist() == [[False], [True]]


def test_what_is_wrong_is_said(result):
    with pytest.raises(gpu_rsfd.InputError, match=r"unknown metric 'rmsd'; available: mse, .*, topk:10, ncr:10"):
        result.error("rmsd")
    for name in ("mse:3", "topk2"):
        with pytest.raises(gpu_rsfd.InputError, match=f"unknown metric '{name}'"):
            result.error(name)
    for name in ("topk:", "topk:0", "ncr:-1", "ncr:x"):
        with pytest.raises(gpu_rsfd.InputError, match=f"metric={name} must end in a number of values >= 1"):
            result.error(name)
    with pytest.raises(gpu_rsfd.InputError, match="unknown postprocess 'clipp'; available: none, clip"):
        result.error("mae", "clipp")
    with pytest.raises(gpu_rsfd.InputError, match=r"metric 'own' gives shape \(2, 6, 3\) .* reduce the last axis"):
        result.take([0], [0, 1]).error(lambda truth, estimate: (estimate - truth)[0])
    with pytest.raises(gpu_rsfd.InputError, match=r"postprocess 'own' gives shape .* must keep the shape"):
        result.estimates(lambda f: f.sum(axis=-1))
    with pytest.raises(gpu_rsfd.InputError, match="metric=3 must be a name or a function"):
        result.error(3)


def test_a_file_without_counts_has_its_stored_errors_alone(tmp_path):
    options = {"output": tmp_path / "r.h5", "keep": "mse", "backend": "numpy", "workers": 1}
    whole = gpu_rsfd.simulate(DATA, **RUN, backend="numpy", workers=1)
    kept = gpu_rsfd.sweep(DATA, **RUN, **options)["one"]
    for name in STORED:
        assert np.array_equal(kept.mse(name), whole.mse(name))
    for ask in (lambda: kept.error("mae"), lambda: kept.mse(lambda f: f), lambda: kept.error_per_attribute()):
        with pytest.raises(gpu_rsfd.InputError, match=r"errors only \(--keep mse\)"):
            ask()


def test_the_docs_list_every_metric_and_postprocessing():
    text = f"{doc_tables.metrics()}\n{doc_tables.postprocessings()}"
    metrics = {name: as_metric(name) for name in metric_names()}
    rows = {name: f"{m.summary}{' Larger is better.' * m.larger_is_better}" for name, m in metrics.items()}
    rows |= {name: first_line(function) for name, function in POSTPROCESS.items()}
    assert [(name, what) for name, what in re.findall(r"^\| `(.+?)` \| (.*) \|$", text, re.M)] == list(rows.items())
