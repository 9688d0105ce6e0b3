"""The client in JavaScript against the test vectors, and the page of estimates, in a real browser."""

import json
import os
import shutil
from pathlib import Path

import pytest
from command import call

import gpu_rsfd

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
BROWSER = os.environ.get("GPU_RSFD_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
if BROWSER is None:
    pytest.skip("no Chromium on this machine (apt install chromium)", allow_module_level=True)
CLIENT = Path(__file__).parents[2] / "examples" / "client.js"
COLUMNS = {"sex": ["female", "</script><b>"], "age": "-inf:0:18:65:inf", "city": ["Graz", "Wien", "none"]}
MISSING = {"city": "none", "age": "no answer"}


@pytest.fixture(scope="module")
def page():
    with sync_api.sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser.new_context(offline=True).new_page()
        browser.close()


def test_the_client_in_the_docs(page):
    source = CLIENT.read_text(encoding="utf-8")
    made = gpu_rsfd.collection(COLUMNS, "smp-grr", 1.0, missing=MISSING)
    page.goto("about:blank")
    page.evaluate(f"() => {{ {source}\nObject.assign(globalThis, {{ check, randomise, place }}); }}")
    document = json.loads(made.text)
    assert page.evaluate("collection => check(collection)", document) is None
    for value in (-5, 0, 17.9, 18, 64, 65, 1e9, "[0, 18)", "x", None):
        code = page.evaluate("([column, value]) => place(column, value)", [document["columns"][1], value])
        assert code == made.columns[1].code(value)
    client_of = (
        "collection => Array.from({length: 40}, () => randomise(collection, {sex: 'female', age: 3, city: 'Wien'}))"
    )
    reports = page.evaluate(client_of, document)
    assert len({json.dumps(report) for report in reports}) > 3
    assert {report["collection"] for report in reports} == {made.identity}
    for column in document["columns"]:
        column["integers"][0] -= 1
    with pytest.raises(sync_api.Error, match="wrong report"):
        page.evaluate("collection => check(collection)", document)
    other = json.loads(gpu_rsfd.collection(COLUMNS, "rsfd-oue-z", 1.0, missing=MISSING).text)
    with pytest.raises(sync_api.Error, match="knows Smp"):
        page.evaluate("collection => check(collection)", other)


def test_the_page_of_estimates(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = gpu_rsfd.collection(COLUMNS, "smp-grr", 3.0, missing=MISSING, title="</script><i>Town</i>")
    made.save("c.json")
    client = gpu_rsfd.Client(made)
    lines = [json.dumps(client.randomise({"sex": "female", "age": 30, "city": "Wien"})) for _ in range(400)]
    Path("r.jsonl").write_text("\n".join([*lines, "x"]))
    assert call(monkeypatch, "aggregate", "c.json", "r.jsonl", "--page", "p.html", "--postprocess", "simplex") == 0
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((tmp_path / "p.html").as_uri())
    assert said == []
    assert page.text_content("h1") == "</script><i>Town</i>"
    assert page.text_content("#left") == "Left out: 1 not JSON."
    state = gpu_rsfd.State(made)
    state.add("r.jsonl")
    rows = [*state.aggregate().rows()]
    shown = [line.all_text_contents()[0] for line in map(page.locator("tbody tr th").nth, range(len(rows)))]
    assert shown == [row["value"] for row in rows]
    shares = page.locator("tbody tr td:nth-child(2)").all_text_contents()
    assert shares == [f"{100 * row['estimate']:.2f} %" for row in rows]
    assert page.locator("td.bar svg rect").count() == len(rows)
    assert page.locator("table").count() == 3
