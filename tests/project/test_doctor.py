"""The doctor: what it says, and that its self-test can fail."""

import json
import re

import numpy as np
import pytest
from command import call, refusal
from cuda_standin import WAYS, check, in_memory, needs_compiler, no_cupy, standin  # noqa: F401

from gpu_rsfd import doctor
from gpu_rsfd.backends import host_backend
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.cuda import speed
from gpu_rsfd.backends.cuda.backend import CupyBackend
from gpu_rsfd.backends.native import build
from gpu_rsfd.backends.reference import CASES, ON_DEVICES, Case
from gpu_rsfd.datasets import SyntheticDataset
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import Keep, Sets

FEW = CASES[:4]
HOST = ["numpy", *(["native"] if host_backend()[0] == "native" else [])]


@pytest.mark.parametrize("driver", [False, True])
def test_report_without_cupy(no_cupy, monkeypatch, driver):  # noqa: F811
    """To have no GPU is no problem; to have one and no CuPy is."""
    monkeypatch.setattr("gpu_rsfd.backends.cuda.devices.no_driver", lambda: not driver)
    sections = doctor.report()
    assert list(sections) == ["machine", "numpy", "native", "cupy", "auto"]
    assert sections["native"]["available"].startswith("yes" if HOST[1:] else "no, since ")
    assert sections["machine"]["gpu-rsfd"].endswith("stream version 1")
    assert sections["cupy"]["CuPy"] == "not installed"
    why = "CuPy is not installed: install the extra cuda13"
    assert sections["cupy"].get("problem", "").startswith(why) == driver
    assert sections["cupy"].get("GPU", "").startswith(f"none: {why}") != driver
    assert sections["auto"]["backend"].startswith(("native, since CuPy is not", "numpy, since no C"))
    lines = doctor.lines_of(sections)
    assert lines[0] == "machine"
    assert "  CuPy: not installed" in lines


@needs_compiler
def test_report_with_devices(standin, monkeypatch):  # noqa: F811
    standin._reset(devices=3, broken=(1,), time_limit=(2,))
    lines = doctor.report()["cupy"]
    assert (lines["CuPy"], lines["CUDA"], lines["NVRTC"]) == ("14.0.0", "runtime 13.2, driver for 13.0", "13.0")
    assert lines["device 0"] == (
        "CPU stand-in, sm_80, 1.0 GiB (1.0 free), 1 multiprocessors, 1000 MHz, PCI 0000:00:00.0, compute mode default, "
        "no run-time limit"
    )
    assert lines["device 2"].endswith("PCI 0000:02:00.0, compute mode default, a run-time limit")
    assert lines["problem"].startswith("CUDA device 1 does not work: cudaErrorDevicesUnavailable")
    assert standin._settings.contexts == {0, 2}
    assert doctor.report()["auto"]["backend"].startswith("cupy, since 2 CUDA devices can be used")
    monkeypatch.setattr("platform.release", lambda: "5.15-microsoft-standard-WSL2")
    assert doctor.report()["machine"]["system"].endswith("(WSL2)")


@needs_compiler
def test_self_test_compares_every_backend(standin):  # noqa: F811
    lines = []
    checked = doctor.self_test(lines.append, cases=FEW[:2], device_cases=())
    assert all(c.good for c in checked)
    assert [line.split(" (")[0] for line in lines if "equal to" in line] == [
        "numpy: equal to the literal reports in 2 cases",
        *(f"{name}: equal to numpy in 2 cases" for name in (*HOST[1:], "cupy device 0")),
    ]
    assert "cupy device 0: users=1, domain=2: equal" in lines


def test_what_is_not_tested_is_said(no_cupy, monkeypatch):  # noqa: F811
    monkeypatch.setenv("GPU_RSFD_NATIVE", "0")
    build.forget()
    lines = []
    try:
        (found,) = doctor.self_test(lines.append, cases=FEW[:1])
    finally:
        build.forget()
    assert found.backend == "numpy"
    assert "native: not tested, since GPU_RSFD_NATIVE=0 turns the native backend off" in lines
    assert lines[-1].startswith("cupy: not tested, since CuPy is not installed")


