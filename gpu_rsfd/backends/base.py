"""What every backend offers: a plan, a data set and a seed in, integer counts out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError
from gpu_rsfd.planning import AttributePlan, Counts, Plan
from gpu_rsfd.protocols.form import unknown_noise

Progress = Callable[[int], None]  # told the positions (users x values) just done


class Backend(ABC):
    """Counts are a function of (plan, data set, seed, repetition), whatever the backend and its settings."""

    name: str
    noises: frozenset[type] = frozenset()  # that it knows
    workers = 1
    units = "process", "processes"  # that its workers are

    @property
    def device(self) -> str:
        """What it runs on, for people."""
        return f"{self.workers} CPU {self.units[self.workers > 1]}"

    @abstractmethod
    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute]."""

    def drawn_at_once(self, plan: Plan) -> int:
        """Repetitions that take as long as one of them."""
        return 1

    def batch_multiple(self, n: int) -> int:
        """Repetitions that use it fully: a good multiple for a block of work."""
        return 1

    def close(self) -> None:  # noqa: B027
        """Gives back what it holds: processes, threads, a device."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Split(Backend):
    """Two backends: what the first does not know is counted by the second, so that it slows itself alone."""

    def __init__(self, first: Backend, second: Backend) -> None:
        self._backends = first, second
        self._split: tuple[Plan | None, list[tuple[Backend, Plan, list[list[int]]]]] = None, []
        self.name, self.noises = f"{first.name} and {second.name}", first.noises | second.noises

    @property
    def device(self) -> str:
        return " and ".join(backend.device for backend in self._backends)

    def batch_multiple(self, n: int) -> int:
        return max(backend.batch_multiple(n) for backend in self._backends)

    def close(self) -> None:
        for backend in self._backends:
            backend.close()

    def _parts(self, plan: Plan) -> Iterator[tuple[Backend, Plan, list[list[int]]]]:
        """Who counts which recipes of each attribute."""
        known = self._backends[0].noises
        for backend, mine in zip(self._backends, (True, False), strict=True):
            rows = [[i for i, r in enumerate(a.recipes) if (type(r.noise) in known) is mine] for a in plan.attributes]
            each = zip(plan.attributes, rows, strict=True)
            some = tuple(replace(a, recipes=tuple(a.recipes[i] for i in at)) for a, at in each)
            if any(rows):
                yield backend, replace(plan, attributes=some), rows

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute]."""
        if self._split[0] is not plan:
            self._split = plan, list(self._parts(plan))
        counts, sampled = plan.zeros(repetitions)
        for left, (backend, part, rows) in zip(reversed(range(len(self._split[1]))), self._split[1], strict=True):
            found, who = backend.count(part, dataset, seed, repetitions, None if left else progress)
            for table, at, some in zip(counts, rows, found, strict=True):
                table[at] = some
            np.maximum(sampled, who, out=sampled)  # 0 if a backend needs no reporters
        return counts, sampled


def noises_of(attributes: Iterable[AttributePlan]) -> frozenset[type]:
    """The noises of some attributes of a plan."""
    return frozenset(type(r.noise) for a in attributes for r in a.recipes)


def known_noises() -> dict[str, frozenset[type]]:
    """The noises that each backend and sampler knows."""
    from gpu_rsfd.backends.cpu.backend import NumpyBackend
    from gpu_rsfd.backends.cuda.backend import CupyBackend
    from gpu_rsfd.backends.exact.samplers import SAMPLERS
    from gpu_rsfd.backends.native.tables import NOISES

    samplers = {f"sampler {name}": sampler.noises for name, sampler in SAMPLERS.items()}
    return {"cupy": CupyBackend.noises, "native": NOISES, "numpy": NumpyBackend.noises, **samplers}


def lacking(known: Collection[type], noises: Collection[type]) -> str:
    """Which noises are not known, for people; empty if all are."""
    names = sorted(noise.__name__ for noise in set(noises) - set(known))
    return f"does not know the noise {', '.join(names)}" if names else ""


def check_noises(plan: Plan, backend: str, known: Collection[type]) -> None:
    """Refuses a plan with a noise that a backend does not have: never zeros in its place."""
    for attribute in plan.attributes:
        for recipe in attribute.recipes:
            if type(recipe.noise) not in known:
                error = unknown_noise(known, recipe.noise, f"the {backend} backend")
                others = [name for name, noises in known_noises().items() if type(recipe.noise) in noises]
                raise InputError(f"{error}; known to {', '.join(others)}") if others else error
