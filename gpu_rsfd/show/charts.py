"""The charts of the page as Vega-Lite, through Altair; their data come from the page, by name.

Colours are custom properties of CSS, so that one chart serves light, dark and paper.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_rsfd.cache import CacheError, cache_folder, kept
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.planning import Look

SHAPES = {  # Matplotlib's markers: names of Vega, or paths within -1 … 1
    **{"o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down"},
    **{"<": "triangle-left", ">": "triangle-right", "P": "cross"},
    "d": "M0,-1.1L.5,0L0,1.1L-.5,0Z",
    "X": "M-.7,-1L0,-.3L.7,-1L1,-.7L.3,0L1,.7L.7,1L0,.3L-.7,1L-1,.7L-.3,0L-1,-.7Z",
    "x": "M-.85,-1L0,-.15L.85,-1L1,-.85L.15,0L1,.85L.85,1L0,.15L-.85,1L-1,.85L-.15,0L-1,-.85Z",
    "+": "M-1.1,-.12H-.12V-1.1H.12V-.12H1.1V.12H.12V1.1H-.12V.12H-1.1Z",
    "*": "M0,-1L.25,-.3L1,-.3L.4,.15L.6,.85L0,.4L-.6,.85L-.4,.15L-1,-.3L-.25,-.3Z",
    "p": "M0,-1L.95,-.31L.59,.81L-.59,.81L-.95,-.31Z",
    "h": "M0,-1L.87,-.5L.87,.5L0,1L-.87,.5L-.87,-.5Z",
    "H": "M-1,0L-.5,-.87L.5,-.87L1,0L.5,.87L-.5,.87Z",
    "8": "M-.38,-.92H.38L.92,-.38V.38L.38,.92H-.38L-.92,.38V-.38Z",
    "1": "M-.12,-.1L-.9,-.6L-.78,-.8L0,-.3L.78,-.8L.9,-.6L.12,-.1V1H-.12Z",
    "2": "M-.12,.1L-.9,.6L-.78,.8L0,.3L.78,.8L.9,.6L.12,.1V-1H-.12Z",
    "3": "M.1,-.12L.6,-.9L.8,-.78L.3,0L.8,.78L.6,.9L.1,.12H-1V-.12Z",
    "4": "M-.1,-.12L-.6,-.9L-.8,-.78L-.3,0L-.8,.78L-.6,.9L-.1,.12H1V-.12Z",
    "|": "M-.15,-1.1H.15V1.1H-.15Z",
    "_": "M-1.1,-.15H1.1V.15H-1.1Z",
}
ERROR = "error"  # the page puts the metric's label in its place
OTHER_SHAPE = "M-1,-.4H1V.4H-1Z"
AXIS = {"labelColor": "currentColor", "titleColor": "currentColor", "domainColor": "var(--line)"}
CONFIG = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        **AXIS,
        "labelFontSize": 12,
        "titleFontSize": 13,
        "tickColor": "var(--line)",
        "gridColor": "var(--grid)",
        "titleFontWeight": "normal",
    },
}


def altair() -> Any:
    """Altair and what bundles Vega-Lite with it, imported late: only the page needs them."""
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise InputError(
            f'a page needs Altair ({error.name} is missing): pip install "gpu-rsfd[page]", or scripts/install page'
        ) from None
    return altair


def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that needs no server; made once, since it takes a second."""
    import vl_convert

    library: Any = vl_convert  # its stubs ask for a snippet that it does not need
    version = ".".join(altair().SCHEMA_VERSION.removeprefix("v").split(".")[:2])

    def make(folder: Path) -> Path:
        script = folder / "bundle.js"
        known = library.get_vegalite_versions()
        text = str(library.javascript_bundle(vl_version=version if version in known else None))
        script.write_text(text.replace("</script", "<\\/script"), encoding="utf-8", newline="")
        return script

    try:
        return kept(cache_folder(), f"vega-{library.__version__}-{version}", make).read_text(encoding="utf-8")
    except CacheError:
        with tempfile.TemporaryDirectory() as folder:
            return make(Path(folder)).read_text(encoding="utf-8")


def shape(look: Look) -> str:
    """A name of Vega, or a path within -1 … 1."""
    return SHAPES.get(look.marker, OTHER_SHAPE)


def colour(protocol: int) -> str:
    """By place: a name of somebody's own protocol may be no name of CSS."""
    return f"var(--protocol-{protocol})"


