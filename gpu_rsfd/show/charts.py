"""How protocols are drawn, in figures and on the page, and the page's charts as Vega-Lite: resources/charts.json.

On the page colours are custom properties of CSS, so that one chart serves light, dark and paper.
"""

from __future__ import annotations

import importlib
import itertools
import json
import re
import tempfile
import zlib
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from gpu_rsfd.cache import CacheError, cache_folder, kept
from gpu_rsfd.errors import InputError
from gpu_rsfd.planning import Look
from gpu_rsfd.protocols import PROTOCOLS
from gpu_rsfd.show.panels import setting

VEGA = "vl_convert", "page", "a page"  # what bundles Vega-Lite


class Style(NamedTuple):
    """How a protocol is drawn."""

    colour: str
    marker: str  # of Matplotlib
    dash: tuple[float, ...]  # on, off, … in widths of the line

    @property
    def curve(self) -> dict[str, Any]:
        """For Matplotlib; sizes are its settings, or follow from that of text."""
        return {
            **{"color": self.colour, "marker": self.marker, "linestyle": (0, self.dash or None)},
            **{"linewidth": setting("lines.linewidth", 0.13), "markersize": setting("lines.markersize", 0.5)},
        }


@lru_cache(maxsize=16)
def palette(looks: tuple[Look, ...]) -> list[Style]:
    """A style for each; an own protocol's colour and marker, where it has them, come first.

    Up to 16 all differ, also in grey, and a protocol keeps its place where that is free: the paper's six always.  Of
    more, colours are used again, with other markers and dashes.
    """
    slots, room = dict[Look, int](), max(len(template("palette")["colours"]), len(looks))
    for look in sorted(looks, key=_place):
        places = (place % room for place in itertools.count(_place(look)))
        slots[look] = next(place for place in places if place not in slots.values())
    return [_own(look, style_of(slots[look])) for look in looks]


def _place(look: Look) -> int:
    return PROTOCOLS.index(look.name) if look.name in PROTOCOLS else zlib.crc32(look.name.encode()) | 1 << 16


def _own(look: Look, style: Style) -> Style:
    own = look.name not in PROTOCOLS  # and its file may hold anything
    return style._replace(
        colour=look.colour if own and re.fullmatch("#[0-9a-fA-F]{6}", look.colour) else style.colour,
        marker=look.marker if own and look.marker in template("shapes") else style.marker,
    )


def style_of(slot: int) -> Style:
    """The first 80 differ."""
    colours, markers, dashes = template("palette").values()
    dash = dashes[(slot + slot // 20) % len(dashes)]
    return Style(colours[slot % len(colours)], markers[slot % len(markers)], tuple(dash))


@lru_cache
def template(name: str) -> Any:
    """A chart without what depends on the results, the shapes of markers, or what styles are made of.

    A pair of 10 markers and 4 dashes, which take turns, is another one for 40 protocols.  Colours stand out from white
    and, made lighter (page.css), from black; any two differ in both, and without red and green.
    """
    text = resources.files("gpu_rsfd.show").joinpath("resources/charts.json").read_text("utf-8")
    return json.loads(text)[name]


def library(name: str, extra: str, user: str = "this") -> Any:
    """A module of an extra, imported late; `user` is who needs it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing = f"{user} needs {name.replace('_', '-')}, which is missing"
        raise InputError(f'{missing}: pip install "gpu-rsfd[{extra}]", or scripts/install {extra}') from None


def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that needs no server; made once, since it takes a second."""
    vega = library(*VEGA)

    def make(folder: Path) -> Path:
        script = folder / "bundle.js"
        text = str(vega.javascript_bundle())
        script.write_text(text.replace("</script", "<\\/script"), encoding="utf-8", newline="")
        return script

    try:
        return kept(cache_folder(), f"vega-{vega.__version__}", make).content.decode()
    except CacheError:
        with tempfile.TemporaryDirectory() as folder:
            return make(Path(folder)).read_text(encoding="utf-8")
