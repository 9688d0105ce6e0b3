"""How often the best attacker is right, from every user's report on the tape."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from gpu_rsfd import estimate
from gpu_rsfd.backends.base import Progress
from gpu_rsfd.backends.cpu.backend import NumpyBackend, cores
from gpu_rsfd.backends.pool import Columns, Pool
from gpu_rsfd.checks import integer
from gpu_rsfd.datasets import as_dataset
from gpu_rsfd.datasets.base import Dataset, check_rows, importable
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.plan import Counts, Plan
from gpu_rsfd.privacy.chunks import Chunk, chunk_users
from gpu_rsfd.privacy.guesses import BYTES_PER_RECIPE, guesses
from gpu_rsfd.protocols import PAPER, REGISTRY, TERMS, Others, Terms
from gpu_rsfd.spec import PAPER_EPSILONS, Spec

Floats = npt.NDArray[np.float64]
Tables = list[Floats]  # per attribute [recipe, repetition, value]: the marginals that an attacker goes by

KNOWLEDGE = ("true", "estimated")
INLINE_POSITIONS = 1 << 25  # positions x cells; less is not worth starting processes for


def check_knowledge(knowledge: object) -> str:
    if knowledge not in KNOWLEDGE:
        raise InputError(f"unknown knowledge {knowledge!r}; available: {', '.join(KNOWLEDGE)}")
    return str(knowledge)


@dataclass(frozen=True, eq=False)
class AttackResult:
    """How often the attacker is right.

    sampled   [protocol, epsilon, repetition]: share of users whose sampled attribute is guessed; 1 for Smp, which sends
              it, NaN for Spl, which has none
    value     [protocol, epsilon, repetition]: share of (user, attribute) pairs whose value is guessed
    sampled_baseline, value_baseline   the same for an attacker who sees no report: 1 / d, and the most frequent value
    """

    n: int
    domain: Domain
    names: tuple[str, ...]
    spec: Spec
    knowledge: str
    sampled: Floats
    value: Floats
    sampled_baseline: float
    value_baseline: float
    terms: Terms = TERMS

    @property
    def protocols(self) -> tuple[str, ...]:
        return self.spec.protocols

    @property
    def epsilons(self) -> tuple[float, ...]:
        return self.spec.epsilons

    @property
    def repetitions(self) -> range:
        return self.spec.repetitions

    def extended(self, other: AttackResult) -> AttackResult:
        """This result, then the repetitions of `other`, which must follow on."""
        mine, more = self.repetitions, other.repetitions
        return replace(
            self,
            spec=replace(self.spec, repetitions=range(mine.start, more.stop, mine.step)),
            sampled=np.concatenate([self.sampled, other.sampled], axis=2),
            value=np.concatenate([self.value, other.value], axis=2),
        )


class Attacker:
    """Attacks repetitions of a plan, on all cores or on a Dask cluster; holds the worker processes."""

    name = "attack"

    def __init__(self, workers: int | None = None, knowledge: str = "true", cluster: str | None = None) -> None:
        self.knowledge = check_knowledge(knowledge)
        self._cluster = cluster
        self._pool: Any = None
        self._counter: NumpyBackend | None = None
        if cluster is None:
            self.workers = cores() if workers is None else integer("workers", workers, 1, 1024)
            self._pool = Pool()
            return
        if workers is not None:
            raise InputError("workers are of this machine; a cluster has its own")
        from gpu_rsfd.backends.cluster import DaskPool

        self._pool = DaskPool(cluster, "numpy")
        self.workers = max(1, self._pool.threads)

    def __enter__(self) -> Attacker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the worker processes."""
        self._pool.close()
        if self._counter is not None and self._cluster is None:  # a cluster's is the same pool
            self._counter.close()

    @property
    def device(self) -> str:
        if self._cluster is not None:
            return f"cluster {self._cluster}"
        return f"{self.workers} CPU process{'es' if self.workers > 1 else ''}"

    def grain(self, n: int) -> int:
        """Repetitions that use it fully."""
        return self.workers

    def hits(
        self, plan: Plan, data: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[Counts, Counts]:
        """(sampled attributes, values) guessed right, [protocol, epsilon, repetition] each."""
        check_rows(data, "users")
        tables = self._tables(plan, data, seed, repetitions)
        shape = len(plan.protocols), len(plan.epsilons), len(repetitions)
        sampled, value = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        size = chunk_users(
            16 * max(plan.domain) + BYTES_PER_RECIPE * sum(len(a.recipes) for a in plan.attributes), data.n
        )
        items = (
            (
                plan,
                seed,
                repetition,
                start,
                min(start + size, data.n),
                [t[:, row if t.shape[1] > 1 else 0] for t in tables],
            )
            for row, repetition in enumerate(repetitions)
            for start in range(0, data.n, size)
        )
        for arguments, (right, held) in self._each(plan, data, len(repetitions), items):
            row = repetitions.index(arguments[2])
            sampled[:, :, row] += right
            value[:, :, row] += held
            if progress is not None:
                progress(plan.positions(arguments[4] - arguments[3]))
        return sampled, value

    def attack(
        self, data: Dataset, spec: Spec, progress: Progress | None = None, terms: Terms | None = None
    ) -> AttackResult:
        """All repetitions of a spec; its terms are those for the data, unless they are given."""
        check_rows(data, "users")
        terms = spec.terms_for(data) if terms is None else terms
        plan = Plan.of(data.domain, spec.protocols, spec.epsilons, spec.assignment, terms)
        sampled, value = self.hits(plan, data, spec.seed, spec.repetitions, progress)
        right = sampled / data.n
        right[[not REGISTRY[p].samples for p in spec.protocols]] = np.nan
        most = [data.frequencies[columns].max() for columns in data.domain.slices]
        return AttackResult(
            n=data.n,
            domain=data.domain,
            names=data.names,
            spec=spec,
            knowledge=self.knowledge,
            sampled=right,
            value=value / (data.n * data.d),
            sampled_baseline=1 / data.d,
            value_baseline=float(np.mean(most)),
            terms=terms,
        )

    def _each(
        self, plan: Plan, data: Dataset, repetitions: int, items: Iterator[tuple[Any, ...]]
    ) -> Iterator[tuple[tuple[Any, ...], Any]]:
        work = plan.positions(data.n) * repetitions * len(plan.protocols) * len(plan.epsilons)
        small = self._cluster is None and work < INLINE_POSITIONS and not self._pool.workers
        if (self.workers == 1 and self._cluster is None) or small:
            columns = Columns(data)
            return ((arguments, attack_chunk(columns, *arguments)) for arguments in items)
        return self._pool.each(self.workers, data, attack_chunk, items)

    def _tables(self, plan: Plan, data: Dataset, seed: int, repetitions: range) -> Tables:
        """What the attacker takes for the marginals: per attribute [recipe, repetition (or 1), value]."""
        if self.knowledge == "true":
            return [np.broadcast_to(data.frequencies[a.columns], (len(a.recipes), 1, a.k)) for a in plan.attributes]
        if self._counter is None and self._cluster is not None:
            from gpu_rsfd.backends.cluster import SplitBackend

            self._counter = SplitBackend(self._pool)
        elif self._counter is None:
            self._counter = NumpyBackend(self.workers)
        counts, sampled = self._counter.count(plan, data, seed, repetitions)
        return estimated(plan, data.n, counts, sampled)


def estimated(plan: Plan, n: int, counts: Sequence[Counts], sampled: Counts) -> Tables:
    """The marginals that the server estimates from the reports itself (clip-normalize); uniform if nobody reported."""
    known: dict[tuple[int, int], Any] = {}
    for row, mechanisms in zip(plan.cells, plan.mechanisms, strict=True):
        for cell, ms in zip(row, mechanisms, strict=True):
            known.update({(j, r): m for j, (r, m) in enumerate(zip(cell, ms, strict=True))})
    tables = []
    for a, table in zip(plan.attributes, counts, strict=True):
        f = np.empty(table.shape)
        for r, recipe in enumerate(a.recipes):
            m = sampled[:, a.index] if recipe.others is Others.NOTHING else np.full(table.shape[1], n)
            raw = known[a.index, r].estimate(table[r], np.where(m > 0, m, np.nan)[:, None])
            f[r] = estimate.postprocess("clip-normalize", raw, Domain((a.k,)))
        tables.append(np.where(np.isfinite(f), f, 1 / a.k))
    return tables


def attack_chunk(
    columns: Columns, plan: Plan, seed: int, repetition: int, start: int, stop: int, frequencies: Sequence[Floats]
) -> tuple[Counts, Counts]:
    """What a worker does: (sampled attributes, values) of users start … stop - 1 guessed right, [protocol, epsilon]."""
    n = columns.dataset.n
    chunk = Chunk(columns, plan.domain, n, seed, repetition, plan.assignment, start, stop)
    codes = [chunk.codes(j) for j in range(plan.d)]
    sampled = np.zeros((len(plan.protocols), len(plan.epsilons)), np.int64)
    value = np.zeros_like(sampled)
    for p, e, who, values in guesses(plan, chunk, lambda j, r: frequencies[j][r]):
        if who is not None:
            sampled[p, e] = np.count_nonzero(who == chunk.sampled)
        value[p, e] = sum(np.count_nonzero(v == x) for v, x in zip(values, codes, strict=True))
    return sampled, value


def attack(
    data: Dataset | str | os.PathLike[str],
    epsilons: float | Sequence[float] = PAPER_EPSILONS,
    protocols: str | Sequence[str] = PAPER,
    repetitions: SupportsIndex | range = 10,
    seed: int = 0,
    assignment: str = "uniform",
    guarantee: str = TERMS.guarantee,
    prior: object = None,
    knowledge: str = "true",
    *,
    prior_seed: int = 0,
    first_report: float = TERMS.first_report,
    workers: int | None = None,
    progress: Progress | None = None,
    cluster: str | None = None,
) -> AttackResult:
    """How often the Bayes-optimal attacker guesses what was sampled and what users hold, from every user's report.

    The reports are those that `simulate` counts.  `knowledge`: the attacker knows the `true` marginal frequencies, or
    those that the server estimates from these reports (`estimated`).  All else is as in `simulate`.
    """
    spec = Spec.of(
        protocols, epsilons, repetitions, seed, assignment, "users", first_report, guarantee, prior, prior_seed
    )
    found = as_dataset(data)
    processes = workers if cluster is not None else workers_for([found], workers)
    with Attacker(processes, knowledge, cluster) as attacker:
        return attacker.attack(found, spec, progress)


def workers_for(datasets: Sequence[Dataset], workers: int | None) -> int | None:
    """One process where others could not import a data set's class."""
    for data in datasets:
        if not importable(type(data)) and workers != 1:
            if workers is None:
                return 1
            raise InputError(
                f"workers={workers}: worker processes can't import the class {type(data).__qualname__!r} of the data "
                f"set from {type(data).__module__!r}; put it into a module of its own, or use workers=1"
            )
    return workers
