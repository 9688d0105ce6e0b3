"""The first second: what is imported before anything is done."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import gpu_rsfd
from gpu_rsfd.cli.commands import COMMANDS, load
from gpu_rsfd.measure import MEASUREMENTS

PACKAGE = Path(gpu_rsfd.__file__).parent
HEAVY = {"numpy", "h5py", "matplotlib", "pyarrow", "cupy", "pandas", "xarray", "distributed", "filelock"}


def loaded(program, *arguments):
    """The modules that a program has imported when it ends."""
    code = f"import sys, atexit; atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr)); {program}"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)
    return set(done.stderr.split())


def test_importing_the_package_imports_nothing_else():
    found = loaded("import gpu_rsfd")
    assert {name for name in found if name.startswith("gpu_rsfd")} == {"gpu_rsfd", "gpu_rsfd.late", "gpu_rsfd.version"}
    assert not found & {*HEAVY, "typer", "rich"}


def test_the_package_can_be_in_an_archive(tmp_path):
    """As Dask sends it to its workers."""
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for path in PACKAGE.rglob("*.py*"):
            if path.suffix != ".pyc":
                archive.write(path, path.relative_to(PACKAGE.parent))
    code = "import gpu_rsfd; print(gpu_rsfd.__file__, gpu_rsfd.Domain.of([3, 4]).total)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "package.zip")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [str(tmp_path / "package.zip/gpu_rsfd/__init__.py"), "7"], done.stderr


@pytest.mark.parametrize("option,own", [
    ("--version", "version late cli"),
    ("--help", "version late cli cli.program cli.commands cli.terminal checks errors options"),
])  # fmt: skip
def test_version_and_help_import_little(option, own):
    found = loaded("from gpu_rsfd.cli import main; main()", option)
    wanted = {"gpu_rsfd", *(f"gpu_rsfd.{name}" for name in own.split())}
    assert {name for name in found if name.startswith("gpu_rsfd")} == wanted
    assert not found & HEAVY


def test_the_check_can_fail():
    assert "numpy" in loaded("import gpu_rsfd; gpu_rsfd.simulate")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_the_command_says(name):
    command = load(name)
    panel, sentence = COMMANDS[name]
    assert " ".join(command.help.split("\n\n")[0].split()) == sentence
    assert command.rich_help_panel == panel


def test_every_measurement_has_a_command():
    """Whose name and sentence are in its own file."""
    sentences = {kind.command: kind.__doc__.partition("\n\n")[0] for kind in MEASUREMENTS.values()}
    assert sentences.items() <= {name: sentence for name, (_, sentence) in COMMANDS.items()}.items()


def test_every_public_name_is_found():
    for name in gpu_rsfd.__all__:
        assert getattr(gpu_rsfd, name) is not None
    assert set(gpu_rsfd.__all__) <= set(dir(gpu_rsfd))
    with pytest.raises(AttributeError):
        gpu_rsfd.nothing  # noqa: B018
    assert gpu_rsfd.theory.expected_mse("smp-grr", 1.0, 1000, (3, 4)) > 0
