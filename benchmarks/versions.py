"""Two versions of counts.c against each other: the same integers, and how many times as fast the new one is.

    python benchmarks/versions.py --before REVISION [--targets=-march=native,-mavx2,-march=x86-64] [--only NAMES]

Goals: at least 1.3 times on syn1, syn3 and d=20 with AVX-512 against revision e9ffa42, nowhere slower by more than 3 %.
One thread, seconds of the processor; both sides in turn, the minimum of several rounds.  Needs a C compiler; minutes.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from gpu_rsfd import PAPER, PAPER_EPSILONS, PROTOCOLS, SyntheticDataset
from gpu_rsfd.backends.native import build
from gpu_rsfd.backends.native.backend import NativeBackend
from gpu_rsfd.backends.native.tables import NOISES
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.planning import Plan

ROOT = Path(__file__).resolve().parents[1]
ROUNDS, LONG_ENOUGH = 7, 0.06  # seconds of a measurement
EPSILONS = tuple(0.25 * i for i in range(1, 21))
KNOWN = tuple(
    p for p in PROTOCOLS if {type(r.noise) for a in Plan.of((5, 5), [p], [1.0]).attributes for r in a.recipes} <= NOISES
)
SOME = [p for p in KNOWN if "-l-" not in p and "loloha" not in p]
TENS = (10,) * 5
CENSUS = (*TENS, 52, 47, 51, 38, 43, 43, 43, 43, 24, 17, 15, *(2, 2, 3, 3, 3, 3, 3, 4, 5, 5, 5, 6, 6, 7, 8, 8, 9))
D20 = tuple(k for k in range(10, 101, 10) for _ in range(2))
CASES = {  # users, domain, protocols, epsilons, assignment
    "syn1": (50_000, TENS, PAPER, PAPER_EPSILONS, "uniform"),
    "syn3": (50_000, TENS * 2, PAPER, PAPER_EPSILONS, "uniform"),
    "d=20": (50_000, D20, PAPER, PAPER_EPSILONS, "uniform"),
    "census": (50_000, CENSUS, PAPER, PAPER_EPSILONS, "uniform"),
    "k=2": (50_000, (2,) * 5, PAPER, PAPER_EPSILONS, "uniform"),
    "k=1000": (50_000, (1000,), PAPER, PAPER_EPSILONS, "uniform"),
    "rsfd-grr": (50_000, TENS, ["rsfd-grr"], PAPER_EPSILONS, "uniform"),
    "spl-grr": (50_000, TENS, ["spl-grr"], PAPER_EPSILONS, "uniform"),
    "rsfd-oue-z": (50_000, TENS, ["rsfd-oue-z"], PAPER_EPSILONS, "uniform"),
    "rsfd-oue-r": (50_000, TENS, ["rsfd-oue-r"], PAPER_EPSILONS, "uniform"),
    "spl-hr": (50_000, TENS, ["spl-hr"], PAPER_EPSILONS, "uniform"),
    "rsfd-pgr": (50_000, TENS, ["rsfd-pgr"], PAPER_EPSILONS, "uniform"),
    "balanced": (50_000, TENS * 2, PAPER, PAPER_EPSILONS, "balanced"),
    "just above 2**20, balanced": (2**20 + 1, TENS, PAPER, PAPER_EPSILONS, "balanced"),
    "20 epsilons": (50_000, TENS, PAPER, EPSILONS, "uniform"),
    f"{len(SOME)} protocols": (50_000, TENS, SOME, PAPER_EPSILONS, "uniform"),
    f"{len(SOME)} protocols x 20": (20_000, TENS, SOME, EPSILONS, "uniform"),
    "n=1,000": (1000, TENS, PAPER, PAPER_EPSILONS, "uniform"),
}


def compiled(source: str, flags: str, folder: Path) -> ctypes.CDLL:
    folder.mkdir()
    compiler = replace(build.find_compiler(), target=tuple(flags.split()))
    return build.load(build.compiled(compiler, source, folder))


def seconds(backend: NativeBackend, plan: Plan, data: Dataset, repetitions: int) -> float:
    """Of the processor, per repetition."""
    started = time.process_time()
    backend.count(plan, data, 0, range(repetitions))
    return (time.process_time() - started) / repetitions


def compare(name: str, sides: list[NativeBackend], rounds: int) -> float:
    users, domain, protocols, epsilons, assignment = CASES[name]
    data, plan = SyntheticDataset(users, domain), Plan.of(domain, protocols, epsilons, assignment)
    before, after = (side.count(plan, data, 1, range(3)) for side in sides)
    if not all(map(np.array_equal, (*before[0], before[1]), (*after[0], after[1]))):
        raise SystemExit(f"{name}: the counts differ")
    many = max(1, math.ceil(LONG_ENOUGH / seconds(sides[0], plan, data, 2)))
    taken = [[seconds(side, plan, data, many) for side in sides] for _ in range(rounds)]
    was, now = (min(each) / plan.positions(users) * 1e9 for each in zip(*taken, strict=True))
    print(f"  {name:28} {was:8.3f} -> {now:8.3f} ns a position: {was / now:5.2f} times", flush=True)
    return was / now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, help="a revision of git, or a file")
    parser.add_argument("--targets", default="-march=native", help="flags of the compiler, with commas between")
    parser.add_argument("--only", default="", help="names of cases, with commas between")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    path = build.SOURCE.relative_to(ROOT)
    if Path(options.before).is_file():
        before = Path(options.before).read_text(encoding="utf-8")
    else:
        show = ["git", "-C", str(ROOT), "show", f"{options.before}:{path.as_posix()}"]
        before = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    for flags in options.targets.split(","):
        with tempfile.TemporaryDirectory() as folder:
            sources = {"before": before, "after": build.SOURCE.read_text(encoding="utf-8")}
            libraries = [compiled(source, flags, Path(folder, side)) for side, source in sources.items()]
            print(f"{flags}: {libraries[1].rsfd_build().decode()}", flush=True)
            sides = [NativeBackend(1, library) for library in libraries]
            for name in options.only.split(",") if options.only else CASES:
                compare(name, sides, options.rounds)
            for side in sides:
                side.close()


if __name__ == "__main__":
    main()
