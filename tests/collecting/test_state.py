"""The aggregator: what reports tell, whatever else a file holds; states, and what is printed of them."""

import csv
import gzip
import io
import json

import numpy as np
import pytest
from command import call
from command import refusal as refused
from stats import normal_bound

import gpu_rsfd
from gpu_rsfd.collecting.collection import Client, State, collection

COLUMNS = {"sex": ["female", "male"], "age": "0:18:65:inf", "city": ["Graz", "Linz", "Wien", "Wels", "<b>"]}
RECORD = {"sex": "male", "age": 41, "city": "Wien"}


def refusal(monkeypatch, capsys, *words):
    """What the command says here."""
    (line,) = refused(monkeypatch, capsys, ".", list(words))
    return line


PROTOCOLS = ("smp-adp", "rsfd-grr", "rsfd-oue-r", "spl-hr", "spl-ss", "smp-oue")


def lines_of(made, n, **more):
    client = Client(made)
    return [json.dumps({**client.randomise(RECORD), **more}).encode() + b"\n" for _ in range(n)]


def counted(made, lines, tmp_path, **more):
    (tmp_path / "r.jsonl").write_bytes(b"".join(lines))
    state = State(made, **more)
    state.add(tmp_path / "r.jsonl")
    return state


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = collection(COLUMNS, "smp-adp", 2.0, title="Town & <country>")
    made.save("collection.json")
    for name, n in (("monday", 300), ("tuesday", 200)):
        lines = [json.dumps({**json.loads(line), "user": i % 150}) for i, line in enumerate(lines_of(made, n))]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reports_are_counted_as_aggregate_counts_them(protocol, tmp_path):
    made = collection(COLUMNS, protocol, 1.5)
    lines = lines_of(made, 400)
    state = counted(made, lines, tmp_path)
    bits = [json.loads(line)["report"] for line in lines]
    plain = [[[*map(int, y)] if isinstance(y, str) else y for y in report] for report in bits]
    usual = gpu_rsfd.aggregate(plain, protocol, 1.5, [m.k for m in made.mechanisms], guarantee="user")
    for against in ("users", "population"):
        found = state.aggregate(against, 0.9)
        usual = gpu_rsfd.aggregate(plain, protocol, 1.5, [2, 3, 5], guarantee="user", against=against, level=0.9)
        for name in ("counts", "reporters", "estimates", "standard_errors", "low", "high"):
            assert np.array_equal(getattr(found, name), getattr(usual, name))
    assert (found.n, found.bad, found.names) == (400, {}, ("sex", "age", "city"))
    halves = [counted(made, half, tmp_path) for half in (lines[:150], lines[150:])]
    for both in ((halves[0] + halves[1]).aggregate(), halves[0].aggregate() + halves[1].aggregate()):
        assert [*both.rows()] == [*state.aggregate().rows()]
    assert len(state.aggregate().to_dataframe()) == 10
    assert len(state.aggregate().plot().axes) == 3


def test_what_can_not_be_added(tmp_path):
    a, b = (collection(COLUMNS, "smp-grr", epsilon) for epsilon in (1.0, 2.0))
    one, other = (counted(made, lines_of(made, 150), tmp_path) for made in (a, b))
    with pytest.raises(gpu_rsfd.InputError, match="two collections"):
        one + other
    with pytest.raises(gpu_rsfd.InputError, match="can't be added"):
        one.aggregate() + other.aggregate()
    with pytest.raises(gpu_rsfd.InputError, match="can't be added"):
        one.aggregate() + one.aggregate(level=0.9)
    with pytest.raises(gpu_rsfd.InputError, match="twice"):
        one + one


