"""`gpu-rsfd sweep`: a fresh run, a resumed run, a killed run, a second run that does no work."""

import re
import resource
import signal

import numpy as np
import pytest
from command import DIE, refusal, run, start, stopped

import gpu_rsfd
from gpu_rsfd.store.files import locked

SMALL = ["--users", "3000,1_000", "--domain", "4x2,6", "--epsilon", "ln2,2.5", "--repetitions", "12", "--seed", "9"]


def same_counts(a, b):
    return list(a) == list(b) and all(
        np.array_equal(a[name].counts, b[name].counts) and np.array_equal(a[name].reporters, b[name].reporters)
        for name in a
    )


@pytest.mark.slow
def test_fresh_run_equals_simulate(tmp_path):
    done = run("sweep", *SMALL, cwd=tmp_path)
    assert "uniform-n3000-d3: n = 3,000, d = 3, 12 repetitions" in done.stdout
    assert "RS+FD[OUE-z]" in done.stdout
    assert "backend na" in done.stderr or "backend numpy" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results.h5", "results.png"]
    results = gpu_rsfd.open_results(tmp_path / "results.h5")
    assert results.complete
    assert list(results) == ["uniform-n3000-d3", "uniform-n1000-d3"]
    for result in results.values():
        data = gpu_rsfd.SyntheticDataset(result.n, (4, 4, 6))
        direct = gpu_rsfd.simulate(data, epsilons=[np.log(2), 2.5], repetitions=12, seed=9)
        assert np.array_equal(result.counts, direct.counts)
        assert np.array_equal(result.reporters, direct.reporters)
        assert np.array_equal(result.frequencies, direct.frequencies)
        assert (result.protocols, result.epsilons, result.repetitions) == (
            direct.protocols,
            direct.epsilons,
            direct.repetitions,
        )
        for name in ("none", "clip", "clip-normalize", "simplex"):
            assert np.array_equal(result.mse(name), direct.mse(name))


@pytest.mark.slow
def test_second_run_does_no_work(tmp_path):
    run("sweep", *SMALL, "--quiet", cwd=tmp_path)
    before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.iterdir()}
    again = run("sweep", *SMALL, cwd=tmp_path)
    assert "results.h5 is complete: nothing to do" in again.stderr
    assert {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_quiet_says_nothing(tmp_path):
    done = run("sweep", *SMALL, "--quiet", "--no-plot", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "")
    assert [p.name for p in tmp_path.iterdir()] == ["results.h5"]


@pytest.mark.slow
def test_another_spec_is_refused_and_shown(tmp_path):
    run("sweep", *SMALL, "--quiet", cwd=tmp_path)
    before = (tmp_path / "results.h5").read_bytes()
    refused = run("sweep", *SMALL[:-1], "10", "--epsilon", "1", cwd=tmp_path, code=2)
    assert "holds the results of another run; give another --output" in refused.stderr
    assert "seed: 9 in the file, 10 asked for" in refused.stderr
    assert "epsilon" not in refused.stderr, "one more is no conflict"
    assert (tmp_path / "results.h5").read_bytes() == before
    run("sweep", *SMALL[:-1], "10", "--overwrite", "--quiet", cwd=tmp_path)
    assert gpu_rsfd.open_results(tmp_path / "results.h5").spec["seed"] == 10


@pytest.mark.slow
def test_killed_again_and_again(tmp_path):
    """SIGKILL before, between and after saves: a true beginning each time, the same integers at the end.

    benchmarks/faults.py kills it at every file operation.
    """
    command = ["sweep", "--users", "2000", "--domain", "4x2", "--repetitions", "9", "--workers", "1", "--no-plot"]
    truth = gpu_rsfd.simulate(gpu_rsfd.SyntheticDataset(2000, (4, 4)), repetitions=9)
    output = tmp_path / "results.h5"
    for after, save_every in ((0, 0), (2, 1000), (2, 0), (3, 0)):
        process = start(*command, "--save-every", save_every, cwd=tmp_path, first=stopped(after, DIE))
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        if after:
            (result,) = gpu_rsfd.open_results(output).values()  # from the journal beside it
            assert 0 < len(result.repetitions) < 9
            assert np.array_equal(result.counts, truth.counts[:, :, : len(result.repetitions)])
    run(*command, "--quiet", cwd=tmp_path)
    (result,) = gpu_rsfd.open_results(output).values()
    assert np.array_equal(result.counts, truth.counts)
    assert [p.name for p in tmp_path.iterdir()] == ["results.h5"]


@pytest.mark.slow
def test_two_at_once(tmp_path):
    with locked(tmp_path / "results.h5"):
        second = run("sweep", *SMALL, cwd=tmp_path, code=2)
    assert "results.h5 is in use by another gpu-rsfd" in second.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_full_disk_loses_nothing(tmp_path):
    """Files may not grow past 140 kB: saving fails as it does on a full disk, and what was there stays."""
    size = ["--users", "20000", "--domain", "60x30", "--repetitions", "12", "--workers", "1"]
    command = ["sweep", *size, "--epsilon", "1", "--protocol", "rsfd-grr", "--save-every", "0", "--no-plot"]

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (140_000, 140_000))

    failed = run(*command, cwd=tmp_path, code=1, preexec_fn=small_files, first=stopped(-1, "never"))
    assert re.search(
        r"gpu-rsfd: can't write results\.h5(\.journal)?: File too large; what is done is kept in ", failed.stderr
    )
    assert "to continue:\n  gpu-rsfd sweep" in failed.stderr
    assert "Traceback" not in failed.stderr
    kept = gpu_rsfd.open_results(tmp_path / "results.h5")
    assert 0 < len(next(iter(kept.values())).repetitions) < 12
    run(*command, "--quiet", cwd=tmp_path)
    assert gpu_rsfd.open_results(tmp_path / "results.h5").complete
    assert [p.name for p in tmp_path.iterdir()] == ["results.h5"]


