"""The charts of the page as Vega-Lite, through Altair; their data come from the page, by name.

Colours are custom properties of CSS, so that one chart serves light, dark and paper.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import REGISTRY, label
from gpu_rsfd.show.summary import show_epsilon

SHAPES = {  # Matplotlib's markers
    **{"o": "circle", "s": "square", "D": "diamond", "d": "diamond", "^": "triangle-up", "v": "triangle-down"},
    **{"<": "triangle-left", ">": "triangle-right", "P": "cross", "+": "cross"},
    "X": "M-.7,-.7L.7,.7M-.7,.7L.7,-.7M-.5,-.7L.7,.5L.5,.7L-.7,-.5Z",
    "*": "M0,-1L.25,-.3L1,-.3L.4,.15L.6,.85L0,.4L-.6,.85L-.4,.15L-1,-.3L-.25,-.3Z",
}
OTHER_SHAPE = "M-1,-.5L0,-1L1,-.5L1,.5L0,1L-1,.5Z"
AXIS = {"labelColor": "currentColor", "titleColor": "currentColor", "domainColor": "var(--line)"}
CONFIG = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {**AXIS, "tickColor": "var(--line)", "gridColor": "var(--grid)", "titleFontWeight": "normal"},
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
    """Vega, Vega-Lite and Vega-Embed as one script that needs no server."""
    import vl_convert

    version = ".".join(altair().SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    library: Any = vl_convert  # its stubs ask for a snippet that it does not need
    known = library.get_vegalite_versions()
    text = library.javascript_bundle(vl_version=version if version in known else None)
    return str(text).replace("</script", "<\\/script")


def shape(protocol: str) -> str:
    """A name of Vega, or a path within -1 … 1."""
    return SHAPES.get(REGISTRY[protocol].marker, OTHER_SHAPE)


def colour(protocol: str) -> str:
    return f"var(--{protocol})"


def error_chart(x: str, y: str, protocols: Sequence[str], epsilons: Sequence[float]) -> Any:
    """MSE_avg against `x` (epsilon, users) on a `y` scale (log, linear): bands, curves, theory, published points."""
    alt = altair()
    if x == "epsilon":
        axis = alt.Axis(title="ε", values=list(epsilons), labelExpr=_names(epsilons), labelOverlap=True)
        horizontal = alt.X("x:Q", axis=axis, scale=alt.Scale(zero=False, nice=False, padding=15))
    else:
        axis = alt.Axis(title="users n", format="~s", tickCount=5)
        horizontal = alt.X("x:Q", axis=axis, scale=alt.Scale(type="log", nice=False, padding=15))
    return _specified(_curves(horizontal, protocols, y), "MSE_avg of each protocol", {"height": 360})


def loss_chart(x: str, y: str, protocols: Sequence[str]) -> Any:
    """MSE_avg against what a report gives away: `x` is its title."""
    alt = altair()
    horizontal = alt.X("x:Q", title=x, scale=alt.Scale(zero=False, padding=15))
    return _specified(_curves(horizontal, protocols, y, back=True), f"MSE_avg against the {x}", {"height": 320})


def _curves(x: Any, protocols: Sequence[str], kind: str, back: bool = False) -> Any:
    """`back`: x may go back along a curve, which runs through the epsilons; bars instead of bands, then."""
    alt = altair()
    scale = alt.Scale(type="log", nice=False, padding=8) if kind == "log" else alt.Scale(zero=True)
    axis = alt.Axis(format=".0e" if kind == "log" else ".1e", title="MSE_avg", tickCount=6)

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", scale=scale, axis=axis)

    labels = [label(protocol) for protocol in protocols]
    tint = alt.Color(
        "protocol:N", scale=alt.Scale(domain=labels, range=[colour(p) for p in protocols]), legend=None
    )  # the page has a legend of its own, which a keyboard reaches
    form = alt.Shape("protocol:N", scale=alt.Scale(domain=labels, range=list(map(shape, protocols))), legend=None)
    shown = [
        *(alt.Tooltip(f"{field}:N", title=title) for field, title in (("protocol", "protocol"), ("at", "at"))),
        *(alt.Tooltip(f"{field}:N", title=title) for field, title in (("value", "MSE_avg"), ("closed", "theory"))),
        alt.Tooltip("paper:N", title="the paper"),
    ]
    base = alt.Chart(alt.NamedData("curves")).encode(x=x, color=tint)
    band = base.mark_rule() if back else base.mark_area(opacity=0.22, clip=True)
    band = band.encode(y=y("low"), y2="high:Q")
    line = base.mark_line(strokeWidth=1.6).encode(y=y("mean"), order="order:Q")
    theory = base.mark_line(strokeWidth=0.8, strokeDash=[3, 2]).encode(y=y("theory")).properties(name="theory")
    point = base.mark_point(size=55, filled=True, opacity=1).encode(y=y("mean"), shape=form, tooltip=shown)
    known = base.mark_point(size=170, shape="circle", filled=False, strokeWidth=1.1, opacity=1)
    circles = known.encode(y=y("published"), tooltip=shown).properties(name="published")
    return alt.layer(band, line, theory, circles, point)  # the page leaves out named layers that have nothing to draw


def frequency_chart() -> Any:
    """Truth as bars, estimates as points with the middle 95 % of the repetitions; a line for each value."""
    alt = altair()
    value = alt.Y("value:N", sort=None, title=None, axis=alt.Axis(labelLimit=150, labelOverlap=True, ticks=False))
    base = alt.Chart(alt.NamedData("values")).encode(y=value)
    fields = {"value": "value", "truth": "truth_text", "estimate": "estimate_text", "interval": "interval"}
    shown = [alt.Tooltip(f"{field}:N", title=title) for title, field in fields.items()]
    bar = base.mark_bar(color="var(--bar)").encode(x=alt.X("truth:Q", title="frequency"), tooltip=shown)
    span = base.mark_rule(strokeWidth=2, color="var(--chosen)").encode(x="low:Q", x2="high:Q", tooltip=shown)
    point = base.mark_point(size=50, filled=True, opacity=1, color="var(--chosen)")
    chart = alt.layer(bar, span, point.encode(x="estimate:Q", tooltip=shown))
    return _specified(chart, "True and estimated frequencies of an attribute's values", {"height": 180})


def _names(epsilons: Sequence[float]) -> str:
    """An expression of Vega: `ln 2` for 0.6931."""
    names = {f"{e:.4f}": show_epsilon(e) for e in epsilons}
    return f"{json.dumps(names)}[format(datum.value, '.4f')] || datum.label"


def _specified(chart: Any, description: str, size: Mapping[str, Any]) -> dict[str, Any]:
    described = chart.properties(width="container", description=description, config=CONFIG, **size)
    spec: dict[str, Any] = described.to_dict()
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return spec
