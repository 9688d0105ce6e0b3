"""The attacker who knows the marginals, fast: all users of a chunk at once, all cells that share a report together.

For an attribute's report, L(v) = P(report | v) / P(report | not sampled) takes two values: that of the values that the
report supports, and that of all others.  So a guess is one of two candidates, the most frequent value of each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.measure.reports import Chunk
from gpu_rsfd.planning import Counts, Floats, Plan
from gpu_rsfd.protocols.form import Bits, Keep, Recipe, Sets, Subsets, Unsampled, implementation, prior_frequencies

Indices = npt.NDArray[Any]
Marginals = Callable[[int, int], Floats]  # (attribute, recipe) -> what the attacker takes for its marginal

TIE = 1e-9  # probabilities closer than this, relatively, are equal: floating-point noise must not decide
_NEVER = 1e-250  # stands for the probability 0 of a fake: the report then outweighs everything else

STEPS = 32  # values that are looked at together: most users are done after the first of them


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the report of one attribute says, for each user."""

    frequency: Floats  # [value], and -1 for "no such value"
    likeliest: int  # a priori
    supported: Indices  # the most frequent value that the report supports; k if there is none
    other: Indices  # the most frequent one that it does not support
    high: Floats | float  # L of supported values
    low: Floats | float
    mean: Floats  # Lbar, the mean of L over the attribute's marginal: how much the attribute looks like the sampled one

    def guess(self, elsewhere: Floats | float) -> Indices:
        """The most probable value; `elsewhere`: the sum of Lbar over the other attributes, 0 if there is no hiding."""
        a = self.frequency.take(self.supported) * (self.high + elsewhere)
        b = self.frequency.take(self.other) * (self.low + elsewhere)
        guess = np.where(b < a * (1 - TIE), self.supported, self.other)
        some = np.flatnonzero(np.abs(a - b) <= 2 * TIE * np.abs(b))  # who may be undecided: few
        some = some[(b[some] >= a[some] * (1 - TIE)) & (a[some] >= b[some] * (1 - TIE))]
        guess[some] = np.minimum(self.supported[some], self.other[some])
        return guess


def first(sent: npt.NDArray[np.bool_], order: Indices, bit: bool) -> Indices:
    """Of bits [value, user]: the first value in an order that has this bit, for each user; k if there is none."""
    k, users = sent.shape
    found = np.full(users, k, np.uint16)
    left = np.arange(users)
    for start in range(0, k, STEPS):
        some = order[start : start + STEPS]
        bits = sent[some] if start == 0 else sent[some[:, None], left]
        places = np.negative((bits != bit).view(np.uint8))  # 255 where it has another bit
        places |= np.arange(len(some), dtype=np.uint8)[:, None]
        place = places.min(axis=0)
        found[left] = np.append(some, [np.uint16(k)] * (256 - len(some))).take(place)
        left = left[place == 255]
        if not len(left):
            break
    return found


def look(chunk: Chunk, j: int, recipe: Recipe, f: Floats) -> Evidence:
    """The evidence in the reports of attribute j, to an attacker who knows its marginal f."""
    evidence = implementation(LOOKS, recipe.noise, "the attack")
    order = np.argsort(-f, kind="stable").astype(np.uint16)
    supported, other, high, low, mean, fake = evidence(chunk.sent(j, recipe), recipe, f, order)
    mean *= high - low
    mean += low
    mean /= fake
    return Evidence(np.append(f, -1.0), int(order[0]), supported, other, high / fake, low / fake, mean)


Seen = tuple[Indices, Indices, float, float, Floats, Any]  # supported, other, high, low, mean, P(report | fake)


def _values_seen(sent: Indices, recipe: Recipe, f: Floats, order: Indices) -> Seen:
    k: int = len(f)
    fake: Any = 1.0
    supported = sent.astype(np.uint16)
    other = np.where(supported == order[0], order[1], order[0])
    if recipe.unsampled is Unsampled.FAKE:
        fake = np.maximum(prior_frequencies(recipe.prior, k)[sent], _NEVER)
    return supported, other, recipe.noise.p(k), recipe.noise.q(k), f[sent], fake


