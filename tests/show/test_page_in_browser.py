"""The page in a real browser, offline: what is drawn is what the results hold, and every control changes it.

Needs playwright and a Chromium of the system (Debian: apt install chromium); without them these tests are skipped.
"""

import csv
import io
import math
import os
import shutil
import subprocess
import warnings

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.results.metrics import METRICS, as_metric
from gpu_rsfd.results.result import Results
from gpu_rsfd.show.page import decision_of, document, write_page
from gpu_rsfd.show.page import page as page_of
from gpu_rsfd.show.rows import How, error_cells, select

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
pytest.importorskip("vl_convert", reason="the extra `page` is not installed")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
BROWSER = os.environ.get("GPU_RSFD_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
if BROWSER is None:
    pytest.skip("no Chromium on this machine (apt install chromium)", allow_module_level=True)

PROTOCOLS = ["rsfd-grr", "rsfd-adp", "smp-adp"]
LABELS = [as_metric(metric).label for metric in METRICS]
ONE, ANY = "privacy loss, one attribute differs", "privacy loss, any two users"


def people_data():
    codes = np.random.Generator(np.random.Philox(3)).integers(0, (3, 4), (2000, 2))
    labels = [["<b>no</b>", "yes & no", "{{data}}"], ["São Paulo", "上海", "c", "</script>"]]
    return gpu_rsfd.Dataset(codes, (3, 4), names=["answer", "town"], labels=labels, name="people")


def swept(path, datasets, **options):
    return gpu_rsfd.sweep(datasets, output=path, workers=1, **options)


def attacked(data, result):
    return gpu_rsfd.attack(data, epsilons=result.epsilons, protocols=result.protocols, repetitions=2, workers=1)


def people(folder):
    cells = {"epsilons": [math.log(2), 1.0, 3.0], "protocols": PROTOCOLS, "repetitions": 20, "seed": 5}
    return swept(folder / "p.h5", [people_data(), "nursery"], **cells)


def over_users(folder):
    sets = [gpu_rsfd.SyntheticDataset(n, (3, 4), name=f"uniform-n{n}-d2") for n in (500, 5000)]
    return swept(folder / "u.h5", sets, epsilons=[0.5, 1.0], protocols=PROTOCOLS, repetitions=5)


def grid(folder):
    names = {f"uniform-n500-d{d}-k{k}": (k,) * d for d in (2, 3) for k in (3, 4)}
    sets = [gpu_rsfd.SyntheticDataset(500, domain, name=name) for name, domain in names.items()]
    return swept(folder / "g.h5", sets, epsilons=1.0, protocols=["smp-grr", "smp-oue"], repetitions=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return tmp_path_factory.mktemp("made")


@pytest.fixture(scope="module")
def results(made):
    return people(made)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, made, results):
    folder = tmp_path_factory.mktemp("pages")
    guessed = Results({"people": attacked(people_data(), results["people"])})
    write_page(folder / "people.html", page_of(results, "people.h5", guessed))
    write_page(folder / "users.html", page_of(over_users(made), "users.h5"))
    write_page(folder / "grid.html", page_of(grid(made), "grid.h5", metric="topk:2"))
    write_page(folder / "many.html", page_of(many_values(made), "many.h5"))
    write_page(folder / "rare.html", page_of(rare(made), "rare.h5"))
    write_page(folder / "all.html", page_of(all_protocols(made), "all.h5"))
    write_page(folder / "sixteen.html", page_of(select(all_protocols(made), protocols=gpu_rsfd.PROTOCOLS[:16]), "16"))
    return folder


def all_protocols(folder):
    return swept(folder / "a.h5", people_data(), epsilons=1.0, protocols=gpu_rsfd.PROTOCOLS, repetitions=4)


def many_values(folder):
    data = gpu_rsfd.SyntheticDataset(2000, (400,), "zipf:1.1", name="many")
    return swept(folder / "m.h5", data, epsilons=1.0, protocols=["smp-grr"], repetitions=1)


def rare(folder):
    data = gpu_rsfd.Dataset([[int(i < 40)] for i in range(10_000)], (2,), ["HIV"], "rare", [["no", "yes"]])
    return swept(folder / "r.h5", data, epsilons=0.5, protocols=["smp-grr"], repetitions=20)


@pytest.fixture(scope="module")
def browser():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with sync_api.sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
            yield chromium
            chromium.close()


@pytest.fixture
def visit(browser, folder):
    """Opens a page offline; fails if the console says anything or anything is asked of a server."""
    contexts, said = [], []

    def open_page(name="people.html", **options):
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if not request.url.startswith("file:") else None)
        page.goto((folder / name).as_uri())
        page.wait_for_function("document.body.dataset.ready")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def after(page, chart, act):
    """Runs `act` and waits until the chart has been drawn again."""
    before = page.eval_on_selector(f"#{chart}", "e => Number(e.dataset.drawn)")
    act()
    page.wait_for_function(
        "([id, n]) => Number(document.getElementById(id).dataset.drawn) > n", arg=[chart, before], timeout=60_000
    )


