"""The results file as others read it."""

import json
from csv import DictReader

import h5py
import numpy as np
import pytest
from command import refusal, run
from files import store

import gpu_rsfd


def write(path, data, **options):
    result = gpu_rsfd.simulate(data, **options)
    store(path, [data], [result], device="here")
    return result


@pytest.fixture
def stored(tmp_path):
    data = gpu_rsfd.SyntheticDataset(2000, (5, 3), "zipf:1", seed=2, name="mine")
    return tmp_path / "r.h5", write(tmp_path / "r.h5", data, epsilons=[0.5, 3.0], repetitions=range(4, 10), seed=3)


def test_xarray_just_works(stored):
    xarray = pytest.importorskip("xarray")
    path, result = stored
    with xarray.open_dataset(path, engine="h5netcdf", group="mine") as dataset:
        assert dataset.counts.dims == ("protocol", "epsilon", "repetition", "value")
        assert dataset.counts.dtype == np.int64
        assert dataset.reporters.dims == ("protocol", "epsilon", "repetition", "attribute")
        assert dataset.mechanism.dims == ("protocol", "epsilon", "attribute")
        assert dataset.mse.dims == ("protocol", "epsilon", "repetition", "postprocess")
        assert dataset.frequency.dims == dataset.value_attribute.dims == ("value",)
        assert dataset.repetition.values.tolist() == [4, 5, 6, 7, 8, 9]
        cell = dataset.mse.sel(postprocess="clip", protocol="rsfd-adp", epsilon=3.0)
        assert np.array_equal(cell, result.mse("clip")[3, 1])
        assert np.array_equal(dataset.counts, result.counts)
        assert dataset.value.values[:2].tolist() == ["A1=0", "A1=1"]
        assert dataset.value_attribute.values.tolist() == [0] * 5 + [1] * 3
        m = result.mechanism("smp-adp", 0.5, 0)
        assert dataset.mechanism.sel(protocol="smp-adp", epsilon=0.5, attribute="A1") == m.name
        m = result.mechanism("rsfd-oue-z", 0.5, 0)
        cell = dataset.sel(protocol="rsfd-oue-z", epsilon=0.5, attribute="A1")
        assert (cell.integer_1, cell.integer_2) == (m.recipe.noise.tp, m.recipe.noise.tq)
        assert (cell.base, cell.slope, cell.gain, cell.loss) == (m.base, 0, m.gain, m.loss)
        assert cell.protocol_label == "RS+FD[OUE-z]"
        assert isinstance(dataset.protocol.values[0], str)
        assert json.loads(dataset.header.item())["users"] == 2000


@pytest.mark.slow
def test_xarray_opens_every_data_set_of_a_resumed_sweep(tmp_path):
    xarray = pytest.importorskip("xarray")
    options = ["--domain", "4x2", "--epsilon", "1", "--repetitions", "3", "--no-plot", "--quiet", "--save-every", "0"]
    run("sweep", "--users", "300,200,100", *options, cwd=tmp_path)
    results = gpu_rsfd.open_results(tmp_path / "results.h5")
    assert len(results) == 3
    for name, result in results.items():
        with xarray.open_dataset(tmp_path / "results.h5", engine="h5netcdf", group=name) as dataset:
            assert dataset.counts.dims == ("protocol", "epsilon", "repetition", "value")
            assert dataset.repetition.values.tolist() == [0, 1, 2]
            assert np.array_equal(dataset.counts.sel(protocol="spl-adp", epsilon=1.0), result.counts[4, 0])


def test_root_attributes(stored):
    path, _ = stored
    with h5py.File(path) as file:
        assert file.attrs["stream_version"] == gpu_rsfd.STREAM_VERSION
        assert file.attrs["package_version"] == gpu_rsfd.__version__.encode()
        assert (file.attrs["backend"], file.attrs["device"], file.attrs["complete"]) == (b"numpy", b"here", 1)
        spec = json.loads(file.attrs["spec"])
        assert spec["datasets"][0]["distribution"] == "zipf:1"
        assert spec["repetitions"] == [4, 10, 1]
        seconds = json.loads(file.attrs["wall_time"])["mine"]
        assert seconds["mean_seconds_per_cell"] == seconds["seconds"] / 12 > 0


def test_open_results_is_a_simulate_result(stored):
    path, result = stored
    read = gpu_rsfd.open_results(path)["mine"]
    assert np.array_equal(read.estimates("simplex"), result.estimates("simplex"))
    assert (read.n, read.domain, read.names) == (result.n, result.domain, result.names)
    assert {**read.spec, **result.spec} == read.spec
    assert read.plan == result.plan
    assert read.plan.mechanisms == result.plan.mechanisms


@pytest.mark.slow
def test_counts_of_syn6_are_small(tmp_path):
    """6 x 6 x 100 x 1,100 counts in under 20 MB: random counts of the right size and spread."""
    data = gpu_rsfd.CountedDataset.of_distribution(500_000, gpu_rsfd.load_dataset("syn6").domain, name="syn6")
    result = gpu_rsfd.simulate(data, repetitions=100, sampler="marginals")
    store(tmp_path / "r.h5", [data], [result])
    assert np.array_equal(gpu_rsfd.open_results(tmp_path / "r.h5")["syn6"].counts, result.counts)
    assert (tmp_path / "r.h5").stat().st_size < 20e6


