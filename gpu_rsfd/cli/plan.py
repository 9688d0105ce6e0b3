"""`gpu-rsfd plan`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from gpu_rsfd.cli.inputs import datasets_of, read_options, spec_of
from gpu_rsfd.cli.options import SPEC_FILE, File, inputs_of, switch, with_options
from gpu_rsfd.cli.program import command
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import Option, exclusive, read_users

OWN = (
    Option("target", "MARGINS", "Margins to reach, in points, of every column or by name; 95 % of its estimates are "
           "within it.  Without --epsilon: by the smallest epsilon.", "'sex=1%,city=0.5%'", panel=None),
    Option("target_rmse", "ERROR", "The users needed for this error over all columns.", "0.01", panel=None, kind=float),
    Option("against", "NAME", "What errors are measured against: the frequencies of these users (users), or of the "
           "population that they are drawn from (population).", "population", panel=None, kind=str, default="users",
           default_text="users", known=("users", "population")),
    Option("postprocess", "NAME", "Post-processing of the estimates: none or clip.", panel=None, kind=str,
           default="none", default_text="none", known=("none", "clip")),
    Option("survey", "N", "A column is useful if it tells as much as asking so many people without privacy.", "400",
           panel=None, kind=float, default=100.0, default_text="100"),
    Option("sensitive", "VALUE", "Say how far a report raises the probability of this value.", "HIV=yes", panel=None,
           default_text="the rarest value"),
    Option("rounds", "N", "Say what users have spent after so many rounds, and what an attacker then guesses; without "
           "--protocol, of L-GRR and L-OSUE.", "12", panel=None),
    Option("change", "SHARE", "Probability that a user draws a new value of a column before a round.", "0.05",
           panel=None, default_text="0"),
    switch("attack", "Simulate an attacker's guesses.", default=True),
    Option("plot", "FILE", "Figure to write: margins against epsilon and n, errors against losses.", "plan.png",
           panel=None, kind=Path),
    Option("save", "FILE", "Collection to write, of what is recommended; the domain must be declared.",
           "collection.json", panel=None, kind=Path),
    switch("json", "JSON instead of text."),
    switch("quiet", "Don't print the report on your own table."),
)  # fmt: skip


@command(
    "plan",
    "gpu-rsfd plan people.csv --bins age=10 --target 'sex=1%,city=0.5%'",
    "gpu-rsfd plan --users 1e6 --domain 10x5,100 --target-rmse 0.01",
    "gpu-rsfd plan --dataset adult --epsilon 1 --json",
    "gpu-rsfd plan --users 1e6 --domain 10x5 --epsilon 2 --rounds 12 --change 0.05",
    "gpu-rsfd plan people.csv --bins age=10 --users 1e6 --against population --plot plan.png",
)
@with_options("plan", *OWN, *inputs_of("plan"), *SPEC_FILE)
def plan(plot: Path | None, json: bool, quiet: bool, attack: bool, file: File = None, **options: Any) -> None:
    """Which protocol and epsilon, how accurate, how risky: in sentences, by column, as a table of all protocols.

    With a table, --users plans for another number of users with the same frequencies.
    """
    from gpu_rsfd.cli.progress import reporter
    from gpu_rsfd.collecting.collection import declared
    from gpu_rsfd.show import planned as shown
    from gpu_rsfd.show import plots
    from gpu_rsfd.theory.decision import LONGITUDINAL, Question, planned

    given = read_options("plan", {**options, "file": file})
    if options["rounds"] is not None and "protocol-from" not in given:
        given = {"protocol": list(LONGITUDINAL), **given}
    spec = spec_of(given, "plan")
    if plot is not None:
        plots.check_target(plot, hint="give another name")
    users: list[int] | None = None
    free = "epsilon" not in given
    if "dataset" not in given:  # any n will do: no user is needed
        given = {"users": "10000", **given, "sampler": "marginals"}
    elif "users" in given and not {"domain", "attributes"} & {*given}:  # these frequencies, another n
        users = list(dict.fromkeys(read_users(given.pop("users"))))
    exclusive(save=options["save"], rounds=options["rounds"])  # a client remembers nothing
    named = {name: options[name] for name in Question._fields[1:] if name in options}
    asked = Question(users, **named, attack=attack, free=free)
    data = datasets_of(given, quiet)
    if (plot or options["save"]) and (len(data) > 1 or (users is not None and len(users) > 1)):
        raise InputError("--plot and --save are for one data set and one number of users; give one of each")
    with reporter(quiet=False) as progress:
        plans = [shown.PlannedData(one, planned(one, spec, asked, progress)) for one in data]
    if attack and not json and any(row.value != row.value for plan in plans for row in plan.found):
        print("no attack was simulated where domains are too large, or the attack lacks a noise", file=sys.stderr)
    if plot is not None:
        plots.save_figure(shown.figure(plans[0].found), plot)
    shown.show(plans, asked, spec.guarantee, json=json)
    if save := options["save"]:
        chosen = plans[0].found.decisions[0]
        if not chosen.protocol:
            raise InputError(f"save={save}: nothing is recommended that could be saved")
        own = {str(known): known for known in spec.protocols}
        declared(data[0], own[chosen.protocol], chosen.epsilon, spec.guarantee, spec.prior).save(save)
        print(f"{save} written", file=sys.stderr)
    if plot is not None and not json:
        print(f"{plot} written")
