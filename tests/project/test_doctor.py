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
from gpu_rsfd.protocols import Keep, Sets

FEW = doctor.CASES[:4]
HOST = ["numpy", *(["native"] if host_backend()[0] == "native" else [])]


@pytest.mark.parametrize("driver", [False, True])
def test_report_without_cupy(no_cupy, monkeypatch, driver):  # noqa: F811
    """To have no GPU is no problem; to have one and no CuPy is."""
    monkeypatch.setattr("gpu_rsfd.backends.cuda.about.no_driver", lambda: not driver)
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
    assert (lines["CuPy"], lines["CUDA"], lines["NVRTC"]) == ("14.0.0", "runtime 13.0, driver for 13.0", "13.0")
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
        "numpy: equal to the literal reports in 4 cases",
        *(f"{name}: equal to numpy in 4 cases" for name in (*HOST[1:], "cupy device 0")),
    ]
    first = next(line for line in lines if line.startswith("cupy"))
    assert re.fullmatch(r"cupy device 0: users=1, domain=2, uniform assignment: equal \(\d+\.\d\d s\)", first)
    assert checked[-1].kernels["count_values"] == "80 registers, 0 bytes of local memory"
    assert re.match(r"\d+ kernels in \d+\.\d s", checked[-1].kernels["compiled"])


def test_what_is_not_tested_is_said(no_cupy, monkeypatch):  # noqa: F811
    monkeypatch.setenv("GPU_RSFD_NATIVE", "0")
    build.forget()
    lines = []
    try:
        (found,) = doctor.self_test(lines.append, cases=FEW[:1], faults=True)
    finally:
        build.forget()
    assert found.backend == "numpy"
    assert lines[0] == "native: not tested, since GPU_RSFD_NATIVE=0 turns the native backend off"
    assert lines[1].startswith("cupy: not tested, since CuPy is not installed")
    assert lines[-1] == "faults: none provoked, since they are those of CUDA devices, and none was tested"


@needs_compiler
def test_each_device_is_tested_and_all_together(standin):  # noqa: F811
    standin._reset(devices=2)
    lines = []
    checked = doctor.self_test(lines.append, cases=FEW[1:2], device_cases=())
    assert [c.backend for c in checked] == [*HOST, "cupy device 0", "cupy device 1", "cupy device 0+1"]
    assert all(c.good for c in checked)
    assert "assign" in checked[-2].kernels  # device 1's own
    alone = [name for name, _ in standin._settings.launches].count("assign")
    launched = [device for name, device in standin._settings.launches if name == "assign"]
    assert abs(launched.count(0) - launched.count(1)) <= alone // 2
    shared = doctor.self_test(lines.append, [CupyBackend()], FEW[1:2], device_cases=())
    launched = [name for name, _ in standin._settings.launches].count("assign") - alone
    assert launched == 2 * 2 * 3  # assignments x times x repetitions, one at a time
    assert shared[0].good


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
    assert kernels[unary]["expected"] == pytest.approx(speed.expected(unary, 1, 1e9))
    assert kernels["count_values"]["expected"] is None
    assert any(re.search(rf"{unary}: .* \(expected from its instructions: .*\), 0\.16 of the bare", x) for x in lines)


def test_what_a_device_is_expected_to_reach():
    """From its multiprocessors, clock and instructions; nobody has measured it."""
    for processors, hertz, low, high in [  # A100, H100, RTX 4090
        (108, 1.41e9, 2.0e11, 2.6e11),
        (132, 1.83e9, 3.2e11, 4.3e11),
        (128, 2.52e9, 4.2e11, 5.5e11),
    ]:
        assert speed.expected("count_unary_13", processors, hertz) == pytest.approx((low, high), rel=0.05)


def test_the_speed_test_needs_little_memory(monkeypatch):
    """A fast device does more calls, not more repetitions at a time."""

    class Fast:
        most = 0

        def count(self, plan, dataset, seed, repetitions):
            self.most = max(self.most, len(repetitions))

    backend = Fast()
    plan, data = doctor._speed_shape(backend)
    rate, repetitions = doctor.positions_per_second(backend, plan, data, 0.01)
    assert (backend.most, repetitions) == (100, 100)
    assert rate > plan.positions(data.n)


