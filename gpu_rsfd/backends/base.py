"""What every backend offers: a plan, a data set and a seed in, integer counts out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError
from gpu_rsfd.planning import AttributePlan, Counts, Plan
from gpu_rsfd.protocols.form import unknown_noise

Progress = Callable[[int], None]  # told the positions (users x values) just done


class Backend(ABC):
    """Counts are a function of (plan, data set, seed, repetition), whatever the backend and its settings."""

    name: str
    noises: frozenset[type] = frozenset()  # that it knows

    @property
    @abstractmethod
    def device(self) -> str:
        """What it runs on, for people."""

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
