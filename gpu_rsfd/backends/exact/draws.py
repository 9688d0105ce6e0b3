"""The exact distributions of the counts, drawn without any user's report.  Arrays are [attribute, value, row]."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpu_rsfd.backends.exact.substreams import FAKE, OWN, RECIPE, Part, Streams
from gpu_rsfd.planning import Counts, Floats
from gpu_rsfd.protocols import Bits, Keep, Recipe, Sets, Subsets, Unsampled, prior_frequencies
from gpu_rsfd.protocols.designs import Design
from gpu_rsfd.protocols.form import Chain, implementation
from gpu_rsfd.tape import KEEP_ONE, ONE

MOST_PLACES = 1 << 22  # numbers that subset selection holds at once, twice
NEVER = 1e-30  # relative to the likeliest
_SMALL = 16  # below this, Stirling's series is replaced by a table


def ones(draw: np.random.Generator, threshold: float, users: Counts, rows: int) -> Counts:
    """Unary encodings: the 1s of so many users, Bin(users, threshold / 2**24)."""
    return draw.binomial(users, threshold / ONE, (*users.shape[:2], rows))


def kept_or_any(
    draw: np.random.Generator, keep: float, design: Design | None, holders: Counts, reporters: Counts | int, rows: int
) -> Counts:
    """A value is kept with probability keep = p - q, else it is uniform over all k values.

    Message sets: a member of the value's set with probability keep, else a uniform one of all messages.  The members
    are drawn user by user, or set by set where there are more users than members of sets.
    """
    kept = draw.binomial(holders, keep, (*holders.shape[:2], rows))
    others = reporters - kept.sum(axis=1, keepdims=True)
    if design is None:
        kept += uniform_values(draw, others, holders.shape[1])
        return kept
    attributes, k, size = len(holders), holders.shape[1], design.size
    sent = uniform_values(draw, others, design.messages).swapaxes(1, 2)  # [attribute, row, message]
    if kept.sum() > k * size * attributes * rows:
        for v, members in enumerate(design.sets(k)):
            sent[..., members] += draw.multinomial(kept[:, v], np.full(size, 1 / size))
    else:
        place, values = np.divmod(np.repeat(np.arange(kept.size), kept.swapaxes(1, 2).ravel()), k)
        messages = design.elements(values, draw.integers(size, size=len(values), dtype=np.uint32))
        cells = place * design.messages + messages
        sent += np.bincount(cells, minlength=sent.size).reshape(sent.shape)
    return design.supported(sent, k).swapaxes(1, 2)


def subsets(draw: np.random.Generator, p: float, size: int, holders: Counts, rows: int) -> Counts:
    """Subset selection: how many sets have each value, some rows at a time."""
    attributes, k = holders.shape[:2]
    holding = np.broadcast_to(holders, (attributes, k, rows)).swapaxes(0, 1).reshape(k, -1)
    step = max(1, MOST_PLACES // (k * (size + 1)))
    parts = [_sets(draw, p, size, holding[:, i : i + step]) for i in range(0, holding.shape[1], step)]
    return np.concatenate(parts, axis=1).reshape(k, attributes, rows).swapaxes(0, 1)


def _sets(draw: np.random.Generator, p: float, size: int, holding: Counts) -> Counts:
    """[value, row] users -> how many of their sets have each value.

    Of the other values in a set some are below the user's own and the rest above.  Those above are drawn upwards, value
    by value, and those below downwards: users with as many left to draw are alike, whatever their own value is.
    """
    k = len(holding)
    own = draw.binomial(holding, p)
    out, splits = own.copy(), []  # of each value, with and without it: others in the set, fewest below, [below, row]
    for v in range(k):
        for users, others in ((own[v], size - 1), (holding[v] - own[v], size)):
            fewest, shares = hypergeometric_shares(v, k - 1 - v, others)
            splits.append((others, fewest, draw.multinomial(users, shares).T))
    up, down = left = np.zeros((2, size + 1, holding.shape[1]), np.int64)  # users by how many are left to draw
    to_draw = np.arange(size + 1)[:, None]
    for v, w in zip(range(k), reversed(range(k)), strict=True):
        drawn = draw.binomial(left, np.minimum(to_draw / (k - v), 1.0))
        left -= drawn
        left[:, :-1] += drawn[:, 1:]
        out[v] += drawn[0].sum(axis=0)
        out[w] += drawn[1].sum(axis=0)
        for others, fewest, users in splits[2 * v : 2 * v + 2]:
            up[others - fewest - len(users) + 1 : others - fewest + 1] += users[::-1]
        for _, fewest, users in splits[2 * w : 2 * w + 2]:
            down[fewest : fewest + len(users)] += users
    return out


def hypergeometric_shares(good: int, bad: int, sample: int) -> tuple[int, Floats]:
    """P(x of `sample` without replacement are good), from the first x on that is not all but impossible."""
    first, last = max(0, sample - bad), min(sample, good)
    x = np.arange(first, last)
    ratios = (good - x) * (sample - x) / ((x + 1.0) * (bad - sample + x + 1))  # of neighbours
    logs = np.cumsum(np.log(ratios))
    shares = np.exp(np.append(0.0, logs) - max(0.0, logs.max(initial=0.0)))
    possible = np.flatnonzero(shares > NEVER)
    shares = shares[possible[0] : possible[-1] + 1]
    return first + int(possible[0]), shares / shares.sum()


def uniform_values(draw: np.random.Generator, users: Counts, k: int) -> Counts:
    """[attribute, 1, row] users, each with a uniform value -> how many have each value, [attribute, value, row]."""
    return values_of(draw, users, np.full(k, 1 / k))


def values_of(draw: np.random.Generator, users: Counts, distribution: Floats) -> Counts:
    """The same for any distribution of the values."""
    values: Counts = draw.multinomial(users[:, 0], distribution)
    return values.swapaxes(1, 2)


def thinned(draw: np.random.Generator, holders: Counts, d: int, rows: int) -> Counts:
    """Uniform assignment, s[v] ~ Binomial(holders of v, 1/d): [attribute, value] -> [attribute, value, row]."""
    return draw.binomial(holders[:, :, None], 1 / d, (*holders.shape, rows))


def dealt(draw: np.random.Generator, holders: Counts, group: Counts, rows: int) -> Counts:
    """Balanced assignment, multivariate hypergeometric: `group` [attribute] users drawn from all of them.

    [attribute, value] -> [attribute, value, row].  Value by value: how many of those left to draw hold it.
    """
    out = np.empty((*holders.shape, rows), np.int64)
    for values, size, drawn in zip(holders.tolist(), group.tolist(), out, strict=True):
        users, left = sum(values), np.full(rows, size, np.int64)
        for v, holding in enumerate(values):
            drawn[v] = hypergeometric(draw, holding, users - holding, left)
            users -= holding
            left -= drawn[v]
    return out


def hypergeometric(draw: np.random.Generator, good: Counts | int, bad: Counts | int, sample: Counts) -> Counts:
    """How many of `sample` users, drawn without replacement from good + bad, are good; any size up to 2**53.

    (NumPy's own stops at 1e9.)  It is X ~ Bin(good, p) given X + Y = sample with Y ~ Bin(bad, p), for any p.  So X is
    drawn and accepted with probability P(Y = sample - X) / max P(Y): exact, and at least 0.7 of the draws are taken
    if the rarer kind plays X.
    """
    rare = np.broadcast_to(np.minimum(good, bad), sample.shape)
    common = np.broadcast_to(np.maximum(good, bad), sample.shape)
    users = rare + common
    out = np.where(sample == users, rare, 0)
    rows = np.flatnonzero((sample > 0) & (sample < users) & (rare > 0))
    p = sample / np.maximum(users, 1)
    likeliest = np.floor((common + 1) * p)
    while len(rows):
        x = draw.binomial(rare[rows], p[rows])
        y = (sample[rows] - x).astype(np.float64)
        possible = (y >= 0) & (y <= common[rows])
        y[~possible] = 0
        odds = _log_binomial(y, common[rows], p[rows]) - _log_binomial(likeliest[rows], common[rows], p[rows])
        taken = possible & (draw.random(len(rows)) < np.exp(np.minimum(odds, 0)))
        out[rows[taken]] = x[taken]
        rows = rows[~taken]
    return np.where(np.greater(good, bad), sample - out, out)


def _log_binomial(y: Floats, n: Counts, p: Floats) -> Floats:
    """ln P(Bin(n, p) = y) for n > 0 and 0 < p < 1, to about 1e-7 even at n = 2**53 (Loader's saddle-point form)."""
    inner = (y > 0) & (y < n)
    return (
        _stirling_error(n.astype(np.float64))
        - _stirling_error(y)
        - _stirling_error(n - y)
        - _deviance(y, n * p)
        - _deviance(n - y, n * (1 - p))
        - np.where(inner, 0.5 * np.log(2 * math.pi * np.where(inner, y * ((n - y) / n), 1)), 0)
    )


def _deviance(x: Floats, mean: Floats) -> Floats:
    """x ln(x / mean) + mean - x without cancellation."""
    t = (x - mean) / mean
    return mean * ((1 + t) * np.log1p(np.maximum(t, 1e-15 - 1)) - t)


def _stirling_error(n: Floats) -> Floats:
    """ln n! - ln(sqrt(2 pi n) (n / e)^n); 0 for n = 0, which has no square root term."""
    big = np.maximum(n, _SMALL)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / big**2) / big**2) / big**2) / big
    return np.where(n < _SMALL, _STIRLING[np.minimum(n, _SMALL).astype(np.intp)], series)