def error_chart(x: str, y: str, looks: Sequence[Look], epsilons: Sequence[float]) -> Any:
    """Errors against `x` (epsilon, or the title of a size) on a `y` scale: log or linear."""
    alt = altair()
    if x == "epsilon":
        axis = alt.Axis(title="ε", values=list(epsilons), labelExpr=_names(epsilons), labelOverlap=True)
        horizontal = alt.X("x:Q", axis=axis, scale=alt.Scale(zero=False, nice=False, padding=15))
    else:
        axis = alt.Axis(title=x, format="~s", tickCount=5)
        horizontal = alt.X("x:Q", axis=axis, scale=alt.Scale(type="log", nice=False, padding=15))
    single = x == "epsilon" and len(epsilons) == 1  # a band of no width would not be seen
    return _specified(_curves(horizontal, looks, y, bars=single), "error of each protocol", {"height": 360})


def loss_chart(x: str, y: str, looks: Sequence[Look]) -> Any:
    """Errors against what a report gives away: `x` is its title."""
    alt = altair()
    horizontal = alt.X("x:Q", title=x, scale=alt.Scale(zero=False, padding=15))
    return _specified(_curves(horizontal, looks, y, bars=True), f"error against the {x}", {"height": 320})


def _curves(x: Any, looks: Sequence[Look], kind: str, bars: bool = False) -> Any:
    """`bars` instead of bands: where x may go back along a curve through the epsilons, or there is one x alone."""
    alt = altair()
    scale = alt.Scale(type="log", nice=False, padding=8) if kind == "log" else alt.Scale(zero=True)
    axis = alt.Axis(format="~e", title=ERROR, tickCount=6)  # as many digits as a tick needs

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", scale=scale, axis=axis)

    labels = [look.label for look in looks]
    tint = alt.Color(
        "protocol:N", scale=alt.Scale(domain=labels, range=[colour(p) for p in range(len(looks))]), legend=None
    )  # the page has a legend of its own, which a keyboard reaches
    form = alt.Shape("protocol:N", scale=alt.Scale(domain=labels, range=list(map(shape, looks))), legend=None)
    shown = [
        *(alt.Tooltip(f"{field}:N", title=title) for field, title in (("protocol", "protocol"), ("at", "at"))),
        *(alt.Tooltip(f"{field}:N", title=title) for field, title in (("value", ERROR), ("closed", "theory"))),
        alt.Tooltip("paper:N", title="the paper"),
    ]
    base = alt.Chart(alt.NamedData("curves")).encode(x=x, color=tint)
    band = base.mark_rule(strokeWidth=2, opacity=0.6) if bars else base.mark_area(opacity=0.22, clip=True)
    band = band.encode(y=y("low"), y2="high:Q")
    line = base.mark_line(strokeWidth=1.6).encode(y=y("mean"), order="order:Q")
    theory = base.mark_line(strokeWidth=0.8, strokeDash=[3, 2]).encode(y=y("theory")).properties(name="theory")
    point = base.mark_point(size=55, filled=True, opacity=1).encode(y=y("mean"), shape=form, tooltip=shown)
    known = base.mark_point(size=170, shape="circle", filled=False, strokeWidth=1.1, opacity=1)
    circles = known.encode(y=y("published"), tooltip=shown).properties(name="published")
    return alt.layer(band, line, theory, circles, point)  # the page leaves out named layers that have nothing to draw


def frequency_chart() -> Any:
    """Truth as bars, estimates as points with 95 % prediction intervals; a line for each value."""
    alt = altair()
    value = alt.Y("value:N", sort=None, title=None, axis=alt.Axis(labelLimit=150, labelOverlap=True, ticks=False))
    base = alt.Chart(alt.NamedData("values")).encode(y=value)
    fields = {"value": "value", "truth": "truth_text", "estimate": "estimate_text", "interval": "interval"}
    shown = [alt.Tooltip(f"{field}:N", title=title) for title, field in fields.items()]
    # the page sets the scale: from 0, or the smallest estimate, on; what intervals have below is cut
    bar = base.mark_bar(color="var(--bar)").encode(x=alt.X("truth:Q", title="frequency"), tooltip=shown)
    span = base.mark_rule(strokeWidth=2, color="var(--chosen)", clip=True).encode(x="low:Q", x2="high:Q", tooltip=shown)
    point = base.mark_point(size=50, filled=True, opacity=1, color="var(--chosen)")
    chart = alt.layer(bar, span, point.encode(x="estimate:Q", tooltip=shown))
    return _specified(chart, "True and estimated frequencies of an attribute's values", {"height": 180})


def _names(epsilons: Sequence[float]) -> str:
    """An expression of Vega: `ln 2` for 0.6931."""
    names = [show_epsilon(e) for e in epsilons]
    return f"{json.dumps(names)}[indexof({json.dumps(list(epsilons))}, datum.value)] || datum.label"


def _specified(chart: Any, description: str, size: Mapping[str, Any]) -> dict[str, Any]:
    described = chart.properties(width="container", description=description, config=CONFIG, **size)
    spec: dict[str, Any] = described.to_dict()
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return spec
