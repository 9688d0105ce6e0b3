"""The scripts that docs/clusters.md shows, run as they stand; `srun` is a stand-in that starts tasks here."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gpu_rsfd

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

ROOT = Path(gpu_rsfd.__file__).parents[1]
PAGE = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
SPEC = 'users = 2000\ndomain = "4x3"\nepsilon = 1\nrepetitions = 20\n'
COMMANDS = {
    "gpu-rsfd": f'exec {sys.executable} -m gpu_rsfd "$@"',
    "dask": f'exec {sys.executable} -m dask "$@"',
    "srun": '[ "$1" = --overlap ] && shift && "$@" & exec "$@"',
}


SCRIPTS = {
    Path(name).name: (ROOT / "docs" / name).read_text(encoding="utf-8")
    for name in re.findall(r"```{literalinclude} (.*\.sh)\n", PAGE)
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bin").mkdir()
    for name, line in COMMANDS.items():
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/bash\n{line}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "sweep.toml").write_text(SPEC)
    return tmp_path


def run(folder, text, **environment):
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", text],
        cwd=folder / "work",
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def check(folder):
    (result,) = gpu_rsfd.open_results(folder / "work" / "results.h5").values()
    data = gpu_rsfd.SyntheticDataset(2000, (4,) * 3)
    assert np.array_equal(result.counts, gpu_rsfd.simulate(data, epsilons=1.0, repetitions=20).counts)


def test_the_array(folder):
    text = SCRIPTS["array.sh"].replace("PARTS=16", "PARTS=2").replace("srun ", "")
    for number in ("1", "2"):
        done = run(folder, text, SLURM_ARRAY_TASK_ID=number, SLURM_CPUS_PER_TASK="1")
        assert done.returncode == 0, done.stderr
    assert run(folder, "gpu-rsfd merge results.h5").returncode == 0
    check(folder)


def test_dask_in_a_job(folder):
    done = run(folder, SCRIPTS["dask-job.sh"], SLURM_JOB_ID="7")
    assert done.returncode == 0, done.stderr
    check(folder)
    assert not list((folder / "work").glob("scheduler*"))


def test_tls(folder):
    """The certificate of the page, and a cluster that only its holders reach."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    done = run(folder, SCRIPTS["dask-tls.sh"])
    assert done.returncode == 0, done.stderr
    check(folder)
    assert "tls://" in done.stderr
    assert "tcp://" not in done.stderr
    assert (folder / "work" / "rsfd.key").stat().st_mode & 0o077 == 0


def test_every_script_is_valid():
    assert len(SCRIPTS) == 3
    for text in (*SCRIPTS.values(), *re.findall(r"```bash\n(.*?)```", PAGE, re.S)):
        assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
