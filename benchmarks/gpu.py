"""Speed on a CUDA device, in positions per second (users x attributes x values), against NumPy in the same run.

    python benchmarks/gpu.py [--data NAME] [--repetitions R] [--device I]      (pip install -e ".[cuda13]" or [cuda12])

The paper's six methods at its six epsilons.  By kernel (time between events on the device), then end to end.
Goal: GOAL positions/s in the kernels of unary encodings on a data-centre GPU.  Without a GPU: one line, exit code 0.
"""

from __future__ import annotations

import argparse
import time

import gpu_rsfd
from gpu_rsfd import PAPER, PAPER_EPSILONS
from gpu_rsfd.backends import Backend
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.cuda.devices import probe
from gpu_rsfd.plan import Plan

GOAL = 2.5e11
NUMPY_POSITIONS = 2e8  # a few seconds of NumPy


def end_to_end(backend: Backend, plan: Plan, data: gpu_rsfd.Dataset, repetitions: int) -> float:
    """Positions per second of a second call: the first one compiles and starts processes."""
    backend.count(plan, data, 1, range(1))
    start = time.perf_counter()
    backend.count(plan, data, 1, range(repetitions))
    return plan.positions(data.n) * repetitions / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="syn4")
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--device", type=int, default=None, help="a CUDA device; default: the first that works")
    options = parser.parse_args()
    found = probe()
    if not found.devices:
        print(f"no GPU to measure: {found.reason}")
        return
    from gpu_rsfd.backends.cuda.backend import CupyBackend

    data = gpu_rsfd.load_dataset(options.data)
    plan = Plan.of(data.domain, PAPER, PAPER_EPSILONS)
    positions = plan.positions(data.n) * options.repetitions
    with CupyBackend([found.devices[0].index if options.device is None else options.device]) as backend:
        print(f"{backend.device}: {data}, {options.repetitions} repetitions, six methods x six epsilons")
        gpu = end_to_end(backend, plan, data, options.repetitions)
        kernels = backend.kernel_seconds(lambda: backend.count(plan, data, 1, range(options.repetitions)))
        for name, seconds in sorted(kernels.items(), key=lambda item: -item[1]):
            goal = f" (goal {GOAL:.1e})" if name.startswith("count_unary") else ""
            print(f"  {name:18} {seconds * 1e3:10.2f} ms {positions / seconds:12.2e} positions/s{goal}")
    few = max(1, min(options.repetitions, int(NUMPY_POSITIONS / plan.positions(data.n))))
    with NumpyBackend() as engine:
        cpu = end_to_end(engine, plan, data, few)
        print(f"end to end: {gpu:.2e} positions/s; NumPy, {engine.device}: {cpu:.2e}; {gpu / cpu:,.0f} times")


if __name__ == "__main__":
    main()
