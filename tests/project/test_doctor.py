"""The doctor: what it says, and that its self-test can fail."""

import re

import numpy as np
import pytest
from cuda_standin import needs_compiler, no_cupy, standin  # noqa: F401

from gpu_rsfd import doctor
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.cuda.backend import CupyBackend

FEW = doctor.CASES[:4]


def test_report_without_cupy(no_cupy):  # noqa: F811
    lines = doctor.report()
    assert lines[0].startswith("gpu-rsfd ")
    assert "CuPy: not installed" in lines
    assert any(line.startswith("problem: CuPy is not installed: install the extra cuda13") for line in lines)
    assert lines[-1].startswith("backend auto: numpy, since CuPy is not installed")


def test_report_with_devices(standin):  # noqa: F811
    standin._reset(devices=3, broken=(1,))
    lines = doctor.report()
    assert "CuPy 14.0.0, CUDA runtime 13.0, driver for CUDA 13.0" in lines
    assert "device 0: CPU stand-in, 1.0 GiB, sm_80" in lines
    assert any(line.startswith("problem: CUDA device 1 does not work: cudaErrorDevicesUnavailable") for line in lines)
    assert lines[-1].startswith("backend auto: cupy, since 2 CUDA devices can be used")


@needs_compiler
def test_self_test_compares_every_backend(standin):  # noqa: F811
    lines = []
    assert doctor.self_test(lines.append, cases=FEW, speed=False, device_cases=())
    assert [line.split(" (")[0] for line in lines] == [
        "numpy: equal to the literal reports in 8 cases",
        "cupy: equal to numpy in 8 cases",
    ]


def test_self_test_prints_the_speed(no_cupy, monkeypatch):  # noqa: F811
    monkeypatch.setattr(doctor, "SPEED_SHAPE", (100, (2,)))
    monkeypatch.setattr(doctor.positions_per_second, "__defaults__", (0.0,))
    lines = []
    assert doctor.self_test(lines.append, cases=FEW[:1])
    assert lines[0].startswith("cupy: not tested, since CuPy is not installed")
    assert "positions/s" in lines[-1]


class Sabotaged(NumpyBackend):
    """Wrong in one cell of one case."""

    def __init__(self, table):
        super().__init__(workers=1)
        self._table = table

    def count(self, plan, dataset, seed, repetitions, progress=None):
        counts, sampled = super().count(plan, dataset, seed, repetitions, progress)
        if dataset.n == 64:
            (counts[1][-1] if self._table == "counts" else sampled)[0, 1] += 1
        return counts, sampled


COUNT = r"uniform assignment, .*, repetition 3, attribute 1, value 1: count \d+ instead of \d+"
REPORTERS = r"uniform assignment, smp-adp, .*, repetition 3, attribute 1: reporters \d+ instead of \d+"


@pytest.mark.parametrize("name,table,cell", [
    ("numpy", "counts", COUNT),
    ("other", "counts", COUNT),
    ("other", "sampled", REPORTERS),
])  # fmt: skip
def test_a_sabotaged_backend_is_found_out(no_cupy, name, table, cell):  # noqa: F811
    backend = Sabotaged(table)
    backend.name = name
    lines = []
    # the literal reports of NumPy's check cover the first epsilon: the last recipe must belong to it
    cases = [doctor.Case(64, (31, 2, 5), (float(np.log(2)),)), *FEW[:2]]
    assert not doctor.self_test(lines.append, [backend], cases)
    assert re.search(f"{name}: DIFFERENT: users=64, domain=31,2,5, {cell}", lines[0])
    assert len(lines) == 1


@needs_compiler
def test_a_sabotaged_kernel_is_found_out(standin, monkeypatch):  # noqa: F811
    from cuda_standin import MUTANT_CASES, mutate

    mutate(monkeypatch, "c0 = block + 1", "c0 = block + 2")
    lines = []
    assert not doctor.self_test(lines.append, [CupyBackend()], MUTANT_CASES[:1])
    assert lines[0].startswith("cupy: DIFFERENT: users=65")
