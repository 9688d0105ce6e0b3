"""What users send over the rounds of a collection, with NumPy: the integers of docs/stream.md.

A memo is a function of its address on the tape, so none is kept: when users change their values, the uniforms behind
their memos are drawn again, once for all recipes.  Arrays are [value, user]: users lie side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.measure.reports import Chunk
from gpu_rsfd.planning import AttributePlan
from gpu_rsfd.protocols import Recipe, Unsampled
from gpu_rsfd.tape import CHOICE, FAKES, MEMO, Uniforms, Words, fake_values, halves, keep_draw, scale

AT_ONCE, ROWS_AT_ONCE = 1 << 17, 1 << 21  # values x users that stay in the cache; words that are drawn together
FAKING = ("memo", "independent", "fixed", "fresh")  # how RS+FD makes what is sent for attributes not sampled
SAMPLING = ("fixed", "fresh")  # whether a user samples an attribute once, or in each round
ONCE = 1 << 31  # the row of MEMO of a fake that has nothing to do with the value held
FIRST_BIT = 4  # the word where the uniforms of bits begin

Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]


class Sender(NamedTuple):
    """A recipe, and what its users do over rounds: equal ones send equal reports."""

    recipe: Recipe
    fakes: str
    noise: Any  # the recipe's

    @classmethod
    def of(cls, recipe: Recipe, fakes: str) -> Sender:
        """Without what makes no difference where nothing is faked."""
        return cls(recipe, fakes if recipe.unsampled.hides else "memo", recipe.noise)

    @property
    def rows(self) -> tuple[str, int]:
        """What the rows of MEMO depend on."""
        return ("held" if self.fakes in ("memo", "independent") else self.fakes), self.noise.cells


class Attribute:
    """An attribute of some users over rounds, and what it is sent by."""

    def __init__(self, chunk: Chunk, sampling: str, plan: AttributePlan, senders: Sequence[Sender]) -> None:
        self.chunk, self.sampling, self.senders = chunk, sampling, senders
        self.j, self.k, self.offset = plan.index, plan.k, plan.offset
        self.everyone = np.arange(chunk.start, chunk.stop, dtype=np.uint64)
        kinds = sorted((sender.rows, sender.noise.memo.unary) for sender in senders)
        self.held = {rows: Held(self, unary) for rows, unary in kinds}  # with bits if any of them sends bits
        self.cells = {g: self._hashes(g) for g in {sender.noise.cells for sender in senders} if g}

    def _keys(self, stream: int) -> Words:
        """[user, value]: 32 bits of each value."""
        places = np.full(len(self.everyone), self.j, np.uint64)
        words = self.chunk.tape.at(stream, self.everyone, self.chunk.repetition, places, (self.k + 1) // 2)
        return halves(words, self.k)

    def _hashes(self, cells: int) -> Codes:
        """[value, user]: the cell of each value."""
        return np.ascontiguousarray((self._keys(CHOICE) * np.uint64(cells) >> np.uint64(32)).T.astype(np.int64))

    @cached_property
    def permuted(self) -> Codes:
        """[user, value]: the rank of each value's key."""
        return self._keys(FAKES).argsort(axis=1, kind="stable").argsort(axis=1)

    def reports(self, rounds: int, at_once: int = 0) -> Iterator[tuple[int, Sender, Flags, slice, Any]]:
        """(round, sender, who samples it, values, what is sent), round by round.

        What is sent: a value or a cell of each user, for all values at once; or bits [value, user], `at_once` values
        at a time, or as many as stay in the cache.  For Smp also what those would send who did not sample it.
        """
        chunk, users = self.chunk, np.arange(len(self.everyone))
        step = at_once or max(1, AT_ONCE // len(users))
        for r in range(rounds):
            codes = chunk.codes(self.j, r).astype(np.int64)
            mine = (chunk.sampled_at(r) if self.sampling == "fresh" else chunk.sampled) == self.j
            own = {g: self.cells[g][codes, users] if g else codes for _, g in self.held}
            for (style, g), held in self.held.items():
                held.hold(np.where(mine, own[g], own[g] if style == "held" else ONCE + r * (style == "fresh")))
            words, unary = chunk.tape.value(self.j, chunk.repetition, chunk.start, chunk.stop, r + 1), []
            for sender in self.senders:
                encoded = self._encoded(sender, own[sender.noise.cells], mine)
                if sender.noise.memo.unary:
                    unary.append((sender, encoded))
                else:
                    yield r, sender, mine, slice(0, self.k), self._value(sender, encoded, words)
            for start in range(0, self.k if unary else 0, step):
                some = range(start, min(start + step, self.k))
                columns = range(self.offset + some.start, self.offset + some.stop)
                now = chunk.tape.uniforms_of(columns, chunk.repetition, chunk.start, chunk.stop, r + 1)
                for sender, encoded in unary:
                    yield r, sender, mine, slice(some.start, some.stop), self._bits(sender, encoded, some, now)

    def _encoded(self, sender: Sender, own: Codes, mine: Flags) -> Codes:
        """The value or cell that each user encodes; -1 for none."""
        others, prior = sender.recipe.unsampled, sender.recipe.prior
        fake: Any = -1
        if not others.hides:
            return own
        if others is Unsampled.FAKE and sender.fakes == "memo" and prior is None:
            fake = self.permuted[np.arange(len(own)), own]
        elif others is Unsampled.FAKE:
            fake = fake_values(self.held[sender.rows].word, self.k, prior)
        return np.where(mine, own, fake)

    def _value(self, sender: Sender, encoded: Codes, words: Words) -> Any:
        noise, word = sender.noise, self.held[sender.rows].word
        size = noise.cells or self.k
        memo = np.where(keep_draw(word) < np.uint64(noise.memo.threshold), encoded, scale(word, size))
        return np.where(keep_draw(words) < np.uint64(noise.second.threshold), memo, scale(words, size))

    def _bits(self, sender: Sender, encoded: Codes, values: range, now: Uniforms) -> Flags:
        noise, held = sender.noise, self.held[sender.rows].uniforms[values.start : values.stop]
        who = np.flatnonzero((encoded >= values.start) & (encoded < values.stop))
        at = encoded[who] - values.start, who
        memo = held < np.uint32(noise.memo.tq)
        memo[at] = held[at] < np.uint32(noise.memo.tp)
        return memo & (now < np.uint32(noise.second.tp)) | (now < np.uint32(noise.second.tq))


class Held:
    """What users remember of an attribute: the rows of MEMO of the values that they hold, or fake, now."""

    def __init__(self, attribute: Attribute, bits: bool) -> None:
        self.attribute, users = attribute, len(attribute.everyone)
        self.row, self.word = np.full(users, -1), np.zeros(users, np.uint64)
        self.uniforms = np.empty((attribute.k, users) if bits else (0, users), np.uint32)

    def hold(self, row: Codes) -> None:
        """Draws the rows of those whose row is another one now."""
        a, changed = self.attribute, np.flatnonzero(row != self.row)
        count = FIRST_BIT + (a.k + 1) // 2 if len(self.uniforms) else 1
        self.row, step = row, max(1, ROWS_AT_ONCE // count)
        for some in (changed[i : i + step] for i in range(0, len(changed), step)):
            places = np.uint64(a.j << 32) + row[some].astype(np.uint64)
            words = a.chunk.tape.at(MEMO, a.everyone[some], a.chunk.repetition, places, count)
            self.word[some] = words[:, 0]
            self.uniforms[:, some] = (halves(words[:, FIRST_BIT:], len(self.uniforms)) >> np.uint64(8)).T
