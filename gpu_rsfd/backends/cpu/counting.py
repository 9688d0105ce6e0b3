"""The NumPy arithmetic of one task: some users, some attributes, some repetitions, every recipe at once.

The bit vectors of unary encodings exist only as bits of words: one column (attribute, value) of all users of the
task at a time, never a table of users x values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends.cpu.bitslice import (
    ROWS,
    at_least,
    digit_planes,
    one_hot,
    pack,
    pairs_of,
    program,
    valid_lanes,
    value_counts,
)
from gpu_rsfd.backends.cpu.subsets import chosen
from gpu_rsfd.planning import AttributePlan, Counts
from gpu_rsfd.protocols.designs import Design
from gpu_rsfd.protocols.form import Bits, Keep, Recipe, Sets, Subsets, Thresholds, Unsampled, implementation
from gpu_rsfd.tape import LANES, LEVELS, Codes, Tape, Words, code_dtype, fake_values, keep_draw, scale

SUBSET_CELLS = 1 << 20  # users x values that subsets are chosen for at a time

ColumnReader = Callable[[int, int, int], Codes]  # (attribute, first user, last user + 1) -> codes


@dataclass(frozen=True)
class Task:
    """A piece of a simulation whose counts can be added to those of any other piece."""

    start: int  # first user, a multiple of 64
    stop: int
    n: int  # users of the whole data set
    d: int  # attributes of the whole data set
    assignment: str
    repetitions: tuple[int, ...]
    attributes: tuple[AttributePlan, ...]
    count_sampled: bool  # also count the users who sampled each attribute


@dataclass(frozen=True)
class TaskCounts:
    counts: list[Counts]  # per attribute of the task: [recipe, repetition, value]
    sampled: Counts | None  # [repetition, attribute of the task]


class _Users:
    """The users of a task as [repetition, user] arrays, padded with nobody to whole words."""

    def __init__(self, task: Task, tape: Tape) -> None:
        self.tape, self.task = tape, task
        self.n = task.stop - task.start
        self.groups = -(-self.n // LANES)
        self.group = task.start // LANES
        self.lanes = self.groups * LANES
        self.valid = valid_lanes(self.n)
        self.shape = (len(task.repetitions), self.groups)
        self.assigned: Codes | None = None
        if task.count_sampled or any(a.needs_assignment for a in task.attributes):
            self.assigned = np.full((len(task.repetitions), self.lanes), task.d, code_dtype(task.d + 1))  # d: nobody
            for row, repetition in zip(self.assigned, task.repetitions, strict=True):
                row[: self.n] = tape.assigned(task.assignment, repetition, task.n, task.d, task.start, task.stop)

    def sampled(self, attribute: int) -> npt.NDArray[np.bool_]:
        """[repetition, user]: who sampled an attribute."""
        assert self.assigned is not None
        return np.equal(self.assigned, attribute)

    def values(self, attribute: int) -> Words:
        """[repetition, user] words of the VALUE stream (without the padding)."""
        rows = [self.tape.value(attribute, r, self.task.start, self.task.stop) for r in self.task.repetitions]
        return np.stack(rows) if len(rows) > 1 else rows[0][None]

    def padded(self, codes: Codes) -> Codes:
        """[..., user] codes with zeros for the lanes that are nobody's."""
        return np.pad(codes, [*[(0, 0)] * (codes.ndim - 1), (0, self.lanes - self.n)])

    def digits(self, column: int, out: npt.NDArray[np.uint64]) -> None:
        """out [level, repetition, group] = the binary digits of U; nobody's U is the largest: never < a threshold."""
        for r, repetition in enumerate(self.task.repetitions):
            np.copyto(out[:, r, :], self.tape.bits(column, repetition, self.group, self.groups).T)
        if self.n != self.lanes:
            out[:, :, -1] |= ~self.valid[-1]


def run_task(read: ColumnReader, task: Task, seed: int) -> TaskCounts:
    """All counts of a task: what a worker does.  `read` gives the users' codes."""
    users = _Users(task, Tape(seed))
    counts = [_Column(users, attribute, read).counts() for attribute in task.attributes]
    sampled = None
    if task.count_sampled:
        sampled = np.stack([users.sampled(a.index).sum(axis=1) for a in task.attributes], axis=1, dtype=np.int64)
    return TaskCounts(counts, sampled)


class _Column:
    """An attribute of the users of a task: what counts of its reports are made from."""

    def __init__(self, users: _Users, attribute: AttributePlan, read: ColumnReader) -> None:
        self.users, self.attribute, self.k = users, attribute, attribute.k
        self.codes = users.padded(read(attribute.index, users.task.start, users.task.stop))
        self.mine = users.sampled(attribute.index) if attribute.needs_assignment else None
        self.words = np.empty((users.shape[0], 0), np.uint64)
        self.fakes: dict[Thresholds | None, Codes] = {}  # prior -> [repetition, user] fake values; None: uniform
        if attribute.needs_value:
            self.words = users.values(attribute.index)
            for prior in (None, *(r.prior for r in attribute.recipes)):
                if prior not in self.fakes:
                    self.fakes[prior] = users.padded(fake_values(self.words, self.k, prior))

    def counts(self) -> Counts:
        """[recipe, repetition, value]"""
        recipes = self.attribute.recipes
        out = np.zeros((len(recipes), self.users.shape[0], self.k), np.int64)
        for count in dict.fromkeys(implementation(COUNTERS, r.noise, "the numpy backend") for r in recipes):
            count(self, out)
        return out


