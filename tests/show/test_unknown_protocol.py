"""A file with a protocol that this installation doesn't know is shown by everything that shows results."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from command import call

import gpu_rsfd
from gpu_rsfd.protocols import PROTOCOLS, REGISTRY
from gpu_rsfd.show import plots
from gpu_rsfd.show.rows import How

DATA = gpu_rsfd.SyntheticDataset(500, (3, 4), seed=1, name="one")
MINE = replace(REGISTRY["rsfd-oue-z"], name="mine", label="Mine[x]", colour="#123456", marker="H", summary="Of mine.")
RUN = {"epsilons": [0.5, 1.0], "protocols": [MINE, "rsfd-oue-z", "smp-adp"], "repetitions": 4, "workers": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mine")
    gpu_rsfd.sweep(DATA, **RUN, output=folder / "r.h5", backend="numpy")
    gpu_rsfd.attack(DATA, **RUN, output=folder / "a.h5")
    assert "mine" not in PROTOCOLS
    return folder


@pytest.fixture(scope="module")
def results(folder):
    return gpu_rsfd.open_results(folder / "r.h5")


def test_its_numbers_are_those_of_the_protocol_it_copies(results):
    result = results["one"]
    assert result.look("mine") == (MINE.name, MINE.label, MINE.colour, MINE.marker, MINE.summary)
    for metric in ("mse", "kl"):
        assert np.array_equal(result.error(metric)[0], result.error(metric)[1])
    assert all(np.array_equal(loss[0], loss[1]) for loss in plots.exact_losses(result))


@pytest.mark.parametrize("arguments", [
    [], ["--metric", "js"], ["--postprocess", "none"], ["--compare", "mine,smp-adp"], ["--per", "attribute"],
    ["--per", "value", "--protocol", "mine"],
])  # fmt: skip
def test_show(monkeypatch, capsys, folder, arguments):
    assert call(monkeypatch, "show", str(folder / "r.h5"), *arguments) == 0
    assert "Mine[x]" in capsys.readouterr().out


def test_rows_of_another_metric(monkeypatch, capsys, folder, results):
    assert call(monkeypatch, "show", str(folder / "r.h5"), "--metric", "mae", "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["metric"] for row in rows} == {"mae"}
    means = results["one"].error("mae").mean(axis=-1).ravel()
    assert [float(row["error"]) for row in rows] == pytest.approx(means.tolist())


def test_attacks(monkeypatch, capsys, folder):
    assert call(monkeypatch, "show", str(folder / "a.h5")) == 0
    assert "Mine[x]" in capsys.readouterr().out
    attack = gpu_rsfd.open_results(folder / "a.h5")["one"]
    assert "Mine[x]" in attack._repr_html_()
    assert repr(attack).startswith("Result(n=500")
    labels = [c.get_label() for c in attack.plot().axes[0].containers]
    assert labels == ["Mine[x]", "RS+FD[OUE-z]", "Smp[ADP]"]
    pytest.importorskip("pandas")
    assert attack.to_dataframe().value.tolist() == pytest.approx(attack.value_success.mean(axis=-1).ravel().tolist())
    pytest.importorskip("xarray")
    assert attack.to_xarray().sampled_success.dims == ("protocol", "epsilon", "repetition")


def test_figures_and_notebook(results):
    for axis in (*results.plot(metric="max").axes, *results.plot(attribute="A1").axes):
        assert "Mine[x]" in [c.get_label() for c in axis.containers]
    assert results.plot("none", metric="max").axes[0].get_ylabel() == "max$_{avg}$"
    assert len(plots.figure_of(results, How(metric="l1"), plots.LOSS).axes) == 2
    assert "Mine[x]" in results._repr_html_()
    pytest.importorskip("pandas")
    assert "mine" in set(results.to_dataframe().protocol)


def test_the_page(folder, results):
    pytest.importorskip("vl_convert")
    from gpu_rsfd.show import charts
    from gpu_rsfd.show.page import document

    page = document(results, "r.h5", gpu_rsfd.open_results(folder / "a.h5"), "mae")
    assert page["protocols"][0] == {
        "name": "mine",
        "label": "Mine[x]",
        "summary": "Of mine.",
        "shape": charts.template("shapes")["H"],
        "colour": "#123456",
        "marker": "H",
        "dash": page["protocols"][0]["dash"],
    }
    assert page["default"]["metric"] == "mae"
    assert "value guessed" in page["losses"]
