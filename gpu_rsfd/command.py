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
    datasets, (first, stop, step) = list(spec.get("datasets", [])), spec.get("repetitions", (0, 1, 1))
    known = kind is not None and datasets and isinstance(spec.get("prior", ""), str)
    if kind is None or not known or (first, step) != (0, 1) or not set(spec["protocols"]) <= set(REGISTRY):
        return None
    sized = [d for d in datasets if _distribution(d) is not None]
    named = [d for d in datasets if d not in sized]
    by_name, by_size = _data_words(named), _size_words(sized) if sized else []
    seeds = {d["seed"] for d in datasets if "seed" in d}
    if by_name is None or by_size is None or datasets != [*named, *sized] or len(seeds) > 1:
        return None
    data = [*by_name, *by_size]
    words = ["gpu-rsfd", command or kind.command, *data, *(["--data-seed", str(min(seeds))] if seeds - {0} else [])]
    plain = {**spec, "repetitions": stop, "epsilons": [_epsilon(e) for e in spec["epsilons"]]}
    for option in sorted((*FIELDS, *options_of(kind)), key=lambda o: o.name not in ALWAYS):
        value = plain.get(option.name, option.value())
        if option.name in ALWAYS or value != kind.defaults.get(option.name, option.value(command or kind.command)):
            words += option.words(value)
    return shlex.join([*words, *([] if output is None else ["--output", os.fspath(output)])])


def reads_files(spec: Mapping[str, Any]) -> bool:
    """Whether the command needs options that the results file does not hold: how columns became values."""
    return any("loaded" not in d for d in own_data(spec).values())


def own_data(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The data sets of a spec that are the user's own, by name: none that everybody has, or that is made by size."""
    described = {d["name"]: d for d in spec.get("datasets", [])}
    return {name: d for name, d in described.items() if name not in available() and _distribution(d) is None}


def _data_words(datasets: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """The options that name these data sets and files; None if there are none that do."""
    words, loaded = list[str](), list[dict[str, Any]]()
    for d in datasets:
        name = d["name"]
        if name not in available():
            file = str(d.get("loaded", {}).get("file", d.get("source")))
            if not file.startswith(f"{name}."):
                return None  # made in Python, or given a name of its own
            loaded += [{k: v for k, v in d["loaded"].items() if k != "file"}] if "loaded" in d else []
            name = file
        words += ["--dataset", f'"{name}"' if "," in name else name]
    if any(options != loaded[0] for options in loaded):
        return None  # each file with options of its own: from Python
    return [*words, *(command_words(loaded[0]) if loaded else [])]


def _size_words(datasets: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """The options that give data sets made by size: all users with one domain, or with each d and k."""
    made = [size for size in map(size_of, datasets) if size is not None]
    if len(made) < len(datasets) or len({size.distribution for size in made}) > 1:
        return None
    ns, ds, ks = ([*dict.fromkeys(axis)] for axis in zip(*((s.n, s.d, s.k) for s in made), strict=True))
    sizes = ["--attributes", ",".join(map(str, ds)), "--values", ",".join(map(str, ks))]
    if None in ks:
        domains = {tuple(d["domain"]) for d in datasets}
        if len(domains) > 1 or len(ns) < len(made):
            return None
        runs = [(k, len(list(run))) for k, run in groupby(domains.pop())]
        sizes = ["--domain", ",".join(str(k) if times == 1 else f"{k}x{times}" for k, times in runs)]
    elif [(s.n, s.d, s.k) for s in made] != list(product(ns, ds, ks)):
        return None
    return ["--users", ",".join(map(str, ns)), *sizes, "--distribution", made[0].distribution]


class Size(NamedTuple):
    """What a data set made by size is made from; k is None if the domain was given size by size."""

    distribution: str
    n: int
    d: int
    k: int | None


def size_of(dataset: Mapping[str, Any]) -> Size | None:
    """The size of a data set of a spec; None if it was not made by size."""
    made, users, domain = _distribution(dataset), dataset.get("users", 0), dataset.get("domain", ())
    named = [k for k in (None, *domain[:1]) if made and dataset["name"] == name_by_size(users, domain, made, k)]
    return Size(str(made), users, len(domain), named[0]) if named else None


def name_by_size(users: int, domain: Sequence[int], distribution: str, k: int | None = None) -> str:
    """The name of a data set made by size; with its k if there may be others beside it."""
    return f"{distribution.replace(':', '')}-n{users}-d{len(domain)}" + ("" if k is None else f"-k{k}")


def _distribution(dataset: Mapping[str, Any]) -> str | None:
    """The distribution of a data set made by size; those that everybody has are known by name."""
    kind, prefix = str(dataset.get("source")), "expected counts: "
    made = dataset.get("distribution", kind.removeprefix(prefix) if kind.startswith(prefix) else None)
    return None if made is None or dataset["name"] in available() else str(made)


def _epsilon(epsilon: float) -> str:
    shown = show_epsilon(epsilon)
    return shown.replace(" ", "") if shown.startswith("ln") else repr(epsilon)
