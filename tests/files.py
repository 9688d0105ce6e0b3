"""Results files made directly, and sweeps of a ready spec."""

from __future__ import annotations

from gpu_rsfd.results import Results
from gpu_rsfd.store.hdf5 import save
from gpu_rsfd.sweeping import describe, sweep


def store(path, datasets, results, spec=None, backend="numpy", device="", seconds=1.0, described=None):
    """Writes results of simulate, one for each data set, as a sweep would."""
    spec = spec or results[0].spec
    described = described or describe(datasets, spec)
    total = len(range(*described["repetitions"]))
    names = [data.name for data in datasets]
    whole = Results(
        dict(zip(names, results, strict=True)),
        spec=described,
        complete=len(names) == len(described["datasets"]) and all(len(r.repetitions) == total for r in results),
        backend=backend,
        device=device,
        seconds=dict.fromkeys(names, seconds),
    )
    save(path, whole)


def sweep_of(datasets, spec, path, backend, **options):
    """`gpu_rsfd.sweep` with the parts of a spec."""
    return sweep(
        datasets,
        spec.epsilons,
        spec.protocols,
        spec.repetitions,
        spec.seed,
        spec.assignment,
        spec.sampler,
        output=path,
        backend=backend,
        **options,
    )
