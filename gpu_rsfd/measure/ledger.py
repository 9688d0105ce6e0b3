"""What users have spent after each round, exactly, from the values that they held (docs/rounds.md).

A user's reports of one held value are a block: what m of them lose is `chains.loss(chain, k, m)`.  All that is needed
of the data is `occurrences`: how often the value that a user holds in a round has been held up to then.  Sums over the
held values then only grow by L(m) - L(m - 1) from round to round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.protocols import Mechanism, Unsampled, prior_frequencies
from gpu_rsfd.protocols.chains import Floats, afresh, log, loss, odds, of_bit

Counts = npt.NDArray[np.integer[Any]]


class Spent(NamedTuple):
    """[user, round]: what has been lost up to and with a round."""

    exact: Floats  # between two users whose values change in the same rounds
    published: Floats  # what the papers count: a budget for each value held
    any: Floats  # a bound between any two users; infinite where a second step changes nothing
    afresh: Floats  # the exact loss if nothing were remembered


def occurrences(codes: npt.NDArray[Any]) -> Counts:
    """[user, round]: how often a user has held the value of this round, this time included."""
    by_round, small = np.ascontiguousarray(codes.T), np.min_scalar_type(codes.shape[1])
    return np.stack([(by_round[: r + 1] == now).sum(axis=0, dtype=small) for r, now in enumerate(by_round)], axis=1)


def spent(
    ms: Sequence[Mechanism], held: Sequence[Counts], guarantee: str = "paper", fakes: str = "memo",
    sampling: str = "fixed",
) -> Spent:  # fmt: skip
    """The ledger of one protocol and epsilon: its mechanisms with both steps, and the occurrences of each attribute.

    Under the guarantee `user` all attributes differ, else the one that tells most.  RS+FD with fixed sampling hides
    which attribute is real.  For GRR and zero vectors that is exact with independent fakes, and with memo and fixed
    ones where values don't change; where they do, for randomised fakes, and with fresh sampling of what is remembered,
    it is an upper bound.
    """
    rounds = np.arange(1, held[0].shape[1] + 1)
    everything, others = guarantee == "user", ms[0].recipe.unsampled
    each = [_summed(m.recipe.noise, m.k, h) for m, h in zip(ms, held, strict=True)]
    values = [np.cumsum(h == 1, axis=1) for h in held]
    bounds = [_bound(m.recipe.noise, m.k) for m in ms]
    alone = [replace(m, recipe=replace(m.recipe, noise=afresh(m.recipe.noise, m.k))) for m in ms]
    off = alone == [*ms]  # nothing is remembered
    sums = others is Unsampled.OWN or (sampling == "fresh" and not off)
    together: Any = np.sum if everything and sums else np.max
    published = together([_published(m, v, everything) for m, v in zip(ms, values, strict=True)], axis=0)
    exact = together(each, axis=0)
    if others.hides and not everything and not sums:
        exact = np.minimum(exact, _hidden(ms, held, fakes))
        if fakes == "fixed":  # a fake stays where a value changes, and shows
            exact = np.where(np.max(values, axis=0) > 1, np.max(each, axis=0), exact)
    if off:
        published = rounds * exact[:, :1]
        exact = published if sampling == "fresh" else exact  # it is not always the same attribute that is real
    apart = exact if off else spent(alone, [rounds[None]] * len(ms), guarantee, "fresh", sampling).exact
    shown = others.hides and fakes in ("memo", "independent")  # the memos of all attributes change with the values
    most = sum(bounds) if shown or (everything and sums) else max(bounds)
    return Spent(exact, published, *(np.broadcast_to(x, exact.shape) for x in (most * rounds, apart)))


def _summed(chain: Any, k: int, held: Counts) -> Floats:
    """The sum of L(m) over the values held, or over their cells, whose hash is random."""
    most = held.shape[1]
    losses = loss(chain, k, np.arange(most + 1))
    g = chain.cells
    if not g:
        return np.cumsum(np.diff(losses)[held - 1], axis=1)
    # g E[L(M)], M = the sum of m_v over the values that fall into a cell: by the generating function of M
    radius = math.exp(-2.3 / (most + 1))  # inside the unit circle no factor is 0; rounding errors grow by e^2.3
    z = radius * np.exp(2j * np.pi * np.arange(most + 1) / (most + 1))
    powers = z[:, None] ** np.arange(most + 1)
    factors = 1 - 1 / g + powers / g
    weights = (losses / powers).sum(axis=1) / (most + 1)
    out = np.zeros(held.shape)
    for factor, weight in zip(factors[:, 1:] / factors[:, :-1], weights, strict=True):
        out += (weight * np.cumprod(factor[held - 1], axis=1)).real
    return g * out


def _published(m: Mechanism, values: Counts, everything: bool) -> Any:
    noise: Any = m.recipe.noise
    g = noise.cells
    hides = m.recipe.unsampled.hides and not everything
    budget = math.log1p(math.expm1(m.budget) / m.d) if hides else m.budget
    return (g * (1 - (1 - 1 / g) ** values) if g else values) * budget


def _bound(chain: Any, k: int) -> float:
    """What one more round may lose, whatever the values were."""
    _, q1, p2, q2 = chain.steps(k)
    with np.errstate(divide="ignore"):  # where a second step changes nothing
        one, none = float(np.log(p2) - np.log(q2)), float(np.log1p(-q2) - np.log1p(-p2))
    if not chain.memo.unary:
        return one
    return k * max(one, none) if q1 > 0 else one + none  # two bits differ if no memo does


def _hidden(ms: Sequence[Mechanism], held: Sequence[Counts], fakes: str) -> Floats:
    """RS+FD, one attribute differs: ln (h_j + rest) / (l_j + rest), products over the values held, for the worst j."""
    high, low, shared = np.stack([_products(m, h, fakes) for m, h in zip(ms, held, strict=True)], axis=1)
    before = np.logaddexp.accumulate(np.concatenate([np.full_like(shared[:1], -np.inf), shared[:-1]]), axis=0)
    after = np.logaddexp.accumulate(np.concatenate([np.full_like(shared[:1], -np.inf), shared[:0:-1]]), axis=0)[::-1]
    rest = np.logaddexp(before, after)
    return (np.logaddexp(high, rest) - np.logaddexp(low, rest)).max(axis=0)


def _products(m: Mechanism, held: Counts, fakes: str) -> list[Floats]:
    """Logs of the likelihoods of all blocks, relative to a fake: of a value that they support, of one that they speak
    against, and the smallest of a value that both users share.
    """
    noise: Any = m.recipe.noise
    reports, others = np.arange(held.shape[1] + 1), m.recipe.unsampled
    high, low = odds(noise, m.k, reports)
    fake, shared = np.zeros(len(reports)), low  # with memos like those of real values, of no value or any
    with np.errstate(divide="ignore"):
        if fakes == "fresh":
            fake, shared = _fresh(m, reports)
        elif others is Unsampled.FAKE and noise.memo.unary:
            least = float(prior_frequencies(m.recipe.prior, m.k).min())
            fake, many = (np.logaddexp(low + np.log1p(-x), high + np.log(x)) for x in (least, 1 - least))
            shared = low - many
    return [np.cumsum(np.diff(table)[held - 1], axis=1) for table in (high - fake, low - fake, shared)]


def _fresh(m: Mechanism, reports: Counts) -> tuple[Any, Any]:
    """Of fakes drawn anew in each round.  Randomised ones count as if every user knew which are fakes."""
    noise: Any = m.recipe.noise
    k, (p1, q1, p2, q2), q = m.k, noise.steps(m.k), noise.q(m.k)
    if q2 == 0 or (m.recipe.unary and m.recipe.unsampled is Unsampled.FAKE):
        return 0.0 * reports, log(0.0) * reports
    n, s = reports[:, None], reports  # of n reports, s are of the value, or have its bit set
    least = partial(np.min, axis=1, where=s <= n, initial=np.inf)
    if m.recipe.unary:
        own, other = of_bit(noise, k, s, n) - s * math.log(q) - (n - s) * math.log(1 - q)
        return (k - 2) * least(-other) - other[:, 0] - np.diag(other), least(own) + (k - 1) * least(other)
    rho, scale = math.log(p2 / q2), reports * math.log(k * q2)
    times, more = np.divmod(n - s, k - 1)  # the others are spread evenly over the other values
    others = np.logaddexp(log(more) + (times + 1) * rho, log(k - 1 - more) + times * rho)
    shared = least(np.logaddexp(np.log(q1) + np.logaddexp(others, s * rho), np.log(p1 - q1) + s * rho))
    return math.log(k) - np.logaddexp(reports * rho, math.log(k - 1)) - scale, shared + scale
