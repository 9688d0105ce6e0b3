"""Helpers of the native backend's tests: counts.c built in many ways, cases made at random, and their right counts.

`python tests/native_builds.py LIBRARY CASES` compares a library with NumPy: for one that must be loaded by a process of
its own, since it is built with sanitizers.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.cpu.counting import Task, TaskCounts, run_task
from gpu_rsfd.backends.native import build
from gpu_rsfd.backends.native.backend import NativeBackend
from gpu_rsfd.backends.native.tables import Held, Tables, declare, draw
from gpu_rsfd.backends.reference import ON_DEVICES, Case
from gpu_rsfd.backends.reference import difference as wrong_cell
from gpu_rsfd.datasets.synthetic import zipf_thresholds
from gpu_rsfd.domain import Domain
from gpu_rsfd.planning import AttributePlan
from gpu_rsfd.protocols import Bits, Keep, Recipe, Sets, Unsampled
from gpu_rsfd.protocols.designs import Design, hadamard, own_design, projective
from gpu_rsfd.tape import LANES, Tape, by_thresholds, code_dtype, scale

EMULATED = Path(__file__).parent / "emulated"


def _compiler():
    try:
        return build.find_compiler()
    except build.NotBuilt as error:
        return error


COMPILER = _compiler()
needs_compiler = pytest.mark.skipif(isinstance(COMPILER, build.NotBuilt), reason=f"no native backend: {COMPILER}")
X86 = not isinstance(COMPILER, build.NotBuilt) and "#define __x86_64__ 1" in COMPILER.macros
AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512dq")
AS_AVX512 = (
    *("-march=x86-64", "-D__AVX2__", "-D__AVX512F__", "-D__AVX512BW__", "-D__AVX512DQ__"),
    *(f"-I{EMULATED}", "-fno-lto"),
)
BUILDS = {  # name: flags, macros of a CPU that can run it, what it must say of itself
    "plain": (("-march=x86-64",) if X86 else (), (), "128 bits (plain C)"),
    "avx2": (("-mavx2",), ("__AVX2__",), "256 bits (AVX2)"),
    "avx512": (AVX512, ("__AVX512BW__", "__AVX512DQ__"), "512 bits (AVX-512)"),
    "avx512-ifma": (
        (*AVX512, "-mavx512ifma", "-mavx512vpopcntdq"),
        ("__AVX512BW__", "__AVX512DQ__", "__AVX512IFMA__", "__AVX512VPOPCNTDQ__"),
        "512 bits (AVX-512 with IFMA and VPOPCNTDQ)",
    ),
    "avx512-amd": (  # products of five multiplications, lists by compression
        (*AVX512, "-mavx512ifma", "-mavx512vpopcntdq", "-mavx512vbmi2", "-D__znver4__"),
        (*("__AVX512BW__", "__AVX512DQ__", "__AVX512IFMA__", "__AVX512VPOPCNTDQ__"), "__AVX512VBMI2__"),
        "512 bits (AVX-512 with IFMA and VPOPCNTDQ)",
    ),
    "emulated": (AS_AVX512, ("__x86_64__",), "512 bits (AVX-512)"),
    "emulated-ifma": (
        (*AS_AVX512, "-D__AVX512IFMA__", "-D__AVX512VPOPCNTDQ__"),
        ("__x86_64__",),
        "512 bits (AVX-512 with IFMA and VPOPCNTDQ)",
    ),
    "emulated-amd": (
        (*AS_AVX512, "-D__AVX512IFMA__", "-D__AVX512VPOPCNTDQ__", "-D__AVX512VBMI2__", "-D__znver4__"),
        ("__x86_64__",),
        "512 bits (AVX-512 with IFMA and VPOPCNTDQ)",
    ),
}
SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def compiled(folder: Path, flags: tuple[str, ...], source: str | None = None) -> Path:
    """counts.c, or another source, built with flags of one's own; without optimisation, which takes long."""
    text = build.SOURCE.read_text(encoding="utf-8") if source is None else source
    return build.compiled(build.Compiler(COMPILER.command, ("-O0", *flags), ""), text, folder)


DATA_SEED = 2**64 - 9


@dataclass(frozen=True)
class Job:
    """Any recipes of each attribute, on any shape."""

    users: int
    domain: tuple[int, ...]
    assignment: str
    recipes: tuple[tuple[Recipe, ...], ...]

    @property
    def attributes(self) -> tuple[AttributePlan, ...]:
        each = zip(self.domain, Domain.of(self.domain).offsets, self.recipes, strict=True)
        return tuple(AttributePlan(j, k, offset, recipes) for j, (k, offset, recipes) in enumerate(each))

    def held(self, library: ctypes.CDLL) -> Held:
        """The users' values: attributes with an odd number are uniform, the others follow a distribution of Zipf."""
        columns = [np.empty(self.users, code_dtype(k)) for k in self.domain]
        for j, (k, column) in enumerate(zip(self.domain, columns, strict=True)):
            draw(library, DATA_SEED, j, None if j % 2 else zipf_thresholds(k, 1.1), 0, column, k)
        return Held(0, columns)

    def codes(self, j: int, start: int, stop: int):
        """The same, drawn by NumPy."""
        words, k = Tape(DATA_SEED).data(j, start, stop), self.domain[j]
        return scale(words, k) if j % 2 else by_thresholds(words, zipf_thresholds(k, 1.1), k)

    def right(self, seed: int, repetitions: tuple[int, ...]) -> TaskCounts:
        """What the NumPy backend counts."""
        task = Task(0, self.users, self.users, len(self.domain), self.assignment, repetitions, self.attributes, True)
        return run_task(self.codes, task, seed)


