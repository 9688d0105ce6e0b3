"""Panels of a figure: where they stand, their ticks, one legend for all, and the user's own text on them.

The size of a figure is reckoned in inches from what is to be drawn, unless the user gave one; Matplotlib's constrained
layout does the rest, so that any other size gives a good figure, too.
"""

from __future__ import annotations

import io
import math
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import show_epsilon

SIZES = {1: (5.6, 3.8), 2: (4.4, 3.35), 3: (4.15, 3.25)}  # of so many panels with their labels: inches, as all of these
SIZE = (3.75, 3.05)  # of more
LETTER = 0.0084  # the width of a letter, for each point of its size
# of a legend, in letters: a sample, the height of a line, the text beside panels; longer names are cut
HANDLE, LINE, ASIDE, LEGEND_LETTERS = 13.5, 2.4, 26, 60
LEGENDS = ("below", "right", "none")
# both sides of the marker have room for a dash, a gap and a dot
LEGEND: dict[str, Any] = {"frameon": False, "handlelength": 4.4, "columnspacing": 1.2, "labelspacing": 0.3}
LABELS = 0.8  # inches of a panel that its labels take
LABEL, LABEL_LETTER, LABEL_LETTERS = 0.13, 0.066, 20  # of a value: inches when turned, of a letter; longer ones are cut
NARROWEST_PANEL = 2.2  # of a figure whose size is the user's
NARROWEST = 0.3  # between the middles of two tick labels that don't collide
PLAIN_POWERS = range(3)  # of ten: 1, 10 and 100 are written as they are
ELLIPSIS = "…"
# fonts that claim characters which they draw as something else, or can't draw at all
NO_TEXT_FONTS = ("cm", "Last Resort", "STIXNonUnicode", "STIXSize", "Noto Color Emoji", "Apple Color Emoji")


def columns_of(count: int) -> int:
    """Panels side by side; ten are two full lines of five."""
    if count <= 3:
        return count
    return 3 if count <= 9 and count != 4 else 2 if count == 4 else 5 if count % 5 == 0 else 4


def setting(name: Any, usual: Any) -> Any:
    """A setting of Matplotlib that the user has made, or what is usual here: a number is a multiple of text's size."""
    from matplotlib import rcParams, rcParamsDefault

    if rcParams[name] != rcParamsDefault[name]:
        return rcParams[name]
    return usual * rcParams["font.size"] if isinstance(usual, float) else usual


class Paper(NamedTuple):
    """What a figure is drawn on; checked by `of`."""

    axes: Any = None  # the user's own, a panel in each
    title: bool = True
    legend: str | None = None  # None: below the panels, or right of low ones; inside the first of the user's own Axes
    width: float | None = None  # inches; None: by Matplotlib's settings, or by what is drawn
    height: float | None = None

    @classmethod
    def of(cls, axes: Any = None, *options: Any) -> Paper:
        from matplotlib.axes import Axes

        paper = cls(None if axes is None else [*np.ravel(np.asarray(axes, object))], *options)
        own = paper.axes or []
        if len({*map(id, own)}) < len(own) or not all(isinstance(a, Axes) and a.name == "rectilinear" for a in own):
            raise InputError(f"ax={axes!r} must be an Axes of Matplotlib, or an array of them: x by y, none twice")
        if paper.legend not in (None, *LEGENDS):
            raise InputError(f"legend={paper.legend} must be one of {', '.join(LEGENDS)}")
        for name, side in zip(("width", "height"), paper[-2:], strict=True):
            if side is not None and not 1 <= side <= 50:
                raise InputError(f"{name}={side} must be 1 to 50 inches")
        return paper


A_PAGE = Paper()


@lru_cache
def _sheet() -> Any:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    class Sheet(Figure):
        """A figure that embeds TrueType fonts, since submission checkers refuse Type 3; notebooks show it."""

        page: Any = None
        aside = 0.0  # inches that the legend takes from the width

        def set_size_inches(self, *size: Any, **options: Any) -> None:
            super().set_size_inches(*size, **options)
            self.page.lay()

        def savefig(self, *place: Any, **options: Any) -> None:
            with rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
                super().savefig(*place, **options)

        def _repr_png_(self) -> bytes:
            image = io.BytesIO()
            self.savefig(image, format="png", dpi=90)
            return image.getvalue()

    return Sheet


