"""The first second: imports, `--version`, `--help`, the default sweep's table, and a page.

    python benchmarks/startup.py      (a minute; the page needs the extra `page`)

Goals for the first three; seconds of the processor, the best of several runs, with all that Python itself takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

ROUNDS = 7
PROGRAM = [sys.executable, "-m", "gpu_rsfd"]
SWEEP = [*PROGRAM, "sweep", "--overwrite"]
PAGE = [*PROGRAM, "page", "results.h5"]
CASES = {  # what: command, goal
    "Python alone": ([sys.executable, "-c", "pass"], None),
    "import gpu_rsfd": ([sys.executable, "-c", "import gpu_rsfd"], 0.05),
    "gpu-rsfd --version": ([*PROGRAM, "--version"], 0.15),
    "gpu-rsfd --help": ([*PROGRAM, "--help"], 0.2),
    "the default sweep up to its table, both threads": ([*SWEEP, "--no-plot"], None),
    "the default sweep with its figure": (SWEEP, None),
    "the page of its results": (PAGE, None),
}


def used(command: list[str], folder: str, environment: dict[str, str] | None = None) -> float:
    """Seconds of the processor that a command takes, and all processes that it started."""
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for what, (command, goal) in CASES.items():
            seconds = min(used(command, folder) for _ in range(ROUNDS))
            print(f"{what}: {seconds:.3f} s{'' if goal is None else f' (goal {goal} s)'}", flush=True)
        empty = {**os.environ, "GPU_RSFD_CACHE": os.path.join(folder, "cache")}
        print(f"the page for the first time, its script not in the cache: {used(PAGE, folder, empty):.3f} s")


if __name__ == "__main__":
    main()
