"""`gpu-rsfd doctor`"""

from __future__ import annotations

import sys
from dataclasses import asdict
from json import dumps

import typer

from gpu_rsfd.cli.options import switch, with_options
from gpu_rsfd.cli.program import command
from gpu_rsfd.errors import InputError

OWN = (
    switch("self_test", "Compare each backend and device with the reference, integer by integer."),
    switch("speed", "With --self-test: positions per second; for CUDA devices also of each kernel."),
    switch("json", "Print one JSON object; progress goes to standard error."),
)


@command("doctor", "gpu-rsfd doctor", "gpu-rsfd doctor --self-test --speed")
@with_options("doctor", *OWN)
def doctor(self_test: bool, speed: bool, json: bool) -> None:
    """Report versions, CUDA devices and the backend that `auto` chooses; the exit code is 1 if a self-test fails."""
    from gpu_rsfd import doctor as checks

    if speed and not self_test:
        raise InputError("--speed needs --self-test")

    def echo(line: str) -> None:
        print(line, file=sys.stderr if json else sys.stdout, flush=True)

    sections = checks.report()
    for line in checks.lines_of(sections):
        echo(line)
    checked = checks.self_test(echo, speed=speed) if self_test else []
    if json:
        print(dumps({**sections, "self_test": [asdict(c) for c in checked]}, indent=2))
    if not all(c.good for c in checked):
        raise typer.Exit(1)
