"""Rooms import only rooms before them: data goes down this list and never up."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gpu_rsfd

PACKAGE = Path(gpu_rsfd.__file__).parent
ROOMS = (
    *("version", "errors", "late", "files", "checks", "domain", "textfiles", "options", "cache", "tape"),
    *("protocols", "datasets", "spec", "planning", "backends", "results", "measure", "command", "store", "running"),
    *("collecting", "theory", "contract", "show", "doctor", "cli"),
)
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path):
    """(line, room) of every import from the package, at the top of a module or late."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module] if node.module != "gpu_rsfd" else [f"gpu_rsfd.{a.name}" for a in node.names]
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "gpu_rsfd" and len(parts) > 1:
                yield node.lineno, parts[1]


def test_every_room_is_in_the_list():
    assert {room(path) for path in MODULES} - {"__init__", "__main__"} == set(ROOMS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_before_it(path):
    if room(path) in ("__init__", "__main__"):
        return
    for line, other in imported(path):
        assert other in ROOMS, f"line {line}: {other} is no room"
        assert ROOMS.index(other) <= ROOMS.index(room(path)), f"line {line} imports {other}, which comes later"


def test_the_check_can_fail(tmp_path):
    bad = tmp_path / "tape.py"
    bad.write_text("def f():\n    from gpu_rsfd.running.collect import collect\n")
    assert list(imported(bad)) == [(2, "running")]


def test_no_module_is_hidden_by_a_function_of_its_name():
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    for name in gpu_rsfd.__all__:
        assert name not in modules, f"import gpu_rsfd.{name} would not give the module"


def test_no_module_is_named_like_a_library():
    libraries = {"numpy", "cupy", "h5py", "typer", "rich", "matplotlib", "pyarrow", "tomllib", "tomli", "xarray"}
    assert not {path.stem for path in MODULES} & libraries
    assert not {path.parent.name for path in MODULES} & libraries


def test_importing_the_package_is_light():
    heavy = ("h5py", "matplotlib", "typer", "pyarrow", "cupy")
    program = f"import sys, gpu_rsfd; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
