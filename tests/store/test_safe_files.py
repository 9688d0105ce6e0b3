"""Nothing of the user's is lost: what is written can be read back, and only files of gpu-rsfd are replaced."""

import json
import os
import resource

import h5py
import numpy as np
import pytest
from command import call, refusal, run
from files import store, sweep_of
from gpu_rsfd.store.output import check_output

import gpu_rsfd
from gpu_rsfd.backends import open_backend
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.show import plots
from gpu_rsfd.spec import Spec
from gpu_rsfd.store import compact
from gpu_rsfd.store.files import StoreError, locked

SMALL = ["--users", "500", "--domain", "3x2", "--epsilon", "1", "--repetitions", "2", "--workers", "1"]
TINY = [*SMALL, "--quiet"]
DATA = gpu_rsfd.SyntheticDataset(500, (3, 3), name="mine")
SPEC = Spec.of(protocols=["rsfd-grr", "smp-adp"], epsilons=[1.0], repetitions=6, seed=3)


def store_first(path, repetitions):
    """A file of a sweep that was stopped after some repetitions."""
    result = gpu_rsfd.simulate(
        DATA,
        epsilons=SPEC.epsilons,
        protocols=SPEC.protocols,
        repetitions=repetitions,
        seed=SPEC.seed,
        backend="numpy",
        workers=1,
    )
    store(path, [DATA], [result], SPEC)


def resume(path, **options):
    engine, _ = open_backend("numpy", 1, None)
    with engine:
        return sweep_of([DATA], SPEC, path, engine, **options)


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


# ---------------------------------------------------------------------------------------------- what is written


def test_what_cannot_be_read_back_replaces_nothing(tmp_path, monkeypatch):
    path = tmp_path / "r.h5"
    store_first(path, 2)
    before = files(tmp_path)
    write = compact.Store._write

    def lose_counts(self, group, *rest):
        write(self, group, *rest)
        group["counts"][...] = -1

    for broken in (lose_counts, lambda self, group, *rest: None):
        monkeypatch.setattr(compact.Store, "_write", broken)
        with pytest.raises(StoreError, match="can't read back what it wrote"):
            store_first(path, 4)
    assert files(tmp_path) == before


# ---------------------------------------------------------------------------------------------- what is replaced


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.csv").write_text("a,b\n" + "x,1\ny,2\n" * 10)
    (tmp_path / "domain.json").write_text(json.dumps({"a": ["x", "y"]}))
    (tmp_path / "spec.toml").write_text('dataset = "mine.csv"\nepsilon = 1\nrepetitions = 2\n')
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["codes"] = np.zeros((5, 2), int)
    (tmp_path / "link.h5").symlink_to("mine.csv")
    (tmp_path / "empty.h5").touch()
    return tmp_path


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
@pytest.mark.parametrize("arguments,output,message", [
    (["--dataset", "mine.csv"], "mine.csv", "output=mine.csv is mine.csv, which this command reads"),
    (["--dataset", "mine.csv"], "link.h5", "output=link.h5 is mine.csv, which this command reads"),
    (["--dataset", "mine.csv", "--domain-file", "domain.json"], "domain.json", "which this command reads"),
    (["--spec", "spec.toml"], "spec.toml", "output=spec.toml is spec.toml, which this command reads"),
    (["--dataset", "other.h5"], "other.h5", "which this command reads"),
    (SMALL, "other.h5", "output=other.h5 can't be replaced: other.h5 is an HDF5 file, but not a results file"),
    (SMALL, "mine.csv", "output=mine.csv can't be replaced: mine.csv is not an HDF5 file"),
    (SMALL, "empty.h5", "empty.h5 is not an HDF5 file"),
    (SMALL, "/dev/null", "/dev/null is not a regular file"),
])  # fmt: skip
def test_an_output_that_is_not_ours_is_refused(folder, monkeypatch, capsys, arguments, output, message, overwrite):
    before = files(folder)
    error = refusal(monkeypatch, capsys, folder, ["sweep", *arguments, "--output", output, *overwrite])
    assert len(error) == 1
    assert message in error[0]
    assert files(folder) == before


