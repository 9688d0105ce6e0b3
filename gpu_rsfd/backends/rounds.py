"""What each user sends in a round of a collection over time, read straight from docs/stream.md.

Slow and obvious on purpose: user by user, attribute by attribute, word by word.  What NumPy makes must be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.datasets.evolving import EvolvingDataset
from gpu_rsfd.protocols import Bits, Keep, Recipe, Unsampled
from gpu_rsfd.protocols.form import Chain, unknown_noise
from gpu_rsfd.tape import CHOICE, FAKES, LANES, LEVELS, MEMO, VALUE, Tape, check_assignment

FAKING = ("memo", "independent", "fixed", "fresh")  # how RS+FD makes what is sent for attributes not sampled
SAMPLING = ("fixed", "fresh")  # whether a user samples an attribute once, or in each round
ONCE = 1 << 31  # the row of a fake that has nothing to do with the value held


class Habits(NamedTuple):
    """What users do over rounds, beside their noise."""

    fakes: str = "memo"
    sampling: str = "fixed"


def row_of_fake(fakes: str, held: int, round: int) -> int:
    """Which row of the MEMO stream a fake is made from."""
    return {"fixed": ONCE, "fresh": ONCE + round}.get(fakes, held)


class _User:
    """One user's share of the tape in one repetition."""

    def __init__(self, tape: Tape, repetition: int, u: int) -> None:
        self._tape, self._repetition, self.u = tape, repetition, u

    def word(self, stream: int, column: int, i: int, place: int = 0) -> int:
        return int(self._tape.words(stream, column, self._repetition, i, i + 1, place)[0])

    def half(self, stream: int, i: int, v: int, place: int) -> int:
        """Half v mod 2, low one first, of word i + v // 2 of the user's own column."""
        return self.word(stream, self.u, i + v // 2, place) >> 32 * (v % 2) & 0xFFFFFFFF

    def hashed(self, j: int, v: int, cells: int) -> int:
        """The cell of a value, by a hash that the user keeps; the value itself if there are no cells."""
        return self.half(CHOICE, 0, v, j) * cells >> 32 if cells else v

    def permuted(self, j: int, v: int, k: int) -> int:
        """The rank of the value's key among those of all values."""
        keys = [(self.half(FAKES, 0, other, j), other) for other in range(k)]
        return sorted(keys).index(keys[v])

    def uniform(self, column: int, place: int) -> int:
        """U, 24 bits: digit by digit from the BITS stream."""
        group, lane = divmod(self.u, LANES)
        words = self._tape.bits(column, self._repetition, group, 1, place)[0]
        return sum((int(words[level]) >> lane & 1) << level for level in range(LEVELS))


def remembered(user: _User, j: int, held: int, k: int, recipe: Recipe, mine: bool, fakes: str, round: int) -> Any:
    """The memo: a value or a cell, or a bit for each value."""
    noise: Any = recipe.noise
    size = noise.cells or k
    permutes = fakes == "memo" and recipe.prior is None
    place = j << 32 | (held if mine else row_of_fake(fakes, held, round))
    word = user.word(MEMO, user.u, 0, place)
    y = (word >> 32) * size >> 32 if recipe.prior is None else sum(t <= word >> 32 for t in recipe.prior)
    if isinstance(noise.memo, Keep):
        encoded = held if mine else user.permuted(j, held, size) if permutes else y
        return encoded if word & 0xFFFFFFFF < noise.memo.threshold and (mine or permutes) else y
    encoded = held if mine else -1 if recipe.unsampled is Unsampled.ZERO else y
    if permutes and not mine and recipe.unsampled is Unsampled.FAKE:
        encoded = user.permuted(j, held, k)
    uniforms = [user.half(MEMO, 4, b, place) >> 8 for b in range(k)]
    return [u < (noise.memo.tp if b == encoded else noise.memo.tq) for b, u in enumerate(uniforms)]


def sent(user: _User, j: int, column: int, memo: Any, k: int, noise: Chain, round: int) -> Any:
    """The memo, randomised again: a value, or a bit for each value."""
    second = noise.second
    if isinstance(second, Bits):
        u = [user.uniform(column + b, round + 1) for b in range(k)]
        return [u[b] < (second.tp if memo[b] else second.tq) for b in range(k)]
    word, size = user.word(VALUE, j, user.u, round + 1), noise.cells or k
    report = memo if word & 0xFFFFFFFF < second.threshold else (word >> 32) * size >> 32
    return [user.hashed(j, v, noise.cells) == report for v in range(k)] if noise.cells else report


def literal_round(
    data: EvolvingDataset, recipes: Sequence[Recipe], seed: int, repetition: int, assignment: str, habits: Habits,
    round: int,
) -> tuple[list[npt.NDArray[Any]], list[npt.NDArray[np.int64]], npt.NDArray[np.int64]]:  # fmt: skip
    """(values, users, sampled) of `Reports`, in one round, for recipes whose noises are chains."""
    for recipe in recipes:
        if not isinstance(recipe.noise, Chain):
            raise unknown_noise((Chain,), recipe.noise, "the literal reports of rounds")
    tape, place = Tape(seed), round if habits.sampling == "fresh" else 0
    everyone = check_assignment(assignment), repetition, data.n, data.d, 0, data.n
    sampled = tape.assigned_words(*everyone, place).astype(np.int64)
    values, users = list[npt.NDArray[Any]](), list[npt.NDArray[np.int64]]()
    for j, (k, offset, recipe) in enumerate(zip(data.domain, data.domain.offsets, recipes, strict=True)):
        noise: Any = recipe.noise
        codes, made, senders = data.column(j, 0, data.n, round).tolist(), [], []
        for u, v in enumerate(codes):
            user, mine = _User(tape, repetition, u), recipe.unsampled is Unsampled.OWN or sampled[u] == j
            if mine or recipe.unsampled is not Unsampled.NOTHING:
                held = user.hashed(j, v, noise.cells)
                memo = remembered(user, j, held, k, recipe, mine, habits.fakes, round)
                made.append(sent(user, j, offset, memo, k, noise, round))
                senders.append(u)
        values.append(np.array(made, np.uint8).reshape(-1, k) if recipe.unary else np.array(made, np.int64))
        users.append(np.array(senders, np.int64))
    return values, users, sampled