@pytest.mark.slow
def test_spec_file(tmp_path):
    (tmp_path / "spec.toml").write_text(
        'users = ["3000", 1_000]\ndomain = "4x2,6"\nepsilon = ["ln2", 2.5]\nrepetitions = 12\nseed = 1\n'
    )
    run("sweep", "--spec", "spec.toml", "--seed", "9", "--quiet", "--no-plot", "--output", "a.h5", cwd=tmp_path)
    run("sweep", *SMALL, "--quiet", "--no-plot", "--output", "b.h5", cwd=tmp_path)
    a, b = (gpu_rsfd.open_results(tmp_path / name) for name in ("a.h5", "b.h5"))
    assert a.spec == b.spec
    assert same_counts(a, b)


@pytest.mark.slow
def test_progress_lines_without_a_terminal(tmp_path):
    done = run("sweep", *SMALL, cwd=tmp_path)
    assert "100 %" in done.stderr
    assert "positions/s" in done.stderr


SIZE = ["--users", "10", "--domain", "2x2"]


@pytest.mark.parametrize("arguments,message", [
    (["--dataset", "syn9"], "unknown data set 'syn9'; available: syn1"),
    (["--dataset", "syn1,syn1"], "data set 'syn1' is given twice"),
    (["--dataset", "syn1", "--users", "5"], "a synthetic data set needs --users and --domain; --domain is missing"),
    (["--users", "1e3"], "a synthetic data set needs --users and --domain; --domain is missing"),
    (["--users", "1.5", "--domain", "2"], "users=1.5 must be a whole number, such as 1000, 1e6 or 1_000_000"),
    (["--users", "0", "--domain", "2"], "users=0 must be a whole number >= 1"),
    (["--users", "many", "--domain", "2"], "users=many must be a whole number"),
    (["--users", "5", "--domain", "1"], "domain[0]=1 must be a whole number from 2 to 65,535"),
    (["--users", "5", "--domain", "10y5"], "domain=10y5 must be domain sizes such as 10,10,20 or 10x5"),
    ([*SIZE, "--distribution", "normal"], "unknown distribution 'normal'; available: uniform, zipf:S"),
    ([*SIZE, "--epsilon", "-1"], "epsilon=-1.0 must be finite and > 0"),
    ([*SIZE, "--epsilon", "ln1"], "epsilon=0.0 must be finite and > 0"),
    ([*SIZE, "--epsilon", "big"], "epsilon=big must be a number > 0 or a logarithm such as ln2"),
    ([*SIZE, "--epsilon", "1,1.0"], "epsilon 1.0 is given twice"),
    ([*SIZE, "--epsilon", "1e-20"], "epsilon=1e-20 is too small for rsfd-grr"),
    ([*SIZE, "--protocol", "rsfd-gr"], "unknown protocol 'rsfd-gr'; did you mean rsfd-grr? available: rsfd-grr"),
    ([*SIZE, "--repetitions", "0"], "repetitions=0 must be a whole number >= 1"),
    ([*SIZE, "--repetitions", "-5"], "repetitions=-5 must be a whole number >= 1"),
    ([*SIZE, "--seed", "-1"], "seed=-1 must be a whole number >= 0 and < 2**64"),
    ([*SIZE, "--seed", "18446744073709551616"], "seed=18446744073709551616 must be"),
    ([*SIZE, "--assignment", "fair"], "unknown assignment 'fair'; available: uniform, balanced"),
    ([*SIZE, "--backend", "jax"], "unknown backend 'jax'; available: auto"),
    ([*SIZE, "--workers", "0"], "workers=0 must be a whole number from 1 to 1,024"),
    ([*SIZE, "--save-every", "-1"], "save-every=-1.0 must be a number of seconds >= 0"),
    ([*SIZE, "--save-every", "inf"], "save-every=inf must be a number of seconds >= 0"),
    ([*SIZE, "--output", "results.png"], "output=results.png ends like a figure"),
    ([*SIZE, "--data-dir", "folder"], "--data-dir needs a data set with original files"),
    ([*SIZE, "--data-seed", "1", "--sampler", "marginals"], "--data-seed has no use with --sampler marginals"),
    (["--dataset", "syn1", "--data-dir", "folder"], "--data-dir needs a data set with original files"),
    (["--dataset", "nursery", "--data-seed", "1"], "--data-seed needs synthetic data"),
    ([*SIZE, "--backend", "cupy", "--workers", "2"], "workers=2 cannot be used with backend 'cupy'"),
    ([*SIZE, "--backend", "numpy", "--device", "0"], "devices=[0] cannot be used with backend 'numpy'"),
    ([*SIZE, "--sampler", "counts", "--backend", "cupy"], "sampler='counts' runs on the CPU only"),
    ([*SIZE, "--dry-run", "--quiet"], "--dry-run and --quiet exclude each other"),
    (["--users", "5", "--domain", "10x999999999"], "domain=10x999999999 has 999,999,999 attributes"),
    ([*SIZE, "--output", "nowhere/results.h5"], "output=nowhere/results.h5: the folder nowhere does not exist"),
    ([*SIZE, "--output", "folder"], "output=folder is a directory"),
    ([*SIZE, "--output", "text.txt"], "text.txt is not an HDF5 file"),
    ([*SIZE, "--output", "other.h5"], "other.h5 is an HDF5 file, but not a results file of gpu-rsfd"),
    (["--spec", "missing.toml"], "spec=missing.toml does not exist"),
    (["--spec", "text.txt"], "spec=text.txt is not a TOML file"),
    (["--spec", "bad.toml"], "spec=bad.toml: unknown key 'epsilons'; did you mean epsilon? available: dataset"),
    (["--sed", "1"], "no such option: --sed; did you mean --seed?"),
    (["--save-every", "soon"], "Invalid value for '--save-every'"),
])  # fmt: skip
def test_bad_input(tmp_path, capsys, monkeypatch, arguments, message):
    import h5py

    (tmp_path / "folder").mkdir()
    (tmp_path / "text.txt").write_text("not HDF5")
    (tmp_path / "bad.toml").write_text("epsilons = [1]")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    error = refusal(monkeypatch, capsys, tmp_path, ["sweep", *arguments])
    assert message in error[-1]
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before


@pytest.mark.slow
def test_bad_input_in_a_process(tmp_path):
    done = run("sweep", "--epsilon", "0", cwd=tmp_path, code=2)
    assert done.stderr == "gpu-rsfd: epsilon=0.0 must be finite and > 0\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_unwritable_folder(tmp_path):
    done = run("sweep", *SIZE, "--output", "/proc/results.h5", cwd=tmp_path, code=2)
    assert "output=/proc/results.h5 can't be written" in done.stderr
    assert "Traceback" not in done.stderr
