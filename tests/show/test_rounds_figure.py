"""The figure of a collection over rounds; axes with an order, or of words, of any measurement."""

import csv
from dataclasses import dataclass

import numpy as np
import pytest
from command import call

import gpu_rsfd
from gpu_rsfd import Column
from gpu_rsfd.show import plots, rows

CELLS = {"protocols": ["rsfd-grr", "smp-adp"], "epsilons": [0.5, 1.0, 2.0], "repetitions": 3, "workers": 1}


@dataclass(frozen=True)
class Lasting(gpu_rsfd.Measurement):
    """Numbers of a protocol's number, of a kind and of a week; kinds make no difference for the second protocol."""

    weeks: int = 4
    arrays = {"cost": ("kind", "week"), "worst": ("kind", "week")}
    columns = {
        "cost": Column("cost of a week", "smaller", over="week", x="week"),
        "worst": Column("worst cost", axis="cost", over="week", x=""),
    }

    def coords(self):
        return {"kind": ["old", "new"], "week": [2**i for i in range(self.weeks)]}

    def measure(self, view):
        cost = np.ones((len(view.protocols), len(view.epsilons), len(view.repetitions), 2, self.weeks))
        cost *= np.arange(1, self.weeks + 1)
        cost[view.protocols.index("rsfd-grr"), :, :, 1] *= 2 if "rsfd-grr" in view.protocols else 1
        return {"cost": cost, "worst": 3 * cost}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("lasting") / "l.h5"
    gpu_rsfd.run(Lasting(), gpu_rsfd.SyntheticDataset(90, (3, 4), name="mine"), **CELLS, output=path)
    return path


def curves(axis):
    return {curve.get_label(): curve.lines[0] for curve in axis.containers}


def titles(figure):
    return [axis.get_title() for axis in figure.axes]


@pytest.mark.slow
def test_tables_show_the_last_place_of_an_axis_with_an_order(file, monkeypatch, capsys):
    assert call(monkeypatch, "show", str(file), "--protocol", "rsfd-grr") == 0
    shown = capsys.readouterr().out
    assert "cost of a week, week = 8" in shown
    assert [line.split() for line in shown.splitlines() if "kind" in line][:2] == [
        ["kind", "=", "old", "4.000*", "4.000*", "4.000*"],
        ["kind", "=", "new", "8.000*", "8.000*", "8.000*"],
    ]
    assert call(monkeypatch, "show", str(file), "--csv") == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert "week" not in header.split(",")
    assert len(rows) == 2 * 3 * 2
    for form in ((), ("--latex",)):
        assert call(monkeypatch, "show", str(file), *form) == 0
        assert "standard error" not in capsys.readouterr().out  # all repetitions agree


def test_words_tell_curves_apart_where_they_make_a_difference(file):
    """In a process that has only the file: at the epsilon in the middle, against the axis that the column asks for."""
    result = gpu_rsfd.open_results(file)["mine"]
    figure = result.plot()
    assert titles(figure) == ["mine: ε = 1, cost of a week"]
    (axis,) = figure.axes
    assert list(curves(axis)) == ["RS+FD[GRR], old", "RS+FD[GRR], new", "Smp[ADP]"]
    assert curves(axis)["RS+FD[GRR], new"].get_xdata().tolist() == [1, 2, 4, 8]
    assert curves(axis)["RS+FD[GRR], new"].get_ydata().tolist() == [2, 4, 6, 8]
    old, new, smp = ((line.get_color(), line.get_marker()) for line in curves(axis).values())
    assert old == new != smp  # dashes tell words apart
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(curves(axis))
    every = result.plot(x="week")
    assert titles(every)[::3] == ["mine: ε = 0.5, cost of a week", "ε = 0.5, worst cost"]
    last = result.plot(x="epsilon")
    assert titles(last) == ["mine: week = 8, cost of a week", "week = 8, worst cost"]
    assert curves(last.axes[1])["RS+FD[GRR], new"].get_ydata().tolist() == [24] * 3


