"""Nothing private of one's own table is shown unasked: identifiers, free text and rare values, from file to page."""

import csv
import io
import itertools
import json
import re
import shlex
import shutil
import subprocess

import h5py
import numpy as np
import private_tables
import pytest
from command import call

import gpu_rsfd
from gpu_rsfd.datasets.base import withheld

ROWS = 600
RARE = {"HIV": {"yes": 2}, "blood": {"AB-": 7, "Bombay": 1}, "city": {"Nowhere": 4}}


def clinic(folder):
    """600 donors: an address, a note, and columns with rare values; `age` has one user of 104."""
    draw = np.random.Generator(np.random.Philox(27))
    columns = {
        "email": [f"donor{7919 * i % 10007}@example.org" for i in range(ROWS)],
        "note": [f"came at {i % 24} and spoke about case number {i} again" for i in range(ROWS)],
        "HIV": ["no"] * ROWS,
        "blood": draw.choice(["0+", "A+", "B+"], ROWS).tolist(),
        "city": draw.choice(["Bern", "Zug"], ROWS).tolist(),
        "age": [*draw.integers(18, 70, ROWS - 1).tolist(), 104],
    }
    for name, values in RARE.items():
        places = iter(draw.permutation(ROWS))
        for value, times in values.items():
            for _ in range(times):
                columns[name][next(places)] = value
    path = folder / "clinic.csv"
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    clinic(tmp_path)

    def command(*arguments):
        code = call(monkeypatch, *arguments)
        return (code, *capsys.readouterr())

    return command


USED = ["--exclude", "email,note", "--bins", "age=10"]
SECRETS = re.compile(r"@example|case number|\b104\b")


def test_numbers_of_rare_values_cannot_be_found_by_subtraction():
    draw = np.random.Generator(np.random.Philox(1))
    for k, least in itertools.product((1, 2, 3, 8), (1, 5, 10)):
        for _ in range(200):
            counts = draw.choice([0, 1, 3, 9, 10, 11, 500], k)
            hidden = withheld(counts, least)
            assert hidden[counts < least].all()
            if hidden.any() and k > 1:
                assert hidden.sum() > 1  # the total tells no number
                assert counts[hidden].sum() >= min(least, counts.sum())  # nor that all of them are small
    assert not withheld(np.array([10, 20, 30]), 10).any()


@pytest.mark.parametrize("command", ["plan", "sweep", "attack"])
def test_identifiers_and_free_text_are_refused(run, command):
    code, out, err = run(command, "--dataset", "clinic.csv")
    assert (code, out) == (2, "")
    assert "column 'email' looks like an identifier, with 600 values" in err
    assert "column 'note' looks like free text, with 600 values" in err
    assert "--exclude email" in err
    assert "--keep-identifiers note" in err
    assert not SECRETS.search(err)


@pytest.mark.slow
def test_data_names_them_and_proposes_what_works(run):
    code, out, err = run("data", "clinic.csv")
    assert (code, SECRETS.search(out + err)) == (0, None)
    assert re.search(r"^email +identifier +600 +– *$", out, re.M)
    proposed = shlex.split(out.splitlines()[-1])
    assert proposed == USED
    code, out, _ = run("data", "clinic.csv", *proposed)
    assert (code, "Resolve" in out, "Proposed" in out) == (0, False, False)
    assert re.search(r"^HIV +text +2 +– +no, yes$", out, re.M)  # 99.7 % would tell how many the others are
    assert run("data", "clinic.csv", *USED, "--min-count", "1")[1].count("yes 0.3%") == 1
    report = json.loads(run("data", "clinic.csv", *USED, "--json")[1])
    assert report["columns"][0]["commonest"] == [["no", None, None], ["yes", None, None]]


def test_codes_and_skewed_numbers(tmp_path):
    path = tmp_path / "t.csv"
    pay = [10 ** (i % 50 / 10) for i in range(900)]
    path.write_text(
        "zip,pay,year\n" + "".join(f"{80000 + 7 * (i % 40)},{x},{1950 + i % 45}\n" for i, x in enumerate(pay))
    )
    found = gpu_rsfd.describe(path)
    assert found.proposed == {"bins": {"pay": "10q", "year": "10"}}  # a postcode is no number
    assert not gpu_rsfd.describe(path, **found.proposed).problems
    path.write_text("id,x\n" + "".join(f"{i},{i % 2}\n" for i in range(900)))
    assert gpu_rsfd.describe(path).proposed == {"exclude": ["id"]}
    names = [f"name {i}" if i % 9 == 0 else "common" for i in range(900)]
    path.write_text("town,x\n" + "".join(f"{name},{i % 2}\n" for i, name in enumerate(names)))
    found = gpu_rsfd.describe(path).proposed
    assert found == {"group_rare": "0.5%"}
    assert gpu_rsfd.load_table(path, **found).domain == (2, 2)


