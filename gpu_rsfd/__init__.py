"""gpu-rsfd: multidimensional frequency estimation under local differential privacy, simulated exactly and fast."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from typing import Any

from gpu_rsfd.late import MAKERS
from gpu_rsfd.version import __version__  # noqa: F401

# name -> the module that has it, imported when it is first used: importing the package imports nothing else
_HOMES = {
    alias.name: statement.module
    for statement in ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"").body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}
__all__ = sorted(name for name, home in _HOMES.items() if home != "gpu_rsfd")  # without `theory`, a module


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in __all__:
        return importlib.import_module(f"gpu_rsfd.{name}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(_HOMES)


# Who draws: rooms that know nothing of drawing ask here.
for _room in ("aggregated", "notebook", "planned"):
    MAKERS[_room] = lambda room=_room: importlib.import_module(f"gpu_rsfd.show.{room}")
