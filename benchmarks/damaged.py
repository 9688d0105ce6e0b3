"""Damaged results files: each is refused in one line, or says what it said before; never other numbers, never a hang.

    python benchmarks/damaged.py                     3,000 damages, and every bit of HDF5's global heap
    python benchmarks/damaged.py --number 300 --heap 100     300, and every hundredth bit

A small results file is damaged: bits and bytes changed, sectors zeroed or moved, its end cut off.  Each is read by a
child that has 10 s and 1 GB of memory.  Exit code 1 if one hangs, dies, shows a traceback or gives other numbers.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gpu_rsfd
from gpu_rsfd.errors import InputError, RunError

SECONDS = 10  # for each file
MEMORY = 1 << 30  # bytes that reading one may take
SECTOR = 512
HEAP = b"GCOL"  # a collection of HDF5's global heap begins with it, its size 8 bytes later
OUTCOMES = "same", "refused", "OTHER NUMBERS", "TRACEBACK"

Damage = tuple[str, bytes]


def content_of(path: Path) -> Any:
    """All that a user gets from a file."""
    results = gpu_rsfd.open_results(path)
    about = (results.spec, results.complete, results.backend, results.device, results.seconds)
    arrays = [
        (
            *(name, r.n, r.names, r.labels, r.plan, r.plan.mechanisms, r.repetitions, r.frequencies.tobytes()),
            *(np.asarray(r[array]).tobytes() for array in r.arrays),
        )
        for name, r in results.items()
    ]
    return about, arrays


def heaps(content: bytes) -> Iterator[int]:
    """Where the global heap lies: the number of each of its bytes."""
    at = content.find(HEAP)
    while at >= 0:
        yield from range(at, min(len(content), at + int.from_bytes(content[at + 8 : at + 16], "little")))
        at = content.find(HEAP, at + 1)


def damages(content: bytes, number: int, step: int, rng: random.Random) -> Iterator[Damage]:
    bits = [(at, bit) for at in heaps(content) for bit in range(8)]
    for at, bit in bits[::step]:
        yield "bit of the heap", content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
    for i in range(number):
        damaged, kind = bytearray(content), ("bit", "bytes", "sector", "moved", "cut")[i % 5]
        at, to = (rng.randrange(len(content) // SECTOR) * SECTOR for _ in range(2))
        if kind == "bit":
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        elif kind == "bytes":
            for _ in range(rng.choice([1, 2, 8])):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        elif kind == "sector":
            damaged[at : at + SECTOR] = bytes(SECTOR)
        elif kind == "moved":
            damaged[at : at + SECTOR] = content[to : to + SECTOR]
        else:
            del damaged[rng.randrange(len(damaged)) :]
        yield kind, bytes(damaged)


def outcome(path: Path, truth: Any) -> int:
    try:
        return 0 if content_of(path) == truth else 2
    except (InputError, RunError) as error:
        return 1 if "\n" not in str(error) and str(path) in str(error) else 3
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return 3


def read_in_children(todo: list[Damage], path: Path, truth: Any) -> Iterator[tuple[str, str]]:
    """What became of each damage; a child that hangs or dies is followed by another."""
    at = 0
    while at < len(todo):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # also ends a loop in C
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
            for _, content in todo[at:]:
                path.write_bytes(content)
                signal.alarm(SECONDS)
                os.write(writing, bytes([outcome(path, truth)]))
            os._exit(0)
        os.close(writing)
        while answers := os.read(reading, 1 << 16):
            for answer in answers:
                yield todo[at][0], OUTCOMES[answer]
                at += 1
        os.close(reading)
        _, status = os.waitpid(child, 0)
        if at < len(todo):
            code = os.waitstatus_to_exitcode(status)
            yield todo[at][0], "HANG" if code == -signal.SIGALRM else f"ENDED WITH {code}"
            at += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=3000, help="damages, drawn at random (default: 3000)")
    parser.add_argument("--heap", type=int, default=1, help="only every Nth bit of the global heap", metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="damaged-") as folder:
        path = Path(folder) / "r.h5"
        data = [gpu_rsfd.SyntheticDataset(200, domain, name=name) for name, domain in (("one", (3, 4)), ("two", (5,)))]
        what = {"protocols": ["rsfd-grr", "spl-oue"], "epsilons": [0.5, 2.0], "repetitions": 5, "workers": 1}
        gpu_rsfd.sweep(data, output=path, **what)
        truth, content = content_of(path), path.read_bytes()
        todo = list(damages(content, options.number, options.heap, random.Random(options.seed)))
        found = collections.Counter(read_in_children(todo, path, truth))
    for (kind, became), number in sorted(found.items()):
        print(f"{number:6} {kind}: {became}")
    bad = sum(number for (_, became), number in found.items() if became not in OUTCOMES[:2])
    print(f"{len(todo)} damaged files of {len(content):,} bytes; {len(set(heaps(content)))} bytes of heap; {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
