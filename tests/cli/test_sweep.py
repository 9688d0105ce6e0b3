"""`gpu-rsfd sweep`: a fresh run, a resumed run, a killed run, a second run that does no work."""

import random
import resource
import signal
import threading
import time

import numpy as np
import pytest
from command import refusal, run, start

import gpu_rsfd

SMALL = ["--users", "3000,1_000", "--domain", "4x2,6", "--epsilon", "ln2,2.5", "--repetitions", "12", "--seed", "9"]
LONG = ["--users", "20000", "--domain", "10x3", "--repetitions", "80", "--workers", "1", "--save-every", "0.05"]


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


def test_quiet_says_nothing(tmp_path):
    done = run("sweep", *SMALL, "--quiet", "--no-plot", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "")
    assert [p.name for p in tmp_path.iterdir()] == ["results.h5"]


@pytest.mark.slow
def test_another_spec_is_refused_and_shown(tmp_path):
    run("sweep", *SMALL, "--quiet", cwd=tmp_path)
    before = (tmp_path / "results.h5").read_bytes()
    refused = run("sweep", *SMALL[:-1], "10", "--epsilon", "1", cwd=tmp_path, code=2)
    assert "holds another sweep" in refused.stderr
    assert "seed: 9 in the file, 10 asked for" in refused.stderr
    assert "epsilon" not in refused.stderr, "one more is no conflict"
    assert (tmp_path / "results.h5").read_bytes() == before
    run("sweep", *SMALL[:-1], "10", "--overwrite", "--quiet", cwd=tmp_path)
    assert gpu_rsfd.open_results(tmp_path / "results.h5").spec["seed"] == 10


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    """20 times SIGKILL: the file is readable each time, holds a true beginning of the result, and ends up identical."""
    reference_path = tmp_path / "reference.h5"
    run("sweep", *LONG, "--quiet", "--no-plot", "--output", reference_path, cwd=tmp_path)
    reference = gpu_rsfd.open_results(reference_path)
    (truth,) = reference.values()
    rng = random.Random(4)
    kills, partial = 0, 0
    for cycle in range(5):
        output = tmp_path / f"{cycle}.h5"
        for i in range(4):
            before = output.stat().st_mtime_ns if output.exists() else 0
            process = start("sweep", *LONG, "--no-plot", "--output", output, cwd=tmp_path)
            if i % 2:  # any moment: starting up, too
                time.sleep(rng.uniform(0.1, 1.6))
            else:  # soon after a save, however slow the machine
                while process.poll() is None and (not output.exists() or output.stat().st_mtime_ns == before):
                    time.sleep(0.01)
                time.sleep(rng.uniform(0, 0.15))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            if output.exists():
                for result in gpu_rsfd.open_results(output).values():
                    done = len(result.repetitions)
                    partial += 0 < done < 80
                    assert np.array_equal(result.counts, truth.counts[:, :, :done])
        run("sweep", *LONG, "--quiet", "--no-plot", "--output", output, cwd=tmp_path)
        assert same_counts(gpu_rsfd.open_results(output), reference)
    assert kills == 20
    assert sorted(p.name for p in tmp_path.iterdir()) == [*(f"{cycle}.h5" for cycle in range(5)), "reference.h5"]
    assert partial >= 3, "the kills never hit a run in the middle"


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done(tmp_path):
    command = ["sweep", *LONG[:-5], "3000", *LONG[-4:], "--no-plot"]
    process = start(*command, cwd=tmp_path)
    while not (tmp_path / "results.h5").exists():
        time.sleep(0.02)
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "what is done is kept in results.h5; to continue:" in err
    assert "gpu-rsfd sweep --users 20000" in err
    assert [p.name for p in tmp_path.iterdir()] == ["results.h5"]
    results = gpu_rsfd.open_results(tmp_path / "results.h5")
    assert not results.complete
    assert "not finished" in run("show", "results.h5", cwd=tmp_path).stdout


@pytest.mark.slow
def test_two_at_once(tmp_path):
    first = start("sweep", *LONG[:-5], "5000", *LONG[-4:], cwd=tmp_path)
    while not (tmp_path / "results.h5").exists():
        time.sleep(0.02)
    second = run("sweep", *LONG[:-5], "5000", *LONG[-4:], cwd=tmp_path, code=2)
    assert "results.h5 is in use by another gpu-rsfd" in second.stderr
    assert first.poll() is None
    first.kill()
    first.communicate()


