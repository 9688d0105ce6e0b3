"""Before a collection: what to expect of each protocol and epsilon, what a target takes, which of them to choose."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import MAX_USERS, check_epsilon, check_users
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import unknown_name
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import DEFAULT_SETTINGS, PAPER, Mechanism, PrivacySettings, Protocol, as_protocol, mechanisms
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.spec import PAPER_EPSILONS
from gpu_rsfd.theory.expected import LEVEL, Accuracy, Floats, Terms, Truth, accuracies, attributes_of, is_rough, mse_of

LARGEST = 2800  # an epsilon for a target is looked for up to this number of three digits: 20
AMBIGUOUS = 0.05  # a text from this share on may be meant in percent
TIE = 1e-9  # relative: errors closer than this are equal


class PlanRow(NamedTuple):
    """What to expect of a protocol at an epsilon.

    Attributes
    ----------
    protocol : str
        Its name.
    epsilon : float
        The total budget.
    mse, rmse : float
        Expected MSE_avg, and its square root.
    users_needed : int or None
        Smallest number of users that reaches the target, if one was given.
    bits_per_user : float
        Size of a user's report.
    rough, users_rough : bool
        Whether `mse` and `users_needed` are no more than guides: clipped errors with few reports of some value.
    unreachable : str or None
        Why `users_needed` is None although a target was given.
    loss_one, loss_all : float
        Exact privacy loss between users who differ in one attribute, and between any two users.
    claimed : bool
        Whether the losses are what the protocol's author claims.
    first_report : bool
        Whether the losses are those of the first report of a longitudinal protocol.
    sampled, sampled_baseline : float
        Share of users whose sampled attribute an attacker guesses, with and without a report.
    value, value_baseline : float
        Share of values that are guessed, with and without a report.
    attacked_users : int
        Users of the simulated attack; 0 if there was none.
    non_dominated : bool
        Whether no other row with as many users is better in error and losses.
    users : int
        Number of users.
    column_rmse : tuple of float
        Root mean square error of each column.
    """

    protocol: str
    epsilon: float
    mse: float
    rmse: float
    users_needed: int | None
    bits_per_user: float
    rough: bool = False
    users_rough: bool = False
    unreachable: str | None = None
    loss_one: float = math.nan
    loss_all: float = math.nan
    claimed: bool = False
    first_report: bool = False
    sampled: float = math.nan
    sampled_baseline: float = math.nan
    value: float = math.nan
    value_baseline: float = math.nan
    attacked_users: int = 0
    non_dominated: bool = False
    users: int = 0
    column_rmse: tuple[float, ...] = ()


def plan_table(
    n: int,
    domain: Sequence[int],
    epsilons: Sequence[float] = PAPER_EPSILONS,
    protocols: Sequence[str | Protocol] = PAPER,
    frequencies: npt.ArrayLike | None = None,
    assignment: str = "uniform",
    target_rmse: float | None = None,
    postprocess: str = "none",
    against: str = "users",
    settings: PrivacySettings = DEFAULT_SETTINGS,
) -> list[PlanRow]:
    """What to expect of each protocol and epsilon, from theory alone.

    Parameters
    ----------
    n : int
        Users.
    domain : sequence of int
        Number of values of each attribute.
    epsilons : sequence of float
        Total budgets.
    protocols : sequence of str or Protocol
        Names of protocols, or user-defined protocols.
    target_rmse : float, optional
        Asks for the users that are needed for this error.
    frequencies, assignment, postprocess, against, settings
        As for `theory.expected_mse`.

    Returns
    -------
    list of PlanRow
        Protocol by protocol, epsilon by epsilon.
    """
    terms = Terms(check_users(n), assignment, postprocess, against)
    compiled = Plan.of(domain, protocols, epsilons, assignment, settings)
    return Candidates(compiled, frequencies, terms, target_rmse=target_rmse).rows


def bits_per_user(
    protocol: str | Protocol, epsilon: float, domain: Sequence[int], settings: PrivacySettings = DEFAULT_SETTINGS
) -> float:
    """Bits in one user's report: log2 k for an attribute sent by GRR, k for unary encodings, log2 g for a hash.

    And log2 of the number of messages for message sets, of the number of subsets for subset selection.
    Spl and RS+FD send every attribute.  Smp sends one, each as likely, and log2 d bits that say which.

    Parameters
    ----------
    protocol, epsilon, domain, settings
        As for `theory.expected_mse`.

    Returns
    -------
    float
        The mean over users.
    """
    ms = mechanisms(protocol, check_epsilon(epsilon), Domain.of(domain), settings)
    return _bits(ms, as_protocol(protocol).partial)


def _bits(ms: Sequence[Mechanism], partial: bool) -> float:
    bits = math.fsum(m.bits for m in ms)
    return bits / len(ms) + math.log2(len(ms)) if partial else bits


# ------------------------------------------------------------------------------------------------ candidates


class Choice(NamedTuple):
    """A cell of the plan, and the columns that it was chosen for."""

    protocol: int
    epsilon: int
    columns: tuple[int, ...]
    reached: bool | None = None  # whether the targets are met; None without targets


@dataclass(eq=False)
class Candidates:
    """The protocols and epsilons of a plan, for users with these frequencies: what each cell gives, the best one."""

    plan: Plan
    frequencies: npt.ArrayLike | None
    terms: Terms
    names: Sequence[str] = ()
    targets: Mapping[int, float] = field(default_factory=dict)  # margins to reach, by column
    target_rmse: float | None = None  # or an error over all columns
    searched: float = 0  # the epsilon that was found for the targets; NaN if it was looked for in vain

    def __post_init__(self) -> None:
        if self.target_rmse is not None and not 0 < self.target_rmse < math.inf:
            raise InputError(f"target_rmse={self.target_rmse} must be finite and > 0")

    @cached_property
    def truths(self) -> tuple[Truth, ...]:
        return attributes_of(self.plan.domain, self.frequencies)

    @cached_property
    def cells(self) -> list[list[list[Accuracy]]]:
        """[protocol][epsilon][attribute]"""
        return [[accuracies(ms, self.truths, self.terms) for ms in row] for row in self.plan.mechanisms]

    @cached_property
    def errors(self) -> Floats:
        """[protocol, epsilon, attribute], mean squared."""
        return np.array([[[accuracy.mse for accuracy in cell] for cell in row] for row in self.cells])

    @cached_property
    def rows(self) -> list[PlanRow]:
        """What to expect of each cell, protocol by protocol."""
        return [self.row(p, e) for p in range(len(self.plan.looks)) for e in range(len(self.plan.epsilons))]

    def row(self, p: int, e: int) -> PlanRow:
        """What to expect of one cell."""
        plan, ms, terms, needed = self.plan, self.plan.mechanisms[p][e], self.terms, self.users_needed[p][e]
        mse, bits = float(self.errors[p, e].mean()), _bits(ms, plan.partial[p])
        rough, users_rough = (
            n is not None and is_rough(ms, self.truths, terms._replace(n=n)) for n in (terms.n, needed)
        )
        asked = bool(self.targets) or self.target_rmse is not None
        one, whole = losses(ms, [1, plan.d]).tolist()
        row = PlanRow(plan.protocols[p], float(plan.epsilons[e]), mse, math.sqrt(mse), needed, bits, rough, users_rough)
        return row._replace(
            unreachable="more than 2**53" if asked and needed is None else None,  # no simulation has so many
            loss_one=one,
            loss_all=whole,
            claimed=any(m.claimed for m in ms),
            first_report=any(m.spent < m.budget for m in ms),
            users=terms.n,
            column_rmse=tuple(np.sqrt(self.errors[p, e]).tolist()),
        )

    @cached_property
    def users_needed(self) -> list[list[int | None]]:
        """[protocol][epsilon]: the smallest n that reaches the target; None without one, or if 2**53 are too few."""
        return [[self._needed(p, e) for e in range(len(self.plan.epsilons))] for p in range(len(self.plan.looks))]

    def _needed(self, p: int, e: int) -> int | None:
        ms = self.plan.mechanisms[p][e]
        if self.target_rmse is not None:
            target = self.target_rmse * self.target_rmse
            ratio = float(self.errors[p, e].mean()) / target  # an error is nearly proportional to 1 / n
            return self._fewest(lambda n: mse_of(ms, self.truths, self.terms._replace(n=n)) <= target, ms[0], ratio)
        if not self.targets:
            return None
        hard = {j: self.cells[p][e][j].margin / target for j, target in self.targets.items()}
        ordered = {j: self.targets[j] for j in sorted(hard, key=lambda j: -hard[j])}  # what fails, fails at once
        ratio = min(max(hard.values()), 2.0**26) ** 2
        return self._fewest(lambda n: reached(lambda j: self.accuracy(p, e, j, n), ordered), ms[0], ratio)

    def users_to_be_useful(self, p: int, e: int, j: int) -> int | None:
        """From how many users on a column is useful, its frequencies kept."""
        return self._fewest(lambda n: self.accuracy(p, e, j, n).useful, self.plan.mechanism(p, e, j))

    def _fewest(self, enough: Callable[[int], bool], m: Mechanism, ratio: float = 1.0) -> int | None:
        """The smallest n that is enough, looked for around `ratio` times as many; None if 2**53 are too few.

        What is enough stays so with more users.  Balanced groups are of equal size only if d divides n, so there errors
        have small steps: the smallest multiple of d is found, then the numbers just below it are tried one by one.
        """
        step = m.d if self.terms.assignment == "balanced" and m.recipe.unsampled.samples else 1
        low, high, stride = 0, MAX_USERS // step, 1  # multiples of the step: too few, enough
        most = high
        if not enough(most * step):
            return None
        guess = self.terms.n if math.isnan(ratio) else math.ceil(self.terms.n * min(ratio, 2.0**60))
        probe = max(1, min(most - 1, -(-guess // step)))
        while high - low > 1:
            low, high = (low, probe) if enough(probe * step) else (probe, high)
            if low == 0:  # away from the guess, ever faster; then between the two
                probe = max(1, high - stride)
            else:
                probe = min(low + stride, most - 1) if high == most else (low + high) // 2
            stride *= 2
        return next((n for n in range((high - 1) * step + 1, high * step) if enough(n)), high * step)

    def accuracy(self, p: int, e: int, j: int, n: int | None = None) -> Accuracy:
        """Of a column, with these or another number of users."""
        if n is None:
            return self.cells[p][e][j]
        return Accuracy(self.plan.mechanism(p, e, j), self.truths[j], j, self.terms._replace(n=n))

    @cached_property
    def ascending(self) -> list[int]:
        """The epsilons, from the smallest on."""
        return [int(e) for e in np.argsort(self.plan.epsilons)]

    @property
    def cell(self) -> tuple[int, int]:
        """Protocol and epsilon of the choice; if there is none, of the smallest error at the largest epsilon."""
        if self.choice is not None:
            return self.choice.protocol, self.choice.epsilon
        largest = self.ascending[-1]
        return self.smallest(largest, range(len(self.plan.looks)), range(self.plan.d)), largest

    def smallest(self, e: int, protocols: Sequence[int], columns: Sequence[int], weights: Any = 1.0) -> int:
        """The protocol with the smallest mean squared error over some columns; of equal ones the first."""
        means = (self.errors[np.ix_(protocols, [e], columns)][:, 0] * weights).mean(axis=-1)
        means = np.where(np.isnan(means), np.inf, means)
        return protocols[int(np.argmax(means <= means.min() * (1 + TIE)))]

    @cached_property
    def choice(self) -> Choice | None:
        """The recommended cell; None if no column is useful at any epsilon.

        With targets: the smallest epsilon at which a protocol meets them all, or else the largest.  Without: the
        smallest epsilon at which as many columns are useful with some protocol as at the largest one.  Of the protocols
        then, that with the smallest error in these columns.
        """
        every, largest = range(len(self.plan.looks)), self.ascending[-1]
        if self.targets:
            columns = tuple(sorted(self.targets))
            weights = np.array([self.targets[j] for j in columns]) ** -2.0
            for e in self.ascending:
                fit = [p for p in every if reached(self.cells[p][e].__getitem__, self.targets)]
                if fit:
                    return Choice(self.smallest(e, fit, columns, weights), e, columns, True)
            return Choice(self.smallest(largest, every, columns, weights), largest, columns, False)
        useful = [[tuple(j for j, a in enumerate(cell) if a.useful) for cell in row] for row in self.cells]
        most = max(len(row[largest]) for row in useful)
        if not most:
            return None
        e = next(e for e in self.ascending if max(len(row[e]) for row in useful) >= most)
        most = max(len(row[e]) for row in useful)
        fit = [p for p in every if len(useful[p][e]) == most]
        columns = useful[self.smallest(e, fit, sorted({j for p in fit for j in useful[p][e]}))][e]
        return Choice(self.smallest(e, [p for p in fit if useful[p][e] == columns], columns), e, columns)


def digits(place: int) -> float:
    """The numbers of three digits in order: 0.01 is the first, 0.0101 the next."""
    return float(f"{100 + place % 900}e{place // 900 - 4}")


def below(epsilon: float) -> float:
    """The number of three digits just below one."""
    decade = math.floor(math.log10(epsilon) + 1e-9)
    return digits(round(epsilon * 10.0 ** (2 - decade)) - 100 + 900 * (decade + 2) - 1)


def reached(column: Callable[[int], Accuracy], targets: Mapping[int, float]) -> bool:
    """Whether the estimates of every column with a target are as close as that asks for."""
    return all(column(j).coverage(target) >= LEVEL for j, target in targets.items())


def read_targets(target: Any, names: Sequence[str]) -> dict[int, float]:
    """Margins that are asked for, by column: 0.01, "1%", "sex=1%,city=0.5%" or a mapping; a number is for every column.

    Raises
    ------
    InputError
        If a column is unknown or named twice, or a target is not above 0 and below 1.
    """
    pairs = [("", target)]
    if isinstance(target, str):  # a name may have a comma or an equals sign in it
        known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        pairs = re.findall(rf"\s*(?:({known}|[^,]*?)\s*=)?\s*([^,]+?)\s*(?:,|$)", target)
    elif target is None or isinstance(target, Mapping):
        pairs = [(str(name), value) for name, value in (target or {}).items()]
    if not pairs and target is not None:
        raise InputError(f"target={target!r} is empty; a margin is needed, such as 1% or sex=1%,city=0.5%")
    found: dict[int, float] = {}
    for name, value in pairs:
        margin = _share(name, value)
        if name == "":
            found = {**dict.fromkeys(range(len(names)), margin), **found}
        elif name not in names:
            raise InputError(unknown_name(name, names, "column", " of target"))
        else:
            found[list(names).index(name)] = margin
    named = [name for name, _ in pairs]
    if len(set(named)) < len(named):
        twice = max(named, key=named.count)
        raise InputError(f"target={target!r} names {repr(twice) if twice else 'every column'} twice")
    return found


def _share(name: str, value: Any) -> float:
    """0.01 or "1%"."""
    text, shown = str(value).strip(), f"{name}={value}" if name else str(value)
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 < share < 1 or isinstance(value, bool):
        raise InputError(f"target={shown} must be above 0 and below 100 %, such as 1% or 0.01")
    if isinstance(value, str) and not text.endswith("%") and share >= AMBIGUOUS:
        meant = " or ".join(f"{name}{'=' * bool(name)}{number:g}%" for number in (100 * share, share))
        raise InputError(f"target={shown} may mean {100 * share:g} points or {share:g} %; give {meant}")
    return share
