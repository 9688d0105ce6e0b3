"""docs/tables.py as a module: the tables of the documentation that follow from declarations."""

import importlib.util
from pathlib import Path

_PATH = Path(__file__).parents[1] / "docs" / "tables.py"
_SPEC = importlib.util.spec_from_file_location("tables", _PATH)
tables = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(tables)
which_protocol = tables.which_protocol
