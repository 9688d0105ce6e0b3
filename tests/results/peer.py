"""Reports of multi-freq-ldpy's clients, and what its own aggregators make of them.

python tests/results/peer.py > tests/results/peer.json      (needs the extra `bench`)
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from typing import Any

import numpy as np

DOMAIN, EPSILON, USERS = [3, 6, 2], 2.0, 150
CODES = [[i % 3, (i // 2) % 6 if i % 4 else 0, int(i % 5 == 0)] for i in range(USERS)]

# our name -> module, client and aggregator without their endings, optimal (None: has no such argument)
CLIENTS: dict[str, tuple[str, str, bool | None]] = {
    "rsfd-grr": ("RSpFD", "GRR", None),
    "rsfd-oue-z": ("RSpFD", "UE_zero", True),
    "rsfd-sue-z": ("RSpFD", "UE_zero", False),
    "rsfd-oue-r": ("RSpFD", "UE_rnd", True),
    "rsfd-sue-r": ("RSpFD", "UE_rnd", False),
    "rsfd-adp": ("RSpFD", "ADP", True),
    "spl-grr": ("SPL", "GRR", None),
    "spl-oue": ("SPL", "UE", True),
    "spl-sue": ("SPL", "UE", False),
    "spl-ss": ("SPL", "SS", None),
    "spl-adp": ("SPL", "ADP", True),
    "smp-grr": ("SMP", "GRR", None),
    "smp-oue": ("SMP", "UE", True),
    "smp-sue": ("SMP", "UE", False),
    "smp-ss": ("SMP", "SS", None),
    "smp-adp": ("SMP", "ADP", True),
}


def collected(name: str) -> tuple[list[Any], list[list[float]]]:
    """The reports as the clients return them, and the frequencies that the package estimates from them."""
    solution, noise, optimal = CLIENTS[name]
    module = importlib.import_module(f"multi_freq_ldpy.mdim_freq_est.{solution}_solution")
    client, aggregator = (getattr(module, f"{solution}_{noise}_{end}") for end in ("Client", "Aggregator_MI"))
    more = () if optimal is None else (optimal,)
    sent = [client(row, DOMAIN, len(DOMAIN), EPSILON, *more) for row in CODES]
    known = {"lst_k": DOMAIN, "d": len(DOMAIN), "epsilon": EPSILON, "optimal": optimal}
    wanted = list(inspect.signature(aggregator).parameters)[1:]  # not the same for all
    return sent, [list(map(float, f)) for f in aggregator(sent, *(known[key] for key in wanted))]


def plain(report: Any) -> Any:
    """As JSON has it: bits as whole numbers."""
    if isinstance(report, (list, tuple)):
        return [plain(entry) for entry in report]
    return np.asarray(report).astype(int).tolist()


if __name__ == "__main__":
    np.random.seed(1)  # noqa: NPY002  (what the package draws from; its compiled clients have a generator of their own)
    found = {name: collected(name) for name in CLIENTS}
    document = {name: {"reports": [plain(r) for r in sent], "theirs": theirs} for name, (sent, theirs) in found.items()}
    json.dump(document, sys.stdout, separators=(",", ":"))
