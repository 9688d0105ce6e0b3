"""The page holds what the results hold, computed from them alone; files are safe; what is missing is said."""

import base64
import json
import math
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from command import call, refusal
from files import describe, store, with_errors

import gpu_rsfd
from gpu_rsfd.command import command_of, reads_files
from gpu_rsfd.results.estimate import POSTPROCESS, STORED
from gpu_rsfd.results.metrics import metric_names
from gpu_rsfd.results.result import Results
from gpu_rsfd.show import headline
from gpu_rsfd.show.comparison import among_best
from gpu_rsfd.show.details import values_of
from gpu_rsfd.show.summary import summary

PROTOCOLS = ["rsfd-grr", "rsfd-adp", "spl-adp", "smp-adp"]
LABELS = [["<b>no</b>", "yes & no", "{{data}}"], ["a", "b", "c", "</script>"]]


@pytest.fixture(scope="module")
def data():
    codes = np.random.Generator(np.random.Philox(3)).integers(0, (3, 4), (2000, 2))
    return gpu_rsfd.Dataset(codes, (3, 4), names=["answer", "group"], labels=LABELS, name="mine")


@pytest.fixture(scope="module")
def results(data):
    result = gpu_rsfd.simulate(
        data, epsilons=[math.log(2), 1.0, 3.0], protocols=PROTOCOLS, repetitions=20, seed=5, workers=1
    )
    return Results({"mine": with_errors(result)}, spec=describe([data], result.spec), package_version="0")


@pytest.fixture(scope="module")
def shown(results):
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from gpu_rsfd.show.page import page

    return page(results, "mine & <yours>.h5")


