"""What there is of CUDA on this machine, line by line, for a report."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from gpu_rsfd.backends.cuda.devices import Device, first_line, no_driver, on_device, probe, version

_DRIVER = Path("/proc/driver/nvidia/version")
_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}


def about() -> dict[str, str]:
    """CuPy, CUDA, the driver, the compiler, each device, and each problem; to have no GPU is none."""
    found = probe()
    lines = _versions()
    lines |= {f"device {device.index}": _line(device) for device in found.devices}
    if not found.devices and no_driver():
        return {**lines, "GPU": f"none: {found.reason}"}
    for i, problem in enumerate(found.problems):
        lines["problem" if i == 0 else f"problem {i + 1}"] = problem
    return lines


def _versions() -> dict[str, str]:
    try:
        import cupy
    except Exception as error:
        return {"CuPy": "not installed" if isinstance(error, ModuleNotFoundError) else first_line(error)}
    lines = {"CuPy": str(cupy.__version__)}
    try:
        driver, runtime = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
        lines["CUDA"] = f"runtime {version(runtime)}, {f'driver for {version(driver)}' if driver else 'no driver'}"
    except Exception as error:  # no driver: which exception is not promised
        lines["CUDA"] = first_line(error)
    with suppress(OSError):
        lines["driver"] = _DRIVER.read_text(encoding="utf-8").splitlines()[0].removeprefix("NVRM version:").strip()
    try:
        lines["NVRTC"] = ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
    except Exception as error:
        lines["NVRTC"] = first_line(error)
    return lines


def _line(device: Device) -> str:
    import cupy

    runtime = cupy.cuda.runtime

    def attribute(name: str) -> Any:
        return runtime.deviceGetAttribute(getattr(runtime, f"cudaDevAttr{name}"), device.index)

    free = on_device(device.index, lambda: cupy.cuda.Device(device.index).mem_info[0])
    mode = attribute("ComputeMode")
    return ", ".join(
        [
            device.name,
            f"sm_{device.capability}",
            f"{device.memory / 2**30:.1f} GiB ({free / 2**30:.1f} free)",
            f"{attribute('MultiProcessorCount')} multiprocessors",
            f"{attribute('ClockRate') / 1000:.0f} MHz",
            f"PCI {runtime.deviceGetPCIBusId(device.index)}",
            f"compute mode {_MODES.get(mode, mode)}",
            f"{'a' if device.time_limit else 'no'} run-time limit",
        ]
    )
