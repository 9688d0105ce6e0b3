"""Backends turn a plan, a data set and a seed into integer counts.  All of them give the same integers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpu_rsfd.backends.base import Backend, Split, lacking
from gpu_rsfd.checks import one_of
from gpu_rsfd.errors import InputError

BACKENDS = ("auto", "cupy", "native", "numpy")


class BackendUnavailable(InputError):  # noqa: N818  (it says what is the matter)
    """A backend was asked for by name, and this machine cannot run it."""


def open_backend(
    name: str = "auto",
    workers: int | None = None,
    devices: Sequence[int] | None = None,
    sampler: str = "users",
    noises: Collection[type] = (),
) -> tuple[Backend, str]:
    """What makes the counts, and one line that says why it is this.

    `auto` takes CuPy when a CUDA device works, else C code if there is a compiler for it, else NumPy; asking for
    `workers` means one of the latter two, for `devices` CuPy.  NumPy counts the `noises` that it does not know.
    `sampler`: every user's report, or the distribution of the counts, which has backends of its own.
    """
    check_backend(name, sampler, workers, devices)
    if sampler != "users":
        from gpu_rsfd.backends.exact.samplers import SAMPLERS

        return SAMPLERS[sampler](workers), f"sampler={sampler} draws the counts without users"
    if name == "cupy" or (name == "auto" and devices is not None):
        from gpu_rsfd.backends.cuda.backend import CupyBackend

        return CupyBackend(devices), "cupy was asked for" if name == "cupy" else "devices were asked for"
    if name != "auto":
        return _open_host(name, workers), f"{name} was asked for"
    reason = "workers were asked for"
    if workers is None:
        from gpu_rsfd.backends.cuda.devices import probe

        found = probe()
        reason = found.reason
        if found.devices:
            from gpu_rsfd.backends.cuda.backend import CupyBackend

            many = f"{len(found.devices)} CUDA device{'s' * (len(found.devices) > 1)}"
            if not noises or CupyBackend.noises.intersection(noises):
                return _split(CupyBackend(), noises, workers, f"{many} can be used")
            reason = f"cupy {lacking(CupyBackend.noises, noises)}"
    from gpu_rsfd.backends.native.tables import NOISES

    host, missing = host_backend(NOISES.intersection(noises) or noises)
    return _split(_open_host(host, workers), noises, workers, missing or reason)


def _split(backend: Backend, noises: Collection[type], workers: int | None, reason: str) -> tuple[Backend, str]:
    """A backend, with NumPy for the noises that it does not know."""
    if missing := lacking(backend.noises, noises):
        reason = f"{reason} and {backend.name} {missing}"
        backend = Split(backend, _open_host("numpy", workers))
    return backend, f"{backend.name}, since {reason}"


def check_backend(name: str, sampler: str, workers: int | None, devices: Sequence[int] | None) -> None:
    """Refuses a backend that does not exist, or that the sampler, the workers or the devices exclude."""
    one_of("backend", name, BACKENDS)
    if sampler != "users" and (name == "cupy" or devices is not None):
        raise InputError(f"sampler={sampler!r} runs on the CPU only; leave out cupy and devices")
    if name == "cupy" and workers is not None:
        raise InputError(f"workers={workers} cannot be used with backend 'cupy'; available: auto, native, numpy")
    if workers is not None and devices is not None:
        raise InputError(f"workers={workers} are for native and numpy, devices={list(devices)} for cupy; give one")
    if name in ("native", "numpy") and devices is not None:
        raise InputError(f"devices={list(devices)} cannot be used with backend {name!r}; available: auto, cupy")


def host_backend(noises: Collection[type] = ()) -> tuple[str, str]:
    """The fastest backend of this machine's CPU that knows all noises, and why it is not `native`."""
    from gpu_rsfd.backends.native.build import NotBuilt, built
    from gpu_rsfd.backends.native.tables import NOISES

    if missing := lacking(NOISES, noises):
        return "numpy", f"native {missing}"
    try:
        built()
    except NotBuilt as error:
        return "numpy", str(error)
    return "native", ""


def _open_host(name: str, workers: int | None) -> Backend:
    if name == "native":
        from gpu_rsfd.backends.native.backend import NativeBackend

        return NativeBackend(workers)
    from gpu_rsfd.backends.cpu.backend import NumpyBackend

    return NumpyBackend(workers)
