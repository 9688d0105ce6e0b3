"""The charts of the page as Vega-Lite: resources/charts.json, with axes and scales; the page has their data, by name.

Colours are custom properties of CSS, so that one chart serves light, dark and paper.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from gpu_rsfd.cache import CacheError, cache_folder, kept
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.planning import Look

ERROR = "error"  # the page puts the metric's label in its place
OTHER_SHAPE = "M-1,-.4H1V.4H-1Z"


def vega() -> Any:
    """What bundles Vega-Lite, imported late: only the page needs it."""
    try:
        import vl_convert
    except ImportError:
        raise InputError(
            'a page needs vl-convert, which is missing: pip install "gpu-rsfd[page]", or scripts/install page'
        ) from None
    return vl_convert


def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that needs no server; made once, since it takes a second."""
    library = vega()

    def make(folder: Path) -> Path:
        script = folder / "bundle.js"
        text = str(library.javascript_bundle())
        script.write_text(text.replace("</script", "<\\/script"), encoding="utf-8", newline="")
        return script

    try:
        return kept(cache_folder(), f"vega-{library.__version__}", make).content.decode()
    except CacheError:
        with tempfile.TemporaryDirectory() as folder:
            return make(Path(folder)).read_text(encoding="utf-8")


def shape(look: Look) -> str:
    """Of a Matplotlib marker: a name of Vega, or a path within -1 … 1."""
    return str(template("shapes").get(look.marker, OTHER_SHAPE))


def error_chart(x: str, y: str, looks: Sequence[Look], epsilons: Sequence[float]) -> dict[str, Any]:
    """Errors against `x` (epsilon, or the title of a size) on a `y` scale: log or linear."""
    at: dict[str, Any]
    if x == "epsilon":
        names = [show_epsilon(e) for e in epsilons]  # an expression of Vega: `ln 2` for 0.6931
        label = f"{json.dumps(names)}[indexof({json.dumps(list(epsilons))}, datum.value)] || datum.label"
        at = {"axis": {"title": "ε", "values": list(epsilons), "labelExpr": label, "labelOverlap": True}}
        at["scale"] = {"zero": False, "nice": False, "padding": 15}
    else:
        at = {"axis": {"title": x, "format": "~s", "tickCount": 5}}
        at["scale"] = {"type": "log", "nice": False, "padding": 15}
    single = x == "epsilon" and len(epsilons) == 1  # a band of no width would not be seen
    return _curves("error of each protocol", 360, at, y, looks, bars=single)


def loss_chart(x: str, y: str, looks: Sequence[Look]) -> dict[str, Any]:
    """Errors against what a report gives away: `x` is its title."""
    at = {"title": x, "scale": {"zero": False, "padding": 15}}
    return _curves(f"error against the {x}", 320, at, y, looks, bars=True)


def _curves(
    description: str, height: int, x: dict[str, Any], y: str, looks: Sequence[Look], bars: bool
) -> dict[str, Any]:
    """`bars` instead of bands: where x may go back along a curve through the epsilons, or there is one x alone."""
    scale = {"type": "log", "nice": False, "padding": 8} if y == "log" else {"zero": True}
    labels = [look.label for look in looks]
    # by place: a name of somebody's own protocol may be no name of CSS; the page has a legend that a keyboard reaches
    tint = {"domain": labels, "range": [f"var(--protocol-{p})" for p in range(len(looks))]}
    spec = template("curves")
    for layer in spec["layer"]:
        encoding = layer["encoding"]
        encoding["x"] = {"field": "x", "type": "quantitative", **x}
        encoding["y"] |= {"scale": scale, "axis": {"format": "~e", "title": ERROR, "tickCount": 6}}
        encoding["color"] = {"field": "protocol", "type": "nominal", "legend": None, "scale": tint}
        if "shape" in encoding:
            encoding["shape"]["scale"] = {"domain": labels, "range": list(map(shape, looks))}
    if bars:
        spec["layer"][0]["mark"] = {"type": "rule", "strokeWidth": 2, "opacity": 0.6}
    return {**spec, "description": description, "height": height}


def template(name: str) -> dict[str, Any]:
    """A chart without what depends on the results.  The page leaves out named layers that have nothing to draw."""
    text = resources.files("gpu_rsfd.show").joinpath("resources/charts.json").read_text("utf-8")
    chart: dict[str, Any] = json.loads(text)[name]
    return chart