def _count_values(column: _Column, out: Counts) -> None:
    """All `Keep` and `Sets`: those with the same messages that send the same for unsampled attributes, together."""
    alike: dict[tuple[Design | None, Unsampled, Thresholds | None], dict[int, int]] = {}
    for i, r in enumerate(column.attribute.recipes):
        if isinstance(r.noise, (Keep, Sets)):
            alike.setdefault((r.noise.design, r.unsampled, r.prior), {})[i] = r.noise.threshold
    for (design, unsampled, prior), keeps in alike.items():
        if design is None:
            out[list(keeps)] = _count_messages(column, unsampled, list(keeps.values()), column.k, prior, None)
        else:
            found = _count_messages(column, unsampled, list(keeps.values()), design.messages, None, design)
            out[list(keeps)] = design.supported(found, column.k)


def _count_messages(
    column: _Column, unsampled: Unsampled, keeps: Sequence[int], k: int, prior: Thresholds | None, design: Design | None
) -> Counts:
    """[threshold, repetition, message]: start from what is sent if nobody keeps; those who keep x move from y to x.

    Messages are values, or those of a design: then x is a member of the value's set.
    """
    users, words, mine = column.users, column.words, column.mine
    uniform = column.fakes[None] if design is None else users.padded(scale(words, k))
    fake = column.fakes[prior] if design is None else uniform
    repetitions = users.shape[0]
    if unsampled is Unsampled.OWN:
        row, user = np.divmod(np.arange(repetitions * users.n), users.n)
    else:
        assert mine is not None
        row, user = np.divmod(np.flatnonzero(mine), users.lanes)
    x, y, own = column.codes[user], uniform[row, user], words[row, user]
    h = keep_draw(own)
    if design is not None:
        x = design.elements(x, scale(own, design.size))
    cell = row * k  # cells are repetition x message, after each other for each threshold
    if unsampled is Unsampled.NOTHING:
        histogram = np.bincount(cell + y, minlength=repetitions * k)
    else:
        sent = uniform if fake is uniform or mine is None else np.where(mine, uniform, fake)
        histogram = value_counts(sent, users.valid, k).ravel()

    ascending = sorted(set(keeps))
    step = sum(h >= np.uint64(keep) for keep in ascending)  # the first threshold above h, if any
    cell += step * (repetitions * k)
    size = (len(ascending) + 1) * repetitions * k
    moves = np.bincount(cell + x, minlength=size) - np.bincount(cell + y, minlength=size)
    kept = np.cumsum(moves.reshape(-1, repetitions * k), axis=0)
    return (histogram + kept[[ascending.index(keep) for keep in keeps]]).reshape(-1, repetitions, k)


def _count_bits(column: _Column, out: Counts) -> None:
    """Unary encodings.  With G(T) the users with U >= T in a column and M those who encode this very value,
    N = |users| - |G(tq)| + |G(tq) & M| - |G(tp) & M|.
    """
    users, attribute, k = column.users, column.attribute, column.k
    shape = users.shape
    everyone = np.broadcast_to(users.valid, shape)
    sampled = pack(column.mine) if column.mine is not None else everyone
    blocks = _Block.of(attribute.recipes)
    x = digit_planes(column.codes, k)
    holders = one_hot(x, users.valid, k)  # who holds each value
    # Encoded fakes: x of those who sampled the attribute, the fake value of the others.
    mixed = {
        prior: one_hot(
            [b ^ ((a ^ b) & sampled) for a, b in zip(x, digit_planes(column.fakes[prior], k), strict=True)], everyone, k
        )
        for prior in dict.fromkeys(r.prior for r in attribute.recipes if r.encodes_fakes)
    }

    digits = np.empty((ROWS, *shape), np.uint64)
    rows = list(digits)
    pairs = pairs_of(t for block in blocks for t in block.thresholds)
    over, inside, held = (np.empty(shape, np.uint64) for _ in range(3))
    programs = [[program(t, rows) for t in block.thresholds] for block in blocks]
    ones = [np.zeros((len(b.kinds) + 1, len(b.thresholds), *shape), np.uint8) for b in blocks]
    narrow = np.uint16 if users.lanes < 1 << 16 else np.uint32  # the narrower, the faster
    sums = [np.empty((k, *bits.shape[:-1]), narrow) for bits in ones]
    for v in range(k):
        users.digits(attribute.offset + v, digits[:LEVELS])
        for combine, level, pair in pairs:
            combine(rows[level], rows[level + 1], rows[pair])
        holding = next(holders)
        own = np.bitwise_and(holding, sampled, out=held)
        faked = {prior: next(walk) for prior, walk in mixed.items()}
        for block, ways, bits, total in zip(blocks, programs, ones, sums, strict=True):
            masks = [_encoders(unsampled, prior, holding, own, faked) for unsampled, prior in block.kinds]
            for t, way in enumerate(ways):
                reached = at_least(way, over)
                if t < block.tqs:
                    reports = np.bitwise_and(reached, sampled, out=inside) if block.partial else reached
                    np.bitwise_count(reports, out=bits[-1, t])
                for row, mask in enumerate(masks):
                    np.bitwise_and(reached, mask, out=inside)
                    np.bitwise_count(inside, out=bits[row, t])
            bits.sum(axis=-1, dtype=narrow, out=total[v])
    for block, total in zip(blocks, sums, strict=True):
        # |users|: nobody's lanes are in every G(tq), so they cancel out where they are counted here, too
        reporters = np.bitwise_count(sampled).sum(axis=-1, dtype=np.int64) if block.partial else users.lanes
        counts = total.astype(np.int64)  # [value, kind, threshold, repetition]
        for row, (ids, q, p) in enumerate(block.kinds.values()):
            reported = reporters - counts[:, -1, q] + counts[:, row, q] - counts[:, row, p]
            out[ids] = np.moveaxis(reported, 0, 2)


