"""The two axes of a decision in one table: the error of each protocol, and what its reports give away."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.datasets import as_dataset
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure.inference import Attacker
from gpu_rsfd.options import with_keywords
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import DEFAULT_SETTINGS, PrivacySettings, Protocol
from gpu_rsfd.spec import FIELDS, Spec
from gpu_rsfd.tape import DECISION
from gpu_rsfd.theory.needs import PlanRow, plan_table

Floats = npt.NDArray[np.float64]

USERS = 10_000  # a share is then good to 0.01: its standard error is at most 0.005
FEWEST_USERS = 1000  # fewer tell too little: there is no attack then
MOST_WORK = 1 << 30  # users x values x distinct reports of them; more takes more than some seconds
TIE = 1e-3  # relative: errors and losses closer than this are equal, as thresholds are rounded


def sample(domain: Domain, frequencies: Floats, users: int) -> Dataset:
    """Users with these frequencies, as nearly as whole numbers allow, each attribute independent of the others.

    What is guessed of the sampled attribute follows from these frequencies, so these users stand in for any others.
    The share of values that are guessed depends a little on how attributes are correlated (by .014 where it was tried).
    """
    codes = np.empty((users, len(domain)), np.int64)
    for j, columns in enumerate(domain.slices):
        edges = np.rint(np.cumsum(frequencies[columns]) * users).astype(np.int64)
        edges[-1] = users
        held = np.repeat(np.arange(domain[j]), np.diff(edges, prepend=0))
        key = np.array([0, DECISION], np.uint64)
        codes[:, j] = np.random.Generator(np.random.Philox(key=key, counter=[0, j, 0, 0])).permutation(held)
    return Dataset(codes, domain, name="sample")


def attacked(
    rows: Sequence[PlanRow],
    domain: Domain,
    frequencies: Floats,
    assignment: str = "uniform",
    settings: PrivacySettings = DEFAULT_SETTINGS,
    workers: int | None = None,
    own: Sequence[Protocol] = (),
) -> list[PlanRow]:
    """The rows with the success of the attacker who knows the marginals, by simulation; shares are good to 0.01.

    Large domains are attacked with fewer users, very large ones not at all: the rows are then as they were.
    `own`: user-defined protocols, which the rows refer to by name.
    """
    protocols = tuple(dict.fromkeys(row.protocol for row in rows))
    epsilons = tuple(dict.fromkeys(row.epsilon for row in rows))
    objects = {protocol.name: protocol for protocol in own}
    plan = Plan.of(domain, [objects.get(name, name) for name in protocols], epsilons, assignment, settings)
    work = sum(a.k * len(a.recipes) for a in plan.attributes)
    users = min(USERS, MOST_WORK // work)
    if users < FEWEST_USERS:
        return list(rows)
    data = sample(domain, frequencies, users)
    with Attacker(workers) as attacker:
        hits = attacker.hits(plan, data, 0, range(1))
    sampled, value = (hit[:, :, 0] / users for hit in hits)
    sampled[~np.array(plan.samples)] = np.nan
    common = [float(data.frequencies[columns].max()) for columns in domain.slices]
    return [
        row._replace(
            sampled=float(sampled[p, e]),
            sampled_baseline=1 / len(domain),
            value=float(value[p, e]) / len(domain),
            value_baseline=float(np.mean(common)),
            attacked_users=users,
        )
        for row in rows
        for p, e in [(protocols.index(row.protocol), epsilons.index(row.epsilon))]
    ]


@with_keywords(FIELDS, "plan")
def plan(
    data: Dataset | str | os.PathLike[str],
    spec: Spec | None = None,
    *,
    users: int | Sequence[int] | None = None,
    target_rmse: float | None = None,
    against: str = "users",
    postprocess: str = "none",
    attack: bool = True,
    **fields: Any,
) -> list[PlanRow]:
    """Plan a collection: expected error, users needed, bits sent, privacy loss and an attacker's success.

    Errors come from theory; the attack is simulated.

    Parameters
    ----------
    data : Dataset, str or path
        The frequencies to plan for: a data set, the name of one, or the path of a table.
    spec : Spec, optional
        What to run.  Fields that are given as keywords replace its own.
    users : int or list of int, optional
        Numbers of users with these frequencies.  Default: the data set's own.
    target_rmse : float, optional
        Also find the users needed for this root mean square error.
    against : {'users', 'population'}
        What errors are measured against: the frequencies of these users, or of the population that they are drawn from.
    postprocess : {'none', 'clip'}
        Post-processing of the estimates.
    attack : bool
        Simulate an attacker's guesses, unless the domains are too large for that.
    **fields
        The fields of `Spec`.

    Returns
    -------
    list of PlanRow
        A row for each number of users, protocol and epsilon.

    Raises
    ------
    InputError
        If an option or its value is not valid.

    Examples
    --------
    >>> import gpu_rsfd
    >>> rows = gpu_rsfd.plan("nursery", epsilons=1.0, protocols=["rsfd-adp", "smp-adp"], attack=False)
    >>> [row.protocol for row in rows]
    ['rsfd-adp', 'smp-adp']
    """
    spec, data = Spec.of_command("plan", spec, fields), as_dataset(data)
    sizes = [data.n] if users is None else [users] if isinstance(users, int) else list(users)
    if not sizes:
        raise InputError("users is an empty list; at least one number of users is needed")
    settings = spec.settings_for(data)
    plans = [
        plan_table(
            n,
            data.domain,
            spec.epsilons,
            spec.protocols,
            data.frequencies,
            spec.assignment,
            target_rmse,
            postprocess,
            against,
            settings,
        )
        for n in sizes
    ]
    if attack:  # the same for any number of users
        guessed = attacked(plans[0], data.domain, data.frequencies, spec.assignment, settings, own=spec.protocols)
        plans = [[row.with_attack(other) for row, other in zip(rows, guessed, strict=True)] for rows in plans]
    return [row for rows in plans for row in marked(rows)]


def marked(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """The rows, each with whether it is Pareto-optimal in error and losses."""
    keys = [(row.rmse, row.loss_one, row.loss_all) for row in rows]
    return [row._replace(non_dominated=not _dominated(key, keys)) for row, key in zip(rows, keys, strict=True)]


def _dominated(key: tuple[float, ...], keys: Sequence[tuple[float, ...]]) -> bool:
    if any(map(math.isnan, key)):
        return True
    return any(
        all(a <= b * (1 + TIE) for a, b in zip(other, key, strict=True))
        and any(a < b * (1 - TIE) for a, b in zip(other, key, strict=True))
        for other in keys
    )
