"""Sweeps that would take too long or too much: told and refused before any work, whatever simulates them."""

import math
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from command import PAUSE, paused, refusal, run, start, stopped
from cuda_standin import needs_compiler, standin  # noqa: F401

import gpu_rsfd
from gpu_rsfd.backends import open_backend
from gpu_rsfd.backends.cpu import backend
from gpu_rsfd.backends.exact.samplers import Sampler
from gpu_rsfd.cli import dryrun
from gpu_rsfd.cli import program as cli
from gpu_rsfd.cli.progress import PlainLines, amount, duration
from gpu_rsfd.planning import Plan, plan_for
from gpu_rsfd.spec import Spec

HUGE = ["--users", "1e12", "--domain", "10x10"]


def work(datasets, spec, engine):
    return dryrun.Work(datasets, [plan_for(spec, data) for data in datasets], len(spec.repetitions), engine)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["users", "counts", "marginals"])
def test_a_dry_run_of_any_size_answers(tmp_path, sampler):
    done = run("sweep", *HUGE, "--sampler", sampler, "--dry-run", cwd=tmp_path)
    assert "1,000,000,000,000" in done.stdout
    assert "10 P positions" in done.stdout
    assert "nothing was written" in done.stdout
    assert ("days" in done.stdout or "years" in done.stdout) == (sampler != "marginals")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["users", "counts", "marginals"])
@pytest.mark.parametrize("n,domain", [(5, (2,)), (10**12, (65_535,) * 40), (10**12, (3,) * 2000), (70_000, (4, 700))])
def test_the_sample_is_bounded(monkeypatch, sampler, n, domain):
    """What is really simulated is small, and scaled to the whole."""
    sizes = []
    count, task = Sampler.count, backend.run
    monkeypatch.setattr(
        "gpu_rsfd.backends.exact.samplers.Sampler.count",
        lambda self, plan, data, *rest: (
            sizes.append((plan.values, 0 if sampler == "marginals" else data.n)) or count(self, plan, data, *rest)
        ),
    )

    def watched(piece, *rest):
        sizes.append((sum(a.k for a in piece.attributes), (piece.stop - piece.start) * len(piece.repetitions)))
        return task(piece, *rest)

    monkeypatch.setattr(backend, "run", watched)
    plan = Plan.of(domain, gpu_rsfd.PAPER, (1.0,))
    data = gpu_rsfd.SyntheticDataset(n, domain)
    with open_backend("auto" if sampler != "users" else "numpy", sampler=sampler)[0] as engine:
        assert 0 < engine.seconds_per_repetition(data, plan, 100) < math.inf
    assert sizes
    assert all(values <= 256 and users <= 1 << 21 for values, users in sizes)


@pytest.mark.slow
@needs_compiler
def test_a_dry_run_with_cupy_simulates_a_sample(standin, monkeypatch):  # noqa: F811
    seen = []
    backend, _ = open_backend("cupy")
    count = backend.count

    def watched(plan, data, seed, repetitions):
        seen.append(data.n)
        return count(plan, data, seed, repetitions)

    monkeypatch.setattr(backend, "count", watched)
    plan = Plan.of((10,) * 5, ["rsfd-grr"], (1.0,))
    with backend:
        assert backend.seconds_per_repetition(gpu_rsfd.SyntheticDataset(10**12, (10,) * 5), plan, 9) > 0
        assert max(seen) <= 1 << 21
        assert backend.memory(gpu_rsfd.SyntheticDataset(10**12, (10,) * 5), plan, 9) < 1 << 30


def test_more_than_a_day_needs_yes(tmp_path, monkeypatch, capsys):
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["sweep", *HUGE, "--workers", "1"])
    assert line.startswith("gpu-rsfd: this sweep would take about ")
    assert line.endswith("; --yes starts it anyway, --dry-run shows more")
    assert list(tmp_path.iterdir()) == []


def test_more_than_the_memory_needs_yes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dryrun, "available_memory", lambda: 1 << 20)
    small = ["sweep", "--users", "20", "--domain", "3x2", "--repetitions", "3", "--no-plot", "--quiet"]
    (line,) = refusal(monkeypatch, capsys, tmp_path, small)
    assert "of memory (1 MiB are free); --yes starts it" in line
    monkeypatch.setattr("sys.argv", ["gpu-rsfd", *small, "--yes"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert [p.name for p in tmp_path.iterdir()] == ["results.h5"]


def test_a_small_sweep_is_not_timed(monkeypatch):
    monkeypatch.setattr(backend.NumpyBackend, "seconds_per_repetition", None)
    with open_backend("numpy")[0] as engine:
        dryrun.check_size(work([gpu_rsfd.load_dataset("syn6")], Spec(), engine))


def test_an_unknown_memory_refuses_nothing(monkeypatch):
    monkeypatch.setattr(dryrun, "available_memory", lambda: None)
    with open_backend(sampler="marginals")[0] as engine:
        dryrun.check_size(work([gpu_rsfd.load_dataset("syn1")], Spec.of(repetitions=10**6), engine))


@pytest.mark.parametrize("sampler", ["users", "counts", "marginals"])
def test_results_and_data_count_as_memory(sampler):
    with open_backend("numpy" if sampler == "users" else "auto", 2, sampler=sampler)[0] as engine:

        def memory(data, repetitions):
            return dryrun.expected_memory(work([data], Spec.of(repetitions=repetitions), engine))

        small = gpu_rsfd.SyntheticDataset(1000, (10,) * 10)
        counts = 8 * 36 * 100 * 100_000  # bytes of the counts alone, which are never in memory all at once
        assert memory(small, 100_000) - memory(small, 1000) < counts / 3
        assert memory(small, 1000) - memory(small, 1) > 2 * 8 * 36 * 100 * 1000
        large = gpu_rsfd.Dataset(np.zeros((10**6, 10), int), (10,) * 10)
        assert memory(large, 100) - memory(small, 100) >= (0 if sampler == "marginals" else 20 * 10**6)


@pytest.mark.parametrize("seconds,text", [
    (0.01234, "0.012 s"), (9.9, "9.9 s"), (75, "75 s"), (100, "1.7 min"), (3000, "50 min"), (7200, "2.0 h"),
    (40 * 3600, "40 h"), (60342697, "698 days"), (1e9, "32 years"), (1e14, "3,168,809 years"),
])  # fmt: skip
def test_durations_for_people(seconds, text):
    assert duration(seconds) == text


def test_progress_in_the_same_words(capsys, monkeypatch):
    lines = PlainLines()
    lines._started = 0.0
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    lines._total, lines._done, lines._name = 60_343_697_000, 1_000_000, "huge"
    lines.end()
    assert capsys.readouterr().err == "  0 %  huge  1 k positions/s  698 days left\n"
    assert amount(1.2e15) == "1.2 P"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for the workers in /proc")
def test_sigterm_keeps_what_is_done(tmp_path):
    small = ["--users", "20000", "--domain", "10x3", "--repetitions", "400", "--backend", "numpy", "--workers", "2"]
    process = start("sweep", *small, "--save-every", "0", "--no-plot", cwd=tmp_path, first=stopped(2, PAUSE, 80))
    paused(process)
    children = _children(process.pid)
    for child in children:  # a batch system sends it to everybody
        os.kill(child, signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert re.search(r"terminated; .*results\.h5.*; to continue:\n  gpu-rsfd sweep --users 20000", err), err
    assert "Traceback" not in err
    assert len(children) == 2
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert not gpu_rsfd.open_results(tmp_path / "results.h5").complete


def _children(pid):
    return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and _parent(p) == pid]


def _parent(folder):
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None