def marks(page, chart, kind="symbol"):
    """What the points of a chart say to a screen reader: their fields, as written in the SVG."""
    found = page.eval_on_selector_all(
        f"#{chart} svg .mark-{kind} path", "paths => paths.map(p => p.getAttribute('aria-label') || '')"
    )
    return [dict(part.split(": ", 1) for part in text.split("; ") if ": " in part) for text in found if text]


def errors_drawn(page):
    return {(m["protocol"], m["at"]): next(m[k] for k in LABELS if k in m) for m in marks(page, "error-chart")}


def number(text):
    """`7.034(21)e-5` without its error."""
    head, _, tail = text.partition("(")
    return float(head + tail.partition(")")[2])


def means(results, name, postprocess, metric="mse"):
    """(protocol, at) -> mean, as the results hold them."""
    result = results[name]
    found = {}
    for p, protocol in enumerate(result.protocols):
        for e, epsilon in enumerate(["ln 2", "1", "3"]):
            found[gpu_rsfd.label(protocol), f"ε = {epsilon}, {name}"] = result.error(metric, postprocess)[p, e].mean()
    return found


def same(drawn, wanted):
    assert set(drawn) == set(wanted)
    for key, text in drawn.items():
        assert number(text) == pytest.approx(wanted[key], rel=0.06), key  # as many digits as its error allows


def words(number):
    return ["no", "one", "two", "three", "four", "five", "six"][number]


def in_short(results, postprocess, metric):
    """Of three protocols on two data sets at three epsilons: who is best or among the best, where."""
    best = np.concatenate([error_cells(name, r, How(postprocess, metric)).best for name, r in results.items()], axis=1)
    groups = {}
    for name, row in zip(PROTOCOLS, best, strict=True):
        if row.any():
            alone = int((row & (best.sum(axis=0) == 1)).sum())
            groups.setdefault(tuple(row), (int(row.sum()), alone, []))[2].append(gpu_rsfd.label(name))
    ranked = sorted(groups.values(), key=lambda group: (-group[0], -group[1]))
    (count, alone, names), *rest = ranked
    where = f"in {'all six' if count == 6 else words(count) + ' of six'} cases"
    text = (
        f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} {'best' if alone == count else 'among the best'}"
    )
    text += f" {where}" + (f", alone in {words(alone)}" if 0 < alone < count else "")
    more = [f"{' and '.join(other)} in {words(number)}" for number, _, other in rest[:2]]
    return f"{'; '.join([text, ', '.join(more)] if more else [text])} (2 data sets × 3 epsilons)."


def test_the_errors_drawn_are_those_of_the_results(visit, results):
    page = visit()
    same(errors_drawn(page), means(results, "people", "clip-normalize"))
    after(page, "error-chart", lambda: page.select_option("#postprocess", "none"))
    same(errors_drawn(page), means(results, "people", "none"))
    assert page.inner_text("#headline") == in_short(results, "none", "mse")
    after(page, "error-chart", lambda: page.select_option("#metric", label="KL_avg"))
    same(errors_drawn(page), means(results, "people", "none", "kl"))
    assert "KL_avg" in page.inner_text("#caption")
    assert "KL_avg" in page.get_attribute("#error-chart svg", "aria-label")
    assert page.inner_text("#headline") == in_short(results, "none", "kl")
    after(page, "error-chart", lambda: page.select_option("#metric", label="MSE_avg"))
    after(page, "error-chart", lambda: page.select_option("#dataset", label="nursery"))
    same(errors_drawn(page), means(results, "nursery", "none"))
    assert "nursery" in page.inner_text("#about")
    assert page.inner_text("#attribute").startswith("parents (3)")


