"""What a notebook asks of results.  How they are shown is known to rooms further on; the package hands that in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

VIEWS: dict[str, Callable[..., Any]] = {}  # filled in by the package: text, html, to_dataframe, to_xarray, plot


class Viewed:
    """Results that show themselves."""

    def __repr__(self) -> str:
        return str(VIEWS["text"](self))

    def _repr_html_(self) -> str:
        """The table of errors, as a notebook shows it."""
        return str(VIEWS["html"](self))

    def to_dataframe(self, per: str = "cell", postprocess: str | None = None) -> Any:
        """A pandas DataFrame: a row per `cell` (data set, protocol and epsilon), `repetition`, `attribute` or `value`.

        `postprocess`: one of them; all by default.  Needs the extra `notebook`.
        """
        return VIEWS["to_dataframe"](self, per, postprocess)

    def to_xarray(self) -> Any:
        """An xarray Dataset with the variables of a results file; of several data sets, one for each, by name.

        Needs the extra `notebook`.
        """
        return VIEWS["to_xarray"](self)

    def plot(self, postprocess: str = "clip-normalize", x: str = "auto", attribute: str | None = None) -> Any:
        """The figure of `gpu-rsfd plot`, a Matplotlib figure: errors; or the frequencies of an attribute's values."""
        return VIEWS["plot"](self, postprocess, x, attribute)
