"""A part of results: some data sets, protocols and epsilons, as `show`, `plot` and `page` are asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import expanded, show_epsilon
from gpu_rsfd.results.result import Result, Results

SAME = 1e-3  # relative: --epsilon 0.693 finds ln 2


def select(
    results: Results, datasets: Sequence[str] = (), protocols: Sequence[str] = (), epsilons: Sequence[float] = ()
) -> Results:
    """The results of these data sets, protocols and epsilons, in the order in which they are stored; () is all."""
    for name in datasets:
        if name not in results:
            raise InputError(f"no data set {name!r} in the results; data sets: {', '.join(results)}")
    chosen = {name: result for name, result in results.items() if not datasets or name in datasets}
    if protocols or epsilons:
        chosen = {name: part_of(result, protocols, epsilons) for name, result in chosen.items()}
    return results.changed(chosen)


def part_of(result: Result, protocols: Sequence[str] = (), epsilons: Sequence[float] = ()) -> Result:
    """The same of one data set."""
    protocols = expanded(protocols, result.protocols, "protocol")
    for name in protocols:
        if name not in result.protocols:
            raise InputError(f"no protocol {name!r} in the results; protocols: {', '.join(result.protocols)}")
    wanted = {_nearest(epsilon, result.epsilons) for epsilon in epsilons}
    p = [i for i, name in enumerate(result.protocols) if not protocols or name in protocols]
    e = [i for i, known in enumerate(result.epsilons) if not epsilons or known in wanted]
    return result.take(p, e)


def _nearest(epsilon: float, known: Sequence[float]) -> float:
    nearest = min(known, key=lambda e: abs(e - epsilon))
    if not math.isclose(epsilon, nearest, rel_tol=SAME):
        available = ", ".join(show_epsilon(e).replace(" ", "") for e in known)
        raise InputError(f"no epsilon {epsilon:g} in the results; epsilons: {available}")
    return nearest
