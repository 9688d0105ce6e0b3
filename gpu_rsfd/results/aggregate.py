"""Frequencies, with confidence intervals, from reports that somebody has collected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import check_epsilon
from gpu_rsfd.datasets.base import Labels, check_labels
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import (
    DEFAULT_SETTINGS,
    Mechanism,
    PrivacySettings,
    Protocol,
    Unsampled,
    as_protocol,
    mechanisms,
)
from gpu_rsfd.results.estimate import PostprocessLike, postprocess, why_undefined
from gpu_rsfd.results.metrics import name_of
from gpu_rsfd.results.postprocessing import Context
from gpu_rsfd.results.tally import Tally

Floats = npt.NDArray[np.float64]
AGAINST = ("users", "population")
BAD = ("refuse", "count")


@dataclass(frozen=True, eq=False, repr=False)
class Aggregate:
    """What `aggregate` finds: arrays over all attributes' values in order.

    Attributes
    ----------
    protocol, epsilon, domain, names, labels
        What was collected.
    n : int
        Reports that were used.
    bad : dict of str to int
        Reports that were left out, by reason.
    counts, reporters : ndarray of int64
        How often each value was reported, and by how many users each attribute.
    estimates, standard_errors, low, high : ndarray of float64
        Unbiased estimates with their standard errors and confidence intervals; like the estimates, an interval may
        reach below 0.  NaN where nobody reported an attribute.
    level : float
        The confidence level of each interval by itself.
    against : str
        Whose frequencies the intervals are for: `users` or `population`.
    """

    protocol: str
    epsilon: float
    domain: Domain
    names: tuple[str, ...]
    labels: Labels | None
    n: int
    bad: dict[str, int]
    counts: npt.NDArray[np.int64]
    reporters: npt.NDArray[np.int64]
    estimates: Floats
    standard_errors: Floats
    low: Floats
    high: Floats
    level: float
    against: str
    contexts: tuple[Context, ...]  # what a post-processing may know of each attribute

    def postprocessed(self, how: PostprocessLike) -> Floats:
        """The estimates after a post-processing, such as `simplex` or `mle`.

        Raises
        ------
        InputError
            If it is not defined for the protocol; the message says why.
        """
        for k, context in zip(self.domain, self.contexts, strict=True):
            if reason := why_undefined(how, k, context):
                raise InputError(f"postprocess={name_of(how)} is not defined for {self.protocol}: {reason}")
        single = self.estimates[None, None, None]  # one protocol, epsilon and repetition
        return postprocess(how, single, self.domain, lambda _p, _e, j: self.contexts[j])[0, 0, 0]

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each value, as `pandas.DataFrame` takes them."""
        for j, (name, columns) in enumerate(zip(self.names, self.domain.slices, strict=True)):
            for v, at in enumerate(range(columns.start, columns.stop)):
                yield {
                    "attribute": name,
                    "value": str(v) if self.labels is None else self.labels[j][v],
                    "count": int(self.counts[at]),
                    "reporters": int(self.reporters[j]),
                    "estimate": float(self.estimates[at]),
                    "standard_error": float(self.standard_errors[at]),
                    "low": float(self.low[at]),
                    "high": float(self.high[at]),
                }

    def __repr__(self) -> str:
        left_out = f", {sum(self.bad.values()):,} left out" if self.bad else ""
        whose = "these users" if self.against == "users" else "their population"
        return (
            f"Aggregate({self.n:,} reports of {self.protocol}, epsilon={self.epsilon:g}, d={len(self.domain)}"
            f"{left_out}; {100 * self.level:g} % intervals for {whose})"
        )


