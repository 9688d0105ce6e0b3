"""Known answers: what compiled code must count before it is used, a few milliseconds each time it is loaded.

All noises, all terms, both assignments, one and two chunks of users with every kind of tail, codes of 8 and 16 bits,
values drawn and held; few and many thresholds.  `digest` of the NumPy backend's counts is what `KNOWN` stores, and
tests compare it with them.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_rsfd.backends.native.tables import Held, Tables, draw
from gpu_rsfd.datasets.synthetic import zipf_thresholds
from gpu_rsfd.domain import Domain
from gpu_rsfd.planning import AttributePlan, Counts
from gpu_rsfd.protocols import Bits, Keep, Recipe, Sets, Unsampled
from gpu_rsfd.protocols.designs import Design, hadamard, projective
from gpu_rsfd.protocols.form import Thresholds
from gpu_rsfd.tape import KEEP_ONE, LANES, ONE, Tape, code_dtype

SEED, DATA_SEED = 2**63 + 12345, 2**64 - 9
REPETITIONS = (3, 2**64 - 1)


# Draws of the first users: a threshold that equals one of them tells `<` and `<=` apart.
_WORDS = Tape(SEED).value(0, REPETITIONS[0], 0, 3)
FAKES = tuple(int(word) >> 32 for word in _WORDS)
KEEP = int(_WORDS[0]) & (KEEP_ONE - 1)
UNIFORM = int(Tape(SEED).uniforms(0, REPETITIONS[0], 0, 1)[0])


def prior(k: int) -> Thresholds:
    """The larger a value, the more often it comes; of three or four values the first one never does."""
    weights = np.arange(k) if k > 2 else np.array([1, 3])
    thresholds = [int(t) for t in np.cumsum(weights)[:-1] * KEEP_ONE // weights.sum()]
    return tuple(sorted([*thresholds[3:], *FAKES]) if k > 4 else thresholds)


def keeps(k: int, *thresholds: int) -> list[Recipe]:
    """Recipes of `Keep` with each term."""
    terms = [(Unsampled.OWN, None), (Unsampled.NOTHING, None), (Unsampled.FAKE, None), (Unsampled.FAKE, prior(k))]
    return [Recipe(others, Keep(t), fakes) for others, fakes in terms for t in thresholds]


def sets(design: Design, *thresholds: int) -> list[Recipe]:
    """Recipes of `Sets` with each term."""
    terms = (Unsampled.OWN, Unsampled.NOTHING, Unsampled.FAKE)
    return [Recipe(others, Sets(t, design)) for others in terms for t in thresholds]


def bits(k: int, *pairs: tuple[int, int]) -> list[Recipe]:
    """Recipes of `Bits` with each term."""
    terms = [
        *((others, None) for others in (Unsampled.OWN, Unsampled.NOTHING, Unsampled.ZERO, Unsampled.FAKE)),
        (Unsampled.FAKE, prior(k)),
    ]
    return [Recipe(others, Bits(*pair), fakes) for others, fakes in terms for pair in pairs]


PAIRS = ((1 << 23, 5592406), (ONE - 1, 1), (12345678, 4096), (ONE - 1, ONE - 11), (ONE - 1, UNIFORM))
MANY = ((ONE - 1, UNIFORM), *((1 << 23, t) for t in range(3, 1 << 23, 1 << 17)))  # too many to be lazy


@dataclass(frozen=True)
class Case:
    """Users, attributes and how they are dealt out to them."""

    users: int
    domain: tuple[int, ...]
    assignment: str
    recipes: tuple[tuple[Recipe, ...], ...]  # of each attribute

    @property
    def attributes(self) -> tuple[AttributePlan, ...]:
        offsets = Domain(self.domain).offsets
        return tuple(
            AttributePlan(j, k, offset, recipes)
            for j, (k, offset, recipes) in enumerate(zip(self.domain, offsets, self.recipes, strict=True))
        )

    def held(self, library: ctypes.CDLL) -> Held:
        """The users' values: attributes with an odd number are uniform, the others follow a distribution of Zipf."""
        columns = [np.empty(self.users, code_dtype(k)) for k in self.domain]
        for j, (k, column) in enumerate(zip(self.domain, columns, strict=True)):
            draw(library, DATA_SEED, j, None if j % 2 else zipf_thresholds(k, 1.1), 0, column, k)
        return Held(0, columns)


