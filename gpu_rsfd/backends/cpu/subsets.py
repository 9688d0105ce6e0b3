"""Subset selection on the tape: which values are in each user's set."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.tape import LEVELS


def chosen(u: npt.NDArray[np.uint32], own: npt.NDArray[Any], tp: int, size: int) -> npt.NDArray[np.bool_]:
    """[value, user]: whether a value is in the set, from the uniforms u [value, user] of users who hold `own`.

    The own value is if its U < tp.  The others are gone through in order: with `left` of them still to come and
    `needed` places still free, a value is taken if U left < needed 2**24.  So every set of the others is equally
    likely, but for the rounding to 24 digits.
    """
    k, users = u.shape
    taken = np.empty((k, users), np.bool_)
    everyone = np.arange(users)
    mine = u[own, everyone] < tp
    needed = (size - mine.astype(np.uint64)) << np.uint64(LEVELS)
    one = np.uint64(1 << LEVELS)
    for v in range(k):
        left = np.uint64(k - v) - (own > v)
        row = np.less(np.multiply(u[v], left, dtype=np.uint64), needed, out=taken[v])
        row &= own != v
        needed -= row * one
    taken[own, everyone] = mine
    return taken
