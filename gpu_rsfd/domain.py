"""Domain sizes k_1 … k_d, and where each attribute's values are among those of all attributes in order."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate

from gpu_rsfd.checks import MAX_ATTRIBUTES, MAX_DOMAIN, MIN_DOMAIN, integer
from gpu_rsfd.errors import InputError


class Domain(tuple[int, ...]):
    """Domain sizes as a tuple, with the offsets of each attribute's values.

    Make one with `Domain.of`, which checks the sizes.
    """

    @classmethod
    def of(cls, sizes: Iterable[object]) -> Domain:
        """Check domain sizes.

        Parameters
        ----------
        sizes : iterable of int
            Number of values of each attribute.

        Returns
        -------
        Domain
            The sizes.

        Raises
        ------
        InputError
            If there are no attributes, too many, or one with too few or too many values.
        """
        if type(sizes) is cls:
            return sizes
        if isinstance(sizes, (str, bytes)) or not isinstance(sizes, Iterable):
            raise InputError(f"domain={sizes!r} must be a list of sizes, one for each attribute")
        checked = cls(integer(f"domain[{j}]", k, MIN_DOMAIN, MAX_DOMAIN) for j, k in enumerate(sizes))
        if not 1 <= len(checked) <= MAX_ATTRIBUTES:
            raise InputError(f"domain has {len(checked)} attributes; valid: 1 to {MAX_ATTRIBUTES:,}")
        return checked

    @property
    def d(self) -> int:
        """Number of attributes."""
        return len(self)

    @cached_property
    def total(self) -> int:
        """Number of values of all attributes."""
        return sum(self)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Index of each attribute's first value."""
        return tuple(accumulate(self[:-1], initial=0))

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Indices of each attribute's values."""
        return tuple(slice(first, first + k) for first, k in zip(self.offsets, self, strict=True))