@pytest.fixture
def swept(run):
    words = ["--protocol", "smp-oue", "--epsilon", "8", "--repetitions", "5", "--output", "c.h5"]
    code, out, err = run("sweep", "--dataset", "clinic.csv", *USED, *words, "--guarantee", "user")
    assert code == 0, err
    assert not SECRETS.search(out + err)
    return run


@pytest.mark.slow
def test_show_and_figures(swept):
    code, out, _ = swept("show", "c.h5")
    assert (code, "this file holds the true frequencies of clinic: keep it like the table itself" in out) == (0, True)
    _, out, _ = swept("show", "c.h5", "--per", "value")
    assert re.search(r"^ *yes +fewer than 10 +– +– … – +–$", out, re.M)  # an RMSE may be the truth: clipped to 0
    assert re.search(r"^ *no +not shown +– +– … – +–$", out, re.M)
    assert not SECRETS.search(out)
    assert len(re.findall(r"^ *(?:yes|AB-|Bombay|Nowhere) +fewer than 10 ", out, re.M)) == 4
    _, out, _ = swept("show", "c.h5", "--per", "value", "--csv")
    rare = [row for row in csv.DictReader(io.StringIO(out)) if row["frequency"] == "nan"]
    assert len(rare) >= 4
    assert {row[name] for row in rare for name in ("estimate", "low", "high", "rmse")} == {"nan"}
    _, out, _ = swept("show", "c.h5", "--per", "value", "--min-count", "0")
    assert re.search(r"^ *yes +0\.0033 ", out, re.M)
    assert swept("plot", "c.h5", "--attribute", "HIV", "--output", "hiv.svg")[0] == 0
    with h5py.File("c.h5") as file:
        assert b"keep it like the table itself" in file.attrs["contents"]
    _, out, _ = swept("sweep", "--dataset", "nursery", "--repetitions", "1", "--output", "n.h5", "--no-plot")
    assert "holds the true" not in swept("show", "n.h5")[1]


def test_a_single_result(swept, tmp_path):
    """What one data set's result shows in Python is what the command shows."""
    pytest.importorskip("pandas")
    result = gpu_rsfd.open_results("c.h5")["clinic"]
    frame = result.to_dataframe(per="value").set_index("value")
    assert frame.loc[["AB-", "Bombay"], ["frequency", "estimate", "low", "high", "rmse"]].isna().to_numpy().all()
    assert frame.loc["A+", "frequency"] > 0
    (axis,) = result.plot(attribute="HIV").axes
    drawn = [line.get_ydata() for line in axis.lines] + [patch.get_path().vertices for patch in axis.patches]
    truth = result.frequencies[result.domain.slices[result.names.index("HIV")]]
    assert not any(np.isclose(np.asarray(y, float), f, atol=1e-4).any() for y in drawn for f in truth)


@pytest.mark.slow
def test_the_page(swept, tmp_path):
    pytest.importorskip("vl_convert")
    assert swept("page", "c.h5")[0] == 0
    text = (tmp_path / "c.html").read_text("utf-8")
    assert not SECRETS.search(text)
    found = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
    assert found["contents"] == "This page holds the true frequencies of clinic: keep it like the table itself."
    (data,) = found["datasets"]
    offset = 0
    for name, k, labels in zip(data["attributes"], data["domain"], data["labels"], strict=True):
        truth = dict(zip(labels, data["truth"][offset : offset + k], strict=True))
        offset += k
        hidden = [label for label, share in truth.items() if share is None]
        assert set(RARE.get(name, {})) <= set(hidden)  # labels stay, numbers don't
        assert len(hidden) != 1  # else the others and the total would give it away
    assert swept("page", "c.h5", "--min-count", "0", "--output", "all.html")[0] == 0
    assert '"hidden":{}' in (tmp_path / "all.html").read_text("utf-8")


def test_identifiers_that_are_kept(run, tmp_path):
    pytest.importorskip("vl_convert")
    words = ["--protocol", "smp-oue", "--epsilon", "2", "--repetitions", "2", "--no-plot", "--quiet"]
    kept = [*USED[2:], "--exclude", "note", "--keep-identifiers", "email"]
    assert run("sweep", "--dataset", "clinic.csv", *kept, *words, "--output", "k.h5")[0] == 0
    assert run("page", "k.h5")[0] == 0
    assert "@example" not in (tmp_path / "k.html").read_text("utf-8")  # not even the labels
    frame = gpu_rsfd.load_table("clinic.csv", columns=["email", "city"], keep_identifiers=["email"])
    coded = np.stack([frame.column(j, 0, ROWS) for j in range(2)], axis=1)
    data = gpu_rsfd.Dataset(coded, frame.domain, frame.names, "coded", frame.labels)
    gpu_rsfd.sweep(data, protocols=["smp-oue"], epsilons=[1.0], repetitions=1, output="coded.h5")
    code, _, err = run("page", "coded.h5")
    assert (code, "column 'email' of coded looks like an identifier: sweep again with --exclude email" in err) == (
        2,
        True,
    )


