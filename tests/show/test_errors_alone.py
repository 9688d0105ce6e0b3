"""Results without counts (`sweep --keep mse`): what needs errors alone is shown, the rest says what is missing."""

import pytest

import gpu_rsfd
from gpu_rsfd.show import details, tables
from gpu_rsfd.show.selection import select


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "r.h5"
    data = gpu_rsfd.SyntheticDataset(300, (3, 4), seed=1, name="one")
    options = {"output": path, "keep": "mse", "backend": "numpy", "workers": 1}
    gpu_rsfd.sweep(data, epsilons=[0.5, 1.0], protocols=["rsfd-grr", "smp-adp"], repetitions=5, **options)
    return gpu_rsfd.open_results(path)


def test_tables_comparisons_and_parts(results, capsys):
    assert not results["one"].has_counts
    part = select(results, protocols=["smp-adp"], epsilons=[1.0])
    assert not part["one"].has_counts
    assert part["one"].mse("clip").shape == (1, 1, 5)
    tables.show(results, "clip")
    details.compare(results, "rsfd-grr", "smp-adp", "none")
    assert "difference" in capsys.readouterr().out
    assert "RS+FD[GRR]" in results._repr_html_()
    with pytest.raises(gpu_rsfd.InputError, match="holds errors only"):
        details.per(part, "value", "none")


@pytest.mark.slow
def test_the_page_leaves_out_frequencies(results):
    pytest.importorskip("vl_convert")
    from gpu_rsfd.show.page import document

    page = document(results, "r.h5")
    assert page["kept"] == []
    assert page["datasets"][0]["estimates"] == {}


def test_xarray_without_counts(results):
    pytest.importorskip("xarray")
    found = results.to_xarray()["one"]
    assert "counts" not in found
    assert found.mse.shape == (2, 2, 5, 4)
