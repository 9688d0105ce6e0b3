"""Backends turn a plan, a data set and a seed into integer counts.  All of them give the same integers."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_rsfd.backends.base import Backend
from gpu_rsfd.errors import InputError

BACKENDS = ("auto", "cupy", "numpy")


class BackendUnavailable(InputError):  # noqa: N818  (it says what is the matter)
    """A backend was asked for by name, and this machine cannot run it."""


def open_backend(
    name: str = "auto", workers: int | None = None, devices: Sequence[int] | None = None, sampler: str = "users"
) -> tuple[Backend, str]:
    """What makes the counts, and one line that says why it is this.

    `auto` takes CuPy when a CUDA device works, else NumPy; asking for `workers` means NumPy, for `devices` CuPy.
    `sampler`: every user's report, or the law of the counts, which has backends of its own.
    """
    if name not in BACKENDS:
        raise InputError(f"unknown backend {name!r}; available: {', '.join(BACKENDS)}")
    if sampler != "users":
        return _open_sampler(sampler, name, workers, devices)
    if name == "cupy" and workers is not None:
        raise InputError(f"workers={workers} cannot be used with backend 'cupy'; available: auto, numpy")
    if workers is not None and devices is not None:
        raise InputError(f"workers={workers} are for the numpy backend, devices={list(devices)} for cupy; give one")
    if name == "numpy" and devices is not None:
        raise InputError(f"devices={list(devices)} cannot be used with backend 'numpy'; available: auto, cupy")
    if name == "cupy" or (name == "auto" and devices is not None):
        from gpu_rsfd.backends.cuda.backend import CupyBackend

        return CupyBackend(devices), "cupy was asked for" if name == "cupy" else "devices were asked for"

    from gpu_rsfd.backends.cpu.backend import NumpyBackend

    if name == "numpy":
        return NumpyBackend(workers), "numpy was asked for"
    if workers is not None:
        return NumpyBackend(workers), "numpy, since workers were asked for"
    from gpu_rsfd.backends.cuda.devices import probe

    found = probe()
    if not found.devices:
        return NumpyBackend(), f"numpy, since {found.reason}"
    from gpu_rsfd.backends.cuda.backend import CupyBackend

    return CupyBackend(), f"cupy, since {len(found.devices)} CUDA device{'s' * (len(found.devices) > 1)} can be used"


def _open_sampler(sampler: str, name: str, workers: int | None, devices: Sequence[int] | None) -> tuple[Backend, str]:
    from gpu_rsfd.backends.law.samplers import SAMPLERS

    if name == "cupy" or devices is not None:
        raise InputError(f"sampler={sampler!r} runs on the host, which is fast enough; leave cupy and devices out")
    return SAMPLERS[sampler](workers), f"sampler={sampler} draws the counts without users"
