"""Peak memory of each process for n=2,000,000, d=20, sum(k)=1,100, all fourteen protocols at six epsilons.

python benchmarks/memory.py        (Linux)
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import gpu_rsfd

GOAL = 1.5  # GiB


def peaks(pids: set[int]) -> dict[int, int]:
    """VmHWM in kB of each process that is alive."""
    found = {}
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        found[pid] = int(status.split("VmHWM:")[1].split()[0]) if "VmHWM:" in status else 0
    return found


def children() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def main() -> None:
    data = gpu_rsfd.SyntheticDataset(2_000_000, gpu_rsfd.load_dataset("syn6").domain)
    seen: dict[int, int] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            for pid, peak in peaks(children() | {os.getpid()}).items():
                seen[pid] = max(seen.get(pid, 0), peak)
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    gpu_rsfd.simulate(data, protocols=gpu_rsfd.PROTOCOLS, repetitions=2, backend="numpy")
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    sizes = ", ".join(f"{peak / 2**20:.2f}" for peak in seen.values())
    print(f"{data!r}: {seconds:.1f} s, peak resident GiB by process: {sizes} (goal < {GOAL} each)")


if __name__ == "__main__":
    main()
