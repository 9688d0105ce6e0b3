"""A collection over rounds, read word by word from docs/stream.md: nothing of gpu_rsfd is used but the integers.

Every word is made by Philox4x64-10 itself, every report bit by bit.
"""

from functools import lru_cache

import numpy as np

MASK = 2**64 - 1
ASSIGN, VALUE, BITS, BALANCE, MEMO, CHOICE, FAKES = 1, 2, 3, 4, 5, 6, 7


@lru_cache(maxsize=1 << 18)
def block(seed, stream, first, column, repetition, place):
    c, k = [first, column, repetition, place], [seed, stream]
    for _ in range(10):
        a, b = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(b >> 64) ^ c[1] ^ k[0], b & MASK, (a >> 64) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B97F4A7C15) & MASK, (k[1] + 0xBB67AE8584CAA73B) & MASK]
    return c


class Tape:
    def __init__(self, seed, repetition):
        self.seed, self.repetition = seed, repetition

    def word(self, stream, column, i, place):
        return block(self.seed, stream, 1 + i // 4, column, self.repetition, place)[i % 4]

    def half(self, stream, column, i, v, place):
        return self.word(stream, column, i + v // 2, place) >> (32 if v % 2 else 0) & 0xFFFFFFFF

    def uniform(self, column, user, place):
        words = [self.word(BITS, column, user // 64 * 24 + level, place) for level in range(24)]
        return sum((word >> user % 64 & 1) << level for level, word in enumerate(words))

    def sampled(self, user, n, d, assignment, place):
        if assignment == "uniform":
            return (self.word(ASSIGN, 0, user, place) >> 32) * d >> 32
        *keys, shift = (self.word(BALANCE, 0, i, place) for i in range(9))
        bits = max(8, (n - 1).bit_length())
        low, x = bits // 2, user
        while True:
            left, right = x >> low, x % 2**low
            for i, key in enumerate(keys):
                side = right if i % 2 == 0 else left
                z = (side ^ key) * 0xBF58476D1CE4E5B9 & MASK
                z = (z ^ z >> 32) * 0x94D049BB133111EB & MASK
                if i % 2 == 0:
                    left ^= (z >> 37) % 2 ** (bits - low)
                else:
                    right ^= (z >> 37) % 2**low
            x = (left << low) + right
            if x < n:
                return (x + ((shift >> 32) * n >> 32)) % n % d


def report(tape, user, j, offset, k, held, round, mine, noise, others, prior, fakes):
    """The values that a user's report speaks for."""
    integers, cells = noise.integers[:-1], noise.integers[-1]
    size = cells or k

    def cell(v):
        return tape.half(CHOICE, user, 0, v, j) * cells >> 32 if cells else v

    c = cell(held)
    row = c if mine or fakes in ("memo", "independent") else 2**31 + (round if fakes == "fresh" else 0)
    place = j * 2**32 + row
    first = tape.word(MEMO, user, 0, place)
    y = (first >> 32) * size >> 32 if prior is None else sum(t <= first >> 32 for t in prior)
    permuted = fakes == "memo" and prior is None and others == "fake"
    if permuted and not mine:
        keys = [tape.half(FAKES, user, 0, v, j) for v in range(size)]
        image = sum((key, v) < (keys[c], c) for v, key in enumerate(keys))
    if len(integers) == 2:
        k1, k2 = integers
        kept = first % 2**32 < k1
        memo = (c if kept else y) if mine else (image if permuted and kept else y)
        word = tape.word(VALUE, j, user, round + 1)
        sent = memo if word % 2**32 < k2 else (word >> 32) * size >> 32
        return [v for v in range(k) if cell(v) == sent]
    tp1, tq1, tp2, tq2 = integers
    encoded = c if mine else None if others == "zero" else image if permuted else y
    found = []
    for b in range(k):
        one = tape.half(MEMO, user, 4, b, place) >> 8 < (tp1 if b == encoded else tq1)
        if tape.uniform(offset + b, user, round + 1) < (tp2 if one else tq2):
            found.append(b)
    return found


def collected(codes, domain, recipes, seed, repetition, assignment, fakes, sampling):
    """Counts [round, value] of codes [user, attribute, round], and reporters [round, attribute]."""
    n, d, rounds = codes.shape
    tape, offsets = Tape(seed, repetition), [sum(domain[:j]) for j in range(d)]
    counts, reporters = np.zeros((rounds, sum(domain)), int), np.zeros((rounds, d), int)
    for r in range(rounds):
        for user in range(n):
            a = tape.sampled(user, n, d, assignment, r if sampling == "fresh" else 0)
            for j, (k, recipe) in enumerate(zip(domain, recipes, strict=True)):
                others, held = recipe.unsampled.value, int(codes[user, j, r])
                mine = others == "own" or a == j
                if mine or others != "nothing":
                    reporters[r, j] += 1
                    what = tape, user, j, offsets[j], k, held, r, mine, recipe.noise, others, recipe.prior, fakes
                    for v in report(*what):
                        counts[r, offsets[j] + v] += 1
    return counts, reporters
