"""The page holds what the results hold, computed from them alone; files are safe; what is missing is said."""

import base64
import json
import math
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from command import call, refusal

import gpu_rsfd
from gpu_rsfd.command import command_of, reads_files
from gpu_rsfd.results.estimate import POSTPROCESS, STORED
from gpu_rsfd.results.metrics import metric_names
from gpu_rsfd.results.result import Results
from gpu_rsfd.show import charts
from gpu_rsfd.show.page import ANY, ONE, decision_of, document, page, sent, title_of
from gpu_rsfd.show.rows import How, error_cells
from gpu_rsfd.show.statistics import advice
from gpu_rsfd.show.tables import values_of

vl_convert = pytest.importorskip("vl_convert", reason="the extra `page` is not installed")

PROTOCOLS = ["rsfd-grr", "rsfd-adp", "spl-adp", "smp-adp"]
LABELS = [["<b>no</b>", "yes & no", "{{data}}"], ["a", "b", "c", "</script>"]]


@pytest.fixture(scope="module")
def data():
    codes = np.random.Generator(np.random.Philox(3)).integers(0, (3, 4), (2000, 2))
    return gpu_rsfd.Dataset(codes, (3, 4), names=["answer", "group"], labels=LABELS, name="mine")


@pytest.fixture(scope="module")
def file(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("page") / "r.h5"
    cells = {"epsilons": [math.log(2), 1.0, 3.0], "protocols": PROTOCOLS, "repetitions": 20, "seed": 5}
    gpu_rsfd.sweep(data, output=path, workers=1, **cells)
    return path


@pytest.fixture(scope="module")
def results(file):
    return gpu_rsfd.open_results(file)


@pytest.fixture(scope="module")
def shown(results):
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
    found, result = content(shown), results["mine"]
    (entry,) = found["datasets"]
    assert (entry["n"], entry["repetitions"], entry["labels"]) == (2000, 20, LABELS)
    assert [m["name"] for m in found["metrics"]] == metric_names()
    assert [p["name"] for p in found["postprocess"]] == list(POSTPROCESS)
    for postprocess in POSTPROCESS:
        for metric in metric_names():
            errors = entry["errors"][metric][postprocess]
            cells = error_cells("mine", result, How(postprocess, metric))
            assert np.allclose(np.array(errors["mean"], float), cells.mean, rtol=1e-5, equal_nan=True)
            assert np.allclose(np.array(errors["error"], float), cells.error, rtol=1e-5, equal_nan=True)
            assert np.array_equal(errors["best"], cells.best)
            assert errors["advice"] == advice(cells.column, cells.means)
            assert (errors["theory"] is None) == (metric != "mse" or postprocess not in ("none", "clip"))
        packed = entry["estimates"][postprocess]
        steps = np.frombuffer(base64.b64decode(packed["data"]), "<u2").reshape(4, 3, 7, 3)
        estimates = np.where(steps == 65535, np.nan, packed["low"] + packed["step"] * steps)
        mean, high = result.estimates(postprocess).mean(axis=2), values_of(result, postprocess).high
        assert np.allclose(estimates[..., 0], mean, atol=packed["step"], equal_nan=True)
        assert np.allclose(estimates[..., 2], high, atol=1e-4, equal_nan=True)
    (line,) = entry["undefined"]["mle"]
    assert line.startswith("RS+FD[ADP]: – where mle is not defined")
    assert list(entry["undefined"]) == ["mle"]
    assert json.loads(found["spec"]) == results.spec


def test_the_decision_is_that_of_a_plan_and_checked_by_the_results(shown, data, results):
    (entry,) = content(shown)["datasets"]
    plan = gpu_rsfd.plan(data, epsilons=[math.log(2), 1.0, 3.0], protocols=PROTOCOLS, guarantee="paper")
    texts = {part["title"]: part["text"].replace("\u00a0", " ") for part in entry["decision"]["entries"]}
    assert tuple(texts[title] for title in ("Which", "How accurate", "How risky", "How robust")) == plan.sentences
    assert texts["What more would buy"] == plan.decisions[0].more
    (decision,), result = plan.decisions, results["mine"]
    at = result.protocols.index(decision.protocol), result.epsilons.index(decision.epsilon)
    assert (entry["decision"]["protocol"], entry["decision"]["epsilon"]) == at
    away = np.split(abs(result.estimates()[at] - result.frequencies), [3], axis=1)
    within = [(part <= column.margin).mean() for part, column in zip(away, decision.columns, strict=True)]
    assert f"In the 20 simulated collections of this file, {100 * np.mean(within):.1f} % of" in texts["Checked"]


def test_only_ones_own_data_have_a_decision(tmp_path):
    cells = {"epsilons": 1.0, "protocols": ["smp-adp"], "repetitions": 2, "workers": 1}
    nursery = gpu_rsfd.sweep("nursery", output=tmp_path / "n.h5", **cells)
    assert decision_of(nursery, "nursery") is None
    assert title_of(nursery, "r.h5") == "nursery"
    assert title_of(Results({str(i): nursery["nursery"] for i in range(4)}), "r.h5") == "r.h5"


def test_results_without_estimates_and_of_one_repetition():
    few = gpu_rsfd.SyntheticDataset(3, (3,) * 4)
    tiny = gpu_rsfd.simulate(few, epsilons=1.0, protocols=["smp-grr"], repetitions=1, assignment="balanced", workers=1)
    found = document(Results({"tiny": tiny}), "tiny")
    json.dumps(found, allow_nan=False)
    assert found["datasets"][0]["errors"]["kl"]["none"]["mean"] == [[None]]
    assert found["command"] is None


def test_errors_alone(tmp_path, data):
    cells = {"epsilons": 1.0, "protocols": PROTOCOLS, "repetitions": 2, "workers": 1}
    found = document(gpu_rsfd.sweep(data, output=tmp_path / "r.h5", keep="mse", **cells), "r.h5")
    assert found["kept"] == []
    assert found["datasets"][0]["estimates"] == {}


@pytest.mark.slow
def test_privacy_is_exact_and_guesses_are_those_of_the_attack(results, data):
    result = results["mine"]
    attack = gpu_rsfd.attack(
        data, epsilons=result.epsilons, protocols=["smp-adp", "rsfd-adp"], repetitions=2, workers=1
    )
    found = document(results, "t", Results({"mine": attack}))
    assert found["losses"] == [ONE, ANY, "sampled attribute guessed", "value guessed"]
    losses = found["datasets"][0]["losses"]
    for p, protocol in enumerate(PROTOCOLS):
        for e, epsilon in enumerate(result.epsilons):
            for kind, differing in ((ONE, 1), (ANY, 2)):
                exact = gpu_rsfd.privacy_loss(protocol, epsilon, (3, 4))[differing - 1]
                assert losses[kind][p][e] == pytest.approx(exact, rel=1e-5)
    guessed = np.array(losses["value guessed"], float)
    assert np.allclose(guessed[3], attack.value_success[0].mean(axis=-1), rtol=1e-5)
    assert np.allclose(guessed[1], attack.value_success[1].mean(axis=-1), rtol=1e-5)
    assert np.isnan(guessed[[0, 2]]).all()  # not attacked
    assert document(results, "t")["losses"] == [ONE, ANY]


@pytest.mark.slow
def test_large_results_keep_to_what_fits(monkeypatch, results):
    from gpu_rsfd.show import page

    most = [page.MOST_ERRORS // (len(metric_names()) * len(kinds)) for kinds in (POSTPROCESS, STORED)]
    said = (Path(__file__).parents[2] / "docs" / "page.md").read_text("utf-8")
    assert re.findall(r"more than (\d,\d+)", said) == [f"{cells:,}" for cells in most]
    monkeypatch.setattr(page, "MOST_NUMBERS", 3 * 4 * 3 * 7)
    assert page.document(results, "t")["kept"] == ["none"]
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
    made = gpu_rsfd.Spec.of(repetitions=3, seed=4, assignment="balanced", sampler="counts")
    spec = {"measurement": "frequencies", "datasets": [data.describe()], **made.described()}
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


@pytest.mark.slow
def test_the_command_writes_a_page(monkeypatch, capsys, file):
    monkeypatch.chdir(file.parent)
    assert call(monkeypatch, "page", "r.h5", "--protocol", "smp-adp,rsfd-adp", "--epsilon", "1") == 0
    assert capsys.readouterr().out.startswith("r.html written (")
    found = content((file.parent / "r.html").read_text("utf-8"))
    assert [p["name"] for p in found["protocols"]] == ["rsfd-adp", "smp-adp"]
    assert found["epsilons"] == ["1"]
    assert call(monkeypatch, "page", "r.h5") == 0  # its own page may be replaced


def test_bad_input_of_page(monkeypatch, capsys, file, tmp_path):
    folder = shutil.copytree(file.parent, tmp_path / "copy")
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
        (["a.h5"], "a page needs the results of a sweep; what an attack guesses is added to it by --attack"),
        (["r.h5", "--attack", "r.h5"], "attack on 'mine' holds errors; a results file of gpu-rsfd attack is needed"),
    ]:
        assert message in refusal(monkeypatch, capsys, folder, ["page", *arguments])[-1]
    assert (folder / "mine.html").read_text() == "<p>a page of mine"
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    message = refusal(monkeypatch, capsys, folder, ["page", "r.h5", "--output", "new.html"])[-1]
    assert 'a page needs vl-convert, which is missing: pip install "gpu-rsfd[page]"' in message
    assert not (folder / "new.html").exists()


# ----------------------------------------------------------------------------------------------- attacks that belong

ONE_DATA = gpu_rsfd.SyntheticDataset(300, (3, 4), seed=1, name="one")
OPTIONS = {"epsilons": [1.0, 2.0], "protocols": ["rsfd-grr", "smp-adp"], "repetitions": 2, "workers": 1}


def attacked(data=ONE_DATA, **changes):
    return Results({data.name: gpu_rsfd.attack(data, **{**OPTIONS, **changes})})


def swept(**changes):
    return Results({"one": gpu_rsfd.simulate(ONE_DATA, **{**OPTIONS, **changes})})


@pytest.mark.parametrize("attack,reason", [
    ({"guarantee": "user"}, "another guarantee"),
    ({"assignment": "balanced"}, "another assignment"),
    ({"epsilons": [3.0]}, "shares no protocol and epsilon with the results"),
    ({"data": gpu_rsfd.SyntheticDataset(300, (3, 4), seed=2, name="one")}, "another truth"),
    ({"data": gpu_rsfd.SyntheticDataset(301, (3, 4), seed=1, name="one")}, "another number of users"),
    ({"data": gpu_rsfd.SyntheticDataset(300, (4, 3), seed=1, name="one")}, "another domain"),
    ({"data": gpu_rsfd.SyntheticDataset(300, (3, 4), seed=1, name="two")}, "attack on two: the page shows one"),
])  # fmt: skip
def test_an_attack_that_does_not_belong_is_refused(attack, reason):
    with pytest.raises(gpu_rsfd.InputError, match=reason):
        document(swept(), "t", attacked(**attack))


def test_an_attack_with_the_same_name_and_another_mechanism_is_refused():
    mine, other = (
        gpu_rsfd.protocol("mine", solution="rsfd-z", bits=lambda e, k, s=s: (0.5, 1 / (math.exp(s * e) + 1)))
        for s in (1.0, 0.5)
    )
    with pytest.raises(gpu_rsfd.InputError, match="another mine at epsilon 1"):
        document(swept(protocols=[mine]), "t", attacked(protocols=[other]))


def test_an_attack_that_belongs_is_shown():
    attack = attacked(epsilons=[2.0])  # some of the epsilons
    cells = document(swept(), "t", attack)["datasets"][0]["losses"]["value guessed"]
    assert [row[0] for row in cells] == [None, None]
    assert [row[1] for row in cells] == pytest.approx(attack["one"].value_success[:, 0].mean(axis=-1), rel=1e-5)


# ------------------------------------------------------------------------------------------------------------ charts


def test_the_bundle_is_made_once(tmp_path, monkeypatch):
    made = []

    def make(**_):
        made.append(1)
        return "'ε</script>'"

    monkeypatch.setattr(vl_convert, "javascript_bundle", make)
    monkeypatch.setenv("GPU_RSFD_CACHE", str(tmp_path / "cache"))
    assert charts.bundle() == charts.bundle() == "'ε<\\/script>'"
    assert len(made) == 1
    (file,) = (tmp_path / "cache").glob("vega-*.js")
    file.write_text("another script")  # not what its name says
    assert charts.bundle() == "'ε<\\/script>'"
    assert len(made) == 2
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GPU_RSFD_CACHE", str(tmp_path / "file" / "cache"))  # no cache: made each time
    assert charts.bundle() == charts.bundle() == "'ε<\\/script>'"
    assert len(made) == 4


def test_riddles_are_not_printed():
    root = Path(gpu_rsfd.__file__).parent
    texts = [path for kind in ("*.py", "*.js", "*.html") for path in root.rglob(kind)]
    texts += [path for folder in (root.parent, root.parent / "docs") for path in folder.glob("*.md")]
    for path in texts:
        found = re.search(
            r"told apart|may be the best|brought up to date|goes on from|of its column\b", path.read_text("utf-8")
        )
        assert not found or path.name == "CHANGELOG.md", (path.name, found)


SMP = "A phone picks one of the 2 columns at random, and sends which one it is and the user's value, randomised"
FD = "A phone sends one value, for each of the 2 columns: in one, picked at random and kept secret, it is the user's"
SPL = "A phone sends the user's value in each of the 2 columns, each with a share of epsilon, randomised"


@pytest.mark.parametrize(("protocol", "domain", "sentence"), [
    ("smp-grr", (3,), "A phone sends the user's value, randomised, and nothing else."),
    ("smp-hr", (3,), "A phone sends the user's value, randomised, as a number that stands for some of the values, and "
                     "nothing else."),
    ("smp-olh", (3, 40), f"{SMP}, as a hash of it."),
    ("smp-adp", (3, 40), f"{SMP}, as one value or a bit for every possible value, depending on the column."),
    ("rsfd-grr", (3, 4), f"{FD} value, randomised; in the others it is fake data."),
    ("spl-ss", (3, 4), f"{SPL}, as a set of values."),
])  # fmt: skip
def test_what_a_phone_sends(protocol, domain, sentence):
    data = gpu_rsfd.SyntheticDataset(50, domain)
    result = gpu_rsfd.simulate(data, epsilons=1.0, protocols=[protocol], repetitions=1, workers=1, backend="numpy")
    assert sent(result, 0, 0) == sentence
