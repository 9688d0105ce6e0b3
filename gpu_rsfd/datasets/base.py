"""A data set held in memory, and the interface that every data set has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import MAX_DOMAIN, check_users
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.tape import Codes, code_dtype

Labels = tuple[tuple[str, ...], ...]

_COUNT_CHUNK = 1 << 20  # users per step when counting


class Dataset:
    """Integer codes [n, d] with domain sizes k_1 … k_d: `codes[i, j]` is in 0 … domain[j] - 1.

    `names` are the attributes', `labels[j][v]` is what value v of attribute j stands for (None: just the number).
    `source` says where a data set of the paper comes from: `rows`, or `published counts` (each column has the true
    counts, but which values a user holds together is made up).
    """

    labels: Labels | None = None
    source: str | None = None

    has_rows = True  # False: known only by its counts, `column` cannot be asked for

    def __init__(
        self,
        codes: npt.ArrayLike,
        domain: Iterable[int],
        names: Sequence[str] | None = None,
        name: str = "data",
        labels: Iterable[Sequence[str]] | None = None,
        source: str | None = None,
    ) -> None:
        table = np.asarray(codes)
        if table.ndim != 2:
            raise InputError(f"codes has shape {table.shape}; a table [users, attributes] is needed")
        self._describe_shape(name, table.shape[0], domain, names)
        if table.shape[1] != self.d:
            raise InputError(f"codes has {table.shape[1]} columns, but domain has {self.d} sizes")
        if table.dtype.kind not in "iub":
            raise InputError(f"codes has dtype {table.dtype}; integers 0 … k - 1 are needed")
        self._columns = [_checked_column(table[:, j], j, k) for j, k in enumerate(self.domain)]
        self.labels = None if labels is None else check_labels(labels, self.domain)
        self.source = source

    def _describe_shape(self, name: str, n: int, domain: Iterable[int], names: Sequence[str] | None) -> None:
        self.name = name
        self.domain = Domain.of(domain)
        if n < 1:
            raise InputError("the data set is empty: users=0 must be >= 1")
        self.n = check_users(n)
        self.d = len(self.domain)
        self.names = tuple(names) if names is not None else tuple(f"A{j + 1}" for j in range(self.d))
        if len(self.names) != self.d:
            raise InputError(f"names has {len(self.names)} entries, but there are {self.d} attributes")

    def column(self, j: int, start: int, stop: int) -> Codes:
        """The codes of attribute j of users start … stop - 1, in the narrowest unsigned type."""
        return self._columns[j][start:stop]

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many users hold each value, over all attributes' values in order."""
        total = np.zeros(sum(self.domain), np.int64)
        offset = 0
        for j, k in enumerate(self.domain):
            for start in range(0, self.n, _COUNT_CHUNK):
                codes = self.column(j, start, min(start + _COUNT_CHUNK, self.n))
                total[offset : offset + k] += np.bincount(codes, minlength=k)
            offset += k
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
        described = {"name": self.name, "users": self.n, "domain": list(self.domain), "sha256": digest.hexdigest()}
        return described if self.source is None else {**described, "source": self.source}

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.domain[:10])) + (", …" if self.d > 10 else "")
        return f"{type(self).__name__}({self.name!r}, n={self.n:,}, d={self.d}, k=[{sizes}])"


def check_rows(data: Dataset, sampler: str) -> None:
    """`users` and `counts` look at every user; a data set known only by its counts has none to show."""
    if sampler != "marginals" and not data.has_rows:
        raise InputError(
            f"data set {data.name!r} is known only by its counts, not user by user: "
            f"sampler={sampler!r} cannot be used; available: marginals"
        )


def _checked_column(column: npt.NDArray[Any], j: int, k: int) -> Codes:
    low, high = int(column.min()), int(column.max())
    if low < 0 or high >= k:
        bad = low if low < 0 else high
        hint = f"; domain sizes go up to {MAX_DOMAIN:,}" if bad >= MAX_DOMAIN else ""
        raise InputError(f"codes[:, {j}] holds {bad}, outside 0 … {k - 1} (domain[{j}]={k}){hint}")
    return np.ascontiguousarray(column, dtype=code_dtype(k))


def check_labels(labels: Iterable[Sequence[str]], domain: Sequence[int]) -> Labels:
    """One label for each value of each attribute, all different within an attribute."""
    table = tuple(tuple(map(str, row)) for row in labels)
    if len(table) != len(domain):
        raise InputError(f"labels has {len(table)} entries, but there are {len(domain)} attributes")
    for j, (row, k) in enumerate(zip(table, domain, strict=True)):
        if len(row) != k:
            raise InputError(f"labels[{j}] has {len(row)} entries, but domain[{j}]={k}")
        if len(set(row)) != k:
            twice = next(label for i, label in enumerate(row) if label in row[:i])
            raise InputError(f"labels[{j}] has {twice!r} twice; the values of an attribute need different labels")
    return table
