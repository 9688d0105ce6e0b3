"""`gpu-rsfd plan`"""

from __future__ import annotations

import sys
from itertools import groupby
from typing import Annotated, Any

from gpu_rsfd.cli import parse
from gpu_rsfd.cli.commands import DECIDE
from gpu_rsfd.cli.inputs import datasets_of, read_options, spec_of
from gpu_rsfd.cli.options import SPEC_FILE, inputs_of, option, with_options
from gpu_rsfd.cli.program import app
from gpu_rsfd.options import entries


@app.command(
    rich_help_panel=DECIDE,
    epilog="Examples:  gpu-rsfd plan --users 1e6 --domain 10x5,100 --target-rmse 0.01  ·  "
    "gpu-rsfd plan --dataset adult --epsilon 1 --json  ·  "
    "gpu-rsfd plan --dataset people.csv --columns sex,age --bins age=10 --users 1e6 --against population",
)
@with_options("plan", *inputs_of("plan"), SPEC_FILE)
def plan(
    target_rmse: Annotated[
        float | None, option("--target-rmse", "Also the users needed for this error.  --target-rmse 0.01")
    ] = None,
    against: Annotated[
        str,
        option(
            "--against",
            "The truth that the error is measured from: these users' own frequencies (users), or those of the "
            "population that they are drawn from (population).  --against population  (default: users)",
            known=lambda: ("users", "population"),
        ),
    ] = "users",
    postprocess: Annotated[
        str, option("--postprocess", "none or clip.  (default: none)", known=lambda: ("none", "clip"))
    ] = "none",
    attack: Annotated[
        bool, option("--attack/--no-attack", "Simulate what an attacker guesses from reports.  (default: attack)")
    ] = True,
    json: Annotated[bool, option("--json", "JSON instead of a table.")] = False,
    quiet: Annotated[bool, option("--quiet", "Don't print what is in your table.")] = False,
    **options: Any,
) -> None:
    """What to decide by before a collection: error, users needed, bits sent, privacy losses, an attacker's success.

    With --dataset, --users is another number of users with its frequencies.
    """
    from gpu_rsfd.show import tables
    from gpu_rsfd.theory.decision import plan as rows_of

    given = read_options("plan", options)
    spec = spec_of(given, "plan")
    users: list[int] | None = None
    if "dataset" not in given:  # any n will do: no user is needed
        given = {"users": "10000", **given, "sampler": "marginals"}
    elif "users" in given:  # these frequencies, another n
        users = list(dict.fromkeys(parse.users(entries(given.pop("users")))))
    plans = []
    for data in datasets_of(given, "plan", quiet):
        rows = rows_of(
            data, spec, users=users, target_rmse=target_rmse, against=against, postprocess=postprocess, attack=attack
        )
        plans += [tables.Planned(data, n, list(part)) for n, part in groupby(rows, lambda row: row.users)]
    if attack and not json and any(not plan.rows[0].attacked_users for plan in plans):
        print("no attack was simulated where the domains are too large for that", file=sys.stderr)
    tables.show_plan(plans, target_rmse, postprocess, against, spec.guarantee, json=json)