@needs_compiler
def test_faults_are_provoked(standin, monkeypatch):  # noqa: F811
    backend, lines = CupyBackend(), []
    found = doctor.Checked("cupy device 0", "")
    with backend:
        check(backend, doctor.Case(640, (5, 3), (1.0,), WAYS).plan("uniform"), in_memory(640, (5, 3)))  # fills the pool
        doctor._faults(lines.append, backend, found, (64 * 100, (5, 3), range(3)), 6_000)
    assert [line.split(" (after")[0] for line in lines] == [
        "cupy device 0: out of memory (the pool's limit): counts are right",
        "cupy device 0: no pinned memory: counts are right",
        "cupy device 0: Ctrl-C",
    ]
    assert lines[2].endswith("counts are right")
    assert found.good
    assert standin._settings.limit == [0]
    with CupyBackend() as backend:  # enough memory, an interrupt that is lost
        monkeypatch.setattr("signal.pthread_kill", lambda *_: None)
        doctor._faults(lines.append, backend, found, (640, (5, 3), range(3)), 10**9)
    assert found.failures == ["out of memory (the pool's limit): it was not noticed", "Ctrl-C: it ended nothing"]


def test_self_test_prints_the_speed(no_cupy, monkeypatch):  # noqa: F811
    monkeypatch.setattr(doctor, "SPEED_USERS", 100)
    monkeypatch.setattr(doctor, "SPEED_DOMAIN", (2,))
    monkeypatch.setattr(doctor.positions_per_second, "__defaults__", (1e-9,))
    lines = []
    checked = doctor.self_test(lines.append, cases=FEW[:1], speed=True)
    assert [found.backend for found in checked if found.good] == HOST
    assert any(line.startswith("cupy: not tested, since CuPy is not installed") for line in lines)
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
    (found,) = doctor.self_test(lines.append, [backend], cases)
    assert re.search(f"{name}: DIFFERENT: users=64, domain=31,2,5, {cell}", lines[0])
    # both assignments are listed, and the cases after them are tried all the same
    assert [failure.startswith("users=64") for failure in found.failures] == [True, True]
    assert len(lines) == 2 * len(cases) + 1
    assert ("arithmetic: it is the same once more" in lines[0]) == (name == "other")
    assert lines[-1].startswith(f"{name}: DIFFERENT in 2 of 6 cases")


@needs_compiler
def test_a_sabotaged_kernel_is_found_out(standin, monkeypatch):  # noqa: F811
    from cuda_standin import MUTANT_CASES, mutate

    mutate(monkeypatch, "c0 = block + 1", "c0 = block + 2")
    lines = []
    (found,) = doctor.self_test(lines.append, [CupyBackend()], MUTANT_CASES[:1], device_cases=())
    assert not found.good
    assert lines[0].startswith("cupy device 0: DIFFERENT: users=65")


def test_a_device_that_changes_its_mind_is_found_out(no_cupy):  # noqa: F811
    class Fickle(NumpyBackend):
        name = "other"
        calls = 0

        def count(self, plan, dataset, seed, repetitions, progress=None):
            counts, sampled = super().count(plan, dataset, seed, repetitions, progress)
            self.calls += 1
            counts[0][0, 0, 0] += 5 * (self.calls == 4)
            return counts, sampled

    lines = []
    (found,) = doctor.self_test(lines.append, [Fickle(workers=1)], FEW)
    (failure,) = found.failures
    assert re.search(r"users=1, .* balanced assignment, the same once more, .*: count 6 instead of 1", failure)
    assert failure.endswith("(3 cells; a race: the first time was right)")


