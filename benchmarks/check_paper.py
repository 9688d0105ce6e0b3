"""What `gpu-rsfd paper` must show, checked on its results file.

    gpu-rsfd paper && python benchmarks/check_paper.py paper.h5

Without post-processing, mean MSE_avg agrees with the closed form in all cells; with clip-normalize the six methods come
in the order that the paper's text describes.
"""

from __future__ import annotations

import sys

import numpy as np

import gpu_rsfd
from gpu_rsfd.show.rows import How, error_cells

BOUND = 4  # standard errors


def main() -> None:
    results = gpu_rsfd.open_results(sys.argv[1] if len(sys.argv) > 1 else "paper.h5")
    failed = 0
    for name, result in results.items():
        found = error_cells(name, result, How("none"))
        z = (found.mean - found.theory) / found.error
        row = dict(zip(result.protocols, error_cells(name, result, How()).mean, strict=True))
        rsfd = np.array([row[p] for p in ("rsfd-grr", "rsfd-oue-z", "rsfd-oue-r")])
        others = np.array([row[p] for p in result.protocols if p != "spl-adp"])
        checks = {
            f"raw means within {BOUND} standard errors of the closed form (worst {np.abs(z).max():.2f})": (
                np.abs(z).max() < BOUND
            ),
            "Spl worst everywhere": bool((row["spl-adp"] > others.max(axis=0)).all()),
            f"RS+FD[ADP] at most {(row['rsfd-adp'] / rsfd.min(axis=0)).max():.3f} times the best of RS+FD": bool(
                (row["rsfd-adp"] < 1.1 * rsfd.min(axis=0)).all()
            ),
            f"RS+FD[ADP] ahead of Smp at the smallest epsilon ({row['smp-adp'][0] / row['rsfd-adp'][0]:.2f} times)": (
                row["rsfd-adp"][0] < row["smp-adp"][0]
            ),
        }
        for what, holds in checks.items():
            failed += not holds
            print(f"{name:14s} {'ok  ' if holds else 'FAIL'} {what}")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
