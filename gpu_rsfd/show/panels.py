"""Panels of a figure: where they stand, their ticks, one legend for all, and the user's own text on them.

The size of a figure is reckoned in inches from what is to be drawn, unless the user gave one; Matplotlib's constrained
layout does the rest, so that any other size gives a good figure, too.
"""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import show_epsilon

SIZES = {1: (4.6, 3.2), 2: (3.8, 2.8), 3: (3.6, 2.7)}  # width and height of so many panels: inches, as all of these
SIZE = (3.2, 2.5)  # of more
LEFT, RIGHT, TOP, BETWEEN, ABOVE, BELOW = 0.85, 0.15, 0.05, 0.55, 0.3, 0.25
LINE, LETTER, HANDLE = 0.165, 0.067, 0.9  # of the legend: the height of a line, the width of a letter and of a sample
# both sides of the marker have room for a dash, a gap and a dot
LEGEND: dict[str, Any] = {"frameon": False, "handlelength": 4.4, "columnspacing": 1.2, "labelspacing": 0.3}
NARROWEST_PANEL = 1.6  # of a figure whose size is the user's
NARROWEST = 0.3  # between the middles of two tick labels that don't collide
PLAIN_POWERS = range(3)  # of ten: 1, 10 and 100 are written as they are
ELLIPSIS = "…"
# fonts that claim characters which they draw as something else, or can't draw at all
NO_TEXT_FONTS = ("cm", "Last Resort", "STIXNonUnicode", "STIXSize", "Noto Color Emoji", "Apple Color Emoji")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def columns_of(count: int) -> int:
    """Panels side by side; ten are two full lines of five."""
    if count <= 3:
        return count
    return 3 if count <= 9 and count != 4 else 2 if count == 4 else 5 if count % 5 == 0 else 4


def page_size(width: float, height: float) -> tuple[float, float]:
    """What the user wants (`figure.figsize` of Matplotlib, where it is not as usual), or this."""
    from matplotlib import rcParams, rcParamsDefault

    wanted = tuple(rcParams["figure.figsize"])
    return (width, height) if wanted == tuple(rcParamsDefault["figure.figsize"]) else wanted


def asked_size(width: float | None, height: float | None) -> Any:
    """The setting of Matplotlib that makes figures this large; if one side is given, the other follows from it."""
    size = width or (height or 0) * 4 / 3, height or (width or 0) * 3 / 4
    if size != (0, 0) and not all(1 <= side <= 50 for side in size):
        raise InputError(f"width={width}, height={height} must be 1 to 50 inches")
    return {} if width is height is None else {"figure.figsize": size}


