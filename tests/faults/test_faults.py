"""A sample of benchmarks/faults.py, with a fixed seed: faults at file operations, and signals at random moments."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import PAUSE, call, paused, start, stopped

import gpu_rsfd
import gpu_rsfd.running.experiments
from gpu_rsfd.cli.terminal import Terminated, ended_by_signals

SCRIPT = Path(gpu_rsfd.__file__).parents[1] / "benchmarks" / "faults.py"
COMPILER = os.environ.get("CC", "cc")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or shutil.which(COMPILER) is None,
        reason=f"faults are injected below the C library: needs Linux and a C compiler ({COMPILER})",
    ),
]


def walked(*arguments, code=0, path=""):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(path), os.environ.get("PYTHONPATH")]))}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=500, env=environment
    )
    assert done.returncode == code, done.stdout + done.stderr
    injected, violations = re.search(r"^(\d+) injected of \d+ .*; (\d+) violations$", done.stdout, re.M).groups()
    assert (int(violations) > 0) == (code == 1)
    return int(injected), done.stdout


def test_faults():
    assert walked("--sample", "40", "--seed", "1")[0] == 40


def test_signals():
    assert walked("--signals", "20", "--seed", "1")[0] == 20


@pytest.mark.parametrize("mistake,arguments,found", [
    ("files.os.fsync = lambda number: None", ["--scenario", "sweep", "--sample", "0"], "moved before it was synced"),
    ("files.FileImage.write = lambda self, content: len(content)", ["--scenario", "sweep"], "fails without a fault"),
    ("files.move = lambda beside, path: (path.write_bytes(beside.read_bytes()), beside.unlink())",
     ["--scenario", "extend", "--fault", "torn write"], "extend: unreadable"),
])  # fmt: skip
def test_the_walker_sees_mistakes(tmp_path, mistake, arguments, found):
    """Negative controls: a store that does not sync, one that loses what it writes, one that writes in place."""
    (tmp_path / "sitecustomize.py").write_text(
        f"import os\nif 'FAULTS_LIBRARY' in os.environ:\n    from gpu_rsfd.store import files\n    {mistake}\n"
    )
    assert found in walked(*arguments, code=1, path=tmp_path)[1]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_signals_keep_what_is_done(tmp_path, monkeypatch, capsys, number):
    """SIGHUP as SIGTERM: what is kept is said, with the command to resume."""
    command = ["sweep", "--users", "2000", "--domain", "4x2", "--repetitions", "9", "--workers", "1", "--no-plot"]
    process = start(*command, cwd=tmp_path, first=stopped(3, PAUSE))
    paused(process)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert "what is done is kept in results.h5" in err
    assert "to continue:\n  gpu-rsfd sweep" in err
    assert "Traceback" not in err
    assert [p.name for p in tmp_path.iterdir()] == ["results.h5"]
    (result,) = gpu_rsfd.open_results(tmp_path / "results.h5").values()
    assert result.repetitions == range(3)
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "show", "results.h5") == 0
    assert "not finished" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_exit_codes_of_any_command(monkeypatch, tmp_path, number):
    """Also where nothing is run that could be kept."""

    def slow(*_):
        os.kill(os.getpid(), number)
        time.sleep(20)

    monkeypatch.setattr(gpu_rsfd.running.experiments, "merge", slow)
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "merge", "r.h5") == 128 + number


INTERRUPTED = """
import sys
sys.argv = ['gpu-rsfd', 'sweep']
class Finder:
    def find_spec(self, name, *_):
        if name == {name!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
from gpu_rsfd.cli import main
main()
"""


@pytest.mark.parametrize("name", ["gpu_rsfd.cli.run", "gpu_rsfd.cli.program", "typer"])
def test_ctrl_c_while_it_is_imported(tmp_path, name):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED.format(name=name)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("number,error", [(signal.SIGINT, KeyboardInterrupt), (signal.SIGHUP, Terminated)])
def test_a_signal_at_a_bad_moment_comes_again(number, error):
    """Where Python would only complain of an exception and go on."""
    heard = []

    class Removed:
        def __del__(self):
            os.kill(os.getpid(), number)
            heard.append(sum(range(1000)))  # the handler has been called by now

    def work():
        Removed()
        heard.append("after")
        time.sleep(20)

    with ended_by_signals(), pytest.raises(error):
        work()
    assert heard == [499500, "after"]
