"""`gpu-rsfd protocols`"""

from __future__ import annotations

from typing import Annotated, Any

from gpu_rsfd.cli.commands import DECIDE
from gpu_rsfd.cli.inputs import own_protocols
from gpu_rsfd.cli.options import PROTOCOL_FROM, given, option, with_options
from gpu_rsfd.cli.program import app


@app.command(
    rich_help_panel=DECIDE,
    epilog="Examples:  gpu-rsfd protocols  ·  gpu-rsfd protocols --protocol-from mine.py --check",
)
@with_options("protocols", PROTOCOL_FROM)
def protocols(
    check: Annotated[bool, option("--check", "Test each: reports, estimates and loss, on every backend.")] = False,
    **options: Any,
) -> None:
    """List the protocols, or those defined in a Python file, and test them."""
    from gpu_rsfd.protocols import REGISTRY

    found = own_protocols(given(options, [PROTOCOL_FROM])) or REGISTRY
    for name, protocol in found.items():
        print(f"{name:<11} {protocol.label:<13}  {protocol.summary}")
        if check:
            from gpu_rsfd.contract import check as test

            test(protocol, echo=lambda line: print(f"  {line}", flush=True))
