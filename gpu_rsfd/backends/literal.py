"""What each user sends, read straight from the paper: the reference that every backend must agree with.

Slow and obvious on purpose: user by user, attribute by attribute.  The only source of randomness is the tape.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import check_epsilon, check_seed, integer
from gpu_rsfd.datasets import as_dataset
from gpu_rsfd.datasets.base import Dataset, check_rows
from gpu_rsfd.domain import Domain
from gpu_rsfd.protocols import DEFAULT_SETTINGS, Mechanism, PrivacySettings, Protocol, mechanisms
from gpu_rsfd.protocols.form import Bits, Keep, Recipe, Sets, Subsets, Unsampled, implementation
from gpu_rsfd.tape import LEVELS, Tape, Words, check_assignment, fake_values, keep_draw

_BLOCK = 4096  # users whose words are drawn together


@dataclass(frozen=True, eq=False, repr=False)
class Reports:
    """The reports of one repetition.

    Attributes
    ----------
    values : list of ndarray
        ``values[j]`` is what the users ``users[j]`` send for attribute j: a value each (GRR, int64 of shape (m,)), a
        message each (HR, PGR, int64 of shape (m,)) or a bit vector each (unary encodings and subsets, uint8 of shape
        (m, k)).  m is n, or for Smp the number of users who sampled attribute j.
    users : list of ndarray
        The users who report each attribute, in ascending order.
    sampled : ndarray
        The attribute that each user sampled: secret under RS+FD, sent under Smp, unused by Spl.
    mechanisms : tuple of Mechanism
        The mechanism of each attribute.
    """

    values: list[npt.NDArray[Any]]
    users: list[npt.NDArray[np.int64]]
    sampled: npt.NDArray[np.int64]
    mechanisms: tuple[Mechanism, ...]

    def __repr__(self) -> str:
        kinds = ", ".join(dict.fromkeys(m.name for m in self.mechanisms))
        return f"{type(self).__name__}({len(self.sampled):,} users, d={len(self.values)}; {kinds})"

    def counts(self) -> npt.NDArray[np.int64]:
        """Number of reports of each value, or that support it; the values of all attributes, in order."""
        each = zip(self.values, self.mechanisms, strict=True)
        return np.concatenate([reported(sent, m.k, m.recipe) for sent, m in each])


class User:
    """One user's share of the words: what Section 3 calls random."""

    def __init__(self, tape: Block, i: int) -> None:
        self._tape, self._i = tape, i

    def sample_attribute(self) -> int:
        """j <- Uniform({1, …, d})"""
        return int(self._tape.sampled[self._i])

    def uniform(self, j: int, count: int) -> int:
        """y <- Uniform({1, …, count}), of values or of messages"""
        return (int(self._tape.words[j][self._i]) >> 32) * count >> 32

    def fake_value(self, j: int) -> int:
        """y <- the prior of fake values; uniform if there is none"""
        return int(self._tape.fake[j][self._i])

    def keep(self, j: int, noise: Keep | Sets) -> bool:
        """True with probability p - q (of `Keep`)"""
        return int(self._tape.h[j][self._i]) < noise.threshold

    def uniforms(self, j: int) -> npt.NDArray[np.uint32]:
        """One 24-bit uniform per bit of attribute j's vector"""
        return self._tape.u[j][self._i]


class Block:
    """The words of some users, whoever draws them: a tape, or the operating system.

    `sampled` is the attribute of each user; `words[j]` has a word of 64 bits for each, and `u[j]` their 24-bit uniforms
    [user, value], if attribute j is sent as bits.
    """

    def __init__(
        self, sampled: npt.NDArray[Any], words: list[Words], u: list[Any], domain: Domain, recipes: Sequence[Recipe]
    ) -> None:
        self.sampled, self.words, self.u = sampled, words, u
        self.fake = [fake_values(w, k, r.prior) for w, k, r in zip(words, domain, recipes, strict=True)]
        self.h = [keep_draw(w) for w in words]

    @classmethod
    def of_tape(
        cls,
        tape: Tape,
        assignment: str,
        repetition: int,
        data: Dataset,
        recipes: Sequence[Recipe],
        start: int,
        stop: int,
    ) -> Block:
        """The users start … stop - 1 of a simulation."""
        u = [
            np.stack([tape.uniforms(offset + v, repetition, start, stop) for v in range(k)], axis=1)
            if recipe.unary
            else np.empty(0, np.uint32)
            for k, offset, recipe in zip(data.domain, data.domain.offsets, recipes, strict=True)
        ]
        sampled = tape.assigned(assignment, repetition, data.n, data.d, start, stop)
        return cls(sampled, [tape.value(j, repetition, start, stop) for j in range(data.d)], u, data.domain, recipes)


