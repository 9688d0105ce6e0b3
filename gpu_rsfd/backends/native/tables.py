"""The recipes of a plan as the tables that counts.c reads; and the calls into it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.planning import AttributePlan, Counts
from gpu_rsfd.protocols import Bits, Keep, Recipe, Sets, Unsampled
from gpu_rsfd.protocols.designs import Design
from gpu_rsfd.tape import KEEP_ONE, LANES, ONE, Codes, Words, code_dtype

NOISES: frozenset[type] = frozenset({Keep, Sets, Bits})  # what counts.c knows
KINDS = {Unsampled.ZERO: 0, Unsampled.FAKE: 1, Unsampled.OWN: 2, Unsampled.NOTHING: 3}

_SIZES = ("sents", "thresholds", "slots", "runs")
_TABLES = ("sent", "threshold", "partial", "slot", "run")
PRIOR = np.dtype([("thresholds", np.uint64), ("encoded", np.int32), ("counted", np.int32)])
KEPT = np.dtype([(name, np.int32) for name in ("recipe", "prior", "step")])
SENT = np.dtype(
    [
        *(
            (name, np.int32)
            for name in ("messages", "digits", "size", "priors", "mine_keeps", "all_keeps", "kepts", "_")
        ),
        *((name, np.uint64) for name in ("bins", "table", "prior", "keeps", "least", "kept")),
    ]
)
SLOT = np.dtype([(name, np.int32) for name in ("recipe", "q", "p")])
RUN = np.dtype([(name, np.int32) for name in ("kind", "prior", "stop")])
ATTRIBUTE = np.dtype(
    [
        *((name, np.int32) for name in ("index", "k", "digits", "wide")),
        *((name, np.uint64) for name in ("offset", "codes", "out", "bins")),
        *((name, np.int32) for name in _SIZES),
        *((name, np.uint64) for name in _TABLES),
    ]
)


class _Job(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("seed", "n")),
        *((name, ctypes.c_int64) for name in ("held", "first", "groups", "repetitions")),
        *((name, ctypes.c_void_p) for name in ("repetition", "attribute", "sampled", "stop")),
        *((name, ctypes.c_int32) for name in ("d", "digits", "balanced", "needs_assignment", "attributes")),
    ]


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Tells ctypes what the functions of counts.c take and give."""
    library.rsfd_count.argtypes, library.rsfd_count.restype = [ctypes.c_void_p], ctypes.c_int
    word, at = ctypes.c_uint64, ctypes.c_void_p
    library.rsfd_draw.argtypes, library.rsfd_draw.restype = [word, word, word, at, word, ctypes.c_int64, at], None
    library.rsfd_build.argtypes, library.rsfd_build.restype = [], ctypes.c_char_p
    return library


def _rows(dtype: np.dtype[Any], items: Iterable[Iterable[Any]]) -> npt.NDArray[Any]:
    return np.array([tuple(item) for item in items], dtype)


