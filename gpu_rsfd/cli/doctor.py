"""`gpu-rsfd doctor`"""

from __future__ import annotations

from typing import Annotated

import typer

from gpu_rsfd.cli.options import option
from gpu_rsfd.cli.program import app


@app.command(epilog="Examples:  gpu-rsfd doctor  ·  gpu-rsfd doctor --self-test")
def doctor(
    self_test: Annotated[
        bool, option("--self-test", "Compare each backend with the reference, integer by integer; tell its speed.")
    ] = False,
) -> None:
    """Versions, CUDA devices, which backend `auto` takes and why; ends non-zero if a self-test fails."""
    from gpu_rsfd import doctor as checks

    for line in checks.report():
        print(line)
    if self_test and not checks.self_test(lambda line: print(line, flush=True)):
        raise typer.Exit(1)