@needs_compiler
def test_each_device_is_tested_and_all_together(standin):  # noqa: F811
    standin._reset(devices=2)
    lines = []
    checked = doctor.self_test(lines.append, cases=FEW[1:2], device_cases=())
    assert [c.backend for c in checked] == [*HOST, "cupy device 0", "cupy device 1", "cupy device 0+1"]
    assert all(c.good for c in checked)
    launched = [device for name, device in standin._settings.launches if name == "assign"]
    assert launched.count(0) == launched.count(1) == 2 * 2 * 2  # assignments x times x (alone and together)


@needs_compiler
def test_the_speed_of_a_device(standin, monkeypatch):  # noqa: F811
    monkeypatch.setattr(doctor, "SPEED_USERS_OF_A_DEVICE", 100)
    monkeypatch.setattr(doctor, "SPEED_DOMAIN", (2,))
    monkeypatch.setattr(doctor.positions_per_second, "__defaults__", (1e-9,))
    monkeypatch.setattr(speed, "BARE_GROUPS", 10)
    lines = []
    (found,) = doctor.self_test(lines.append, [CupyBackend()], FEW[:1], speed=True, device_cases=())
    assert found.speed["positions_per_second"] > 0
    kernels = {kernel["name"]: kernel for kernel in found.speed["kernels"]}
    unary = next(name for name in kernels if name.startswith("count_unary"))
    launched = [name for name, _ in standin._settings.launches].count("bare_tape")
    assert launched == 1 + speed.BARE_TIMES
    # a kernel takes a millisecond here
    assert kernels["bare_tape"]["rate"] == pytest.approx(10 * 64 * 2 * 1000)
    assert kernels[unary]["rate"] == pytest.approx(100 * 2 * 1000)
    assert kernels[unary]["of_bare"] == pytest.approx(100 / 640)
    assert kernels["count_values"]["of_bare"] is None
    assert any(re.search(rf"{unary}: .*/s, 0\.16 of the bare tape's \(goal: 0\.5\)", x) for x in lines)


def test_the_speed_test_needs_little_memory(monkeypatch):
    """A fast device does more calls, not more repetitions at a time."""

    class Fast:
        most = 0

        def count(self, plan, dataset, seed, repetitions):
            self.most = max(self.most, len(repetitions))

    backend = Fast()
    data = SyntheticDataset(100, (2, 3))
    plan = Plan.of(data.domain, ["spl-grr"], [1.0])
    rate, repetitions = doctor.positions_per_second(backend, plan, data, 0.01)
    assert (backend.most, repetitions) == (100, 100)
    assert rate > plan.positions(data.n)


def test_self_test_prints_the_speed(no_cupy, monkeypatch):  # noqa: F811
    monkeypatch.setattr(doctor, "SPEED_USERS", 100)
    monkeypatch.setattr(doctor, "SPEED_DOMAIN", (2,))
    monkeypatch.setattr(doctor.positions_per_second, "__defaults__", (1e-9,))
    lines = []
    checked = doctor.self_test(lines.append, cases=FEW[:1], speed=True)
    assert [found.backend for found in checked if found.good] == HOST
    assert sum("positions/s" in line for line in lines) == len(HOST)


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


COUNT = r"\S+, epsilon \S+, repetition 3, attribute 1, value 1: count \d+ instead of \d+ \(\d+ cells?\)"
REPORTERS = r"smp-adp, epsilon \S+, repetition 3, attribute 1: reporters \d+ instead of \d+ \(\d+ cells?\)"


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
    cases = [Case(64, (31, 2, 5), (float(np.log(2)),), ON_DEVICES), *FEW[:2]]
    (found,) = doctor.self_test(lines.append, [backend], cases)
    assert re.fullmatch(f"{name}: DIFFERENT: users=64, domain=31,2,5, uniform assignment, {cell}", lines[0])
    # the cases after it are tried all the same
    assert [failure.startswith("users=64") for failure in found.failures] == [True]
    assert len(lines) == len(cases) + 1
    assert lines[-1].startswith(f"{name}: DIFFERENT in 1 of 3 cases")