def test_original_files_are_no_output(tmp_path, monkeypatch, capsys):
    (tmp_path / "adult.data").write_text("")
    arguments = ["paper", "--data-dir", ".", "--output", "adult.data", "--overwrite"]
    (line,) = refusal(monkeypatch, capsys, tmp_path, arguments)
    assert "output=adult.data is adult.data, which this command reads" in line


def test_a_sweep_beside_its_inputs_is_resumed(tmp_path, monkeypatch):
    """Its output has the name of a data set, and lies in the folder of the original files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPU_RSFD_DATA", str(tmp_path))
    arguments = ["--dataset", "nursery", "--sampler", "marginals", "--epsilon", "1", "--repetitions", "2"]
    command = ["sweep", *arguments, "--no-plot", "--quiet", "--output", "nursery"]
    assert call(monkeypatch, *command) == 0
    before = files(tmp_path)
    assert call(monkeypatch, *command) == 0
    assert files(tmp_path) == before
    assert list(before) == ["nursery"]


def test_damaged_results_may_be_overwritten_on_request(tmp_path):
    path = tmp_path / "r.h5"
    store_first(path, 2)
    with h5py.File(path, "r+") as file:
        file.attrs["spec"] = "[]"
    with pytest.raises(InputError, match="is damaged: sha256 does not fit"):
        resume(path)
    assert resume(path, overwrite=True)
    assert gpu_rsfd.open_results(path).complete


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.h5"
    link.symlink_to("real/r.h5")
    assert check_output(link) == tmp_path / "real" / "r.h5"
    assert resume(link)
    assert link.is_symlink()
    assert gpu_rsfd.open_results(tmp_path / "real" / "r.h5").complete
    assert sorted(p.name for p in (tmp_path / "real").iterdir()) == ["r.h5"]
    with locked(tmp_path / "real" / "r.h5"), pytest.raises(InputError, match="in use by another"):
        resume(link)
    link.unlink()
    link.symlink_to("nowhere/r.h5")
    with pytest.raises(InputError, match=r"is a link into .*nowhere, a folder that does not exist"):
        resume(link)


def test_files_that_only_look_like_ours_stay(tmp_path):
    (tmp_path / "r.h5.tmp").write_text("mine")
    assert resume(tmp_path / "r.h5")
    assert (tmp_path / "r.h5.tmp").read_text() == "mine"
    (tmp_path / "r.h5.lock").write_text("mine")
    with pytest.raises(InputError, match=r"needs .*r\.h5\.lock as its lock, but that is a file of yours"):
        resume(tmp_path / "r.h5")
    assert (tmp_path / "r.h5.lock").read_text() == "mine"


# ------------------------------------------------------------------------------------------------------ figures


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


@pytest.fixture
def figure():
    return plots.surface()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_figures_know_that_they_are_ours(tmp_path, figure, suffix):
    path = tmp_path / f"f{suffix}"
    plots.save_figure(figure, path)
    first = path.read_bytes()
    plots.save_figure(plots.surface(), path)
    assert path.read_bytes() == first  # nothing of the moment is in it
    path.write_bytes(first[:20] + b"somebody else's")
    with pytest.raises(InputError, match="exists and was not made by gpu-rsfd"):
        plots.save_figure(figure, path)
    plots.save_figure(plots.surface(), path, overwrite=True)
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
    store_first(tmp_path / "r.h5", 6)

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))

    failed = run("plot", "r.h5", "--output", f"r.{suffix}", cwd=tmp_path, code=1, preexec_fn=small_files)
    assert failed.stderr == f"gpu-rsfd: can't write r.{suffix}: File too large\n"
    assert [p.name for p in tmp_path.iterdir()] == ["r.h5"]
