"""The user's own text on a figure: cut to length, in a font that has its characters, or else escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate

ELLIPSIS = "…"
# fonts that claim characters which they draw as something else, or can't draw at all
NO_TEXT_FONTS = ("cm", "Last Resort", "STIXNonUnicode", "STIXSize", "Noto Color Emoji", "Apple Color Emoji")


def lettered(texts: Iterable[str], most: int) -> tuple[list[str], list[str]]:
    """The texts as they can be drawn, none wider than `most` letters, and the font families that this takes."""
    from matplotlib import rcParams

    originals = list(texts)
    fonts, unknown = _fonts_for(frozenset("".join(originals)))
    return [_drawn(text, unknown, most) for text in originals], [*rcParams["font.family"], *fonts]


def _drawn(text: str, unknown: frozenset[str], most: int) -> str:
    pieces = [c.encode("unicode_escape").decode() if c in unknown else c for c in text]
    if _width("".join(pieces)) > most:  # the beginning and the end: similar labels differ in either
        last = _fitting(pieces[::-1], most // 3)[::-1]
        pieces = [*_fitting(pieces, most - 1 - _width("".join(last))), ELLIPSIS, *last]
    return "".join(pieces).replace("$", r"\$")  # a dollar sign, not the start of a formula


def _fitting(pieces: list[str], most: int) -> list[str]:
    """As many as are no wider than `most` together."""
    widths = accumulate(map(_width, pieces))
    return [piece for piece, width in zip(pieces, widths, strict=True) if width <= most]


def _width(piece: str) -> int:
    """In letters: East Asian characters are as wide as two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in piece)


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
