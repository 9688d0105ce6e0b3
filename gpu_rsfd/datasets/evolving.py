"""Users whose values change from round to round of a collection.  Round 0 is a data set like any other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import integer
from gpu_rsfd.datasets.base import Dataset, Names
from gpu_rsfd.datasets.counted import CountedDataset
from gpu_rsfd.datasets.synthetic import SyntheticDataset
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.tape import KEEP_ONE, Codes, Tape, Words, by_thresholds, keep_draw, scale

MOST_ROUNDS = 65_536
CHANGES = ("draw", "step")
_COUNT_CHUNK = 1 << 18  # users per step when counting


class EvolvingDataset(Dataset):
    """A data set with a value of each user and attribute in each round; as a `Dataset`, it is its round 0.

    Parameters
    ----------
    codes : array_like of int, shape (n, d, rounds)
        ``codes[i, j, r]`` is user i's value of attribute j in round r, from 0 to ``domain[j] - 1``.  It is copied.
    domain : sequence of int
        Number of values of each attribute.
    names, name, labels, source
        As in `Dataset`.

    Attributes
    ----------
    rounds : int
        Number of rounds.
    """

    rounds: int

    def __init__(
        self,
        codes: npt.ArrayLike,
        domain: Iterable[int],
        names: Names = None,
        name: str = "data",
        labels: Iterable[Sequence[str]] | None = None,
        source: str = "in memory",
    ) -> None:
        try:
            every: Any = np.ma.asanyarray(codes)
        except ValueError as error:  # rows of different lengths
            raise InputError(f"codes is not an array [users, attributes, rounds]: {error}") from None
        if every.ndim != 3 or not 0 < every.shape[2] <= MOST_ROUNDS:
            raise InputError(f"codes has shape {every.shape}; an array [users, attributes, rounds] is needed")
        sizes = Domain.of(domain)

        def round_of(r: int) -> Dataset:
            try:
                return Dataset(every[:, :, r], sizes, names, name, labels, source)
            except InputError as error:
                raise InputError(f"round {r}: {error}") from None

        self.rounds = every.shape[2]
        self._rounds = [round_of(r) for r in range(self.rounds)]
        self.__dict__.update(vars(self._rounds[0]))

    def column(self, j: int, start: int, stop: int, round: int = 0) -> Codes:
        """The codes of attribute j of users start … stop - 1 in a round."""
        return self._rounds[round].column(j, start, stop)

    def counts_at(self, round: int) -> npt.NDArray[np.int64]:
        """How many users hold each value in a round, over all attributes' values in order."""
        return self._rounds[round].counts

    def counted_at(self, round: int) -> Dataset:
        """A round as a data set of which only the counts are known."""
        slices = self.domain.slices
        found = CountedDataset(self.n, self.domain, [self.counts_at(round)[values] for values in slices])
        found.round = round
        return found

    def frequencies_at(self, round: int) -> npt.NDArray[np.float64]:
        """What a protocol estimates in a round."""
        return self.counts_at(round) / self.n

    def describe(self) -> dict[str, Any]:
        every = [data.describe() for data in self._rounds]
        digest = hashlib.sha256("".join(one["sha256"] for one in every).encode()).hexdigest()
        return {**every[0], "sha256": digest, "rounds": self.rounds}


class ChangingDataset(EvolvingDataset):
    """Any data set, each of whose users has a new value of an attribute in a round with probability `change`.

    Parameters
    ----------
    data : Dataset
        Round 0.
    rounds : int
        Number of rounds.
    change : float
        Probability of a new value, by user, attribute and round.
    how : {'draw', 'step'}
        A new value is drawn from the data set's distribution, and may be the old one; or it is a neighbour of the old
        one, above or below, at the ends the only one.
    """

    def __init__(self, data: Dataset, rounds: int, change: float = 0.0, how: str = "draw") -> None:
        self._describe_shape(data.name, data.n, data.domain, data.names)
        self.labels, self.source, self.origin, self.has_rows = data.labels, data.source, data.origin, data.has_rows
        self.data, self.rounds = data, integer("rounds", rounds, 1, MOST_ROUNDS)
        self.change, self.how = change, how
        if how != "draw" and change and not data.has_rows:
            raise InputError(f"change_to={how!r} needs users; data set {data.name!r} is known only by its counts")
        self._drawn = [self._thresholds(j) for j in range(data.d)] if change and data.has_rows else []
        self._last: tuple[Any, int, Codes] = None, 0, np.empty(0, np.uint8)  # of some users, the round before

    def _thresholds(self, j: int) -> npt.NDArray[np.uint64] | None:
        """The distribution of new values: that of synthetic data, or the true one."""
        if isinstance(self.data, SyntheticDataset):
            return self.data.thresholds(self.domain[j])
        running = np.cumsum(self.data.counts[self.domain.slices[j]]).tolist()
        return np.array([count * KEEP_ONE // self.n for count in running[:-1]], np.uint64)

    def column(self, j: int, start: int, stop: int, round: int = 0) -> Codes:
        (key, last, codes), below = self._last, np.uint64(int(self.change * KEEP_ONE))
        if key != (j, start, stop) or last > round:
            last, codes = 0, self.data.column(j, start, stop)
        for r in range(last + 1, round + 1) if below else ():
            words = Tape(getattr(self.data, "seed", 0)).data(j, start, stop, r)
            codes = np.where(keep_draw(words) < below, self._new(j, words, codes), codes)
        self._last = (j, start, stop), round, codes
        return codes

    def _new(self, j: int, words: Words, codes: Codes) -> Codes:
        k, drawn = self.domain[j], self._drawn[j]
        if self.how == "draw":
            return scale(words, k) if drawn is None else by_thresholds(words, drawn, k)
        up = ((scale(words, 2) == 1) | (codes == 0)) & (codes != k - 1)
        return np.where(up, codes + codes.dtype.type(1), codes - codes.dtype.type(1))

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many users hold each value in round 0, over all attributes' values in order."""
        return self.data.counts

    def counts_at(self, round: int) -> npt.NDArray[np.int64]:
        changes = round and self.change and self.has_rows  # expected counts stay as they are
        return self._counts_of_rounds[round] if changes else self.counts

    @cached_property
    def _counts_of_rounds(self) -> npt.NDArray[np.int64]:
        found = np.zeros((self.rounds, self.domain.total), np.int64)
        for (j, k), start in product(enumerate(self.domain), range(0, self.n, _COUNT_CHUNK)):
            for r, total in enumerate(found):
                codes = self.column(j, start, min(start + _COUNT_CHUNK, self.n), r)
                total[self.domain.slices[j]] += np.bincount(codes, minlength=k)
        return found

    def describe(self) -> dict[str, Any]:
        how = {} if self.how == "draw" else {"change_to": self.how}
        return {**self.data.describe(), "rounds": self.rounds, "change": self.change, **how}
