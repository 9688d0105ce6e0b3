"""Several runs, post-processings and metrics beside each other: tables, rows, LaTeX, figures; what is refused."""

import csv
import io
import json
import re

import numpy as np
import pytest
from command import call, refusal

import gpu_rsfd
from gpu_rsfd.show import plots
from gpu_rsfd.show.statistics import among_best, means

DATA = gpu_rsfd.SyntheticDataset(900, (3, 4), "zipf:1", name="mine")
OTHER = gpu_rsfd.SyntheticDataset(700, (5,), "zipf:1", name="other")
CELLS = {"protocols": ["rsfd-grr", "smp-adp"], "epsilons": [1.0, 2.0], "repetitions": 30, "seed": 4, "workers": 1}
RUNS = {  # what they differ in, and what they lack
    "paper": {},
    "user": {"epsilons": [1.0, 3.0], "guarantee": "user", "repetitions": 20},
    "attribute": {"guarantee": "attribute", "protocols": "rsfd-grr"},
}
FILES = [f"{name}.h5" for name in RUNS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, options in RUNS.items():
        data = [DATA, OTHER] if name == "user" else DATA
        gpu_rsfd.sweep(data, output=folder / f"{name}.h5", **{**CELLS, **options})
    gpu_rsfd.attack([DATA, OTHER], output=folder / "attack.h5", **{**CELLS, "repetitions": 3})
    return folder


@pytest.fixture
def command(monkeypatch, capsys, folder):
    def run(*arguments):
        monkeypatch.chdir(folder)
        assert call(monkeypatch, *arguments) == 0
        out = capsys.readouterr().out
        return list(csv.DictReader(io.StringIO(out))) if "--csv" in arguments else out

    return run


def lines_of(table):
    return {
        parts[0]: parts[1].split()
        for line in table.splitlines()
        if len(parts := re.split(r"  +", line, maxsplit=1)) == 2
    }


def test_the_table_of_several_files(command):
    out = command("show", *FILES)
    mine, other = (out[out.index(f"{name}: n = ") :] for name in ("mine", "other"))
    assert mine.startswith("mine: n = 900, d = 2, 20 or 30 repetitions; MSE_avg, postprocess=clip-norm")
    assert "guarantee:" not in mine[: mine.index("\n")]  # the curves say it
    assert mine.splitlines()[1].split() == ["epsilon", "1", "2", "3"]
    rows = lines_of(mine[: mine.index("other: ")].replace(", guarantee ", ",guarantee=").replace(" ", "  "))
    assert list(rows)[-5:] == [
        *("RS+FD[GRR],guarantee=paper", "Smp[ADP],guarantee=paper", "RS+FD[GRR],guarantee=user"),
        *("Smp[ADP],guarantee=user", "RS+FD[GRR],guarantee=attribute"),
    ]
    gaps = {name: [cell == "–" for cell in cells] for name, cells in rows.items()}
    assert gaps["Smp[ADP],guarantee=user"] == [False, True, False]
    assert gaps["Smp[ADP],guarantee=paper"] == [False, False, True]
    assert "Smp[ADP], guarantee user" in other
    assert "guarantee paper" not in other


def test_rows_are_those_of_each_file(command):
    rows = command("show", *FILES, "--csv")
    assert {(row["run"], row["guarantee"]) for row in rows} == {(f"guarantee {name}", name) for name in RUNS}
    alone = [row for file in FILES for row in command("show", file, "--csv")]
    for row in (*rows, *alone):
        row.pop("run", None)
        row.pop("among_best")  # among all that are compared
    assert sorted(map(str, rows)) == sorted(map(str, alone))
    document = json.loads(command("show", *FILES, "--json"))
    assert [spec.get("guarantee", "paper") for spec in document["spec"]["runs"].values()] == list(RUNS)


def test_stars_are_among_all_curves(command, folder):
    kinds, words = ["none", "power-ns"], ["paper.h5", "--postprocess", "none,PowerNS"]
    rows = command("show", *words, "--csv")
    result = gpu_rsfd.open_results(folder / "paper.h5")["mine"]
    each = [result.error("mse", kind) for kind in kinds]
    wanted, apart = among_best(means(np.concatenate(each)), "smaller"), [among_best(means(e), "smaller") for e in each]
    assert [row["among_best"] for row in rows] == [str(best) for best in wanted.ravel()]
    assert wanted.sum() < np.concatenate(apart).sum()
    assert [float(row["error"]) for row in rows] == pytest.approx(np.concatenate(each).mean(axis=-1).ravel())
    out = command("show", *words)
    assert out.count("*") - 1 == wanted.sum()
    assert "RS+FD[GRR], power-ns" in out


def test_a_gap_takes_no_stars_from_others(command):
    rows = command("show", *FILES, "--dataset", "mine", "--metric", "topk:1", "--csv")
    assert {row["epsilon"] for row in rows if row["among_best"] == "True"} == {"1.0", "2.0", "3.0"}


def test_metrics_have_tables_of_their_own(command, folder):
    out = command("show", "paper.h5", "--metric", "mse,mae")
    assert out.index("MSE_avg, postprocess=clip-normalize") < out.index("MAE_avg, postprocess=clip-normalize")
    assert out.count("epsilon ") == 2
    rows = command("show", "paper.h5", "--metric", "mse,mae", "--postprocess", "clip,mle", "--csv")
    result = gpu_rsfd.open_results(folder / "paper.h5")["mine"]
    for metric in ("mse", "mae"):
        for kind in ("clip", "mle"):
            mine = [float(r["error"]) for r in rows if (r["metric"], r["postprocess"]) == (metric, kind)]
            assert mine == pytest.approx(result.error(metric, kind).mean(axis=-1).ravel())
    assert len(rows) == 4 * 4


def test_one_latex_table_for_several_data_sets(command):
    text = command("show", "user.h5", "--latex")
    assert text.count(r"\begin{table}") == 1
    assert [line for line in text.splitlines() if "multicolumn" in line] == [
        rf"\multicolumn{{3}}{{l}}{{{words}}} \\" for words in ("mine: n = 900, d = 2", "other: n = 700, d = 1")
    ]
    assert text.count(r"\midrule") == 2
    assert text.count("Smp[ADP] & ") == 2
    caption = re.search(r"\\caption\{(.*)\}", text)[1]
    assert caption.startswith(r"20 repetitions; MSE\_avg, postprocess=clip-normalize; guarantee: user. In brackets")
    assert "in its column and data set" in caption
    assert r"\label{tab:mse}" in text
    text = command("show", "attack.h5", "--latex")
    assert text.count(r"\begin{table}") == 2
    assert "report" not in "".join(re.findall(r"\\caption\{.*", text))
    assert len(set(re.findall(r"without a report: [\d.]+", text))) == 4  # of each data set and column


def test_what_is_said_of_several_data_sets_is_true_of_all(command, folder):
    """Data sets of files that were made under different guarantees, with different repetitions."""
    data = gpu_rsfd.SyntheticDataset(300, (3,), name="fourth")
    gpu_rsfd.sweep(data, epsilons=1.0, repetitions=4, guarantee="user", output=folder / "fourth.h5")
    text = command("show", "paper.h5", "fourth.h5", "--latex")
    caption = re.search(r"\\caption\{(.*)\}", text)[1]
    assert re.match(r"4 or \d+ repetitions; MSE\\_avg, postprocess=clip-normalize. In brackets", caption)
    assert "RS+FD[GRR], guarantee user" in text
    both = gpu_rsfd.compare({"first": folder / "paper.h5", "last": folder / "fourth.h5"})
    said = [text.get_text() for legend in both.plot().legends for text in (legend.get_title(), *legend.get_texts())]
    assert any("last" in text for text in said)
    assert not any("guarantee:" in text for text in said)


def test_a_usual_prior_is_said_beside_another(command, folder):
    """A spec does not say a usual one, and rows of other runs have a column for it."""
    options = {**CELLS, "protocols": "rsrfd-grr", "repetitions": 2}
    for name, prior in (("usual", "uniform"), ("true", "true")):
        gpu_rsfd.sweep(DATA, output=folder / f"prior-{name}.h5", prior=prior, **options)
    rows = command("show", "prior-usual.h5", "prior-true.h5", "--csv")
    assert {(row["run"], row["prior"]) for row in rows} == {("prior uniform", "uniform"), ("prior true", "true")}


def test_curves_are_named_by_what_differs(folder):
    """A label of one's own, the protocol and the post-processing: each only if there are several."""
    one = {name: gpu_rsfd.simulate(DATA, **{**CELLS, **RUNS[name], "protocols": "rsfd-grr"}) for name in RUNS}
    user = gpu_rsfd.open_results(folder / "user.h5")
    several = gpu_rsfd.compare({"published": folder / "paper.h5", "any two users": user})
    assert repr(several) == "Results(mine, other; runs: published, any two users)"
    assert "<th>Smp[ADP], any two users</th>" in several._repr_html_()
    together = gpu_rsfd.compare(one)
    assert [f"<th>{name}</th>" in together._repr_html_() for name in RUNS] == [True] * 3
    assert "MSE_avg of RS+FD[GRR]" in together._repr_html_()
    pandas = pytest.importorskip("pandas")
    frame = together.to_dataframe(metric=["mse", "mae"])
    assert isinstance(frame, pandas.DataFrame)
    assert frame.groupby("run", sort=False).guarantee.first().to_dict() == {name: name for name in RUNS}
    assert len(frame) == 2 * 3 * 2
    assert len(several.to_dataframe("repetition")) == 4 * 30 + 2 * 4 * 20


@pytest.mark.slow
def test_files_are_named_where_options_do_not_tell(command, folder):
    gpu_rsfd.sweep(DATA, output=folder / "again.h5", **{**CELLS, "protocols": "smp-adp", "repetitions": 2})
    gpu_rsfd.sweep(DATA, output=folder / "third.h5", **{**CELLS, "protocols": "smp-oue", "repetitions": 2})
    assert "\nSmp[ADP], again.h5 " in command("show", "paper.h5", "again.h5")
    assert "\nSmp[OUE] " in command("show", "paper.h5", "third.h5")  # protocols tell these apart


@pytest.mark.parametrize("words,message", [
    (["paper.h5", "attack.h5"], "paper.h5 and attack.h5 can't be compared: one is of sweep, the other of attack"),
    (["paper.h5", "same_name.h5"], "same_name.h5 can't be compared: its data set mine is not that of the runs before"),
    (["paper.h5", "paper.h5"], "file 'paper.h5' is given twice"),
    (["paper.h5", "user.h5", "--per", "value"], "per=value is for one results file, one post-processing and one metr"),
    (["paper.h5", "--metric", "mse,mae", "--compare", "rsfd-grr,smp-adp"], "compare=rsfd-grr,smp-adp is for one re"),
    (["paper.h5", "--postprocess", "mle,best"], "unknown postprocess 'best'; available: none, clip"),
    (["paper.h5", "--postprocess", "norm-sub,simplex"], "postprocess 'simplex' is given twice"),
    (["paper.h5", "--metric", "mse,far"], "unknown metric 'far'; available: mse"),
])  # fmt: skip
def test_what_cannot_be_compared(monkeypatch, capsys, folder, words, message):
    if "same_name.h5" in words:
        data = gpu_rsfd.SyntheticDataset(901, (3, 4), "zipf:1", name="mine")
        gpu_rsfd.sweep(data, output=folder / "same_name.h5", **{**CELLS, "repetitions": 1})
    (line,) = refusal(monkeypatch, capsys, folder, ["show", *words])
    assert message in line


@pytest.mark.parametrize("runs,message", [
    ({}, "no run given"), (["paper.h5"], "must be results by their labels"), ({"a": "no_such.h5"}, "no_such.h5"),
    ({"a": 3}, "a=3 must be a Result, Results, or the path of a results file"),
    ({" ": "no_such.h5"}, "label=' ' of a run is empty; its curves are named by it"),
])  # fmt: skip
def test_bad_runs(runs, message):
    with pytest.raises(gpu_rsfd.InputError, match=message):
        gpu_rsfd.compare(runs)


def legend_of(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_figures_of_several_runs(folder):
    """With gaps: a curve goes on behind them, and each data set has the curves that were run on it."""
    figure = gpu_rsfd.compare({name: folder / f"{name}.h5" for name in RUNS}).plot()
    words = ["RS+FD[GRR], paper", "Smp[ADP], paper", "RS+FD[GRR], user", "Smp[ADP], user", "RS+FD[GRR], attribute"]
    assert legend_of(figure) == words
    mine, other = figure.axes
    drawn = {bars.get_label(): bars[0] for bars in mine.containers}
    assert list(drawn) == words
    assert [bars.get_label() for bars in other.containers] == words[2:4]
    assert drawn[words[2]].get_xdata().tolist() == [1.0, 3.0]
    user = gpu_rsfd.open_results(folder / "user.h5")["mine"]
    assert drawn[words[2]].get_ydata() == pytest.approx(user.mse()[0].mean(axis=-1))
    assert len({look_of(line) for line in drawn.values()}) == 5


def look_of(line):
    return line.get_color(), line.get_marker(), str(line._unscaled_dash_pattern)


def looks_of(figure):
    """By the label of a curve: colour, marker, dash."""
    return {bars.get_label(): look_of(bars[0]) for axis in figure.axes for bars in axis.containers}


def test_a_protocol_has_its_colour_and_marker_in_each_run():
    cells = {"epsilons": [1.0, 2.0], "repetitions": 2, "sampler": "marginals", "workers": 1}
    runs = {name: gpu_rsfd.simulate(DATA, guarantee=name, **cells) for name in ("paper", "user", "attribute")}
    alone, drawn = looks_of(runs["paper"].plot()), looks_of(gpu_rsfd.compare(runs).plot())
    assert len(drawn) == len(set(drawn.values())) == 3 * 6
    for label, look in alone.items():
        assert {drawn[f"{label}, {run}"][:2] for run in runs} == {look[:2]}
    assert [len({look[2] for label, look in drawn.items() if label.endswith(f", {run}")}) for run in runs] == [1] * 3


def test_a_run_without_words_looks_unlike_others(command, monkeypatch, folder):
    """Only protocols with two steps have a first report, so that a run of others has nothing to be told by."""
    figures, asked = [], {**CELLS, "protocols": ["rsfd-grr", "smp-l-grr"], "repetitions": 2}
    gpu_rsfd.sweep(DATA, output=folder / "long.h5", **asked)
    monkeypatch.setattr(plots, "save_figure", lambda figure, *_: figures.append(figure))
    command("plot", "long.h5", "paper.h5")
    drawn = looks_of(figures[0])
    assert [*drawn] == ["RS+FD[GRR], first report 0.5", "Smp[L-GRR], first report 0.5", "RS+FD[GRR]", "Smp[ADP]"]
    assert len({*drawn.values()}) == 4
    assert drawn["RS+FD[GRR]"][0] == drawn["RS+FD[GRR], first report 0.5"][0]


@pytest.mark.parametrize("protocols,colours", [(["rsfd-grr", "smp-adp"], 2), ("rsfd-grr", 6)])
def test_many_curves_of_few_protocols_differ_in_grey(protocols, colours):
    """More than there are dashes; those of a protocol have its colour, if there is another one."""
    kinds = ["none", "clip", "clip-normalize", "simplex", "power-ns", "base-cut"]
    data = gpu_rsfd.simulate(DATA, **{**CELLS, "protocols": protocols, "repetitions": 2})
    looks = looks_of(data.plot(kinds)).values()
    assert len({look[1:] for look in looks}) == len(looks) == 6 * len(data.protocols)
    assert len({look[0] for look in looks}) == colours


def test_hints_are_for_all_runs_together(command, folder):
    """Each has a single protocol, so that nothing is marked in it alone."""
    for name in ("paper", "user"):
        asked = {**CELLS, "protocols": "rsfd-grr", "repetitions": 2, "guarantee": name}
        gpu_rsfd.sweep(DATA, output=folder / f"few-{name}.h5", **asked)
    assert "all are marked" not in command("show", "few-paper.h5")
    assert "MSE_avg of RS+FD[GRR]: all are marked; about" in command("show", "few-paper.h5", "few-user.h5")


@pytest.mark.slow
def test_collections_of_several_lengths(monkeypatch, capsys, tmp_path):
    """Of an axis with an order tables show the last place of each; curves end where they end."""
    monkeypatch.chdir(tmp_path)
    made = ["--users", "200", "--domain", "3", "--protocol", "smp-l-osue", "--epsilon", "1", "--repetitions", "2"]
    for number in ("2", "4"):
        words = ["--rounds", number, "--change", "0.1", "--no-plot", "--quiet", "--workers", "1"]
        assert call(monkeypatch, "rounds", *made, *words, "--output", f"{number}.h5") == 0
    assert call(monkeypatch, "show", "2.h5", "4.h5") == 0
    out = capsys.readouterr().out
    assert "users, round = 2 of Smp[L-OSUE]; epsilon spent, mean of users, round = 4 of Smp[L-OSUE]\n" in out
    runs = {number: f"{number}.h5" for number in ("2", "4")}
    figure = gpu_rsfd.compare(runs).plot(x="round")
    lengths = {len(line.get_xdata()) for axis in figure.axes for line in axis.lines if line.get_marker() != "None"}
    assert lengths == {2, 4}


def test_what_holds_of_each_metric_is_said_once(command, folder):
    gpu_rsfd.sweep(DATA, output=folder / "oue.h5", **{**CELLS, "protocols": "smp-oue"})
    said = command("show", "oue.h5", "--postprocess", "mle", "--metric", "mse,mae")
    assert said.count("– where mle is not defined") == 1


@pytest.mark.slow
def test_a_dollar_in_a_label_starts_no_formula(folder):
    odd = gpu_rsfd.protocol("odd", solution="smp", keep=lambda e, k: 0.5, label="a$_{$")
    result = gpu_rsfd.simulate(DATA, **{**CELLS, "protocols": [odd], "repetitions": 2})
    result.plot(attribute="A1").canvas.draw()
    figure = gpu_rsfd.compare({"$_{$ [b]": folder / "paper.h5", "<i>": result}).plot()
    figure.canvas.draw()
    assert legend_of(figure) == [r"RS+FD[GRR], \$_{\$ [b]", r"Smp[ADP], \$_{\$ [b]", r"a\$_{\$, <i>"]


@pytest.mark.slow
@pytest.mark.parametrize("words,labels,axis,name", [
    ([*FILES, "--dataset", "mine", "--protocol", "rsfd-grr"], [f"guarantee {name}" for name in RUNS],
     "MSE$_{avg}$ of RS+FD[GRR] (clip-normalize)", "paper-user-attribute-mine.png"),
    (["paper.h5", "--protocol", "smp-adp", "--postprocess", ",".join(gpu_rsfd.POSTPROCESS)], [*gpu_rsfd.POSTPROCESS],
     "MSE$_{avg}$ of Smp[ADP]", "paper.png"),
    (["paper.h5", "--metric", "mse,mae"], ["RS+FD[GRR]", "Smp[ADP]"], "MAE$_{avg}$ (clip-normalize)", "paper.png"),
    (["paper.h5", "attribute.h5", "--protocol", "rsfd-grr", "--tradeoff"], ["guarantee paper", "guarantee attribute"],
     "MSE$_{avg}$ of RS+FD[GRR] (clip-normalize)", "paper-attribute-tradeoff.png"),
])  # fmt: skip
def test_figures_of_the_command(command, monkeypatch, words, labels, axis, name):
    figures = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path, _: figures.append((figure, path.name)))
    assert command("plot", *words) == f"{name} written\n"
    ((figure, path),) = figures
    assert (legend_of(figure), path) == (labels, name)
    assert axis in [panel.get_ylabel().replace("\n", " ") for panel in figure.axes]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sweep", "attack"])
def test_nothing_private_is_compared(monkeypatch, capsys, tmp_path, kind):
    """Two of 600 hold the rare value: whatever is computed is as if ten did; neither share is written anywhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clinic.csv").write_text("\n".join(["HIV", *["no"] * 598, "yes", "yes"]))
    secret, words = re.compile(r"0\.99[67]|0\.003[34]"), ["--dataset", "clinic.csv", "--protocol", "smp-grr"]
    words += ["--epsilon", "2", "--repetitions", "2", "--quiet", "--no-plot", "--workers", "1"]
    for name in ("paper", "user"):
        assert call(monkeypatch, kind, *words, "--guarantee", name, "--output", f"{name}.h5") == 0
    files = ["paper.h5", "user.h5"]
    for form in ([], ["--csv"], ["--json"], ["--latex"]):
        assert call(monkeypatch, "show", *files, *form) == 0
    assert call(monkeypatch, "plot", *files, "--output", "both.svg") == 0
    out = capsys.readouterr().out
    assert not secret.search(out + (tmp_path / "both.svg").read_text("utf-8"))
    opened = [gpu_rsfd.open_results(file) for file in files]
    several = [gpu_rsfd.compare(dict(zip("ab", r, strict=True))) for r in (opened, [r["clinic"] for r in opened])]
    assert not secret.search("".join(each._repr_html_() for each in several))
    if kind == "attack":
        assert "without a report: 0.9833" in out
        for each in several:
            lines = [line for line in each.plot().axes[-1].lines if line.get_label() == "without a report"]
            assert lines[0].get_ydata()[0] == pytest.approx(1 - 10 / 600)
        assert call(monkeypatch, "show", *files, "--min-count", "0") == 0
        assert secret.search(capsys.readouterr().out)
