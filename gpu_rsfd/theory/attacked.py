"""What an attacker guesses from reports before a collection: by simulation, on made-up users with the frequencies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.domain import Domain
from gpu_rsfd.measure.guesses import LOOKS, right
from gpu_rsfd.measure.reports import Chunk, chunk_size
from gpu_rsfd.planning import Plan
from gpu_rsfd.tape import DECISION
from gpu_rsfd.theory.expected import Floats

USERS = 10_000  # a share is then good to 0.01: its standard error is at most 0.005
MORE_USERS = 40_000  # of the recommended protocol alone
FEWEST_USERS = 500  # fewer tell too little: there is no attack then
LOOK = 8  # to look at what a recipe made of a value takes about as long as to draw so many bits
MOST_WORK = 1 << 25  # bits that are drawn for the reports: some seconds
QUICK_WORK = 1 << 23  # about one


class Guessed(NamedTuple):
    """Shares that are guessed right under one protocol and epsilon."""

    sampled: float  # of users whose sampled attribute is guessed; NaN if they sample none
    values: Floats  # [attribute]: of users whose value is guessed
    baselines: Floats  # [attribute]: the same without a report, by the commonest value
    users: int  # who were attacked


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


def guessed(
    plan: Plan, frequencies: Floats, most: int = USERS, advance: Callable[[int], Any] = lambda done: None
) -> dict[tuple[int, int], Guessed]:
    """The success of the attacker who knows the marginals, by (protocol, epsilon).

    Large domains are attacked with fewer users, very large ones not at all, which is decided for each epsilon on its
    own; neither are cells whose noise the attack does not know.  `advance` is told of the work that was done.
    """
    found = {}
    for users, part in passes(plan, most):
        data = sample(plan.domain, frequencies, users)
        marginals = [data.frequencies[columns] for columns in plan.domain.slices]
        shape, size = part.asked.shape, chunk_size(part, users)
        sampled, values = np.zeros(shape), np.zeros((*shape, plan.d))
        for start in range(0, users, size):
            stop = min(start + size, users)
            chunk = Chunk(data.column, part, users, 0, 0, start, stop)
            hits, held = right(part, chunk, partial(_known, marginals))
            sampled += hits / users
            values += held / users
            advance((stop - start) * work_of(part))
        sampled[~np.array(plan.samples)] = np.nan
        baselines = np.array([f.max() for f in marginals])
        for p, e in np.argwhere(part.asked).tolist():
            found[p, e] = Guessed(float(sampled[p, e]), values[p, e], baselines, users)
    return found


def _known(marginals: list[Floats], attribute: int, recipe: int) -> Floats:
    """What the attacker takes for the marginal of an attribute: the true one, whatever the recipe is."""
    return marginals[attribute]


def passes(plan: Plan, most: int = USERS) -> list[tuple[int, Plan]]:
    """How many users are attacked, and the cells that are: epsilons with equally many users in one pass."""
    attackable = np.array([
        [bool(cell) and all(type(a.recipes[r].noise) in LOOKS for a, r in zip(plan.attributes, cell, strict=True))
         for cell in row] for row in plan.cells
    ])  # fmt: skip
    found: dict[int, npt.NDArray[np.bool_]] = {}
    for e in range(len(plan.epsilons)):
        wanted = attackable & (np.arange(len(plan.epsilons)) == e)
        users = min(most, MOST_WORK // work_of(plan.only(wanted))) if wanted.any() else 0
        if users >= FEWEST_USERS:
            found[users] = found.get(users, False) | wanted
    return [(users, plan.only(wanted)) for users, wanted in found.items()]


def risk_of(
    plan: Plan, p: int, e: int, frequencies: Floats, known: Guessed | None = None, work: int = MOST_WORK
) -> Guessed | None:
    """The success against one cell; what is known of it, unless this work allows for more users."""
    wanted = np.zeros(plan.asked.shape, bool)
    wanted[p, e] = True
    part = plan.only(wanted)
    users = min(MORE_USERS, work // work_of(part))
    return known if known and known.users >= users else guessed(part, frequencies, users).get((p, e))


def work_of(plan: Plan) -> int:
    """What an attack on one user takes: the bits that are drawn, one of every value for all unary encodings at once."""
    return sum((a.k if a.needs_bits else 1) + LOOK * len(a.recipes) for a in plan.attributes)