def _messages_seen(sent: Indices, recipe: Recipe, f: Floats, order: Indices) -> Seen:
    """What a message says depends on nothing else: worked out for each of them, then looked up."""
    noise, k = recipe.noise, len(f)
    assert isinstance(noise, Sets)
    messages = noise.design.messages
    supported, other = (np.full(messages, k, np.uint16) for _ in range(2))
    mean = np.zeros(messages)
    for v in order[::-1]:  # the most frequent value comes last, and stays
        members = noise.design.members(int(v))
        mean[members] += f[v]
        supported[members] = v
        stays = other[members]
        other[:] = v
        other[members] = stays
    high, low = noise.given
    fake = 1 / messages if recipe.unsampled is Unsampled.FAKE else 1.0
    return supported[sent], other[sent], high, low, mean[sent], fake


def _bits_seen(sent: Indices, recipe: Recipe, f: Floats, order: Indices) -> Seen:
    k: int = len(f)
    fake: Any = 1.0
    p, q = recipe.noise.p(k), recipe.noise.q(k)
    high, low = p / q, (1 - p) / (1 - q)
    if recipe.unsampled is Unsampled.FAKE and recipe.prior is None:
        fake = low + (high - low) / k * sent.sum(axis=0)
    elif recipe.unsampled is Unsampled.FAKE:
        prior = prior_frequencies(recipe.prior, k)
        fake = np.maximum(low + (high - low) * (prior @ sent.astype(np.float64)), _NEVER)
    mean = f @ sent.astype(np.float64)
    return first(sent, order, True), first(sent, order, False), high, low, mean, fake


def _subset_seen(sent: Indices, recipe: Recipe, f: Floats, order: Indices) -> Seen:
    (_, size), k, p = recipe.noise.integers, len(f), recipe.noise.p(len(f))
    mean = f @ sent.astype(np.float64)
    return first(sent, order, True), first(sent, order, False), p / size, (1 - p) / (k - size), mean, 1.0


# noise class -> what a report of it says
LOOKS: dict[type, Callable[[Indices, Recipe, Floats, Indices], Seen]] = {
    Keep: _values_seen,
    Sets: _messages_seen,
    Bits: _bits_seen,
    Subsets: _subset_seen,
}


def right(plan: Plan, chunk: Chunk, marginals: Marginals) -> tuple[Counts, Counts]:
    """Users of a chunk who are guessed right: (sampled [protocol, epsilon], values [protocol, epsilon, attribute]).

    0 where a cell is not asked for, and of the sampled attribute where none is sampled (Spl).
    """
    sampled = np.zeros((len(plan.looks), len(plan.epsilons)), np.int64)
    values = np.zeros((*sampled.shape, plan.d), np.int64)
    codes = [chunk.codes(j) for j in range(plan.d)]
    for p, e, who, guessed in guesses(plan, chunk, marginals):
        if who is not None:
            sampled[p, e] = np.count_nonzero(who == chunk.sampled)
        values[p, e] = [np.count_nonzero(v == x) for v, x in zip(guessed, codes, strict=True)]
    return sampled, values


def guesses(plan: Plan, chunk: Chunk, marginals: Marginals) -> Iterator[tuple[int, int, Indices | None, list[Indices]]]:
    """(protocol, epsilon, each user's sampled attribute or None for Spl, each attribute's values), as guessed.

    Cells with the same recipe of an attribute share its evidence.
    """
    seen = [
        [look(chunk, a.index, recipe, marginals(a.index, r)) for r, recipe in enumerate(a.recipes)]
        for a in plan.attributes
    ]
    for p, row in enumerate(plan.cells):
        for e, cell in enumerate(row):
            if not cell:  # not asked for
                continue
            evidence = [seen[j][r] for j, r in enumerate(cell)]
            others = plan.attributes[0].recipes[cell[0]].unsampled
            if others.hides:
                means = np.stack([one.mean for one in evidence])
                total = means.sum(axis=0)
                sampled = np.argmax(means >= means.max(axis=0) * (1 - TIE), axis=0)
                yield p, e, sampled, [one.guess(np.maximum(total - one.mean, 0)) for one in evidence]
            elif others.samples:  # which attribute it is is sent
                values = [
                    np.where(chunk.sampled == j, one.guess(0.0), np.uint16(one.likeliest))
                    for j, one in enumerate(evidence)
                ]
                yield p, e, chunk.sampled, values
            else:
                yield p, e, None, [one.guess(0.0) for one in evidence]