@pytest.mark.slow
def test_never_seen_torn(tmp_path):
    """A reader that opens the file again and again while it is written."""
    path, stop, seen = tmp_path / "results.h5", threading.Event(), []

    def read():
        while not stop.is_set():
            if path.exists():
                (result,) = gpu_rsfd.open_results(path).values()
                seen.append((len(result.repetitions), int(result.counts[:, :, -1].sum())))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        run("sweep", *LONG[:-1], "0", "--no-plot", "--quiet", cwd=tmp_path)
    finally:
        time.sleep(0.05)
        stop.set()
        reader.join()
    assert len({done for done, _ in seen}) >= 3
    assert seen[-1][0] == 80


@pytest.mark.slow
def test_full_disk_loses_nothing(tmp_path):
    """Files may not grow past 60 kB: saving fails as it does on a full disk, and what was there stays."""
    # users enough that a block, which is a fifth of a second of work, has few repetitions
    size = ["--users", "150000", "--domain", "10x3", "--repetitions", "40", "--workers", "1"]
    command = ["sweep", *size, "--save-every", "0", "--no-plot"]

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    failed = run(*command, cwd=tmp_path, code=1, preexec_fn=small_files)
    assert "can't write results.h5: File too large" in failed.stderr
    assert "to continue:\n  gpu-rsfd sweep" in failed.stderr
    assert "Traceback" not in failed.stderr
    kept = gpu_rsfd.open_results(tmp_path / "results.h5")
    assert 0 < len(next(iter(kept.values())).repetitions) < 40
    assert "what is done is kept in results.h5 and results.h5.blocks; to continue" in failed.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results.h5", "results.h5.blocks"]  # what had no room
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
def test_dry_run_writes_nothing(tmp_path):
    done = run("sweep", "--dataset", "syn1,syn6", "--dry-run", cwd=tmp_path)
    assert "syn6" in done.stdout
    assert "7,200 cells" in done.stdout
    assert "MiB in all; nothing was written" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_progress_lines_without_a_terminal(tmp_path):
    done = run("sweep", *SMALL, cwd=tmp_path)
    assert "100 %" in done.stderr
    assert "positions/s" in done.stderr


SIZE = ["--users", "10", "--domain", "2x2"]


@pytest.mark.parametrize("arguments,message", [
    (["--dataset", "syn9"], "unknown data set 'syn9'; available: syn1"),
    (["--dataset", "syn1,syn1"], "data set 'syn1' is given twice"),
    (["--dataset", "syn1", "--users", "5"], "--dataset and --users exclude each other"),
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
    ([*SIZE, "--data-dir", "folder"], "--data-dir needs a data set of the paper"),
    ([*SIZE, "--data-seed", "1", "--sampler", "marginals"], "--data-seed has no use with --sampler marginals"),
    (["--dataset", "syn1", "--data-dir", "folder"], "--data-dir needs a data set with original files"),
    (["--dataset", "nursery", "--data-seed", "1"], "--data-seed needs synthetic data"),
    ([*SIZE, "--backend", "cupy", "--workers", "2"], "workers=2 cannot be used with backend 'cupy'"),
    ([*SIZE, "--backend", "numpy", "--device", "0"], "devices=[0] cannot be used with backend 'numpy'"),
    ([*SIZE, "--sampler", "counts", "--backend", "cupy"], "sampler='counts' runs on the host"),
    ([*SIZE, "--dry-run", "--quiet"], "--dry-run and --quiet exclude each other"),
    (["--users", "5", "--domain", "10x999999999"], "domain=10x999999999 has 999,999,999 attributes"),
    ([*SIZE, "--output", "nowhere/results.h5"], "output=nowhere/results.h5: the folder nowhere does not exist"),
    ([*SIZE, "--output", "folder"], "output=folder is a directory"),
    ([*SIZE, "--output", "text.txt"], "text.txt is not an HDF5 file"),
    ([*SIZE, "--output", "other.h5"], "other.h5 is an HDF5 file, but not a results file of gpu-rsfd"),
    (["--spec", "missing.toml"], "spec=missing.toml can't be read: No such file or directory"),
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
