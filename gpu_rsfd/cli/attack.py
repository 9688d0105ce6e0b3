"""`gpu-rsfd attack`"""

from __future__ import annotations

from typing import Any

from gpu_rsfd.cli.commands import RUN
from gpu_rsfd.cli.options import running_of, with_options
from gpu_rsfd.cli.program import app
from gpu_rsfd.cli.running import carry_out


@app.command(
    rich_help_panel=RUN,
    epilog="Examples:  gpu-rsfd attack --dataset nursery --epsilon 1,2,4  ·  "
    "gpu-rsfd attack --dataset adult --protocol rsfd-grr,rsrfd-grr --prior noisy:0.5 --output adult-attack.h5  ·  "
    "gpu-rsfd attack --users 1e5 --domain 10x5 --guarantee attribute --knowledge estimated",
)
@with_options("attack", *running_of("attack"))
def attack(**options: Any) -> None:
    """Simulate an attacker who knows the marginals and guesses sampled attributes and values from the reports."""
    carry_out("attack", options)
