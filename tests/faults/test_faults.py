"""A sample of benchmarks/faults.py, with a fixed seed: faults at file operations, and signals at random moments."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpu_rsfd

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
    ("files.FileImage._try = swallow(lambda self, work, *given: work(*given))",
     ["--scenario", "mse", "--fault", "no space"], "unreadable"),
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


@pytest.mark.parametrize("mistake,code,found", [
    ("", 0, "0 wrong"),
    ("errors.InputError.__str__ = lambda self: 'two lines:\\nthis is one'", 1, "TRACEBACK"),
    ("h5py._hl.files.File.__init__ = unchecked(h5py._hl.files.File.__init__)", 1, "HANG"),
])  # fmt: skip
def test_damaged_files(tmp_path, mistake, code, found):
    """A sample, and mistakes that are seen: a refusal of two lines, a reader that does not come back."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, time, h5py\n"
        "from gpu_rsfd import errors\n"
        "def unchecked(init):\n"
        "    def made(self, *given, **options):\n"
        "        init(self, *given, **options)\n"
        "        if os.getpid() != here:\n"
        "            signal.alarm(1)\n"
        "            time.sleep(60)\n"
        "    return made\n"
        "here = os.getpid()\n"
        f"{mistake}\n"
    )
    path = os.pathsep.join([str(tmp_path), str(SCRIPT.parents[1])])
    number, every = ("100", "500") if code == 0 else ("5", "100000")  # the fifth is cut off, so surely refused
    done = subprocess.run(
        [sys.executable, str(SCRIPT.with_name("damaged.py")), "--number", number, "--heap", every],
        capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert found in done.stdout