def test_files_are_told_apart_by_words(tmp_path, monkeypatch, capsys):
    """By what they were asked for, and not by the name of the file."""
    data, files = gpu_rsfd.SyntheticDataset(90, (3, 4), name="mine"), [str(tmp_path / f"{i}.h5") for i in range(2)]
    for file, fakes in zip(files, ["memo", "fresh"], strict=True):
        asked = {"protocols": "rsfd-l-grr", "epsilons": 1.0, "repetitions": 2, "output": file}
        gpu_rsfd.rounds(data, rounds=3, fakes=fakes, attack=fakes == "memo", **asked)
    assert call(monkeypatch, "show", *files) == 0
    shown = capsys.readouterr().out
    assert "\nfakes memo " in shown
    assert "\nfakes fresh " in shown
    assert call(monkeypatch, "show", *files[::-1], "--csv") == 0
    header, *rows = (line.split(",") for line in capsys.readouterr().out.splitlines())
    assert [row[header.index("value")] != "" for row in rows] == [False, True]  # one of them was attacked


def test_what_was_asked_for_stands_above_its_table(tmp_path, monkeypatch, capsys):
    """As far as it is not as usual: on the screen, in captions, and in columns of rows."""
    data, file = gpu_rsfd.SyntheticDataset(90, (3, 4), name="mine"), str(tmp_path / "f.h5")
    asked = {"protocols": "rsfd-l-grr", "epsilons": 1.0, "repetitions": 2, "first_report": 0.3}
    result = gpu_rsfd.rounds(data, rounds=6, change=0.3, fakes="fixed", sampling="fresh", output=file, **asked)["mine"]
    for form in ((), ("--latex",)):
        assert call(monkeypatch, "show", file, *form) == 0
        shown = capsys.readouterr().out
        assert "; 6 rounds, change=0.3, memo on, fakes fixed, sampling fresh; " in shown
        assert "; first report: 0.3" in shown
    row = result.to_dataframe().iloc[0]
    assert (row["rounds"], row["fakes"], row["sampling"], row["first_report"]) == (6, "fixed", "fresh", 0.3)
    swept = gpu_rsfd.simulate(data, **asked)
    assert "; first report: 0.3" in swept._repr_html_()
    assert swept.to_dataframe()["first_report"].tolist() == [0.3]
    usual = gpu_rsfd.rounds(data, rounds=6, fakes=["memo", "fresh"], **{**asked, "first_report": 0.5})
    assert "; 6 rounds, memo on; " in usual._repr_html_()  # each way to make fakes has its row
    assert "first_report" not in usual.to_dataframe()


def test_what_stands_above_several_runs_is_true_of_all(tmp_path, monkeypatch, capsys):
    """The rest is said run by run; without a memo no fakes are remembered."""
    data, files = gpu_rsfd.SyntheticDataset(90, (3, 4), name="mine"), [str(tmp_path / f"{i}.h5") for i in range(3)]
    options = {"fakes": ["memo", "fresh"]}, {"memo": "off"}, {"fakes": "fixed", "change": 0.5, "rounds": 2}
    for file, more in zip(files, options, strict=True):
        asked = {"protocols": "rsfd-l-grr", "epsilons": 1.0, "repetitions": 2, "output": file}
        gpu_rsfd.rounds(data, **{"rounds": 3, **more, **asked})

    def shown(*arguments):
        assert call(monkeypatch, "show", *arguments) == 0
        return capsys.readouterr().out.splitlines()

    head, *lines = shown(*files[:2])
    assert "; 3 rounds; " in head
    assert [line.split("  ")[0].strip() for line in lines[3:7:3]] == ["memo on, fakes memo+fresh", "memo off"]
    head, *lines = shown(files[0], files[2])
    assert "; memo on; " in head
    assert any(line.startswith("rounds 2, change 0.5, fakes fixed ") for line in lines)
    assert [row["fakes"] for row in csv.DictReader(shown(*files, "--csv"))] == ["memo", "fresh", "", "fixed"]


def test_one_round_and_one_attribute():
    """The only attribute is sampled: to guess it tells nothing."""
    data = gpu_rsfd.SyntheticDataset(90, (3,), name="mine")
    asked = {"protocols": "rsfd-l-grr", "epsilons": 1.0, "repetitions": 2, "attack": True}
    result = gpu_rsfd.rounds(data, rounds=1, **asked)
    assert "; 1 round, memo on; " in result._repr_html_()
    assert "sampled attribute" not in result._repr_html_()
    assert (result.sampled_success == 1).all()
    assert titles(gpu_rsfd.rounds(data, rounds=2, **asked).plot())[-1] == "ε = 1, value guessed"


