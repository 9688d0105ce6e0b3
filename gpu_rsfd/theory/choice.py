"""A recommendation, computed: which protocol and epsilon, how accurate each column is, and what is left out and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import Mechanism, PrivacySettings, Protocol, mechanisms
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.theory.attacked import Risk
from gpu_rsfd.theory.columns import Accuracy, Setting, Truth, is_useful
from gpu_rsfd.theory.expected import Floats, attributes_of, mse_of_each
from gpu_rsfd.theory.needs import NO_TARGETS, group_step, reached, smallest_users, users_for

EPSILONS = (0.01, 20.0)  # where the smallest one for a target is looked for
TIE = 1e-9  # relative: errors closer than this are equal


class Column(NamedTuple):
    """What to expect of one column under the recommendation.  Errors are parts of 1: 0.012 is 1.2 points."""

    name: str
    values: int
    noise: str  # how it is randomised: grr, oue-z, …
    margin: float  # 95 % of its estimated frequencies are within it
    rmse: float
    uniform_error: float  # of guessing that all values are equally frequent: the signal
    sample_error: float  # of a sample of the same size without privacy
    hidden: int  # values that can't be distinguished from zero
    held: int  # values that anybody has
    best: str  # the protocol with the smallest error of this column at the same epsilon
    useful: bool  # its error is below its signal, or its margin below half an even share
    users_needed: int | None = None  # where it is not: from how many users on it is
    target: float | None = None
    guessed: float = math.nan  # the share of users whose value an attacker guesses
    guessed_baseline: float = math.nan  # without a report


@dataclass(frozen=True)
class Decision:
    """A recommendation and the numbers behind it.

    Attributes
    ----------
    dataset : str
        What it is for.
    users : int
        How many users.
    guarantee : str
        What epsilon bounds.
    protocol, label : str
        The recommended protocol; empty if no column is useful.
    epsilon : float
        The recommended epsilon.
    columns : tuple of Column
        Every column, also those that are left out (`useful` is False).
    loss_one, loss_all : float
        The exact privacy loss between users who differ in one attribute, and between any two users.
    reached : bool or None
        Whether the targets are met; None without targets.
    users_needed : int or None
        The smallest number of users that meets the targets at this epsilon.
    attacked_users : int
        Users of the simulated attack; 0 if there was none.
    sentences : tuple of str
        Which, how accurate, how risky.
    more : str
        What more users or another epsilon would buy.
    left_out : str
        The columns that are not useful, and why; empty if all are.
    command : str or None
        The sweep that shows the evidence.
    """

    dataset: str
    users: int
    guarantee: str
    protocol: str = ""
    label: str = ""
    epsilon: float = math.nan
    columns: tuple[Column, ...] = ()
    loss_one: float = math.nan
    loss_all: float = math.nan
    reached: bool | None = None
    users_needed: int | None = None
    attacked_users: int = 0
    sentences: tuple[str, ...] = ()
    more: str = ""
    left_out: str = ""
    command: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return "\n".join(filter(None, (*self.sentences, self.more, self.left_out)))

    @property
    def useful(self) -> tuple[Column, ...]:
        """The columns that the recommendation is for."""
        return tuple(column for column in self.columns if column.useful)


class Case:
    """What is to be decided: protocols and epsilons as a plan, for users with these frequencies."""

    def __init__(
        self,
        plan: Plan,
        names: Sequence[str],
        frequencies: Floats,
        setting: Setting,
        targets: Mapping[int, float] = NO_TARGETS,
        searched: bool = False,
    ) -> None:
        self.plan, self.names, self.frequencies, self.setting = plan, names, frequencies, setting
        self.targets = targets  # margins, by column
        self.searched = searched  # whether the smallest epsilon for them was looked for
        attributes = attributes_of(plan.domain, frequencies)
        known = {f: Truth(f) for f in dict.fromkeys(attributes)}
        self.truths = [known[f] for f in attributes]
        cells = [[mse_of_each(ms, setting.n, attributes, *setting[1:]) for ms in row] for row in plan.mechanisms]
        self.errors: Floats = np.array(cells)  # [protocol, epsilon, attribute], mean squared
        self._accuracies: dict[tuple[int, ...], Accuracy] = {}

    @cached_property
    def ascending(self) -> list[int]:
        """The epsilons, from the smallest on."""
        return [int(e) for e in np.argsort(self.plan.epsilons)]

    @property
    def cell(self) -> tuple[int, int]:
        """Protocol and epsilon of the smallest error."""
        largest = self.ascending[-1]
        return self.smallest(largest, range(len(self.plan.looks)), range(self.plan.d)), largest

    def accuracy(self, p: int, e: int, j: int, n: int | None = None) -> Accuracy:
        """Of a column, with these or another number of users."""
        key = (p, e, j, n or self.setting.n)
        if key not in self._accuracies:
            setting = self.setting._replace(n=key[3])
            self._accuracies[key] = Accuracy(self.plan.mechanism(p, e, j), self.truths[j], j, setting)
        return self._accuracies[key]

    def useful(self, p: int, e: int, j: int) -> bool:
        """Whether a column is worth estimating."""
        rmse, truth = math.sqrt(self.errors[p, e, j]), self.truths[j]
        return is_useful(rmse, 0.0 if rmse < truth.uniform_error else self.accuracy(p, e, j).margin, truth)

    def smallest(self, e: int, protocols: Sequence[int], columns: Sequence[int], weights: Any = 1.0) -> int:
        """The protocol with the smallest mean squared error over some columns; of equal ones the first."""
        means = (self.errors[np.ix_(protocols, [e], columns)][:, 0] * weights).mean(axis=-1)
        means = np.where(np.isnan(means), np.inf, means)
        return protocols[int(np.argmax(means <= means.min() * (1 + TIE)))]


class Choice(NamedTuple):
    """A cell of the plan, and the columns that it was chosen for."""

    protocol: int
    epsilon: int
    columns: tuple[int, ...]
    reached: bool | None = None


def choose(case: Case) -> Choice | None:
    """The recommended cell; None if no column is useful at any epsilon.

    With targets: the smallest epsilon at which a protocol meets them all, or else the largest.  Without: the smallest
    epsilon at which every column is useful that is so at the largest one.  Of the protocols then, that with the
    smallest error.
    """
    every = range(len(case.plan.protocols))
    largest = case.ascending[-1]
    if case.targets:
        columns = tuple(sorted(case.targets))
        weights = np.array([case.targets[j] for j in columns]) ** -2.0
        truths = dict(enumerate(case.truths))
        for e in case.ascending:
            fit = [p for p in every if reached(case.plan.mechanisms[p][e], truths, case.targets, case.setting)]
            if fit:
                return Choice(case.smallest(e, fit, columns, weights), e, columns, True)
        return Choice(case.smallest(largest, every, columns, weights), largest, columns, False)
    all_columns = range(case.plan.d)
    useful = {p: tuple(j for j in all_columns if case.useful(p, largest, j)) for p in every}
    most = max(map(len, useful.values()))
    if not most:
        return None
    first = case.smallest(largest, [p for p in every if len(useful[p]) == most], all_columns)
    columns = useful[first]
    for e in case.ascending:
        p = case.smallest(e, every, columns)
        if all(case.useful(p, e, j) for j in columns):
            return Choice(p, e, columns)
    return Choice(first, largest, columns)


def decide(case: Case, chosen: Choice | None, dataset: str, guarantee: str, risk: Risk | None = None) -> Decision:
    """The decision without its sentences; of no column, that of the largest epsilon."""
    setting, every = case.setting, range(len(case.plan.looks))
    p, e = chosen[:2] if chosen else case.cell
    columns = []
    for j, truth in enumerate(case.truths):
        accuracy = case.accuracy(p, e, j)
        useful = case.useful(p, e, j) or (j in case.targets and accuracy.margin <= case.targets[j])
        columns.append(
            Column(
                case.names[j],
                truth.k,
                case.plan.mechanism(p, e, j).name,
                accuracy.margin,
                math.sqrt(case.errors[p, e, j]),
                truth.uniform_error,
                truth.sample_error(setting.n),
                accuracy.hidden,
                truth.held,
                case.plan.looks[case.smallest(e, every, [j])].name,
                useful,
                None if useful else _users_to_be_useful(case, p, e, j),
                case.targets.get(j),
                *((float(risk.values[j]), float(risk.baselines[j])) if risk else ()),
            )
        )
    ms = case.plan.mechanisms[p][e]
    one, whole = losses(ms, [1, len(ms)]).tolist()
    needed = users_for(ms, dict(enumerate(case.truths)), case.targets, setting) if case.targets else None
    return Decision(
        dataset,
        setting.n,
        guarantee,
        case.plan.looks[p].name if chosen else "",
        case.plan.looks[p].label if chosen else "",
        case.plan.epsilons[e],
        tuple(columns),
        one,
        whole,
        chosen.reached if chosen else None,
        needed,
        risk.users if risk else 0,
    )


def _users_to_be_useful(case: Case, p: int, e: int, j: int) -> int | None:
    """From how many users on a column is useful, its frequencies kept."""
    truth, m = case.truths[j], case.plan.mechanism(p, e, j)

    def enough(n: int) -> bool:
        accuracy = Accuracy(m, truth, j, case.setting._replace(n=n))
        return is_useful(accuracy.rmse, accuracy.margin, truth)

    return smallest_users(enough, case.setting.n, group_step(m, case.setting.assignment))


def smallest_epsilon(
    protocols: Sequence[str | Protocol],
    domain: Sequence[int],
    settings: PrivacySettings,
    truths: Sequence[Truth],
    targets: Mapping[int, float],
    setting: Setting,
) -> float | None:
    """The smallest epsilon at which a protocol meets all targets, rounded up to three digits; None if there is none."""
    known, found = dict(enumerate(truths)), []

    def fits(protocol: str | Protocol, epsilon: float) -> bool:
        try:
            ms: Sequence[Mechanism] = mechanisms(protocol, epsilon, domain, settings)
        except InputError:  # too small, or too large, for this protocol
            return False
        return reached(ms, known, targets, setting)

    for protocol in protocols:
        low, high = EPSILONS
        if not fits(protocol, high):
            continue
        while high / low > 1.0005:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if fits(protocol, middle) else (middle, high)
        unit = 10.0 ** (math.floor(math.log10(high)) - 2)
        steps = math.ceil(high / unit - 1e-9)
        rounded = (float(f"{(steps + i) * unit:.6g}") for i in range(20))
        found.append(next((epsilon for epsilon in rounded if fits(protocol, epsilon)), high))
    return min(found, default=None)
