"""Users whose values change from round to round of a collection.  Round 0 is a data set like any other."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import integer
from gpu_rsfd.datasets.base import MOST_ROUNDS, Dataset
from gpu_rsfd.datasets.counted import CountedDataset
from gpu_rsfd.datasets.synthetic import SyntheticDataset, values_of
from gpu_rsfd.tape import KEEP_ONE, Codes, Tape, Words, keep_draw


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

    _needed = "an array [users, attributes, rounds]", 3

    def counted_at(self, round: int) -> Dataset:
        """A round as a data set of which only the counts are known."""
        found = CountedDataset(self.n, self.domain, np.split(self.counts_of_rounds[round], self.domain.offsets[1:]))
        found.round = round
        return found

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "rounds": self.rounds}


class ChangingDataset(EvolvingDataset):
    """Any data set, each of whose users draws a new value of an attribute before a round with probability `change`.

    Parameters
    ----------
    data : Dataset
        Round 0.
    rounds : int
        Number of rounds.
    change : float
        Probability of a new value, by user, attribute and round.  It is drawn from the data set's distribution, and
        may be the old one.
    """

    def __init__(self, data: Dataset, rounds: int, change: float = 0.0) -> None:
        self._describe_shape(data.name, data.n, data.domain, data.names)
        self.labels, self.source, self.origin, self.has_rows = data.labels, data.source, data.origin, data.has_rows
        self.data, self.rounds, self.change = data, integer("rounds", rounds, 1, MOST_ROUNDS), change
        self._last: tuple[Any, int, Codes] = None, 0, np.empty(0, np.uint8)  # of some users, the round before

    @cached_property
    def counts_of_rounds(self) -> npt.NDArray[np.int64]:
        """Expected counts stay as they are."""
        return super().counts_of_rounds if self.has_rows else np.tile(self.data.counts, (self.rounds, 1))

    @cached_property
    def _thresholds(self) -> list[Words | None]:
        """The distribution of each attribute's new values: that of synthetic data, or the true one."""
        if isinstance(self.data, SyntheticDataset):
            return [self.data.thresholds[k] for k in self.domain]
        running = [np.cumsum(self.data.counts[values])[:-1].tolist() for values in self.domain.slices]
        return [np.array([count * KEEP_ONE // self.n for count in row], np.uint64) for row in running]

    def column(self, j: int, start: int, stop: int, round: int = 0) -> Codes:
        (key, last, codes), below, k = self._last, np.uint64(int(self.change * KEEP_ONE)), self.domain[j]
        if key != (j, start, stop) or last > round:
            last, codes = 0, self.data.column(j, start, stop)
        for r in range(last + 1, round + 1) if below else ():
            words = Tape(getattr(self.data, "seed", 0)).data(j, start, stop, r)
            codes = np.where(keep_draw(words) < below, values_of(words, self._thresholds[j], k), codes)
        self._last = (j, start, stop), round, codes
        return codes

    def describe(self) -> dict[str, Any]:
        return {**self.data.describe(), "rounds": self.rounds, "change": self.change}