@pytest.mark.slow
def test_nothing_computed_tells_the_share_of_a_rare_value(run, tmp_path):
    """With two values, an attacker's guesses, a closed form or a baseline would: as if 10 users held the rare one."""
    pytest.importorskip("vl_convert")
    words = [
        "--columns",
        "HIV",
        "--protocol",
        "smp-grr",
        "--epsilon",
        "0.5",
        "--repetitions",
        "3",
        "--quiet",
        "--no-plot",
    ]
    for command in ("sweep", "attack"):
        assert run(command, "--dataset", "clinic.csv", *words, "--output", f"{command}.h5")[0] == 0
    shown = run("show", "attack.h5")[1] + run("show", "attack.h5", "--csv")[1] + run("show", "attack.h5", "--json")[1]
    assert run("plot", "attack.h5", "--output", "attack.svg")[0] == 0
    axis = gpu_rsfd.open_results("attack.h5").plot().axes[1]
    drawn = [line.get_ydata()[0] for line in axis.lines if line.get_label() == "without a report"]
    assert drawn == pytest.approx([1 - 10 / ROWS])
    assert "without a report: 0.9833" in shown
    assert not re.search(r"0\.99[67]", shown)  # 598 of 600
    assert run("page", "sweep.h5", "--attack", "attack.h5")[0] == 0
    text = (tmp_path / "sweep.html").read_text("utf-8")
    (data,) = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])[
        "datasets"
    ]
    assert data["guessBaselines"]["value guessed"] == "Guessed without a report: 0.983."
    assert data["losses"]["value guessed"][0][0] == pytest.approx(1 - 10 / ROWS)  # it guesses "no" for everybody
    as_if = [10 / ROWS, 1 - 10 / ROWS]
    (wanted,) = data["errors"]["mse"]["none"]["theory"][0]
    assert f"A sample of 600 users without privacy: {as_if[0] * as_if[1] / ROWS:.3g}." in data["baselines"]["mse"]
    counted = gpu_rsfd.Dataset([[0]] * 10 + [[1]] * (ROWS - 10), (2,))
    assert wanted == pytest.approx(
        gpu_rsfd.theory.expected_mse("smp-grr", 0.5, ROWS, (2,), counted.frequencies), rel=1e-5
    )


