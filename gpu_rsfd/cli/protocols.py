"""`gpu-rsfd protocols`"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_rsfd.checks import MAX_ATTRIBUTES, MAX_DOMAIN, MIN_DOMAIN, check_users
from gpu_rsfd.cli.inputs import own_or_known, own_protocols
from gpu_rsfd.cli.options import PROTOCOL_FROM, given, switch, with_options
from gpu_rsfd.cli.program import command
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import Option, exclusive, read_epsilons, read_sizes, split_list, whole
from gpu_rsfd.protocols import PAPER
from gpu_rsfd.spec import FIELDS, Spec

OWN = (
    Option("epsilon", "EPS", "Privacy budget.", "ln3", panel=None, kind=str, default="1", default_text="1"),
    Option("attributes", "D", "Attributes d.", panel=None, kind=str, default="5", default_text="5"),
    Option("values", "K", "Values k of each.", panel=None, kind=str, default="10", default_text="10"),
    Option("users", "N", "Users n, for the error.", panel=None, kind=str, default="10000", default_text="10,000"),
    switch("json", "JSON instead of a table."),
    switch("markdown", "A table in Markdown."),
    switch("check", "Test each: reports, estimates and loss, on every backend."),
)
CHOSEN = (replace(FIELDS[0], default_text="all"), *(f for f in FIELDS if f.name == "guarantee"), PROTOCOL_FROM)


@command(
    "protocols",
    "gpu-rsfd protocols",
    "gpu-rsfd protocols --epsilon ln3 --attributes 10 --values 100",
    "gpu-rsfd protocols --protocol 'smp-*' --markdown",
    "gpu-rsfd protocols --protocol-from mine.py --check",
)
@with_options("protocols", *OWN, *CHOSEN)
def protocols(json: bool, markdown: bool, check: bool, **options: Any) -> None:
    """List the protocols: what each sends, its budget, bits, expected error and exact loss; or test them.

    With --protocol-from, those of a Python file alone.
    """
    from gpu_rsfd.show import catalogue
    from gpu_rsfd.show.tables import screen

    exclusive(json=json, markdown=markdown, check=check)
    chosen = given(options, CHOSEN)
    own = own_protocols(chosen)
    names = split_list(chosen["protocol"], "protocol") if "protocol" in chosen else [*own] or ["all"]
    spec = Spec.of(protocols=own_or_known(names, own), guarantee=chosen.get("guarantee", "paper"))
    if check:
        from gpu_rsfd.contract import check as test

        for protocol in spec.protocols:
            print(f"{protocol.name:<11} {protocol.label:<13}  {protocol.summary}")
            test(protocol, echo=lambda line: print(f"  {line}", flush=True))
        return
    epsilons, ds = read_epsilons(options["epsilon"]), read_sizes("attributes", options["attributes"], 1, MAX_ATTRIBUTES)
    ks = read_sizes("values", options["values"], MIN_DOMAIN, MAX_DOMAIN)
    for name, numbers in (("epsilon", epsilons), ("attributes", ds), ("values", ks)):
        if len(numbers) != 1:
            raise InputError(f"{name} has {len(numbers)} numbers; one is needed here")
    at = catalogue.Setting(epsilons[0], ds[0], ks[0], check_users(whole("users", options["users"])), spec.guarantee)
    found = [catalogue.entry(protocol, at) for protocol in spec.protocols]
    if json:
        print(catalogue.as_json(found, at))
        return
    if markdown:
        print(f"At {at.words}:\n\n{catalogue.as_markdown(found)}")
    else:
        about = f"at {at.words}; errors of unbiased estimates of uniform frequencies, from theory"
        screen([about, catalogue.as_table(found)])
        six = "* the paper's six, the default of a sweep; " if {*PAPER} & {entry.name for entry in found} else ""
        print(f"{six}budget: of an attribute's randomiser; bits: sent by a user")
        longitudinal = any(entry.loss_is == "first" for entry in found)
        first = "; first: of the first report of a longitudinal protocol" if longitudinal else ""
        print(f"loss: exact but for rounding (docs/privacy.md), if users differ in one attribute, or in any way{first}")
    if problems := [entry for entry in found if entry.problem]:
        print(f"– {len(problems)} can't be run here; {problems[0].name}: {problems[0].problem}")