def _count_subsets(column: _Column, out: Counts) -> None:
    """Subset selection, user by user: some repetitions of some users at a time, whose uniforms all values need."""
    users, attribute, k = column.users, column.attribute, column.k
    task, mine = users.task, column.mine
    recipes = [(i, r, r.noise) for i, r in enumerate(attribute.recipes) if isinstance(r.noise, Subsets)]
    step = max(LANES, SUBSET_CELLS // k // LANES * LANES)  # users
    rows = max(1, step // users.n)  # repetitions
    for first, start in product(range(0, users.shape[0], rows), range(0, users.n, step)):
        some, here = task.repetitions[first : first + rows], slice(start, min(start + step, users.n))
        size, who = here.stop - here.start, (task.start + here.start, task.start + here.stop)
        u = np.empty((k, len(some) * size), np.uint32)
        for v, (row, repetition) in product(range(k), enumerate(some)):
            u[v, row * size : (row + 1) * size] = users.tape.uniforms(attribute.offset + v, repetition, *who)
        own = np.tile(column.codes[here].astype(np.int64), len(some))
        for i, recipe, noise in recipes:
            reports: npt.NDArray[Any] = np.arange(len(own))
            if recipe.unsampled is not Unsampled.OWN:
                assert mine is not None
                reports = np.flatnonzero(mine[first : first + rows, here])
            taken = chosen(u[:, reports], own[reports], noise.tp, noise.size)
            ends = np.searchsorted(reports, np.arange(1, len(some)) * size)
            for row, part in enumerate(np.split(taken, ends, axis=1)):
                out[i, first + row] += part.sum(axis=1)


COUNTERS: dict[type, Callable[[_Column, Counts], None]] = {
    Keep: _count_values,
    Sets: _count_values,
    Bits: _count_bits,
    Subsets: _count_subsets,
}  # noise class -> what counts its reports


def _encoders(
    unsampled: Unsampled, prior: Thresholds | None, holding: Words, own: Words, faked: dict[Thresholds | None, Words]
) -> Words:
    """Who encodes a value: its holders; those of them who sampled the attribute; or those and the fakes."""
    if unsampled is Unsampled.OWN:
        return holding
    return faked[prior] if unsampled is Unsampled.FAKE else own


class _Block:
    """Unary recipes of which the same users report: each threshold is evaluated once for all of them."""

    def __init__(self, recipes: Sequence[Recipe], ids: Sequence[int], partial: bool) -> None:
        self.partial = partial  # only those report who sampled the attribute
        bits = {i: noise for i in ids if isinstance(noise := recipes[i].noise, Bits)}
        self.thresholds = list(dict.fromkeys(b.tq for b in bits.values()))
        self.tqs = len(self.thresholds)
        self.thresholds += [t for t in dict.fromkeys(b.tp for b in bits.values()) if t not in self.thresholds]
        # What is encoded -> the recipes that do so, and where in `thresholds` their tq and tp are.
        place = {t: i for i, t in enumerate(self.thresholds)}
        kinds: dict[tuple[Unsampled, Thresholds | None], list[tuple[int, int, int]]] = {}
        for i, b in bits.items():
            kinds.setdefault((recipes[i].unsampled, recipes[i].prior), []).append((i, place[b.tq], place[b.tp]))
        self.kinds = {
            kind: tuple(np.array(column) for column in zip(*rows, strict=True)) for kind, rows in kinds.items()
        }

    @classmethod
    def of(cls, recipes: Sequence[Recipe]) -> list[_Block]:
        """Recipes that hide the sampled attribute, those without sampling, those of the sampled attribute alone."""
        alike: dict[str, list[int]] = {"hiding": [], "own": [], "partial": []}
        for i, r in enumerate(recipes):
            if isinstance(r.noise, Bits):
                alike["hiding" if r.unsampled.hides else "own" if r.unsampled is Unsampled.OWN else "partial"].append(i)
        return [cls(recipes, ids, name == "partial") for name, ids in alike.items() if ids]
