"""Backends turn a plan, a data set and a seed into integer counts.  All of them give the same integers."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_rsfd.backends.base import Backend
from gpu_rsfd.errors import InputError

BACKENDS = ("auto", "cupy", "native", "numpy")


class BackendUnavailable(InputError):  # noqa: N818  (it says what is the matter)
    """A backend was asked for by name, and this machine cannot run it."""


def open_backend(
    name: str = "auto",
    workers: int | None = None,
    devices: Sequence[int] | None = None,
    sampler: str = "users",
    noises: frozenset[type] = frozenset(),
) -> tuple[Backend, str]:
    """What makes the counts, and one line that says why it is this.

    `auto` takes CuPy when a CUDA device works, else C code if there is a compiler for it, else NumPy: the first that
    knows all `noises`.  Asking for `workers` means one of the latter two, for `devices` CuPy.
    `sampler`: every user's report, or the distribution of the counts, which has backends of its own.
    """
    if name not in BACKENDS:
        raise InputError(f"unknown backend {name!r}; available: {', '.join(BACKENDS)}")
    if sampler != "users":
        return _open_sampler(sampler, name, workers, devices)
    if name == "cupy" and workers is not None:
        raise InputError(f"workers={workers} cannot be used with backend 'cupy'; available: auto, native, numpy")
    if workers is not None and devices is not None:
        raise InputError(f"workers={workers} are for native and numpy, devices={list(devices)} for cupy; give one")
    if name in ("native", "numpy") and devices is not None:
        raise InputError(f"devices={list(devices)} cannot be used with backend {name!r}; available: auto, cupy")
    if name == "cupy" or (name == "auto" and devices is not None):
        from gpu_rsfd.backends.cuda.backend import CupyBackend

        return CupyBackend(devices), "cupy was asked for" if name == "cupy" else "devices were asked for"
    if name != "auto":
        return _open_host(name, workers), f"{name} was asked for"
    reason = "workers were asked for"
    if workers is None:
        from gpu_rsfd.backends.cuda.devices import probe

        found = probe()
        if found.devices:
            from gpu_rsfd.backends.cuda.backend import CupyBackend

            many = f"{len(found.devices)} CUDA device{'s' * (len(found.devices) > 1)}"
            if noises <= CupyBackend.noises:
                return CupyBackend(), f"cupy, since {many} can be used"
            reason = f"cupy does not know {_names(noises - CupyBackend.noises)}"
        else:
            reason = found.reason
    host, missing = host_backend(noises)
    return _open_host(host, workers), f"{host}, since {missing or reason}"


def host_backend(noises: frozenset[type] = frozenset()) -> tuple[str, str]:
    """The faster backend of this machine's CPU that knows these noises, and why it is not `native`."""
    from gpu_rsfd.backends.native.build import NotBuilt, built
    from gpu_rsfd.backends.native.tables import NOISES

    try:
        built()
    except NotBuilt as error:
        return "numpy", str(error)
    return ("native", "") if noises <= NOISES else ("numpy", f"native does not know {_names(noises - NOISES)}")


def _names(noises: frozenset[type]) -> str:
    return f"the noise {', '.join(sorted(noise.__name__ for noise in noises))}"


def _open_host(name: str, workers: int | None) -> Backend:
    if name == "native":
        from gpu_rsfd.backends.native.backend import NativeBackend

        return NativeBackend(workers)
    from gpu_rsfd.backends.cpu.backend import NumpyBackend

    return NumpyBackend(workers)


def _open_sampler(sampler: str, name: str, workers: int | None, devices: Sequence[int] | None) -> tuple[Backend, str]:
    from gpu_rsfd.backends.exact.samplers import SAMPLERS

    if name == "cupy" or devices is not None:
        raise InputError(f"sampler={sampler!r} runs on the host, which is fast enough; leave cupy and devices out")
    return SAMPLERS[sampler](workers), f"sampler={sampler} draws the counts without users"
