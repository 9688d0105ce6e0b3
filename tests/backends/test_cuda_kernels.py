"""The unchanged CUDA source, run on the CPU: NumPy's integers for every shape, thread order and block size."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cuda_standin import FOLDER, MUTANT_CASES, WAYS, first_difference, mutate, needs_compiler, standin  # noqa: F401

import gpu_rsfd
from gpu_rsfd.backends.cuda import kernels
from gpu_rsfd.backends.cuda import runner as cuda
from gpu_rsfd.backends.cuda.kernels import KERNELS
from gpu_rsfd.backends.cuda.passes import AttributeJob
from gpu_rsfd.backends.reference import CASES, Case
from gpu_rsfd.planning import Plan

pytestmark = [needs_compiler, pytest.mark.usefixtures("standin")]

FORWARDS, BACKWARDS = 0, 1
SMALL = [c for c in CASES if c.users in (63, 65, 129, 1000)]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.users}-{c.domain[0]}")
def test_every_shape_under_changing_thread_orders(standin, case):  # noqa: F811
    standin._reset(orders=(BACKWARDS, 2, FORWARDS, 3))
    assert first_difference([case]) == ""


@pytest.mark.slow
def test_the_shapes_reach_every_kernel(standin):  # noqa: F811
    """Otherwise the tests above prove less than they seem to."""
    used = set()
    for case in CASES:
        jobs = [AttributeJob.of(a) for a in Plan.of(case.domain, case.protocols, case.epsilons).attributes]
        used |= {p.kernel for job in jobs for p in job.passes}
        used |= {"count_values" for job in jobs if job.plan.needs_value}
    assert first_difference(SMALL) == ""
    used |= {name for name, _ in standin._settings.launches}
    assert used - {"probe"} == set(KERNELS)
    rows = AttributeJob.of(Plan.of((2500, 2), ("rsfd-grr", "spl-grr", "smp-grr"), (1.0,)).attributes[0]).cells
    assert rows * 4 > cuda.SHARED_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("block,tile", [(1, 3), (7, 1), (33, 64), (100, 7)])
def test_any_block_size_is_right(standin, monkeypatch, block, tile):  # noqa: F811
    monkeypatch.setattr(cuda, "BLOCK", block)
    monkeypatch.setattr(cuda, "TILE", tile)
    monkeypatch.setattr(cuda, "threads_for", lambda groups: block)
    standin._reset(orders=(BACKWARDS, 2))
    assert first_difference(SMALL) == ""


MUTANTS = [
    *(("__syncthreads();", ";", which) for which in range(6)),
    ("group + 1 < groups ? ~0ull", "group < groups ? ~0ull", 0),  # off by one in the tail: who sampled what
    ("group + 1 < groups ? ~0ull", "group < groups ? ~0ull", 1),  # … of GRR
    ("group + 1 < groups ? ~0ull", "group < groups ? ~0ull", 2),  # … of unary encodings
    ("group * LANES + lane + i < users", "group * LANES + lane + i + 1 < users", 0),  # … of values in memory
    ("c1 = column, c2 = repetition", "c1 = repetition, c2 = column", 0),  # a wrong field of the counter
    ("c0 = block + 1", "c0 = block", 0),
    ("(A & B) | (~C & (A | B))", "(A & B) | (C & (A | B))", 0),  # thresholds' digits the wrong way round
    ("for (u32 bank = 0; bank < 32; bank++)", "for (u32 bank = 0; bank < 31; bank++)", 0),
]


def test_there_are_no_more_barriers_than_mutants():
    assert sum(kernels.text(name).count("__syncthreads();") for name in kernels.FILES) == 6


@pytest.mark.slow
@pytest.mark.parametrize("old,new,which", MUTANTS)
def test_a_mutant_is_caught(standin, monkeypatch, old, new, which):  # noqa: F811
    mutate(monkeypatch, old, new, which)
    differences = []
    for order in (FORWARDS, BACKWARDS):
        standin._reset(orders=(order,), flags=("-O1",))
        differences.append(first_difference(MUTANT_CASES))
    assert any(differences)


def test_a_divergent_barrier_is_caught(standin, monkeypatch):  # noqa: F811
    mutate(monkeypatch, "  __syncthreads();", "  if (threadIdx.x) __syncthreads();")
    standin._reset(flags=("-O1",))
    with pytest.raises(RuntimeError, match="not all threads of the block reach the same barrier"):
        first_difference(MUTANT_CASES[:1])


def sanitized(kind, *mutant):
    """Runs tests/standin/sanitized.py under a sanitizer; its exit code and what it wrote."""
    runtime = {"address": "libasan.so", "thread": "libtsan.so"}[kind]
    path = subprocess.run(
        ["g++", f"-print-file-name={runtime}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(path).is_absolute():
        pytest.skip(f"{runtime} is not installed")
    environment = dict(
        os.environ, LD_PRELOAD=os.path.realpath(path), PYTHONPATH=str(Path(gpu_rsfd.__file__).parents[1])
    )
    environment["ASAN_OPTIONS"] = "detect_leaks=0:halt_on_error=1"
    environment["TSAN_OPTIONS"] = "halt_on_error=1:report_signal_unsafe=0"
    command = [sys.executable, str(FOLDER / "sanitized.py"), kind, *mutant]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the thread sanitizer does not run under this kernel's address space layout")
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["address", "thread"])
def test_sanitizers_find_nothing(kind):
    code, text = sanitized(kind)
    assert (code, text.splitlines()[-1:]) == (0, ["no difference"]), text[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("kind,old,new,message", [
    ("address", "i < cells; i += blockDim.x) shared_bins[i] = 0", "i <= cells; i += blockDim.x) shared_bins[i] = 0",
     "heap-buffer-overflow"),
    ("thread", "__syncthreads();", ";", "data race"),
    ("thread", "atomicAdd(ones + t / STEP * 64, sum)", "ones[t / STEP * 64] += sum", "data race"),
])  # fmt: skip
def test_sanitizers_can_fail(kind, old, new, message):
    code, text = sanitized(kind, old, new)
    assert code != 0
    assert message in text


def test_an_array_overrun_is_caught(standin, monkeypatch):  # noqa: F811
    mutate(monkeypatch, "if (b < digits) out[", "if (b <= digits) out[")
    standin._reset(flags=("-O1",))
    with pytest.raises(RuntimeError, match="wrote outside an array"):
        first_difference([Case(64, (5, 2), (1.0,), WAYS)])


@pytest.mark.slow
def test_a_random_data_set_in_memory():
    codes = np.random.default_rng(3).integers(0, 1000, (500, 3))
    data = gpu_rsfd.Dataset(codes, (1000, 1000, 2000))
    a, b = (
        gpu_rsfd.simulate(data, epsilons=1.0, protocols=("rsfd-grr", "rsfd-sue-r"), repetitions=2, backend=name)
        for name in ("cupy", "numpy")
    )
    assert np.array_equal(a.counts, b.counts)