def grr(user: User, j: int, v: int, k: int, noise: Keep) -> int:
    """Section 2.2.1: the true value with probability p, any other with probability q.

    The same distribution, drawn as: keep v with probability p - q, otherwise take a uniform one of all k values.
    """
    return v if user.keep(j, noise) else user.uniform(j, k)


def message(user: User, j: int, v: int, noise: Sets) -> int:
    """A message: a uniform one of the value's own with the probability to keep, otherwise a uniform one of all."""
    design = noise.design
    if user.keep(j, noise):
        return int(design.members(v)[user.uniform(j, design.size)])
    return user.uniform(j, design.messages)


def encode(v: int, k: int) -> npt.NDArray[np.uint8]:
    """B = [0, 0, …, 1, 0, … 0]"""
    return (np.arange(k) == v).astype(np.uint8)


def unary(user: User, j: int, bits: npt.NDArray[np.uint8], noise: Bits) -> npt.NDArray[np.uint8]:
    """Section 2.2.2, OUE or SUE: Pr[B'[i] = 1] is p if B[i] = 1 and q if B[i] = 0."""
    threshold = np.where(bits == 1, noise.tp, noise.tq)
    return (user.uniforms(j) < threshold).astype(np.uint8)


def subset(user: User, j: int, v: int, k: int, noise: Subsets) -> npt.NDArray[np.uint8]:
    """A set of `size` values, as bits: the own one with probability p; the others in order, each set equally likely."""
    u = user.uniforms(j).tolist()
    bits = np.zeros(k, np.uint8)
    bits[v] = u[v] < noise.tp
    others = [i for i in range(k) if i != v]
    for place, i in enumerate(others):
        needed, left = noise.size - int(bits.sum()), len(others) - place
        bits[i] = u[i] * left < needed << LEVELS
    return bits


def _fake_message(user: User, i: int, k: int, recipe: Recipe) -> int:
    assert isinstance(recipe.noise, Sets)
    return user.uniform(i, recipe.noise.design.messages)


def _fake_bits(user: User, i: int, k: int, recipe: Recipe) -> npt.NDArray[np.uint8]:
    """Algorithm 2, lines 6 and 7 (no value at all); Algorithm 3, lines 6 to 8"""
    encoded = np.zeros(k, np.uint8) if recipe.unsampled is Unsampled.ZERO else encode(user.fake_value(i), k)
    assert isinstance(recipe.noise, Bits)
    return unary(user, i, encoded, recipe.noise)


def _no_fake(user: User, i: int, k: int, recipe: Recipe) -> Any:
    raise TypeError(f"{recipe} has no fakes")


# noise class -> (what is sent for the sampled attribute, what for one that was not sampled)
LITERAL: dict[type, tuple[Callable[[User, int, int, int, Any], Any], Callable[[User, int, int, Recipe], Any]]] = {
    Keep: (grr, lambda user, i, k, recipe: user.fake_value(i)),  # Algorithm 1, line 6
    Sets: (lambda user, j, v, k, noise: message(user, j, v, noise), _fake_message),
    Bits: (lambda user, j, v, k, noise: unary(user, j, encode(v, k), noise), _fake_bits),
    Subsets: (subset, _no_fake),
}
WHO = "the literal reports"


def send(user: User, v: list[int], domain: Domain, recipes: Sequence[Recipe]) -> dict[int, Any]:
    """What a user sends, per attribute.

    Spl: every attribute randomised.  Smp: the sampled one alone.  RS+FD, Algorithms 1, 2 and 3: the sampled attribute
    randomised, hidden among fakes.
    """
    y: dict[int, Any] = {}
    for j, (k, recipe) in enumerate(zip(domain, recipes, strict=True)):
        randomize, fake = implementation(LITERAL, recipe.noise, WHO)
        if recipe.unsampled is Unsampled.OWN or user.sample_attribute() == j:
            y[j] = randomize(user, j, v[j], k, recipe.noise)
        elif recipe.unsampled is not Unsampled.NOTHING:
            y[j] = fake(user, j, k, recipe)
    return y


