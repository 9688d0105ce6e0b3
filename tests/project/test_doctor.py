"""The doctor: what it says, and that its self-test can fail."""

import re

import numpy as np
import pytest
from command import call, refusal
from cuda_standin import needs_compiler, no_cupy, standin  # noqa: F401

from gpu_rsfd import doctor
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.cuda.backend import CupyBackend
from gpu_rsfd.protocols import Keep

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


@pytest.mark.slow
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
    assert not doctor.self_test(lines.append, [Fickle(workers=1)], FEW, device_cases=())
    assert re.search(r"users=1, .* balanced assignment, the same once more, .*: count 6 instead of 1", lines[0])


def test_stress(no_cupy, monkeypatch):  # noqa: F811
    lines = []
    assert doctor.self_test(lines.append, [NumpyBackend(workers=1)], FEW[:1], speed=False, stress=1e-6)
    assert lines[-1] == "numpy: stress: equal to the literal reports in 1 random cases"
    monkeypatch.setattr(doctor, "random_case", lambda *_: doctor.CASES[2])
    backend = Sabotaged("counts")
    backend.name = "other"
    assert not doctor.self_test(lines.append, [backend], FEW[:1], device_cases=(), stress=1e-6)
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
    assert {c.users % 2 for c in cases} == {0, 1}  # both laws of synthetic values


def test_large_domains_are_kept_by_some():
    """With a small epsilon nobody would, and nobody's own value would be looked at."""
    for case in (*doctor.CASES, *doctor.DEVICE_CASES):
        if max(case.domain) >= 2500:
            plan = case.plan("uniform")
            kept = min(r.noise.threshold for r in plan.attributes[0].recipes if isinstance(r.noise, Keep)) / 2**32
            assert kept * case.users * len(case.repetitions) / len(case.domain) > 2


def test_priors_of_a_case():
    plan = doctor.Case(10, (5, 2), (1.0,), doctor.PRIORS, priors=True).plan("uniform")
    priors = {r.prior for a in plan.attributes for r in a.recipes}
    assert None in priors
    assert tuple(int(t) for t in np.cumsum([0, 1, 2, 3]) * 2**32 // 10) in priors


@needs_compiler
def test_the_speed_of_a_device_is_told_twice(standin, monkeypatch):  # noqa: F811
    monkeypatch.setattr(doctor, "SPEED_SHAPE", (100, (2,)))
    monkeypatch.setattr(doctor.positions_per_second, "__defaults__", (0.0,))
    lines = []
    assert doctor.self_test(lines.append, [CupyBackend()], FEW[:1], device_cases=())
    assert re.search(r"positions/s .* by the clock; .* in the kernels, by CUDA events, most of it in \w+$", lines[-1])


def test_stress_needs_the_self_test(monkeypatch, capsys, tmp_path):
    lines = refusal(monkeypatch, capsys, tmp_path, ["doctor", "--stress"])
    assert lines == ["gpu-rsfd: --stress goes with --self-test; give both"]


def test_the_command_passes_stress_on(monkeypatch, capsys):
    seconds = []
    monkeypatch.setattr(doctor, "self_test", lambda echo, stress: seconds.append(stress) or not stress)
    assert call(monkeypatch, "doctor", "--self-test") == 0
    assert call(monkeypatch, "doctor", "--self-test", "--stress") == 1
    assert seconds == [0.0, doctor.STRESS_SECONDS]