def test_runs_of_several_lengths_in_one_figure():
    """The last round of each; error bars are explained where any run has some."""
    data, asked = gpu_rsfd.SyntheticDataset(90, (3, 4), name="mine"), {"protocols": "smp-l-grr", "epsilons": [1.0, 2.0]}
    runs = {f"{r} rounds": gpu_rsfd.rounds(data, rounds=r, repetitions=r - 1, **asked) for r in (2, 3)}
    figure = gpu_rsfd.compare(runs).plot(x="epsilon")
    assert [title for title in titles(figure) if title.endswith(", error")] == [
        "mine: round = 2, error", "round = 3, error"
    ]  # fmt: skip
    assert "error bars: one standard error" in figure.legends[0].get_title().get_text()


def test_roundings_are_not_told_apart(tmp_path):
    """What is spent where nobody changes is the same for every n, but for the last digit of a sum."""
    data = [gpu_rsfd.SyntheticDataset(n, (3, 3), name=f"uniform-n{n}-d2") for n in (500, 1000)]
    asked = {"protocols": "smp-l-grr", "epsilons": 1.0, "repetitions": 2, "output": tmp_path / "n.h5"}
    spent = gpu_rsfd.rounds(data, rounds=3, **asked).plot(x="n").axes[2]
    low, high = spent.get_ylim()
    assert low < 0.95 * 0.96
    assert high > 0.95 * 1.04


def test_errors_of_one_epsilon_are_drawn_over_rounds():
    data = gpu_rsfd.SyntheticDataset(90, (3, 4), name="mine")
    result = gpu_rsfd.rounds(data, rounds=3, protocols="rsfd-l-grr", epsilons=1.0, repetitions=2)
    error, _ = result.plot().axes
    assert (error.get_title(), error.get_xlabel()) == ("mine: ε = 1, error", "round")
    assert curves(error)["RS+FD[L-GRR]"].get_ydata() == pytest.approx(result.error()[0, 0].mean(0))


def test_the_exact_loss_is_that_of_the_last_round(tmp_path):
    data = gpu_rsfd.SyntheticDataset(90, (3, 4), name="mine")
    asked = {"protocols": ["rsfd-l-grr", "smp-l-grr"], "epsilons": [1.0, 2.0], "repetitions": 2}
    result = gpu_rsfd.rounds(data, rounds=3, change=0.5, **asked, output=tmp_path / "r.h5")["mine"]
    figure = plots.figure_of(gpu_rsfd.open_results(tmp_path / "r.h5"), rows.How(), plots.LOSS)
    last = ["mine: round = 3, error", "error of mean estimates", "round = 3, mean of users", "round = 3, nine in ten"]
    assert titles(figure)[::2] == last
    spent = curves(figure.axes[4])
    assert [line.get_ydata().tolist() for line in spent.values()] == result.spent[:, :, 0, -1, 0].tolist()


def test_what_is_beside_makes_no_axis_longer():
    """Even where it differs by protocol: of RS+FD with unequal columns the first round costs more."""
    data, asked = gpu_rsfd.SyntheticDataset(90, (3, 40), name="mine"), {"epsilons": 1.0, "repetitions": 2}
    spent = gpu_rsfd.rounds(data, rounds=9, protocols=["rsfd-l-grr", "smp-l-grr"], **asked).plot().axes[1]
    dotted = [line for line in spent.lines if line.get_linestyle() == ":"]
    assert len({line.get_color() for line in dotted} - {"black"}) == 2
    highest = max(curve.get_ydata().max() for curve in curves(spent).values())
    assert highest < spent.get_ylim()[1] < 1.2 * highest < dotted[0].get_ydata()[-1]


def test_what_is_beside_is_seen_above_all_curves():
    """A value that is held for two rounds has lost less than the papers count: all of epsilon."""
    asked = {"protocols": "smp-l-osue", "epsilons": 8.0, "repetitions": 2, "first_report": 0.2}
    spent = gpu_rsfd.rounds(gpu_rsfd.SyntheticDataset(90, (3, 4), name="mine"), rounds=2, **asked).plot().axes[1]
    assert max(curve.get_ydata().max() for curve in curves(spent).values()) < 7 < 8 < spent.get_ylim()[1] < 9


