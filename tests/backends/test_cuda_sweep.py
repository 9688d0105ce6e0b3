"""A sweep on the CuPy backend (on its stand-in): a lost device costs the block in work, and any backend goes on."""

import numpy as np
import pytest
from cuda_standin import needs_compiler

import gpu_rsfd
from gpu_rsfd.backends.cuda.backend import CupyBackend, DeviceLost

DATA = [
    gpu_rsfd.SyntheticDataset(2000, (5, 3), seed=1, name="first"),
    gpu_rsfd.SyntheticDataset(900, (4, 4), name="second"),
]
WHAT = {"epsilons": [1.0, 2.0], "repetitions": 6, "seed": 3}


@needs_compiler
def test_a_lost_device_keeps_what_is_done(standin, tmp_path):
    path = tmp_path / "results.h5"
    with CupyBackend() as backend:
        gpu_rsfd.sweep(DATA[:1], output=tmp_path / "warm.h5", backend=backend, **WHAT)
        launches = len(standin._settings.launches)
        standin._settings.lost_after = launches + launches + 2  # in the second data set
        with pytest.raises(DeviceLost):
            gpu_rsfd.sweep(DATA, output=path, backend=backend, **WHAT)
    partial = gpu_rsfd.open_results(path)
    assert list(partial) == ["first"]
    assert not partial.complete
    gpu_rsfd.sweep(DATA, output=path, backend="numpy", **WHAT)
    done = gpu_rsfd.open_results(path)
    assert done.complete
    for data in DATA:
        alone = gpu_rsfd.simulate(data, backend="numpy", **WHAT)
        assert np.array_equal(done[data.name].counts, alone.counts)
        assert np.array_equal(done[data.name].reporters, alone.reporters)
