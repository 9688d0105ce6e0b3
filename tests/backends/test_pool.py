"""Worker processes: what they import, how their errors come back, how they end."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.backends.pool import Pool
from gpu_rsfd.errors import InputError, RunError

DATA = gpu_rsfd.Dataset([[0, 1], [1, 2]], (2, 3))
ROOT = Path(gpu_rsfd.__file__).parents[1]
WORK = """
import os, signal, sys, time
from gpu_rsfd.errors import InputError, RunError

class Odd(Exception):
    def __init__(self, first, second):
        super().__init__("odd")

def slowly(columns, number, seconds=0.0):
    time.sleep(seconds)
    return number, os.getpid(), int(columns(1, 0, 2).sum())

def noisy(columns):
    print("printed")
    os.write(1, b"written")

def fails(columns, error):
    raise error

def bug(columns, name):
    return {}[name] if name else fails(columns, Odd(1, 2))

def end(columns, how):
    os._exit(3) if how == "exit" else os.kill(os.getpid(), getattr(signal, how))
"""
SCRIPT = """
import sys, threading, gpu_rsfd
print("once")
data = gpu_rsfd.SyntheticDataset(700_000, (20, 15))
def run():
    result = gpu_rsfd.simulate(data, epsilons=1.0, repetitions={repetitions}, **{where})
    print(result.counts.sum())
