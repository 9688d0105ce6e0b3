"""The snippets of a text in Markdown, run one after the other in a folder as a reader would run them in a clone."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from clone import ROOT, Clone

# Fences, lines that are indented by four blanks, and commands in a sentence.
SNIPPET = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})(?P<kind>[^\n]*)\n(?P<block>(?:.*\n)*?) {0,3}(?P=fence)[`~]*$"
    r"|^(?: {4}|\t)(?P<line>.*\S)|(?<!`)`(?P<said>(?:gpu-rsfd|scripts/\w+|dask|pip) [^`]*?\s[^`]+|scripts/\w+ [^`]+)`",
    re.M,
)
MARKUP = {"text", "{eval-rst}", "{toctree}", "{include}"}  # nothing that one could run
# What is shown and can't be run here, and why.
NOT_HERE = {
    "gpu-rsfd collection 1": "no command, but what a file says of its format",
    "{literalinclude} ../examples/client.js": "for browsers: tests/collecting/test_in_browser.py runs it in one",
    "{literalinclude} _generated/plan.txt": "made when the site is built, by docs/tables.py",
    "gpu-rsfd paper --data-dir originals/ --output with_rows.h5": "the files are not ours to ship: "
    "tests/datasets/test_originals.py has small ones",
}
VARYING = re.compile(r" after [\d.]+ s")  # how long it took
# The command itself.  `doctor` meets a stand-in for a GPU, which has no time for all cases, and none for real sizes.
PROGRAM = """
import shutil
import sys

from gpu_rsfd.cli import main

if __name__ == "__main__":
    if sys.argv[1] == "doctor":
        sys.path += [{tests!r}, {standin!r}] if shutil.which("g++") else []
        from gpu_rsfd import doctor
        from gpu_rsfd.backends.cuda import speed
        from gpu_rsfd.backends.reference import CASES
        doctor.self_test.__defaults__ = None, CASES[:2], False, ()
        doctor.positions_per_second.__defaults__ = (1e-9,)
        doctor.SPEED_USERS = doctor.SPEED_USERS_OF_A_DEVICE = 100
        doctor.SPEED_DOMAIN, speed.BARE_GROUPS = (2,), 10
    main()
"""
SBATCH = """#!/bin/bash
# SLURM's sbatch: the tasks of a job run here and now
for last; do :; done
case "$*" in
    *--wrap*) exec bash -c "$last" ;;
    --array=*) tasks=${1#--array=} ;;
    *) tasks=$(sed -n 's/^#SBATCH --array=//p' "$last") ;;
esac
[[ $tasks == *-* ]] && tasks=$(seq -s , "${tasks%-*}" "${tasks#*-}")
for SLURM_ARRAY_TASK_ID in ${tasks//,/ }; do
    export SLURM_ARRAY_TASK_ID
    bash "$last" >&2 || exit
done
echo 7
"""
TOOLS = {
    "python": f'exec "{sys.executable}" -W error "$@"',
    "pip": f'exec "{sys.executable}" -m pip "$@"',
    "dask": f'exec "{sys.executable}" -m dask "$@"',
    "srun": '[ "$1" = --overlap ] && shift && "$@" & exec "$@"',
}


def snippets(text: str) -> Iterator[tuple[str, str]]:
    """(kind, content) of each, in their order: shell, python, output (a fence without a name), …"""
    for found in SNIPPET.finditer(text):
        if found["fence"]:
            yield found["kind"].strip() or "output", found["block"]
        else:
            yield "shell", " ".join((found["line"] or found["said"]).split())


class Page:
    """A text and the folder in which it is run: a clone with the examples and tables of the names that pages use."""

    def __init__(self, text: str, folder: Path) -> None:
        clone = Clone(folder)
        self.folder, self.left, self.printed, self.errors = clone.folder, [*snippets(text)], "", ""
        self.names: dict[str, object] = {"__name__": "page"}  # of Python
        self.changes: dict[str, str] = {}  # of a snippet, for this machine
        self._running: list[subprocess.Popen] = []
        (bin_ := folder / "bin").mkdir()
        program = bin_ / "program.py"
        program.write_text(PROGRAM.format(tests=str(ROOT / "tests"), standin=str(ROOT / "tests" / "standin")))
        tools = {**TOOLS, "gpu-rsfd": f'exec "{sys.executable}" -W error "{program}" "$@"'}
        for name, line in tools.items():
            (bin_ / name).write_text(f"#!/bin/bash\n{line}\n")
        (bin_ / "sbatch").write_text(SBATCH)
        for tool in bin_.iterdir():
            tool.chmod(0o755)
        self.environment = {
            **os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
            "MPLBACKEND": "agg", "TMPDIR": str(folder), "SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "1",
            "PYTHON": str(clone.python), "LOG": str(clone.log), "FAIL": "none", "REAL": str(bin_ / "gpu-rsfd"),
            "SLURM_ARRAY_TASK_ID": "1",
        }  # fmt: skip
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        for name in ("people.csv", "hospital.csv"):
            shutil.copy(ROOT / "examples" / "people.csv", self.folder / name)

    def run(self, until: str | None = None) -> None:
        """Runs what is left, or what comes before a snippet that begins so."""
        while self.left and not (until and any(part.startswith(until) for part in self.left[0])):
            self._one(*self.left.pop(0))
        assert self.left or not until, f"there is no snippet {until!r}"

    def take(self, start: str) -> str:
        """A snippet that begins so, which is left to the caller."""
        (found,) = (each for each in self.left if each[1].startswith(start))
        self.left.remove(found)
        return found[1]

    def _one(self, kind: str, content: str) -> None:
        directive, _, argument = kind.partition(" ")
        if directive in MARKUP or kind in NOT_HERE or content in NOT_HERE:
            return
        if kind in ("shell", "bash"):
            self.shell(content)
        elif kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(content, "page.py", "exec"), self.names)
            self.printed = out.getvalue()
        elif kind == "output":
            for line in content.splitlines():
                assert VARYING.sub("", line) in VARYING.sub("", self.printed), f"the page says {line!r}"
        elif kind == "toml":
            (self.folder / "sweep.toml").write_text(content)
            self.shell("gpu-rsfd sweep --spec sweep.toml --output spec.h5")
        elif directive == "{literalinclude}" and argument.endswith((".py", ".sh")):
            shutil.copy(ROOT / "docs" / argument, self.folder)
            self.shell(f"{'python' if argument.endswith('.py') else 'bash'} {Path(argument).name}")
        else:
            raise AssertionError(f"no way to run a snippet of kind {kind!r}:\n{content}")

    def shell(self, content: str, code: int = 0) -> None:
        done = subprocess.run(
            ["bash", "-euc", self._changed(content)],
            cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=400, check=False,
        )  # fmt: skip
        self.printed, self.errors = done.stdout, done.stderr
        assert done.returncode == code, f"{content}\n{done.stdout}\n{done.stderr}"

    def start(self, content: str, **environment: str) -> None:
        """Runs a snippet until `stop`."""
        log = (self.folder / "started.log").open("a")
        self._running.append(subprocess.Popen(
            ["bash", "-euc", self._changed(content)], start_new_session=True, cwd=self.folder,
            env={**self.environment, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        ))  # fmt: skip
        log.close()

    def stop(self) -> None:
        for process in reversed(self._running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)
        self._running.clear()

    def _changed(self, content: str) -> str:
        for old, new in self.changes.items():
            content = content.replace(old, new)
        return content
