"""The attacker who knows the marginals, over rounds: what blocks of reports say (docs/rounds.md).

The reports of one held value are a block; how often each value was supported in it says all.  The attacker knows when
values change, and takes the values of different blocks as independent.  That they are distinct tells real values from
independent fakes: he uses it for values that are sent as they are, exactly if the marginals are uniform.

    seen = Seen(recipe, fakes, k, users, rounds)               # of an attribute of some users, under one recipe
    look = seen.add(f, block, report)                          # round by round; `block`: the round that began it
    right([looks of all attributes], marginals, recipe.unsampled, sampled, codes)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.measure.guesses import TIE
from gpu_rsfd.protocols import Recipe, Unsampled, prior_frequencies
from gpu_rsfd.protocols.chains import LEAST, Floats, log, of_bit


class Look(NamedTuple):
    """What an attribute's reports up to a round say, for each user; logs."""

    likely: Floats  # [user, value]: P(the current value | reports), if the attribute is the sampled one
    evidence: Floats  # [user]: P(reports | sampled) / P(reports | not sampled)


def _total(x: Floats) -> Any:
    """The log of the sum of e^x over the last axis."""
    top = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - top).sum(axis=-1)) + top[..., 0]


class Seen:
    """The blocks of an attribute of some users, under one recipe, whose noise is a `Chain`."""

    def __init__(self, recipe: Recipe, fakes: str, k: int, users: int, rounds: int, cells: Any = None) -> None:
        """`cells`: [value, user], of each value, if there are hash cells; a report is then a cell."""
        self.recipe, self.k, self.fakes, self.cells = recipe, k, fakes, None if cells is None else cells.T
        chain: Any = recipe.noise
        self.chain, self.size, self.everyone = chain, chain.cells or k, np.arange(users)
        self.counts = np.zeros((users, rounds, self.size), np.min_scalar_type(rounds))
        self.length = np.zeros((users, rounds), np.int64)
        self.real, self.fake = np.zeros((2, users, rounds))  # log P(block | sampled), and if not
        self.p1, self.q1, p2, q2 = chain.steps(k)
        self.ratio = math.log(p2) - log(q2)
        if chain.memo.unary:
            m, n = np.ogrid[: rounds + 1, : rounds + 1]
            own, self.other = of_bit(chain, k, n, np.maximum(m, n))
            self.own = own - self.other  # [m, n]: of a bit that was set n times in m reports, held against not held

    def add(self, f: Floats, block: npt.NDArray[Any], report: npt.NDArray[Any]) -> Look:
        """The reports of one more round: values or cells [user], or bits [value, user]; f: the marginal known."""
        here = self.everyone, block
        now = report.T if self.chain.memo.unary else report[:, None] == np.arange(self.size)
        self.counts[here] += now
        self.length[here] += 1
        counts, length = self.counts[here], self.length[here]
        given, everything = self._said(counts, length)
        likely = log(f) + (given if self.cells is None else np.take_along_axis(given, self.cells, 1))
        total = _total(likely)
        self.real[here] = total + everything
        if not self.recipe.unsampled.hides:
            return Look(likely - total[:, None], np.zeros(len(here[0])))
        if self.fakes == "fixed":  # all reports are of one memo
            self.fake[:, 0] = self._faked(self.counts.sum(axis=1, dtype=np.int64), self.length.sum(axis=1))
        elif self.fakes == "fresh":  # each report is of its own
            self.fake[:, 0] += self._faked(now.astype(np.int64), np.ones_like(length))
        else:
            self.fake[here] = self._faked(counts, length)
        evidence = self.real.sum(axis=1) - self.fake.sum(axis=1)
        if self.fakes == "independent" and not self.chain.memo.unary:
            evidence += self._distinct()
        return Look(likely - total[:, None], evidence)

    def _said(self, counts: Any, m: Any) -> tuple[Floats, Floats]:
        """log P(block | value or cell), without a factor that all share; and that factor, to powers of q2 with Keep."""
        if self.chain.memo.unary:  # odds of each value against none; P(block | none)
            at = m[:, None] * self.own.shape[1] + counts
            return self.own.take(at), self.other.take(at).sum(axis=1)
        n = counts * self.ratio
        most = n.max(axis=1, keepdims=True)
        w = np.exp(n - most)
        return log(self.q1 * w.sum(axis=1, keepdims=True) + (self.p1 - self.q1) * w), most[:, 0]

    def _faked(self, counts: Any, m: Any) -> Floats:
        """log P(block | the memo of a fake)."""
        given, everything = self._said(counts, m)
        if self.recipe.unsampled is Unsampled.ZERO:
            return everything
        return everything + _total(given + log(prior_frequencies(self.recipe.prior, self.k)))

    def _distinct(self) -> Floats:
        """Real values are distinct, independent fakes need not be: the mean of the likelihood over all injections.

        For uniform marginals.  A block says that its memo is the likeliest one, with some odds r.  Blocks with one top
        value exclude each other, so the mean is a sum over s of e_s(sums of r of equal tops) (k - s)! / k!; that of
        independent fakes is a product of 1 + r / k.
        """
        n = self.counts[:, self.length.any(axis=0)] * self.ratio
        share = np.exp(n.max(axis=2) - _total(n))  # P(the likeliest memo is the memo)
        rest, kept = (1 - share) / (self.k - 1), self.p1 - self.q1
        r = kept * (share - rest) / np.maximum(self.q1 + kept * rest, LEAST) / self.k
        tops = np.zeros((self.k, len(r)))
        np.add.at(tops, (n.argmax(axis=2), self.everyone[:, None]), r)
        sums = np.zeros((r.shape[1] + 1, len(r)))  # e_s of r / k
        sums[0] = 1
        for top in tops[tops.any(axis=1)]:
            sums[1:] += sums[:-1] * top
        s = np.arange(len(sums))
        weight = np.where(s <= self.k, np.cumprod(np.where(s, self.k / np.maximum(self.k + 1 - s, 1), 1.0)), 0.0)
        return log(weight @ sums) - np.log1p(r).sum(axis=1)


def right(
    looks: Sequence[Look], marginals: Sequence[Floats], others: Unsampled, sampled: Any, codes: Sequence[Any]
) -> tuple[int, int, int]:
    """How many are right: guesses of the sampled attribute, of values, and of each user's safest (attribute, value)."""
    share: Any = np.ones((len(looks), len(sampled)))  # P(an attribute is the sampled one | reports)
    if others.hides:
        evidence = np.stack([look.evidence for look in looks])
        share = np.exp(evidence - evidence.max(axis=0))
        share /= share.sum(axis=0)
    elif others.samples:
        share = sampled == np.arange(len(looks))[:, None]
    hits, best = [], []
    for look, f, mine, held in zip(looks, marginals, share, codes, strict=True):
        posterior = np.exp(look.likely) * mine[:, None] + f * (1 - mine[:, None])
        most = posterior.max(axis=1)
        hits.append(np.argmax(posterior >= most[:, None] * (1 - TIE), axis=1) == held)
        best.append(most)
    guessed = np.argmax(share >= share.max(axis=0) * (1 - TIE), axis=0) == sampled
    claimed = np.argmax(np.stack(best) >= np.max(best, axis=0) * (1 - TIE), axis=0)
    claims = np.stack(hits)[claimed, np.arange(len(claimed))]
    return int(guessed.sum()), int(np.sum(hits)), int(claims.sum())
