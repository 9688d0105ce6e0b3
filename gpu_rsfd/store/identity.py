"""Whether a results file can be extended to what a command asks for; if not, what differs, in plain words.

Two runs belong together if the integers of every cell that they share agree, and so do seed, sampler, assignment,
guarantee, stream and data.  They may differ in how many data sets, protocols, epsilons and repetitions they have.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from gpu_rsfd.protocols import REGISTRY
from gpu_rsfd.results.result import Header
from gpu_rsfd.spec import FIELDS

# What must be equal, and what it is where a spec does not say; beside it, all that a measurement says of itself.
SHARED: dict[str, Any] = {o.name: o.value() for o in FIELDS if o.shared} | {"stream_version": 1, "numpy_version": None}
EXTENTS = {"datasets": "data sets", "protocols": "protocols", "epsilons": "epsilons"}
# What shows in the integers of some protocols only.
SOMETIMES = [o.name for o in FIELDS if not o.shared and o.name not in (*EXTENTS, "repetitions")]
WORDS = ("source", "loaded")  # of a data set: where it comes from; its codes have a checksum


def digest_of(document: object) -> str:
    """A sha256 of plain data."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _identified(dataset: Mapping[str, Any], said: Sequence[str] = ()) -> dict[str, Any]:
    """What must be equal, without options of the run that made the data from others; both have a seed."""
    return {key: value for key, value in dataset.items() if key not in (*WORDS, *said) or key == "seed"}


def _settings(spec: Mapping[str, Any]) -> dict[str, Any]:
    first, _, step = spec["repetitions"]
    said = {key: value for key, value in spec.items() if key not in (*SOMETIMES, *EXTENTS, "repetitions")}
    return {**SHARED, **said, "first": first, "step": step}


def key_of(spec: Mapping[str, Any], dataset: Mapping[str, Any]) -> str:
    """Equal for blocks that may lie in one file, whatever its extent; their cells have digests of their own."""
    return digest_of({**_settings(spec), "dataset": _identified(dataset)})


def conflicts(
    have: Mapping[str, Any], want: Mapping[str, Any], had: Mapping[str, Header], wanted: Mapping[str, Header]
) -> list[str]:
    """What can't be reconciled between a file and a command, a line each; `had` and `wanted` are headers by name."""
    before, now = _settings(have), _settings(want)
    if before["measurement"] != now["measurement"]:
        return [f"it holds {before['measurement']}, not {now['measurement']}"]
    if before["sampler"] != now["sampler"]:
        before["numpy_version"] = now["numpy_version"]  # what draws differs in any case
    differ = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    lines = [_differ(key, before.get(key), now.get(key)) for key in differ if key not in ("first", "step")]
    if not {"first", "step"}.isdisjoint(differ):
        lines.append(f"repetitions: {_range(have)} in the file, {_range(want)} asked for")
    pairs = [(old, new) for old in have["datasets"] for new in want["datasets"] if old["name"] == new["name"]]
    lines += [_of_data(old, now) for old, now in pairs if _identified(old, differ) != _identified(now, differ)]
    cells = [line for name in had if name in wanted and not lines for line in _of_cells(name, had[name], wanted[name])]
    return lines or (cells and clashing(have, want)) or cells[:1]


def clashing(have: Mapping[str, Any], want: Mapping[str, Any]) -> list[str]:
    """What protocols of both need, and one run can have only one of, a line each; a usual prior is not in a spec."""
    fakes = [any(getattr(REGISTRY.get(name), "prior", False) for name in spec["protocols"]) for spec in (have, want)]
    a, b = ({"prior": "uniform" if fake else None, **spec} for fake, spec in zip(fakes, (have, want), strict=True))
    each = [(key, a.get(key), b.get(key)) for key in SOMETIMES]
    return [_differ(*one) for one in each if None not in one and one[1] != one[2]]


def _range(spec: Mapping[str, Any]) -> str:
    first, stop, step = spec["repetitions"]
    return f"{first} … {stop - 1}" + (f" in steps of {step}" if step > 1 else "")


def _of_data(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    read, asked = ({key: _short(value) for key, value in one.get("loaded", {}).items()} for one in (old, new))
    file = read.pop("file", old["name"])
    for key in {**read, **asked}:
        if key != "file" and read.get(key) != asked.get(key):
            return f"{file}: {_differ(key, read.get(key, 'not given'), asked.get(key, 'not given'), ' ')}"
    for key in ("users", "domain", "seed", "distribution"):
        if old.get(key) != new.get(key):
            return f"{old['name']}: {_differ(key, old.get(key), new.get(key), ' ')}"
    return f"{file} has changed since"


def _of_cells(name: str, had: Header, wanted: Header) -> Iterator[str]:
    """The cells of which the integers differ."""
    for (p, protocol), (e, epsilon) in product(enumerate(had.protocols), enumerate(had.epsilons)):
        if protocol not in wanted.protocols or epsilon not in wanted.epsilons:
            continue
        q, f = wanted.protocols.index(protocol), wanted.epsilons.index(epsilon)
        for j, attribute in enumerate(had.names if had.plan.digest(p, e) != wanted.plan.digest(q, f) else ()):
            old, new = had.plan.recipe(p, e, j), wanted.plan.recipe(q, f, j)
            where = f"at epsilon={epsilon:g}, data set {name}, attribute {attribute}"
            if old.prior != new.prior:
                yield f"{protocol} has another realised prior in the file {where} (drawn by another NumPy?)"
            elif old != new:
                yield f"{protocol} is another protocol in the file: {where} it is {old.words}, {new.words} now"


def lacking(have: Mapping[str, Any], want: Mapping[str, Any]) -> list[str]:
    """What the file holds and the command does not ask for, a line each."""
    lines = []
    for extent, words in EXTENTS.items():
        old, new = ([x["name"] if isinstance(x, Mapping) else x for x in spec[extent]] for spec in (have, want))
        if missing := [f"{x:g}" if isinstance(x, float) else str(x) for x in old if x not in new]:
            lines.append(f"{words}: the file also has {', '.join(missing)}")
    before, now = len(range(*have["repetitions"])), len(range(*want["repetitions"]))
    return [*lines, *([f"repetitions: the file has {before:,}, {now:,} asked for"] if before > now else [])]


def union(have: Mapping[str, Any], want: Mapping[str, Any]) -> dict[str, Any]:
    """A spec that asks for all that either does, the file's order first."""
    sets = {d["name"]: d for d in (*have["datasets"], *want["datasets"])}
    lists = {e: list(dict.fromkeys([*have[e], *want[e]])) for e in ("protocols", "epsilons")}
    longest = max(have["repetitions"], want["repetitions"], key=lambda r: len(range(*r)))
    return {**have, **want, **lists, "datasets": list(sets.values()), "repetitions": longest}


def _differ(key: str, old: object, new: object, between: str = ": ") -> str:
    what, a, b = key.replace("_", " "), _short(old), _short(new)
    return what + between + ("the file has another one" if a == b else f"{a} in the file, {b} asked for")


def _short(value: object) -> str:
    """As on a command line, where it fits into one; a table of numbers as `a table`."""
    if isinstance(value, Mapping):
        value = [f"{key}={entry}" for key, entry in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        if any(isinstance(entry, Sequence) and not isinstance(entry, str) for entry in value):
            return "a table"
        return ",".join(map(str, value[:8])) + (",…" if len(value) > 8 else "")
    return str(value)
