"""Counts of collected reports, in any of their forms, and what is wrong with those that can't be used."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends.literal import Reports
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import Bits, Keep, Mechanism, Sets, Subsets, Unsampled
from gpu_rsfd.protocols.form import implementation

BATCH = 4096  # reports that are looked at together
WHOLE, BITS = "iu", "biuf"  # kinds of NumPy arrays that may hold values, and bits
DEVIATIONS = 6  # of the mean number of bits that are set, before reports are taken for those of another protocol
ENOUGH = 100  # reports, for that

# noise class -> how many different messages there are; None: a bit for each value
MESSAGES: dict[type, Callable[[Any, int], int | None]] = {
    Keep: lambda noise, k: k,
    Sets: lambda noise, k: noise.messages(k),
    Bits: lambda noise, k: None,
    Subsets: lambda noise, k: None,
}


class Tally:
    """Counts of the reports that can be used, and what is wrong with the others."""

    def __init__(self, ms: tuple[Mechanism, ...], names: Sequence[str], bad: str) -> None:
        self.ms, self._names, self._refuse = ms, names, bad == "refuse"
        self._smp = any(m.recipe.unsampled is Unsampled.NOTHING for m in ms)
        self._messages = [implementation(MESSAGES, m.recipe.noise, "aggregate")(m.recipe.noise, m.k) for m in ms]
        noises = [m.recipe.noise for m in ms]
        self._sizes = [noise.size if isinstance(noise, Subsets) else None for noise in noises]
        self.n = 0
        self.bad: Counter[str] = Counter()
        self._first: tuple[int, str] | None = None
        self.counts = np.zeros(sum(m.k for m in ms), np.int64)
        self.reporters = np.zeros(len(ms), np.int64)
        self._squares = np.zeros(len(ms))  # of the bits that are set in a report

    def add(self, reports: Any) -> None:
        """Counts reports in any of the forms, a batch at a time."""
        if isinstance(reports, Reports):
            reports = [reports]
        if isinstance(reports, (str, bytes)) or not isinstance(reports, Iterable):
            raise InputError(f"reports is of type {type(reports).__name__}; a list with a report per user is needed")
        start = 0
        for some in _chunks(iter(reports)):
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
        self._count(list(reports.values), senders, len(reports.sampled), wrong, start)

    def _add_users(self, batch: list[Any], start: int) -> None:
        """Reports of single users: first all at once, and one by one if that fails."""
        wrong: dict[int, tuple[str, str]] = {}
        sent: list[list[Any]] = [[] for _ in self.ms]
        users: list[list[int]] = [[] for _ in self.ms]
        for i, report in enumerate(batch):
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
                wrong.setdefault(users[j][i], ("outside the domain", self._holds(j, entries[i])))
        self._count(values, [np.array(each, np.int64) for each in users], len(batch), wrong, start)

    def _entries(self, report: Any) -> list[tuple[int, Any]]:
        """(attribute, entry) of one report."""
        d = len(self.ms)
        if not isinstance(report, (list, tuple)) and not (isinstance(report, np.ndarray) and report.ndim):
            raise ValueError(f"it is {_shown(report)}, not a list")
        if not self._smp:
            if len(report) != d:
                raise ValueError(f"it has {len(report)} entries, but there are {d} attributes")
            return list(enumerate(report))
        if len(report) != 2 or not _is_whole(report[0]) or not 0 <= report[0] < d:
            raise ValueError(f"it is {_shown(report)}, not a pair of an attribute 0 … {d - 1} and what is sent for it")
        return [(int(report[0]), report[1])]

    def _column(self, entries: list[Any], j: int) -> npt.NDArray[Any] | None:
        """All entries of an attribute as an array; None if some have another shape or are no numbers."""
        k, bits = self.ms[j].k, self._messages[j] is None
        if not entries:
            return np.empty((0, k) if bits else 0, np.uint8 if bits else np.int64)
        try:
            column = np.array(entries)
        except (ValueError, TypeError, OverflowError):
            return None
        if bits and self._sizes[j] == column.shape[-1] < k:
            column = _as_bits(column, k)
        if column.shape != ((len(entries), k) if bits else (len(entries),)):
            return None
        return column if column.dtype.kind in (BITS if bits else WHOLE) else None

    def _one_by_one(self, entries: list[Any], users: list[int], j: int, wrong: dict[int, Any]) -> npt.NDArray[Any]:
        """The same, where an entry of a wrong shape becomes one outside the domain."""
        k = self.ms[j].k
        messages = self._messages[j]
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
        messages, k = self._messages[j], self.ms[j].k
        shape, kinds = ((len(values), k), BITS) if messages is None else ((len(values),), WHOLE)
        if values.shape != shape or values.dtype.kind not in kinds:
            raise InputError(f"values[{j}] has shape {values.shape} and dtype {values.dtype}; needed: {shape}")
        if messages is not None:
            return (values < 0) | (values >= messages)
        wrong = ((values != 0) & (values != 1)).any(axis=1)
        return wrong if self._sizes[j] is None else wrong | (values.sum(axis=1) != self._sizes[j])

    def _holds(self, j: int, entry: Any) -> str:
        messages = self._messages[j]
        valid = "bits 0 and 1" if messages is None else f"0 … {messages - 1}"
        valid = valid if self._sizes[j] is None else f"{self._sizes[j]} different values, or bits"
        return f"attribute {self._names[j]!r} holds {_shown(entry)}; valid: {valid}"

    def _count(
        self, values: list[Any], users: list[Any], n: int, wrong: dict[int, tuple[str, str]], start: int
    ) -> None:
        """Adds the reports of all users but those with something wrong."""
        for i in sorted(wrong):
            kind, why = wrong[i]
            self._first = self._first or (start + i, why)
            self.bad[kind] += 1
        used = np.ones(n, bool)
        used[list(wrong)] = False
        for j, of in enumerate(users):
            values[j] = values[j][used[of]].astype(np.uint8 if self._messages[j] is None else np.int64)
            if self._messages[j] is None:
                self._squares[j] += (values[j].sum(axis=1, dtype=np.float64) ** 2).sum()
            self.reporters[j] += len(values[j])
        self.counts += Reports(values, users, np.empty(0, np.int64), self.ms).counts()
        self.n += int(used.sum())

    def check(self, protocol: str, epsilon: float) -> None:
        """Refuses bits that this protocol does not send: how many are set does not depend on what users hold."""
        for j, (m, columns) in enumerate(zip(self.ms, Domain.of(m.k for m in self.ms).slices, strict=True)):
            reported = int(self.reporters[j])
            if self._messages[j] is not None or reported < ENOUGH:
                continue
            mean, expected = self.counts[columns].sum() / reported, float(np.sum(m.base + np.zeros(m.k)) + m.gain)
            noise = self._squares[j] / reported - mean**2
            if abs(mean - expected) > DEVIATIONS * math.sqrt(max(noise, expected / reported) / reported):
                raise InputError(
                    f"the reports of {self._names[j]!r} have {mean:.3g} bits set on average, but {protocol} at "
                    f"epsilon={epsilon:g} sets {expected:.3g}; were they made with another protocol, epsilon or domain?"
                )


def _chunks(reports: Iterator[Any]) -> Iterator[Any]:
    """Reports of many users as they come, those of single users in batches."""
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


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = repr(value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value)
    return text if len(text) <= 60 else f"{text[:57]}…"
