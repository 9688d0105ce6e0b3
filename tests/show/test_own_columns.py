"""Whatever a measurement records is shown: tables, CSV, JSON, LaTeX, notebook, data frames, figures; also where its
class is not known."""

import csv
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from command import call, refusal

import gpu_rsfd
from gpu_rsfd import Column

CELLS = {"protocols": ["rsfd-grr", "smp-adp"], "epsilons": [1.0, 2.0], "repetitions": 7, "workers": 1}


@dataclass(frozen=True)
class Growing(gpu_rsfd.Measurement):
    """Support of the first value, times 1 ... steps."""

    steps: int = 3
    arrays = {"support": ("step",)}
    columns = {"support": "support of the first value"}

    def coords(self):
        return {"step": range(1, self.steps + 1)}

    def measure(self, view):
        counts, reporters = view.counts()
        return {"support": counts[..., :1] / reporters[..., :1] * np.arange(1, self.steps + 1)}


@dataclass(frozen=True)
class Several(gpu_rsfd.Measurement):
    """Columns with and without axes, marked and not, worked out from others, and the errors of estimates."""

    arrays = {"counts": ("value",), "reporters": ("attribute",), "gap": ("part",), "used": ("attribute",)}
    columns = {
        "error": Column("error", "smaller"),
        "gap": Column("gap of [each] part", "smaller", baseline=0.25, axis="gap"),
        "used": Column("share of users", "larger", field="share"),
        "twice": Column("twice the share", of=lambda result: 2 * result.used[..., 0]),
    }

    def coords(self):
        return {"part": ["first", "second"]}

    def measure(self, view):
        counts, reporters = view.counts()
        share = reporters / view.data.n
        ends = np.stack([counts[..., 0], counts[..., -1]], axis=-1) / view.data.n
        return {"counts": counts, "reporters": reporters, "gap": ends, "used": share}


@dataclass(frozen=True)
class Named(gpu_rsfd.Measurement):
    """Columns named like those of attacks and rounds, a baseline that is an array, options with commas."""

    words: str = "a, b"
    shares: tuple = (0.1, 0.2)
    arrays = {"value_success": (), "spent_seconds": (), "score": ("step",), "chance": ("step",)}
    columns = {
        "value_success": "hits",
        "spent_seconds": "seconds",
        "score": Column("score", "larger", baseline="chance", over="step"),
    }

    def coords(self):
        return {"step": [1, 2]}

    def measure(self, view):
        one = np.ones(view.counts()[0].shape[:3])
        steps = one[..., None] * [0.25, 0.5]
        return {"value_success": 0.1234 * one, "spent_seconds": 0.0012 * one, "score": 2 * steps, "chance": steps}


