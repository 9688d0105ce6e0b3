"""The command that makes a results file, from the spec in it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby, product
from typing import Any, NamedTuple

from gpu_rsfd.datasets import available
from gpu_rsfd.datasets.options import command_words
from gpu_rsfd.measure import MEASUREMENTS
from gpu_rsfd.measure.base import options_of
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.protocols import REGISTRY
from gpu_rsfd.spec import FIELDS

ALWAYS = ("protocols", "epsilons", "repetitions", "seed")  # named even where they are as usual


def command_of(spec: Mapping[str, Any], command: str = "", output: str | os.PathLike[str] | None = None) -> str | None:
    """The command line that makes these results, quoted for a shell.

    Parameters
    ----------
    spec : mapping
        What was run, as plain data: `Results.spec`.
    command : str, optional
        `sweep` or `attack`.  Default: what the spec says.
    output : str or path, optional
        The results file.

    Returns
    -------
    str or None
        None where no command can say it: a measurement without a command; data, priors or protocols that were made in
        Python; repetitions that do not start at 0; data sets with different seeds, or files that were read with
        different options.
    """
    kind = MEASUREMENTS.get(spec.get("measurement", "frequencies"))
    datasets = list(spec.get("datasets", []))
    if kind is None or not datasets or not isinstance(spec.get("prior", ""), str):
        return None
    command = command or kind.command
    first, stop, step = spec["repetitions"]
    if first or step != 1 or any(name not in REGISTRY for name in spec["protocols"]):
        return None
    data = _data_words(datasets)
    if data is None:
        return None
    words = ["gpu-rsfd", command, *data]
    plain = {**spec, "repetitions": stop, "epsilons": [_epsilon(e) for e in spec["epsilons"]]}
    for option in sorted((*FIELDS, *options_of(kind)), key=lambda o: o.name not in ALWAYS):
        value = plain.get(option.name, option.value())
        if option.name in ALWAYS or value != kind.defaults.get(option.name, option.value(command)):
            words += option.words(value)
    return shlex.join([*words, *([] if output is None else ["--output", os.fspath(output)])])


def reads_files(spec: Mapping[str, Any]) -> bool:
    """Whether the command needs options that an older results file does not hold: how columns became values."""
    return any("loaded" not in d for d in own_data(spec).values())


def own_data(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The data sets of a spec that are the user's own, by name: none that everybody has, or that is made by size."""
    described = {d["name"]: d for d in spec.get("datasets", [])}
    return {name: d for name, d in described.items() if name not in available() and _distribution(d) is None}


def _data_words(datasets: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """The options that give these data sets; None if there are none that do."""
    seeds = {d["seed"] for d in datasets if "seed" in d}
    seed = ["--data-seed", str(min(seeds))] if seeds - {0} else []
    sizes = [d for d in datasets if d["name"] not in available() and _distribution(d) is not None]
    if len(seeds) > 1 or (sizes and len(sizes) != len(datasets)):
        return None
    if sizes:
        words = _size_words(sizes)
        return None if words is None else [*words, "--distribution", str(_distribution(sizes[0])), *seed]
    words = []
    for d in datasets:
        if d["name"] not in available() and d.get("source") in (None, "in memory", "counts in memory"):
            return None
        file = str(d.get("loaded", {}).get("file", d.get("source")))
        if d["name"] not in available() and not file.startswith(f"{d['name']}."):
            return None  # it was given a name of its own
        name = d["name"] if d["name"] in available() else file
        words += ["--dataset", f'"{name}"' if "," in name else name]
    loaded = [{k: v for k, v in d["loaded"].items() if k != "file"} for d in datasets if "loaded" in d]
    if any(options != loaded[0] for options in loaded):
        return None  # each file with options of its own: from Python
    return [*words, *(command_words(loaded[0]) if loaded else []), *seed]


def _size_words(datasets: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """The options that give data sets made by size: all users with one domain, or with each d and k."""
    made = [size_of(d) for d in datasets]
    if any(size is None or size.distribution != _distribution(datasets[0]) for size in made):
        return None
    known = [size for size in made if size is not None]
    domains = [list(d["domain"]) for d in datasets]
    ns, ds, ks = ([*dict.fromkeys(axis)] for axis in zip(*((s.n, s.d, s.k) for s in known), strict=True))
    users = ["--users", ",".join(map(str, ns))]
    if None in ks:
        one = all(domain == domains[0] for domain in domains) and len(ns) == len(known)
        return [*users, "--domain", _domain(domains[0])] if one else None
    if [(s.n, s.d, s.k) for s in known] != list(product(ns, ds, ks)):
        return None
    return [*users, "--attributes", ",".join(map(str, ds)), "--values", ",".join(map(str, ks))]


class Size(NamedTuple):
    """What a data set made by size is made from; k is None if the domain was given size by size."""

    distribution: str
    n: int
    d: int
    k: int | None


def size_of(dataset: Mapping[str, Any]) -> Size | None:
    """The size of a data set of a spec; None if it was not made by size."""
    distribution, domain = _distribution(dataset), dataset.get("domain", ())
    if distribution is not None:
        for k in (None, domain[0]):
            if dataset["name"] == name_by_size(dataset["users"], domain, distribution, k):
                return Size(distribution, dataset["users"], len(domain), k)
    return None


def name_by_size(users: int, domain: Sequence[int], distribution: str, k: int | None = None) -> str:
    """The name of a data set made by size; with its k if there may be others beside it."""
    return f"{distribution.replace(':', '')}-n{users}-d{len(domain)}" + ("" if k is None else f"-k{k}")


def _distribution(dataset: Mapping[str, Any]) -> str | None:
    """The distribution of a data set made by size."""
    if "distribution" in dataset:
        return str(dataset["distribution"])
    source = str(dataset.get("source"))
    return source.removeprefix("expected counts: ") if source.startswith("expected counts: ") else None


def _domain(sizes: Sequence[int]) -> str:
    runs = [(k, len(list(run))) for k, run in groupby(sizes)]
    return ",".join(str(k) if times == 1 else f"{k}x{times}" for k, times in runs)


def _epsilon(epsilon: float) -> str:
    shown = show_epsilon(epsilon)
    return shown.replace(" ", "") if shown.startswith("ln") else repr(epsilon)
