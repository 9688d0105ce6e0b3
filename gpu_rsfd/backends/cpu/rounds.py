"""The rounds of a collection for some users at once, with NumPy: the integers of docs/stream.md.

A memo is a function of its address on the tape, so none is kept: when users change their values, the uniforms behind
their memos are drawn again, once for all recipes.  Arrays are [value, user]: users lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import Bits, Keep, Recipe, Unsampled
from gpu_rsfd.tape import CHOICE, FAKES, MEMO, Codes, Tape, fake_values, halves, keep_draw, scale

AT_ONCE, ROWS_AT_ONCE = 1 << 17, 1 << 21  # values x users that stay in the cache; words that are drawn together
FAKING = ("memo", "independent", "fixed", "fresh")  # how RS+FD makes what is sent for attributes not sampled
SAMPLING = ("fixed", "fresh")  # whether a user samples an attribute once, or in each round
ONCE = 1 << 31  # the row of MEMO of a fake that has nothing to do with the value held
FIRST_BIT = 4  # the word where the uniforms of bits begin

Flags = npt.NDArray[np.bool_]


class Sender(NamedTuple):
    """A recipe, and what its users do over rounds: equal ones send equal reports."""

    recipe: Recipe
    fakes: str

    @classmethod
    def of(cls, recipe: Recipe, fakes: str, d: int) -> Sender:
        """Without what makes no difference: a single attribute is everybody's sampled one."""
        if d == 1:
            recipe = Recipe(Unsampled.OWN, recipe.noise)
        return cls(recipe, fakes if recipe.unsampled.hides else "memo")

    @property
    def noise(self) -> Any:
        return self.recipe.noise

    @property
    def permutes(self) -> bool:
        """Whether a fake is what a permutation of the values makes of the value held."""
        return self.fakes == "memo" and self.recipe.prior is None and self.recipe.unsampled is Unsampled.FAKE

    @property
    def rows(self) -> tuple[str, int]:
        """What the rows of MEMO depend on."""
        return ("held" if self.fakes in ("memo", "independent") else self.fakes), self.noise.cells


