"""The table of docs/which-protocol.md, and its figure: `python docs/which_protocol.py` draws it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpu_rsfd import InputError, PrivacySettings
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.planning import Look
from gpu_rsfd.protocols import REGISTRY, Protocol
from gpu_rsfd.show.charts import palette
from gpu_rsfd.show.panels import Page, log_ticks, size_ticks
from gpu_rsfd.show.plots import save_figure
from gpu_rsfd.theory import expected_mse
from gpu_rsfd.theory.needs import bits_per_user

FIGURE = Path(__file__).with_name("which-protocol.svg")
CLOSE = 1.01  # root mean square errors within 1 % of each other are as good: fewer bits decide

GUARANTEES = {"user": "any two users", "attribute": "users who differ in one attribute"}
EPSILONS, ATTRIBUTES, VALUES = (1.0, 4.0), (2, 10), (2, 10, 100)  # of the table
AXES: dict[str, tuple[str, tuple[float, ...]]] = {  # of the figure
    "k": ("values k", (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)),
    "d": ("attributes d", (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50)),
    "n": ("users n", (1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6)),
    "epsilon": ("ε", (0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6)),
}


class Point(NamedTuple):
    """Where protocols are compared: d attributes of k values each, uniformly distributed."""

    epsilon: float = 1.0
    d: int = 5
    k: int = 10
    n: int = 10_000


class Best(NamedTuple):
    """A protocol with its expected root mean square error and the bits that a user sends."""

    name: str
    rmse: float
    bits: float


def families() -> dict[str, list[Protocol]]:
    """Protocols by what is done about several attributes: the part of the label before the bracket.

    Longitudinal protocols bound more than one report, and a prior of fake values needs one: neither is compared here.
    """
    found: dict[str, list[Protocol]] = {}
    for protocol in REGISTRY.values():
        if not (protocol.memoised or protocol.prior or protocol.claimed):
            found.setdefault(protocol.label.partition("[")[0], []).append(protocol)
    return found


@cache
def best(family: str, at: Point, guarantee: str) -> Best | None:
    """The protocol of a family with the least error; of those within 1 % of it, the one that sends fewest bits."""
    rows = [row for protocol in families()[family] if (row := _expected(protocol, at, guarantee)) is not None]
    least = min((row.rmse for row in rows), default=0)
    return min((row for row in rows if row.rmse <= CLOSE * least), key=_cheapest, default=None)


def _expected(protocol: Protocol, at: Point, guarantee: str) -> Best | None:
    """None where a protocol can't be run."""
    domain, settings = (at.k,) * at.d, PrivacySettings(guarantee=guarantee)
    try:
        mse = expected_mse(protocol, at.epsilon, at.n, domain, settings=settings)
        return Best(protocol.name, mse**0.5, bits_per_user(protocol, at.epsilon, domain, settings))
    except InputError:
        return None


def _cheapest(row: Best) -> tuple[float, bool, float]:
    """Fewest bits first; an adaptive protocol after the one that it chose; of equals, the first in the registry."""
    return round(row.bits, 6), REGISTRY[row.name].adaptive, float(f"{row.rmse:.4g}")


def table() -> str:
    """In Markdown: the best of each family, the best of all in bold."""
    names = list(families())
    heads = [f"{family}, {guarantee}" for guarantee in GUARANTEES for family in names]
    lines = [f"| ε | d | k | {' | '.join(heads)} |", f"|--:|--:|--:|{'---|' * len(heads)}"]
    for epsilon in EPSILONS:
        for d in ATTRIBUTES:
            for k in VALUES:
                cells = [show_epsilon(epsilon), str(d), str(k)]
                for guarantee in GUARANTEES:
                    found = [best(family, Point(epsilon, d, k), guarantee) for family in names]
                    least = min(row.rmse for row in found if row is not None)
                    cells += [_cell(row, row is not None and row.rmse <= CLOSE * least) for row in found]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: Best | None, wins: bool) -> str:
    if row is None:
        return "–"
    text = f"{row.name} {row.rmse:#.2g}"
    return f"**{text}**" if wins else text


def sentences() -> str:
    """Where each family wins, counted over the table."""
    points = [Point(epsilon, d, k) for epsilon in EPSILONS for d in ATTRIBUTES for k in VALUES]
    lines = []
    for guarantee, words in GUARANTEES.items():
        won: dict[str, list[str]] = {}
        for at in points:
            found = {family: best(family, at, guarantee) for family in families()}
            least = min(row.rmse for row in found.values() if row is not None)
            for family, row in found.items():
                if row is not None and row.rmse <= CLOSE * least:
                    won.setdefault(family, []).append(row.name)
        parts = [
            f"{family} is best in {len(names)} ({', '.join(f'`{n}` {names.count(n)}' for n in dict.fromkeys(names))})"
            for family, names in sorted(won.items(), key=lambda item: -len(item[1]))
        ]
        never = [family for family in families() if family not in won]
        tail = f"; {' and '.join(never)} never {'is' if len(never) == 1 else 'are'}" if never else ""
        lines.append(f"- **`--guarantee {guarantee}`** ({words}): of {len(points)} cases, {'; '.join(parts)}{tail}.")
    return "\n".join(lines)


def figure() -> Any:
    """Expected errors of the best protocol of each family: a line for each axis, a column for each guarantee."""
    drawn = palette(tuple(Look.of(first) for first, *_ in families().values()))
    looks = {family: {**style.curve, "markersize": 4} for family, style in zip(families(), drawn, strict=True)}
    at = Point()
    note = f"where it is not on the axis: ε = {at.epsilon:g}, d = {at.d}, k = {at.k}, n = {at.n:,}"
    page = Page(len(GUARANTEES) * len(AXES), looks, ["the best protocol of each family", note], columns=len(GUARANTEES))
    panels = [(guarantee, axis) for axis in AXES for guarantee in GUARANTEES]
    for axes, (guarantee, axis) in zip(page.axes, panels, strict=True):
        xs, errors = AXES[axis][1], []
        for family, look in looks.items():
            points = [at._replace(**{axis: x if axis == "epsilon" else int(x)}) for x in xs]
            found = [best(family, point, guarantee) for point in points]
            errors.append([float("nan") if row is None else row.rmse for row in found])
            axes.plot(xs, errors[-1], **look)
        log_ticks(axes, [error for row in errors for error in row])
        if axis != "epsilon":
            axes.set_xscale("log")
        if axis in "dk":
            size_ticks(axes, [int(x) for x in xs])
        axes.grid(True, which="major", linewidth=0.4, alpha=0.6)
        axes.tick_params(which="both", labelsize=8)
        axes.set_title(GUARANTEES[guarantee], fontsize=9)
    page.name_axes([AXES[axis][0] for _, axis in panels], ["expected RMSE"])
    return page.figure


if __name__ == "__main__":
    save_figure(figure(), FIGURE)
