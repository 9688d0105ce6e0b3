"""Figures replace figures of gpu-rsfd only, wholly or not at all."""

import os
import resource

import pytest
from command import run
from runs import DATA, sweep

import gpu_rsfd
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.show import plots

SMALL = ["--users", "500", "--domain", "3x2", "--epsilon", "1", "--repetitions", "2", "--workers", "1"]
TINY = [*SMALL, "--quiet"]


@pytest.mark.parametrize("name,figure", [
    ("run.1", "run.1.png"),
    ("run.2", "run.2.png"),
    ("run", "run.png"),
    ("run.h5", "run.png"),
    ("run.HDF5", "run.png"),
    ("run.nc", "run.png"),
    ("v0.5", "v0.5.png"),
])  # fmt: skip
def test_every_results_file_has_a_figure_of_its_own(tmp_path, name, figure):
    assert plots.beside(tmp_path / name) == tmp_path / figure
    assert plots.beside(tmp_path / name, "syn1") == tmp_path / (figure.removesuffix(".png") + "-syn1.png")
    assert plots.beside(tmp_path / name, "a/b").parent == tmp_path


def drawn():
    return gpu_rsfd.simulate(DATA, epsilons=[1.0, 2.0], protocols="smp-grr", repetitions=2, workers=1).plot()


@pytest.fixture
def figure():
    return drawn()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_figures_know_that_they_are_ours(tmp_path, figure, suffix):
    path = tmp_path / f"f{suffix}"
    plots.save_figure(figure, path)
    first = path.read_bytes()
    plots.save_figure(drawn(), path)
    assert path.read_bytes() == first  # nothing of the moment is in it
    path.write_bytes(first[:20] + b"somebody else's")
    with pytest.raises(InputError, match="exists and was not made by gpu-rsfd"):
        plots.save_figure(figure, path)
    plots.save_figure(drawn(), path, overwrite=True)
    assert path.read_bytes() == first
    link = tmp_path / f"link{suffix}"
    link.symlink_to(path.name)
    plots.save_figure(figure, link)
    assert link.is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([path.name, link.name])


def test_devices_are_never_replaced(tmp_path, figure):
    (tmp_path / "f.png").symlink_to("/dev/full")
    with pytest.raises(InputError, match="is not a regular file"):
        plots.save_figure(figure, tmp_path / "f.png", overwrite=True)
    assert not os.path.isfile("/dev/full")


@pytest.mark.slow
def test_foreign_figures_are_found_before_any_work(tmp_path):
    (tmp_path / "results.png").write_bytes(b"\x89PNG mine")
    refused = run("sweep", *SMALL, cwd=tmp_path, code=2)
    assert "figure=results.png exists and was not made by gpu-rsfd" in refused.stderr
    assert "--no-plot" in refused.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["results.png"]
    run("sweep", *TINY, "--no-plot", cwd=tmp_path)
    refused = run("plot", "results.h5", cwd=tmp_path, code=2)
    assert "figure=results.png exists and was not made by gpu-rsfd" in refused.stderr
    assert "--overwrite" in refused.stderr
    assert (tmp_path / "results.png").read_bytes() == b"\x89PNG mine"
    run("plot", "results.h5", "--overwrite", cwd=tmp_path)
    run("plot", "results.h5", cwd=tmp_path)
    assert len((tmp_path / "results.png").read_bytes()) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_full_disk(tmp_path, figure, monkeypatch, suffix):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"can't write .*: No space left on device"):
        plots.save_figure(figure, tmp_path / f"f{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_full_disk_in_a_process(tmp_path, suffix):
    sweep(tmp_path / "r.h5", 6)

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))

    failed = run("plot", "r.h5", "--output", f"r.{suffix}", cwd=tmp_path, code=1, preexec_fn=small_files)
    assert failed.stderr == f"gpu-rsfd: can't write r.{suffix}: File too large\n"
    assert [p.name for p in tmp_path.iterdir()] == ["r.h5"]
