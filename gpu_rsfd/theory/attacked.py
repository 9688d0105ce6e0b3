"""What an attacker guesses from reports before a collection: exactly for one attribute's report, else by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.domain import Domain
from gpu_rsfd.measure.guesses import LOOKS, right
from gpu_rsfd.measure.reports import Chunk, chunk_size
from gpu_rsfd.measure.rounds import HITS, Rounds
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import Bits, Keep, Mechanism, Sets, Subsets, Unsampled
from gpu_rsfd.running.experiments import run
from gpu_rsfd.spec import Spec
from gpu_rsfd.tape import DECISION
from gpu_rsfd.theory.expected import Floats

USERS = 10_000  # a share is then good to 0.01: its standard error is at most 0.005
MORE_USERS = 40_000  # of the recommended protocol alone
FEWEST_USERS = 500  # fewer tell too little: there is no attack then
LOOK = 8  # to look at what a recipe made of a value takes about as long as to draw so many bits
MOST_WORK = 1 << 25  # bits that are drawn for the reports: some seconds
QUICK_WORK = 1 << 23  # about one
MOST_MEMBERS = 1 << 24  # of message sets that are looked through for an exact share


class Guessed(NamedTuple):
    """Shares that are guessed right under one protocol and epsilon."""

    sampled: float  # of users whose sampled attribute is guessed; NaN if they sample none
    values: Floats  # [attribute]: of users whose value is guessed; with Smp of those who send it
    baselines: Floats  # [attribute]: the same without a report, by the commonest value
    users: int  # who were attacked; 0 if these are exact


class OverRounds(NamedTuple):
    """What users have spent after all rounds of a collection, and what an attacker then guesses."""

    rounds: int
    change: float  # the probability that a user draws a new value of a column before a round
    spent: float  # mean over users
    spent_nine_tenths: float  # what nine users in ten have spent at most
    users: int = 0  # who were attacked; 0 without an attack
    sampled: float = math.nan  # the share of users whose sampled attribute is guessed; NaN if they sample none
    value: float = math.nan  # of values that are guessed
    claim: float = math.nan  # of users of whom the surest guess of a value is right
    command: str | None = None  # that simulates them with all users; None where no command gives these data


def exact(m: Mechanism, f: Floats) -> float:
    """The share of users whose value is guessed from one attribute's report: the sum of the largest f_v P(message | v).

    A message supports some values; its best guess is the commonest of them, or the commonest of the others.  NaN where
    there is no formula, or too much to look through.
    """
    noise, k, order = m.recipe.noise, m.k, np.argsort(-f, kind="stable").astype(np.uint16)
    if isinstance(noise, Keep) or (isinstance(noise, Sets) and k * noise.design.size <= MOST_MEMBERS):
        supported, other, high, low, *_ = LOOKS[type(noise)](np.arange(noise.messages(k)), m.recipe, f, order)
        known = np.append(f, -1.0)
        return float(np.maximum(known[supported] * high, known[other] * low).sum())
    rank, p = np.arange(k), noise.p(k)
    match noise:  # weights: P(the commonest value that is supported has this rank), whoever reports; then P(none is)
        case Bits():
            weights, none = noise.q(k) * (1 - noise.q(k)) ** rank, (1 - noise.q(k)) ** k
            high, low = p / noise.q(k), (1 - p) / (1 - noise.q(k))
        case Subsets(size=s):
            fewer = np.maximum(k - s - rank[:-1], 0) / (k - 1 - rank[:-1])
            weights, none = s / k * np.cumprod(np.append(1.0, fewer)), 0.0
            high, low = p * k / s, (1 - p) * k / (k - s)
        case _:
            return math.nan
    best = np.maximum(f[order] * high, np.where(rank > 0, f[order[0]] * low, 0))
    return float(weights @ best) + none * low * float(f[order[0]])


def exactly(plan: Plan, p: int, e: int, frequencies: Floats) -> Guessed | None:
    """The exact success against one cell; None without a formula, as where attributes hide each other."""
    ms, parts = plan.mechanisms[p][e], [frequencies[columns] for columns in plan.domain.slices]
    others = ms[0].recipe.unsampled
    if others.hides and plan.d > 1:
        return None
    kinds = {(m.recipe, f.tobytes()): (m, f) for m, f in zip(ms, parts, strict=True)}
    shares = {kind: exact(*each) for kind, each in kinds.items()}
    values = np.array([shares[m.recipe, f.tobytes()] for m, f in zip(ms, parts, strict=True)])
    sampled = 1.0 if others is not Unsampled.OWN else math.nan
    return None if np.isnan(values).any() else Guessed(sampled, values, np.array([f.max() for f in parts]), 0)


def sample(domain: Domain, frequencies: Floats, users: int, rows: Dataset | None = None) -> Dataset:
    """Users with these frequencies, as nearly as whole numbers allow.

    They depend on each other like those of `rows`, of which they are drawn: a user whose value is the i-th of a column
    then gets the i-th of these frequencies, which may be others.  Without rows, attributes are independent: what is
    guessed of the sampled attribute is the same, of values nearly (a difference of .014 where it was tried).
    """
    codes = np.empty((users, len(domain)), np.int64)
    for j, columns in enumerate(domain.slices):
        edges = np.rint(np.cumsum(frequencies[columns]) * users).astype(np.int64)
        edges[-1] = users
        held = np.repeat(np.arange(domain[j]), np.diff(edges, prepend=0))
        if rows is None:
            codes[:, j] = _draw(j).permutation(held)
        else:
            drawn = rows.column(j, 0, rows.n)[_draw(0).integers(rows.n, size=users)]
            codes[np.argsort(drawn, kind="stable"), j] = held
    return Dataset(codes, domain, name="sample")


def _draw(j: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([0, DECISION], np.uint64), counter=[0, j, 0, 0]))


def guessed(
    plan: Plan,
    frequencies: Floats,
    most: int = USERS,
    advance: Callable[[int], Any] = lambda done: None,
    rows: Dataset | None = None,
) -> dict[tuple[int, int], Guessed]:
    """The success of the attacker who knows the marginals, by (protocol, epsilon).

    It is exact where a formula exists.  Large domains are attacked with fewer users, very large ones not at all, which
    is decided for each epsilon on its own; neither are cells whose noise the attack does not know.  `advance` is told
    of the work that was done.
    """
    cells = {(p, e): exactly(plan, p, e, frequencies) for p, e in np.argwhere(plan.asked).tolist()}
    found = {cell: known for cell, known in cells.items() if known is not None}
    for users, part in passes(plan, most):
        data = sample(plan.domain, frequencies, users, rows)
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


def over_rounds(asked: Rounds, spec: Spec, domain: Domain, f: Floats) -> OverRounds:
    """What comes with the rounds of a collection with one protocol and epsilon, of users with these frequencies."""
    attack = asked.attack and MOST_WORK // (asked.rounds * domain.total) >= FEWEST_USERS
    users = min(USERS, MOST_WORK // (asked.rounds * (domain.total if attack else len(domain))))
    how: Any = {"sampler": "users" if attack else "marginals", "repetitions": 1, "workers": 1}
    (found,) = run(replace(asked, attack=attack), sample(domain, f, users), spec, **how).values()
    mean, _, most, _ = found["spent"][0, 0, 0, -1].tolist()
    guesses: Any = {name.removesuffix("_success"): float(found[name][0, 0, 0, -1]) for name in HITS[:3] if attack}
    return OverRounds(asked.rounds, asked.change, mean, most, users * attack, **guesses)


def passes(plan: Plan, most: int = USERS) -> list[tuple[int, Plan]]:
    """How many users are attacked, and the cells that are: epsilons with equally many users in one pass.

    Those where attributes hide each other: else there is a formula.
    """
    attackable = np.zeros(plan.asked.shape, bool)
    for p, e in np.argwhere(plan.asked).tolist() if plan.d > 1 else ():
        recipes = [m.recipe for m in plan.mechanisms[p][e]]
        attackable[p, e] = recipes[0].unsampled.hides and all(type(recipe.noise) in LOOKS for recipe in recipes)
    found: dict[int, npt.NDArray[np.bool_]] = {}
    for e in range(len(plan.epsilons)):
        wanted = attackable & (np.arange(len(plan.epsilons)) == e)
        users = min(most, MOST_WORK // work_of(plan.only(wanted))) if wanted.any() else 0
        if users >= FEWEST_USERS:
            found[users] = found.get(users, False) | wanted
    return [(users, plan.only(wanted)) for users, wanted in found.items()]


def risk_of(
    plan: Plan, p: int, e: int, frequencies: Floats, known: Guessed | None = None, rows: Dataset | None = None
) -> Guessed | None:
    """The success against one cell; what is known of it, unless about a second allows for more users."""
    wanted = np.zeros(plan.asked.shape, bool)
    wanted[p, e] = True
    part = plan.only(wanted)
    users = min(MORE_USERS, QUICK_WORK // work_of(part))
    enough = known is not None and (known.users == 0 or known.users >= users)
    return known if enough else guessed(part, frequencies, users, rows=rows).get((p, e))


def work_of(plan: Plan) -> int:
    """What an attack on one user takes: the bits that are drawn, one of every value for all unary encodings at once."""
    return sum((a.k if a.needs_bits else 1) + LOOK * len(a.recipes) for a in plan.attributes)