def hostile(made, protocol):
    """Lines that are no reports of a collection, by the reason that is given."""
    client, other = Client(made), Client(collection(COLUMNS, protocol, 2.5))
    good = client.randomise(RECORD)
    text, report = json.dumps(good), good["report"]

    def changed(entry, place=-1):
        new = [*report]
        new[place] = entry
        return json.dumps({**good, "report": new})

    wrong = [-1, 99, 2**70, 10**400, 1.0, 1e999, True, None, [], {}, "", "2", "0" * 99, "é", "٠٠٠٠٠", [0], "nan"]
    yield "not made by a client", [changed(entry) for entry in wrong]
    yield "not made by a client", [changed(entry, 0) for entry in [-1, 99, 2**70, 0.0, True, None, "x", [[]]]]
    yield "not made by a client", [changed(float("nan")), changed(float("inf"))]
    yield "not made by a client", [json.dumps({**good, "report": other}) for other in ([], report[:1], [*report, 0])]
    yield "not a report", [json.dumps({**good, "report": other}) for other in (None, {}, "00", 3)]
    yield "not a report", ["[]", "3", "null", json.dumps({"collection": made.identity}), f"[{text}]"]
    yield "of another collection", [json.dumps(other.randomise(RECORD)), json.dumps({"report": report})]
    yield "of another collection", [json.dumps({**good, "collection": x}) for x in (None, [made.identity], "")]
    yield "not JSON", [text[:-3], text + text, text + "]", "{", "nan", text.replace('"', "'"), "\ufeff" + text]
    yield "not JSON", [text[:-1] + f', "report": {json.dumps(report)}}}', '{"a": 1, "a": 1}']
    yield "not JSON", [text.encode("utf-16"), text.encode() + b"\xff", b"\0" * 50, b'{"report": "\xff"}']
    deep = "[" * 100_000
    yield (
        "too long, or with too many brackets",
        [deep, "{" * 1000, json.dumps({**good, "x": [[[]]] * 9}), text + " " * 10**6],
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_hostile_lines_are_counted_and_never_used(protocol, tmp_path):
    made = collection(COLUMNS, protocol, 2.0)
    good = lines_of(made, 120)
    clean = counted(made, good, tmp_path)
    expected, lines = {}, [*good[:60]]
    for reason, bad in hostile(made, protocol):
        expected[reason] = expected.get(reason, 0) + len(bad)
        lines += [(line if isinstance(line, bytes) else line.encode()) + b"\n" for line in bad]
    lines = [*lines, b"\n", b" \n", *good[60:119], good[119].rstrip(b"\n")]
    utf16 = '{"'.encode("utf-16")[:2]
    assert utf16 in b"".join(lines)
    state = counted(made, lines, tmp_path)
    found = dict(state.bad)
    assert found.pop("not JSON") >= expected.pop("not JSON")  # a newline inside UTF-16 cuts it
    assert found == expected
    assert state.n == clean.n == 120
    assert [h.tolist() for h in state.heard] == [h.tolist() for h in clean.heard]


def test_nothing_that_can_be_used(tmp_path):
    made = collection(COLUMNS, "smp-grr", 2.0)
    with pytest.raises(gpu_rsfd.InputError, match="no report could be used; left out: 2 not JSON"):
        counted(made, [b"x\n", b"y"], tmp_path).aggregate()


def test_a_repeated_user_counts_once_and_is_never_kept(tmp_path):
    made = collection(COLUMNS, "spl-grr", 2.0)
    good = [json.loads(line) for line in lines_of(made, 6)]
    users = ["a", "b", "a", 1, "1", "\ud800"]
    lines = [json.dumps({**g, "user": u}).encode() + b"\n" for g, u in zip(good, users, strict=True)]
    broken = json.dumps({**good[0], "report": [0], "user": "c"}).encode() + b"\n"
    more = [json.dumps({**good[0], "user": u}).encode() + b"\n" for u in ("c", "b", "", None, True, 1.5, [1])]
    state = counted(made, [*lines, broken, *more], tmp_path, id="user")
    assert state.n == 6  # a, b, 1, "1", a lone surrogate, and c, whose first report was no report
    assert state.bad == {"of a user who has reported before": 2, "without the user's identifier": 5,
                         "not made by a client": 1}  # fmt: skip
    state.add(tmp_path / "r.jsonl")
    assert state.n == 6  # in another file, too
    state.save(tmp_path / "s.state")
    text = (tmp_path / "s.state").read_text()
    assert '"c"' not in text
    assert "surrogate" not in text
    again = State.read(tmp_path / "s.state", id="user")
    again.add(tmp_path / "r.jsonl")
    assert again.n == 12  # as is said: across states nobody is known


@pytest.mark.slow
def test_states_are_saved_merged_and_continued(here, monkeypatch, capsys):
    assert call(monkeypatch, "aggregate", "collection.json", "monday.jsonl", "--state", "m.state", "--json") == 0
    assert call(monkeypatch, "aggregate", "collection.json", "tuesday.jsonl", "--state", "t.state", "--json") == 0
    capsys.readouterr()
    rows = []
    for words in (
        ["m.state", "t.state"],
        ["m.state", "tuesday.jsonl"],
        ["collection.json", "monday.jsonl", "tuesday.jsonl"],
    ):
        assert call(monkeypatch, "aggregate", *words, "--json") == 0
        rows.append(json.loads(capsys.readouterr().out)["rows"])
    assert rows[0] == rows[1] == rows[2]
    assert call(monkeypatch, "aggregate", "m.state", "tuesday.jsonl", "--state", "m.state") == 0  # continued in place
    assert State.read("m.state").n == 500
    for words, why in [
        (["m.state", "t.state", "m.state"], "files=m.state t.state m.state must be different"),
        (["monday.jsonl"], "files=monday.jsonl must be different, one at least a .json"),
        (["t.state", "--state", "m.state"], "exist only if it is one of the files"),
        (["t.state", "--state", "m.json"], "must end in .state"),
        (["none.state"], "No such file"),
        (["collection.json", "none.jsonl"], "No such file"),
        (["collection.json", "."], "Is a directory"),
        (["collection.json", "t.state", "--level", "2"], "level=2.0"),
        (["t.state", "--postprocess", "x"], "unknown"),
        (["t.state", "--page", "x.txt"], "page=x.txt must end in .html"),
    ]:
        assert why in refusal(monkeypatch, capsys, "aggregate", *words), words
    assert State.read("m.state").n == 500
    for words in (["--level", "2"], ["--postprocess", "x"], ["--page", "x.txt"], ["--page", "none/x.html"]):
        refusal(monkeypatch, capsys, "aggregate", "collection.json", "monday.jsonl", "--state", "new.state", *words)
        assert not (here / "new.state").exists()
    (here / "copy.state").write_bytes((here / "t.state").read_bytes())
    assert "there twice" in refusal(monkeypatch, capsys, "aggregate", "t.state", "copy.state")


@pytest.mark.slow
def test_a_damaged_state_is_refused(here, monkeypatch, capsys):
    call(monkeypatch, "aggregate", "collection.json", "monday.jsonl", "--state", "m.state")
    content = (here / "m.state").read_bytes()
    for at in range(0, len(content), 397):
        (here / "m.state").write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        assert "m.state can't be used" in refusal(monkeypatch, capsys, "aggregate", "m.state")
    (here / "m.state").write_bytes((here / "collection.json").read_bytes())
    assert "not a 'gpu-rsfd state 1'" in refusal(monkeypatch, capsys, "aggregate", "m.state")


@pytest.mark.slow
def test_packed_and_truncated_files(here, monkeypatch, capsys):
    plain = (here / "monday.jsonl").read_bytes()
    packed = gzip.compress(plain)
    (here / "m.jsonl.gz").write_bytes(packed)
    assert call(monkeypatch, "aggregate", "collection.json", "m.jsonl.gz", "--json") == 0
    assert json.loads(capsys.readouterr().out)["reports"] == 300
    for broken in (packed[:-9], packed[: len(packed) // 2], packed[:-5] + b"12345", plain, b""[:0] + packed[:5]):
        (here / "m.jsonl.gz").write_bytes(broken)
        said = refusal(monkeypatch, capsys, "aggregate", "collection.json", "m.jsonl.gz", "--state", "m.state")
        assert "m.jsonl.gz can't be read to its end" in said
        assert not (here / "m.state").exists()
    (here / "cut.jsonl").write_bytes(plain[:-20])
    assert call(monkeypatch, "aggregate", "collection.json", "cut.jsonl", "--json") == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == {"not JSON": 1}


@pytest.mark.slow
def test_what_is_printed(here, monkeypatch, capsys):
    words = ["aggregate", "collection.json", "monday.jsonl", "--against", "population", "--postprocess", "simplex"]
    monkeypatch.setenv("COLUMNS", "40")
    assert call(monkeypatch, *words) == 0
    assert capsys.readouterr().out.count(" %") == 10 * 4 + 1  # nothing is cut in a narrow terminal
    assert call(monkeypatch, *words, "--page", "p.html", "--csv") == 0
    rows = [*csv.DictReader(io.StringIO(capsys.readouterr().out))]
    assert [*rows[0]] == [
        "attribute",
        "value",
        "count",
        "reporters",
        "estimate",
        "standard_error",
        "low",
        "high",
        "simplex",
    ]
    assert (rows[-1]["attribute"], rows[-1]["value"], len(rows)) == ("city", "<b>", 10)
    assert sum(float(row["simplex"]) for row in rows) == pytest.approx(3)
    page = (here / "p.html").read_text()
    assert "Town & <country>" not in page
    assert "Town & \\u003ccountry>" in page
    assert call(monkeypatch, *words, "--page", "p.html") == 0  # its own page is replaced
    said = capsys.readouterr().out
    for part in (
        "300 reports of smp-adp, epsilon = 2, guarantee user",
        "left out: none",
        "simplex",
        "Wien",
        "random sample",
    ):
        assert part in said
    (here / "mine.html").write_text("mine")
    assert "was not made by gpu-rsfd" in refusal(monkeypatch, capsys, *words, "--page", "mine.html")


def test_bits_that_no_client_sets_are_told_but_do_not_stop_a_collection(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = collection({"a": ["x", "y", "z"]}, "spl-oue", 1.0)
    made.save("c.json")
    lie = json.dumps({"collection": made.identity, "report": ["111"]})
    (tmp_path / "r.jsonl").write_text("\n".join([lie] * 200))
    assert call(monkeypatch, "aggregate", "c.json", "r.jsonl") == 0
    assert "warning: the reports of 'a' have 3 bits set on average" in capsys.readouterr().err


@pytest.mark.slow
def test_intervals_of_collections_hold_the_truth(tmp_path):
    """From records to intervals; benchmarks/collected.py has more collections and protocols."""
    rng = np.random.default_rng(5)
    rounds, n = 60, 300
    for protocol in ("smp-grr", "rsfd-oue-z"):
        made, held = collection({"a": ["x", "y", "z"], "b": ["u", "v"]}, protocol, 2.0), 0
        codes = np.stack([rng.integers(3, size=n), rng.integers(2, size=n)], axis=1)
        truth = np.concatenate([np.bincount(codes[:, j], minlength=k) / n for j, k in enumerate((3, 2))])
        for _ in range(rounds):
            words = rng.integers(2**32, size=(n, made.words), dtype=np.uint32)
            reports = made.reports(codes.tolist(), words)
            lines = [json.dumps({"collection": made.identity, "report": r}).encode() + b"\n" for r in reports]
            found = counted(made, lines, tmp_path).aggregate()
            held += ((found.low <= truth) & (truth <= found.high)).sum()
        cells = 5 * rounds
        # values of a column are dependent, so their variance is at most that of as many columns
        assert abs(held / cells - 0.95) < normal_bound(1) * np.sqrt(0.05 * 0.95 / (2 * rounds)), protocol


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{'f' if i % 3 else 'm'},{i % 90},{'' if i % 10 == 0 else 'x' if i % 2 else 'y'}" for i in range(600)]
    (tmp_path / "people.csv").write_text("sex,age,city\n" + "\n".join(rows) + "\n")
    (tmp_path / "domain.json").write_text(json.dumps({"sex": ["f", "m", "other"], "city": ["y", "x"]}))
    return tmp_path


@pytest.mark.slow
def test_from_a_table_to_the_estimates(people, monkeypatch, capsys):
    plan = ["plan", "people.csv", "--no-attack", "--quiet", "--epsilon", "3", "--save", "c.json"]
    declared = ["--domain-file", "domain.json", "--bins", "age=0:18:65:inf"]
    assert call(monkeypatch, *plan, *declared) == 0
    said = capsys.readouterr()
    assert "c.json written" in said.err
    made = gpu_rsfd.Collection.read("c.json")
    assert [column.labels for column in made.columns] == [
        ("f", "m", "other"), ("[0, 18)", "[18, 65)", "[65, inf]"), ("y", "x", "(missing)"),
    ]  # fmt: skip
    assert (made.epsilon, made.guarantee, made.columns[2].missing) == (3.0, "user", "(missing)")
    assert made.text == gpu_rsfd.collection(  # nothing in it is of the table but its name
        {"sex": ["f", "m", "other"], "age": "0:18:65:inf", "city": ["y", "x"]}, made.protocol, 3.0,
        missing={"city": "(missing)"}, title="people",
    ).text  # fmt: skip
    assert call(monkeypatch, "rehearse", "c.json", "people.csv", "--json") == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["reports"] == 600
    assert "of 9 intervals hold the table's own share" in said.err
    share = {(row["attribute"], row["value"]): row for row in document["rows"]}
    assert abs(share["sex", "f"]["estimate"] - 2 / 3) < 6 * share["sex", "f"]["standard_error"]
    lines = (people / "rehearsal.jsonl").read_text().splitlines()
    assert all(json.loads(line).keys() == {"collection", "report"} for line in lines)
    assert len(lines) == 600
    for words, why in [
        (["rehearse", "c.json", "--dataset", "people.csv"], "rehearsal.jsonl exists"),
        (["rehearse", "c.json"], "one table is needed, such as: gpu-rsfd rehearse collection.json people.csv"),
        (["rehearse", "c.json", "people.csv", "--dataset", "people.csv"], "one table is needed"),
        (["rehearse", "c.json", "--dataset", "people.csv", "--output", "o", "--level", "2"], "level=2.0"),
        (["rehearse", "c.json", "--dataset", "people.csv", "--output", "o", "--page", "o.txt"], "must end in .html"),
        (["rehearse", "c.json", "--dataset", "people.csv", "--output", "o", "--csv", "--json"], "exclude each other"),
        (["rehearse", "c.json", "--dataset", "none.csv", "--output", "o"], "none.csv does not exist"),
        (["rehearse", "domain.json", "--dataset", "people.csv", "--output", "o"], "can't be used"),
        ([*plan[:-1], "d.json"], "'sex' are what the table holds"),
        ([*plan[:-1], "d.json", "--domain-file", "domain.json", "--bins", "age=5"], "a collection needs edges"),
        ([*plan[:-1], "d.json", "--domain-file", "domain.json", "--bins", "age=5q"], "a collection needs edges"),
        ([*plan, *declared, "--guarantee", "attribute"], "c.json exists and is another file"),
        ([*plan, *declared, "--users", "100,200"], "--plot and --save are for one"),
    ]:
        assert call(monkeypatch, *words) == 2, words
        assert why in capsys.readouterr().err.splitlines()[-1], words
        assert not (people / "d.json").exists()
        assert not (people / "o").exists()


def test_a_rehearsal_takes_what_the_client_takes(people, monkeypatch, capsys):
    (people / "people.csv").write_text("sex;age\n" + "f;17,5\nm;65\nx;\n;abc\nf;-1\n" * 30)
    collection({"sex": ["f", "m"], "age": "0:18:65:inf"}, "spl-grr", 30.0, missing="?").save("c.json")
    assert call(monkeypatch, "rehearse", "c.json", "--dataset", "people.csv", "--decimal", ",", "--json") == 0
    counts = [row["count"] for row in json.loads(capsys.readouterr().out)["rows"]]
    assert counts == [60, 30, 60, 30, 0, 30, 90]
    collection({"sex": ["f", "m"], "age": "0:18:65:inf"}, "spl-grr", 30.0).save("d.json")
    words = ["rehearse", "d.json", "--dataset", "people.csv", "--output", "o", "--decimal", ","]
    said = refusal(monkeypatch, capsys, *words)
    assert "column 'sex' has no value, or none that the collection knows; valid: f, m" in said
    assert not (people / "o").exists()