class _Sent:
    """Recipes with the same messages: `Keep` (and fake values to encode as bits), or `Sets` of one design."""

    def __init__(
        self, design: Design | None, k: int, recipes: Mapping[int, Recipe], encoded: list[Any], bins: int
    ) -> None:
        self.messages = k if design is None else design.messages
        keeps = [(i, r, r.noise.integers[0]) for i, r in recipes.items()]
        counted = {r.prior for _, r, _ in keeps if r.unsampled is not Unsampled.NOTHING}
        priors = list(dict.fromkeys([*(r.prior for _, r, _ in keeps), *encoded]))
        drawn = [None if p is None else np.array(p, np.uint64) for p in priors]
        self.priors = {p: i for i, p in enumerate(priors)}
        mine, everyone = (
            sorted({t for _, r, t in keeps if (r.unsampled is Unsampled.OWN) is own}) for own in (False, True)
        )
        first = len(mine) + 1  # where those of everyone begin
        upper = np.arange(256, dtype=np.uint64) << np.uint64(24)
        least = [np.searchsorted(np.array(mine, np.uint64), upper, "right")]
        least += [np.searchsorted(np.array(everyone, np.uint64), upper, "right") + first]
        kept = (
            (
                i,
                -1 if r.unsampled is Unsampled.NOTHING else priors.index(r.prior),
                first + everyone.index(t) if r.unsampled is Unsampled.OWN else mine.index(t),
            )
            for i, r, t in keeps
        )
        prior = (
            (0 if at is None else at.ctypes.data, p in encoded, p in counted)
            for p, at in zip(priors, drawn, strict=True)
        )
        tables = (
            _rows(PRIOR, prior),
            np.array([*mine, KEEP_ONE, *everyone, KEEP_ONE], np.uint64),
            np.concatenate(least).astype(np.uint16),
            _rows(KEPT, kept),
        )
        members = None if design is None else design.table
        self._kept = (drawn, tables, members)  # as long as something points to them
        sizes = (0 if design is None else design.size, len(priors), len(mine), len(everyone), len(keeps), 0)
        self.row = (
            *(self.messages, (self.messages - 1).bit_length(), *sizes, bins),
            *(0 if members is None else members.ctypes.data, *(table.ctypes.data for table in tables)),
        )


class _Form:
    """The recipes of an attribute.  An attribute whose recipes are equal to another's has the same form."""

    def __init__(self, attribute: AttributePlan) -> None:
        recipes = attribute.recipes
        bits = {i: (r, r.noise) for i, r in enumerate(recipes) if isinstance(r.noise, Bits)}
        encoded = {r.prior: None for r, _ in bits.values() if r.unsampled is Unsampled.FAKE}
        alike: dict[Design | None, dict[int, Recipe]] = {None: {}}
        for i, r in enumerate(recipes):
            if isinstance(r.noise, (Keep, Sets)):
                alike.setdefault(r.noise.design, {})[i] = r
        values = _Sent(None, attribute.k, alike.pop(None), list(encoded), 0)
        sent, self.bins = [values] * bool(values.priors), 0  # and the counts of messages in a repetition
        for design, some in alike.items():
            sent.append(_Sent(design, attribute.k, some, [], self.bins))
            self.bins += len(some) * sent[-1].messages
        slots = sorted(
            (KINDS[r.unsampled], values.priors[r.prior] if r.unsampled is Unsampled.FAKE else -1, i)
            for i, (r, _) in bits.items()
        )
        noises = {i: noise for i, (_, noise) in bits.items()}
        thresholds = list(dict.fromkeys(t for *_, i in slots for t in (noises[i].tq, noises[i].tp) if t < ONE))
        place = {t: i for i, t in enumerate(thresholds)} | {ONE: len(thresholds)}
        whole = {
            t for r, noise in bits.values() if r.unsampled is not Unsampled.NOTHING for t in (noise.tq, noise.tp)
        }  # matter for all users
        ends = [j + 1 for j, slot in enumerate(slots) if j + 1 == len(slots) or slot[:2] != slots[j + 1][:2]]
        tables = (
            _rows(SENT, (one.row for one in sent)),
            np.array(thresholds, np.uint32),
            np.array([t not in whole for t in thresholds], np.int32),
            _rows(SLOT, ((i, place[noises[i].tq], place[noises[i].tp]) for *_, i in slots)),
            _rows(RUN, ((*slots[end - 1][:2], end) for end in ends)),
        )
        self._kept = (sent, tables)  # as long as something points to them
        sizes = len(sent), len(thresholds), len(slots), len(ends)
        self.row = (*sizes, *(table.ctypes.data for table in tables))
        # Nanoseconds for 64 users, roughly: what a piece of work is cut by.
        priors = len(values.priors) + len(alike)
        self.cost = attribute.k * (12 + 2 * len(thresholds) + len(slots)) * bool(bits) + 100 * priors


@dataclass(frozen=True)
class Held:
    """The codes of some users: all from group `first` of 64 users on."""

    first: int
    columns: Sequence[Codes] | Mapping[int, Codes]  # by the number of the attribute


