"""A data set known only by n and by how many users hold each value."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.datasets.base import Dataset, Names, check_text, check_unmasked
from gpu_rsfd.datasets.synthetic import parse_distribution
from gpu_rsfd.errors import InputError
from gpu_rsfd.tape import Codes

FREQUENCY_TOLERANCE = 1e-9


class CountedDataset(Dataset):
    """A data set of which only the marginals are known, for `sampler="marginals"`.

    Parameters
    ----------
    n : int
        Number of users, up to 2**53.
    domain : sequence of int
        Number of values of each attribute.
    table : sequence of array_like
        ``table[j]`` has an entry for each value of attribute j: integers are counts that sum to n; floats are
        frequencies that sum to 1 (within 1e-9), which are rounded to counts by largest remainder.
    names, name, source
        As in `Dataset`.
    """

    has_rows = False

    def __init__(
        self,
        n: int,
        domain: Iterable[int],
        table: Sequence[npt.ArrayLike],
        names: Names = None,
        name: str = "counted",
        source: str = "counts in memory",
    ) -> None:
        self._describe_shape(name, n, domain, names)
        self.source = check_text("source", source)
        if len(table) != self.d:
            raise InputError(f"table has {len(table)} rows, but domain has {self.d} sizes")
        self.counts = np.concatenate([_checked_row(table[j], j, k, self.n) for j, k in enumerate(self.domain)])
        self.counts.flags.writeable = False

    @classmethod
    def of_distribution(
        cls, n: int, domain: Iterable[int], distribution: str = "uniform", name: str = "counted"
    ) -> CountedDataset:
        """The expected counts of a `SyntheticDataset`.

        Parameters
        ----------
        n, domain, name
            As in `CountedDataset`.
        distribution : str
            `uniform`, or `zipf:S` with an exponent S.

        Returns
        -------
        CountedDataset
            Its counts are rounded by largest remainder.
        """
        exponent = parse_distribution(distribution) or 0.0
        sizes = tuple(domain)
        weights = {k: [(v + 1.0) ** -exponent for v in range(k)] for k in sizes}
        totals = {k: math.fsum(row) for k, row in weights.items()}
        table = [[w / totals[k] for w in weights[k]] for k in sizes]
        return cls(n, sizes, table, name=name, source=f"expected counts: {distribution}")

    def column(self, j: int, start: int, stop: int, round: int = 0) -> Codes:
        raise InputError(f"data set {self.name!r} is known only by its counts, not user by user")

    def describe(self) -> dict[str, Any]:
        return self._described(sha256_of_counts=hashlib.sha256(self.counts.astype("<i8").tobytes()).hexdigest())


def _checked_row(row: npt.ArrayLike, j: int, k: int, n: int) -> npt.NDArray[np.int64]:
    """The counts of one attribute."""
    check_unmasked(f"table[{j}]", row)
    values = np.asarray(row)
    if values.shape != (k,):
        raise InputError(f"table[{j}] has shape {values.shape}; one entry for each of domain[{j}]={k} values is needed")
    if values.dtype.kind not in "iuf":
        raise InputError(f"table[{j}] has dtype {values.dtype}; counts (integers) or frequencies (floats) are needed")
    if (bad := ~(np.isfinite(values) & (values >= 0))).any():
        raise InputError(f"table[{j}][{bad.argmax()}]={values[bad.argmax()]} must be finite and >= 0")
    if values.dtype.kind == "f":
        total = math.fsum(values)
        if abs(total - 1) > FREQUENCY_TOLERANCE:
            raise InputError(f"table[{j}] has frequencies that sum to {total}; they must sum to 1")
        return largest_remainder(values.tolist(), n)
    if (total := sum(map(int, values))) != n:
        raise InputError(f"table[{j}] has counts that sum to {total:,}; they must sum to users={n:,}")
    return values.astype(np.int64)


def largest_remainder(frequencies: Sequence[float], n: int) -> npt.NDArray[np.int64]:
    """n times the frequencies, rounded to whole numbers that sum to n; in exact arithmetic, for any n."""
    unit = n / sum(map(Fraction, frequencies))
    quotas = [Fraction(f) * unit for f in frequencies]
    counts = [math.floor(q) for q in quotas]
    for v in sorted(range(len(quotas)), key=lambda v: counts[v] - quotas[v])[: n - sum(counts)]:  # stable
        counts[v] += 1
    return np.array(counts, np.int64)