def literal(
    data: Dataset, recipes: Sequence[Recipe], seed: int, repetition: int, assignment: str
) -> tuple[list[npt.NDArray[Any]], list[npt.NDArray[np.int64]], npt.NDArray[np.int64]]:
    """(values, users, sampled) of `Reports`, for any recipes: one for each attribute."""
    for recipe in recipes:
        implementation(LITERAL, recipe.noise, WHO)  # or an error, whoever sampled what
    tape = Tape(seed)
    sent: list[list[Any]] = [[] for _ in recipes]
    senders: list[list[int]] = [[] for _ in recipes]
    sampled = np.empty(data.n, np.int64)
    for start in range(0, data.n, _BLOCK):
        stop = min(start + _BLOCK, data.n)
        block = Block.of_tape(tape, assignment, repetition, data, recipes, start, stop)
        codes = np.stack([data.column(j, start, stop) for j in range(data.d)], axis=1, dtype=np.int64).tolist()
        sampled[start:stop] = block.sampled
        for i, v in enumerate(codes):
            for j, y in send(User(block, i), v, data.domain, recipes).items():
                sent[j].append(y)
                senders[j].append(start + i)
    values = [
        np.array(y, np.uint8).reshape(-1, k) if recipe.unary else np.array(y, np.int64)
        for y, k, recipe in zip(sent, data.domain, recipes, strict=True)
    ]
    return values, [np.array(s, np.int64) for s in senders], sampled


def reported(values: npt.NDArray[Any], k: int, recipe: Recipe) -> npt.NDArray[np.int64]:
    """How often each value was reported: by values, by messages that support it, or by bit vectors."""
    return supported(heard(values, k, recipe), k, recipe)


def heard(values: npt.NDArray[Any], k: int, recipe: Recipe) -> npt.NDArray[np.int64]:
    """How often each value or message was sent, or each bit was set."""
    noise = recipe.noise
    if isinstance(noise, (Keep, Sets)):
        return np.bincount(values, minlength=noise.messages(k))
    return values.sum(axis=0, dtype=np.int64)


def supported(sent: npt.NDArray[np.int64], k: int, recipe: Recipe) -> npt.NDArray[np.int64]:
    """How often each value was reported, from what was `heard`."""
    return recipe.noise.design.supported(sent, k) if isinstance(recipe.noise, Sets) else sent


def reports(
    data: Dataset | str | os.PathLike[str],
    protocol: str | Protocol,
    epsilon: float,
    seed: int = 0,
    repetition: int = 0,
    assignment: str = "uniform",
    settings: PrivacySettings = DEFAULT_SETTINGS,
    guarantee: str | None = None,
) -> Reports:
    """What each user sends in one repetition; for simulation only, since the seed gives the values away.

    These are the reports behind the counts of `simulate`, bit by bit, made user by user as in the paper's algorithms.
    `report_chunks` is much faster.

    Parameters
    ----------
    data : Dataset, str or path
        As in `simulate`.
    protocol : str or Protocol
        Name of a protocol, or a user-defined protocol.
    epsilon : float
        The total budget.
    seed, repetition : int
        Which repetition, of which seed.
    assignment : {'uniform', 'balanced'}
        How users sample an attribute.
    settings : PrivacySettings
        The guarantee, the prior of fake values, and the first report of longitudinal protocols.
    guarantee : {'paper', 'user', 'attribute'}, optional
        What epsilon bounds.  Default: the guarantee of `settings`, which is `paper` unless set; `plan` assumes `user`.

    Returns
    -------
    Reports
        What was sent, and by whom.

    Examples
    --------
    >>> data = gpu_rsfd.SyntheticDataset(100, (3, 4))
    >>> sent = gpu_rsfd.reports(data, "smp-oue", 1.0)
    >>> [bits.shape[1] for bits in sent.values], sum(map(len, sent.users))
    ([3, 4], 100)
    """
    check_assignment(assignment)
    seed, repetition = check_seed(seed), integer("repetition", repetition, 0, 2**64 - 1)
    epsilon, data = check_epsilon(epsilon), as_dataset(data)
    check_rows(data, "users")
    ms = mechanisms(protocol, epsilon, data.domain, settings, guarantee)
    return Reports(*literal(data, [m.recipe for m in ms], seed, repetition, assignment), ms)
