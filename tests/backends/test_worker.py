"""Worker processes: what they import, where their output goes, how their errors come back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpu_rsfd
from gpu_rsfd.backends.pool import Pool
from gpu_rsfd.errors import InputError, RunError

DATA = gpu_rsfd.Dataset([[0, 1], [1, 2]], (2, 3))
SWEEP = ["sweep", "--users", "2000", "--domain", "3x2", "--repetitions", "4", "--workers", "2", "--no-plot"]
WORK = """
import os, signal, sys
from gpu_rsfd.errors import InputError, RunError

def noisy(columns, number):
    print("printed" * 10_000)
    os.write(1, b"written" * 10_000)
    return number + len(sys.stdin.read())

def fails(columns, name):
    raise {"InputError": InputError, "RunError": RunError, "MemoryError": MemoryError}[name]("said so")

def bug(columns):
    return {}["no such key"]

def end(columns, how):
    os._exit(3) if how == "exit" else os.kill(os.getpid(), getattr(signal, how))

class Odd:
    def __reduce__(self):
        return read, ()

def read():
    raise LookupError("unreadable")
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
    pool = Pool()
    yield pool
    pool.close()


def ask(pool, work, *arguments):
    return [answer for _, answer in pool.each(1, DATA, work, [arguments])]


def console_script(folder: Path, *arguments: str, **options) -> subprocess.CompletedProcess:
    """As the installed command: the import path starts with the script's folder, not with the current one."""
    script = folder / "bin" / "gpu-rsfd"
    script.parent.mkdir(exist_ok=True)
    script.write_text("from gpu_rsfd.cli import main\nmain()\n")
    package = str(Path(gpu_rsfd.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, *options.pop("path", [])])}
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=True,
        **options,
    )


@pytest.mark.slow
def test_nothing_is_imported_from_the_current_directory(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    for name in ("random", "pickle", "numpy", "sitecustomize", "gpu_rsfd"):
        (here / f"{name}.py").write_text(f"raise RuntimeError('{name} of the current directory was imported')")
    (here / "csv.py").write_text("print('hello' * 100_000)")
    done = console_script(tmp_path, *SWEEP, cwd=here)
    assert "hello" not in done.stdout + done.stderr
    result = gpu_rsfd.open_results(here / "results.h5")["uniform-n2000-d2"]
    assert (result.counts == gpu_rsfd.simulate(gpu_rsfd.SyntheticDataset(2000, (3, 3)), repetitions=4).counts).all()


@pytest.mark.slow
def test_what_python_prints_while_it_starts(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import os\nos.write(1, b'good morning\\n')")
    done = console_script(tmp_path, *SWEEP, "--backend", "numpy", cwd=tmp_path, path=[str(tmp_path)])
    assert done.stdout.count("good morning") == 1  # the command's own
    assert done.stderr.count("good morning") == 2  # its workers'


def test_output_and_input_of_the_work_itself(pool, work, capfd):
    assert ask(pool, work.noisy, 1) == [1]
    assert ask(pool, work.noisy, 2) == [2]
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("printed") == err.count("written") == 20_000


@pytest.mark.slow
@pytest.mark.parametrize("error", [InputError, RunError, MemoryError])
def test_errors_of_ours_come_back_as_they_are(pool, work, error):
    with pytest.raises(error, match=r"^said so$") as raised:
        ask(pool, work.fails, error.__name__)
    assert raised.type is error


def test_a_bug_is_a_bug_and_shows_where(pool, work):
    with pytest.raises(RuntimeError, match=r"(?s)in bug\n.*KeyError: 'no such key'") as raised:
        ask(pool, work.bug)
    assert not isinstance(raised.value, RunError)


def test_a_request_that_cannot_be_read(pool, work):
    with pytest.raises(RuntimeError, match="LookupError: unreadable"):
        ask(pool, work.bug, work.Odd())


@pytest.mark.slow
@pytest.mark.parametrize("how,reason", [
    ("exit", "exit code 3"),
    ("SIGSEGV", r"signal 11 \(SIGSEGV\)"),
    ("SIGKILL", r"signal 9 \(SIGKILL\); out of memory\? try fewer workers"),
])  # fmt: skip
def test_a_worker_that_ends(pool, work, how, reason):
    with pytest.raises(RunError, match=f"^a worker process ended early: {reason}$"):
        ask(pool, work.end, how)
