"""`gpu-rsfd show`: tables, CSV, JSON, LaTeX, comparisons, closer looks; what is said where numbers are missing."""

import csv
import io
import json
import math
import re

import numpy as np
import pytest
from command import call, refusal
from runs import killed

import gpu_rsfd
from gpu_rsfd.results.result import Results
from gpu_rsfd.show import tables
from gpu_rsfd.show.rows import How, error_cells, select

PROTOCOLS = ["rsfd-grr", "rsfd-oue-z", "rsfd-adp", "spl-adp", "smp-adp"]
LABELS = [["no", "yes", "[maybe]"], ["a", "b", "c", "d"]]
SMP = ["smp-grr", "smp-oue", "smp-adp"]


def swept(data, path, **options):
    how = {"epsilons": 1.0, "repetitions": 5, "workers": 1, "backend": "numpy", **options}
    return gpu_rsfd.sweep(data, output=path, **how)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    codes = np.random.Generator(np.random.Philox(3)).integers(0, (3, 4), (2000, 2))
    data = gpu_rsfd.Dataset(codes, (3, 4), names=["answer", "group"], labels=LABELS, name="a_b & 50% {x}")
    path = tmp_path_factory.mktemp("shown") / "r.h5"
    swept(data, path, epsilons=[math.log(2), 1.0, 3.0], protocols=PROTOCOLS, repetitions=30, seed=5)
    return path


@pytest.fixture(scope="module")
def result(file):
    return gpu_rsfd.open_results(file)["a_b & 50% {x}"]


@pytest.fixture
def show(monkeypatch, capsys, file):
    def shown(*arguments, path=file):
        assert call(monkeypatch, "show", str(path), *arguments) == 0
        out = capsys.readouterr().out
        return list(csv.DictReader(io.StringIO(out))) if "--csv" in arguments else out

    return shown


def test_the_table(show, result):
    found, out = error_cells("", result, How()), show()
    heading, head, _, *lines, explained, contents = out.splitlines()
    assert contents == "this file holds the true frequencies of a_b & 50% {x}: keep it like the table itself"
    assert heading.startswith("a_b & 50% {x}: n = 2,000, d = 2, 30 repetitions; MSE_avg, postprocess=clip-normalize in")
    assert "guarantee: paper (unequal for Spl, Smp and RS+FD)" in heading
    assert head.split() == ["epsilon", "ln", "2", "1", "3"]
    unit = 10.0 ** int(re.search(r"in units of 1e([-+]\d+)", heading)[1])
    for p, line in enumerate(lines):
        label, *numbers = line.split()
        assert label == result.plan.looks[p].label
        assert [number.endswith("*") for number in numbers] == found.best[p].tolist()
        assert [float(n.partition("(")[0]) * unit for n in numbers] == pytest.approx(found.mean[p], rel=0.05)
    assert explained == (
        "(standard error of the last digits); * not significantly worse than the best in its column "
        "(paired differences, 95 %)"
    )


def test_rows(show, result):
    rows = show("--csv", "--postprocess", "none", "--metric", "mae")
    found = error_cells("", result, How("none", "mae"))
    assert [row["error"] for row in rows] == [str(x) for x in found.mean.ravel()]
    assert [row["standard_error"] for row in rows] == [str(x) for x in found.error.ravel()]
    assert [row["among_best"] for row in rows] == [str(x) for x in found.best.ravel()]
    assert {(row["metric"], row["postprocess"], row["repetitions"]) for row in rows} == {("mae", "none", "30")}
    assert {tuple(row[key] for key in ("guarantee", "assignment", "sampler", "seed")) for row in rows} == {
        ("paper", "uniform", "users", "5")
    }
    assert list(rows[0]) == [
        *("dataset", "users", "d", "k", "protocol", "label", "epsilon", "metric", "postprocess", "repetitions"),
        *("error", "standard_error", "expected_error", "expected_is_rough", "repetitions_with_estimate"),
        *("repetitions_with_every_estimate", "among_best", "source", "guarantee", "assignment", "sampler", "seed"),
    ]
    document = json.loads(show("--json", "--postprocess", "none"))
    assert document["complete"]
    assert document["spec"]["protocols"] == PROTOCOLS
    assert [row["error"] for row in document["rows"]] == pytest.approx(result.mse("none").mean(axis=-1).ravel())


def latex_cells(text):
    lines = [line for line in text.splitlines() if line.endswith(r" \\") and not line.startswith("protocol")]
    return [line.removesuffix(r" \\").split(" & ") for line in lines]


