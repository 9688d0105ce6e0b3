"""Whether a results file can be extended to what a command asks for; if not, what differs, in plain words.

Two runs belong together if the integers of every cell that they share agree, and so do seed, sampler, assignment,
guarantee, stream and data.  They may differ in how many data sets, protocols, epsilons and repetitions they have.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
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


def _identified(dataset: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in dataset.items() if key not in WORDS}


def _settings(spec: Mapping[str, Any]) -> dict[str, Any]:
    first, _, step = spec["repetitions"]
    said = {key: value for key, value in spec.items() if key not in (*SOMETIMES, *EXTENTS, "repetitions")}
    return {**SHARED, **said, "first": first, "step": step}


def key_of(spec: Mapping[str, Any], dataset: Mapping[str, Any]) -> str:
    """Equal for blocks that may lie in one file, whatever its extent; their cells have digests of their own."""
    return digest_of({**_settings(spec), "dataset": _identified(dataset)})


def named(spec: Mapping[str, Any], extent: str) -> list[Any]:
    """The entries of an extent, data sets by name."""
    return [d["name"] for d in spec["datasets"]] if extent == "datasets" else list(spec[extent])


def conflicts(
    have: Mapping[str, Any], want: Mapping[str, Any], had: Mapping[str, Header], wanted: Mapping[str, Header]
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
    lines += [
        _of_data(d, new[d["name"]]) for d in have["datasets"] if _identified(d) != _identified(new.get(d["name"], d))
    ]
    cells = (
        [] if lines else [line for name in had if name in wanted for line in _of_cells(name, had[name], wanted[name])]
    )
    if cells:
        asked = [(_words(key), have.get(key, usual), want.get(key, usual)) for key, usual in SOMETIMES.items()]
        lines = [f"{words}: {_differ(old, new)}" for words, old, new in asked if old != new] or cells[:1]
    return lines


def _range(spec: Mapping[str, Any]) -> str:
    first, stop, step = spec["repetitions"]
    return f"{first} … {stop - 1}" + (f" in steps of {step}" if step > 1 else "")


def _of_data(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    read, asked = ({key: _short(value) for key, value in one.get("loaded", {}).items()} for one in (old, new))
    file = read.pop("file", old["name"])
    for key in dict.fromkeys([*read, *sorted(asked.keys() - {"file"})]):
        if read.get(key) != asked.get(key):
            return f"{file}: {_words(key)} {_differ(read.get(key, 'not given'), asked.get(key, 'not given'))}"
    for key in ("users", "domain", "seed", "distribution"):
        if old.get(key) != new.get(key):
            return f"{old['name']}: {key} {_differ(old.get(key), new.get(key))}"
    return f"{file} has changed since"


def _of_cells(name: str, had: Header, wanted: Header) -> Iterator[str]:
    """The cells of which the integers differ."""
    shared = [(p, wanted.protocols.index(x)) for p, x in enumerate(had.protocols) if x in wanted.protocols]
    for p, q in shared:
        for e, f in [(e, wanted.epsilons.index(x)) for e, x in enumerate(had.epsilons) if x in wanted.epsilons]:
            if had.plan.digest(p, e) != wanted.plan.digest(q, f):
                recipes = [(had.plan.recipe(p, e, j), wanted.plan.recipe(q, f, j)) for j in range(len(had.domain))]
                j, old, new = next((j, *both) for j, both in enumerate(recipes) if both[0] != both[1])
                where = f"at epsilon={had.epsilons[e]:g}, data set {name}, attribute {had.names[j]}"
                if old.prior != new.prior:
                    yield f"{had.protocols[p]} has another realised prior in the file {where} (drawn by another NumPy?)"
                else:
                    what = f"{where} it is {old.words}, {new.words} now"
                    yield f"{had.protocols[p]} is another protocol in the file: {what}"


def lacking(have: Mapping[str, Any], want: Mapping[str, Any]) -> list[str]:
    """What the file holds and the command does not ask for, a line each."""
    lines = []
    for extent, words in EXTENTS.items():
        if missing := [x for x in named(have, extent) if x not in named(want, extent)]:
            shown = ", ".join(f"{x:g}" if isinstance(x, float) else str(x) for x in missing)
            lines.append(f"{words}: the file also has {shown}")
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


def _short(value: object) -> str:
    """As on a command line, where it fits into one; a table of numbers as `a table`."""
    if isinstance(value, Mapping):
        value = [f"{key}={entry}" for key, entry in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        if any(isinstance(entry, Sequence) and not isinstance(entry, str) for entry in value):
            return "a table"
        return ",".join(map(str, value[:8])) + (",…" if len(value) > 8 else "")
    return str(value)
