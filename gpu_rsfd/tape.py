"""The tape: every random word of a simulation, addressed by what it is for (stream version 1).

This is the only module that knows the layout of the stream.  A word is a pure function of
(seed, stream, column, repetition, index): never of a thread, a chunk, a batch or a device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import ASSIGNMENTS as ASSIGNMENTS
from gpu_rsfd.checks import one_of

Words = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.unsignedinteger]
Uniforms = npt.NDArray[np.uint32]

STREAM_VERSION = 1

# Every stream there is: the second half of the Philox key.  A new use takes a number that no other has, and a place in
# tests/backends/test_streams.py.
DATA, ASSIGN, VALUE, BITS, BALANCE, MEMO, CHOICE, FAKES = range(8)  # the tape: docs/stream.md says what is read
COUNTS, MARGINALS = 16, 20  # the samplers: four streams each, backends/exact/substreams.py
PRIORS = 32  # priors that are drawn at random: protocols/priors.py
DECISION = 33  # the made-up users that `plan` attacks: theory/decision.py

BALANCE_ROUNDS = 8
SMALLEST_NETWORK = 256  # points of the permutation behind `balanced` assignment, however few the users

LEVELS = 24  # binary digits of the uniform behind a report bit
ONE = 1 << LEVELS  # thresholds of bits are integers out of ONE
KEEP_ONE = 1 << 32  # thresholds of the keep draw are integers out of KEEP_ONE
LANES = 64  # users per word of the BITS stream

SHORT_ROWS = 32  # words: up to so many, rows at random addresses are made all at once

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_PHILOX = np.array([0xD2E7470EE14C6C93, 0xCA5A826395121157], np.uint64)[:, None, None]  # multipliers of Philox4x64
_WEYL = np.array([0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B], np.uint64)[:, None, None]  # what its keys grow by


def check_assignment(assignment: object) -> str:
    return one_of("assignment", assignment, ASSIGNMENTS)


def code_dtype(k: int) -> np.dtype[np.unsignedinteger]:
    """The narrowest unsigned type that holds 0 … k - 1."""
    return np.min_scalar_type(max(k - 1, 0))


def scale(words: Words, k: int) -> Codes:
    """`((w >> 32) * k) >> 32`: a uniform value in 0 … k - 1 from the high half of each word."""
    return _scaled(words, k).astype(code_dtype(k))


def by_thresholds(words: Words, thresholds: Words, k: int) -> Codes:
    """v if exactly v of the k - 1 ascending thresholds (out of 2**32) are <= the high half: any distribution."""
    return np.searchsorted(thresholds, words >> _HALF, side="right").astype(code_dtype(k))


def fake_values(words: Words, k: int, prior: tuple[int, ...] | None) -> Codes:
    """Fake values from the VALUE words: uniform ones are `scale`, those of a prior come from the same high half."""
    return scale(words, k) if prior is None else by_thresholds(words, np.array(prior, np.uint64), k)


def _scaled(words: Words, k: int) -> Words:
    high = words >> _HALF
    high *= np.uint64(k)
    high >>= _HALF
    return high


def keep_draw(words: Words) -> Words:
    """`h = w & 0xffffffff`: the keep draw of GRR from the low half of each word."""
    return words & _LOW


def _round(x: Words, key: np.uint64) -> Words:
    """27 well mixed bits of (x, key): the round function of the Feistel network."""
    z = (x ^ key) * np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> _HALF
    z *= np.uint64(0x94D049BB133111EB)
    return z >> np.uint64(37)


def _walked(permutation: Words, n: int) -> Words:
    """Where each point's walk along its cycle first falls below n, all points at once by doubling the steps."""
    ahead = np.arange(len(permutation), dtype=np.uint64)
    ahead[n:] = permutation[n:]  # a point below n stays, any other goes one step
    for _ in range(len(permutation).bit_length()):
        ahead = ahead[ahead]
    return ahead[permutation]