def leaks(text, table):
    """What a text has that nobody may see: a value, or a rare value's share (or what is left of 1) as it is written."""
    found = [secret for secret in table.secrets if secret in text]
    for share in table.rare:
        each = [f"{share:.6g}", f"{1 - share:.6g}", f"{share:.4f}", f"{1 - share:.4f}", f"{100 * share:.2f}\u00a0%"]
        found += [number for number in each if re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", text)]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["voters", "tickets", "pupils"])
def test_nothing_private_from_file_to_page(run, tmp_path, name):
    """Terminal, stderr, figures (as SVG, which has their text), page and its embedded data: all are searched."""
    pytest.importorskip("vl_convert")
    table = getattr(private_tables, name)(tmp_path)
    assert leaks(f"{table.secrets[0]} {table.rare[0]:.4f}", table) == [table.secrets[0], f"{table.rare[0]:.4f}"]
    file, few = table.path.name, ["--epsilon", "1", "--protocol", "smp-adp,rsfd-adp", "--repetitions", "4"]
    texts = [run(command, "--dataset", file) for command in ("plan", "sweep", "attack")]
    assert all(code == 2 and "looks like" in err for code, _, err in texts)
    texts.append(run("data", file))
    assert tuple(shlex.split(texts[-1][1].splitlines()[-1])) == table.options
    given = [*table.options, "--guarantee", "user"]
    for words in (
        ["data", file, *table.options],
        ["plan", "--dataset", file, *given, "--epsilon", "1,2", "--plot", "plan.svg"],
        ["plan", "--dataset", file, *given, "--epsilon", "1,2", "--no-attack", "--json"],
        ["sweep", "--dataset", file, *given, *few, "--output", "s.h5", "--no-plot"],
        ["attack", "--dataset", file, *given, *few, "--output", "a.h5", "--no-plot"],
        *(["show", "s.h5", *more] for more in ([], ["--csv"], ["--latex"], ["--per", "attribute"], ["--per", "value"])),
        *(["show", "s.h5", "--per", "value", form] for form in ("--csv", "--json")),
        *(["show", "a.h5", *more] for more in ([], ["--csv"], ["--json"])),
        ["plot", "s.h5", "--output", "s.svg"],
        ["plot", "a.h5", "--output", "a.svg"],
        ["page", "s.h5", "--attack", "a.h5"],
    ):  # fmt: skip
        texts.append(run(*words))
        assert texts[-1][0] == 0, texts[-1][2]
    for i, column in enumerate(gpu_rsfd.open_results("s.h5")[name].names):
        texts.append(run("plot", "s.h5", "--attribute", column, "--output", f"{i}.svg"))
    for _, out, err in texts:
        assert leaks(out + err, table) == []
    written = sorted([*tmp_path.glob("*.svg"), tmp_path / "s.html"])
    assert len(written) >= 7
    for path in written:
        assert leaks(path.read_text("utf-8"), table) == [], path.name
    assert all("<!-- " in path.read_text("utf-8") for path in written if path.suffix == ".svg")  # their texts
    if shutil.which("pdftotext"):
        assert run("plot", "s.h5", "--output", "s.pdf")[0] == 0
        read = subprocess.run(["pdftotext", "s.pdf", "-"], capture_output=True, check=True).stdout.decode()
        assert leaks(read, table) == []


@pytest.mark.slow
def test_numbers_that_users_have_alone_are_not_listed(run, tmp_path):
    """Neither by `data` nor on a page, though a column of numbers is no identifier."""
    pytest.importorskip("vl_convert")
    private_tables.voters(tmp_path)
    _, out, _ = run("data", "voters.csv", "--columns", "party,income")
    assert re.search(r"^income +number +\d+ +–? *$", out, re.M)
    words = ["--columns", "party,income", "--protocol", "smp-oue", "--epsilon", "2", "--repetitions", "2", "--no-plot"]
    assert run("sweep", "--dataset", "voters.csv", *words, "--output", "v.h5")[0] == 0
    assert run("page", "v.h5")[0] == 0
    text = (tmp_path / "v.html").read_text("utf-8")
    assert "98765432" not in text
    assert '"void"' in text  # a label of a few words stays


def test_a_rare_value_of_a_later_round(run, tmp_path):
    """Three users, or six, turn `yes` in the last month: neither what is guessed nor what is spent says how many."""
    told = []
    words = ["--protocol", "spl-l-grr,smp-l-osue", "--epsilon", "1,20", "--attack", "--repetitions", "2", "--quiet"]
    for holders in (3, 6):
        rows = [f"no,no,{'yes' if i < holders else 'no'}" for i in range(ROWS)]
        (tmp_path / "flag.csv").write_text("\n".join(["f_1,f_2,f_3", *rows]))
        rounds = ["rounds", "flag.csv", "--rounds-in", "f=f_*", *words, "--output", "f.h5", "--overwrite"]
        assert run(*rounds)[0] == 0
        shown = run("show", "f.h5")[1]
        assert "without a report: 0.9833" in shown  # 590 of 600
        table = [*csv.DictReader(run("show", "f.h5", "--csv")[1].splitlines())]
        table = [{key: text for key, text in row.items() if not key.startswith("mse")} for row in table]
        result = gpu_rsfd.open_results("f.h5")["flag"]
        assert result.spent[0, 0, 0, -1, 0] != pytest.approx(result.spent[0, 0, 0, -1, 1])  # in the user's own file
        drawn = [line.get_ydata().tolist() for axis in result.plot().axes[1:] for line in axis.lines]
        attack = ["attack", "flag.csv", "--columns", "f_3", "--protocol", "smp-grr", "--epsilon", "1,20", "--quiet"]
        assert run(*attack, "--output", "a.h5", "--overwrite")[0] == 0
        told.append((table, drawn, run("show", "a.h5", "--csv")[1]))
    assert told[0] == told[1]


def test_a_few_users_guess_no_negative_share(run, tmp_path):
    """Nor less than one who knows nothing: all values of so small a table are rare."""
    (tmp_path / "few.csv").write_text("a,b\nx,1\ny,1\nx,2\n")
    words = ["--protocol", "rsfd-grr", "--epsilon", "1", "--repetitions", "2", "--output", "few.h5", "--quiet"]
    assert run("attack", "few.csv", *words)[0] == 0
    (row,) = csv.DictReader(run("show", "few.h5", "--csv")[1].splitlines())
    assert float(row["value_baseline"]) == 0.5
    assert float(row["value"]) >= 0
