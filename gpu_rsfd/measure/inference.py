"""How often the attacker who knows the marginals is right, from every user's report on the tape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends import timing
from gpu_rsfd.backends.base import Engine, Progress, check_noises
from gpu_rsfd.backends.cpu.backend import NumpyBackend, cores
from gpu_rsfd.backends.pool import Columns, Pool
from gpu_rsfd.backends.timing import COMMAND_BYTES, WORKER_BYTES, code_bytes
from gpu_rsfd.checks import integer
from gpu_rsfd.datasets.base import Dataset, check_rows, importable
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure.base import Array, Arrays
from gpu_rsfd.measure.guesses import BYTES_PER_RECIPE, LOOKS, guesses
from gpu_rsfd.measure.reports import CHUNK_BYTES, Chunk, chunk_users
from gpu_rsfd.planning import Counts, Plan
from gpu_rsfd.protocols import Unsampled
from gpu_rsfd.results import estimate
from gpu_rsfd.results.result import AttackResult, Header
from gpu_rsfd.running.engines import not_importable
from gpu_rsfd.spec import MEASURED
from gpu_rsfd.tape import LANES

Floats = npt.NDArray[np.float64]
Tables = list[Floats]  # per attribute [recipe, repetition, value]: the marginals that an attacker goes by

KNOWLEDGE = MEASURED["attack"].values
TIMED_WORK = 1 << 22  # positions x recipes that are timed to tell the speed
INLINE_POSITIONS = 1 << 25  # positions x cells; less is not worth starting processes for


def check_knowledge(knowledge: object) -> str:
    if knowledge not in KNOWLEDGE:
        raise InputError(f"unknown knowledge {knowledge!r}; available: {', '.join(KNOWLEDGE)}")
    return str(knowledge)


class Attacker(Engine):
    """Attacks repetitions of a plan, on all cores or on a Dask cluster; holds the worker processes."""

    name = "attack"
    noises = frozenset(LOOKS)
    first_speed = 1e6

    def __init__(self, workers: int | None = None, cluster: str | None = None) -> None:
        self._cluster = cluster
        self._pool: Any = None
        self._counter: Any = None
        if cluster is None:
            self.workers = cores() if workers is None else integer("workers", workers, 1, 1024)
            self._pool = Pool(self.workers)
            return
        if workers is not None:
            raise InputError("workers can't be given for a cluster, which has its own")
        from gpu_rsfd.backends.cluster import Cluster

        self._pool = Cluster(cluster, "numpy")
        self.workers = max(1, self._pool.threads)

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

    def batch_multiple(self, n: int) -> int:
        """Repetitions that use it fully."""
        return self.workers

    def work(self, dataset: Dataset, plan: Plan) -> int:
        """Positions of every distinct report."""
        return dataset.n * sum(a.k * len(a.recipes) for a in plan.attributes)

    def seconds_per_repetition(self, dataset: Dataset, plan: Plan, repetitions: int) -> float:
        """Expected from a timed sample: some of the users."""
        users = min(dataset.n, max(LANES, TIMED_WORK // max(1, self.work(dataset, plan) // dataset.n)))
        tables = [np.broadcast_to(dataset.frequencies[a.columns], (len(a.recipes), a.k)) for a in plan.attributes]
        columns = Columns(dataset)
        seconds = timing.timed(lambda: attack_chunk(columns, plan, 0, 0, 0, users, tables))
        return seconds * dataset.n / users / self.workers

    def memory(self, dataset: Dataset, plan: Plan, repetitions: int) -> int:
        """Bytes that all its processes together are expected to need."""
        return COMMAND_BYTES + 2 * code_bytes(dataset) + self.workers * (WORKER_BYTES + 4 * CHUNK_BYTES)

    def hits(
        self,
        plan: Plan,
        data: Dataset,
        seed: int,
        repetitions: range,
        knowledge: str = "true",
        progress: Progress | None = None,
    ) -> tuple[Counts, Counts]:
        """(sampled attributes, values) guessed right, [protocol, epsilon, repetition] each."""
        check_rows(data, "users")
        check_noises(plan, self.name, self.noises)
        tables = self._tables(plan, data, seed, repetitions, knowledge)
        shape = len(plan.protocols), len(plan.epsilons), len(repetitions)
        sampled, value = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        size = chunk_users(
            16 * max(plan.domain) + BYTES_PER_RECIPE * sum(len(a.recipes) for a in plan.attributes), data.n
        )
        items = [
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
        ]
        answers = self._each(plan, data, len(repetitions), items)
        for arguments, (right, held) in zip(items, answers, strict=True):
            row = repetitions.index(arguments[2])
            sampled[:, :, row] += right
            value[:, :, row] += held
            if progress is not None:
                progress(plan.positions(arguments[4] - arguments[3]))
        return sampled, value

    def _each(self, plan: Plan, data: Dataset, repetitions: int, items: list[tuple[Any, ...]]) -> Iterator[Any]:
        work = plan.positions(data.n) * repetitions * len(plan.protocols) * len(plan.epsilons)
        if self._cluster is None and (self.workers == 1 or work < INLINE_POSITIONS):
            columns = Columns(data)
            return (attack_chunk(columns, *arguments) for arguments in items)
        answers: Iterator[Any] = self._pool.map(data, attack_chunk, items)
        return answers

    def _tables(self, plan: Plan, data: Dataset, seed: int, repetitions: range, knowledge: str) -> Tables:
        """What the attacker takes for the marginals: per attribute [recipe, repetition (or 1), value]."""
        if knowledge == "true":
            return [np.broadcast_to(data.frequencies[a.columns], (len(a.recipes), 1, a.k)) for a in plan.attributes]
        if self._counter is None and self._cluster is not None:
            self._counter = self._pool
        elif self._counter is None:
            self._counter = NumpyBackend(self.workers)
        counts, sampled = self._counter.count(plan, data, seed, repetitions)
        return estimated(plan, data.n, counts, sampled)


def estimated(plan: Plan, n: int, counts: Sequence[Counts], sampled: Counts) -> Tables:
    """The marginals that the server estimates from the reports itself (clip-normalize); uniform if nobody reported."""
    tables = []
    for a, table in zip(plan.attributes, counts, strict=True):
        f = np.empty(table.shape)
        for r, recipe in enumerate(a.recipes):
            m = sampled[:, a.index] if recipe.unsampled is Unsampled.NOTHING else np.full(table.shape[1], n)
            raw = a.estimate(r, table[r], np.where(m > 0, m, np.nan)[:, None])
            f[r] = estimate.postprocess("clip-normalize", raw, Domain((a.k,)))
        tables.append(np.where(np.isfinite(f), f, 1 / a.k))
    return tables


@dataclass(frozen=True)
class Inference:
    """The success of the attacker who is optimal given the marginals; `knowledge` says which marginals."""

    knowledge: str = "true"

    kind: ClassVar[str] = "inference"
    noun: ClassVar[str] = "attack"

    def __post_init__(self) -> None:
        check_knowledge(self.knowledge)

    def described(self) -> dict[str, Any]:
        return {"knowledge": self.knowledge}

    def arrays(self) -> tuple[Array, ...]:
        return Array("sampled_success", np.float64), Array("value_success", np.float64)

    def pieces(self, header: Header, repetitions: int, engine: Any) -> int:
        return 1

    def make(
        self,
        header: Header,
        data: Dataset,
        seed: int,
        repetitions: range,
        engine: Any,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Arrays]]:
        plan = header.plan
        sampled, value = engine.hits(plan, data, seed, repetitions, self.knowledge, progress)
        right = sampled / data.n
        right[~np.array(plan.samples)] = np.nan
        for p in range(len(plan.looks)):
            yield p, {"sampled_success": right[p], "value_success": value[p] / (data.n * data.d)}

    def check(self, header: Header, arrays: Mapping[str, Any]) -> tuple[str, str] | None:
        for name, share in arrays.items():
            if not (np.isnan(share) | ((share >= 0) & (share <= 1))).all():
                return name, "has numbers outside 0 … 1"
        return None

    def result(
        self, header: Header, repetitions: range, spec: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> AttackResult:
        most = [float(header.frequencies[columns].max()) for columns in header.domain.slices]
        baselines = {"sampled_baseline": 1 / len(header.domain), "value_baseline": float(np.mean(most))}
        return AttackResult.from_header(header, repetitions, spec, **baselines, **arrays)


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


def workers_for(datasets: Sequence[Dataset], workers: int | None) -> int | None:
    """One process where others could not import a data set's class."""
    for data in datasets:
        if not importable(type(data)) and workers != 1:
            if workers is None:
                return 1
            raise not_importable(data, workers)
    return workers
