"""Whether a results file can be extended to what a command asks for; if not, what differs, in plain words.

Two runs belong together if the integers of every cell that they share agree, and so do seed, sampler, assignment,
guarantee, stream and data.  They may differ in how many data sets, protocols, epsilons and repetitions they have.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_rsfd.results.result import Header
from gpu_rsfd.spec import FIELDS

# What must be equal, and what it is where a spec does not say; beside it, all that a measurement says of itself.
SHARED: dict[str, Any] = {
    **{option.name: option.value() for option in FIELDS if option.shared},
    **{"stream_version": 1, "numpy_version": None},
}
# What shows in the integers of some protocols only.
SOMETIMES: dict[str, Any] = {"first_report": 0.5, "prior": "uniform", "prior_seed": 0}
EXTENTS = {"datasets": "data sets", "protocols": "protocols", "epsilons": "epsilons"}
WORDS = ("source", "loaded")  # of a data set: where it comes from; its codes have a checksum


def digest_of(document: object) -> str:
    """A sha256 of plain data."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def described(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """What identifies a data set."""
    return {key: value for key, value in dataset.items() if key not in WORDS}


def _settings(spec: Mapping[str, Any]) -> dict[str, Any]:
    first, _, step = spec["repetitions"]
    said = {key: value for key, value in spec.items() if key not in (*SOMETIMES, *EXTENTS, "repetitions")}
    return {**SHARED, **said, "first": first, "step": step}


def key_of(spec: Mapping[str, Any], dataset: Mapping[str, Any]) -> str:
    """Equal for blocks that may lie in one file, whatever its extent; their cells have digests of their own."""
    return digest_of({**_settings(spec), "dataset": described(dataset)})


def named(spec: Mapping[str, Any], extent: str) -> list[Any]:
    """The entries of an extent, data sets by name."""
    return [d["name"] for d in spec["datasets"]] if extent == "datasets" else list(spec[extent])


def conflicts(
    have: Mapping[str, Any],
    want: Mapping[str, Any],
    had: Mapping[str, Header] | None = None,
    wanted: Mapping[str, Header] | None = None,
) -> list[str]:
    """What can't be reconciled between a file and a command, a line each; `had` and `wanted` are headers by name."""
    before, now = _settings(have), _settings(want)
    if before["measurement"] != now["measurement"]:
        return [f"it holds {before['measurement']}, not {now['measurement']}"]
    lines = [
        f"{_words(key)}: {_differ(before.get(key), now.get(key))}"
        for key in dict.fromkeys([*before, *now])
        if key not in ("first", "step")
        and before.get(key) != now.get(key)
        and not (key == "numpy_version" and before["sampler"] != now["sampler"])
    ]
    if (before["first"], before["step"]) != (now["first"], now["step"]):
        lines.append(f"repetitions: {_range(have)} in the file, {_range(want)} asked for")
    new = {d["name"]: d for d in want["datasets"]}
    for old in have["datasets"]:
        if old["name"] in new:
            lines += _of_data(old, new[old["name"]])
    if not lines and had is not None and wanted is not None:
        cells = [line for name in had if name in wanted for line in _of_cells(name, had[name], wanted[name])]
        if cells:
            lines = [
                f"{_words(key)}: {_differ(have.get(key, default), want.get(key, default))}"
                for key, default in SOMETIMES.items()
                if have.get(key, default) != want.get(key, default)
            ] or cells[:1]
    return lines


def _range(spec: Mapping[str, Any]) -> str:
    first, stop, step = spec["repetitions"]
    return f"{first} … {stop - 1}" + (f" in steps of {step}" if step > 1 else "")


def _of_data(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    a, b = described(old), described(new)
    if a == b:
        return []
    read, asked = ({key: _short(value) for key, value in one.get("loaded", {}).items()} for one in (old, new))
    file = read.pop("file", old["name"])
    for key in dict.fromkeys([*read, *sorted(asked.keys() - {"file"})]):
        if read.get(key) != asked.get(key):
            given = (options.get(key, "not given") for options in (read, asked))
            return [f"{file}: {_words(key)} {_differ(*given)}"]
    for key in ("users", "domain", "seed", "distribution"):
        if a.get(key) != b.get(key):
            return [f"{old['name']}: {key} {_differ(a.get(key), b.get(key))}"]
    return [f"{file} has changed since"]


def _of_cells(name: str, had: Header, wanted: Header) -> list[str]:
    """The first cell of which the integers differ."""
    for p, protocol in enumerate(had.protocols):
        for e, epsilon in enumerate(had.epsilons):
            if protocol not in wanted.protocols or epsilon not in wanted.epsilons:
                continue
            q, f = wanted.protocols.index(protocol), wanted.epsilons.index(epsilon)
            if had.plan.digest(p, e) != wanted.plan.digest(q, f):
                j = next(j for j in range(len(had.domain)) if had.plan.recipe(p, e, j) != wanted.plan.recipe(q, f, j))
                old, new = had.plan.recipe(p, e, j), wanted.plan.recipe(q, f, j)
                where = f"at epsilon={epsilon:g}, data set {name}, attribute {had.names[j]}"
                if old.prior != new.prior:
                    return [f"{protocol} has another realised prior in the file {where} (drawn by another NumPy?)"]
                return [f"{protocol} is another protocol in the file: {where} it is {old.words}, {new.words} now"]
    return []


def lacking(have: Mapping[str, Any], want: Mapping[str, Any]) -> list[str]:
    """What the file holds and the command does not ask for, a line each."""
    lines = []
    for extent, words in EXTENTS.items():
        missing = [x for x in named(have, extent) if x not in named(want, extent)]
        if missing:
            lines.append(f"{words}: the file also has {', '.join(map(_plain, missing))}")
    old, new = len(range(*have["repetitions"])), len(range(*want["repetitions"]))
    if old > new:
        lines.append(f"repetitions: the file has {old:,}, {new:,} asked for")
    return lines


def union(have: Mapping[str, Any], want: Mapping[str, Any]) -> dict[str, Any]:
    """A spec that asks for all that either does, the file's order first."""
    sets = {d["name"]: d for d in (*have["datasets"], *want["datasets"])}
    lists = {e: list(dict.fromkeys([*have[e], *want[e]])) for e in ("protocols", "epsilons")}
    longest = max(have["repetitions"], want["repetitions"], key=lambda r: len(range(*r)))
    return {**have, **want, **lists, "datasets": list(sets.values()), "repetitions": longest}


def _differ(old: object, new: object) -> str:
    if _short(old) == _short(new):
        return "the file has another one"
    return f"{_short(old)} in the file, {_short(new)} asked for"


def _words(key: str) -> str:
    return key.replace("_", " ")


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _short(value: object) -> str:
    """As on a command line, where it fits into one; a table of numbers as `a table`."""
    if isinstance(value, Mapping):
        value = [f"{key}={entry}" for key, entry in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        if any(isinstance(entry, Sequence) and not isinstance(entry, str) for entry in value):
            return "a table"
        return ",".join(map(str, value[:8])) + (",…" if len(value) > 8 else "")
    return str(value)
