"""A data set held in memory, and the interface that every data set has."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import check_users, integer
from gpu_rsfd.datasets.options import stored
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.tape import Codes, code_dtype

Labels = tuple[tuple[str, ...], ...]
Names = Sequence[str] | None

MOST_ROUNDS = 65_536
_COUNT_CHUNK = 1 << 20  # users per step when counting
MIN_COUNT = 10  # users who must hold a value of one's own table before its number is shown


def withheld(counts: npt.NDArray[np.int64], least: int = MIN_COUNT) -> npt.NDArray[np.bool_]:
    """Which numbers of a column are not shown: those of rare values, and what would give them away by subtraction."""
    hidden: npt.NDArray[np.bool_] = counts < least
    for place in np.argsort(counts, kind="stable")[hidden.sum() or len(counts) :]:
        if hidden.sum() >= 2 and counts[hidden].sum() >= least:
            break
        hidden[place] = True
    return hidden


def publishable(counts: npt.NDArray[np.int64], domain: Domain, least: int = MIN_COUNT) -> npt.NDArray[np.float64]:
    """Frequencies that depend on what may be shown alone: what is computed from them gives no rare value away.

    Of the users whose values are withheld, `least` hold each rare value (fewer if there aren't so many), and the others
    the rest.
    """
    found = counts.astype(np.float64)
    for columns in domain.slices:
        part = found[columns]
        hidden = withheld(counts[columns], least) & (part > 0)
        rare = hidden & (part < least)
        total, each = part[hidden].sum(), min(least, part[hidden].mean()) if rare.any() else 0
        part[rare] = each
        part[hidden & ~rare] = (total - each * rare.sum()) / max((hidden & ~rare).sum(), 1)
    return found / counts[domain.slices[0]].sum()


class Dataset:
    """A data set: n users with one value of each of d attributes.

    Parameters
    ----------
    codes : array_like of int, shape (n, d)
        ``codes[i, j]`` is user i's value of attribute j, from 0 to ``domain[j] - 1``.  It is copied.
    domain : sequence of int
        Number of values of each attribute.
    names : sequence of str, optional
        Names of the attributes.  Default: A1, A2, …
    name : str
        Name of the data set.
    labels : sequence of sequences of str, optional
        ``labels[j][v]`` is the label of value v of attribute j.  Default: its number.
    source : str
        Where the data come from, in words.

    Attributes
    ----------
    n, d : int
        Number of users and of attributes.
    """

    labels: Labels | None = None
    source: str = "in memory"

    origin: tuple[str, dict[str, Any]] | None = None  # the file that it was loaded from, and how
    round, rounds = 0, 1  # of a collection over time
    has_rows = True  # False: known only by its counts, `column` cannot be asked for
    _needed = "a table [users, attributes]", 2

    def __init__(
        self, codes: npt.ArrayLike, domain: Iterable[int], names: Names = None, name: str = "data",
        labels: Iterable[Sequence[str]] | None = None, source: str = "in memory",
    ) -> None:  # fmt: skip
        check_unmasked("codes", codes)
        what, dimensions = self._needed
        try:
            table = np.asarray(codes)
        except ValueError as error:  # rows of different lengths
            raise InputError(f"codes is not {what}: {error}") from None
        if table.ndim != dimensions:
            raise InputError(f"codes has shape {table.shape}; {what} is needed")
        self._describe_shape(name, table.shape[0], domain, names)
        if table.shape[1] != self.d:
            raise InputError(f"codes has {table.shape[1]} columns, but domain has {self.d} sizes")
        if table.dtype.kind not in "iub":
            raise InputError(f"codes has dtype {table.dtype}; integers 0 … k - 1 are needed")
        self.rounds = integer("rounds", math.prod(table.shape[2:]), 1, MOST_ROUNDS)
        every = product(np.ndindex(table.shape[2:]), enumerate(self.domain))
        self._columns = [checked_column(table, (j, *r), k) for r, (j, k) in every]
        self.labels = None if labels is None else check_labels(labels, self.domain)
        self.source = check_text("source", source)

    def _describe_shape(self, name: str, n: int, domain: Iterable[int], names: Names) -> None:
        self.name = check_text("name", name)
        self.domain = Domain.of(domain)
        self.n = check_users(n)
        self.d = len(self.domain)
        if isinstance(names, str):
            raise InputError(f"names={names!r} is one text; a list with a name for each attribute is needed")
        every = [f"A{j + 1}" for j in range(self.d)] if names is None else names
        self.names = tuple(check_text(f"names[{j}]", text) for j, text in enumerate(every))
        if len(self.names) != self.d:
            raise InputError(f"names has {len(self.names)} entries, but there are {self.d} attributes")

    def column(self, j: int, start: int, stop: int, round: int = 0) -> Codes:
        """The codes of attribute j of users start … stop - 1 in a round, in the narrowest unsigned type."""
        return self._columns[round * self.d + j][start:stop]

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many users hold each value, over all attributes' values in order."""
        return self.counts_of_rounds[0]

    @cached_property
    def counts_of_rounds(self) -> npt.NDArray[np.int64]:
        """The same in each round, [round, value]."""
        total = np.zeros((self.rounds, self.domain.total), np.int64)
        for (j, k), start in product(enumerate(self.domain), range(0, self.n, _COUNT_CHUNK)):
            for r, found in enumerate(total):
                codes = self.column(j, start, min(start + _COUNT_CHUNK, self.n), *([r] if r else []))
                found[self.domain.slices[j]] += np.bincount(codes, minlength=k)
        total.flags.writeable = False
        return total

    @property
    def frequencies(self) -> npt.NDArray[np.float64]:
        """The truth that a protocol estimates."""
        return self.counts / self.n

    def describe(self) -> dict[str, Any]:
        """What identifies the data: equal descriptions mean equal codes, and equal names of attributes and values."""
        digest = hashlib.sha256()
        for column in self._columns:
            digest.update(column.astype("<u2").tobytes())
        digest.update(repr((self.names, self.labels)).encode())
        return self._described(sha256=digest.hexdigest())

    def _described(self, **facts: Any) -> dict[str, Any]:
        found = {"name": self.name, "users": self.n, "domain": list(self.domain), **facts, "source": self.source}
        if self.origin is None:
            return found
        path, options = self.origin  # kept so that the command can be told later
        return {**found, "loaded": {"file": os.fsencode(Path(path).name).decode(errors="replace"), **stored(options)}}

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.domain[:10])) + (", …" if self.d > 10 else "")
        over = f", rounds={self.rounds:,}" if self.rounds > 1 else ""
        return f"{type(self).__name__}({self.name!r}, n={self.n:,}, d={self.d}, k=[{sizes}]{over})"