def _case(users: int, domain: tuple[int, ...], assignment: str, *recipes: Sequence[Recipe]) -> Case:
    return Case(users, domain, assignment, tuple(map(tuple, recipes)))


HALF, LITTLE, MUCH = 1 << 31, 123456789, 2**32 - 1
CASES = {
    "one user": _case(1, (2,), "uniform", [*keeps(2, HALF, KEEP), *bits(2, *PAIRS)]),
    "few users": _case(63, (4, 3, 256), "balanced", keeps(4, LITTLE), bits(3, PAIRS[0]), keeps(256, HALF)),
    "a tail": _case(
        193,
        (5, 300, 3),
        "balanced",
        keeps(5, HALF, KEEP),
        [*keeps(300, LITTLE), *bits(300, *PAIRS[:1])],
        bits(3, *PAIRS),
    ),
    "many values": _case(577, (70, 64), "uniform", [*keeps(70, KEEP, MUCH), *bits(70, *PAIRS[:2])], keeps(64, HALF)),
    "many users": _case(
        16384 + 8 * 64 + 65, (3, 2), "balanced", [*keeps(3, LITTLE, HALF, MUCH), *bits(3, *PAIRS)], bits(2, *PAIRS)
    ),
    "message sets": _case(
        705,
        (5, 100, 300),
        "uniform",
        [*keeps(5, HALF), *sets(hadamard(5), KEEP, MUCH), *sets(projective(3, 5), HALF)],
        [*sets(projective(5, 100), KEEP, HALF), *bits(100, PAIRS[0])],
        [*sets(projective(257, 300), MUCH), *sets(hadamard(300), LITTLE, HALF)],
    ),
    "many thresholds": _case(
        1024, (4, 2), "balanced", bits(4, *MANY), [*keeps(2, *range(1, 2**32, 2**28)), *bits(2, *PAIRS)]
    ),
}

KNOWN = {
    "one user": "5217d1611b3d47a7a5ad9a6f3ab6814d",
    "few users": "b5aa5a7d270d34f4c82c5f28b4248543",
    "a tail": "3d8b67d89913359a8ce8c0f337e6e778",
    "many values": "382e3f3439e8560016549fa08401b7b2",
    "many users": "60ee47ab037e15808ccc3f34cb54488b",
    "message sets": "2cbe97219f7a4b6b99a9edafacb7d794",
    "many thresholds": "cb5a6479ac195c48fb94ec7c3dffb0ee",
}


def digest(counts: Iterable[Counts], sampled: Counts) -> str:
    """Names the counts of a case."""
    found = hashlib.sha256()
    for table in (*counts, sampled):
        found.update(np.ascontiguousarray(table, "<i8").tobytes())
    return found.hexdigest()[:32]


def answer(library: ctypes.CDLL, case: Case) -> str:
    """What compiled code counts."""
    attributes = case.attributes
    tables = Tables(attributes, len(attributes), case.assignment)
    groups, part = slice(0, -(-case.users // LANES)), slice(0, len(attributes))
    stop = np.zeros(1, np.int32)
    return digest(*tables.count(library, case.held(library), case.users, SEED, REPETITIONS, groups, part, True, stop))


def wrong_answers(library: ctypes.CDLL) -> list[str]:
    """The cases that the compiled code does not count as it must."""
    return [name for name, case in CASES.items() if answer(library, case) != KNOWN[name]]
