"""The source distribution holds what its tests need, the wheel what the package reads."""

import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"


@pytest.mark.slow
def test_sdist_and_wheel_have_everything_that_git_has(tmp_path):
    if not find_spec("setuptools") or int(version("setuptools").partition(".")[0]) < 77:  # its import may be too late
        pytest.skip("needs setuptools 77")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    copy = tmp_path / "copy"
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    for kind in ("sdist", "wheel"):
        words = [sys.executable, "-c", BUILD.format(kind), str(tmp_path)]
        made = subprocess.run(words, cwd=copy, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        packed = {name.partition("/")[2] for name in tar.getnames()}
    left_out = {name for name in listed.stdout.splitlines() if name not in packed and name != ".gitignore"}
    assert not left_out
    (wheel,) = tmp_path.glob("*.whl")
    installed = set(zipfile.ZipFile(wheel).namelist())
    assert not {name for name in listed.stdout.splitlines() if name.startswith("gpu_rsfd/") and name not in installed}