def content(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


@pytest.mark.slow
def test_the_page_asks_no_server(shown):
    outside = re.sub(r"<script.*?</script>", "", shown, flags=re.S)
    assert not re.search(r"(src|href)=|url\(|@import", outside)
    assert not re.search(r"<script[^>]+src=", shown)
    assert "default-src 'none'" in shown
    assert "<title>mine &amp; &lt;yours&gt;.h5 · gpu-rsfd</title>" in shown
    assert len(shown) < 1_500_000


def test_its_numbers_are_those_of_the_results(shown, results):
    page, result = content(shown), results["mine"]
    (entry,) = page["datasets"]
    assert (entry["n"], entry["repetitions"], entry["labels"]) == (2000, 20, LABELS)
    assert [m["name"] for m in page["metrics"]] == metric_names()
    assert [p["name"] for p in page["postprocess"]] == list(POSTPROCESS)
    for postprocess in POSTPROCESS:
        for metric in metric_names():
            errors = entry["errors"][metric][postprocess]
            mean, error = summary(result, postprocess, metric)
            assert np.allclose(np.array(errors["mean"], float), mean, rtol=1e-5, equal_nan=True)
            assert np.allclose(np.array(errors["error"], float), error, rtol=1e-5, equal_nan=True)
            assert np.array_equal(errors["best"], among_best(result, postprocess, metric))
            assert (errors["theory"] is None) == (metric != "mse" or postprocess not in ("none", "clip"))
            assert page["headlines"][metric][postprocess] == headline.overall(results, postprocess, metric)
        packed = entry["estimates"][postprocess]
        steps = np.frombuffer(base64.b64decode(packed["data"]), "<u2").reshape(4, 3, 7, 3)
        estimates = np.where(steps == 65535, np.nan, packed["low"] + packed["step"] * steps)
        mean, high = result.estimates(postprocess).mean(axis=2), values_of(result, postprocess).high
        assert np.allclose(estimates[..., 0], mean, atol=packed["step"], equal_nan=True)
        assert np.allclose(estimates[..., 2], high, atol=1e-4, equal_nan=True)
    (line,) = entry["undefined"]["mle"]
    assert line.startswith("RS+FD[ADP]: – where mle is not defined")
    assert list(entry["undefined"]) == ["mle"]
    assert json.loads(page["spec"]) == results.spec


def test_the_decision_is_that_of_a_plan_and_checked_by_the_results(shown, data, results):
    (entry,) = content(shown)["datasets"]
    plan = gpu_rsfd.plan(data, epsilons=[math.log(2), 1.0, 3.0], protocols=PROTOCOLS, guarantee="paper")
    texts = {part["title"]: part["text"].replace("\u00a0", " ") for part in entry["decision"]["entries"]}
    assert tuple(texts[title] for title in ("Which", "How accurate", "How risky")) == plan.sentences
    assert texts["What more would buy"] == plan.decisions[0].more
    (decision,), result = plan.decisions, results["mine"]
    at = result.protocols.index(decision.protocol), result.epsilons.index(decision.epsilon)
    assert (entry["decision"]["protocol"], entry["decision"]["epsilon"]) == at
    away = np.split(abs(result.estimates()[at] - result.frequencies), [3], axis=1)
    within = [(part <= column.margin).mean() for part, column in zip(away, decision.columns, strict=True)]
    assert f"In the 20 simulated collections of this file, {100 * np.mean(within):.1f} % of" in texts["Checked"]


def test_only_ones_own_data_have_a_decision(results):
    from gpu_rsfd.show.decided import decision_of, title_of

    nursery = gpu_rsfd.simulate("nursery", epsilons=1.0, protocols=["smp-adp"], repetitions=2, workers=1)
    named = Results({"nursery": nursery}, spec=describe([gpu_rsfd.load_dataset("nursery")], nursery.spec))
    assert decision_of(named, "nursery") is None
    assert title_of(named, "r.h5") == "nursery"
    assert title_of(Results({str(i): nursery for i in range(4)}), "r.h5") == "r.h5"


def test_the_headline_is_computed(results):
    result = results["mine"]
    best = among_best(result, "clip")
    said = headline.overall(results, "clip")
    number = int(best.sum(axis=1).max())
    assert f"is not significantly worse than the best in {number} of 3 cases" in said
    assert "1 data set × 3 epsilons" in said
    stretches = headline.stretches(result, "clip")
    assert sum(len(s.epsilons) for s in stretches) == 3
    for stretch in stretches:
        for epsilon, margin in zip(stretch.epsilons, stretch.margins, strict=True):
            e = result.epsilons.index(epsilon)
            mse = result.mse("clip")[:, e].mean(axis=-1)
            marked = {gpu_rsfd.label(p) for i, p in enumerate(PROTOCOLS) if best[i, e]}
            assert {stretch.first, *stretch.others} == marked
            assert stretch.first == gpu_rsfd.label(PROTOCOLS[int(mse.argmin())])
            behind = min(x for x, b in zip(mse, best[:, e], strict=True) if not b)
            assert margin.percent == pytest.approx(100 * (1 - mse.min() / behind))
            assert 0 < margin.half < margin.percent
    sentence = headline.of_dataset("mine", result, "clip")
    assert sentence.startswith("On mine, ")
    assert "±" in sentence


def test_headlines_of_little(data):
    alone = gpu_rsfd.simulate(data, epsilons=1.0, protocols=["smp-adp"], repetitions=2, workers=1)
    assert headline.overall(Results({"a": alone}), "none") == "Smp[ADP] alone: nothing to compare it with."
    once = gpu_rsfd.simulate(data, epsilons=1.0, protocols=PROTOCOLS, repetitions=1, workers=1)
    assert "A single repetition says nothing about chance." in headline.of_dataset("a", once, "none")
    two = gpu_rsfd.simulate(data, epsilons=1.0, protocols=["rsfd-grr", "smp-adp"], repetitions=1, workers=1)
    assert "has the smallest MSE" in headline.of_dataset("a", two, "clip-normalize")
    few = gpu_rsfd.SyntheticDataset(3, (3,) * 4)
    smp = {"protocols": ["smp-grr", "smp-oue"], "assignment": "balanced"}
    tiny = gpu_rsfd.simulate(few, epsilons=1.0, repetitions=2, workers=1, **smp)
    assert "no protocol has an estimate" in headline.overall(Results({"a": tiny}), "none").lower()
    assert "no protocol has an estimate" in headline.of_dataset("a", tiny, "none")


def test_results_without_estimates_and_of_one_repetition(data):
    pytest.importorskip("vl_convert")
    from gpu_rsfd.show.page import document

    few = gpu_rsfd.SyntheticDataset(3, (3,) * 4)
    tiny = gpu_rsfd.simulate(few, epsilons=1.0, protocols=["smp-grr"], repetitions=1, assignment="balanced", workers=1)
    page = document(Results({"tiny": tiny}), "tiny")
    json.dumps(page, allow_nan=False)
    assert page["datasets"][0]["errors"]["kl"]["none"]["mean"] == [[None]]
    assert page["command"] is None


@pytest.mark.slow
def test_privacy_is_exact_and_guesses_are_those_of_the_attack(results, data):
    pytest.importorskip("vl_convert")
    from gpu_rsfd.show.page import ANY, ONE, document

    result = results["mine"]
    attack = gpu_rsfd.attack(
        data, epsilons=result.epsilons, protocols=["smp-adp", "rsfd-adp"], repetitions=2, workers=1
    )
    page = document(results, "t", Results({"mine": attack}))
    assert page["losses"] == [ONE, ANY, "sampled attribute guessed", "value guessed"]
    losses = page["datasets"][0]["losses"]
    for p, protocol in enumerate(PROTOCOLS):
        for e, epsilon in enumerate(result.epsilons):
            for kind, differing in ((ONE, 1), (ANY, 2)):
                exact = gpu_rsfd.privacy_loss(protocol, epsilon, (3, 4))[differing - 1]
                assert losses[kind][p][e] == pytest.approx(exact, rel=1e-5)
    guessed = np.array(losses["value guessed"], float)
    assert np.allclose(guessed[3], attack.value_success[0].mean(axis=-1), rtol=1e-5)
    assert np.allclose(guessed[1], attack.value_success[1].mean(axis=-1), rtol=1e-5)
    assert np.isnan(guessed[[0, 2]]).all()  # not attacked
    marks = [layer["mark"]["type"] for layer in page["charts"]["value guessed-log"]["layer"]]
    assert marks[:2] == ["rule", "line"]  # no band: a curve may go back
    assert page["charts"]["value guessed-log"]["layer"][1]["encoding"]["order"]["field"] == "order"
    assert document(results, "t")["losses"] == [ONE, ANY]


@pytest.mark.slow
def test_large_results_keep_to_what_fits(monkeypatch, results):
    pytest.importorskip("vl_convert")
    from gpu_rsfd.show import page

    most = [page.MOST_ERRORS // (len(metric_names()) * len(kinds)) for kinds in (POSTPROCESS, STORED)]
    said = (Path(__file__).parents[2] / "docs" / "page.md").read_text("utf-8")
    assert re.findall(r"more than (\d,\d+)", said) == [f"{cells:,}" for cells in most]
    monkeypatch.setattr(page, "MOST_NUMBERS", 3 * 4 * 3 * 7)
    assert page.document(results, "t")["kept"] == ["clip-normalize"]
    monkeypatch.setattr(page, "MOST_NUMBERS", 10)
    assert page.document(results, "t")["kept"] == []
    monkeypatch.setattr(page, "MOST_ERRORS", 4 * 3 * len(metric_names()) * 4)
    found = page.document(results, "t", metric="topk:2")
    assert [p["name"] for p in found["postprocess"]] == list(POSTPROCESS)[:4]
    assert [m["name"] for m in found["metrics"]] == ["topk:2"]  # one more than fits
    monkeypatch.setattr(page, "MOST_ERRORS", 10)
    found = page.document(results, "t", metric="js")
    assert [m["name"] for m in found["metrics"]] == list(found["datasets"][0]["errors"]) == ["js"]


def test_the_command_repeats_the_sweep(tmp_path, monkeypatch):
    """Run, it makes a file with the same spec."""
    made = ["--users", "100,200", "--domain", "3x2,4", "--distribution", "zipf:1.2", "--data-seed", "7", "--quiet"]
    more = [
        "--repetitions",
        "2",
        "--epsilon",
        "ln2,0.7",
        "--protocol",
        "smp-grr,spl-l-sue,rsrfd-grr",
        "--first-report",
        "0.3",
    ]
    more += ["--guarantee", "user", "--prior", "dirichlet:2", "--prior-seed", "3"]
    fixed = ["--no-plot", "--workers", "1", "--output"]
    assert call(monkeypatch, "sweep", *made, *more, *fixed, str(tmp_path / "a.h5")) == 0
    spec = gpu_rsfd.open_results(tmp_path / "a.h5").spec
    words = shlex.split(command_of(spec))
    assert words[:2] == ["gpu-rsfd", "sweep"]
    assert call(monkeypatch, *words[1:], "--quiet", *fixed, str(tmp_path / "b.h5")) == 0
    assert gpu_rsfd.open_results(tmp_path / "b.h5").spec == spec


def test_commands_of_named_data():
    data = gpu_rsfd.load_dataset("nursery")
    spec = describe([data], gpu_rsfd.Spec.of(repetitions=3, seed=4, assignment="balanced", sampler="counts"))
    assert command_of(spec) == (
        "gpu-rsfd sweep --dataset nursery --protocol rsfd-grr,rsfd-oue-z,rsfd-oue-r,rsfd-adp,spl-adp,smp-adp "
        "--epsilon ln2,ln3,ln4,ln5,ln6,ln7 --repetitions 3 --seed 4 --assignment balanced "
        "--sampler counts"
    )
    assert command_of({}) is None
    assert not reads_files(spec)


def test_the_command_of_a_file_is_all_that_it_takes(tmp_path, monkeypatch, capsys):
    """Columns, bins and delimiter come back: the command makes the same file again."""
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{'fm'[i % 2]};{20 + i};{i % 3}\n" for i in range(30))
    Path("people.csv").write_text('sex;"age, years";x\n' + rows)
    options = {"columns": ["age, years", "sex"], "bins": {"age, years": 2}, "missing": "drop", "delimiter": ";"}
    data = gpu_rsfd.load_table("people.csv", **options)
    results = gpu_rsfd.sweep(data, epsilons=[1.0], repetitions=2, output="a.h5", backend="numpy", workers=1)
    assert not reads_files(results.spec)
    words = shlex.split(command_of(results.spec))
    assert words[:4] == ["gpu-rsfd", "sweep", "--dataset", "people.csv"]
    assert call(monkeypatch, *words[1:], "--output", "a.h5", "--quiet", "--no-plot") == 0  # continued: nothing to do
    assert gpu_rsfd.open_results("a.h5")["people"].names == ("age, years", "sex")
    older = {**results.spec, "datasets": [{k: v for k, v in results.spec["datasets"][0].items() if k != "loaded"}]}
    assert reads_files(older)
    assert "--dataset" in command_of(older)


@pytest.fixture
def file(tmp_path, data, results):
    store(tmp_path / "r.h5", [data], [results["mine"]])
    return tmp_path / "r.h5"


@pytest.mark.slow
def test_the_command_writes_a_page(monkeypatch, capsys, file):
    pytest.importorskip("vl_convert")
    monkeypatch.chdir(file.parent)
    assert call(monkeypatch, "page", "r.h5", "--protocol", "smp-adp,rsfd-adp", "--epsilon", "1") == 0
    assert capsys.readouterr().out.startswith("r.html written (")
    page = content((file.parent / "r.html").read_text("utf-8"))
    assert [p["name"] for p in page["protocols"]] == ["rsfd-adp", "smp-adp"]
    assert page["epsilons"] == ["1"]
    assert call(monkeypatch, "page", "r.h5") == 0  # its own page may be replaced


def test_bad_input_of_page(monkeypatch, capsys, file):
    folder = file.parent
    (folder / "mine.html").write_text("<p>a page of mine")
    gpu_rsfd.attack(
        gpu_rsfd.SyntheticDataset(50, (2, 2)),
        epsilons=1.0,
        protocols="smp-grr",
        repetitions=1,
        workers=1,
        output=folder / "a.h5",
    )
    for arguments, message in [
        (["r.h5", "--output", "mine.html"], "page=mine.html exists and was not made by gpu-rsfd"),
        (["r.h5", "--output", "r.h5"], "page=r.h5 is the results file itself"),
        (["r.h5", "--output", "r.png"], "page=r.png must end in .html"),
        (["r.h5", "--output", "no/r.html"], "page=no/r.html: the folder no does not exist"),
        (["a.h5"], "a.h5 holds an attack; give the file of the sweep, and this one as --attack"),
        (["r.h5", "--attack", "r.h5"], "attack=r.h5 holds a sweep; a results file of gpu-rsfd attack is needed"),
    ]:
        assert message in refusal(monkeypatch, capsys, folder, ["page", *arguments])[-1]
    assert (folder / "mine.html").read_text() == "<p>a page of mine"
    monkeypatch.setitem(sys.modules, "altair", None)
    message = refusal(monkeypatch, capsys, folder, ["page", "r.h5"])[-1]
    assert 'a page needs Altair (altair is missing): pip install "gpu-rsfd[page]"' in message
    assert not (folder / "r.html").exists()


def test_colours_stand_out():
    from gpu_rsfd.protocols import REGISTRY
    from gpu_rsfd.show.page import DARK, LIGHT, _rgb, contrast, readable

    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    for entry in REGISTRY.values():
        for background, dark in ((LIGHT, False), (DARK, True)):
            assert contrast(_rgb(readable(entry.colour, background, dark)), _rgb(background)) >= 3
    assert readable("#1b1b1b", DARK, True) != readable("#7a7a7a", DARK, True)
