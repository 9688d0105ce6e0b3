"""`--dry-run` tells time and disk space of a run of any size; progress and the end by a signal in plain words."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from command import PAUSE, call, paused, start, stopped

import gpu_rsfd
from gpu_rsfd.cli.progress import Lines
from gpu_rsfd.options import amount, duration

SMALL = ["sweep", "--domain", "10x4", "--backend", "numpy", "--workers", "1", "--users"]


def told(monkeypatch, capsys, *words):
    assert call(monkeypatch, *words, "--dry-run") == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["users", "counts", "marginals"])
def test_any_size_is_answered(tmp_path, monkeypatch, capsys, sampler):
    monkeypatch.chdir(tmp_path)
    began = time.monotonic()
    size = ["--users", "1e12", "--domain", "10x10", "--sampler", sampler]
    each, cells, _, last = told(monkeypatch, capsys, "sweep", *size)
    assert time.monotonic() - began < 30
    assert each.startswith(
        "uniform-n1000000000000-d10: 1,000,000,000,000 users, 10 attributes, 100 values; 3,600 cells"
    )
    assert cells == "6 protocols x 6 epsilons x 100 repetitions: 3,600 cells, 10 P positions (users x values)"
    assert ("days" in last or "years" in last) == (sampler != "marginals")
    assert last.endswith("; nothing was written")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("more", [["--change", "0.2", "--attack"], ["--sampler", "marginals"]])
def test_rounds_of_more_users_than_are_tried(tmp_path, monkeypatch, capsys, more):
    monkeypatch.chdir(tmp_path)
    size = ["--users", "5000", "--domain", "3", "--epsilon", "1", "--rounds", "2", "--workers", "1"]
    assert "3 protocols x 1 epsilons x 10 repetitions" in told(monkeypatch, capsys, "rounds", *size, *more)[1]


@pytest.mark.slow
def test_time_and_disk_are_about_right(tmp_path, monkeypatch, capsys):
    """Within a factor of five of what a run then takes of the processor; the file is no larger than said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "perf_counter", time.process_time)  # whatever else the machine does
    run = [*SMALL, "30000", "--repetitions", "60"]
    last = told(monkeypatch, capsys, *run)[-1]
    began = time.process_time()
    assert call(monkeypatch, *run, "--no-plot", "--quiet") == 0
    took = time.process_time() - began
    number, unit, peak = re.match(r"expected: about ([\d.]+) (s|min) in all, ([\d.]+) MB of disk space", last).groups()
    assert took / 5 < float(number) * (60 if unit == "min" else 1) < took * 5
    size = Path("results.h5").stat().st_size
    assert size < 1e6 * float(peak)
    again = told(monkeypatch, capsys, *run)[-1]
    assert float(re.search(r"([\d.]+) MB of disk", again)[1]) == pytest.approx(float(peak) + size / 1e6, rel=0.02)


def test_a_part(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    whole, quarter = (
        told(monkeypatch, capsys, *SMALL, "3000", "--repetitions", "40", "--part", part) for part in ("1/1", "2/4")
    )
    assert "40 repetitions: 1,440 cells, 4.8 M positions" in whole[-3]
    assert "40 repetitions, part 2 of 4: 360 cells, 1.2 M positions" in quarter[-3]
    assert " for this part, " in quarter[-1]


@pytest.mark.parametrize("seconds,text", [
    (0.01234, "0.012 s"), (9.9, "9.9 s"), (75, "75 s"), (100, "1.7 min"), (3000, "50 min"), (7200, "2.0 h"),
    (40 * 3600, "40 h"), (60342697, "698 days"), (1e9, "32 years"), (1e14, "3,168,809 years"),
])  # fmt: skip
def test_durations_for_people(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("live,shown", [
    (False, "backend x\n 50 %  huge  10 positions/s  50 s left\n100 %  huge  10 positions/s  0 s left\n"),
    (True, "\r\x1b[Kbackend x\n\r\x1b[K━━━━━━━━━━━━━━━···············  50 %  huge  10 positions/s  50 s left"
           "\r\x1b[K━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ 100 %  huge  10 positions/s  0 s left\n"),
])  # fmt: skip
def test_progress(live, shown, capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "100")
    lines = Lines(live)
    lines.end()  # nothing to do: nothing is shown
    lines.say("backend x")
    lines.begin(1000, 0)
    lines.dataset("huge")
    now[0] += 50
    lines.advance(500)
    now[0] += 50
    lines._done = 1000
    lines.end()
    assert capsys.readouterr().err == shown
    assert amount(1.2e15) == "1.2 P"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for the workers in /proc")
def test_sigterm_keeps_what_is_done(tmp_path):
    """As a batch system sends it: to the workers as well."""
    small = ["--users", "20000", "--domain", "10x3", "--repetitions", "400", "--backend", "numpy", "--workers", "2"]
    process = start("sweep", *small, "--save-every", "0", "--no-plot", cwd=tmp_path, first=stopped(2, PAUSE, 80))
    paused(process)
    children = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and _parent(p) == process.pid]
    for child in children:
        os.kill(child, signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert re.search(
        r"terminated; what is done is kept in results\.h5.*; to continue:\n  gpu-rsfd sweep --users", err
    ), err
    assert "Traceback" not in err
    assert len(children) >= 2
    ends = time.monotonic() + 20
    while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert not gpu_rsfd.open_results(tmp_path / "results.h5").complete


def _parent(folder):
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None