thread = threading.Thread(target=run)
thread.start()
thread.join()
run()
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A module of work for workers, which they find where this process does."""
    (tmp_path / "work_of_workers.py").write_text(WORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("work_of_workers", None)
    import work_of_workers

    return work_of_workers


@pytest.fixture
def pool():
    pool = Pool(2)
    pool.lines = []
    pool.say = pool.lines.append
    yield pool
    pool.close()


def gone(pid):
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def worked(pid):
    """Seconds of the processor."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def children(parent):
    """The processes that a process has started."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((path / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.add(int(path.name))
    return found


@pytest.mark.slow
def test_in_order_and_few_at_a_time(pool, work):
    """The first items take longest; the same processes serve the same data set, others another."""
    taken = []

    def items():
        for number in range(20):
            taken.append(number)
            yield number, 0.2 if number < 2 else 0.0

    for done, (number, _, total) in enumerate(pool.map(DATA, work.slowly, items())):
        assert (number, total) == (done, 3)
        assert len(taken) - done <= 4
    first = {pid for _, pid, _ in pool.map(DATA, work.slowly, [(1, 0.1), (2, 0.1)])}
    assert first == {pid for _, pid, _ in pool.map(DATA, work.slowly, [(1, 0.1), (2, 0.1)])}
    ((_, pid, total),) = pool.map(gpu_rsfd.Dataset([[0, 0]] * 2, (2, 3)), work.slowly, [(1,)])
    assert total == 0
    assert pid not in first
    assert all(map(gone, first))


def test_what_cannot_be_sent_is_done_here(pool, work):
    class Local(gpu_rsfd.Dataset):
        pass

    class Script(gpu_rsfd.Dataset):
        pass

    Script.__module__, Script.__qualname__ = "__main__", "Script"
    sys.modules["__main__"].Script = Script
    for kind in (Local, Script):
        ((_, pid, _),) = pool.map(kind([[0, 1], [1, 2]], (2, 3)), work.slowly, [(1,)])
        assert pid == os.getpid()
    assert list(pool.map(DATA, lambda columns, number: number, [(1,), (2,)])) == [1, 2]
    assert list(pool.map(DATA, work.fails, ())) == []
    assert len(pool.lines) == 3
    assert all(line.startswith("data set 'data' is worked on in one process: ") for line in pool.lines), pool.lines
    del sys.modules["__main__"].Script


@pytest.mark.slow
def test_errors(pool, work, capfd):
    """Ours come back as they are, a bug with its place, whatever its class; and the pool can be used again."""
    for error in (InputError, RunError, MemoryError):
        with pytest.raises(error, match=r"^said so$") as raised:
            list(pool.map(DATA, work.fails, [(error("said so"),)]))
        assert raised.type is error
    with pytest.raises(RuntimeError, match=r"(?s)in bug\n.*KeyError: 'no such key'") as raised:
        list(pool.map(DATA, work.bug, [("no such key",)]))
    assert not isinstance(raised.value, RunError)
    with pytest.raises(RuntimeError, match=r"Odd: odd"):
        list(pool.map(DATA, work.bug, [("",)]))
    list(pool.map(DATA, work.noisy, [()]))
    pool.close()
    out, err = capfd.readouterr()
    assert out == ""
    assert "printed" in err
    assert "written" in err


@pytest.mark.slow
@pytest.mark.parametrize("how,reason", [("exit", "exit code 3"), ("SIGSEGV", "SIGSEGV"), ("SIGKILL", "SIGKILL")])
def test_a_worker_that_ends(pool, work, how, reason):
    words = rf"^a worker process ended early: {reason}; out of memory\? try fewer workers$"
    with pytest.raises(RunError, match=words):
        list(pool.map(DATA, work.end, [(how,)] * 3))
    assert len(list(pool.map(DATA, work.slowly, [(1,), (2,)]))) == 2


def test_signals_are_the_parents(pool, work):
    ((_, pid, _),) = pool.map(DATA, work.slowly, [(1,)])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    assert list(pool.map(DATA, work.slowly, [(1,)])) == [(1, pid, 3)]


@pytest.mark.slow
def test_counts_with_workers_are_those_without():
    codes = np.random.Generator(np.random.Philox(0)).integers(0, 7, (1 << 20, 3), np.uint8)
    data = gpu_rsfd.Dataset(codes, (7,) * 3)
    options = {"protocols": ["rsfd-grr"], "epsilons": [1.0], "repetitions": 4, "backend": "numpy"}
    one, two = (gpu_rsfd.simulate(data, **options, workers=workers) for workers in (1, 2))
    assert np.array_equal(one.counts, two.counts)


def script(folder, where, repetitions=3):
    """A script of no special form, in a folder of its own; the current one has modules that nobody may import."""
    (folder / "script").mkdir()
    path = folder / "script" / "run.py"
    path.write_text(SCRIPT.format(repetitions=repetitions, where=where))
    for name in ("random", "pickle", "numpy", "sitecustomize", "gpu_rsfd"):
        (folder / f"{name}.py").write_text(f"raise RuntimeError('{name} of the current directory was imported')")
    return subprocess.Popen(
        [sys.executable, str(path)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "script")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


HERE = {"backend": "numpy", "workers": 2}
CLUSTER = {"cluster": "local:2"}
PLACES = [
    HERE,
    pytest.param(CLUSTER, marks=pytest.mark.skipif("not __import__('importlib.util').util.find_spec('distributed')")),
]


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 imports from the current directory")
@pytest.mark.parametrize("where", PLACES)
def test_a_script_needs_no_guard(tmp_path, where):
    """It runs once, in a thread as well, and nothing is imported from the current directory."""
    out, err = script(tmp_path, where).communicate(timeout=100)
    data = gpu_rsfd.SyntheticDataset(700_000, (20, 15))
    expected = gpu_rsfd.simulate(data, epsilons=1.0, repetitions=3).counts.sum()
    assert (out, err) == (f"once\n{expected}\n{expected}\n", "")
    assert not list((tmp_path / "script").glob("gpu-rsfd*"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
@pytest.mark.parametrize("where", PLACES)
def test_nothing_is_left_of_a_process_that_is_killed(tmp_path, where):
    process = script(tmp_path, where, repetitions=100_000)
    until(lambda: len(children(process.pid)) == 3)  # two workers, and what Python cleans up with
    mine = children(process.pid)
    until(lambda: sorted(map(worked, mine))[1] > 2)  # both are at work
    process.kill()
    _, err = process.communicate()
    assert err == ""
    until(lambda: all(map(gone, mine)))
    until(lambda: not list((tmp_path / "script").glob("gpu-rsfd*")))
