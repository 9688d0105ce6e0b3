"""A sweep on the CuPy backend (on its stand-in): a lost device costs the block in work, and any backend goes on."""

import numpy as np
import pytest
from cuda_standin import needs_compiler
from files import sweep_of

import gpu_rsfd
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.cuda.backend import CupyBackend, DeviceLost
from gpu_rsfd.spec import Spec

DATA = [
    gpu_rsfd.SyntheticDataset(2000, (5, 3), seed=1, name="first"),
    gpu_rsfd.SyntheticDataset(900, (4, 4), name="second"),
]
SPEC = Spec.of(epsilons=[1.0, 2.0], repetitions=6, seed=3)


@needs_compiler
def test_a_lost_device_keeps_what_is_done(standin, tmp_path):
    path = tmp_path / "results.h5"
    with CupyBackend() as backend:
        sweep_of(DATA[:1], SPEC, tmp_path / "warm.h5", backend)
        launches = len(standin._settings.launches)
        standin._settings.lost_after = launches + launches + 2  # in the second data set
        with pytest.raises(DeviceLost):
            sweep_of(DATA, SPEC, path, backend)
    partial = gpu_rsfd.open_results(path)
    assert list(partial) == ["first"]
    assert not partial.complete
    with NumpyBackend(workers=1) as backend:
        assert sweep_of(DATA, SPEC, path, backend).computed
    done = gpu_rsfd.open_results(path)
    assert done.complete
    for data in DATA:
        alone = gpu_rsfd.simulate(data, epsilons=[1.0, 2.0], repetitions=6, seed=3, backend="numpy")
        assert np.array_equal(done[data.name].counts, alone.counts)
        assert np.array_equal(done[data.name].reporters, alone.reporters)
