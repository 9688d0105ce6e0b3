"""Methods that draw or print, of classes in rooms that know nothing of drawing; the package's root says who does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MAKERS: dict[str, Callable[[], Any]] = {}


def provided(name: str) -> Any:
    """What the root has provided under this name: a module, imported when it is first asked for."""
    return MAKERS[name]()