def digits_to_numbers(words: Words) -> npt.NDArray[np.uint32]:
    """Words [group, level] of binary digits of 64 users each -> their numbers [group, user].

    Eight levels of eight users are a square of bits: it is turned over its diagonal inside one word.
    """
    groups, levels = words.shape
    squares = words.astype("<u8", copy=False).view(np.uint8).reshape(groups, levels // 8, 8, 8).swapaxes(2, 3)
    x = np.ascontiguousarray(squares).view("<u8")
    for distance, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0)):
        shift = np.uint64(distance)
        swapped = (x ^ (x >> shift)) & np.uint64(mask)
        x ^= swapped
        x ^= swapped << shift
    numbers = np.zeros((groups, LANES, 4), np.uint8)
    numbers[:, :, : levels // 8] = x.view(np.uint8).reshape(groups, levels // 8, LANES).swapaxes(1, 2)
    return numbers.view("<u4")[:, :, 0]


def halves(words: Words, count: int) -> Words:
    """[..., count]: half v mod 2 of word v // 2, the low one first; 32 bits each."""
    pairs = np.stack([words & _LOW, words >> _HALF], axis=-1)
    return pairs.reshape(*words.shape[:-1], -1)[..., :count]


def _blocks(even: Words, odd: Words, key: Words) -> Words:
    """Philox4x64-10 of many counters at once, [row, block, 4]: of their words 0 and 2, and 1 and 3, [2, row, block]."""
    for _ in range(10):
        low, high, by_low, by_high = even & _LOW, even >> _HALF, _PHILOX & _LOW, _PHILOX >> _HALF
        middle = high * by_low + (low * by_low >> _HALF)
        top = high * by_high + (middle >> _HALF) + ((middle & _LOW) + low * by_high >> _HALF)
        even, odd, key = top[::-1] ^ odd ^ key, (even * _PHILOX)[::-1], key + _WEYL
    return np.stack([even[0], odd[0], even[1], odd[1]], axis=-1)


class Tape:
    """The words of one seed.  `numpy.random.Philox(key=[seed, S], counter=[i // 4, column, rep, place])`."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._philox = np.random.Philox(key=0)
        # One generator, moved by its state: ten times cheaper than a new one per run of words.
        self._state: Any = self._philox.state
        self._counter, self._key = self._state["state"]["counter"], self._state["state"]["key"]

    def words(self, stream: int, column: int, repetition: int, start: int, stop: int, place: int = 0) -> Words:
        """Words start … stop - 1 of a column, without drawing those before them.

        `place` tells the rounds of a collection apart, and what is remembered of each value.
        """
        skip = start % 4
        self._key[:] = self._seed, stream
        self._counter[:] = start // 4, column, repetition, place
        self._philox.state = self._state
        raw: Words = self._philox.random_raw(stop - start + skip)
        return raw[skip:]

    def at(self, stream: int, columns: Words, repetition: int, places: Words, count: int) -> Words:
        """[row, count]: the first words at many addresses, each with a column and a place of its own."""
        if count > SHORT_ROWS:
            rows = zip(columns.tolist(), places.tolist(), strict=True)
            return np.array([self.words(stream, column, repetition, 0, count, place) for column, place in rows])
        blocks = np.arange(1, -(-count // 4) + 1, dtype=np.uint64)
        even, odd = np.stack([blocks, np.full_like(blocks, repetition)]), np.stack([columns, places])
        found = _blocks(even[:, None], odd[:, :, None], np.array([self._seed, stream], np.uint64)[:, None, None])
        return found.reshape(len(columns), -1)[:, :count]

    def data(self, attribute: int, start: int, stop: int, round: int = 0) -> Words:
        """The word behind each user's synthetic value; this tape's seed is the data set's own.

        In a later round: behind whether it is a new one, and which.
        """
        return self.words(DATA, attribute, 0, start, stop, round)

    def assigned(
        self, assignment: str, repetition: int, n: int, d: int, start: int, stop: int, place: int = 0
    ) -> npt.NDArray[np.int64]:
        """The sampled attribute of each of the users start … stop - 1 of n.

        `uniform`: each user independently.  `balanced`: position modulo d in a random permutation of all n users.
        `place`: the round, if users sample afresh in each.
        """
        if assignment == "uniform":
            return _scaled(self.words(ASSIGN, 0, repetition, start, stop, place), d).view(np.int64)
        return (self.positions(repetition, n, start, stop, place) % np.uint64(d)).view(np.int64)

    def positions(self, repetition: int, n: int, start: int, stop: int, place: int = 0) -> Words:
        """Where users start … stop - 1 stand in a random permutation of 0 … n - 1.

        A Feistel network on b >= bits of n - 1 digits, walked along its cycle until it falls below n, then rotated by
        a uniform shift.  Keys and shift are the words 0 … 8 of column 0 of the BALANCE stream.
        """
        *keys, shift = self.words(BALANCE, 0, repetition, 0, BALANCE_ROUNDS + 1, place)
        bits = max(SMALLEST_NETWORK.bit_length() - 1, (n - 1).bit_length())
        low = np.uint64(bits // 2)
        low_mask, high_mask = np.uint64((1 << bits // 2) - 1), np.uint64((1 << (bits - bits // 2)) - 1)

        def permute(x: Words) -> Words:
            left, right = x >> low, x & low_mask
            for i, key in enumerate(keys):
                if i % 2 == 0:
                    left = left ^ (_round(right, key) & high_mask)
                else:
                    right = right ^ (_round(left, key) & low_mask)
            return left << low | right

        if n < 1 << bits == SMALLEST_NETWORK:  # few users: most points lie outside, and a walk takes up to 255 steps
            x = _walked(permute(np.arange(SMALLEST_NETWORK, dtype=np.uint64)), n)[start:stop]
        else:
            x = permute(np.arange(start, stop, dtype=np.uint64))
            outside = np.flatnonzero(x >= np.uint64(n))
            while len(outside):
                x[outside] = permute(x[outside])
                outside = outside[x[outside] >= np.uint64(n)]
        x += np.uint64((int(shift) >> 32) * n >> 32 if n <= KEEP_ONE else int(shift) % n)
        x[x >= np.uint64(n)] -= np.uint64(n)
        return x

    def value(self, attribute: int, repetition: int, start: int, stop: int, place: int = 0) -> Words:
        """Each user's word for a uniform value y (`scale`) and a keep draw h (`keep_draw`)."""
        return self.words(VALUE, attribute, repetition, start, stop, place)

    def bits(self, column: int, repetition: int, group: int, groups: int, place: int = 0) -> Words:
        """[groups, LEVELS]: bit b of word [g, l] is digit l of U of user 64 (group + g) + b."""
        first = group * LEVELS
        return self.words(BITS, column, repetition, first, first + groups * LEVELS, place).reshape(groups, LEVELS)

    def uniforms(self, column: int, repetition: int, start: int, stop: int) -> npt.NDArray[np.uint32]:
        """U(user, column) of users start … stop - 1: the BITS stream put together digit by digit."""
        return self.uniforms_of(range(column, column + 1), repetition, start, stop)[0]

    def uniforms_of(self, columns: range, repetition: int, start: int, stop: int, place: int = 0) -> Uniforms:
        """[column, user]: those of several columns, put together at once."""
        group = start // LANES
        words = [self.bits(column, repetition, group, -(-stop // LANES) - group, place) for column in columns]
        u = digits_to_numbers(words[0] if len(words) == 1 else np.concatenate(words)).reshape(len(columns), -1)
        return u[:, start - group * LANES :][:, : stop - start]
