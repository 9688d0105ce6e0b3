"""`gpu-rsfd sweep`"""

from __future__ import annotations

from typing import Any

from gpu_rsfd.cli.commands import RUN
from gpu_rsfd.cli.options import running_of, with_options
from gpu_rsfd.cli.program import app
from gpu_rsfd.cli.running import carry_out


@app.command(
    rich_help_panel=RUN,
    epilog="Examples:  gpu-rsfd sweep  ·  gpu-rsfd sweep --dataset syn3 --dataset adult --repetitions 10  ·  "
    "gpu-rsfd sweep --users 1e4,1e5,1e6 --domain 10x5 --epsilon ln3 --output over_n.h5  ·  "
    "gpu-rsfd sweep --dataset people.csv --columns sex,age --bins age=10 --output people.h5  ·  "
    "gpu-rsfd sweep --protocol-from mine.py --protocol mine,smp-adp",
)
@with_options("sweep", *running_of("sweep"))
def sweep(**options: Any) -> None:
    """Simulate data sets x protocols x epsilons x repetitions into one HDF5 file, with a table and a figure."""
    carry_out("sweep", options)
