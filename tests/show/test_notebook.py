"""Results in a notebook: they show themselves, and become data frames, xarray and figures."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.results.result import Results

ROOT = Path(__file__).parents[2]
PROTOCOLS = ["rsfd-grr", "smp-adp"]


@pytest.fixture(scope="module")
def data():
    codes = np.random.Generator(np.random.Philox(3)).integers(0, (3, 2), (500, 2))
    labels = [["<i>", "b", "c"], ["no", "yes"]]
    return gpu_rsfd.Dataset(codes, (3, 2), names=["first", "second"], labels=labels, name="a <b>")


@pytest.fixture(scope="module")
def result(data):
    return gpu_rsfd.simulate(data, epsilons=[math.log(2), 1.0], protocols=PROTOCOLS, repetitions=6, seed=5, workers=1)


def test_the_table_shows_itself(result):
    alone, several = result._repr_html_(), Results({"a <b>": result}, complete=False)._repr_html_()
    for text in (alone, several):
        assert text.count("<tr>") == 3
        assert "RS+FD[GRR]" in text
        assert "<th>ε = ln 2</th>" in text
        assert "* not significantly worse than the best in its column" in text
    assert "a &lt;b&gt;: n = 500" in several
    assert "not finished" in several
    assert Results()._repr_html_() == "<p>no results</p>"


def test_the_text_is_short(result):
    wanted = "Result(n=500, d=2, 6 repetitions; protocols: rsfd-grr, smp-adp; epsilons: ln 2, 1)"
    assert repr(result) == wanted
    assert repr(Results({"a": result, "b": result})) == "Results(a, b)"
    assert repr(Results(dict.fromkeys("abcdefgh", result))) == "Results(a, b, c, d, e, … (8 in all))"


def test_every_text_is_a_line(data):
    """What users hold in their hands, none of it with arrays or functions in it."""
    attacked = gpu_rsfd.attack(data, epsilons=1.0, protocols=PROTOCOLS, repetitions=1)
    assert repr(attacked) == "Result(n=500, d=2, 1 repetition; protocols: rsfd-grr, smp-adp; epsilons: 1)"
    assert repr(data) == "Dataset('a <b>', n=500, d=2, k=[3, 2])"
    sent = gpu_rsfd.reports(data, "rsfd-oue-z", 1.0)
    assert repr(sent) == "Reports(500 users, d=2; oue-z)"
    assert repr(next(gpu_rsfd.report_chunks(data, "smp-grr", 1.0))) == "ReportChunk(500 users, d=2; grr)"
    assert repr(gpu_rsfd.Spec.of(protocols="smp-grr")).startswith("Spec(protocols=(Protocol('smp-grr'),), epsilons=(")


def test_data_sets_by_name():
    """`report_chunks` takes what `simulate` takes."""
    (chunk,) = gpu_rsfd.report_chunks("nursery", "smp-grr", 1.0, users=20_000)
    assert chunk.stop == 12_960


def test_data_frames(result):
    pandas = pytest.importorskip("pandas")
    frame = result.to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 4
    assert set(frame.postprocess) == {"clip-normalize"}
    assert frame.error.tolist() == pytest.approx(result.mse().mean(axis=-1).ravel().tolist())
    frame = result.to_dataframe(postprocess="clip", metric="mae")
    assert set(frame.metric) == {"mae"}
    assert set(frame.dataset) == {result.title} == {"a <b>"}
    assert frame.label.unique().tolist() == [look.label for look in result.plan.looks]
    cell = frame.query("protocol == 'smp-adp' and epsilon == 1.0").iloc[0]
    assert cell.error == pytest.approx(result.error("mae", "clip")[1, 1].mean())
    each = Results({"x": result}).to_dataframe("repetition", "none")
    assert len(each) == 4 * 6
    means = each.groupby(["protocol", "epsilon"], sort=False).error.mean()
    assert np.allclose(means.to_numpy(), result.mse("none").mean(axis=-1).ravel())
    assert len(result.to_dataframe("attribute", "none")) == 4 * 2
    values = result.to_dataframe("value", "none")
    assert values.value.tolist()[:5] == ["<i>", "b", "c", "no", "yes"]
    with pytest.raises(gpu_rsfd.InputError, match="per=user must be one of cell, repetition, attribute, value"):
        result.to_dataframe("user")
    with pytest.raises(gpu_rsfd.InputError, match="unknown postprocess 'best'"):
        result.to_dataframe(postprocess="best")


def test_xarray_is_what_the_file_gives(result, data, tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    cells = {"epsilons": result.epsilons, "protocols": PROTOCOLS, "repetitions": 6, "seed": 5}
    gpu_rsfd.sweep(data, output=tmp_path / "r.h5", workers=1, **cells)
    mine = Results({"a <b>": result}).to_xarray()["a <b>"]
    with xarray.open_dataset(tmp_path / "r.h5", engine="h5netcdf", group="a <b>") as stored:
        for name in mine.variables:
            assert mine[name].dims == stored[name].dims, name
            assert np.array_equal(mine[name].values.astype(str), stored[name].values.astype(str)), name
    assert mine.mse.sel(postprocess="clip", protocol="smp-adp", epsilon=1.0).shape == (6,)


def test_figures_show_themselves(result):
    figure = result.plot("none")
    assert len(figure.axes) == 1
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert len(result.plot(attribute="first").axes) == 2


@pytest.mark.parametrize("library,act", [("pandas", "to_dataframe"), ("xarray", "to_xarray")])
def test_what_is_missing_is_named(monkeypatch, result, library, act):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(gpu_rsfd.InputError, match=rf'this needs {library}.*pip install "gpu-rsfd\[notebook\]"'):
        getattr(result, act)()


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_example_notebooks_run(path, tmp_path):
    """As they are, in a kernel of their own; what they print is what they hold."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    stored = nbformat.read(path, as_version=4)
    nbformat.validate(stored)
    fresh = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(fresh, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()

    def texts(notebook):
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        return [output.get("text") or output.data.get("text/html", "") for output in outputs]

    assert texts(fresh) == texts(stored)
    kinds = [kind for cell in fresh.cells for output in cell.get("outputs", []) for kind in output.get("data", {})]
    assert "image/png" in kinds
    assert "text/html" in kinds
