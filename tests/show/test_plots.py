"""Figures hold what the results hold: curves, labels, axes, closed forms."""

import math

import numpy as np
import pytest
from command import call, refusal
from files import describe

import gpu_rsfd
from gpu_rsfd.protocols import REGISTRY
from gpu_rsfd.results.result import Results
from gpu_rsfd.show import plots


@pytest.fixture(scope="module")
def results():
    made = {}
    for n in (500, 5000):
        data = gpu_rsfd.SyntheticDataset(n, (4, 6), name=f"uniform-n{n}-d2")
        made[data.name] = data, gpu_rsfd.simulate(data, epsilons=[math.log(2), math.log(3)], repetitions=30)
    spec = describe([data for data, _ in made.values()], made["uniform-n500-d2"][1].spec)
    return Results({name: result for name, (_, result) in made.items()}, spec=spec)


def curves(axis):
    return {c.get_label(): c.lines[0] for c in axis.containers}


def test_one_curve_per_protocol_with_the_papers_labels(results):
    one = Results({"n500": results["uniform-n500-d2"]})
    (axis,) = plots.figure_of(one, "clip").axes
    drawn = curves(axis)
    assert list(drawn) == ["RS+FD[GRR]", "RS+FD[OUE-z]", "RS+FD[OUE-r]", "RS+FD[ADP]", "Spl[ADP]", "Smp[ADP]"]
    assert len({line.get_marker() for line in drawn.values()}) == 6
    assert axis.get_yscale() == "log"
    assert [t.get_text() for t in axis.get_xticklabels()] == ["ln 2", "ln 3"]
    for p, line in enumerate(drawn.values()):
        assert np.allclose(line.get_ydata(), results["uniform-n500-d2"].mse("clip")[p].mean(axis=-1))


@pytest.mark.parametrize("postprocess", ["none", "clip"])
def test_closed_forms_where_there_are_any(results, postprocess):
    one = Results({"n5000": results["uniform-n5000-d2"]})
    (axis,) = plots.figure_of(one, postprocess).axes
    thin = [line for line in axis.lines if line.get_linewidth() < 1 and len(line.get_xdata()) == 2]
    assert len(thin) == 6
    for line, mean in zip(thin, results["uniform-n5000-d2"].mse(postprocess).mean(axis=-1), strict=True):
        assert np.allclose(line.get_ydata(), mean, rtol=0.5)


def test_no_closed_form_for_normalized_estimates(results):
    (axis,) = plots.figure_of(Results({"n5000": results["uniform-n5000-d2"]}), "clip-normalize").axes
    assert not [line for line in axis.lines if line.get_linewidth() < 1 and line.get_linestyle() != "None"]


def test_sweep_over_n_and_panel_per_dataset(results):
    over_n = plots.figure_of(results).axes
    assert [axis.get_xlabel() for axis in over_n] == ["users n"] * 2
    assert [axis.get_title() for axis in over_n] == ["ε = ln 2, d = 2", "ε = ln 3, d = 2"]
    assert list(next(iter(curves(over_n[0]).values())).get_xdata()) == [500, 5000]
    assert not plots.sizes_of(Results(results))  # no spec: nothing says that they have one distribution
    by_dataset = plots.figure_of(results, x="epsilon").axes
    assert [axis.get_title() for axis in by_dataset] == [
        "uniform-n500-d2: n = 500, d = 2",
        "uniform-n5000-d2: n = 5,000, d = 2",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("suffix,magic", [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_formats(results, tmp_path, suffix, magic):
    path = tmp_path / f"f{suffix}"
    plots.save_figure(plots.figure_of(results), path)
    assert path.read_bytes().startswith(magic)
    assert list(tmp_path.iterdir()) == [path]


def test_surface(tmp_path):
    figure = plots.surface()
    axis = figure.axes[0]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("d", "k")
    plots.save_figure(figure, tmp_path / "surface.png")
    var2, var1 = (way.variance_at_zero(math.log(3), 10, 20, 20_000) for way in REGISTRY["rsfd-adp"].variants)
    assert axis.get_zlim()[1] >= var1 - var2 > 0


def test_surface_of_other_sizes(tmp_path, monkeypatch, capsys):
    figure = plots.surface(1.0, 10**6, (1, 3), (2, 400))
    axis = figure.axes[0]
    assert "at ε′ = 1, n = 1,000,000" in axis.get_title()
    assert axis.get_xlim()[1] >= 3
    assert axis.get_ylim()[1] >= 400
    monkeypatch.chdir(tmp_path)
    options = ["--epsilon", "1", "--users", "1e6", "--attributes", "1-3", "--values", "2-400"]
    assert call(monkeypatch, "plot", "--surface", *options, "--output", "s.svg") == 0
    assert "n = 1,000,000" in capsys.readouterr().out + (tmp_path / "s.svg").read_text()
    for given, message in (
        (["--epsilon", "1,2"], "epsilon=1,2 must be one number for --surface"),
        (["--attributes", "5-2"], "attributes=5-2 must be a range such as 2-10, from 1 to 65,535"),
        (["--values", "9"], "values=9 must be a range"),
        (["--users", "0"], "users=0"),
    ):
        (line,) = refusal(monkeypatch, capsys, tmp_path, ["plot", "--surface", *given])
        assert message in line
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["plot", "r.h5", "--users", "5"])
    assert "--users, --attributes and --values need --surface" in line
