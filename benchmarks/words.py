"""The native backend against NumPy's and against the raw random words, one thread each, in turn in one run.

    python benchmarks/words.py [--target FLAGS] [--skip-table]      (a C compiler; ten minutes)

First syn1, syn3 and syn6 with the paper's six protocols at its six epsilons: the NumPy backend, numpy.random.Philox
drawing the words of the same tape and doing nothing with them, and C code.  Goals: C at least 7, 7 and 6 times as fast
as NumPy with AVX-512, 4.5, 4.5 and 3.2 times with AVX2; on syn3 twice as fast as the raw words with AVX-512.
Then nanoseconds per position (user x value) as n, d, k, the protocols or the epsilons grow: a table without cliffs.
`--target=-mavx2` builds for another machine than this one.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

import gpu_rsfd
from gpu_rsfd import PAPER, PAPER_EPSILONS, PROTOCOLS, SyntheticDataset
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.native import build
from gpu_rsfd.backends.native.backend import NativeBackend
from gpu_rsfd.planning import Plan
from gpu_rsfd.tape import LANES, LEVELS

ROUNDS = 5
WORDS_AT_A_TIME = 8192
GOALS = {"syn1": (7, 4.5), "syn3": (7, 4.5), "syn6": (6, 3.2)}  # with AVX-512, with AVX2
EPSILONS = [0.25 * i for i in range(1, 21)]
TABLE = {  # what grows: (users, domain, protocols, epsilons) of each column
    "n": {f"{n:,}": (n, (10,) * 5, PAPER, PAPER_EPSILONS) for n in (64, 1000, 10_000, 100_000, 1_000_000, 10_000_000)},
    "d": {f"{d:,}": (20_000, (10,) * d, PAPER, PAPER_EPSILONS) for d in (1, 2, 5, 20, 100, 500)},
    "k": {f"{k:,}": (20_000, (k,) * 3, PAPER, PAPER_EPSILONS) for k in (2, 4, 16, 64, 65, 256, 257, 1000, 10_000)},
    "protocols": {
        "rsfd-grr": (50_000, (10,) * 5, ("rsfd-grr",), PAPER_EPSILONS),
        "spl-grr": (50_000, (10,) * 5, ("spl-grr",), PAPER_EPSILONS),
        "rsfd-oue-z": (50_000, (10,) * 5, ("rsfd-oue-z",), PAPER_EPSILONS),
        "rsfd-oue-r": (50_000, (10,) * 5, ("rsfd-oue-r",), PAPER_EPSILONS),
        "smp-oue": (50_000, (10,) * 5, ("smp-oue",), PAPER_EPSILONS),
        f"all {len(PROTOCOLS)}": (50_000, (10,) * 5, PROTOCOLS, PAPER_EPSILONS),
    },
    "epsilons": {f"{e}": (50_000, (10,) * 5, PAPER, EPSILONS[:e]) for e in (1, 2, 5, 10, 20)},
    "both": {f"all {len(PROTOCOLS)} x 20": (20_000, (10,) * 5, PROTOCOLS, EPSILONS)},
}
LONG_ENOUGH = 0.15  # seconds of a measurement of the table


def cpu(do: Callable[..., object], *arguments: object) -> float:
    """Seconds of the processor: what else runs on the machine matters little."""
    started = time.process_time()
    do(*arguments)
    return time.process_time() - started


def compare(name: str, native: NativeBackend) -> None:
    """One line for each side."""
    data = gpu_rsfd.load_dataset(name)
    plan = Plan.of(data.domain, PAPER, PAPER_EPSILONS)
    some = range(max(2, min(20, 100_000_000 // plan.positions(data.n))))
    groups = -(-data.n // LANES)  # their words: of the bits, of the values and of who sampled what
    words = (sum(LEVELS * k + LANES for k in data.domain) * groups + data.n) * len(some)
    philox = np.random.Philox(key=0)

    def raw() -> None:
        for _ in range(words // WORDS_AT_A_TIME):
            philox.random_raw(WORDS_AT_A_TIME)

    with NumpyBackend(workers=1) as numpy:
        right, ours = numpy.count(plan, data, 0, some), native.count(plan, data, 0, some)
        assert all(np.array_equal(a, b) for a, b in zip(right[0], ours[0], strict=True))
        sides = {
            "numpy": lambda: numpy.count(plan, data, 0, some),
            "raw words": raw,
            "native": lambda: native.count(plan, data, 0, some),
        }
        best = dict.fromkeys(sides, math.inf)
        for _ in range(ROUNDS):
            for side, do in sides.items():
                best[side] = min(best[side], cpu(do) / len(some))
    for side, seconds in best.items():
        goal = "" if side != "native" else "  (goal {} with AVX-512, {} with AVX2)".format(*GOALS[name])
        each, ratio = seconds / plan.positions(data.n) * 1e9, best["numpy"] / seconds
        print(f"{name}  {side:10} {each:7.3f} ns a position  {ratio:5.2f} times NumPy{goal}", flush=True)
    print(f"{name}  native is {best['raw words'] / best['native']:.2f} times as fast as the raw words", flush=True)


def nanoseconds(backend: NumpyBackend | NativeBackend, data: SyntheticDataset, plan: Plan) -> float:
    """Per position, with as many repetitions as take long enough."""
    backend.count(plan, data, 0, range(1))
    repetitions = 1
    while (seconds := cpu(backend.count, plan, data, 0, range(repetitions))) < LONG_ENOUGH:
        repetitions = max(2 * repetitions, math.ceil(1.2 * repetitions * LONG_ENOUGH / max(seconds, 1e-3)))
    return seconds / plan.positions(data.n) / repetitions * 1e9


def table(native: NativeBackend) -> None:
    with NumpyBackend(workers=1) as numpy:
        for what, columns in TABLE.items():
            for name, (users, domain, protocols, epsilons) in columns.items():
                data, plan = SyntheticDataset(users, domain), Plan.of(domain, protocols, epsilons)
                ours = nanoseconds(native, data, plan)
                theirs = nanoseconds(numpy, data, plan) if plan.positions(users) <= 10**8 else math.nan
                print(f"{what:9} {name:>12}: native {ours:8.3f}, numpy {theirs:8.3f} ns a position", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", help="flags in place of -march=native")
    parser.add_argument("--skip-table", action="store_true")
    options = parser.parse_args()
    found = build.built()
    with tempfile.TemporaryDirectory() as folder:
        if options.target is not None:
            compiler = replace(found.compiler, target=tuple(options.target.split()))
            path = build.compiled(compiler, build.SOURCE.read_text(encoding="utf-8"), Path(folder))
            found = build.Built(build.load(path), compiler, path)
        print(f"one thread, {found.compiler.version}, {' '.join(found.compiler.flags)}, {found.width}", flush=True)
        with NativeBackend(1, found.library) as native:
            for name in GOALS:
                compare(name, native)
            if not options.skip_table:
                table(native)


if __name__ == "__main__":
    main()
