"""`gpu-rsfd plan`"""

from __future__ import annotations

import sys
from typing import Annotated

from gpu_rsfd.cli import parse
from gpu_rsfd.cli.inputs import datasets_of, read_spec, spec_of
from gpu_rsfd.cli.options import (
    DATA,
    SIMULATION,
    Bins,
    Columns,
    DataDir,
    Delimiter,
    DomainFile,
    Epsilon,
    FirstReport,
    Guarantee,
    Missing,
    Prior,
    PriorSeed,
    Protocol,
    Text,
    Texts,
    option,
)
from gpu_rsfd.cli.program import app
from gpu_rsfd.errors import InputError


@app.command(
    epilog="Examples:  gpu-rsfd plan --users 1e6 --domain 10x5,100 --target-rmse 0.01  ·  "
    "gpu-rsfd plan --dataset adult --epsilon 1 --json  ·  "
    "gpu-rsfd plan --dataset people.csv --columns sex,age --bins age=10 --users 1e6 --against population"
)
def plan(
    dataset: Annotated[
        Texts,
        option("--dataset", "Plan for the frequencies of these data sets or files; repeatable.  --dataset adult", DATA),
    ] = None,
    data_dir: DataDir = None,
    users: Annotated[
        Texts,
        option(
            "--users",
            "Number of users; with --dataset, its frequencies with another number of users.  --users 1e6  "
            "(default: 10,000, or the data set's own)",
            DATA,
        ),
    ] = None,
    domain: Annotated[Texts, option("--domain", "Domain sizes.  --domain 10,10,20  or  --domain 10x5", DATA)] = None,
    distribution: Annotated[
        Text, option("--distribution", "Law of the values: uniform or zipf:S.  (default: uniform)", DATA)
    ] = None,
    columns: Columns = None,
    bins: Bins = None,
    delimiter: Delimiter = None,
    missing: Missing = None,
    domain_file: DomainFile = None,
    epsilon: Epsilon = None,
    protocol: Protocol = None,
    assignment: Annotated[
        Text, option("--assignment", "uniform or balanced (equal groups).  (default: uniform)", SIMULATION)
    ] = None,
    first_report: FirstReport = None,
    guarantee: Guarantee = None,
    prior: Prior = None,
    prior_seed: PriorSeed = None,
    target_rmse: Annotated[
        float | None, option("--target-rmse", "Also the users needed for this error.  --target-rmse 0.01")
    ] = None,
    against: Annotated[
        str,
        option(
            "--against",
            "The truth that the error is measured from: these users' own frequencies (users), or those of the "
            "population that they are drawn from (population).  --against population  (default: users)",
        ),
    ] = "users",
    postprocess: Annotated[str, option("--postprocess", "none or clip.  (default: none)")] = "none",
    attack: Annotated[
        bool, option("--attack/--no-attack", "Simulate what an attacker guesses from reports.  (default: attack)")
    ] = True,
    json: Annotated[bool, option("--json", "JSON instead of a table.")] = False,
) -> None:
    """What to decide by before a collection: error, users needed, bits sent, privacy losses, an attacker's success."""
    given = {
        "dataset": dataset,
        "data-dir": data_dir,
        "users": users,
        "domain": domain,
        "distribution": distribution,
        "columns": columns,
        "bins": bins,
        "delimiter": delimiter,
        "missing": missing,
        "domain-file": domain_file,
        "epsilon": epsilon,
        "protocol": protocol,
        "assignment": assignment,
        "first-report": first_report,
        "guarantee": guarantee,
        "prior": prior,
        "prior-seed": prior_seed,
    }
    from gpu_rsfd.privacy import decision
    from gpu_rsfd.show import tables
    from gpu_rsfd.theory import needs

    options = read_spec(None, given)
    spec = spec_of(options)
    sizes: list[int] | None = None
    if "dataset" not in options:  # any n will do: no user is needed
        options = {"users": "10000", **options, "sampler": "marginals"}
    elif "users" in options:  # these frequencies, another n
        sizes = parse.users(options.pop("users"))
    plans = []
    for data in datasets_of(options):
        terms = spec.terms_for(data)
        guessed: dict[tuple[str, float], needs.PlanRow] = {}  # the same for any number of users
        for n in [data.n] if sizes is None else sizes:
            rows = needs.plan_table(
                n,
                data.domain,
                spec.epsilons,
                spec.protocols,
                data.frequencies,
                spec.assignment,
                target_rmse,
                postprocess,
                against,
                terms,
            )
            if attack and not guessed:
                found = decision.attacked(rows, data.domain, data.frequencies, spec.assignment, terms)
                guessed = {(row.protocol, row.epsilon): row for row in found}
            if attack:
                rows = [row.with_attack(guessed[row.protocol, row.epsilon]) for row in rows]
            plans.append(tables.Planned(data, n, decision.marked(rows)))
    if not plans:
        raise InputError("users is empty; give a number of users, such as --users 1e6")
    if attack and not json and any(not plan.rows[0].attacked_users for plan in plans):
        print("no attack was simulated where the domains are too large for that", file=sys.stderr)
    tables.show_plan(plans, target_rmse, postprocess, against, spec.guarantee, json=json)