DATA = gpu_rsfd.SyntheticDataset(900, (3, 4), "zipf:1", name="mine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    gpu_rsfd.run(Growing(steps=4), DATA, **CELLS, output=folder / "mine.h5")
    gpu_rsfd.run(Several(), DATA, **CELLS, output=folder / "several.h5")
    return folder


@pytest.fixture(scope="module")
def result(folder):
    """As another process reads it, which does not know the class."""
    return gpu_rsfd.open_results(folder / "mine.h5")["mine"]


@pytest.fixture
def show(monkeypatch, capsys, folder):
    def shown(*arguments):
        monkeypatch.chdir(folder)
        assert call(monkeypatch, "show", *arguments) == 0
        out = capsys.readouterr().out
        return list(csv.DictReader(io.StringIO(out))) if "--csv" in arguments else out

    return shown


def test_the_table_has_a_line_for_each_coordinate(show, result):
    heading, head, _, *lines, explained = show("mine.h5").splitlines()
    assert heading.startswith("mine: n = 900, d = 2, 7 repetitions; steps=4; support of the first value; data: ")
    assert head.split() == ["epsilon", "1", "2"]
    assert [line.split("  ")[0] for line in lines if not line.startswith(" ")] == ["RS+FD[GRR]", "Smp[ADP]"]
    assert lines[1].split()[:3] == ["step", "=", "1"]
    numbers = [[float(x.partition("(")[0]) for x in line.split()[3:]] for line in lines if line.startswith(" ")]
    means = np.moveaxis(result.support.mean(axis=2), 1, -1).reshape(8, 2)
    assert np.allclose(numbers, means, rtol=0.02)
    assert explained == "(standard error of the last digits)"  # nothing says which numbers are better


def test_rows(show, result):
    rows = show("mine.h5", "--csv")
    assert list(rows[0]) == [
        *("dataset", "users", "d", "k", "protocol", "label", "epsilon", "steps", "repetitions", "step"),
        *("support", "support_error", "source", "guarantee", "assignment", "sampler", "seed"),
    ]
    assert [row["step"] for row in rows[:4]] == ["1", "2", "3", "4"]
    assert [float(row["support"]) for row in rows] == pytest.approx(result.support.mean(axis=2).ravel())
    spread = result.support.std(axis=2, ddof=1).ravel() / np.sqrt(7)
    assert [float(row["support_error"]) for row in rows] == pytest.approx(spread)
    document = json.loads(show("mine.h5", "--json", "--protocol", "smp-adp", "--epsilon", "2"))
    assert [row["step"] for row in document["rows"]] == [1, 2, 3, 4]
    assert document["spec"]["measurement"] == "Growing"


def test_latex_and_html(show, result):
    text = show("mine.h5", "--latex")
    assert text.count(r"\begin{table}") == 1
    assert "RS+FD[GRR] &  & " in text
    assert text.count(r"\quad step = 3 & ") == 2
    assert "Bold" not in text
    html = result._repr_html_()
    assert html.count("<tr>") == 1 + 2 * 5
    assert "support of the first value" in html
    assert "<b>" not in html


def test_compared(show, result):
    rows = show("mine.h5", "--compare", "rsfd-grr,smp-adp", "--csv")
    assert [(row["column"], row["step"], row["epsilon"]) for row in rows][:3] == [
        *(("support", "1", "1.0"), ("support", "1", "2.0"), ("support", "2", "1.0")),
    ]
    difference = (result.support[0] - result.support[1]).mean(axis=1)  # [epsilon, step]
    assert [float(row["difference"]) for row in rows] == pytest.approx(difference.T.ravel())
    assert show("mine.h5", "--compare", "rsfd-grr,smp-adp").count("difference") == 4


def test_data_frames_and_xarray(result):
    pytest.importorskip("pandas")
    frame = result.to_dataframe()
    assert frame.step.tolist()[:4] == [1, 2, 3, 4]
    assert frame.support.tolist() == pytest.approx(result.support.mean(axis=2).ravel())
    each = result.to_dataframe("repetition")
    assert len(each) == result.support.size
    assert np.array_equal(each.support.to_numpy().reshape(2, 2, 7, 4), result.support)
    with pytest.raises(gpu_rsfd.InputError, match="the result has no reporters"):
        result.to_dataframe("attribute")
    pytest.importorskip("xarray")
    found = result.to_xarray()
    assert found.support.dims == ("protocol", "epsilon", "repetition", "step")
    assert found.step.values.tolist() == [1, 2, 3, 4]


@pytest.mark.slow
def test_figures(result, folder):
    figure = result.plot()
    assert [axis.get_title() for axis in figure.axes] == ["mine: ε = 1", "ε = 2"]
    assert [axis.get_xlabel() for axis in figure.axes] == ["step"] * 2
    assert figure.axes[0].get_ylabel() == "support of the first value"
    line = figure.axes[1].containers[1].lines[0]
    assert line.get_xdata().tolist() == [1, 2, 3, 4]
    assert np.allclose(line.get_ydata(), result.support[1, 1].mean(axis=0))
    assert figure.axes[0].get_yscale() == "linear"
    against = result.plot(x="epsilon")
    assert [axis.get_title() for axis in against.axes] == ["mine: step = 1", *(f"step = {step}" for step in (2, 3, 4))]
    with pytest.raises(gpu_rsfd.InputError, match="x=stop must be one of auto, epsilon, n, d, k, step"):
        result.plot(x="stop")


@pytest.mark.slow
def test_in_a_process_that_does_not_know_the_class(folder):
    code = """import gpu_rsfd
r = gpu_rsfd.open_results("mine.h5")["mine"]
print(r.columns["support"].label, r.coords["step"], "step = 4" in r._repr_html_())
print(len(r.to_dataframe()), len(r.plot().axes))"""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "support of the first value [1, 2, 3, 4] True\n16 2\n"
    for command in (["show", "mine.h5"], ["plot", "mine.h5", "--output", "f.png"]):
        subprocess.run([sys.executable, "-m", "gpu_rsfd", *command], cwd=folder, capture_output=True, check=True)
    assert Path(folder, "f.png").stat().st_size > 10_000


def test_several_columns(show):
    out = show("several.h5")
    assert out.count("epsilon ") == 3
    assert "\ngap of [each] part; without a report: 0.2500\n" in out
    assert "in its column, part by part, attribute by attribute (paired differences, 95 %)" in out
    assert "  part = first " in out
    assert "  attribute = A1 " in out
    rows = show("several.h5", "--csv")
    assert {(row["part"], row["attribute"]) for row in rows} == {
        *(("", ""), ("first", ""), ("second", ""), ("", "A1"), ("", "A2")),
    }
    assert {row["error"] != "" for row in rows if not row["part"] and not row["attribute"]} == {True}
    assert {row["gap_baseline"] for row in rows if row["part"]} == {"0.25"}
    assert {row["share"] for row in rows if row["attribute"] and row["protocol"] == "rsfd-grr"} == {"1.0"}
    text = show("several.h5", "--latex")
    assert all(rf"\label{{tab:mine-{name}}}" in text for name in ("mse", "gap", "share"))
    assert text.count("Bold: ") == 3


def test_a_column_that_is_worked_out_needs_its_class():
    result = gpu_rsfd.run(Several(), DATA, **CELLS)["mine"]
    assert "twice the share" in result._repr_html_()
    assert [axis.get_title() for axis in result.plot().axes][-1] == "twice the share"


def test_what_needs_errors_says_so(monkeypatch, capsys, folder):
    for command, options in (
        ("show", ["--metric", "mae"]),
        ("plot", ["--postprocess", "none"]),
        ("show", ["--per", "value"]),
    ):
        (line,) = refusal(monkeypatch, capsys, folder, [command, "mine.h5", *options])
        assert f"{options[0][2:]} is for the estimates of a sweep; these results have support" in line
    result = gpu_rsfd.open_results(folder / "mine.h5")["mine"]
    for form in (result.plot, result.to_dataframe):
        with pytest.raises(gpu_rsfd.InputError, match=r"^metric is for the estimates of a sweep; these results have"):
            form(metric="mae")
    pytest.importorskip("vl_convert")
    (line,) = refusal(monkeypatch, capsys, folder, ["page", "mine.h5"])
    assert "a page needs the results of a sweep" in line


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """Two runs on one's own table."""
    folder = tmp_path_factory.mktemp("named")
    (folder / "own.csv").write_text("a,b\n" + "x,1\ny,2\nz,2\n" * 40)
    cells = {"protocols": "rsfd-grr", "epsilons": [1.0], "repetitions": 2, "workers": 1}
    for name, options in {"one": {}, "two": {"words": "a, c", "shares": (0.1, 0.3)}}.items():
        gpu_rsfd.run(Named(**options), folder / "own.csv", **cells, output=folder / f"{name}.h5")
    return folder


def test_columns_named_like_those_of_attacks_are_shown_as_they_are(named):
    (row,) = gpu_rsfd.open_results(named / "one.h5").to_dataframe().to_dict("records")
    assert (row["value_success"], row["spent_seconds"]) == (0.1234, 0.0012)


def test_a_baseline_that_is_an_array(named):
    results = gpu_rsfd.open_results(named / "one.h5")
    (row,) = results.to_dataframe().to_dict("records")
    assert (row["score"], row["score_baseline"]) == (1.0, 0.5)
    lines = [line for axis in results.plot(x="step").axes for line in axis.get_lines()]
    (chance,) = (line for line in lines if line.get_label() == "without a report")
    assert (list(chance.get_xdata()), list(chance.get_ydata())) == ([1, 2], [0.25, 0.5])


@pytest.mark.parametrize(("baseline", "over"), [("nothing", "step"), ("chance", ""), ("value_success", "")])
def test_a_baseline_that_is_no_array_is_refused_before_the_run(tmp_path, baseline, over):
    class Wrong(Named):
        columns = {"score": Column("score", baseline=baseline, over=over)}

    with pytest.raises(
        gpu_rsfd.InputError, match=f"Wrong.columns: the array baseline='{baseline}' of 'score' must end with '{over}'"
    ):
        gpu_rsfd.run(Wrong(), DATA, **CELLS, output=tmp_path / "wrong.h5")
    assert not [*tmp_path.iterdir()]


def test_above_a_comparison_stand_whole_options(named, monkeypatch, capsys):
    monkeypatch.chdir(named)
    assert call(monkeypatch, "show", "one.h5", "two.h5") == 0
    heading = capsys.readouterr().out.splitlines()[0]
    assert heading.startswith("own: n = 120, d = 2, 2 repetitions; data: own.csv")
