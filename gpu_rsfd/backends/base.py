"""What every backend offers: a plan, a data set and a seed in, integer counts out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError
from gpu_rsfd.planning import AttributePlan, Counts, Plan
from gpu_rsfd.protocols.form import unknown_noise

Progress = Callable[[int], None]  # told the positions (users x values) just done


class Engine:
    """What an engine says of itself where it has nothing special to say."""

    remote: Any = None  # the pool of a cluster whose workers make whole blocks
    noises: frozenset[type] = frozenset()  # that it knows
    first_speed: float = 1e8  # positions per second, a guess until some have been timed

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives back what it holds."""

    def drawn_at_once(self, plan: Plan) -> int:
        """Repetitions that take as long as one of them."""
        return 1

    def splits_users(self, dataset: Dataset, plan: Plan, repetitions: int) -> bool:
        """Whether a cluster's workers share the users of each repetition."""
        return False

    def batch_multiple(self, n: int) -> int:
        """Repetitions that use it fully: a good multiple for a block of work."""
        return 1

    def work(self, dataset: Dataset, plan: Plan) -> int:
        """Positions of a repetition."""
        return plan.positions(dataset.n)

    def seconds_per_repetition(self, dataset: Dataset, plan: Plan, repetitions: int) -> float:
        """Not known."""
        return 0.0

    def memory(self, dataset: Dataset, plan: Plan, repetitions: int) -> int:
        """Not known."""
        return 0


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


class Backend(Protocol):
    """Counts are a function of (plan, data set, seed, repetition), whatever the backend and its settings."""

    name: str
    noises: frozenset[type]  # the noises that it knows

    @property
    def remote(self) -> Any:
        """The pool of a cluster whose workers make whole blocks; None if there is none."""

    def drawn_at_once(self, plan: Plan) -> int:
        """Repetitions that take as long as one of them."""

    def splits_users(self, dataset: Dataset, plan: Plan, repetitions: int) -> bool:
        """Whether a cluster's workers share the users of each repetition."""

    @property
    def device(self) -> str:
        """What it runs on, for people."""

    def count(
        self, plan: Plan, dataset: Dataset, seed: int, repetitions: range, progress: Progress | None = None
    ) -> tuple[list[Counts], Counts]:
        """Per attribute [recipe, repetition, value]; and who sampled it, [repetition, attribute]."""

    def batch_multiple(self, n: int) -> int:
        """Repetitions that use it fully: a good multiple for a block of work."""

    def work(self, dataset: Dataset, plan: Plan) -> int:
        """Units of a repetition's work, which its time grows with: positions, or what a sampler looks at and draws."""

    def seconds_per_repetition(self, dataset: Dataset, plan: Plan, repetitions: int) -> float:
        """Expected from a timed sample (timing.py); what is compiled or read once only is not timed."""

    def memory(self, dataset: Dataset, plan: Plan, repetitions: int) -> int:
        """Bytes that all its processes together are expected to need, the results aside."""

    def close(self) -> None:
        """Gives back what it holds: processes, threads, a device."""

    def __enter__(self) -> Backend: ...

    def __exit__(self, *_: object) -> None: ...