class Page:
    """A figure with a panel for each of `count` things, and room below for the legend."""

    def __init__(
        self, count: int, legend: Mapping[str, Any], explained: Sequence[str], columns: int | None = None
    ) -> None:
        from matplotlib import rcParams
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.columns, letter = columns or columns_of(count), rcParams["font.size"] / 10 * LETTER
        panel_width, panel_height = SIZES.get(count, SIZE)
        width, _ = page_size(LEFT + self.columns * (panel_width + BETWEEN) - BETWEEN + RIGHT, 0)
        self.columns = min(self.columns, max(1, int(width / NARROWEST_PANEL)))
        lines = -(-count // self.columns)
        text = "\n".join(textwrap.wrap("; ".join(explained), int((width - 0.4) / letter)))
        most = int((width - 0.2) // (max(map(len, legend), default=1) * letter + HANDLE * letter / LETTER)) or 1
        rows = -(-len(legend) // most) or 1
        across = -(-len(legend) // rows) or 1  # lines of equal length
        rows = -(-len(legend) // across) + (text.count("\n") + 1 if text else 0)
        foot = 0.5 + rows * LINE + 0.1  # tick labels, the axis' name, the legend
        height = TOP + lines * (ABOVE + panel_height + BELOW) - BELOW + foot
        self.figure = Figure(figsize=page_size(width, height), layout="constrained")
        FigureCanvasAgg(self.figure)
        self.axes: list[Any] = [self.figure.add_subplot(lines, self.columns, i + 1) for i in range(count)]
        drawn = self.figure.legend(
            legend.values(),
            legend.keys(),
            loc="outside lower center",
            ncols=across,
            fontsize=8 * letter / LETTER,
            title=text or None,
            title_fontsize=8 * letter / LETTER,
            **LEGEND,
        )
        drawn.get_title().set_multialignment("center")

    def name_axes(self, x: Sequence[str], y: Sequence[str]) -> None:
        """Under the panels, if not under the next one, too; beside them, if not beside the one before; taking turns."""
        for i, axis in enumerate(self.axes):
            name, below = y[i % len(y)], i + self.columns
            if i % self.columns == 0 or name != y[(i - 1) % len(y)]:
                axis.set_ylabel(name)
            if below >= len(self.axes) or x[i % len(x)] != x[below % len(x)]:
                axis.set_xlabel(x[i % len(x)])


def epsilon_ticks(axis: Any, epsilons: Sequence[float]) -> None:
    """`ln 2` rather than 0.693; labels that would collide are left out, the first and the last are not."""
    from matplotlib.ticker import FixedFormatter, FixedLocator

    if len(epsilons) > 8 or not all(show_epsilon(e).startswith("ln") for e in epsilons):
        return
    ordered = sorted(epsilons)
    room = (ordered[-1] - ordered[0]) * NARROWEST / SIZE[0]
    shown, last = [], -math.inf
    for epsilon in ordered:
        fits = epsilon - last >= room and (epsilon == ordered[-1] or ordered[-1] - epsilon >= room)
        last = epsilon if fits else last
        shown.append(show_epsilon(epsilon) if fits else "")
    axis.xaxis.set_major_locator(FixedLocator(ordered))
    axis.xaxis.set_major_formatter(FixedFormatter(shown))


def size_ticks(axis: Any, sizes: Sequence[int]) -> None:
    """A tick for each size on a logarithmic axis; labels that would collide are left out."""
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    room = math.log(sizes[-1] / sizes[0]) * NARROWEST / SIZE[0]
    shown: list[int] = []
    for size in sizes:
        if not shown or math.log(size / shown[-1]) >= room:
            shown.append(size)
    axis.xaxis.set_major_locator(FixedLocator(shown))
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(NullLocator())


def log_ticks(axis: Any, values: Any) -> bool:
    """A logarithmic axis around the positive values, its ticks plain text; False if there is no such value."""
    from matplotlib.ticker import FixedFormatter, FixedLocator

    positive = np.asarray([v for v in values if v > 0 and math.isfinite(v)])
    if not positive.size:
        return False
    low, high = math.log10(positive.min()), math.log10(positive.max())
    margin = max(0.05 * (high - low), 0.03)
    low, high = max(low - margin, -300.0), min(high + margin, 300.0)
    axis.set_yscale("log")
    axis.set_ylim(10.0**low, 10.0**high)
    step = max(1, math.ceil((high - low) / 8))
    decades = [e for e in range(math.ceil(low), math.floor(high) + 1) if e % step == 0]
    # locators, not set_yticks: that makes every tick and its text twice
    axis.yaxis.set_major_locator(FixedLocator([10.0**e for e in decades]))
    axis.yaxis.set_major_formatter(FixedFormatter([power(e) for e in decades]))
    between = [(m, e) for e in range(math.floor(low), math.ceil(high)) for m in range(2, 10)] if high - low < 8 else []
    between = [(m, e) for m, e in between if low <= e + math.log10(m) <= high]
    ticks = [m * 10.0**e for m, e in between]
    # the more names between powers of ten, the fewer powers there are
    named = {0: (2, 3, 5, 7), 1: (2, 5)}.get(len(decades), ())
    names = [_number(m * 10.0**e, 0) if m in named else "" for m, e in between]
    if sum(map(bool, names)) + len(decades) < 2:  # a narrow range: three ticks of its own
        ticks = [10.0 ** (low + share * (high - low)) for share in (0.2, 0.5, 0.8)]
        names = [_number(value) for value in ticks]
        axis.yaxis.set_major_locator(FixedLocator([]))  # a power of ten among them would collide
    axis.yaxis.set_minor_locator(FixedLocator(ticks))
    axis.yaxis.set_minor_formatter(FixedFormatter(names))
    return True


def _number(value: float, digits: int = 2) -> str:
    mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
    if int(exponent) in PLAIN_POWERS:
        return f"{value:.{max(digits - int(exponent), 0)}f}"
    return f"{mantissa}·{power(int(exponent))}"


def power(exponent: int) -> str:
    return str(10**exponent) if exponent in PLAIN_POWERS else f"10{str(exponent).translate(SUPERSCRIPTS)}"


# ---------------------------------------------------------------------------------------------- the user's own text


def lettered(texts: Iterable[str], most: int) -> tuple[list[str], list[str]]:
    """The texts as they can be drawn, none wider than `most` letters, and the font families that this takes."""
    from matplotlib import rcParams

    originals = list(texts)
    fonts, unknown = _fonts_for(frozenset("".join(originals)))
    return [_drawn(text, unknown, most) for text in originals], [*rcParams["font.family"], *fonts]


def _drawn(text: str, unknown: frozenset[str], most: int) -> str:
    pieces = [c.encode("unicode_escape").decode() if c in unknown else c for c in text]
    wide = [len(piece) + (unicodedata.east_asian_width(piece[0]) in "WF") for piece in pieces]
    if sum(wide) > most:  # the beginning and the end: similar labels differ in either
        first = sum(end < most - most // 3 for end in accumulate(wide))
        last = sum(end <= most // 3 for end in accumulate(wide[::-1]))
        pieces = [*pieces[:first], ELLIPSIS, *pieces[len(pieces) - last :]]
    return "".join(pieces).replace("$", r"\$")  # a dollar sign, not the start of a formula


@lru_cache(maxsize=256)
def _fonts_for(characters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Installed families that have what the default font lacks; and what no font has, or can't be printed at all."""
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    blank = {c for c in characters if not c.isprintable()}
    missing = _without(findfont(FontProperties()), characters - blank)
    fonts: list[str] = []
    regular = {e.name: e.fname for e in fontManager.ttflist if e.style == "normal" and e.weight in (400, "normal")}
    for name, path in sorted(regular.items()):
        if missing and not name.startswith(NO_TEXT_FONTS):
            left = _without(path, missing)
            if left != missing:
                fonts.append(name)
                missing = left
    return tuple(fonts), frozenset(missing | blank)


def _without(path: str, characters: frozenset[str]) -> frozenset[str]:
    """The characters that a font file does not have; all of them, if it can't be read."""
    from matplotlib.font_manager import get_font

    try:
        known = get_font(path).get_charmap()
    except (OSError, RuntimeError):  # moved since the list of fonts was made; no outlines
        return characters
    return frozenset(c for c in characters if ord(c) not in known)
