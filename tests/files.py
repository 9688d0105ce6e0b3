"""Results files that hold given arrays, made by the public functions; and what describes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from unittest import mock

import numpy as np

import gpu_rsfd
from gpu_rsfd.errors import RunError
from gpu_rsfd.measure import Frequencies
from gpu_rsfd.results.estimate import STORED
from gpu_rsfd.spec import Spec


def describe(datasets, spec):
    """A spec, or the plain one of a result, with its data sets, as a results file has it."""
    plain = spec.described() if isinstance(spec, Spec) else spec
    sets = [data.describe() for data in datasets]
    return {"measurement": "frequencies", "datasets": sets, **plain, "stream_version": gpu_rsfd.STREAM_VERSION}


def with_errors(result):
    """A result with the errors that a file would hold."""
    return replace(result, kept={**result.kept, "mse": np.stack([result.mse(name) for name in STORED], axis=-1)})


@dataclass(frozen=True)
class Given(Frequencies):
    """A sweep that is given its counts; it ends where there are no more of them."""

    name = "frequencies"
    counts_first = False
    results = {}

    def measure(self, view):
        whole = with_errors(self.results[view.data.name])
        if not set(view.repetitions) <= set(whole.repetitions):
            raise RunError("that is all")
        p, e = ([all_.index(x) for x in some] for all_, some in (
            (whole.protocols, view.protocols), (whole.epsilons, view.epsilons)))  # fmt: skip
        rows = [whole.repetitions.index(repetition) for repetition in view.repetitions]
        return {name: whole[name][np.ix_(p, e, rows)] for name in self.recorded()}


class Named:
    """A backend that is known by its name alone."""

    def __init__(self, name, device):
        self.name, self.device, self.noises = name, device, ()

    def drawn_at_once(self, plan):
        return 1

    def batch_multiple(self, n):
        return 1

    def close(self):
        pass


def store(path, datasets, results, spec=None, backend="numpy", device=""):
    """Writes results of simulate, one for each data set, as a sweep would; of a longer spec, one that was ended."""
    plain = results[0].spec
    if spec is None:
        known = {name: plain[name] for name in Spec.__dataclass_fields__ if name in plain}
        spec = Spec.of(**{**known, "repetitions": range(*plain["repetitions"])})
    given = type("Frequencies", (Given,), {"results": dict(zip([d.name for d in datasets], results, strict=True)),
                                           "name": "frequencies"})  # fmt: skip
    with mock.patch("gpu_rsfd.running.collect.SHORTEST_BLOCK", 0.0):
        try:
            gpu_rsfd.run(given(), datasets, spec, output=path, backend=Named(backend, device), save_every=0)
        except RunError:
            assert path.exists()


def sweep_of(datasets, spec, path, backend, **options):
    """`gpu_rsfd.sweep` of a ready spec."""
    return gpu_rsfd.sweep(datasets, spec, output=path, backend=backend, **options)
