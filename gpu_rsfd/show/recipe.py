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

    Of a file of data, also those that turned its columns into values, if the results file has them (`reads_files`).
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
            source = d.get("loaded", {}).get("file", d.get("source"))
            words += ["--dataset", d["name"] if d["name"] in available() else str(source)]
        ways = [{k: v for k, v in d["loaded"].items() if k != "file"} for d in datasets if "loaded" in d]
        if ways and all(way == ways[0] for way in ways):
            words += _loading(ways[0])
        elif ways:
            return None  # each file in a way of its own: from Python
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
    """Whether the command needs options that an older results file does not hold: how columns became values."""
    files = [d for d in spec.get("datasets", []) if d["name"] not in available() and _law(d) is None]
    return any("loaded" not in d for d in files)


def _loading(way: Mapping[str, Any]) -> list[str]:
    """The options of a table's columns."""
    words = [word for column in way.get("columns", []) for word in ("--columns", column)]
    words += [word for column, bins in way.get("bins", {}).items() for word in ("--bins", f"{column}={bins}")]
    for key in ("missing", "delimiter", "domain_file"):
        words += [f"--{key.replace('_', '-')}", way[key]] if key in way else []
    return words


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
