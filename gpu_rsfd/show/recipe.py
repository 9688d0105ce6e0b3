"""The command that makes a results file, from the spec in it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from gpu_rsfd.datasets import available
from gpu_rsfd.show.summary import show_epsilon

TERMS_OF_SPEC = {  # and their defaults, which a command need not name
    **{"assignment": "uniform", "sampler": "users", "first_report": 0.5, "keep": "counts"},
    **{"guarantee": "paper", "prior": "uniform", "prior_seed": 0},
}


def command_of(spec: Mapping[str, Any]) -> str | None:
    """`gpu-rsfd sweep …`, with every option that decides about the numbers; None for data that were in memory only.

    A file of data is named; the options that turned its columns into values are not in a spec, but what they gave is.
    """
    words = ["gpu-rsfd", "sweep"]
    datasets = list(spec.get("datasets", []))
    if not datasets:
        return None
    seeds = {d["seed"] for d in datasets if "seed" in d}
    sizes = [d for d in datasets if d["name"] not in available() and _law(d) is not None]
    if sizes:
        if len(sizes) != len(datasets):
            return None
        words += ["--users", ",".join(str(d["users"]) for d in sizes), "--domain", _domain(sizes[0]["domain"])]
        words += ["--distribution", str(_law(sizes[0]))]
    else:
        for d in datasets:
            if d["name"] not in available() and d.get("source") in (None, "in memory"):
                return None
            words += ["--dataset", d["name"] if d["name"] in available() else str(d["source"])]
    if seeds - {0}:
        words += ["--data-seed", str(min(seeds))]
    words += ["--epsilon", ",".join(_epsilon(e) for e in spec["epsilons"])]
    words += ["--protocol", ",".join(spec["protocols"])]
    words += ["--repetitions", str(spec["repetitions"][1]), "--seed", str(spec["seed"])]
    if not isinstance(spec.get("prior", ""), str):
        return None  # frequencies that were in memory or in a file
    for key, default in TERMS_OF_SPEC.items():
        if spec.get(key, default) != default:
            words += [f"--{key.replace('_', '-')}", str(spec[key])]
    return shlex.join(words)


def reads_files(spec: Mapping[str, Any]) -> bool:
    """Whether the command needs options that a results file does not hold: how columns became values."""
    return any(d["name"] not in available() and _law(d) is None for d in spec.get("datasets", []))


def _law(dataset: Mapping[str, Any]) -> str | None:
    """The law of a data set made by size."""
    if "distribution" in dataset:
        return str(dataset["distribution"])
    source = str(dataset.get("source"))
    return source.removeprefix("expected counts: ") if source.startswith("expected counts: ") else None


def _domain(sizes: list[int]) -> str:
    runs = [(k, len(list(run))) for k, run in groupby(sizes)]
    return ",".join(str(k) if times == 1 else f"{k}x{times}" for k, times in runs)


def _epsilon(epsilon: float) -> str:
    shown = show_epsilon(epsilon)
    return shown.replace(" ", "") if shown.startswith("ln") else repr(epsilon)