def test_the_legend_hides_and_shows_protocols(visit):
    page = visit()
    after(page, "error-chart", lambda: page.uncheck("#protocols input[value=smp-adp]"))
    assert {key[0] for key in errors_drawn(page)} == {"RS+FD[GRR]", "RS+FD[ADP]"}
    assert page.locator("#table tbody tr").count() == 2
    after(page, "error-chart", lambda: page.check("#protocols input[value=smp-adp]"))
    assert len({key[0] for key in errors_drawn(page)}) == 3


def test_scale_theory_and_the_papers_points(visit):
    page = visit()

    def ticks():
        return page.eval_on_selector_all("#error-chart .role-axis-label text", "all => all.map(t => t.textContent)")

    before = ticks()
    after(page, "error-chart", lambda: page.check("input[name=scale][value=linear]"))
    assert ticks() != before
    assert "0e+0" in [t.replace("−", "-") for t in ticks()]
    lines = "#error-chart svg .mark-line path"
    after(page, "error-chart", lambda: page.select_option("#postprocess", "none"))
    with_theory = page.locator(lines).count()
    after(page, "error-chart", lambda: page.uncheck("#theory"))
    assert page.locator(lines).count() == with_theory - 3
    after(page, "error-chart", lambda: page.select_option("#dataset", label="nursery"))
    after(page, "error-chart", lambda: page.select_option("#postprocess", "clip-normalize"))
    points = len(marks(page, "error-chart"))
    assert "the paper’s published points" in page.inner_text("#error-note")
    after(page, "error-chart", lambda: page.uncheck("#published"))
    assert len(marks(page, "error-chart")) == points - 3  # one epsilon of three is the paper's


def test_frequencies_with_the_users_own_labels(visit, results):
    student = pytest.importorskip("scipy.stats").t
    page = visit()

    def drawn():
        return {m["value"]: m for m in marks(page, "frequency-chart")}

    result = results["people"]
    assert list(drawn()) == ["<b>no</b>", "yes & no", "{{data}}"]
    after(page, "frequency-chart", lambda: page.select_option("#attribute", label="town (4)"))
    assert list(drawn()) == ["São Paulo", "上海", "c", "</script>"]
    for protocol, epsilon in ((0, 0), (2, 0), (2, 2)):
        for control, chosen in (("#protocol", protocol), ("#epsilon", epsilon)):
            after(page, "frequency-chart", lambda: page.select_option(control, str(chosen)))  # noqa: B023
        estimates = result.estimates("none")[protocol, epsilon, :, 3:]
        for v, mark in enumerate(drawn().values()):
            assert float(mark["estimate"]) == pytest.approx(estimates[:, v].mean(), abs=1e-4)
            assert float(mark["truth"]) == pytest.approx(result.frequencies[3 + v], abs=1e-4)
            low, high = map(float, mark["interval"].split(" … "))
            count = len(estimates)  # a prediction interval: where one more collection falls
            reach = student.ppf(0.975, count - 1) * np.sqrt(1 + 1 / count) * estimates[:, v].std(ddof=1)
            assert low == pytest.approx(estimates[:, v].mean() - reach, abs=1e-4)
            assert high == pytest.approx(estimates[:, v].mean() + reach, abs=1e-4)
    assert page.locator("#frequency-chart svg .mark-rule.role-mark line").count() == 4


def test_frequencies_are_unbiased_unless_chosen_otherwise(visit, made):
    page = visit("rare.html")
    result = rare(made)["rare"]
    (mark,) = (m for m in marks(page, "frequency-chart") if m["value"] == "yes")
    assert float(mark["estimate"]) == pytest.approx(result.estimates("none")[0, 0, :, 1].mean(), abs=1e-4)
    assert "rare values come out too large" not in page.inner_text("#frequency-note")
    after(page, "frequency-chart", lambda: page.select_option("#estimates", "clip-normalize"))
    clipped = result.estimates("clip-normalize")[0, 0, :, 1].mean()
    said = f"After clip-normalize rare values come out too large: yes {clipped:.4f} on average, not 0.0040."
    assert said in page.inner_text("#frequency-note")