def test_latex(show, result, monkeypatch, capsys, file):
    text, found = show("--latex"), error_cells("", result, How())
    unit = int(re.search(r"\$\[10\^\{(-?\d+)\}\]\$", text)[1])
    assert r"$\varepsilon = \ln 2$ & $\varepsilon = 1$ & $\varepsilon = 3$ \\" in text
    assert r"\caption{a\_b \& 50\% \{x\}: n = 2,000" in text
    assert r"\label{tab:a-b-50-x}" in text
    for p, (label, *cells) in enumerate(latex_cells(text)):
        assert label == result.plan.looks[p].label
        for e, cell in enumerate(cells):
            assert cell.startswith(r"\textbf{") == bool(found.best[p, e])
            digits, _ = re.fullmatch(r"(?:\\textbf\{)?([\d.]+)\((\d+)\)\}?", cell).groups()
            assert float(digits) * 10.0**unit == pytest.approx(found.mean[p, e], rel=0.05)
    assert tables.in_latex(r"a_b & 50% {x} #1 $ ~ ^ \ <|> ") == (
        r"a\_b \& 50\% \{x\} \#1 \$ \textasciitilde{} \textasciicircum{} \textbackslash{} "
        r"\textless{}\textbar{}\textgreater{} "
    )
    assert [len(row) for row in latex_cells(show("--latex", "--protocol", "smp-adp", "--epsilon", "ln2"))] == [2]
    for given in (["--csv"], ["--per", "value"], ["--compare", "smp-adp,rsfd-grr"]):
        (line,) = refusal(monkeypatch, capsys, file.parent, ["show", "r.h5", "--latex", *given])
        assert "--latex" in line
        assert "exclude each other" in line


@pytest.mark.slow
def test_numbers_far_apart_have_their_own_power_of_ten(show, tmp_path):
    data = gpu_rsfd.CountedDataset.of_distribution(1000, (3,) * 10)
    far = {"epsilons": [0.001, 9.0], "protocols": ["spl-grr", "rsfd-grr"], "sampler": "marginals"}
    swept(data, tmp_path / "r.h5", **far)
    for postprocess in ("none", "clip"):
        header, _, _, *cells = show("--postprocess", postprocess, path=tmp_path / "r.h5").splitlines()
        assert "units" not in header
        for line in cells[:4]:
            assert all(sum(c.isdigit() for c in word) <= 9 and "e" in word for word in line.split()[1:]), line
    text = show("--latex", "--postprocess", "none", path=tmp_path / "r.h5")
    for cell in (cell for _, *row in latex_cells(text) for cell in row):
        assert re.fullmatch(r"(?:\\textbf\{)?\$[\d.]+\(\d+\) \\cdot 10\^\{-?\d+\}\$\}?", cell)


@pytest.mark.parametrize("mean,error,text", [
    (1.8671, 0.0996, "1.87(10)"), (1.8671, 0.00999, "1.867(10)"), (9.996, 0.94, "10.00(94)"),
    (12345.678, math.nan, "12345.7"), (1.5, 1e-15, "1.500"), (0.0, 0.0, "0.000"),
    (0.00212, math.nan, "0.00212"), (0.0451, 0.0, "0.0451"), (0.4567, math.nan, "0.457"),
])  # fmt: skip
def test_two_digits_of_the_error(mean, error, text):
    assert tables.concise(mean, error) == text


@pytest.mark.parametrize("mean,error,text", [
    (3.4251e-3, 7.2e-5, "3.425(72)e-03"), (3.4251e12, math.nan, "3.425e+12"), (1.0, 0.0, "1.000"),
    (math.nan, 1.0, "–"), (0.0, 0.0, "0.000"), (5e-324, math.nan, "0.000e-300"),
])  # fmt: skip
def test_cells_with_a_power_of_their_own(mean, error, text):
    assert tables.scientific(mean, error) == text


# ----------------------------------------------------------------------------------------------------- closer looks


def test_compare(show, result):
    pair = ("--compare", "rsfd-adp,smp-adp", "--postprocess", "none")
    rows, mse = show(*pair, "--csv"), result.mse("none")
    differences = mse[2] - mse[4]
    assert [float(row["difference"]) for row in rows] == pytest.approx(differences.mean(axis=-1))
    errors = differences.std(axis=-1, ddof=1) / math.sqrt(30)
    assert [float(row["standard_error"]) for row in rows] == pytest.approx(errors)
    assert json.loads(show(*pair, "--json"))["rows"][0]["against"] == "smp-adp"
    out = show(*pair)
    assert "MSE_avg of RS+FD[ADP] minus that of Smp[ADP], repetition by repetition" in out
    line = next(line for line in out.splitlines() if line.startswith("difference"))
    assert line.count("*") == sum(row["significantly_different"] == "True" for row in rows)
    assert "RS+FD[GRR]" not in out


