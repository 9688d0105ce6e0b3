"""When two sweeps are the same: described as plain data, and equal in all that the integers depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

KEEP = ("counts", "mse")  # what a results file keeps of each repetition


def identity(described: Mapping[str, Any]) -> dict[str, Any]:
    """What must be equal for a file to be continued: where data come from is words, their codes have a checksum."""
    datasets = [{k: v for k, v in d.items() if k not in ("source", "loaded")} for d in described.get("datasets", [])]
    return {**described, "datasets": datasets}


def key_of(described: Mapping[str, Any]) -> str:
    """Equal for sweeps that differ in nothing but how many repetitions they have."""
    first, _, step = described["repetitions"]
    same = {**identity(described), "repetitions": [first, step]}
    return hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()


def continues(want: Mapping[str, Any], have: Mapping[str, Any]) -> bool:
    """Whether `want` is the sweep that `have` is, or has more repetitions of it."""
    return key_of(want) == key_of(have) and len(range(*want["repetitions"])) >= len(range(*have["repetitions"]))


def differences(have: Mapping[str, Any], want: Mapping[str, Any]) -> list[str]:
    """What differs between two specs, a line each."""
    return [
        f"{key}: the file has {have.get(key)}, this command asks for {want.get(key)}"
        for key in dict.fromkeys([*have, *want])
        if have.get(key) != want.get(key)
    ]
