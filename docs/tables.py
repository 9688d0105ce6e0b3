"""The tables of the documentation that follow from declarations; conf.py writes them when the site is built."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import which_protocol

from gpu_rsfd.backends.base import known_noises
from gpu_rsfd.cli.options import PROTOCOL_FROM, RUN, SELECTION, SPEC_FILE
from gpu_rsfd.datasets.options import BY_NAME
from gpu_rsfd.measure import MEASUREMENTS
from gpu_rsfd.measure.base import options_of
from gpu_rsfd.options import Option
from gpu_rsfd.protocols import REGISTRY, Bits, Keep, Sets, Subsets
from gpu_rsfd.protocols.describe import sends
from gpu_rsfd.results.estimate import POSTPROCESS
from gpu_rsfd.results.metrics import as_metric, first_line, metric_names
from gpu_rsfd.spec import FIELDS


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    cells = list(head)
    return "\n".join(f"| {' | '.join(row)} |" for row in (cells, ["---"] * len(cells), *rows))


# Options


def options() -> str:
    """Every option, in sections."""
    sections = {
        "Data": [option for option in SELECTION if option.name not in BY_NAME],
        "Your own tables": [option for option in SELECTION if option.name in BY_NAME],
        "Simulation": [*FIELDS, PROTOCOL_FROM, *SPEC_FILE],
        **{f"What `{kind.command}` records": options_of(kind) for kind in MEASUREMENTS.values()},
        "Execution and output (not in `plan`)": RUN,
    }
    return "\n\n".join(f"## {title}\n\n{_section(map(_everywhere, each))}" for title, each in sections.items())


def _section(listed: Iterable[Option]) -> str:
    rows = []
    for o in listed:
        defaults = [o.default_text, *(f"`{name}`: {value}" for name, value in o.defaults.items())]
        example = f"`--{o.key}{f' {o.example}' if o.example else ''}`"
        if o.default is True:
            example, defaults = f"{example}, `--no-{o.key}`", [example]
        unused = ", ".join(f"`{name}`" for name in o.unused)
        what = re.sub(r"(?<![`\w])--[a-z][\w-]*", r"`\g<0>`", o.help)
        rows.append((example, f"`{o.name}`" * o.in_python, what, "; ".join(filter(None, defaults)), unused))
    columns = zip(("option", "in Python", "what", "default", "not in"), *rows, strict=True)
    head, *rows = zip(*(column for column in columns if any(column[1:])), strict=True)
    return markdown(head, rows)


def _everywhere(option: Option) -> Option:
    """With the defaults of the measurements that have their own, and those that have no use for it."""
    kinds = MEASUREMENTS.values()
    own = {kind.command: kind.defaults[option.name] for kind in kinds if option.name in kind.defaults}
    unused = *option.unused, *(kind.command for kind in kinds if option.name in kind.unused)
    return replace(option, defaults={**option.defaults, **own}, unused=unused)


# Protocols


def protocols() -> str:
    """Every protocol; a row for those that send the same."""
    kinds: dict[str, list[str]] = {}
    for entry in REGISTRY.values():
        kinds.setdefault(sends(entry), []).append(f"`{entry.name}`")
    return markdown(("protocols", "what is sent"), [(", ".join(names), sent) for sent, names in kinds.items()])


def noises() -> str:
    """Every noise, with the probabilities that a report supports a value."""
    rules = dict.fromkeys(variant.noise for entry in REGISTRY.values() for variant in entry.variants)
    formulas = ((rule, re.sub(r", (?=\w+ = |\\)", r",\\;", rule.p_star), rule.q_star) for rule in rules)
    rows = [(rule.name, f"${p}$", f"${q}$", rule.source) for rule, p, q in formulas]
    return markdown(("noise", "$p^*$", "$q^*$", "comes from"), rows)


def forms() -> str:
    """What each backend and sampler knows."""
    known, rows = known_noises(), []
    for form in (Keep, Sets, Bits, Subsets):
        rules = [v.noise for e in REGISTRY.values() for v in e.variants if v.noise.form is form]
        names = dict.fromkeys(f"`{rule.name}`" for rule in rules)
        answers = ("yes" if form in noises else "no" for noises in known.values())
        rows.append((form.__name__, ", ".join(names), *answers))
    return markdown(("form", "noises", *known), rows)


# Metrics


def metrics() -> str:
    """Every metric, by the first line of its docstring."""
    each = {name: as_metric(name) for name in metric_names()}
    rows = [(f"`{name}`", f"{m.summary}{' Larger is better.' * m.larger_is_better}") for name, m in each.items()]
    return markdown(("name", "what it is"), rows)


def postprocessings() -> str:
    """Every post-processing, by the first line of its docstring."""
    rows = [(f"`{name}`", first_line(function)) for name, function in POSTPROCESS.items()]
    return markdown(("name", "what it is"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "options": options,
    "protocols": protocols,
    "noises": noises,
    "forms": forms,
    "metrics": metrics,
    "postprocessings": postprocessings,
    "which-protocol": lambda: f"{which_protocol.sentences()}\n\n{which_protocol.table()}",
}
