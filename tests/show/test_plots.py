"""Figures hold what the results hold: curves, labels, axes, closed forms."""

import math

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.results.result import Results
from gpu_rsfd.show import plots


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    sets = [gpu_rsfd.SyntheticDataset(n, (4, 6), name=f"uniform-n{n}-d2") for n in (500, 5000)]
    path = tmp_path_factory.mktemp("plots") / "r.h5"
    return gpu_rsfd.sweep(sets, output=path, epsilons=[math.log(2), math.log(3)], repetitions=30, workers=1)


def curves(axis):
    return {c.get_label(): c.lines[0] for c in axis.containers}


def test_one_curve_per_protocol_with_the_papers_labels(results):
    one = Results({"n500": results["uniform-n500-d2"]})
    (axis,) = one.plot("clip").axes
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
    (axis,) = one.plot(postprocess).axes
    thin = [line for line in axis.lines if line.get_linewidth() < 1 and len(line.get_xdata()) == 2]
    assert len(thin) == 6
    for line, mean in zip(thin, results["uniform-n5000-d2"].mse(postprocess).mean(axis=-1), strict=True):
        assert np.allclose(line.get_ydata(), mean, rtol=0.5)


def test_no_closed_form_for_normalized_estimates(results):
    (axis,) = Results({"n5000": results["uniform-n5000-d2"]}).plot("clip-normalize").axes
    assert not [line for line in axis.lines if line.get_linewidth() < 1 and line.get_linestyle() != "None"]


def test_sweep_over_n_and_panel_per_dataset(results):
    over_n = results.plot().axes
    assert [axis.get_xlabel() for axis in over_n] == ["users n"] * 2
    assert [axis.get_title() for axis in over_n] == ["ε = ln 2, d = 2", "ε = ln 3, d = 2"]
    assert list(next(iter(curves(over_n[0]).values())).get_xdata()) == [500, 5000]
    assert not plots.sizes_of(Results(results))  # no spec: nothing says that they have one distribution
    by_dataset = results.plot(x="epsilon").axes
    assert [axis.get_title() for axis in by_dataset] == [
        "uniform-n500-d2: n = 500, d = 2",
        "uniform-n5000-d2: n = 5,000, d = 2",
    ]


def test_each_number_of_users_has_a_tick(tmp_path):
    sets = [gpu_rsfd.SyntheticDataset(n, (4, 6), name=f"uniform-n{n}-d2") for n in (1234, 3000, 70000)]
    asked = {"epsilons": [1.0], "protocols": "smp-grr", "repetitions": 1, "sampler": "marginals", "workers": 1}
    figure = gpu_rsfd.sweep(sets, output=tmp_path / "n.h5", **asked).plot()
    figure.draw_without_rendering()
    axis = figure.axes[0]
    low, high = axis.get_xlim()
    shown = [label.get_text() for label in axis.get_xticklabels() if low <= label.get_position()[0] <= high]
    assert not any(label.get_text() for label in axis.get_xticklabels(minor=True))
    assert shown == ["1234", r"$\mathdefault{3\cdot10^{3}}$", r"$\mathdefault{7\cdot10^{4}}$"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix,magic", [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_formats(results, tmp_path, suffix, magic):
    path = tmp_path / f"f{suffix}"
    plots.save_figure(results.plot(), path)
    assert path.read_bytes().startswith(magic)
    assert list(tmp_path.iterdir()) == [path]
