"""The recipes of a plan as the tables that counts.c reads; and the calls into it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.planning import AttributePlan, Counts
from gpu_rsfd.protocols import Bits, Keep, Unsampled
from gpu_rsfd.tape import KEEP_ONE, LANES, ONE, Codes, Words, code_dtype

NOISES: frozenset[type] = frozenset({Keep, Bits})  # what counts.c knows
KINDS = {Unsampled.ZERO: 0, Unsampled.FAKE: 1, Unsampled.OWN: 2, Unsampled.NOTHING: 3}

_SIZES = ("priors", "mine_keeps", "all_keeps", "kepts", "thresholds", "slots", "runs", "needs_value")
_TABLES = ("prior", "keeps", "least", "kept", "threshold", "partial", "slot", "run")
PRIOR = np.dtype([("thresholds", np.uint64), ("encoded", np.int32), ("counted", np.int32)])
KEPT = np.dtype([(name, np.int32) for name in ("recipe", "prior", "step")])
SLOT = np.dtype([(name, np.int32) for name in ("recipe", "q", "p")])
RUN = np.dtype([(name, np.int32) for name in ("kind", "prior", "stop")])
ATTRIBUTE = np.dtype(
    [
        *((name, np.int32) for name in ("index", "k", "digits", "wide")),
        *((name, np.uint64) for name in ("offset", "codes", "out")),
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


class _Form:
    """The recipes of an attribute.  An attribute whose recipes are equal to another's has the same form."""

    def __init__(self, attribute: AttributePlan) -> None:
        recipes = attribute.recipes
        keeps = {i: (r, r.noise) for i, r in enumerate(recipes) if isinstance(r.noise, Keep)}
        bits = {i: (r, r.noise) for i, r in enumerate(recipes) if isinstance(r.noise, Bits)}
        encoded = {r.prior for r, _ in bits.values() if r.unsampled is Unsampled.FAKE}
        counted = {r.prior for r, _ in keeps.values() if r.unsampled is not Unsampled.NOTHING}
        faked = [*(r for r, _ in keeps.values()), *(r for r, _ in bits.values() if r.unsampled is Unsampled.FAKE)]
        priors = list(dict.fromkeys(r.prior for r in faked))
        self._drawn = [None if p is None else np.array(p, np.uint64) for p in priors]  # the table points to them

        mine, everyone = (
            sorted({noise.threshold for r, noise in keeps.values() if (r.unsampled is Unsampled.OWN) is own})
            for own in (False, True)
        )
        first = len(mine) + 1  # where those of everyone begin
        upper = np.arange(256, dtype=np.uint64) << np.uint64(24)
        slots = sorted(
            (KINDS[r.unsampled], priors.index(r.prior) if r.unsampled is Unsampled.FAKE else -1, i)
            for i, (r, _) in bits.items()
        )
        noises = {i: noise for i, (_, noise) in bits.items()}
        thresholds = list(dict.fromkeys(t for *_, i in slots for t in (noises[i].tq, noises[i].tp) if t < ONE))
        place = {t: i for i, t in enumerate(thresholds)} | {ONE: len(thresholds)}
        whole = {
            t for r, noise in bits.values() if r.unsampled is not Unsampled.NOTHING for t in (noise.tq, noise.tp)
        }  # matter for all users
        ends = [j + 1 for j, slot in enumerate(slots) if j + 1 == len(slots) or slot[:2] != slots[j + 1][:2]]
        tables: dict[str, npt.NDArray[Any]] = {
            "prior": _rows(
                PRIOR,
                (
                    (0 if drawn is None else drawn.ctypes.data, p in encoded, p in counted)
                    for p, drawn in zip(priors, self._drawn, strict=True)
                ),
            ),
            "keeps": np.array([*mine, KEEP_ONE, *everyone, KEEP_ONE], np.uint64),
            "least": np.concatenate(
                [
                    np.searchsorted(np.array(mine, np.uint64), upper, "right"),
                    np.searchsorted(np.array(everyone, np.uint64), upper, "right") + first,
                ]
            ).astype(np.uint16),
            "kept": _rows(
                KEPT,
                (
                    (
                        i,
                        -1 if r.unsampled is Unsampled.NOTHING else priors.index(r.prior),
                        first + everyone.index(t) if r.unsampled is Unsampled.OWN else mine.index(t),
                    )
                    for i, (r, noise) in keeps.items()
                    for t in (noise.threshold,)
                ),
            ),
            "threshold": np.array(thresholds, np.uint32),
            "partial": np.array([t not in whole for t in thresholds], np.int32),
            "slot": _rows(SLOT, ((i, place[noises[i].tq], place[noises[i].tp]) for *_, i in slots)),
            "run": _rows(RUN, ((*slots[end - 1][:2], end) for end in ends)),
        }
        self._tables = tables  # kept as long as something points to them
        sizes = len(priors), len(mine), len(everyone), len(keeps), len(thresholds), len(slots), len(ends), bool(priors)
        self.row = (*sizes, *(table.ctypes.data for table in tables.values()))
        # Nanoseconds for 64 users, roughly: what a piece of work is cut by.
        self.cost = attribute.k * (12 + 2 * len(thresholds) + len(slots)) * bool(bits) + 100 * len(priors)


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
            (a.index, a.k, (a.k - 1).bit_length(), code_dtype(a.k).itemsize > 1, a.offset, 0, 0, *form.row)
            for a, form in zip(attributes, self._forms, strict=True)
        )
        self._rows = _rows(ATTRIBUTE, rows)
        self._cells = np.cumsum([0, *(len(a.recipes) * a.k for a in attributes)])  # of a repetition, before each

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
        stop: npt.NDArray[np.int32],
    ) -> tuple[list[Counts], Counts]:
        """Per attribute of a part [recipe, repetition, value], and who sampled it, [repetition, attribute].

        Of the users in some groups of 64.  The interpreter is free meanwhile; `stop[0] = 1` ends it early.
        """
        rows, many = self._rows[part].copy(), len(repetitions)
        cells = self._cells[part.start : part.stop + 1] - self._cells[part.start]
        table = np.zeros(int(cells[-1]) * many, np.int64)
        rows["out"] = np.uint64(table.ctypes.data) + (cells[:-1] * many * table.itemsize).astype(np.uint64)
        rows["codes"] = [held.columns[a.index].ctypes.data for a in self.attributes[part]]
        sampled = np.zeros((many, len(rows)), np.int64)
        wanted = np.array(repetitions, np.uint64)
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
            stop=stop.ctypes.data,
            d=self.d,
            digits=(self.d - 1).bit_length(),
            balanced=self.assignment == "balanced",
            needs_assignment=count_sampled or self._needs_assignment,
            attributes=len(rows),
        )
        if library.rsfd_count(ctypes.byref(job)):
            raise MemoryError("the native backend could not get its working memory")
        shapes = [(len(a.recipes), many, a.k) for a in self.attributes[part]]
        tables = np.split(table, cells[1:-1] * many)
        return [found.reshape(shape) for found, shape in zip(tables, shapes, strict=True)], sampled


def draw(
    library: ctypes.CDLL, seed: int, attribute: int, thresholds: Words | None, start: int, out: Codes, k: int
) -> None:
    """Fills `out` with a synthetic attribute's values of users from `start`, a multiple of 64, on."""
    assert start % LANES == 0
    assert out.flags.c_contiguous
    assert out.dtype == code_dtype(k)
    at = None if thresholds is None else thresholds.ctypes.data
    library.rsfd_draw(seed, attribute, k, at, start, len(out), out.ctypes.data)
