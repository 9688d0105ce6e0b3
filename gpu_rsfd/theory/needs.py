"""Before a collection: the error to expect, the users that a target error takes, the bits that a user sends."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import MAX_USERS, check_epsilon, check_users
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import DEFAULT_SETTINGS, PAPER, Mechanism, PrivacySettings, Protocol, as_protocol, mechanisms
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.spec import PAPER_EPSILONS
from gpu_rsfd.theory import expected as theory
from gpu_rsfd.theory.columns import LEVEL, Accuracy, Setting, Truth

NO_TARGETS: Mapping[int, float] = MappingProxyType({})


class PlanRow(NamedTuple):
    """What to expect of a protocol at an epsilon."""

    protocol: str
    epsilon: float
    mse: float  # expected MSE_avg of n users
    rmse: float  # its square root
    users_needed: int | None  # the smallest n that reaches the target, if one was given: target_rmse, or margins
    bits_per_user: float
    rough: bool = False  # mse is no more than a guide: a clipped error with few reports of some value
    users_rough: bool = False  # the same of users_needed
    unreachable: str | None = None  # why users_needed is None although a target was given
    loss_one: float = math.nan  # the exact privacy loss between users who differ in one attribute
    loss_all: float = math.nan  # and between any two users
    claimed: bool = False  # both are what the protocol's author claims
    first_report: bool = False  # both are of the first report of a longitudinal protocol
    sampled: float = math.nan  # share of users whose sampled attribute an attacker guesses
    sampled_baseline: float = math.nan  # without a report
    value: float = math.nan  # share of values that are guessed
    value_baseline: float = math.nan
    attacked_users: int = 0
    non_dominated: bool = False  # Pareto-optimal in error and losses among the rows of the same users
    users: int = 0  # n
    column_rmse: tuple[float, ...] = ()  # of each column


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
    targets: Mapping[int, float] = NO_TARGETS,
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
    targets : mapping of int to float
        Margins of columns, by number: asks for the users that are needed for all of them.
    frequencies, assignment, postprocess, against, settings
        As for `theory.expected_mse`.

    Returns
    -------
    list of PlanRow
        Protocol by protocol, epsilon by epsilon.
    """
    rows = []
    n, attributes = check_users(n), theory.attributes_of(Domain.of(domain), frequencies)
    truths = {j: Truth(attributes[j]) for j in targets}
    for protocol in protocols:
        for epsilon in epsilons:
            ms = mechanisms(protocol, epsilon, Domain.of(domain), settings)
            each = theory.mse_of_each(ms, n, attributes, assignment, postprocess, against)
            mse = float(each.mean())
            needed = reason = None
            if target_rmse is not None:
                needed = _fewest_users(ms, attributes, target_rmse, assignment, postprocess, against)
            elif targets:
                needed = users_for(ms, truths, targets, Setting(n, assignment, postprocess, against))
            if needed is None and (targets or target_rmse is not None):
                reason = "more than 2**53"  # no simulation has so many
            bits = bits_per_user(protocol, epsilon, domain, settings)
            rough, users_rough = (
                size is not None and theory.is_rough(ms, size, attributes, assignment, postprocess)
                for size in (n, needed)
            )
            one, whole = losses(ms, [1, len(domain)]).tolist()
            rows.append(
                PlanRow(
                    str(protocol),
                    float(epsilon),
                    mse,
                    math.sqrt(mse),
                    needed,
                    bits,
                    rough,
                    users_rough,
                    reason,
                    one,
                    whole,
                    claimed=any(m.claimed for m in ms),
                    first_report=as_protocol(protocol).memoised,
                    users=n,
                    column_rmse=tuple(np.sqrt(each).tolist()),
                )
            )
    return rows


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
    epsilon, domain = check_epsilon(epsilon), Domain.of(domain)
    d = len(domain)
    bits = math.fsum(m.bits for m in mechanisms(protocol, epsilon, domain, settings))
    return bits / d + math.log2(d) if as_protocol(protocol).partial else bits


def _fewest_users(
    ms: Sequence[Mechanism],
    attributes: theory.Attributes,
    target_rmse: float,
    assignment: str,
    postprocess: str,
    against: str,
) -> int | None:
    """The smallest n with sqrt(E[MSE_avg]) <= target_rmse, the frequencies kept; None if 2**53 are too few."""
    if not 0 < target_rmse < math.inf:
        raise InputError(f"target_rmse={target_rmse} must be finite and > 0")
    target = target_rmse * target_rmse

    def mse(n: int) -> float:
        return theory.mse_of(ms, n, attributes, assignment, postprocess, against)

    step, guess = group_step(ms[0], assignment), 1000
    for _ in range(3):  # the error is nearly proportional to 1 / n
        guess = max(1, min(MAX_USERS // step, math.ceil(guess * min(mse(guess * step) / target, 2.0**60))))
    return smallest_users(lambda n: mse(n) <= target, guess * step, step)


def reached(
    ms: Sequence[Mechanism], truths: Mapping[int, Truth], targets: Mapping[int, float], setting: Setting
) -> bool:
    """Whether the estimates of every column with a target are as close as that asks for."""
    return all(Accuracy(ms[j], truths[j], j, setting).coverage(target) >= LEVEL for j, target in targets.items())


def users_for(
    ms: Sequence[Mechanism], truths: Mapping[int, Truth], targets: Mapping[int, float], setting: Setting
) -> int | None:
    """The smallest n that reaches the targets of all columns, or None if 2**53 are too few."""
    hard = {j: Accuracy(ms[j], truths[j], j, setting).margin / target for j, target in targets.items()}
    ordered = {j: targets[j] for j in sorted(hard, key=lambda j: -hard[j])}  # what fails, fails at once
    ratio = min(max(hard.values()), 2.0**26)
    guess = setting.n if math.isnan(ratio) else max(1, min(MAX_USERS, math.ceil(setting.n * ratio * ratio)))
    return smallest_users(
        lambda n: reached(ms, truths, ordered, setting._replace(n=n)), guess, group_step(ms[0], setting.assignment)
    )


def group_step(m: Mechanism, assignment: str) -> int:
    """Users that make balanced groups one larger each, where groups matter; else 1."""
    return m.d if assignment == "balanced" and m.recipe.unsampled.samples else 1


def smallest_users(enough: Callable[[int], bool], guess: int, step: int = 1) -> int | None:
    """The smallest n that is enough, near a guess; None if 2**53 are too few.

    What is enough stays so with more users.  Balanced groups are of equal size only if d divides n, so there errors
    have small steps: the smallest multiple of d is found, then the numbers just below it are tried one by one.
    """
    most = MAX_USERS // step
    if not enough(most * step):
        return None
    low, high, stride = 0, max(1, min(most, -(-guess // step))), 1  # low: does not do (or is 0)
    while not enough(high * step):
        low, high, stride = high, min(high + stride, most), 2 * stride
    stride = 1
    while low == 0 and high > 1:
        probe = max(1, high - stride)
        if enough(probe * step):
            high, stride = probe, 2 * stride
        else:
            low = probe
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle * step) else (middle, high)
    between = range((high - 1) * step + 1, high * step)
    return next((n for n in between if enough(n)), high * step)