class Held:
    """What users remember of an attribute: the rows of MEMO of the values that they hold, or fake, now."""

    def __init__(self, users: Users, j: int, k: int, bits: bool) -> None:
        self.users, self.j, self.k = users, j, k
        self.row = np.full(users.size, -1, np.int64)
        self.word = np.zeros(users.size, np.uint64)
        self.uniforms = np.empty((k, users.size) if bits else (0, 0), np.uint32)

    def hold(self, row: npt.NDArray[np.int64]) -> None:
        """Draws the rows of those whose row is another one now."""
        changed = np.flatnonzero(row != self.row)
        self.row = row
        count = FIRST_BIT + (self.k + 1) // 2 if self.uniforms.size else 1
        step = max(1, ROWS_AT_ONCE // count)
        for some in (changed[i : i + step] for i in range(0, len(changed), step)):
            words = self.users.words(MEMO, some, np.uint64(self.j << 32) + row[some].astype(np.uint64), count)
            self.word[some] = words[:, 0]
            if self.uniforms.size:
                self.uniforms[:, some] = (halves(words[:, FIRST_BIT:], self.k) >> np.uint64(8)).T


class Users:
    """The users start … stop - 1 of one repetition, over all rounds."""

    def __init__(
        self, column: Callable[..., Codes], plan: Plan, n: int, tape: Tape, repetition: int, start: int, stop: int,
        sampling: str,
    ) -> None:  # fmt: skip
        self.column, self.plan, self.n, self.repetition = column, plan, n, repetition
        self.start, self.stop, self.size, self.sampling, self.tape = start, stop, stop - start, sampling, tape
        self._sampled: tuple[int, npt.NDArray[np.int64]] = -1, np.empty(0, np.int64)

    def sampled(self, round: int) -> npt.NDArray[np.int64]:
        """The attribute that each user samples in a round."""
        place = round if self.sampling == "fresh" else 0
        if self._sampled[0] != place:
            everyone = self.plan.assignment, self.repetition, self.n, self.plan.d
            self._sampled = place, self.tape.assigned(*everyone, self.start, self.stop, place)
        return self._sampled[1]

    def words(self, stream: int, some: npt.NDArray[np.int64], places: Any, count: int) -> Any:
        """Words of some of these users' own columns."""
        columns = (some + self.start).astype(np.uint64)
        return self.tape.at(stream, columns, self.repetition, np.broadcast_to(places, some.shape), count)

    def keys(self, stream: int, j: int, k: int) -> npt.NDArray[np.uint64]:
        """[user, value]: 32 bits of each value."""
        return halves(self.words(stream, np.arange(self.size), np.uint64(j), (k + 1) // 2), k)

    def hashes(self, j: int, cells: int) -> npt.NDArray[np.uint32]:
        """[value, user]: the cell of each value."""
        found = self.keys(CHOICE, j, self.plan.domain[j]) * np.uint64(cells) >> np.uint64(32)
        return np.ascontiguousarray(found.T.astype(np.uint32))


class Attribute:
    """An attribute of some users, and what it is sent by."""

    def __init__(self, users: Users, j: int, senders: Sequence[Sender]) -> None:
        self.users, self.j, self.senders, self.k = users, j, senders, users.plan.domain[j]
        self.offset = users.plan.domain.offsets[j]
        self.unary = [i for i, sender in enumerate(senders) if isinstance(sender.noise.memo, Bits)]
        kinds = {sender.rows: isinstance(sender.noise.memo, Bits) for sender in senders}
        kinds |= {senders[i].rows: True for i in self.unary}
        self.held = {kind: Held(users, j, self.k, bits) for kind, bits in kinds.items()}
        self.cells = {g: users.hashes(j, g) for g in {sender.noise.cells for sender in senders} if g}

    @cached_property
    def permuted(self) -> npt.NDArray[np.int64]:
        """[user, value]: the rank of each value's key."""
        order = np.argsort(self.users.keys(FAKES, self.j, self.k), axis=1, kind="stable")
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.arange(self.k)[None], axis=1)
        return ranks

    def reports(self, rounds: range, at_once: int = 0) -> Iterator[tuple[int, int, slice, Any]]:
        """(round, number of the sender, values, what is sent), round by round from 0 on.

        What is sent: a value or a cell of each user, for all values at once; or bits [value, user], `at_once` values
        at a time, or as many as stay in the cache.  For Smp also what those would send who did not sample it.
        """
        users, everyone = self.users, np.arange(self.users.size)
        for r in rounds:
            codes = users.column(self.j, users.start, users.stop, r).astype(np.int64)
            mine = users.sampled(r) == self.j
            own = {g: self.cells[g][codes, everyone].astype(np.int64) if g else codes for _, g in self.held}
            for (style, g), held in self.held.items():
                fake = own[g] if style == "held" else ONCE + r * (style == "fresh")
                held.hold(np.where(mine, own[g], fake))
            encoded = [self._encoded(s, own[s.noise.cells], mine) for s in self.senders]
            words = None
            for i, sender in enumerate(self.senders):
                if isinstance(sender.noise.memo, Keep):
                    if words is None:
                        words = users.tape.value(self.j, users.repetition, users.start, users.stop, r + 1)
                    yield r, i, slice(0, self.k), self._value(sender, encoded[i], mine, words)
            step = at_once or max(1, AT_ONCE // users.size)
            for start in range(0, self.k if self.unary else 0, step):
                yield from self._bits(r, slice(start, min(start + step, self.k)), encoded)

    def _encoded(self, sender: Sender, own: npt.NDArray[np.int64], mine: Flags) -> npt.NDArray[np.int64]:
        """The value or cell that each user encodes; -1 for none."""
        recipe, size = sender.recipe, sender.noise.cells or self.k
        if not recipe.unsampled.hides:
            return own
        if recipe.unsampled is Unsampled.ZERO:
            return np.where(mine, own, -1)
        if sender.permutes:
            return np.where(mine, own, self.permuted[np.arange(len(own)), own])
        return np.where(mine, own, fake_values(self.held[sender.rows].word, size, recipe.prior))

    def _value(self, sender: Sender, encoded: npt.NDArray[np.int64], mine: Flags, words: Any) -> Any:
        noise, word = sender.noise, self.held[sender.rows].word
        size = noise.cells or self.k
        kept = keep_draw(word) < np.uint64(noise.memo.threshold)
        if sender.recipe.unsampled.hides and not sender.permutes:
            kept |= ~mine  # whose fake is the uniform value, or that of the prior
        memo = np.where(kept, encoded, scale(word, size))
        return np.where(keep_draw(words) < np.uint64(noise.second.threshold), memo, scale(words, size))

    def _bits(self, r: int, values: slice, encoded: list[Any]) -> Iterator[tuple[int, int, slice, Any]]:
        users, columns = self.users, range(self.offset + values.start, self.offset + values.stop)
        now = users.tape.uniforms_of(columns, users.repetition, users.start, users.stop, r + 1)
        below: dict[Any, Flags] = {}

        def less(rows: Any, uniforms: Any, threshold: int) -> Flags:
            if (rows, threshold) not in below:
                below[rows, threshold] = uniforms < np.uint32(threshold)
            return below[rows, threshold]

        for i in self.unary:
            sender = self.senders[i]
            noise, held = sender.noise, self.held[sender.rows].uniforms[values]
            who = np.flatnonzero((encoded[i] >= values.start) & (encoded[i] < values.stop))
            at = encoded[i][who] - values.start, who
            memo = less(sender.rows, held, noise.memo.tq).copy()
            memo[at] = held[at] < np.uint32(noise.memo.tp)
            memo &= less(None, now, noise.second.tp)
            memo |= less(None, now, noise.second.tq)
            yield r, i, values, memo
