"""What was collected, for people: a table, a page and a figure of estimates with their intervals, and no truth."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from gpu_rsfd.options import show_epsilon
from gpu_rsfd.results.aggregate import Aggregate
from gpu_rsfd.show.panels import Page, lettered
from gpu_rsfd.show.tables import finite, plain_table, screen

WHOSE = {"users": "the users who reported", "population": "the population that these users are a random sample of"}
QUIET = ("count", "reporters", "standard_error")  # not in the table


def about(found: Aggregate) -> str:
    """What the numbers are, in words."""
    promise = f"{found.protocol}, epsilon = {show_epsilon(found.epsilon)}, guarantee {found.guarantee}"
    whose = f"{100 * found.level:g} % intervals, each by itself, for the shares among {WHOSE[found.against]}"
    return f"{found.n:,} reports of {promise}; {whose}"


def document(found: Aggregate, rows: list[dict[str, Any]], asked: Any) -> dict[str, Any]:
    """All of it, as plain data."""
    told = {"title": asked.title, "collection": asked.identity, "about": about(found), "reports": found.n}
    return {**told, "left_out": found.bad, "rows": [finite(row) for row in rows]}


def show(document: dict[str, Any], rows: list[dict[str, Any]], left_out: str) -> None:
    """A table, in percent."""
    table = plain_table("attribute", (name for name in [*rows[0]][1:] if name not in QUIET))
    for row in rows:
        cells = (cell for name, cell in row.items() if name not in QUIET)
        table.add_row(*(f"{x} " if isinstance(x, str) else f" {100 * x:.2f} %" for x in cells))
    screen([f"{document['about']}; left out: {left_out or 'none'}", table])


def page(document: dict[str, Any]) -> str:
    """One HTML file that opens offline."""
    text = resources.files("gpu_rsfd.show").joinpath("resources/estimates.html").read_text("utf-8")
    return text.replace("{{data}}", json.dumps(document).replace("<", "\\u003c"), 1)


def figure(found: Aggregate) -> Any:
    """A panel for each attribute."""
    drawn = Page(len(found.names), {}, [about(found)])
    for j, (axis, name, s) in enumerate(zip(drawn.axes, found.names, found.domain.slices, strict=True)):
        share, low, high = (numbers[s] for numbers in (found.estimates, found.low, found.high))
        axis.errorbar(range(len(share)), share, [share - low, high - share], fmt="o", markersize=3, color="#0b57d0")
        texts, families = lettered(found.labels[j] if found.labels else map(str, range(len(share))), 12)
        axis.set_xticks(range(len(share)), texts, fontsize=7, fontfamily=families, rotation=90)
        axis.set_title(lettered([name], 24)[0][0], fontsize=10)
        axis.set_xlim(-0.5, len(share) - 0.5)
    drawn.name_axes([""], ["share"])
    return drawn.figure
