"""`gpu-rsfd doctor`"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from gpu_rsfd.cli.commands import MAINTAIN
from gpu_rsfd.cli.options import option
from gpu_rsfd.cli.program import app
from gpu_rsfd.errors import InputError


@app.command(
    rich_help_panel=MAINTAIN,
    epilog="Examples:  gpu-rsfd doctor  ·  gpu-rsfd doctor --self-test --speed",
)
def doctor(
    self_test: Annotated[
        bool, option("--self-test", "Compare each backend and device with the reference, integer by integer.")
    ] = False,
    speed: Annotated[
        bool, option("--speed", "With --self-test: positions per second; for CUDA devices also of each kernel.")
    ] = False,
    as_json: Annotated[bool, option("--json", "Print one JSON object; progress goes to standard error.")] = False,
) -> None:
    """Report versions, CUDA devices and the backend that `auto` chooses; the exit code is 1 if a self-test fails."""
    from gpu_rsfd import doctor as checks

    if speed and not self_test:
        raise InputError("--speed needs --self-test")

    def echo(line: str) -> None:
        print(line, file=sys.stderr if as_json else sys.stdout, flush=True)

    sections = checks.report()
    for line in checks.lines_of(sections):
        echo(line)
    checked = checks.self_test(echo, speed=speed) if self_test else []
    if as_json:
        print(json.dumps({**sections, "self_test": [asdict(c) for c in checked]}, indent=2))
    if not all(c.good for c in checked):
        raise typer.Exit(1)
