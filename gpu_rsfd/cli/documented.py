"""The page of the docs that lists every option: `python -m gpu_rsfd.cli.documented > docs/options.md`."""

from __future__ import annotations

from dataclasses import replace

from gpu_rsfd.cli.options import PROTOCOL_FROM, RUN, SELECTION, SPEC_FILE
from gpu_rsfd.datasets.options import BY_NAME
from gpu_rsfd.measure import MEASUREMENTS
from gpu_rsfd.measure.base import options_of
from gpu_rsfd.options import Option, markdown
from gpu_rsfd.spec import FIELDS

INTRODUCTION = """# Options

Options have the same names and defaults in `sweep`, `attack`, `run`, `paper` and `plan`; the last two columns list the
exceptions. A spec file (`--spec sweep.toml`) takes the options for data and simulation, without the leading hyphens. In
Python, simulation options are keywords of `simulate`, `sweep`, `attack` and `plan`, and table options are keywords of
`load_table`. This page is generated from the declarations in `spec.py`, `datasets/options.py` and `cli/options.py` by
`python -m gpu_rsfd.cli.documented`.
"""


def documented() -> str:
    """The page."""
    sections = {
        "Data": [option for option in SELECTION if option.name not in BY_NAME],
        "Your own tables": [option for option in SELECTION if option.name in BY_NAME],
        "Simulation": [*FIELDS, PROTOCOL_FROM, *SPEC_FILE],
        **{f"What `{kind.command}` records": options_of(kind) for kind in MEASUREMENTS.values()},
        "Execution and output (`plan --help` has those of `plan`)": RUN,
    }
    return INTRODUCTION + "".join(
        f"\n## {title}\n\n{markdown(map(_of_every_measurement, options))}\n" for title, options in sections.items()
    )


def _of_every_measurement(option: Option) -> Option:
    """With the defaults of the measurements that have their own, and those that have no use for it."""
    kinds = MEASUREMENTS.values()
    own = {kind.command: kind.defaults[option.name] for kind in kinds if option.name in kind.defaults}
    unused = *option.unused, *(kind.command for kind in kinds if option.name in kind.unused)
    return replace(option, defaults={**option.defaults, **own}, unused=unused)


if __name__ == "__main__":
    print(documented(), end="")
