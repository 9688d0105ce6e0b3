"""The page of the docs that lists every option: `python -m gpu_rsfd.cli.documented > docs/options.md`."""

from __future__ import annotations

from gpu_rsfd.cli.options import PROTOCOL_FROM, RUN, SELECTION, SPEC_FILE
from gpu_rsfd.datasets.options import BY_NAME
from gpu_rsfd.options import markdown
from gpu_rsfd.spec import FIELDS, MEASURED

INTRODUCTION = """# Options

An option of `sweep`, `paper`, `attack` and `plan` has the same name and default in all of them; the exceptions are in
the last two columns. A spec file (`--spec sweep.toml`) takes the options of data and simulation, without the hyphens in
front. In Python they are keywords: those of a simulation of `simulate`, `sweep`, `attack` and `plan`, those of a table
of `load_table`. This page is made from the declarations in `spec.py`, `datasets/options.py` and `cli/options.py` by
`python -m gpu_rsfd.cli.documented`.
"""


def documented() -> str:
    """The page."""
    sections = {
        "Data": [option for option in SELECTION if option.name not in BY_NAME],
        "Tables of your own": [option for option in SELECTION if option.name in BY_NAME],
        "Simulation": [*FIELDS, *MEASURED.values(), PROTOCOL_FROM],
        "Where and how it runs (not `plan`)": [SPEC_FILE, *RUN],
    }
    return INTRODUCTION + "".join(f"\n## {title}\n\n{markdown(options)}\n" for title, options in sections.items())


if __name__ == "__main__":
    print(documented(), end="")