def test_stress(no_cupy, monkeypatch):  # noqa: F811
    lines = []
    assert doctor.self_test(lines.append, [NumpyBackend(workers=1)], FEW[:1], stress=1e-6)[0].good
    assert lines[-1] == "numpy: stress: equal to the literal reports in 1 random cases"
    monkeypatch.setattr(doctor, "random_case", lambda *_: doctor.CASES[2])
    backend = Sabotaged("counts")
    backend.name = "other"
    assert not doctor.self_test(lines.append, [backend], FEW[:1], stress=1e-6)[0].good
    assert lines[-1].startswith("other: stress: DIFFERENT: users=64")


def test_random_cases_are_as_large_as_they_may_be():
    random = np.random.default_rng(1)
    cases = [doctor.random_case(random, 10**6) for _ in range(300)]
    assert all(case.users * sum(case.domain) <= 10**6 for case in cases)
    assert max(case.users for case in cases) > 50_000
    assert {len(case.domain) for case in cases} == {1, 2, 3, 5, 17}
    assert 20 < sum(case.priors for case in cases) < 150
    assert 100 < sum(case.limits != doctor.NONE for case in cases) < 200
    for case in cases[:30]:
        case.plan("balanced")


def test_a_device_gets_what_it_alone_can_do():
    cases = doctor.DEVICE_CASES
    assert any(c.users >= 10**6 and sum(c.domain) < 10 for c in cases)  # many blocks add to few counts
    assert any(max(c.domain) >= 2500 and c.users > 100_000 for c in cases)
    assert any(max(c.domain) > 4096 for c in cases)
    assert any(c.priors for c in cases)
    limited = [c for c in cases if c.limits != doctor.NONE]
    assert any(c.limits.groups * 64 < c.users and c.limits.repetitions < len(c.repetitions) for c in limited)
    assert {c.users % 2 for c in cases} == {0, 1}  # both distributions of synthetic values


def test_large_domains_are_kept_by_some():
    """With a small epsilon nobody would, and nobody's own value would be looked at."""
    for case in (*doctor.CASES, *doctor.DEVICE_CASES):
        if max(case.domain) >= 2500:
            plan = case.plan("uniform")
            kept = (
                min(r.noise.threshold for r in plan.attributes[0].recipes if isinstance(r.noise, (Keep, Sets))) / 2**32
            )
            assert kept * case.users * len(case.repetitions) / len(case.domain) > 2


def test_priors_of_a_case():
    plan = doctor.Case(10, (5, 2), (1.0,), doctor.PRIORS, priors=True).plan("uniform")
    priors = {r.prior for a in plan.attributes for r in a.recipes}
    assert None in priors
    assert tuple(int(t) for t in np.cumsum([0, 1, 2, 3]) * 2**32 // 10) in priors


@pytest.mark.parametrize("name", ["--stress", "--speed", "--faults"])
def test_options_that_need_the_self_test(monkeypatch, capsys, tmp_path, name):
    lines = refusal(monkeypatch, capsys, tmp_path, ["doctor", name])
    assert lines == [f"gpu-rsfd: {name} needs --self-test"]


def test_the_command_passes_its_options_on(monkeypatch, capsys):
    given = []

    def self_test(echo, speed, stress, faults):
        given.append((speed, stress, faults))
        return [doctor.Checked("numpy", "", failures=["x"] if stress else [])]

    monkeypatch.setattr(doctor, "self_test", self_test)
    assert call(monkeypatch, "doctor", "--self-test", "--speed") == 0
    assert call(monkeypatch, "doctor", "--self-test", "--stress", "--faults") == 1
    assert given == [(True, 0.0, False), (False, doctor.STRESS_SECONDS, True)]


def test_json(no_cupy, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setattr(doctor.self_test, "__defaults__", (None, FEW[:1], False, (), 0.0, False))
    assert call(monkeypatch, "doctor", "--self-test", "--json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert list(found) == ["machine", "numpy", "native", "cupy", "auto", "self_test"]
    assert found["self_test"][0] | {"device": ""} == {
        "backend": "numpy", "device": "", "cases": 2, "failures": [], "kernels": {}, "speed": {},
    }  # fmt: skip
    assert "numpy: equal to the literal reports in 2 cases" in err