class Page:
    """A figure, or Axes of the user's own, with a panel for each of `count` things, and a legend of lines' styles."""

    def __init__(
        self, count: int, legend: Mapping[str, dict[str, Any]], explained: Sequence[str], columns: int | None = None,
        paper: Paper = A_PAGE, size: tuple[float, float] | None = None,
    ) -> None:  # fmt: skip
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.font_manager import FontProperties
        from matplotlib.lines import Line2D

        self.legend, families = lettered(legend, LEGEND_LETTERS)
        self.handles = [Line2D([], [], **style) for style in legend.values()]
        self.explained, self.paper, self.fitted = "; ".join(explained), paper, list[Any]()
        self.font = FontProperties(family=families, size=setting("legend.fontsize", 0.8))
        self.points = self.font.get_size_in_points()
        self.columns = columns or columns_of(count)
        if paper.axes is None:
            width, height = setting("figure.figsize", (None, None))
            panel, place = size or SIZES.get(count, SIZE), paper.legend or "below"
            width = paper.width or width or self.columns * panel[0] + self._legend(place, 1)[1]
            _, aside, below = self._legend(place, width)
            self.columns = min(self.columns, max(1, int((width - aside) / NARROWEST_PANEL)))
            lines = -(-count // self.columns)
            beside = self._legend("below", aside + 0.4)[2] if aside else 0.0  # the legend's own height
            panels = lines * min(panel[1], 0.8 * (width - aside) / self.columns)
            height = paper.height or height or max(panels + below, beside)
            self.figure = _sheet()(figsize=(width, height), layout="constrained")
            FigureCanvasAgg(self.figure)
            self.axes: list[Any] = [self.figure.add_subplot(lines, self.columns, i + 1) for i in range(count)]
            self.figure.page = self
        elif len(paper.axes) < count:
            raise InputError(f"ax has {len(paper.axes)} Axes; this figure has {count} panels, and each needs one")
        else:
            self.axes, self.figure, grid = paper.axes[:count], paper.axes[0].figure, paper.axes[0].get_subplotspec()
            self.columns = grid.get_gridspec().ncols if grid else count
        self.lay()

    def _legend(self, place: str, width: float) -> tuple[dict[str, Any], float, float]:
        """How it is laid out, and the inches that it takes from the width and from the height."""
        letter = LETTER * self.points
        label = (max(map(len, self.legend), default=0) + HANDLE) * letter
        aside = max(label, ASIDE * letter) if place == "right" else 0.0
        text = textwrap.wrap(self.explained, int((aside or width - 0.4) / letter) or 1)
        rows = -(-len(self.legend) // (int((aside or width - 0.2) / label) or 1)) or 1
        across = -(-len(self.legend) // rows) or 1  # lines of equal length
        loc = "outside right upper" if aside else "outside lower center"
        look = {"loc": loc, "ncols": across, "title": "\n".join(text) or None, "title_fontsize": self.points}
        return look, aside, LINE * letter * (-(-len(self.legend) // across) + len(text)) if place == "below" else 0.0

    def lay(self) -> None:
        """The legend, and what has been fitted, for a figure of this size."""
        width, height = (side / self.figure.dpi for side in (self.figure.bbox.width, self.figure.bbox.height))
        lines, own = -(-len(self.axes) // self.columns), self.paper.axes is None
        sides = {}
        for place in LEGENDS[:2]:
            _, aside, below = self._legend(place, width)
            sides[place] = min((width - aside) / self.columns - LABELS, (height - below) / lines - LABELS)
        place = "below" if sides["right"] < 1.5 * sides["below"] else "right"
        place = self.paper.legend or (place if own else "inside")
        if place == "inside":
            self.axes[0].legend(self.handles, self.legend, prop=self.font, **LEGEND | {"frameon": True})
        elif place != "none":
            for old in [*self.figure.legends] if own else ():
                old.remove()
            look, aside, _ = self._legend(place, width)
            drawn = self.figure.legend(self.handles, self.legend, prop=self.font, **LEGEND, **look)
            drawn.get_title().set_multialignment("center")
            self.figure.aside = aside
        for draw in self.fitted:
            draw()

    def fit(self, draw: Any, *what: Any) -> None:
        """Draw what depends on the size of panels, now and whenever that changes."""
        self.fitted.append(partial(draw, *what))
        draw(*what)

    def name(self, axis: Any, text: str, families: Any = None) -> None:
        """The title of a panel, where there are titles."""
        if self.paper.title:
            axis.set_title(text, fontsize=setting("axes.titlesize", "medium"), fontfamily=families)
            self.fit(fit_text, axis.title, text, axis, 0)

    def name_axes(self, x: Sequence[str], y: Sequence[str]) -> None:
        """Under the panels, if not under the next one, too; beside them, if not beside the one before; taking turns."""
        for i, axis in enumerate(self.axes):
            name, below = y[i % len(y)], i + self.columns
            if i % self.columns == 0 or name != y[(i - 1) % len(y)]:
                self.fit(fit_text, axis.yaxis.label, name, axis, 1)
            if below >= len(self.axes) or x[i % len(x)] != x[below % len(x)]:
                axis.set_xlabel(x[i % len(x)])

    def name_values(self, axis: Any, labels: Sequence[str] | None, k: int) -> str:
        """Labels under the values, or under every so manyth; what the axis must say about them."""
        width = inches(axis)[0]
        step = next(s * 10**e for e in range(6) for s in (1, 2, 5) if s * 10**e * width >= LABEL * k)
        shown = range(0, k, step)
        texts, families = lettered([str(v) if labels is None else labels[v] for v in shown], LABEL_LETTERS)
        turned: dict[str, Any] = {}
        if max(map(len, texts)) * len(texts) * LABEL_LETTER > width:
            turned = {"rotation": 90} if len(texts) * 2 * LABEL > width else {"rotation": 45, "ha": "right"}
        axis.set_xticks(list(shown), texts, fontsize=7, fontfamily=families, **turned)
        if labels is None:
            return f" (number of the value, 0 … {k - 1})"
        return "" if step == 1 else f" ({k} values, every {step}{'nd' if step == 2 else 'th'} named)"


def inches(axis: Any) -> tuple[float, float]:
    """Width and height of a panel, about."""
    box, page = axis.get_position(original=True), axis.figure.bbox
    width = page.width / axis.figure.dpi - getattr(axis.figure, "aside", 0.0)
    return box.width * width, box.height * page.height / axis.figure.dpi


def fit_text(artist: Any, text: str, axis: Any, side: int) -> None:
    """In lines no longer than a side of a panel; none begins or ends with an equals sign."""
    letters = max(12, int(inches(axis)[side] / LETTER / artist.get_fontsize()))
    lines = textwrap.wrap(text.replace(" = ", "\xa0=\xa0"), letters, break_on_hyphens=False)
    artist.set_text("\n".join(lines).replace("\xa0", " "))


def epsilon_ticks(axis: Any, epsilons: Sequence[float]) -> None:
    """`ln 2` rather than 0.693; of a single one, no numbers beside it."""
    if len(epsilons) == 1 or (len(epsilons) <= 8 and all(show_epsilon(e).startswith("ln") for e in epsilons)):
        _ticks(axis, epsilons, show_epsilon, float)


def size_ticks(axis: Any, sizes: Sequence[int]) -> None:
    """A tick for each size on a logarithmic axis; round ones of four digits or more as 2·10⁴."""
    _ticks(axis, sizes, lambda size: str(size) if size < 1000 or size % 100 else _number(size), math.log)


def _ticks(axis: Any, places: Sequence[Any], name: Callable[[Any], str], scale: Callable[[Any], float]) -> None:
    """Names that would collide are left out; the first and the last are not."""
    names, ordered, last = list[str](), sorted(places), -math.inf
    first, end = scale(ordered[0]), scale(ordered[-1])
    room = (end - first) * NARROWEST / inches(axis)[0]
    for at in map(scale, ordered):
        fits = at - last >= room and (at == end or end - at >= room)
        last = at if fits else last
        names.append(name(ordered[len(names)]) if fits else "")
    axis.set_xticks(ordered, names)
    axis.set_xticks([], minor=True)


def log_ticks(axis: Any, values: Any) -> bool:
    """A logarithmic axis around the positive values, its ticks plain text; False if there is no such value."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    positive = np.asarray([v for v in values if v > 0 and math.isfinite(v)])
    if not positive.size:
        return False
    low, high = math.log10(positive.min()), math.log10(positive.max())
    margin = max(0.05 * (high - low), 0.03)
    low, high = max(low - margin, -300.0), min(high + margin, 300.0)
    axis.set(yscale="log", ylim=(10.0**low, 10.0**high))
    named = (1, 2, 5) if math.floor(high) <= math.ceil(low) else (1,)  # one power of ten is not enough
    axis.yaxis.set_major_locator(MaxNLocator(4) if high - low < 0.5 else LogLocator(subs=named))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
    axis.yaxis.set_minor_formatter(NullFormatter())
    return True


def _number(value: float) -> str:
    """A formula, since many fonts have no raised digits, such as 2·10⁻⁴; but 1, 10 and 100 as they are."""
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    if int(exponent) in PLAIN_POWERS:
        return f"{value:.3g}"
    times = "" if float(mantissa) == 1 else rf"{float(mantissa):g}\cdot"
    return rf"$\mathdefault{{{times}10^{{{int(exponent)}}}}}$"


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
