"""The exact distributions of the counts, drawn without any user's report.  Arrays are [attribute, value, row]."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gpu_rsfd.planning import Counts
from gpu_rsfd.protocols.designs import Design
from gpu_rsfd.tape import ONE

Floats = npt.NDArray[np.float64]

LARGEST_POPULATION = 10**9  # that NumPy samples from without replacement
_SMALL = 16  # below this, Stirling's series is replaced by a table


def ones(draw: np.random.Generator, threshold: int, users: Counts, rows: int) -> Counts:
    """Unary encodings: the 1s of so many users, Bin(users, threshold / 2**24)."""
    return draw.binomial(users, threshold / ONE, (*users.shape[:2], rows))


def kept_or_uniform(
    draw: np.random.Generator, keep: float, holders: Counts, reporters: Counts | int, rows: int
) -> Counts:
    """GRR: a value is kept with probability keep = p - q, else it is uniform over all k values."""
    kept = draw.binomial(holders, keep, (*holders.shape[:2], rows))
    kept += uniform_values(draw, reporters - kept.sum(axis=1, keepdims=True), holders.shape[1])
    return kept


def kept_or_any_message(
    draw: np.random.Generator, keep: float, design: Design, holders: Counts, reporters: Counts | int, rows: int
) -> Counts:
    """Message sets: a member of the value's set with probability keep, else a uniform one of all messages.

    The members are drawn user by user, or set by set where there are more users than members of sets.
    """
    kept = draw.binomial(holders, keep, (*holders.shape[:2], rows))
    others = reporters - kept.sum(axis=1, keepdims=True)
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
    """Subset selection: how many sets have each value.

    The values are gone through in order, as users do it, but users alike are drawn together: those with as many free
    places, who have passed their own value or not (with it in the set or not).
    """
    attributes, k = holders.shape[:2]
    holding = np.broadcast_to(holders, (attributes, k, rows))
    own = draw.binomial(holding, p)
    out, others, free = own.copy(), holding - own, np.arange(size + 1)
    for a, row in np.ndindex(attributes, rows):
        passed = np.zeros(size + 1, np.int64)  # by the number of free places
        with_own, without = np.zeros_like(passed), np.zeros_like(passed)
        with_own[size - 1], without[size] = own[a, :, row].sum(), others[a, :, row].sum()
        for v in range(k):
            mine = dealt_out(draw, with_own, own[a, v, row]) + dealt_out(draw, without, others[a, v, row])
            for users, left in ((passed, k - v), (with_own, k - v - 1), (without, k - v - 1)):
                taken = draw.binomial(users, np.minimum(free / max(left, 1), 1.0))
                users -= taken
                users[:-1] += taken[1:]
                out[a, v, row] += taken.sum()
            passed += mine
    return out


def dealt_out(draw: np.random.Generator, users: Counts, sample: int) -> Counts:
    """So many users at random, who are taken from those of each kind: how many there are of each."""
    total = int(users.sum())
    if total < LARGEST_POPULATION:
        drawn = draw.multivariate_hypergeometric(users, sample, method="marginals")
    else:
        drawn, left = np.zeros_like(users), np.array([sample])
        for i, here in enumerate(users.tolist()):
            total -= here
            drawn[i] = hypergeometric(draw, here, total, left)[0]
            left -= drawn[i]
    users -= drawn
    return drawn


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


def hypergeometric(draw: np.random.Generator, good: int, bad: int, sample: Counts) -> Counts:
    """How many of `sample` users, drawn without replacement from good + bad, are good; any size up to 2**53.

    (NumPy's own stops at 1e9.)  It is X ~ Bin(good, p) given X + Y = sample with Y ~ Bin(bad, p), for any p.  So X is
    drawn and accepted with probability P(Y = sample - X) / max P(Y): exact, and at least 0.7 of the draws are taken
    if the rarer kind plays X.
    """
    if good > bad:
        return sample - hypergeometric(draw, bad, good, sample)
    out = np.where(sample == good + bad, good, 0)
    rows = np.flatnonzero((sample > 0) & (sample < good + bad)) if good else np.empty(0, np.intp)
    p = sample / max(good + bad, 1)
    likeliest = np.floor((bad + 1) * p)
    while len(rows):
        x = draw.binomial(good, p[rows])
        y = (sample[rows] - x).astype(np.float64)
        possible = (y >= 0) & (y <= bad)
        y[~possible] = 0
        odds = _log_binomial(y, bad, p[rows]) - _log_binomial(likeliest[rows], bad, p[rows])
        taken = possible & (draw.random(len(rows)) < np.exp(np.minimum(odds, 0)))
        out[rows[taken]] = x[taken]
        rows = rows[~taken]
    return out


def _log_binomial(y: Floats, n: int, p: Floats) -> Floats:
    """ln P(Bin(n, p) = y) for n > 0 and 0 < p < 1, to about 1e-7 even at n = 2**53 (Loader's saddle-point form)."""
    inner = (y > 0) & (y < n)
    return (
        _stirling_error(np.full(1, n, np.float64))
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