@pytest.mark.parametrize(("best", "said"), [
    ([[1, 1, 1], [0, 0, 0], [0, 0, 0]], "RS+FD[GRR] is best at all three epsilons."),
    ([[1, 1, 0], [0, 0, 1], [0, 0, 0]], "RS+FD[GRR] is best at two of three epsilons; RS+FD[ADP] at one."),
    ([[1, 1, 0], [1, 1, 0], [0, 0, 1]],
     "RS+FD[GRR] and RS+FD[ADP] are among the best at two of three epsilons; Smp[ADP] at one."),
    ([[1, 1, 1], [0, 1, 0], [0, 0, 0]],
     "RS+FD[GRR] is among the best at all three epsilons, alone at two; RS+FD[ADP] at one."),
    ([[1, 1, 1], [1, 1, 1], [1, 1, 1]], "All protocols are among the best at all three epsilons."),
    ([[0, 0, 0], [0, 0, 0], [0, 0, 0]], "No protocol has an estimate of every attribute."),
])  # fmt: skip
def test_the_headline_is_plain(visit, folder, results, monkeypatch, best, said):
    made = document(select(results, datasets=["people"]), "people")
    made["datasets"][0]["errors"]["mse"]["clip-normalize"]["best"] = best
    monkeypatch.setattr("gpu_rsfd.show.page.document", lambda *_: made)
    write_page(folder / "short.html", page_of(results, "people"), overwrite=True)
    assert visit("short.html").inner_text("#headline") == said


def test_the_table_of_columns_is_printed(visit, tmp_path):
    page = visit()
    page.pdf(path=tmp_path / "page.pdf", format="A4")
    page.emulate_media(media="print")
    box = page.locator("#columns").bounding_box()
    assert box["height"] > 50
    inside = page.eval_on_selector("#columns", "e => e.parentElement.scrollHeight <= e.parentElement.clientHeight + 1")
    assert inside  # nothing is cut off that could be scrolled to on a screen
    if shutil.which("pdftotext"):
        text = subprocess.run(
            ["pdftotext", tmp_path / "page.pdf", "-"], capture_output=True, text=True, check=True
        ).stdout
        assert "What to expect of each column." in text


def test_very_many_values(visit):
    """One repetition of one protocol, an attribute of 400 values: no bands, nothing to compare, the most frequent."""
    page = visit("many.html")
    assert len(marks(page, "frequency-chart")) == 50
    assert "The 50 most frequent of 400 values." in page.inner_text("#frequency-note")
    assert page.inner_text("#headline") == "Smp[GRR] alone: nothing to compare it with."
    assert len(marks(page, "error-chart")) == 1


def test_the_page_opens_with_the_decision_for_ones_own_data(visit, results):
    page = visit()
    decision = decision_of(results, "people")
    assert page.locator(".decided dt").all_inner_texts() == [entry["title"] for entry in decision["entries"]]
    assert page.locator(".decided dd").all_inner_texts() == [entry["text"] for entry in decision["entries"]]
    assert page.locator("main > section").first.get_attribute("id") == "decision"
    assert page.locator("#columns tbody tr").all_inner_texts()[1].split("\t")[:3] == ["town", "4", "GRR"]
    assert page.locator(".chart").first.get_attribute("id") == "column-chart"
    drawn = page.eval_on_selector_all("#column-chart .mark-text.role-mark text", "all => all.map(t => t.textContent)")
    assert drawn == [column["said"] for column in decision["columns"]]
    labels = page.eval_on_selector_all("#column-chart .role-axis-label text", "all => all.map(t => t.textContent)")
    for column in decision["columns"]:
        assert f"{column['name']}as asking {column['asked']}" in labels
    assert int(page.input_value("#protocol")) == decision["protocol"]
    after(page, "error-chart", lambda: page.select_option("#dataset", label="nursery"))  # everybody's data
    assert not page.is_visible("#decision")