def test_a_single_repetition_has_no_brackets(show, tmp_path):
    """Nor is an error said to be in them; and a column of RMSEs keeps its zeros."""
    swept(gpu_rsfd.SyntheticDataset(400, (3, 2), name="mine"), tmp_path / "r.h5", epsilons=1.0, repetitions=1)
    pair = ("--compare", "rsfd-adp,smp-adp")
    for more in ((), pair, ("--per", "attribute"), ("--latex",)):
        out = show(*more, path=tmp_path / "r.h5")
        assert "standard error of the last digits" not in out
        assert ("no standard errors" in out) == (more == pair)
    out = show("--per", "value", path=tmp_path / "r.h5")
    numbers = re.findall(r"\b0\.\d+", out)
    assert len(numbers) > 10
    assert all(len(number.lstrip("0.")) >= 3 for number in numbers if float(number)), numbers


def test_per_attribute(show, result):
    rows = show("--per", "attribute", "--postprocess", "none", "--csv")
    assert len(rows) == len(PROTOCOLS) * 3 * 2
    each = result.error_per_attribute("mse", "none")
    mine = next(r for r in rows if (r["protocol"], r["epsilon"], r["attribute"]) == ("smp-adp", "1.0", "group"))
    assert float(mine["error"]) == pytest.approx(each[4, 1, :, 1].mean())
    assert float(mine["standard_error"]) == pytest.approx(each[4, 1, :, 1].std(ddof=1) / math.sqrt(30))
    off = np.abs(result.estimates("none")[4, 1, :, 3:] - result.frequencies[3:])
    assert float(mine["largest_value_error"]) == pytest.approx(off.max(axis=-1).mean())
    table = show("--per", "attribute", "--epsilon", "ln2")
    assert table.count("  largest") == 2
    assert "answer (k = 3)" in table
    assert "RS+FD[GRR]" in table


def test_per_value(show, result):
    arguments = ("--per", "value", "--protocol", "rsfd-adp", "--epsilon", "1", "--postprocess", "none")
    rows, estimates = show(*arguments, "--csv"), result.estimates("none")[2, 1]
    assert [row["value"] for row in rows] == [*LABELS[0], *LABELS[1]]
    assert [float(row["estimate"]) for row in rows] == pytest.approx(estimates.mean(axis=0))
    half = 2.04523 * math.sqrt(1 + 1 / 30) * estimates.std(axis=0, ddof=1)
    assert [float(row["high"]) for row in rows] == pytest.approx(estimates.mean(axis=0) + half, rel=1e-4)
    table = show(*arguments)
    assert "[maybe]" in table
    assert "interval" in table
    assert "answer, ε = 1, RS+FD[ADP]" in table
    several = show("--per", "value", "--epsilon", "1")
    assert "interval" not in several.rpartition("a single --protocol")[0]
    assert "Smp[ADP]" in several


@pytest.mark.parametrize("options,shape", [
    ({"protocols": ["smp-adp", "rsfd-grr"]}, (2, 3)), ({"epsilons": [0.693, 3.0]}, (5, 2)),
    ({"protocols": ["spl-adp"], "epsilons": [1.0]}, (1, 1)), ({"datasets": ["mine"]}, (5, 3)),
])  # fmt: skip
def test_a_part_of_results(result, options, shape):
    part = select(Results({"mine": result, "other": result}), **options)["mine"]
    assert part.counts.shape[:2] == shape
    assert np.allclose(part.mse("clip"), part.error_per_attribute("mse", "clip").mean(axis=-1))
    for p, protocol in enumerate(part.protocols):
        for e, epsilon in enumerate(part.epsilons):
            whole = result.mse("none")[PROTOCOLS.index(protocol), result.epsilons.index(epsilon)]
            assert np.array_equal(part.mse("none")[p, e], whole)


@pytest.mark.parametrize("arguments,message", [
    (["--compare", "rsfd-adp"], "compare=rsfd-adp names 1; two protocols are needed, such as rsfd-adp,smp-adp"),
    (["--compare", "rsfd-adp,rsfd-adp"], "compare=rsfd-adp,rsfd-adp names the same protocol twice"),
    (["--compare", "rsfd-adp,mine"], "no protocol 'mine' in the results; protocols: rsfd-grr, rsfd-oue-z, rsfd-adp"),
    (["--compare", "a,b", "--per", "value"], "--compare and --per exclude each other"),
    (["--compare", "a,b", "--protocol", "a"], "--compare and --protocol exclude each other"),
    (["--min-count", "-1"], "min_count=-1 must be a whole number from 0 to"),
    (["--per", "user"], "per=user must be one of attribute, value"),
    (["--per", "value", "--metric", "mae"], "metric=mae is defined for a whole attribute"),
    (["--dataset", "syn9"], "no data set 'syn9' in the results; data sets: a_b & 50% {x}"),
    (["--protocol", "smp-grr"], "no protocol 'smp-grr' in the results; protocols: rsfd-grr"),
    (["--epsilon", "ln3"], "no epsilon 1.09861 in the results; epsilons: ln2, 1, 3"),
    (["--epsilon", "-1"], "epsilon=-1.0 must be"),
])  # fmt: skip
def test_bad_input_of_show(monkeypatch, capsys, file, arguments, message):
    assert message in refusal(monkeypatch, capsys, file.parent, ["show", "r.h5", *arguments])[-1]


