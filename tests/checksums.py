"""Checksums of counts as they were before protocols became data: what stream version 1 promises never changes.

`python tests/checksums.py` prints the table that tests/checksums.json keeps.  It is not to be made again for an
existing protocol: a difference is a broken promise, not an outdated table.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np

from gpu_rsfd import SyntheticDataset, simulate

TABLE = Path(__file__).with_name("checksums.json")

# users, domain, law, epsilons, repetitions, seed, assignment; no adaptive tie among them
CASES = {
    "small": (1000, (2, 3, 5, 10), "zipf:1.1", (0.5, math.log(2), 2.0, 3.0), range(3), 0, "uniform"),
    "dealt": (777, (33, 64, 7), "uniform", (1.0, math.log(7)), range(2, 6, 2), 7, "balanced"),
    "single": (70_000, (2,), "uniform", (1.0,), range(5, 6), 1, "uniform"),
    "wide": (300, (300, 4, 300), "zipf:0.7", (0.05, 9.0), range(2), 2**63 + 1, "uniform"),
    "equal": (640, (10,) * 6, "uniform", tuple(math.log(i) for i in range(2, 8)), range(3), 42, "balanced"),
}
PROTOCOLS = (
    *("rsfd-grr", "rsfd-oue-z", "rsfd-oue-r", "rsfd-adp", "spl-adp", "smp-adp", "rsfd-sue-z", "rsfd-sue-r"),
    *("spl-grr", "spl-oue", "spl-sue", "smp-grr", "smp-oue", "smp-sue"),
)


def checksums(case: str, sampler: str = "users", backend: str = "numpy", **options: object) -> dict[str, str]:
    """Protocol -> sha256 of its counts and reporters."""
    users, domain, law, epsilons, repetitions, seed, assignment = CASES[case]
    data = SyntheticDataset(users, domain, law, seed=users)
    result = simulate(
        data,
        epsilons=epsilons,
        protocols=PROTOCOLS,
        repetitions=repetitions,
        seed=seed,
        backend=backend,
        assignment=assignment,
        sampler=sampler,
        **options,
    )
    return {
        protocol: hashlib.sha256(
            result.counts[p].astype("<i8").tobytes() + result.reporters[p].astype("<i8").tobytes()
        ).hexdigest()
        for p, protocol in enumerate(PROTOCOLS)
    }


if __name__ == "__main__":
    table = {
        sampler: {case: checksums(case, sampler) for case in CASES} for sampler in ("users", "counts", "marginals")
    }
    TABLE.write_text(json.dumps({"numpy": np.__version__, **table}, indent=1) + "\n")