_STIRLING = np.array(
    [0.0]
    + [math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi) for n in range(1, _SMALL + 1)]
)


class Known:
    """What the counts of a part depend on, [attribute, value, row or 1] each: the truth, s and the fake values.

    `thinning` is P(sampled) if nothing else depends on who is.
    """

    def __init__(
        self, part: Part, n: int, holders: Counts, s: Counts, streams: Streams, row: int, thinning: float | None = None
    ) -> None:
        self.part, self.n, self.holders, self.sampled, self.thinning = part, n, holders[:, :, None], s, thinning
        self.fakes = s
        if part.needs_fakes:  # those who did not sample an attribute make up a value
            others, prior = n - s.sum(axis=1, keepdims=True), prior_frequencies(part.prior, part.k)
            self.fakes = values_of(streams.at(FAKE, part.fake_address, row), others, prior)

    def reports(self, recipe: Recipe) -> tuple[Counts, Counts | int]:
        """How many encode each value, and how many report at all."""
        match recipe.unsampled:
            case Unsampled.OWN:
                return self.holders, self.n
            case Unsampled.NOTHING:
                return self.sampled, self.sampled.sum(axis=1, keepdims=True)
            case Unsampled.ZERO:
                return self.sampled, self.n
            case Unsampled.FAKE:
                return self.sampled + self.fakes if recipe.unary else self.sampled, self.n

    def draw(self, streams: Streams, row: int, rows: int) -> Iterator[tuple[int, Counts]]:
        """The counts of each recipe, [attribute, value, row]."""
        recipes = self.part.recipes
        for family in self.part.families:
            first = recipes[family[0]]
            count, shared = implementation(DRAWS, first.noise, "the samplers"), None
            if (alike := first.noise.shared_address) is not None:  # the 1s of those who encode the value
                encoded, reporters = self.reports(first)
                draw = streams.at(OWN, self.part.address_of(first, alike), row)
                shared = ones(draw, first.noise.integers[0], encoded, rows), reporters - encoded
            for i in family:
                draw = streams.at(RECIPE, self.part.address_of(recipes[i], recipes[i].noise.address), row)
                yield i, count(self, recipes[i], draw, rows, shared)

    def bits(self, recipe: Recipe, draw: np.random.Generator, rows: int, shared: tuple[Counts, Counts]) -> Counts:
        """`Bits`: the 1s of those who encode the value are the same for equal tp."""
        own, others = shared
        return own + ones(draw, recipe.noise.integers[1], others, rows)

    def subsets(self, recipe: Recipe, draw: np.random.Generator, rows: int, _: None) -> Counts:
        p, size = recipe.noise.p(self.part.k), recipe.noise.integers[1]
        return subsets(draw, p, size, self.reports(recipe)[0], rows)

    def chain(self, recipe: Recipe, draw: np.random.Generator, rows: int, _: None) -> Counts:
        """`Chain`: one report of it, with the p and q of both steps."""
        p, q = recipe.noise.p(self.part.k), recipe.noise.q(self.part.k)
        if not recipe.unary:
            return self._kept(recipe, p - q, draw, rows)
        encoded, reporters = self.reports(recipe)
        return ones(draw, ONE * p, encoded, rows) + ones(draw, ONE * q, reporters - encoded, rows)

    def kept(self, recipe: Recipe, draw: np.random.Generator, rows: int, _: None) -> Counts:
        """`Keep` and `Sets`."""
        return self._kept(recipe, recipe.noise.integers[0] / KEEP_ONE, draw, rows)

    def _kept(self, recipe: Recipe, keep: float, draw: np.random.Generator, rows: int) -> Counts:
        encoded, reporters = self.reports(recipe)
        if recipe.prior is not None:  # the fakes have a distribution of their own
            mine = self.sampled.sum(axis=1, keepdims=True)
            return kept_or_any(draw, keep, None, encoded, mine, rows) + self.fakes
        if recipe.unsampled is Unsampled.FAKE and self.thinning is not None:
            # Sampled and kept is one thinning of the holders: NumPy is faster if p is the same row after row.
            encoded, keep = self.holders, keep * self.thinning
        design = recipe.noise.design if isinstance(recipe.noise, Sets) else None
        return kept_or_any(draw, keep, design, encoded, reporters, rows)


# noise class -> its counts of a recipe, from a generator for so many rows and what is shared with others
DRAWS: dict[type, Callable[[Known, Recipe, np.random.Generator, int, Any], Counts]] = {
    Keep: Known.kept,
    Sets: Known.kept,
    Bits: Known.bits,
    Subsets: Known.subsets,
    Chain: Known.chain,
}