# --------------------------------------------------------------------------------------------------- what is missing


@pytest.mark.slow
def test_how_many_repetitions_have_an_estimate(show, tmp_path):
    data = gpu_rsfd.SyntheticDataset(20, (3,) * 6, name="tiny")
    result = swept(data, tmp_path / "r.h5", protocols=["rsfd-grr", *SMP], repetitions=200)["tiny"]
    reported = result.reporters[1, 0] > 0
    complete, fewest = int(reported.all(axis=1).sum()), int(reported.sum(axis=0).min())
    assert complete < fewest < 200
    assert (
        f"Smp[GRR], Smp[OUE], Smp[ADP]: {complete} of 200 repetitions have an estimate of every attribute, "
        f"{fewest} of the attribute that fewest sampled" in show(path=tmp_path / "r.h5")
    )
    rows = show("--csv", path=tmp_path / "r.h5")
    assert [row["repetitions_with_estimate"] for row in rows] == ["200", *[str(fewest)] * 3]
    assert [row["repetitions_with_every_estimate"] for row in rows] == ["200", *[str(complete)] * 3]


def test_a_sweep_without_any_estimate_is_shown(show, tmp_path):
    data = gpu_rsfd.SyntheticDataset(3, (3,) * 4, name="nothing")
    swept(data, tmp_path / "r.h5", protocols="smp-grr", repetitions=2, assignment="balanced")
    for more in (["--postprocess", "none"], ["--postprocess", "clip"], [], ["--per", "attribute"], ["--per", "value"]):
        shown = show(*more, path=tmp_path / "r.h5")
        assert "nan" not in shown
        assert "–" in shown


def test_theory_is_shown_and_marked_where_it_is_rough(show, tmp_path):
    for n, marks in ((90, 4), (20_000, 0)):
        data = gpu_rsfd.SyntheticDataset(n, (3,) * 3, name="few")
        swept(data, tmp_path / f"{n}.h5", protocols=SMP)
        shown = show("--postprocess", "clip", path=tmp_path / f"{n}.h5")
        assert shown.count("  theory") == 3
        assert shown.count("~") == marks
        assert ("fewer than 20 expected reports" in shown) == (marks > 0)


def test_one_repetition_marks_the_smallest_and_says_so(show, tmp_path):
    data = gpu_rsfd.SyntheticDataset(500, (3, 4), name="one")
    swept(data, tmp_path / "r.h5", repetitions=1, protocols=["rsfd-grr", "rsfd-oue-z"])
    assert show(path=tmp_path / "r.h5").endswith("* the smallest in its column\n")
    assert show("--metric", "topk:2", path=tmp_path / "r.h5").endswith("* the largest in its column\n")
    assert "guarantee" not in show(path=tmp_path / "r.h5")  # both promise the same


@pytest.mark.slow
def test_errors_alone(show, tmp_path, monkeypatch, capsys):
    """`sweep --keep mse`: what needs errors alone is shown, the rest says what is missing."""
    data, path = gpu_rsfd.SyntheticDataset(300, (3, 4), seed=1, name="one"), tmp_path / "r.h5"
    swept(data, path, keep="mse", protocols=["rsfd-grr", "smp-adp"])
    assert "RS+FD[GRR]" in show("--postprocess", "clip", path=path)
    assert "difference" in show("--compare", "rsfd-grr,smp-adp", path=path)
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["show", "r.h5", "--metric", "mae"])
    assert "holds errors only (--keep mse)" in line
    results = gpu_rsfd.open_results(path)
    assert "RS+FD[GRR]" in results._repr_html_()
    assert select(results, protocols=["smp-adp"])["one"].mse("clip").shape == (1, 1, 5)


def test_a_killed_run_is_shown(show, tmp_path):
    killed(tmp_path / "r.h5", 3)
    shown = show(path=tmp_path / "r.h5")
    assert shown.startswith("This run is not finished; the same command resumes it.\nmine: n = 400, d = 2, 3 repet")
    assert {row["repetitions"] for row in show("--csv", path=tmp_path / "r.h5")} == {"3"}
    assert not json.loads(show("--json", path=tmp_path / "r.h5"))["complete"]
    assert "the file is not finished" in gpu_rsfd.open_results(tmp_path / "r.h5")._repr_html_()