def test_a_control_that_draws_nothing_is_disabled_and_says_why(visit):
    page = visit()
    assert page.is_disabled("#theory")
    assert page.inner_text("#theory-why") == "(none for MSE_avg, clip-normalize)"
    assert page.is_disabled("#published")
    after(page, "error-chart", lambda: page.select_option("#postprocess", "none"))
    assert page.is_enabled("#theory")
    assert page.inner_text("#theory-why") == ""
    page = visit("many.html")
    assert page.is_disabled("#dataset")
    assert page.get_attribute("#dataset", "title") == "the only one in this file"


def test_charts_have_their_guarantee_and_baselines(visit, results):
    page = visit()
    guess = np.mean([np.mean((f - 1 / len(f)) ** 2) for f in np.split(results["people"].frequencies, [3])])
    for note in ("#error-note", "#privacy-note"):
        assert "Guarantee: paper." in page.inner_text(note)
        assert f"equally frequent: {guess:.3g}." in page.inner_text(note)
    assert "Guarantee: paper." in page.inner_text("#frequency-note")
    after(page, "privacy-chart", lambda: page.select_option("#loss", "sampled attribute guessed"))
    assert "Guessed without a report: 0.500." in page.inner_text("#privacy-note")


def test_axes_can_be_read_and_start_where_something_is(visit):
    page = visit()
    sizes = page.eval_on_selector_all(
        ".chart .role-axis-label text, .chart .role-axis-title text",
        "all => all.map(t => parseFloat(getComputedStyle(t).fontSize))",
    )
    assert min(sizes) >= 12
    ticks = page.eval_on_selector_all("#frequency-chart .role-axis-label text", "all => all.map(t => t.textContent)")
    numbers = [
        float(text.replace("−", "-"))
        for text in ticks
        if text.replace("−", "-").replace("-", "").replace(".", "").isdigit()
    ]
    assert numbers
    assert min(numbers) > -0.1


def test_a_single_epsilon_shows_its_uncertainty(visit):
    page = visit("all.html")
    assert page.locator("#error-chart svg .mark-rule.role-mark line").count() == len(gpu_rsfd.PROTOCOLS)
    assert "Bars: one standard error." in page.inner_text("#error-note")


def test_many_protocols_are_filtered(visit):
    page = visit("all.html", viewport={"width": 1100, "height": 900})
    line = page.eval_on_selector("#headline", "e => parseFloat(getComputedStyle(e).lineHeight)")
    assert page.locator("#headline").bounding_box()["height"] <= 3.1 * line
    after(page, "error-chart", lambda: page.fill("#filter", "spl"))
    names, spl = {key[0] for key in errors_drawn(page)}, sum(p.startswith("spl-") for p in gpu_rsfd.PROTOCOLS)
    assert len(names) == page.locator("#table tbody tr").count() == spl
    assert all(name.startswith("Spl[") for name in names)
    after(page, "error-chart", lambda: page.fill("#filter", ""))
    assert len(errors_drawn(page)) == len(gpu_rsfd.PROTOCOLS)
    assert not visit().is_visible("#filter")  # few need none


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("name", "count"), [("all.html", len(gpu_rsfd.PROTOCOLS)), ("sixteen.html", 16)])
def test_colours_stand_out(visit, scheme, name, count):
    """Of every protocol from the background, as WCAG asks of graphics."""
    found = visit(name, color_scheme=scheme).evaluate("""() => {
        const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        const paths = [...document.querySelectorAll("#protocols path[fill]")].map((p) => getComputedStyle(p).fill);
        return [getComputedStyle(document.body).backgroundColor, ...paths].map((colour) => {
            context.fillStyle = colour;
            context.fillRect(0, 0, 1, 1);
            return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
        });
    }""")
    share = np.array(found) / 255
    light = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
    high, low = np.maximum(light[1:], light[0]), np.minimum(light[1:], light[0])
    assert len(light) == 1 + count
    assert ((high + 0.05) / (low + 0.05)).min() >= 3


