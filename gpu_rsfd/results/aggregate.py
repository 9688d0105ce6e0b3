"""Frequencies, with confidence intervals, from reports that somebody has collected."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends.literal import Reports, heard, supported
from gpu_rsfd.checks import check_epsilon
from gpu_rsfd.datasets.base import Labels, check_labels
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.late import provided
from gpu_rsfd.protocols import DEFAULT_SETTINGS, Mechanism, PrivacySettings, Protocol, as_protocol, mechanisms
from gpu_rsfd.protocols.form import Keep, Sets, Subsets, Unsampled
from gpu_rsfd.results.estimate import Floats, PostprocessLike, postprocess, why_undefined
from gpu_rsfd.results.metrics import name_of
from gpu_rsfd.results.postprocessing import Context

AGAINST = ("users", "population")
BAD = ("refuse", "count")
BATCH = 4096  # reports that are looked at together
CELLS = 1 << 20  # of an array that are looked at together
WHOLE, BITS = "iu", "biuf"  # kinds of NumPy arrays that may hold values, and bits
DEVIATIONS = 6  # of the mean number of bits that are set, before reports are taken for those of another protocol
ENOUGH = 100  # reports, for that
NEARLY_NORMAL = 10  # the variance of a count, from which on it is


@dataclass(frozen=True, eq=False, repr=False)
class Aggregate:
    """What `aggregate` finds: arrays over all attributes' values in order.

    Attributes
    ----------
    protocol, epsilon, guarantee, domain, names, labels
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
    guarantee: str
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
    mechanisms: tuple[Mechanism, ...]

    @classmethod
    def of(cls, told: Any, tally: Any, ms: tuple[Mechanism, ...], against: str, level: float) -> Aggregate:
        """Estimates from counts; `told` is protocol, epsilon, guarantee, domain, names and labels."""
        found = intervals(ms, tally.counts, tally.reporters, tally.n, against, level)
        every: Any = *told, tally.n, dict(tally.bad), tally.counts, tally.reporters, *found, level, against, ms
        return cls(*every)

    @cached_property
    def contexts(self) -> tuple[Context, ...]:
        """What a post-processing may know of each attribute."""
        each = zip(self.mechanisms, self.reporters.tolist(), strict=True)
        return tuple(Context.of_mechanism(m, self.n, reported) for m, reported in each)

    def __add__(self, other: Aggregate) -> Aggregate:
        """Both together, as if all of their reports had been aggregated at once; they must be of different users."""
        told, theirs = ((x.protocol, x.epsilon, x.guarantee, x.domain, x.names, x.labels) for x in (self, other))
        kinds = [([m.recipe for m in x.mechanisms], x.against, x.level) for x in (self, other)]
        if told != theirs or kinds[0] != kinds[1]:
            raise InputError(f"{self!r} and {other!r} can't be added: both must be of one collection, and told alike")
        counts, reporters = self.counts + other.counts, self.reporters + other.reporters
        bad = dict(Counter(self.bad) + Counter(other.bad))
        both = replace(self, n=self.n + other.n, bad=bad, counts=counts, reporters=reporters)
        return Aggregate.of(told, both, self.mechanisms, self.against, self.level)

    def to_dataframe(self) -> Any:
        """`rows` as a pandas DataFrame; needs the extra `notebook`."""
        return provided("notebook").frame(self.rows())

    def plot(self) -> Any:
        """Estimates with their intervals as a Matplotlib figure, a panel for each attribute."""
        return provided("aggregated").figure(self)

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
                    **{"attribute": name, "value": str(v) if self.labels is None else self.labels[j][v]},
                    **{"count": int(self.counts[at]), "reporters": int(self.reporters[j])},
                    **{"estimate": float(self.estimates[at]), "standard_error": float(self.standard_errors[at])},
                    **{"low": float(self.low[at]), "high": float(self.high[at])},
                }

    def __repr__(self) -> str:
        left_out = f", {sum(self.bad.values()):,} left out" if self.bad else ""
        whose = "these users" if self.against == "users" else "their population"
        return (
            f"Aggregate({self.n:,} reports of {self.protocol}, epsilon={self.epsilon:g}, guarantee={self.guarantee}, "
            f"d={len(self.domain)}{left_out}; {100 * self.level:g} % intervals for {whose})"
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
    guarantee: str | None = None,
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
    names, labels : sequence, optional
        Names of the attributes, and of each attribute's values.
    settings : PrivacySettings
        The guarantee, the prior of fake values, and the first report of longitudinal protocols.
    guarantee : {'paper', 'user', 'attribute'}, optional
        What epsilon bounded when the users reported: another one gives biased estimates.  Default: the
        guarantee of `settings`, which is `paper` unless set; `plan` assumes `user`.

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
    Aggregate(3 reports of smp-grr, epsilon=2, guarantee=paper, d=2; 95 % intervals for these users)
    >>> found.counts.tolist(), found.reporters.tolist()
    ([0, 1, 1, 0, 0, 0, 1], [2, 1])
    """
    check_told(against, level, bad)
    sizes, chosen, settings = Domain.of(domain), as_protocol(protocol), settings.under(guarantee)
    attributes = tuple(names) if names is not None else tuple(f"A{j + 1}" for j in range(len(sizes)))
    if len(attributes) != len(sizes):
        raise InputError(f"names has {len(attributes)} entries, but there are {len(sizes)} attributes")
    tally = Tally(mechanisms(chosen, check_epsilon(epsilon), sizes, settings), attributes, bad)
    tally.add(reports)
    tally.check(chosen.name, epsilon)
    named = None if labels is None else check_labels(labels, sizes)
    told = chosen.name, float(epsilon), settings.guarantee, sizes, attributes, named
    return Aggregate.of(told, tally, tally.ms, against, level)


def check_told(against: str, level: float, bad: str = "count") -> None:
    """Whose frequencies intervals are for, how sure they are, and what becomes of bad reports."""
    for name, value, known in (("against", against, AGAINST), ("bad", bad, BAD)):
        if value not in known:
            raise InputError(f"{name}={value!r} is unknown; available: {', '.join(known)}")
    if not isinstance(level, (int, float)) or not 0 < level < 1:
        raise InputError(f"level={level!r} must be above 0 and below 1, such as 0.95")


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
    with (estimate - f)^2 <= z^2 (a + b f + c f^2): Wilson's, if the count is binomial.  For these users' own
    frequencies, a count that hardly varies is far from normal (at a large epsilon less than one wrong report is
    expected): there the interval is exact, with the estimate.
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
        low, high = (middle - half) / lead, (middle + half) / lead
        share = reported / n if m.recipe.unsampled is Unsampled.NOTHING else 1.0  # of the users, who say anything
        base, gain = np.broadcast_to(share * m.base, f.shape), share * m.gain
        exact = (error * m.gain * reported) ** 2 < (NEARLY_NORMAL if against == "users" else 0)
        for v in np.flatnonzero(exact).tolist():
            number, other = int(counts[columns][v]), float(base[v])
            if common := f[v] > 0.5:  # count those who don't hold it, so that few are counted
                number, other = reported - number, share - other - gain
            ends = held(number, n, other + gain, other, (1 - level) / 2)
            fewest, most = (n - ends[1], n - ends[0]) if common else ends
            low[v], high[v] = min(fewest / n, f[v]), max(most / n, f[v])
        parts.append(np.stack([f, error, low, high]))
    estimates, errors, low, high = np.concatenate(parts, axis=1)
    return estimates, errors, low, high


@lru_cache(maxsize=4096)
def held(count: int, n: int, holding: float, other: float, tail: float) -> tuple[int, int]:
    """The fewest and the most of n users who may hold a value that was counted so often.

    Holders report it with probability `holding`, others with `other`; a number of holders is ruled out if a count as
    large, or as small, has a probability of at most `tail`.
    """

    def chances(h: int) -> tuple[float, float]:
        """P(a count at least as large), P(at least as small) with h holders."""
        (a, first), (b, second) = _binomial(h, holding), _binomial(n - h, other)
        both, at = np.convolve(first, second), count - a - b
        return float(both[max(at, 0) :].sum()), float(both[: max(at + 1, 0)].sum())

    fewest = bisect_right(range(n + 1), tail, key=lambda h: chances(h)[0])
    most = bisect_left(range(n + 1), -tail, key=lambda h: -chances(h)[1]) - 1
    return min(fewest, n), max(most, 0)


def _binomial(n: int, rate: float) -> tuple[int, Floats]:
    """The probabilities of the counts that n users with this rate may have, from the first such count on."""
    rate = min(max(rate, 1e-300), 1 - 1e-16)
    reach = 10 * math.sqrt(n * rate * (1 - rate)) + 40
    x = np.arange(max(int(n * rate - reach), 0), min(int(n * rate + reach), n) + 1)
    logs = np.cumsum(np.concatenate([[0.0], np.log((n - x[:-1]) / x[1:]) + math.log(rate / (1 - rate))]))
    weights = np.exp(logs - logs.max())
    return int(x[0]), weights / weights.sum()


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


# ------------------------------------------------------------------------------------------------------------ counting


class Tally:
    """Counts of the reports that can be used, and what is wrong with the others."""

    def __init__(self, ms: tuple[Mechanism, ...], names: Sequence[str], bad: str) -> None:
        self.ms, self._names, self._refuse = ms, names, bad == "refuse"
        self.partial = any(m.recipe.unsampled is Unsampled.NOTHING for m in ms)
        self.messages = [n.messages(m.k) if isinstance(n := m.recipe.noise, (Keep, Sets)) else None for m in ms]
        self.sizes = [n.size if isinstance(n := m.recipe.noise, Subsets) else None for m in ms]
        self.n = 0
        self.bad: Counter[str] = Counter()
        self._first: tuple[int, str] | None = None
        each = zip(self.messages, ms, strict=True)
        self.heard = [np.zeros(m.k if messages is None else messages, np.int64) for messages, m in each]
        self.reporters = np.zeros(len(ms), np.int64)
        self.squares = np.zeros(len(ms))  # of the bits that are set in a report

    def add(self, reports: Any) -> None:
        """Counts reports in any of the forms, a batch at a time."""
        if isinstance(reports, Reports):
            reports = [reports]
        if isinstance(reports, (str, bytes)) or not isinstance(reports, Iterable):
            raise InputError(f"reports is of type {type(reports).__name__}; a list with a report per user is needed")
        start = 0
        for some in _chunks(reports):
            if isinstance(some, Reports):
                self._add_ours(some, start)
                start += len(some.sampled)
            else:
                self._add_users(some, start)
                start += len(some)
        if self._first is not None and self._refuse:
            (number, why), total = self._first, sum(self.bad.values())
            raise InputError(
                f"{total:,} of {start:,} reports can't be used, the first is reports[{number}]: {why}; "
                "bad='count' leaves them out and counts them"
            )
        if not self.n:
            raise InputError(f"none of {start:,} reports can be used" if start else "there are no reports")

    def _add_ours(self, reports: Reports, start: int) -> None:
        if [m.recipe for m in reports.mechanisms] != [m.recipe for m in self.ms]:
            raise InputError(
                "the reports were made by another protocol, epsilon, domain or guarantee than the one given"
            )
        first = getattr(reports, "start", 0)
        wrong: dict[int, tuple[str, str]] = {}
        for j, (values, users) in enumerate(zip(reports.values, reports.users, strict=True)):
            if len(values) != len(users):
                raise InputError(f"values[{j}] has {len(values):,} reports of {len(users):,} users")
            for i in np.flatnonzero(self._outside(values, j)).tolist():
                wrong.setdefault(int(users[i]) - first, ("outside the domain", self._holds(j, values[i])))
        senders = [each - first for each in reports.users]
        self.count(list(reports.values), senders, len(reports.sampled), wrong, start)

    def _add_users(self, batch: Any, start: int) -> None:
        """Reports of single users: first all at once, and one by one if that fails."""
        wrong: dict[int, tuple[str, str]] = {}
        columns = self._columns(batch)
        sent, users = columns or ([[] for _ in self.ms], [[] for _ in self.ms])
        for i, report in enumerate([] if columns else batch):
            try:
                entries = self._entries(report)
            except ValueError as error:
                wrong[i] = ("wrong shape", str(error))
                continue
            for j, entry in entries:
                sent[j].append(entry)
                users[j].append(i)
        values = []
        for j, entries in enumerate(sent):
            column = self._column(entries, j)
            if column is None:
                column = self._one_by_one(entries, users[j], j, wrong)
            values.append(column)
            for i in np.flatnonzero(self._outside(column, j)).tolist():
                wrong.setdefault(int(users[j][i]), ("outside the domain", self._holds(j, entries[i])))
        self.count(values, [np.asarray(each, np.int64) for each in users], len(batch), wrong, start)

    def _columns(self, batch: Any) -> tuple[list[Any], list[Any]] | None:
        """(entries, users) of each attribute, if a batch is an array that has nothing but good shapes."""
        d, everyone = len(self.ms), np.arange(len(batch))
        if not isinstance(batch, np.ndarray) or batch.shape[1:2] != (2 if self.partial else d,):
            return None
        if not self.partial:
            return [batch[:, j] for j in range(d)], [everyone] * d
        users = [np.flatnonzero(batch[:, 0] == j) for j in range(d)] if batch[0].ndim == 1 else []
        if batch.dtype.kind not in WHOLE or sum(map(len, users)) < len(batch):
            return None
        return [batch[of, 1] for of in users], users

    def _entries(self, report: Any) -> list[tuple[int, Any]]:
        """(attribute, entry) of one report."""
        d = len(self.ms)
        if not isinstance(report, (list, tuple)) and not (isinstance(report, np.ndarray) and report.ndim):
            raise ValueError(f"it is {_shown(report)}, not a list")
        if not self.partial:
            if len(report) != d:
                raise ValueError(f"it has {len(report)} entries, but there are {d} attributes")
            return list(enumerate(report))
        first = report[0] if len(report) == 2 else None
        if not isinstance(first, (int, np.integer)) or isinstance(first, bool) or not 0 <= first < d:
            raise ValueError(f"it is {_shown(report)}, not a pair of an attribute 0 … {d - 1} and what is sent for it")
        return [(int(first), report[1])]

    def _column(self, entries: Any, j: int) -> npt.NDArray[Any] | None:
        """All entries of an attribute as an array; None if some have another shape or are no numbers."""
        k, bits = self.ms[j].k, self.messages[j] is None
        if not len(entries):
            return np.empty((0, k) if bits else 0, np.uint8 if bits else np.int64)
        try:
            column = np.asarray(entries)
        except (ValueError, TypeError, OverflowError):
            return None
        if bits and self.sizes[j] == column.shape[-1] < k:
            column = _as_bits(column, k)
        if column.shape != ((len(entries), k) if bits else (len(entries),)):
            return None
        return column if column.dtype.kind in (BITS if bits else WHOLE) else None

    def _one_by_one(self, entries: Any, users: Any, j: int, wrong: dict[int, Any]) -> npt.NDArray[Any]:
        """The same, where an entry of a wrong shape becomes one outside the domain."""
        k = self.ms[j].k
        messages = self.messages[j]
        outside: Any = np.full(k, 2, np.uint8) if messages is None else -1
        needed = f"{k} bits" if messages is None else f"a value 0 … {messages - 1}"
        found = []
        for i, entry in zip(users, entries, strict=True):
            column = self._column([entry], j)
            if column is None:
                why = f"attribute {self._names[j]!r} holds {_shown(entry)}, not {needed}"
                wrong.setdefault(i, ("wrong shape", why))
            found.append(outside if column is None else column[0])
        return np.array(found)

    def _outside(self, values: Any, j: int) -> Any:
        """Which reports of an attribute are outside its domain."""
        messages, k = self.messages[j], self.ms[j].k
        shape, kinds = ((len(values), k), BITS) if messages is None else ((len(values),), WHOLE)
        if values.shape != shape or values.dtype.kind not in kinds:
            raise InputError(f"values[{j}] has shape {values.shape} and dtype {values.dtype}; needed: {shape}")
        if messages is not None:
            return (values < 0) | (values >= messages)
        wrong = ((values != 0) & (values != 1)).any(axis=1)
        return wrong if self.sizes[j] is None else wrong | (values.sum(axis=1) != self.sizes[j])

    def _holds(self, j: int, entry: Any) -> str:
        messages = self.messages[j]
        valid = "bits 0 and 1" if messages is None else f"0 … {messages - 1}"
        valid = valid if self.sizes[j] is None else f"{self.sizes[j]} different values, or bits"
        return f"attribute {self._names[j]!r} holds {_shown(entry)}; valid: {valid}"

    def count(self, values: list[Any], users: list[Any], n: int, wrong: dict[int, tuple[str, str]], start: int) -> None:
        """Adds the reports of all users but those with something wrong."""
        for i in sorted(wrong):
            kind, why = wrong[i]
            self._first = self._first or (start + i, why)
            self.bad[kind] += 1
        used = np.ones(n, bool)
        used[list(wrong)] = False
        for j, of in enumerate(users):
            values[j] = values[j][used[of]].astype(np.uint8 if self.messages[j] is None else np.int64)
            if self.messages[j] is None:
                self.squares[j] += (values[j].sum(axis=1, dtype=np.float64) ** 2).sum()
            self.reporters[j] += len(values[j])
            self.heard[j] += heard(values[j], self.ms[j].k, self.ms[j].recipe)
        self.n += int(used.sum())

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Of the values of all attributes."""
        each = zip(self.heard, self.ms, strict=True)
        return np.concatenate([supported(sent, m.k, m.recipe) for sent, m in each])

    def check(self, protocol: str, epsilon: float) -> None:
        """Refuses bits that this protocol does not send: how many are set does not depend on what users hold."""
        counts = self.counts
        for j, (m, columns) in enumerate(zip(self.ms, Domain.of(m.k for m in self.ms).slices, strict=True)):
            reported = int(self.reporters[j])
            if self.messages[j] is not None or reported < ENOUGH:
                continue
            mean, expected = counts[columns].sum() / reported, float(np.sum(m.base + np.zeros(m.k)) + m.gain)
            noise = self.squares[j] / reported - mean**2
            if abs(mean - expected) > DEVIATIONS * math.sqrt(max(noise, expected / reported) / reported):
                raise InputError(
                    f"the reports of {self._names[j]!r} have {mean:.3g} bits set on average, but {protocol} at "
                    f"epsilon={epsilon:g} sets {expected:.3g}; were they made with another protocol, epsilon or domain?"
                )


def _chunks(given: Iterable[Any]) -> Iterator[Any]:
    """Reports of many users as they come, those of single users in batches, or slices of an array of numbers."""
    if type(given) is np.ndarray and given.dtype.kind in BITS:
        yield from np.array_split(given, given.size // CELLS + 1)
        return
    reports = iter(given)
    for first in reports:
        if isinstance(first, Reports):
            yield first
            continue
        batch = [first, *islice(reports, BATCH - 1)]
        if any(isinstance(report, Reports) for report in batch):
            raise InputError("reports mixes reports of single users with those of gpu_rsfd.reports; give one kind")
        yield batch


def _as_bits(sets: npt.NDArray[Any], k: int) -> npt.NDArray[Any]:
    """Sets of values as bits; all bits are 2 where a value is outside the domain or given twice."""
    if sets.ndim != 2 or sets.dtype.kind not in WHOLE:
        return sets
    inside = (sets >= 0) & (sets < k)
    bits = np.zeros((len(sets), k), np.uint8)
    np.put_along_axis(bits, np.where(inside, sets, 0), 1, axis=1)
    bits[~inside.all(axis=1) | (bits.sum(axis=1) != sets.shape[1])] = 2
    return bits


def _shown(value: Any) -> str:
    text = repr(value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value)
    return text if len(text) <= 60 else f"{text[:57]}…"
