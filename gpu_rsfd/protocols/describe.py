"""The registry for people: a line for help, a table for the docs."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from gpu_rsfd.protocols.form import Bits, Sets, Unsampled
from gpu_rsfd.protocols.registry import REGISTRY, Protocol

_SENT = {
    Unsampled.OWN: "every attribute",
    Unsampled.NOTHING: "the sampled attribute, and which it is",
    Unsampled.ZERO: "every attribute: noise on zero vectors for those not sampled",
    Unsampled.FAKE: "every attribute: fake values for those not sampled",
}


def noises(protocol: Protocol) -> str:
    return " or ".join(dict.fromkeys(variant.noise.name for variant in protocol.variants))


def sends(protocol: Protocol) -> str:
    """What is sent."""
    kinds = []
    for variant in protocol.variants:
        text = _SENT[variant.unsampled]
        if variant.unsampled is Unsampled.FAKE and variant.noise.form is Bits:
            text = text.replace("fake values", "randomised fake one-hot vectors")
        elif variant.unsampled is Unsampled.FAKE and variant.noise.form is Sets:
            text = text.replace("fake values", "uniform messages")
        kinds.append(text + ", drawn from a prior" * variant.prior)
    return "; or ".join(dict.fromkeys(kinds))


def protocols_table() -> str:
    """Every protocol: a table in Markdown, a row for those that send the same."""
    kinds: dict[str, list[str]] = {}
    for entry in REGISTRY.values():
        kinds.setdefault(sends(entry), []).append(f"`{entry.name}`")
    rows = ["| protocols | what is sent |", "|---|---|"]
    return "\n".join(rows + [f"| {', '.join(names)} | {sent} |" for sent, names in kinds.items()])


def noises_table() -> str:
    """Every noise: a table in Markdown."""
    rules = dict.fromkeys(variant.noise for entry in REGISTRY.values() for variant in entry.variants)
    rows = ["| noise | p* | q* | comes from |", "|---|---|---|---|"]
    rows += [f"| {r.name} | {r.p_star} | {r.q_star} | {r.source} |" for r in rules]
    return "\n".join(rows)


def updated(text: str) -> str:
    """A document with its first two tables (the lines that start with |) replaced by the registry's."""
    parts = ["\n".join(lines) for _, lines in groupby(text.splitlines(), key=lambda line: line.startswith("|"))]
    tables = iter((protocols_table(), noises_table()))
    return "\n".join(next(tables, part) if part.startswith("|") else part for part in parts) + "\n"


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
