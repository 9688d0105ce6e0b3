"""What an attacker guesses from reports before a collection: by simulation, on made-up users with the frequencies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.domain import Domain
from gpu_rsfd.measure.guesses import BYTES_PER_RECIPE, LOOKS, guesses
from gpu_rsfd.measure.reports import Chunk, chunk_users
from gpu_rsfd.planning import Plan
from gpu_rsfd.tape import DECISION
from gpu_rsfd.theory.expected import Floats

USERS = 10_000  # a share is then good to 0.01: its standard error is at most 0.005
MORE_USERS = 40_000  # of the recommended protocol alone
FEWEST_USERS = 1000  # fewer tell too little: there is no attack then
MOST_WORK = 1 << 27  # bits of reports at one epsilon: some seconds


class Guessed(NamedTuple):
    """Shares that are guessed right, NaN where nothing was attacked."""

    sampled: Floats  # [protocol, epsilon]: the attribute that a user samples
    values: Floats  # [protocol, epsilon, attribute]
    baselines: Floats  # [epsilon, attribute]: the commonest value, without a report
    users: list[int]  # of each epsilon; 0 where there was no attack


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
) -> Guessed:
    """The success of the attacker who knows the marginals, at each epsilon of a plan.

    Large domains are attacked with fewer users, very large ones not at all, which is decided for each epsilon on its
    own; neither are cells whose noise the attack does not know.  `advance` is told of the work that was done.
    """
    shape = len(plan.protocols), len(plan.epsilons)
    result = Guessed(
        np.full(shape, np.nan), np.full((*shape, plan.d), np.nan), np.full((shape[1], plan.d), np.nan), [0] * shape[1]
    )
    for e in range(shape[1]):
        part = attackable(plan, e)
        if not part.asked.any():
            continue
        users = users_of(part, most)
        if users < FEWEST_USERS:
            continue
        data = sample(plan.domain, frequencies, users)
        marginals = [data.frequencies[columns] for columns in plan.domain.slices]
        result.users[e] = users
        result.baselines[e] = [f.max() for f in marginals]
        result.sampled[:, e][part.asked[:, e]] = 0.0
        result.values[:, e][part.asked[:, e]] = 0.0
        recipes = sum(len(a.recipes) for a in part.attributes)
        size = chunk_users(16 * max(plan.domain) + BYTES_PER_RECIPE * recipes, users)
        for start in range(0, users, size):
            stop = min(start + size, users)
            chunk = Chunk(data.column, plan.domain, users, 0, 0, plan.assignment, start, stop)
            for p, _, who, values in guesses(part, chunk, partial(_known, marginals)):
                hits = np.nan if who is None else np.count_nonzero(who == chunk.sampled)
                result.sampled[p, e] += hits / users
                right = [np.count_nonzero(v == chunk.codes(j)) for j, v in enumerate(values)]
                result.values[p, e] += np.array(right) / users
            advance((stop - start) * work_of(part))
    return result


def _known(marginals: list[Floats], attribute: int, recipe: int) -> Floats:
    """What the attacker takes for the marginal of an attribute: the true one, whatever the recipe is."""
    return marginals[attribute]


def attackable(plan: Plan, e: int) -> Plan:
    """The cells of one epsilon whose noises the attack knows."""
    wanted = np.zeros(plan.asked.shape, bool)
    for p, row in enumerate(plan.cells):
        wanted[p, e] = bool(row[e]) and all(
            type(a.recipes[r].noise) in LOOKS for a, r in zip(plan.attributes, row[e], strict=True)
        )
    return plan.only(wanted)


def work_of(plan: Plan) -> int:
    """What an attack on one user takes: a bit of every value for unary encodings, little for others."""
    return sum((a.k if recipe.unary else 1) for a in plan.attributes for recipe in a.recipes)


def users_of(plan: Plan, most: int = USERS) -> int:
    """How many users can be attacked in some seconds."""
    return min(most, MOST_WORK // work_of(plan))