@needs_compiler
def test_a_sabotaged_kernel_is_found_out(standin, monkeypatch):  # noqa: F811
    from cuda_standin import MUTANT_CASES, mutate

    mutate(monkeypatch, "c0 = block + 1", "c0 = block + 2")
    lines = []
    (found,) = doctor.self_test(lines.append, [CupyBackend()], MUTANT_CASES[:1], device_cases=())
    assert not found.good
    assert lines[0].startswith("cupy device 0: DIFFERENT: users=65")


@needs_compiler
def test_a_device_that_changes_its_mind_is_found_out(standin):  # noqa: F811
    class Fickle(CupyBackend):
        calls = 0

        def count(self, plan, dataset, seed, repetitions, progress=None):
            counts, sampled = super().count(plan, dataset, seed, repetitions, progress)
            self.calls += 1
            counts[0][0, 0, 0] += 5 * (self.calls == 4)
            return counts, sampled

    lines = []
    (found,) = doctor.self_test(lines.append, [Fickle()], FEW[:1], device_cases=FEW[1:2])
    (failure,) = found.failures
    assert re.search(
        r"users=1, .* balanced assignment, .*: count 6 instead of 1 \(\d+ cells, right the first time\)", failure
    )
    assert found.cases == 2  # a device gets its own, too


def test_a_device_gets_what_it_alone_can_do():
    cases = doctor.DEVICE_CASES
    assert any(c.users >= 10**6 and sum(c.domain) < 10 for c in cases)  # many blocks add to few counts
    assert any(max(c.domain) >= 2500 and c.users > 100_000 for c in cases)
    assert any(max(c.domain) > 4096 for c in cases)
    assert any(c.priors for c in cases)
    limited = [c for c in cases if c.little]
    assert any(c.little[0] * 64 < c.users and c.little[1] < len(c.repetitions) for c in limited)
    assert {c.users % 2 for c in cases} == {0, 1}  # both distributions of synthetic values


def test_large_domains_are_kept_by_some():
    """With a small epsilon nobody would, and nobody's own value would be looked at."""
    for case in (*CASES, *doctor.DEVICE_CASES):
        if max(case.domain) >= 2500:
            plan = case.plan("uniform")
            kept = (
                min(r.noise.threshold for r in plan.attributes[0].recipes if isinstance(r.noise, (Keep, Sets))) / 2**32
            )
            assert kept * case.users * len(case.repetitions) / len(case.domain) > 2


@pytest.mark.slow
def test_the_command(monkeypatch, capsys, tmp_path):
    """It passes its options on; the exit code is 1 if a backend differs."""
    assert refusal(monkeypatch, capsys, tmp_path, ["doctor", "--speed"]) == ["gpu-rsfd: --speed needs --self-test"]
    given = []

    def self_test(echo, speed):
        given.append(speed)
        return [doctor.Checked("numpy", "", failures=[] if speed else ["x"])]

    monkeypatch.setattr(doctor, "self_test", self_test)
    assert call(monkeypatch, "doctor", "--self-test", "--speed") == 0
    assert call(monkeypatch, "doctor", "--self-test") == 1
    assert given == [True, False]


def test_json(no_cupy, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setattr(doctor.self_test, "__defaults__", (None, FEW[:1], False, ()))
    assert call(monkeypatch, "doctor", "--self-test", "--json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert list(found) == ["machine", "numpy", "native", "cupy", "auto", "self_test"]
    assert found["self_test"][0] | {"device": ""} == {
        "backend": "numpy", "device": "", "cases": 1, "failures": [], "speed": {},
    }  # fmt: skip
    assert "numpy: equal to the literal reports in 1 cases" in err
