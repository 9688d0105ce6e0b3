"""Data sets: n users, each with one code 0 … k_j - 1 for each of d attributes."""

from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.counted import CountedDataset
from gpu_rsfd.datasets.synthetic import PAPER_SYNTHETIC, SyntheticDataset

__all__ = ["CountedDataset", "Dataset", "SyntheticDataset", "available", "load_dataset"]


def available() -> tuple[str, ...]:
    """The names that `load_dataset` knows."""
    return tuple(PAPER_SYNTHETIC)


def load_dataset(name: str, seed: int = 0) -> Dataset:
    """A data set of the paper by name.

    syn1 … syn6 are drawn from `seed`, the data set's own: the simulation's seed never changes the data.
    """
    if name not in PAPER_SYNTHETIC:
        raise ValueError(f"unknown data set {name!r}; available: {', '.join(available())}")
    n, domain = PAPER_SYNTHETIC[name]
    return SyntheticDataset(n, domain, seed=seed, name=name)
