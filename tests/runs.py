"""Small sweeps that end early: at a chosen block, by an error or by SIGKILL."""

from __future__ import annotations

import contextlib
import os
import signal
import warnings
from unittest import mock

import numpy as np

import gpu_rsfd
from gpu_rsfd.backends.cpu.backend import NumpyBackend

DATA = gpu_rsfd.SyntheticDataset(400, (3, 5), "zipf:1", name="mine")
OTHER = gpu_rsfd.SyntheticDataset(300, (4,), name="other")
OPTIONS = {"epsilons": [1.0, 2.0], "protocols": ["rsfd-grr", "smp-adp"], "seed": 3}


def sweep(output, repetitions=9, data=DATA, **options):
    return gpu_rsfd.sweep(data, output=output, repetitions=repetitions, **{**OPTIONS, "workers": 1, **options})


def same(result, repetitions, data=DATA, **options):
    truth = gpu_rsfd.simulate(data, repetitions=repetitions, workers=1, **{**OPTIONS, **options})
    assert result.repetitions == truth.repetitions
    assert np.array_equal(result.counts, truth.counts)
    assert np.array_equal(result.reporters, truth.reporters)
    assert np.array_equal(result.mse(), truth.mse())
    assert result.plan == truth.plan


class Ends(NumpyBackend):
    """Counts some blocks, then does something else."""

    def __init__(self, blocks, then):
        super().__init__(workers=1)
        self.blocks, self.then = blocks, then

    def count(self, *arguments):
        if not self.blocks:
            self.then()
        self.blocks -= 1
        return super().count(*arguments)


@contextlib.contextmanager
def small_blocks():
    """A block for each repetition."""
    with mock.patch("gpu_rsfd.running.collect.SHORTEST_BLOCK", 0.0):
        yield


def ended(output, blocks, error, *given, **options):
    """A sweep with a block for each repetition, ended by an error after some; those are saved."""

    def end():
        raise error

    with small_blocks(), contextlib.suppress(type(error)), Ends(blocks, end) as backend:
        sweep(output, *given, backend=backend, save_every=0, **{**options, "workers": None})
        raise AssertionError("it was not ended")


def killed(output, blocks, *given, **options):
    """The same, killed when one more than these blocks were counted: these are in the journal."""

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there are threads
        child = os.fork()
    if not child:
        try:
            with small_blocks(), Ends(blocks + 1, die) as backend:
                sweep(output, *given, backend=backend, save_every=0, **{**options, "workers": None})
        finally:
            os._exit(3)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


def names(folder):
    return sorted(path.name for path in folder.iterdir())
