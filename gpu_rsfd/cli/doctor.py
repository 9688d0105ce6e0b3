"""`gpu-rsfd doctor`"""

from __future__ import annotations

from typing import Annotated

import typer

from gpu_rsfd.cli.options import option
from gpu_rsfd.cli.program import app
from gpu_rsfd.errors import InputError


@app.command(epilog="Examples:  gpu-rsfd doctor  ·  gpu-rsfd doctor --self-test  ·  … --self-test --stress")
def doctor(
    self_test: Annotated[
        bool, option("--self-test", "Compare each backend with the reference, integer by integer; tell its speed.")
    ] = False,
    stress: Annotated[
        bool, option("--stress", "With --self-test: three minutes more for each backend, of cases made at random.")
    ] = False,
) -> None:
    """Versions, CUDA devices, which backend `auto` takes and why; ends non-zero if a self-test fails."""
    from gpu_rsfd import doctor as checks

    if stress and not self_test:
        raise InputError("--stress goes with --self-test; give both")
    for line in checks.report():
        print(line)
    seconds = checks.STRESS_SECONDS if stress else 0.0
    if self_test and not checks.self_test(lambda line: print(line, flush=True), stress=seconds):
        raise typer.Exit(1)
