"""The scripts of a clone, with stubs in place of Python and its tools: what they run, and how they end."""

import subprocess
import sys
from pathlib import Path

import pytest
from clone import EDITABLE, Clone

ROOT = Path(__file__).parents[2]
CHECKS = ["ruff check .", "ruff format --check .", "mypy ", "python -m pytest -n auto --dist worksteal"]


@pytest.fixture
def clone(tmp_path):
    return Clone(tmp_path)


@pytest.mark.parametrize("i", range(4))
def test_every_check_can_fail(clone, i):
    clone("install", "test")
    assert clone("test", fail=CHECKS[i].rstrip(), code=3) == CHECKS[: i + 1]


def test_all_checks_run(clone):
    assert clone("test")[-4:] == CHECKS
    assert clone("test", "--fast", "-x")[-1] == "python -m pytest -n auto --dist worksteal -m not slow -x"
    assert clone("test", "tests/test_tape.py")[-1] == "python -m pytest -n auto --dist worksteal tests/test_tape.py"


def test_extras_stay(clone):
    venv = f"python3 -m venv {clone.folder}/.venv"
    assert clone("sweep", "--seed", "1") == [venv, clone.installed(""), "gpu-rsfd sweep --seed 1"]
    assert clone("sweep") == ["gpu-rsfd sweep"]
    assert clone("install", "page", "cuda13") == [clone.installed("[cuda13,page]")]
    assert clone("install", "page") == []
    assert clone("sweep") == ["gpu-rsfd sweep"]
    assert clone("test")[0] == clone.installed("[cuda13,page,test]")
    pyproject = clone.folder / "pyproject.toml"
    pyproject.write_text(pyproject.read_text() + "\n")
    assert clone("sweep") == [clone.installed("[cuda13,page,test]"), "gpu-rsfd sweep"]
    # `pip install .` by hand puts a copy in place of the clone's own code
    (clone.folder / ".venv" / EDITABLE).write_text("{}")
    assert clone("sweep") == [clone.installed("[cuda13,page,test]"), "gpu-rsfd sweep"]


def test_a_failed_install_is_tried_again(clone):
    assert clone("sweep", fail="python -m pip", code=3)[-1] == clone.installed("")
    assert clone("sweep") == [clone.installed(""), "gpu-rsfd sweep"]


def test_a_moved_clone_gets_a_new_environment(clone):
    clone("install", "page")
    clone.folder = clone.folder.rename(clone.folder.with_name("moved"))
    venv = f"python3 -m venv {clone.folder}/.venv"
    assert clone("sweep") == [venv, clone.installed("[page]"), "gpu-rsfd sweep"]


def test_an_extra_that_is_no_more_is_forgotten(clone):
    clone("install", "page", "bench")
    pyproject = clone.folder / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("bench = [", "benchmarks = ["))
    assert clone("sweep") == [clone.installed("[page]"), "gpu-rsfd sweep"]


def test_unknown_extras_are_refused(clone):
    assert clone("install", "pages", code=2) == []
    assert clone.errors.startswith("unknown extra 'pages'; available: cuda12 cuda13 page ")


def test_lowest_versions():
    """Every direct dependency has a lowest version that `scripts/test-oldest` installs."""
    pins = subprocess.run(
        [sys.executable, ROOT / "scripts" / "oldest.py", ROOT / "pyproject.toml"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {"numpy", "typer", "h5py", "matplotlib", "rich", "pyarrow", "pytest", "xarray", "h5netcdf"} <= {
        pin.partition("==")[0] for pin in pins
    }


def test_continuous_integration_runs_all():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[1] == "set -eu"
    assert lines[-3:] == ["scripts/test", "scripts/test-oldest", "scripts/docs"]
