"""The two axes of a decision in one table: the error of each protocol, and what its reports give away."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.domain import Domain
from gpu_rsfd.plan import Plan
from gpu_rsfd.privacy.attacking import Attacker
from gpu_rsfd.protocols import TERMS, Terms
from gpu_rsfd.spec import Spec
from gpu_rsfd.theory.needs import PlanRow

Floats = npt.NDArray[np.float64]

USERS = 10_000  # a share is then good to two digits: its standard error is at most 0.005
FEWEST_USERS = 1000  # fewer tell too little: there is no attack then
MOST_WORK = 1 << 30  # users x values x distinct reports of them; more takes more than some seconds
TIE = 1e-3  # relative: errors and losses closer than this are equal, as thresholds are rounded
_STREAM = 33  # second half of the Philox key: these users' own


def sample(domain: Domain, frequencies: Floats, users: int) -> Dataset:
    """Users with these frequencies, as nearly as whole numbers allow, each attribute independent of the others.

    Reports of RS+FD, Spl and Smp show an attribute by its own frequencies alone, so these users stand for any others.
    """
    codes = np.empty((users, len(domain)), np.int64)
    for j, columns in enumerate(domain.slices):
        edges = np.rint(np.cumsum(frequencies[columns]) * users).astype(np.int64)
        edges[-1] = users
        held = np.repeat(np.arange(domain[j]), np.diff(edges, prepend=0))
        key = np.array([0, _STREAM], np.uint64)
        codes[:, j] = np.random.Generator(np.random.Philox(key=key, counter=[0, j, 0, 0])).permutation(held)
    return Dataset(codes, domain, name="sample")


def attacked(
    rows: Sequence[PlanRow],
    domain: Domain,
    frequencies: Floats,
    assignment: str = "uniform",
    terms: Terms = TERMS,
    workers: int | None = None,
) -> list[PlanRow]:
    """The rows with the success of the Bayes-optimal attacker, by simulation of enough users for two digits.

    Large domains are attacked with fewer users, very large ones not at all: the rows are then as they were.
    """
    protocols = tuple(dict.fromkeys(row.protocol for row in rows))
    epsilons = tuple(dict.fromkeys(row.epsilon for row in rows))
    plan = Plan.of(domain, protocols, epsilons, assignment, terms)
    work = sum(a.k * len(a.recipes) for a in plan.attributes)
    users = min(USERS, MOST_WORK // work)
    if users < FEWEST_USERS:
        return list(rows)
    data = sample(domain, frequencies, users)
    spec = Spec(protocols, epsilons, range(1), assignment=assignment)
    with Attacker(workers) as attacker:
        found = attacker.attack(data, spec, terms=terms)
    return [
        row._replace(
            sampled=float(found.sampled[p, e, 0]),
            sampled_baseline=found.sampled_baseline,
            value=float(found.value[p, e, 0]),
            value_baseline=found.value_baseline,
            attacked_users=users,
        )
        for row in rows
        for p, e in [(protocols.index(row.protocol), epsilons.index(row.epsilon))]
    ]


def marked(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """The rows, each with whether it is worth a look: no other one has a smaller error or loss, and none a larger."""
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