@functools.lru_cache
def wide(k: int) -> Design:
    """More messages than fit into 16 bits."""
    return own_design(np.arange(k << 16).reshape(k, -1))


def random_case(random: np.random.Generator) -> Job:
    """Any recipes on any shape: thresholds with an edge, few and many of them, none or some fakes."""

    def one_of(*choices: int) -> int:
        return int(random.choice(choices))

    def bit_threshold() -> int:
        short = one_of(8, 12, 16, 24)
        value = int(random.integers(1, 1 << short))
        return one_of(1, 2**23, 2**24 - 1, value, value << (24 - short))

    def recipe(k: int, priors: list[tuple[int, ...] | None]) -> Recipe:
        others = list(Unsampled)[random.integers(len(Unsampled))]
        prior = priors[random.integers(2)] if others is Unsampled.FAKE else None
        if others is not Unsampled.ZERO and random.random() < 0.5:
            some = int(random.integers(2**32))
            threshold = one_of(0, 1, 2**32 - 1, some, some >> 24 << 24)
            if prior is None and random.random() < 0.4:
                return Recipe(
                    others,
                    Sets(
                        threshold,
                        [hadamard(k), projective(one_of(3, 11), k), wide(min(k, 16))][one_of(0, 1, 2 * (k <= 16))],
                    ),
                )
            return Recipe(others, Keep(threshold), prior)
        return Recipe(others, Bits(one_of(bit_threshold(), 2**24), bit_threshold()), prior)

    def recipes(k: int) -> tuple[Recipe, ...]:
        priors = [None, tuple(sorted(int(t) for t in random.integers(0, 2**32 + 1, k - 1)))]
        return tuple(dict.fromkeys(recipe(k, priors) for _ in range(one_of(1, 3, 3, 10, 80))))

    users = one_of(1, *(int(random.integers(1, most)) for most in (700, 700, 5000, 20_000)))
    sizes = [one_of(2, 3, int(random.integers(2, 20)), int(random.integers(20, 70))) for _ in range(one_of(1, 2, 3, 5))]
    domain = (*sizes, *([int(random.integers(250, 300))] if random.random() < 0.1 else []))
    return Job(users, domain, str(random.choice(["uniform", "balanced"])), tuple(map(recipes, domain)))


def difference(library: ctypes.CDLL, random: np.random.Generator) -> str:
    """A case made at random, its users cut in two and its attributes, too; where it differs from NumPy, if anywhere."""
    case = random_case(random)
    seed, repetitions = int(random.integers(2**63)), tuple(int(r) for r in random.integers(0, 2**63, 2))
    tables = Tables(case.attributes, len(case.domain), case.assignment)
    groups, d = -(-case.users // LANES), len(case.domain)
    expected, held = case.right(seed, repetitions), case.held(library)
    cut, split = int(random.integers(groups + 1)), int(random.integers(d))
    totals = [np.zeros_like(table) for table in expected.counts]
    sampled = np.zeros_like(expected.sampled)
    for users in (slice(0, cut), slice(cut, groups)):
        for part in (slice(0, split), slice(split, d)):
            if part.start == part.stop:
                continue
            found, who = tables.count(
                library, held, case.users, seed, repetitions, users, part, True, np.zeros(1, np.int32)
            )
            for total, table in zip(totals[part], found, strict=True):
                total += table
            sampled[:, part] += who
    for j, (ours, theirs) in enumerate(zip(totals, expected.counts, strict=True)):
        if not np.array_equal(ours, theirs):
            recipe = case.recipes[j][np.argwhere(ours != theirs)[0][0]]
            return f"users={case.users} domain={case.domain} {case.assignment} attribute {j}: {recipe}"
    return "" if np.array_equal(sampled, expected.sampled) else f"users={case.users} domain={case.domain}: who sampled"


def spec_difference(library: ctypes.CDLL, random: np.random.Generator) -> str:
    """The same of what a user may ask for: any protocols, budgets, domain, repetitions, threads, memory."""

    def number(most: int) -> int:
        return int(random.integers(1, most))

    domain = tuple(1 + number([3, 20, 70, 300][min(number(5) - 1, number(5) - 1)]) for _ in range(number(6)))
    epsilons = tuple(np.exp(random.uniform(-3, 2.5, number(4))).tolist())
    protocols = [str(name) for name in random.choice(ON_DEVICES, number(7), replace=False)]
    first, step = int(random.integers(2**63)), number(5)
    repetitions = range(first, first + step * number(5), step)
    case = Case(number([70, 700, 5000][number(4) - 1]), domain, epsilons, protocols, repetitions, random.random() < 0.3)
    with NativeBackend(number(4), library, number(1 << 14)) as ours, NumpyBackend(1) as right:
        return wrong_cell(ours, case, right)


def first_difference(library: ctypes.CDLL, cases: int, seed: int = 0) -> str:
    """Of so many cases of each kind, and of those of the first use."""
    if wrong := build.wrong_counts(library):
        return wrong
    random = np.random.default_rng(seed)
    kinds = (difference, spec_difference)
    return next(filter(None, (kind(library, random) for _ in range(cases) for kind in kinds)), "")


if __name__ == "__main__":
    sys.exit(first_difference(declare(ctypes.CDLL(sys.argv[1])), int(sys.argv[2])) or 0)