class Tables:
    """Attributes of a plan as counts.c reads them."""

    def __init__(self, attributes: Sequence[AttributePlan], d: int, assignment: str) -> None:
        forms: dict[tuple[int, Any], _Form] = {}
        self._forms = []
        for a in attributes:
            if (a.k, a.recipes) not in forms:
                forms[a.k, a.recipes] = _Form(a)
            self._forms.append(forms[a.k, a.recipes])
        self.attributes, self.d, self.assignment = attributes, d, assignment
        self.costs = [form.cost for form in self._forms]
        recipes = [r for a in attributes for r in a.recipes]
        self.partial = any(r.unsampled is Unsampled.NOTHING for r in recipes)
        self._needs_assignment = any(r.unsampled is not Unsampled.OWN for r in recipes)
        rows = (
            (a.index, a.k, (a.k - 1).bit_length(), code_dtype(a.k).itemsize > 1, a.offset, 0, 0, 0, *form.row)
            for a, form in zip(attributes, self._forms, strict=True)
        )
        self._rows = _rows(ATTRIBUTE, rows)
        self._values = np.array([len(a.recipes) * a.k for a in attributes])  # counts of a repetition
        self._cells = np.cumsum(
            [0, *(self._values + [form.bins for form in self._forms])]
        )  # and of messages, before each

    def bytes(self, part: slice) -> int:
        """What the counts of a repetition of some attributes take."""
        return 8 * int(self._cells[part.stop] - self._cells[part.start])

    def count(
        self,
        library: ctypes.CDLL,
        held: Held,
        n: int,
        seed: int,
        repetitions: Sequence[int],
        groups: slice,
        part: slice,
        count_sampled: bool,
        stop: npt.NDArray[np.int32] | None = None,
    ) -> tuple[list[Counts], Counts]:
        """Per attribute of a part [recipe, repetition, value], and who sampled it, [repetition, attribute].

        Of the users in some groups of 64.  The interpreter is free meanwhile; `stop[0] = 1` ends it early.
        """
        rows, many = self._rows[part].copy(), len(repetitions)
        cells = self._cells[part.start : part.stop + 1] - self._cells[part.start]
        table = np.zeros(int(cells[-1]) * many, np.int64)
        starts, bins = cells[:-1] * many, (cells[:-1] + self._values[part]) * many
        rows["out"], rows["bins"] = np.uint64(table.ctypes.data) + 8 * np.array([starts, bins], np.uint64)
        rows["codes"] = [held.columns[a.index].ctypes.data for a in self.attributes[part]]
        sampled = np.zeros((many, len(rows)), np.int64)
        wanted, never = np.array(repetitions, np.uint64), np.zeros(1, np.int32)
        job = _Job(
            seed=seed,
            n=n,
            held=held.first,
            first=groups.start,
            groups=groups.stop - groups.start,
            repetitions=many,
            repetition=wanted.ctypes.data,
            attribute=rows.ctypes.data,
            sampled=sampled.ctypes.data if count_sampled else None,
            stop=never.ctypes.data if stop is None else stop.ctypes.data,
            d=self.d,
            digits=(self.d - 1).bit_length(),
            balanced=self.assignment == "balanced",
            needs_assignment=count_sampled or self._needs_assignment,
            attributes=len(rows),
        )
        if library.rsfd_count(ctypes.byref(job)):
            raise MemoryError("the native backend could not get its working memory")
        shapes = [(len(a.recipes), many, a.k) for a in self.attributes[part]]
        counts = [table[i:j].reshape(shape) for i, j, shape in zip(starts, bins, shapes, strict=True)]
        return counts, sampled


def draw(
    library: ctypes.CDLL, seed: int, attribute: int, thresholds: Words | None, start: int, out: Codes, k: int
) -> None:
    """Fills `out` with a synthetic attribute's values of users from `start`, a multiple of 64, on."""
    assert start % LANES == 0
    assert out.flags.c_contiguous
    assert out.dtype == code_dtype(k)
    at = None if thresholds is None else thresholds.ctypes.data
    library.rsfd_draw(seed, attribute, k, at, start, len(out), out.ctypes.data)
