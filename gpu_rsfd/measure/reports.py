"""Every user's report in chunks, vectorised from the tape: bit by bit those of `gpu_rsfd.reports`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends.cpu.subsets import chosen
from gpu_rsfd.backends.literal import Reports
from gpu_rsfd.checks import MAX_USERS, check_epsilon, check_seed, integer
from gpu_rsfd.datasets import as_dataset
from gpu_rsfd.datasets.base import Dataset, check_rows
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import DEFAULT_SETTINGS, PrivacySettings, Protocol
from gpu_rsfd.protocols.form import Bits, Keep, Recipe, Sets, Subsets, Unsampled, implementation
from gpu_rsfd.tape import LANES, Codes, Tape, Words, check_assignment, fake_values, keep_draw, scale

CHUNK_BYTES = 1 << 26  # of a chunk's uniforms and reports
MOST_USERS = 1 << 14
USERS_AT_ONCE = 1 << 12  # x values, whose digits are put together: NumPy's calls then take little of the time
BYTES_PER_RECIPE = 28  # of a user, while a chunk is looked at

Column = Callable[..., Codes]  # (attribute, start, stop), and the round if there are several -> codes


def chunk_users(bytes_per_user: int, n: int) -> int:
    """Users in a chunk: a multiple of 64, which the tape's words are cut by."""
    fit = max(LANES, min(MOST_USERS, CHUNK_BYTES // max(bytes_per_user, 1)) // LANES * LANES)
    return min(fit, -(-n // LANES) * LANES)


def chunk_size(plan: Plan, n: int) -> int:
    """Users in a chunk that is looked at under every recipe of a plan."""
    return chunk_users(16 * max(plan.domain) + BYTES_PER_RECIPE * sum(len(a.recipes) for a in plan.attributes), n)


class Chunk:
    """The users start … stop - 1 of one repetition: what they hold, and their share of the tape.

    Arrays are [value, user] here: users lie side by side.
    """

    def __init__(self, column: Column, plan: Plan, n: int, seed: int, repetition: int, start: int, stop: int) -> None:
        self.plan, self.domain, self.repetition = plan, plan.domain, repetition
        self.start, self.stop, self._n = start, stop, n
        self._column, self.seed, self.tape = column, seed, Tape(seed)
        self._kept: tuple[int, npt.NDArray[np.uint32]] | None = None  # the uniforms of the last attribute
        self._words: tuple[int, Words] | None = None
        self._encoded: dict[Any, tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]] = {}  # places and uniforms

    def part(self, start: int, stop: int) -> Chunk:
        """Some of these users."""
        return Chunk(self._column, self.plan, self._n, self.seed, self.repetition, start, stop)

    def sampled_at(self, round: int) -> npt.NDArray[np.int64]:
        """The attribute that each user samples, if there is another one in each round of a collection."""
        everyone = self.plan.assignment, self.repetition, self._n, len(self.domain)
        return self.tape.assigned(*everyone, self.start, self.stop, round)

    @cached_property
    def sampled(self) -> npt.NDArray[np.int64]:
        """The attribute that each user samples."""
        return self.sampled_at(0)

    def codes(self, j: int, *round: int) -> Codes:
        return self._column(j, self.start, self.stop, *round)

    def _value_words(self, j: int) -> Words:
        if self._words is None or self._words[0] != j:
            self._words = j, self.tape.value(j, self.repetition, self.start, self.stop)
        return self._words[1]

    def uniforms(self, j: int) -> npt.NDArray[np.uint32]:
        """U, [value, user]: the tape's binary digits, put together."""
        if self._kept is None or self._kept[0] != j:
            offset, k = self.domain.offsets[j], self.domain[j]
            out = np.empty((k, self.stop - self.start), np.uint32)
            step = -(-USERS_AT_ONCE // out.shape[1])
            for v in range(0, k, step):
                some = range(offset + v, offset + min(v + step, k))
                out[v : v + step] = self.tape.uniforms_of(some, self.repetition, self.start, self.stop)
            self._kept = j, out
        return self._kept[1]

    def sent(self, j: int, recipe: Recipe) -> npt.NDArray[Any]:
        """What all these users send for an attribute: values or messages [user], or bits [value, user].

        For Smp also those of users who did not sample it: they would send this if they had.
        """
        mine = self.sampled == j if recipe.unsampled.hides else None
        return implementation(SENT, recipe.noise, "report_chunks")(self, j, recipe, mine)

    def sent_values(self, j: int, recipe: Recipe, mine: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
        """`Keep`: values [user]; `Sets`: messages [user]."""
        noise, k, words, own = recipe.noise, self.domain[j], self._value_words(j), self.codes(j)
        assert isinstance(noise, (Keep, Sets))
        if noise.design is not None:
            own = noise.design.elements(own, scale(words, noise.design.size))
        uniform = scale(words, noise.messages(k))
        values = np.where(keep_draw(words) < np.uint64(noise.threshold), own, uniform)
        if mine is None:
            return values
        return np.where(mine, values, uniform if recipe.prior is None else fake_values(words, k, recipe.prior))

    def sent_bits(self, j: int, recipe: Recipe, mine: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
        """`Bits`: bits [value, user]."""
        (tp, tq), k, own, u = recipe.noise.integers, self.domain[j], self.codes(j), self.uniforms(j)
        bits = u < tq
        key = j, recipe.unsampled, recipe.prior
        if key not in self._encoded:  # most recipes encode the same values
            encoded, users = own, np.arange(len(own))
            if mine is not None and recipe.unsampled is Unsampled.ZERO:
                encoded, users = own[mine], users[mine]
            elif mine is not None:
                encoded = np.where(mine, own, fake_values(self._value_words(j), k, recipe.prior))
            places = encoded * np.int64(len(own)) + users
            self._encoded = {key: (places, u.ravel()[places])}
        places, drawn = self._encoded[key]
        bits.ravel()[places] = drawn < tp
        return bits

    def sent_subsets(self, j: int, recipe: Recipe, mine: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
        """`Subsets`: bits [value, user]."""
        return chosen(self.uniforms(j), self.codes(j), *recipe.noise.integers)

    def reports(self, protocol: str, epsilon: float) -> ReportChunk:
        """What these users send under a protocol and epsilon of the plan."""
        p, e = self.plan.protocols.index(protocol), self.plan.epsilons.index(epsilon)
        values: list[npt.NDArray[Any]] = []
        senders: list[npt.NDArray[np.int64]] = []
        ms = self.plan.mechanisms[p][e]
        for j, m in enumerate(ms):
            sent = self.sent(j, m.recipe)
            alone = m.recipe.unsampled is Unsampled.NOTHING
            who = np.flatnonzero(self.sampled == j) if alone else np.arange(sent.shape[-1])
            senders.append(who + self.start)
            unary = m.recipe.unary
            values.append(np.ascontiguousarray(sent.T[who], np.uint8) if unary else sent[who].astype(np.int64))
        return ReportChunk(values, senders, self.sampled, ms, self.start, self.stop)


# noise class -> what is sent; `mine`: who sampled the attribute, None if all randomise their own value
SENT: dict[type, Callable[[Chunk, int, Recipe, npt.NDArray[np.bool_] | None], npt.NDArray[Any]]] = {
    Keep: Chunk.sent_values,
    Sets: Chunk.sent_values,
    Bits: Chunk.sent_bits,
    Subsets: Chunk.sent_subsets,
}


@dataclass(frozen=True, eq=False, repr=False)
class ReportChunk(Reports):
    """Reports of the users `start` … `stop` - 1.

    Attributes
    ----------
    start, stop : int
        The users of this chunk.
    values, users, sampled, mechanisms
        As in `Reports`; `sampled` has an entry for each user of the chunk.
    """

    start: int
    stop: int


def report_chunks(
    data: Dataset | str | os.PathLike[str],
    protocol: str | Protocol,
    epsilon: float,
    seed: int = 0,
    repetition: int = 0,
    assignment: str = "uniform",
    settings: PrivacySettings = DEFAULT_SETTINGS,
    users: int | None = None,
    guarantee: str | None = None,
) -> Iterator[ReportChunk]:
    """What each user sends in one repetition, some users at a time; for simulation only.

    These are the reports of `reports`, bit by bit, for data sets of any size and much faster: for your own attacks and
    estimators.

    Parameters
    ----------
    data : Dataset, str or path
        As in `simulate`.
    protocol, epsilon, seed, repetition, assignment, settings, guarantee
        As in `reports`.
    users : int, optional
        Users in a chunk.  Default: as many as fit into a few megabytes.

    Yields
    ------
    ReportChunk
        The reports of the users start … stop - 1.

    Examples
    --------
    >>> data = gpu_rsfd.SyntheticDataset(100, (3, 4))
    >>> chunks = gpu_rsfd.report_chunks(data, "rsfd-grr", 1.0, users=64)
    >>> [(chunk.start, chunk.stop) for chunk in chunks]
    [(0, 64), (64, 100)]
    """
    check_assignment(assignment)
    data = as_dataset(data)
    check_rows(data, "users")
    plan = Plan.of(data.domain, [protocol], [check_epsilon(epsilon)], assignment, settings.under(guarantee))
    seed, repetition = check_seed(seed), integer("repetition", repetition, 0, 2**64 - 1)
    size = chunk_users(8 * data.domain.total, data.n) if users is None else integer("users", users, 1, MAX_USERS)
    return (
        Chunk(data.column, plan, data.n, seed, repetition, start, min(start + size, data.n)).reports(
            plan.protocols[0], plan.epsilons[0]
        )
        for start in range(0, data.n, size)
    )