def test_labels_of_axes_are_distinct(visit, folder):
    """An error between 1e-3 and 2e-3 needs two digits, and small epsilons their own."""
    data = gpu_rsfd.SyntheticDataset(20_000, (3, 4))
    for i, epsilons in enumerate(([0.01, 0.02, 0.03], [math.log(2), 1.0, 2.0])):
        made = gpu_rsfd.simulate(data, epsilons=epsilons, protocols=["smp-grr"], repetitions=3, workers=1)
        write_page(folder / f"axes{i}.html", page_of(Results({"one": made}), "axes"))
        texts = visit(f"axes{i}.html").eval_on_selector_all(
            "#error-chart .role-axis-label text", "all => all.map(t => t.textContent)"
        )
        names = [show_epsilon(epsilon) for epsilon in epsilons]
        assert [text for text in texts if text in names] == names
        errors = [text for text in texts if "e" in text]
        assert len(set(errors)) == len(errors) >= 3


def test_what_is_shared_is_said(visit):
    assert "the same users and the same random numbers." in visit().inner_text("#pairing")


def test_print_uses_the_whole_width(visit):
    page = visit(viewport={"width": 400, "height": 800})
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 1000, "height": 800})
    for chart in ("#error-chart", "#frequency-chart", "#privacy-chart"):
        assert page.locator(f"{chart} svg").bounding_box()["width"] > 980


def test_against_users(visit):
    page = visit("users.html")
    drawn = {key[1] for key in errors_drawn(page)}
    assert drawn == {"ε = 0.5, uniform-n500-d2", "ε = 0.5, uniform-n5000-d2"}
    after(page, "error-chart", lambda: page.select_option("#at", label="1"))
    assert {key[1][:5] for key in errors_drawn(page)} == {"ε = 1"}
    after(page, "error-chart", lambda: page.select_option("#against", "epsilon"))
    assert {key[1] for key in errors_drawn(page)} == {"ε = 0.5, uniform-n500-d2", "ε = 1, uniform-n500-d2"}
    assert not page.is_visible("#at")


def test_against_the_domain_scores_and_what_is_undefined(visit, made):
    page = visit("grid.html")
    found = {name: result.error("topk:2", "clip-normalize")[:, 0].mean(axis=-1) for name, result in grid(made).items()}

    def shown(*names):
        drawn = {(m["protocol"], m["at"]): float(m["topk:2_avg"].split("(")[0]) for m in marks(page, "error-chart")}
        assert set(drawn) == {(label, f"ε = 1, {name}") for label in ("Smp[GRR]", "Smp[OUE]") for name in names}

    assert page.eval_on_selector("#against", "e => [...e.options].map(o => o.text)") == [
        *("epsilon", "attributes d", "values k"),
    ]
    shown("uniform-n500-d2-k3", "uniform-n500-d3-k3")
    after(page, "error-chart", lambda: page.select_option("#against", "k"))
    shown("uniform-n500-d2-k3", "uniform-n500-d2-k4")
    after(page, "error-chart", lambda: page.select_option("#dataset", label="uniform-n500-d3-k4"))
    shown("uniform-n500-d3-k3", "uniform-n500-d3-k4")
    assert page.is_checked("input[value=linear]")  # a score
    assert "takes few different values: no * below 6 repetitions" in page.inner_text("#caption")
    page.click("#table th:nth-child(2) button")  # the best first: the largest
    order = page.eval_on_selector_all("#table tbody th", "heads => heads.map(h => h.textContent)")
    best = found["uniform-n500-d3-k4"].argmax()
    assert order[0] == ["Smp[GRR]", "Smp[OUE]"][best]
    after(page, "error-chart", lambda: page.select_option("#metric", label="MAE_avg"))
    assert page.is_checked("input[value=log]")
    after(page, "error-chart", lambda: page.select_option("#postprocess", "mle"))
    assert {m["protocol"] for m in marks(page, "error-chart")} == {"Smp[GRR]"}
    assert "Smp[OUE]: – where mle is not defined: it is the likelihood of reports that support one value each" in (
        page.inner_text("#error-note")
    )
    assert "–" in page.inner_text("#table")


