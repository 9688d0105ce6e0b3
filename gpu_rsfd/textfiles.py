"""Text files that people write by hand."""

from __future__ import annotations

import sys
from typing import Any


def toml_loads(text: str) -> dict[str, Any]:
    """A TOML document; a ValueError if it is none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