def aggregate(
    reports: Any,
    protocol: str | Protocol,
    epsilon: float,
    domain: Iterable[int],
    *,
    against: str = "users",
    level: float = 0.95,
    bad: str = "refuse",
    names: Sequence[str] | None = None,
    labels: Iterable[Sequence[str]] | None = None,
    settings: PrivacySettings = DEFAULT_SETTINGS,
) -> Aggregate:
    """Estimate frequencies from reports that were collected.

    Parameters
    ----------
    reports : Reports, or iterable
        A report for each user, as the clients of multi-freq-ldpy make them: for Spl and RS+FD a sequence with an entry
        for each attribute, for Smp a pair of the attribute and its entry.  An entry is a value 0 … k - 1 (GRR), a
        message (HR, PGR), a bit for each of k values (unary encodings; for local hashing the values that the report
        supports), or the values of a subset (SS).  Or what `gpu_rsfd.reports` or `report_chunks` returns.
    protocol : str or Protocol
        What the users ran: name of a protocol, or a user-defined protocol.
    epsilon : float
        The total budget that they ran it with.
    domain : iterable of int
        How many values each attribute has.
    against : {'users', 'population'}
        Whose frequencies the intervals are for: those of the users who reported, or those of a population that they
        are a random sample of, which is wider.
    level : float
        The confidence level of each interval, for each value by itself.
    bad : {'refuse', 'count'}
        Reports of a wrong shape, or with values outside the domain: an error that names the first one; or they are left
        out and counted in `Aggregate.bad`.
    names, labels : optional
        Names of the attributes, and of each attribute's values.
    settings : PrivacySettings
        The guarantee, the prior of fake values, and the first report of longitudinal protocols.

    Returns
    -------
    Aggregate
        Estimates, standard errors and confidence intervals.

    Raises
    ------
    InputError
        If a report can't be used; or if unary reports have far more or fewer bits set than the protocol sets.

    Examples
    --------
    >>> found = gpu_rsfd.aggregate([(0, 1), (1, 3), (0, 2)], "smp-grr", 2.0, domain=[3, 4])
    >>> found
    Aggregate(3 reports of smp-grr, epsilon=2, d=2; 95 % intervals for these users)
    >>> found.counts.tolist(), found.reporters.tolist()
    ([0, 1, 1, 0, 0, 0, 1], [2, 1])
    """
    for name, value, known in (("against", against, AGAINST), ("bad", bad, BAD)):
        if value not in known:
            raise InputError(f"{name}={value!r} is unknown; available: {', '.join(known)}")
    if not isinstance(level, (int, float)) or not 0 < level < 1:
        raise InputError(f"level={level!r} must be above 0 and below 1, such as 0.95")
    sizes, chosen = Domain.of(domain), as_protocol(protocol)
    attributes = tuple(names) if names is not None else tuple(f"A{j + 1}" for j in range(len(sizes)))
    if len(attributes) != len(sizes):
        raise InputError(f"names has {len(attributes)} entries, but there are {len(sizes)} attributes")
    tally = Tally(mechanisms(chosen, check_epsilon(epsilon), sizes, settings), attributes, bad)
    tally.add(reports)
    tally.check(chosen.name, epsilon)
    named = None if labels is None else check_labels(labels, sizes)
    counts, reporters, n = tally.counts, tally.reporters, tally.n
    estimates, errors, low, high = intervals(tally.ms, counts, reporters, n, against, level)
    collected = (chosen.name, float(epsilon), sizes, attributes, named, n, dict(tally.bad))
    contexts = tuple(Context.of_mechanism(m, n, m_j) for m, m_j in zip(tally.ms, reporters.tolist(), strict=True))
    return Aggregate(*collected, counts, reporters, estimates, errors, low, high, level, against, contexts)


def intervals(
    ms: Sequence[Mechanism],
    counts: npt.NDArray[np.int64],
    reporters: npt.NDArray[np.int64],
    n: int,
    against: str = "users",
    level: float = 0.95,
) -> tuple[Floats, Floats, Floats, Floats]:
    """(estimates, standard errors, low, high) of all values, from their counts.

    An estimate is unbiased, and its variance a quadratic a + b f + c f^2 in the true frequency.  The interval has all f
    with (estimate - f)^2 <= z^2 (a + b f + c f^2): Wilson's, if the count is binomial.
    """
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    parts = []
    for m, columns, reported in zip(ms, Domain.of(m.k for m in ms).slices, reporters.tolist(), strict=True):
        if not reported:
            parts.append(np.full((4, m.k), np.nan))
            continue
        f = m.estimate(counts[columns], reported)
        a, b, c = _variance(m, reported, n, against)
        inside = np.clip(f, 0, 1)
        middle, lead = f + z2 * b / 2, 1 - z2 * c
        half = np.sqrt(np.maximum(middle**2 - lead * (f**2 - z2 * a), 0))
        error = np.sqrt(np.maximum(a + (b + c * inside) * inside, 0))
        parts.append(np.stack([f, error, (middle - half) / lead, (middle + half) / lead]))
    estimates, errors, low, high = np.concatenate(parts, axis=1)
    return estimates, errors, low, high


def _variance(m: Mechanism, reported: int, n: int, against: str) -> tuple[Any, Any, float]:
    """(a, b, c) of the variance a + b f + c f^2 of an estimate, with so many reports of n users."""
    base, gain, p, q = m.base, m.gain, m.p, m.q
    if against == "population":  # each report supports v independently with probability base + gain f
        return base * (1 - base) / (gain**2 * reported), (1 - 2 * base) / (gain * reported), -1 / reported
    if m.recipe.unsampled is Unsampled.NOTHING:  # of n users, those who sampled the attribute are a random subset
        drawn = (n - reported) / (reported * max(n - 1, 1))
        noise = gain**2 * reported
        return q * (1 - q) / noise, (p * (1 - p) - q * (1 - q)) / noise + drawn, -drawn
    return base * (1 - base) / (gain**2 * n), (1 - 2 * base) / (gain * n) - 1 / n, 0.0
