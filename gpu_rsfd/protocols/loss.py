"""The exact privacy loss: the worst log-likelihood ratio of a whole report between two users (docs/privacy.md).

A user of RS+FD samples attribute t.  Given the values x, P(report) is proportional to the sum over j of
L_j(x_j) = P(y_j | x_j, t = j) / P(y_j | t is not j).  If two users differ in the attributes S, the ratio is at most

    (sum over S of h_j + sum over the others of c_j) / (sum over S of l_j + sum over the others of c_j),

with h and l the L of a value that the report supports and of one that it speaks against, and c the smallest L of a
value that both users share.  Everything follows from the realised integers, none of it from the ideal probabilities.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gpu_rsfd.protocols.form import Bits, Chain, Keep, Sets, Thresholds, Unsampled, prior_frequencies, unknown_noise
from gpu_rsfd.protocols.mechanism import Mechanism

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_STEPS = 100  # of Dinkelbach's iteration, which takes about five
_SPARSE = 32  # every so many sizes are solved first
_CELLS = 1 << 20  # sizes x kinds of attributes that are looked at together


def losses(mechanisms: Sequence[Mechanism], sizes: Sequence[int] | None = None) -> Floats:
    """The loss between users who differ in m attributes (worst set, values and report), for each m of `sizes`.

    Default: m = 1 … d.  `mechanisms` are those of one protocol, one for each attribute.
    """
    d = len(mechanisms)
    wanted = np.arange(1, d + 1) if sizes is None else np.asarray(sizes, np.int64)
    match mechanisms[0].recipe.unsampled:
        case Unsampled.OWN:
            own = np.sort([m.loss for m in mechanisms])[::-1]
            return np.cumsum(own)[wanted - 1]
        case Unsampled.NOTHING:
            return np.full(len(wanted), max(m.loss for m in mechanisms))
    if any(m.claimed for m in mechanisms):  # a mixture of reports loses at most what each of them does
        return np.full(len(wanted), max(m.loss for m in mechanisms))
    return Likelihoods.of(mechanisms).worst(wanted)


@lru_cache(maxsize=1 << 12)
def _extremes(prior: Thresholds | None, k: int) -> tuple[float, float, float]:
    """The smallest frequency of a fake value, the smallest one above 0, and the largest."""
    fakes = prior_frequencies(prior, k)
    return float(fakes.min()), float(fakes[fakes > 0].min()), float(fakes.max())


@dataclass(frozen=True)
class Ratios:
    """Of one attribute of RS+FD: the extreme L of a report.

    (seen[0], against[0]) is the largest pair, (seen[1], against[1]) the smallest one: better for an attribute that
    must differ, but tells the two users apart less well than the others do.
    """

    seen: tuple[float, float]
    against: tuple[float, float]
    shared: float
    certain: float  # the ratio if no fake can look like the report (which then shows t); 0 if every report can be fake

    @classmethod
    def of(cls, m: Mechanism) -> Ratios:
        least, rare, most = _extremes(m.recipe.prior, m.k)
        p, q = m.p, m.q
        if not m.recipe.unsampled.hides or not m.plain:
            raise TypeError(f"no exact loss is known for {m.name} among fakes")
        noise = m.recipe.noise
        match noise.memo if isinstance(noise, Chain) else noise:
            case Keep():
                certain = 0.0 if least > 0 else p / q if q > 0 else math.inf
                return cls((p / rare, p / most), (q / rare, q / most), q / most, certain)
            case Sets() as noise:  # all fakes are uniform messages
                inside, outside = (given * noise.design.messages for given in noise.given)
                return cls((inside, inside), (outside, outside), outside, 0.0)
            case other if not isinstance(other, Bits):
                raise unknown_noise((Keep, Sets, Bits), m.recipe.noise, "the exact loss")
        one, none = p / q, (1 - p) / (1 - q)  # of a bit that is set, and of one that is not
        if m.recipe.unsampled is Unsampled.ZERO:
            return cls((one, one), (none, none), none, 0.0)

        def fake(supported: float) -> float:
            """P(y | t is not j), where fakes hold one of the set bits with probability `supported`."""
            return none * (1 - supported) + one * supported

        few, many = fake(least), fake(1 - least)
        if few == 0:  # a bit that is certain, for a value that no fake has
            return cls((one / many, one / many), (none / many, none / many), none / many, math.inf)
        return cls((one / few, one / many), (none / few, none / many), none / many, 0.0)


@dataclass(frozen=True)
class Likelihoods:
    """The ratios of all attributes, equal ones together."""

    seen: Floats  # [2, kind]
    against: Floats  # [2, kind]
    shared: Floats  # [kind]
    certain: float
    count: Integers  # [kind]

    @classmethod
    def of(cls, mechanisms: Sequence[Mechanism]) -> Likelihoods:
        kinds = Counter((m.k, m.recipe) for m in mechanisms)
        each = {(m.k, m.recipe): m for m in mechanisms}
        return cls.of_kinds([each[kind] for kind in kinds], list(kinds.values()))

    @classmethod
    def of_kinds(cls, mechanisms: Sequence[Mechanism], count: Sequence[int]) -> Likelihoods:
        """So many attributes of each kind."""
        ratios = [Ratios.of(m) for m in mechanisms]
        return cls(
            np.array([r.seen for r in ratios]).T,
            np.array([r.against for r in ratios]).T,
            np.array([r.shared for r in ratios]),
            max(r.certain for r in ratios),
            np.array(count),
        )

    def one(self) -> float:
        """The loss for one attribute, directly."""
        rest = float(self.count @ self.shared) - self.shared
        with np.errstate(divide="ignore"):
            return math.log(max(self.certain, float(((self.seen + rest) / (self.against + rest)).max())))

    def worst(self, sizes: Integers) -> Floats:
        """The largest log-likelihood ratio over all sets of each size (ascending)."""
        start = np.ones(len(sizes))
        if len(sizes) > 2 * _SPARSE:  # neighbours have nearly the same ratio: a good start
            some = np.append(sizes[:-1:_SPARSE], sizes[-1])
            found = self._ratios(some, np.ones(len(some)))
            start = np.interp(sizes, some, found) if np.isfinite(found).all() else start
        step = max(1, _CELLS // len(self.count))
        parts = [self._ratios(sizes[i : i + step], start[i : i + step]) for i in range(0, len(sizes), step)]
        return np.log(np.maximum(np.concatenate(parts), self.certain))

    def _ratios(self, sizes: Integers, start: Floats) -> Floats:
        """Dinkelbach: at the ratio r of some set, a better one is the top m of h - r l - (1 - r) c, if there is any."""
        ratio = self._step(start, sizes)  # of a set, whatever the start was
        active = np.flatnonzero(np.isfinite(ratio))
        for _ in range(_STEPS):
            if not len(active):
                break
            better = self._step(ratio[active], sizes[active])
            risen = better > ratio[active] * (1 + 1e-15)
            ratio[active] = np.maximum(better, ratio[active])
            active = active[risen & np.isfinite(better)]
        return ratio

    def _step(self, ratio: Floats, sizes: Integers) -> Floats:
        r = ratio[:, None]
        high, low = self.seen, self.against
        first = high[0] - r * low[0] >= high[1] - r * low[1]
        seen, against = np.where(first, high[0], high[1]), np.where(first, low[0], low[1])
        order = np.argsort(-(seen - r * against - (1 - r) * self.shared), axis=1)
        count = self.count[order]
        before = np.cumsum(count, axis=1) - count
        taken = np.clip(sizes[:, None] - before, 0, count)
        total = float(self.count @ self.shared)
        shared = self.shared[order]
        above = total + (taken * (np.take_along_axis(seen, order, 1) - shared)).sum(axis=1)
        below = total + (taken * (np.take_along_axis(against, order, 1) - shared)).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(below > 0, above / below, np.inf)
