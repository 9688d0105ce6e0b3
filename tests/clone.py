"""A clone whose scripts run with stubs in place of Python and its tools."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
EDITABLE = "lib/python3/site-packages/gpu_rsfd-0.1.0.dist-info/direct_url.json"

# Python, ruff, mypy and gpu-rsfd in one: writes down how it was called, and fails if it is told to;
# as gpu-rsfd it may go on with the real one.
STUB = f"""#!/bin/sh
call="$(basename "$0") $*"
venv=$(dirname "$(dirname "$0")")
case "$call" in
    *" -c "*) exit 0 ;;
    *" -m venv "*)
        mkdir -p "$3/bin" "$3/{os.path.dirname(EDITABLE)}"
        for name in python ruff mypy gpu-rsfd; do cp "$0" "$3/bin/$name"; done ;;
    *" -m pip install "*) echo '{{"editable": true}}' >"$venv/{EDITABLE}" ;;
esac
echo "$call" >>"$LOG"
case "$call" in
    "$FAIL"*) exit 3 ;;
    gpu-rsfd*) [ -z "$REAL" ] || exec "$REAL" "$@" ;;
esac
"""


class Clone:
    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder / "clone", folder / "log"
        self.folder.mkdir()
        shutil.copytree(ROOT / "scripts", self.folder / "scripts")
        shutil.copy(ROOT / "pyproject.toml", self.folder)
        self.python = folder / "python3"
        self.python.write_text(STUB)
        self.python.chmod(0o755)

    def __call__(self, script: str, *arguments: str, fail: str = "none", code: int = 0) -> list[str]:
        """The calls that a script makes."""
        self.log.write_text("")
        done = subprocess.run(
            [self.folder / "scripts" / script, *arguments],
            env={**os.environ, "PYTHON": str(self.python), "LOG": str(self.log), "FAIL": fail},
            capture_output=True,
            text=True,
            check=False,
        )
        self.errors = done.stderr
        assert done.returncode == code, done
        return self.log.read_text().splitlines()

    def installed(self, extras: str) -> str:
        options = "--quiet --disable-pip-version-check --editable"
        return f"python -m pip install {options} {self.folder}{extras}"