def test_privacy_where_it_is_known(visit, results):
    page = visit()
    options = page.locator("#loss option").all_inner_texts()
    assert options == [ONE, ANY, "sampled attribute guessed", "value guessed"]

    def drawn():
        return {(m["protocol"], m["at"]): float(next(iter(m.values()))) for m in marks(page, "privacy-chart")}

    result = results["people"]
    loss = gpu_rsfd.privacy_loss("smp-adp", 1.0, result.domain)[0]
    assert drawn()["Smp[ADP]", "ε = 1, people"] == pytest.approx(loss, rel=1e-4)
    assert len(drawn()) == 9
    assert page.locator("#privacy-chart svg .mark-rule.role-mark line").count() == 9  # no band: a curve may go back
    after(page, "privacy-chart", lambda: page.select_option("#loss", "value guessed"))
    assert 0 < drawn()["Smp[ADP]", "ε = 1, people"] < 1
    page.select_option("#dataset", label="nursery")  # which was not attacked
    page.wait_for_function("!document.querySelector('#privacy-chart svg')")
    assert "There is none" in page.inner_text("#privacy-note")


def test_the_table_is_sorted_and_copied(visit, results):
    page = visit()

    def names():
        return page.locator("#table tbody th").all_inner_texts()

    assert names() == ["RS+FD[GRR]", "RS+FD[ADP]", "Smp[ADP]"]
    mean = results["people"].mse("clip-normalize").mean(axis=-1)[:, 2]
    ranked = [gpu_rsfd.label(PROTOCOLS[i]) for i in np.argsort(mean, kind="stable")]
    heads = page.locator("#table th button")
    heads.nth(3).click()
    assert names() == ranked
    assert page.get_attribute("#table thead th:nth-child(4)", "aria-sort") == "ascending"
    heads.nth(3).press("Enter")
    assert names() == ranked[::-1]
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.click("#copy-csv")
    page.wait_for_function("window.copied")
    rows = list(csv.DictReader(io.StringIO(page.evaluate("window.copied"))))
    assert len(rows) == 9
    wanted = dict(zip(PROTOCOLS, mean, strict=True))
    for row in rows:
        if float(row["epsilon"]) == 3.0:
            assert float(row["error"]) == pytest.approx(wanted[row["protocol"]], rel=1e-5)
    assert page.inner_text("#copied") == "CSV copied"
    page.click("#copy-latex")
    page.wait_for_function("window.copied.includes('tabular')")
    latex = page.evaluate("window.copied")
    assert latex.count("\\\\") == 4
    assert "\\mathbf" in latex


def test_the_keyboard_reaches_every_control(visit):
    page = visit()
    after(page, "error-chart", lambda: page.select_option("#postprocess", "none"))  # which has theory
    page.focus("#dataset")
    reached = ["dataset"]
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.value || ''"))
    selects = ("dataset", "metric", "postprocess", "attribute", "protocol", "epsilon", "estimates", "loss")
    for control in (*selects, "log", "theory", "rsfd-grr", "smp-adp", "copy-csv", "copy-latex"):
        assert control in reached, control
    page.focus("#postprocess")
    after(page, "error-chart", lambda: page.keyboard.press("ArrowDown"))
    assert page.input_value("#postprocess") == "clip"
    page.focus("#protocols input[value=smp-adp]")
    after(page, "error-chart", lambda: page.keyboard.press("Space"))
    assert len({key[0] for key in errors_drawn(page)}) == 2


def test_light_dark_and_paper(visit, tmp_path):
    def look(page):
        return page.evaluate("""() => [
            getComputedStyle(document.body).backgroundColor,
            getComputedStyle(document.querySelector("#error-chart .mark-line path")).stroke,
            getComputedStyle(document.querySelector("#error-chart .role-axis-label text")).fill,
        ]""")

    light, page = look(visit(color_scheme="light")), visit(color_scheme="dark")
    dark = look(page)
    assert light[0] == "rgb(255, 255, 255)"
    assert all(a != b for a, b in zip(light, dark, strict=True))
    page.emulate_media(media="print", color_scheme="dark")
    assert look(page) == light  # paper is white, whatever the screen is
    page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "page.pdf").stat().st_size > 20_000


@pytest.mark.parametrize("width,height", [(1100, 800), (390, 844), (320, 640)])
def test_nothing_is_wider_than_the_screen(visit, width, height):
    page = visit(viewport={"width": width, "height": height})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.locator("#error-chart svg").bounding_box()
    assert box["width"] <= width
    assert box["width"] > 0.8 * width - 40


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(visit, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    for name in ("people.html", "users.html"):
        found = axe.Axe().run(visit(name, color_scheme=scheme))
        assert found.violations_count == 0, found.generate_report()
