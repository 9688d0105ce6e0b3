"""How accurate the estimates of one column are: in points, against its signal, and against a target.

The margin of a column is the smallest number within which 95 % of its estimated frequencies are expected to be from
the truth: the mean over its values of P(|estimate - truth| <= margin) is 0.95, each estimate taken as normal with its
exact mean and variance.  Clipping moves no estimate further away, and none below 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import unknown_name
from gpu_rsfd.protocols import Mechanism, Unsampled, group_size
from gpu_rsfd.theory.expected import Floats, moments_of, squared_error, upper_tail

LEVEL = 0.95  # of estimates within the margin
TWO_SIDED = 1.959963984540054  # standard deviations of a normal distribution that LEVEL is within
STEPS = 24  # bisections: the margin is then exact to 1e-6 of itself
EVEN = 0.5  # a margin of this part of an even share, 1 / k, resolves a column whatever its shape is


class Setting(NamedTuple):
    """What all columns of a collection share."""

    n: int
    assignment: str = "uniform"
    postprocess: str = "none"
    against: str = "users"


class Truth:
    """The frequencies of one column, equal ones together: a column of 50,000 values has few different ones."""

    def __init__(self, frequencies: Sequence[float]) -> None:
        self.all = np.array(frequencies)
        self.k = len(self.all)
        self.distinct, self.times = np.unique(self.all, return_counts=True)

    @cached_property
    def uniform_error(self) -> float:
        """The root mean square error of guessing that all values are equally frequent: the column's signal."""
        return float(np.sqrt(np.mean((self.all - 1 / self.k) ** 2)))

    def sample_error(self, n: int) -> float:
        """That of a sample of n users of the same population, without any privacy."""
        return float(np.sqrt(np.mean(self.all * (1 - self.all)) / n))

    @property
    def held(self) -> int:
        """Values that anybody has."""
        return int(np.count_nonzero(self.all))


class Accuracy:
    """Of the estimates of one column under a mechanism."""

    def __init__(self, m: Mechanism, truth: Truth, attribute: int, setting: Setting) -> None:
        plain = m.recipe.prior is None  # else the values of equal frequency have different errors
        self.f = truth.distinct if plain else truth.all
        self.weights: Floats = (truth.times if plain else np.ones(truth.k)) / truth.k
        self.times: Any = truth.times if plain else np.ones(truth.k, np.int64)
        self.clipped = setting.postprocess == "clip"
        if (
            setting.assignment == "balanced"
            and m.recipe.unsampled is Unsampled.NOTHING
            and group_size(setting.n, m.d, attribute) == 0
        ):
            self.bias = self.deviation = np.full(len(self.f), math.nan)  # nobody reports it
            self.rmse = math.nan
            return
        moments = moments_of(m, self.f, setting.n, setting.assignment, attribute, setting.against)
        self.bias, self.deviation = moments.bias, np.maximum(np.sqrt(moments.variance), 1e-150)
        self.rmse = math.sqrt(float((self.weights * squared_error(self.f, moments, setting.postprocess)).sum()))

    def coverage(self, width: float) -> float:
        """The expected share of the estimates that are within `width` of the truth."""
        above = upper_tail((width - self.bias) / self.deviation)
        below = upper_tail((width + self.bias) / self.deviation)
        if self.clipped:
            below = np.where(self.f <= width, 0.0, below)
        return float((self.weights * (1 - above - below)).sum())

    @cached_property
    def margin(self) -> float:
        """The smallest width within which 95 % of the estimates are."""
        low, high = 0.0, float((np.abs(self.bias) + 6 * self.deviation).max())
        if not math.isfinite(high):
            return math.nan
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.coverage(middle) >= LEVEL else (middle, high)
        return high

    @property
    def hidden(self) -> int:
        """Values that somebody has, but whose 95 % interval is expected to include 0."""
        unseen = (self.f > 0) & (self.f < TWO_SIDED * self.deviation)
        return int(self.times[unseen].sum())


def is_useful(accuracy: Accuracy, truth: Truth) -> bool:
    """Whether a column is worth estimating: its error is below its signal, or its margin resolves even shares.

    The signal is the error of guessing that all values are equally frequent.  Where they nearly are, that guess is hard
    to beat; an estimate that is within half an even share still shows it.
    """
    return accuracy.rmse < truth.uniform_error or accuracy.coverage(EVEN / truth.k) >= LEVEL


def read_targets(target: Any, names: Sequence[str]) -> dict[int, float]:
    """Margins that are asked for, by column: 0.01, "1%", "sex=1%,city=0.5%" or a mapping; a number is for every column.

    Raises
    ------
    InputError
        If a column is unknown or named twice, or a target is not above 0 and below 1.
    """
    if target is None:
        return {}
    if isinstance(target, Mapping):
        pairs = [(str(name), value) for name, value in target.items()]
    elif isinstance(target, str):
        pairs = _pairs(target, names)
    else:
        pairs = [("", target)]
    if not pairs:
        raise InputError(f"target={target!r} is empty; a margin is needed, such as 1% or sex=1%,city=0.5%")
    found: dict[int, float] = {}
    for name, value in pairs:
        margin = _share(name, value)
        if name == "":
            found = {**dict.fromkeys(range(len(names)), margin), **found}
        elif name not in names:
            raise InputError(unknown_name(name, names, "column", " of target"))
        else:
            found[list(names).index(name)] = margin
    named = [name for name, _ in pairs]
    if len(set(named)) < len(named):
        twice = max(named, key=named.count)
        raise InputError(f"target={target!r} names {repr(twice) if twice else 'every column'} twice")
    return found


def _pairs(text: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """`sex=1%,city=0.5%`, or `1%` for every column; a name may have a comma or an equals sign in it."""
    pairs, rest = [], text.strip()
    while rest:
        for name in sorted(names, key=len, reverse=True):
            if rest.startswith(f"{name}="):
                break
        else:
            name = rest.split(",")[0].rpartition("=")[0].strip()
        value, _, rest = rest[len(name) :].lstrip(" ").removeprefix("=").partition(",")
        pairs.append((name, value.strip()))
        rest = rest.strip()
    return pairs


def _share(name: str, value: Any) -> float:
    """0.01 or "1%"."""
    text = str(value).strip()
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 < share < 1 or isinstance(value, bool):
        shown = f"{name}={value}" if name else str(value)
        raise InputError(f"target={shown} must be above 0 and below 100 %, such as 1% or 0.01")
    return share
