"""The distribution of the fake values of RS+RFD: named, drawn or given; realised as integer thresholds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols.form import Thresholds
from gpu_rsfd.tape import KEEP_ONE, PRIORS

VALID = "uniform, true, noisy:EPS, dirichlet:A, zipf:S, or a JSON file with a list of frequencies for each attribute"
_SUM = 1e-6  # how far the sum of given frequencies may be from 1

Counts = npt.NDArray[np.int64]
Frequencies = tuple[tuple[float, ...], ...]
Priors = tuple[Thresholds | None, ...]


@dataclass(frozen=True)
class Prior:
    """What fake values follow.  Make it with `Prior.of`, which checks.

    uniform       as RS+FD
    true          the data set's own frequencies, unknown before the collection (not the prior of least error)
    noisy:EPS     its counts with Laplace noise of scale d / EPS, rounded, clipped at 0: a prior that costs EPS of
                  central differential privacy for adding or removing a user, 2 EPS for changing one
    dirichlet:A   drawn at random for each attribute, every parameter A
    zipf:S        P(v) proportional to (v + 1) ** -S
    given         frequencies from a file, or from Python
    """

    kind: str = "uniform"
    number: float = 0.0
    frequencies: Frequencies = ()

    @classmethod
    def of(cls, prior: object) -> Prior:
        """From a name, a file name, or frequencies (a sequence for each attribute)."""
        if prior is None:
            return cls()
        if isinstance(prior, cls):
            return prior
        if not isinstance(prior, (str, Path)):
            return cls("given", frequencies=_checked(prior))
        kind, colon, number = str(prior).partition(":")
        if str(prior) in ("uniform", "true"):
            return cls(str(prior))
        if kind in ("noisy", "dirichlet", "zipf") and colon:
            return cls(kind, _number(str(prior), kind, number))
        return cls("given", frequencies=_read(Path(prior)))

    @property
    def needs_data(self) -> bool:
        return self.kind in ("true", "noisy")

    @property
    def needs_seed(self) -> bool:
        return self.kind in ("noisy", "dirichlet")

    @property
    def plain(self) -> str | list[list[float]]:
        """As plain data, which `of` takes back."""
        if self.kind == "given":
            return [list(row) for row in self.frequencies]
        return f"{self.kind}:{self.number!r}" if self.kind in ("noisy", "dirichlet", "zipf") else self.kind

    @property
    def short(self) -> str:
        """For people."""
        return "given frequencies" if self.kind == "given" else str(self.plain)

    def thresholds(self, domain: Sequence[int], counts: Counts | None = None, seed: int = 0) -> Priors | None:
        """The integers of each attribute; None where it is uniform, or for all of them at once.

        `counts` are the data set's, over all attributes' values in order.
        """
        sizes = Domain.of(domain)
        if self.kind == "uniform":
            return None
        if self.needs_data and counts is None:
            raise InputError(
                f"prior={self.plain} depends on the data; give one of uniform, dirichlet:A, zipf:S, or frequencies"
            )
        if self.kind == "given":
            self._check_shape(sizes)
        rows = (self._weights(j, k, sizes, counts, seed) for j, k in enumerate(sizes))
        found = tuple(realised(row) for row in rows)
        return None if all(row is None for row in found) else found

    def _weights(self, j: int, k: int, domain: Domain, counts: Counts | None, seed: int) -> npt.NDArray[Any]:
        match self.kind:
            case "zipf":
                return np.array([(v + 1) ** -self.number for v in range(k)])
            case "given":
                return np.array(self.frequencies[j])
        draw = np.random.Generator(np.random.Philox(key=np.array([seed, PRIORS], np.uint64), counter=[0, j, 0, 0]))
        if self.kind == "dirichlet":
            # logarithms, since a small parameter draws numbers below the smallest float
            logs = np.log(draw.standard_gamma(self.number + 1, k)) + np.log1p(-draw.random(k)) / self.number
            return np.exp(logs - logs.max())
        assert counts is not None
        own = counts[domain.slices[j]]
        if self.kind == "true":
            return own
        noisy = np.rint(own + draw.laplace(0, len(domain) / self.number, k))
        return np.maximum(noisy, 0).astype(np.int64)

    def _check_shape(self, domain: Domain) -> None:
        if len(self.frequencies) != len(domain):
            raise InputError(f"prior has {len(self.frequencies)} attributes, but the data have {len(domain)}")
        for j, (row, k) in enumerate(zip(self.frequencies, domain, strict=True)):
            if len(row) != k:
                raise InputError(f"prior[{j}] has {len(row)} frequencies, but domain[{j}]={k}")


def realised(weights: npt.NDArray[Any]) -> Thresholds | None:
    """Thresholds out of 2**32 in proportion to the weights; None if all weights are equal (or there is none).

    Counts are divided as integers, exactly.
    """
    listed = weights.tolist()
    if max(listed) == min(listed):
        return None
    if weights.dtype.kind == "i":
        whole = sum(listed)
        return tuple(running * KEEP_ONE // whole for running in accumulate(listed[:-1]))
    total = math.fsum(listed)
    shares = np.minimum(np.floor(np.cumsum(listed[:-1]) / total * KEEP_ONE), KEEP_ONE)
    return tuple(int(share) for share in shares)


def _number(prior: str, kind: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (0 <= number < math.inf) or (number == 0 and kind != "zipf"):
        least = ">= 0" if kind == "zipf" else "> 0"
        raise InputError(f"prior={prior!r}: {text!r} must be a finite number {least}; valid: {VALID}")
    return number


def _checked(frequencies: object) -> Frequencies:
    if not isinstance(frequencies, Iterable):
        raise InputError(f"prior={frequencies!r} is unknown; valid: {VALID}")
    rows = []
    for j, row in enumerate(frequencies):
        try:
            if any(isinstance(f, (str, bool)) for f in row):
                raise TypeError
            values = tuple(float(f) for f in row)
        except (TypeError, ValueError):
            raise InputError(f"prior[{j}]={row!r} must be the frequencies of an attribute's values") from None
        total = math.fsum(values) if all(map(math.isfinite, values)) else math.nan
        if not values or not min(values) >= 0 or not abs(total - 1) <= _SUM:
            least = min(values, default=math.nan)
            raise InputError(f"prior[{j}] sums to {total:g}, least {least:g}; frequencies must be >= 0 and sum to 1")
        rows.append(values)
    return tuple(rows)


def _read(path: Path) -> Frequencies:
    if not path.is_file():
        raise InputError(f"prior={str(path)!r} is unknown, and no such file exists; valid: {VALID}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"prior={path} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"prior={path} is not a JSON file: {error}") from None
    if not isinstance(content, list) or not all(isinstance(row, list) for row in content):
        raise InputError(
            f"prior={path} must hold a list of frequencies for each attribute, [[0.2, 0.8], [0.5, 0.3, 0.2]]"
        )
    return _checked(content)