@pytest.mark.slow
def test_show(stored):
    path, result = stored
    table = run("show", path, "--postprocess", "none", cwd=path.parent).stdout
    assert "mine: n = 2,000, d = 2, 6 repetitions" in table
    assert "*" in table
    csv = run("show", path, "--csv", cwd=path.parent).stdout.splitlines()
    assert csv[0].startswith("dataset,users,d,k,protocol,label,epsilon,metric,postprocess,repetitions,error,")
    assert len(csv) == 13
    mse = result.mse("clip-normalize")[0, 0]
    row = next(DictReader(csv))
    assert (row["dataset"], row["users"], row["d"], row["protocol"]) == ("mine", "2000", "2", "rsfd-grr")
    assert (row["epsilon"], row["metric"], row["postprocess"]) == ("0.5", "mse", "clip-normalize")
    assert float(row["error"]) == pytest.approx(mse.mean(), rel=1e-12)
    assert float(row["standard_error"]) == pytest.approx(mse.std(ddof=1) / np.sqrt(6), rel=1e-9)
    rows = json.loads(run("show", path, "--json", cwd=path.parent).stdout)["rows"]
    assert rows[0]["error"] == float(row["error"])


@pytest.mark.parametrize("mean,error,text", [
    (7.034, 0.021, "7.034(21)"),
    (1.0, 0.5, "1.00(50)"),
    (342.51, 7.2, "342.5(72)"),
    (3425.1, 72, "3425(72)"),
    (2.0, float("nan"), "2.000"),
    (float("nan"), 1.0, "–"),
])  # fmt: skip
def test_concise_numbers(mean, error, text):
    from gpu_rsfd.show.tables import concise

    assert concise(mean, error) == text


@pytest.mark.parametrize("arguments,message", [
    (["show", "missing.h5"], "missing.h5 does not exist"),
    (["show", "."], ". is a directory; a results file is needed"),
    (["show", "r.h5", "--postprocess", "clipp"], "unknown postprocess 'clipp'; available: none, clip"),
    (["show", "r.h5", "--csv", "--json"], "--csv and --json exclude each other"),
    (["show"], "Missing argument"),
    (["plot"], "Missing argument"),
    (["plot", "r.h5", "--output", "f.jpg"], "figure=f.jpg must end in one of .png, .pdf, .svg"),
    (["plot", "r.h5", "--output", "no/f.png"], "figure=no/f.png: the folder no does not exist"),
    (["plot", "r.h5", "--x", "users"], "x=n needs synthetic data sets, made by size, that differ in users n"),
    (["plot", "r.h5", "--x", "time"], "x=time must be one of auto, epsilon, n, d, k"),
    (["plot", "r.h5", "--x", "privacy loss"], "x=privacy loss must be one of auto, epsilon, n, d, k"),
    (["plot", "r.h5", "--attribute", "A1", "--x", "users"], "--attribute and --x exclude each other"),
    (["plot", "r.h5", "--attribute", "A9"], "no attribute 'A9' in the results; attributes: A1, A2"),
])  # fmt: skip
def test_bad_input(stored, capsys, monkeypatch, arguments, message):
    error = refusal(monkeypatch, capsys, stored[0].parent, arguments)
    assert message in error[-1]
    assert len(error) == 1


def test_no_text_lies_in_the_global_heap(stored):
    """One changed bit there makes HDF5 loop for ever; references to scales are there, but are never read by us."""
    path, _ = stored
    with h5py.File(path) as file:
        for node in (file, file["mine"], *file["mine"].values()):
            for name in node.attrs:
                kind = node.attrs.get_id(name).dtype
                assert name in ("DIMENSION_LIST", "REFERENCE_LIST") or kind.kind in "iuS", (node.name, name)
            assert not isinstance(node, h5py.Dataset) or node.dtype.kind in "iufS"


def test_the_reader_opens_known_names_only(stored, monkeypatch):
    path, result = stored
    with h5py.File(path, "r+") as file:
        file["mine"]["more"] = h5py.ExternalLink("elsewhere.h5", "/")
        file["more"] = h5py.SoftLink("/nowhere")
    for cls in (h5py.AttributeManager, h5py.Group, h5py.File):
        monkeypatch.setattr(cls, "__iter__", None)
    monkeypatch.setattr(h5py.Dataset, "dims", None)
    assert np.array_equal(gpu_rsfd.open_results(path)["mine"].counts, result.counts)


def test_errors_alone(tmp_path):
    path, data = tmp_path / "r.h5", gpu_rsfd.SyntheticDataset(400, (3, 5), name="mine")
    options = {"epsilons": 1.0, "protocols": ["rsfd-grr", "smp-adp"], "workers": 1}
    results = gpu_rsfd.sweep(data, repetitions=7, output=path, keep="mse", **options)
    truth = gpu_rsfd.simulate(data, repetitions=9, **options)
    for result in (results["mine"], gpu_rsfd.open_results(path)["mine"]):
        assert not result.has_counts
        assert np.array_equal(result.mse("clip"), truth.mse("clip")[:, :, :7])
        with pytest.raises(gpu_rsfd.InputError, match=r"holds errors only \(--keep mse\)"):
            result.counts  # noqa: B018
    assert gpu_rsfd.sweep(data, repetitions=9, output=path, keep="mse", **options).computed == 2
    assert np.array_equal(gpu_rsfd.open_results(path)["mine"].mse(), truth.mse())
    with pytest.raises(gpu_rsfd.InputError, match="keep: mse in the file, counts asked for"):
        gpu_rsfd.sweep(data, repetitions=9, output=path, **options)