def test_what_is_guessed_without_a_report_follows_the_shares():
    """Of a value that nearly all hold at first, and few in the end."""
    codes = (np.arange(200)[:, None] >= np.array([180, 120, 20])) * np.array([1 + np.arange(200) % 2]).T
    data = gpu_rsfd.EvolvingDataset(codes[:, None], [3], name="mine")
    asked = {"protocols": "smp-l-grr", "epsilons": 1.0, "repetitions": 2}
    result = gpu_rsfd.rounds(data, attack=True, **asked)
    shares = [0.9, 0.6, 0.45]
    assert result.value_baseline[0, 0, 0] == pytest.approx(shares)
    (line,) = (line for line in result.plot().axes[2].lines if line.get_label() == "without a report")
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 2, 3], pytest.approx(shares))
    assert result.to_dataframe()["value_baseline"].tolist() == pytest.approx(shares[-1:])


@pytest.mark.slow
@pytest.mark.parametrize("protocols,last", [
    (["rsfd-l-grr", "smp-l-grr"], "sampled attribute guessed"), (["smp-l-grr", "smp-l-osue"], "value guessed"),
])  # fmt: skip
def test_three_panels(protocols, last):
    data = gpu_rsfd.SyntheticDataset(300, (4, 4), name="mine")
    hides = "rsfd-l-grr" in protocols
    memo = (0,) * hides  # where fakes are compared
    asked = {"fakes": ["memo", "fresh"][: 1 + hides], "repetitions": 2, "epsilons": [1.0, 2.0, 4.0], "attack": True}
    result = gpu_rsfd.rounds(data, rounds=5, change=0.2, protocols=protocols, **asked)
    figure = result.plot()
    assert titles(figure) == ["mine: round = 5, error", "ε = 2, mean of users", f"ε = 2, {last}"]
    assert [axis.get_xlabel() for axis in figure.axes] == ["ε", "round", "round"]
    assert [axis.get_ylabel() for axis in figure.axes] == ["MSE$_{avg}$ (clip-normalize)", "ε spent", "share"]
    error, spent, guessed = figure.axes
    names = {look.name: look.label for look in result.plan.looks}
    smp = names["smp-l-grr"]
    assert curves(error)[smp].get_ydata() == pytest.approx(
        result.error()[(protocols.index("smp-l-grr"), ..., *memo, -1)].mean(-1)
    )
    one = result.spent[(protocols.index("smp-l-grr"), 1, 0, *memo)]
    assert curves(spent)[smp].get_ydata() == pytest.approx(one[:, 0])
    styles = [(line.get_linestyle(), line.get_color(), line.get_ydata()) for line in spent.lines]
    dotted = [y for style, _, y in styles if style == ":"]
    assert dotted[0] == pytest.approx(result.spent_afresh[(0, 1, 0, *memo, slice(None), 0)])
    assert spent.get_ylim()[1] < dotted[0][-1]
    published = [y for style, _, y in styles if style == "--"]
    assert published[0] == pytest.approx(result.spent_published[(0, 1, 0, *memo, slice(None), 0)])
    assert {line.get_linestyle() for axis in figure.axes for line in curves(axis).values()} == {"-"}  # as in the legend
    (blind,) = (line.get_ydata() for line in guessed.lines if line.get_label() == "without a report")
    assert list(blind) == pytest.approx([0.5] * 2 if "sampled" in last else result.value_baseline[0, 0, 0].tolist())
    told = [text.get_text() for text in figure.legends[0].get_texts()]
    assert told[-3:] == ["without a report", "as papers count", "without a memo"]
    assert any(label.endswith(", fresh") for label in told) == (protocols[0] == "rsfd-l-grr")
    assert len(result.plot(x="round").axes) == 3 * 5
    at_last = result.plot(x="epsilon")
    assert "without a memo" not in [text.get_text() for text in at_last.legends[0].get_texts()]
    assert len(at_last.axes) == 6
