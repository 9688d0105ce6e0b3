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
from command import call

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
    ("os.fsync = lambda number: None", ["--scenario", "sweep", "--sample", "0"], "moved before it was synced"),
    ("files.FileImage._put = lambda self, view: None", ["--scenario", "sweep"], "fails without a fault"),
    ("os.replace = lambda a, b: (b.write_bytes(a.read_bytes()), a.unlink())",
     ["--scenario", "extend", "--fault", "torn write"], "extend: unreadable"),
    ("journal.Journal.add = swallow(journal.Journal.add)", ["--scenario", "sweep", "--fault", "no space"],
     "exit code 0 without its output|finished repetitions lost|run again: other numbers|exit code 0 with less"),
])  # fmt: skip
def test_the_walker_sees_mistakes(tmp_path, mistake, arguments, found):
    """Negative controls: no sync, writes that are lost, a file written in place, an error that is swallowed."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "def swallow(add):\n"
        "    def added(self, *given):\n"
        "        try:\n"
        "            add(self, *given)\n"
        "        except Exception:\n"
        "            pass\n"
        "    return added\n"
        "if 'FAULTS_LIBRARY' in os.environ:\n"
        "    from gpu_rsfd import files\n"
        "    from gpu_rsfd.store import journal\n"
        f"    {mistake}\n"
    )
    assert re.search(found, walked(*arguments, code=1, path=tmp_path)[1])


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_exit_codes_of_any_command(monkeypatch, tmp_path, number):
    """Also where nothing is run that could be kept."""
    slow = lambda *_: os.kill(os.getpid(), number) or time.sleep(20)  # noqa: E731
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