def check_rows(data: Dataset, sampler: str) -> None:
    """`users` and `counts` look at every user; a data set known only by its counts has none to show."""
    if sampler != "marginals" and not data.has_rows:
        known = f"data set {data.name!r} is known only by its counts, not user by user"
        raise InputError(f"{known}: sampler={sampler!r} cannot be used; available: marginals")


def checked_column(table: npt.NDArray[Any], place: tuple[int, ...], k: int) -> Codes:
    """The codes of an attribute, in one of several rounds or at all; an error if one is outside its domain."""
    column = table.T[place[::-1]]
    low, high = int(column.min()), int(column.max())
    if low < 0 or high >= k:
        where, bad = ", ".join(map(str, place)), low if low < 0 else high
        raise InputError(f"codes[:, {where}] holds {bad}, outside 0 … {k - 1} (domain[{place[0]}]={k})")
    codes = np.array(column, dtype=code_dtype(k), order="C")
    codes.flags.writeable = False
    return codes


def check_text(what: str, text: object) -> str:
    """Text that a results file can hold."""
    if not isinstance(text, str):
        raise InputError(f"{what}={text!r} must be text")
    if "\0" in text:
        raise InputError(f"{what}={str(text)!r} holds a NUL character, which no results file can hold")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what}={str(text)!r} is not valid Unicode text") from None
    return str(text)


def check_unmasked(what: str, table: object) -> None:
    """Masked entries would be taken for what lies under the mask."""
    rows = table if isinstance(table, (list, tuple)) else [table]
    if any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in rows):
        helps = "leave these users out, or give them a value of their own"
        raise InputError(f"{what} has masked entries, which have no value; {helps}")


def check_labels(labels: Iterable[Sequence[str]], domain: Sequence[int]) -> Labels:
    """One label for each value of each attribute, all different within an attribute; numbers become text."""
    table = []
    for j, row in enumerate(labels):
        if isinstance(row, str) or not isinstance(row, Iterable):
            raise InputError(f"labels[{j}]={row!r} must be a list of labels, one for each value")
        texts = (str(label) if isinstance(label, (int, float, np.number)) else label for label in row)
        table.append(tuple(check_text(f"labels[{j}][{v}]", text) for v, text in enumerate(texts)))
    if len(table) != len(domain):
        raise InputError(f"labels has {len(table)} entries, but there are {len(domain)} attributes")
    for j, (row, k) in enumerate(zip(table, domain, strict=True)):
        if len(row) != k:
            raise InputError(f"labels[{j}] has {len(row)} entries, but domain[{j}]={k}")
        if len(set(row)) != k:
            twice = next(label for i, label in enumerate(row) if label in row[:i])
            raise InputError(f"labels[{j}] has {twice!r} twice; the values of an attribute need different labels")
    return tuple(table)
