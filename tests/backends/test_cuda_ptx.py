"""What NVRTC makes of the kernels, PTX, executed on the CPU: NumPy's integers, and no access that it should not make.

Unlike the source run by g++, this covers the inline assembly, the parameters' offsets, PTX's shifts, reads outside the
arrays, and races, whatever the order of the threads.
"""

import functools
import importlib.util
import subprocess
import sys
from pathlib import Path

import cuda_ptx as ptx
import numpy as np
import pytest
from cuda_standin import MUTANT_CASES, PTX, first_difference, mutate, needs_nvrtc

from gpu_rsfd.backends.cuda.kernels import KERNELS, OPTIONS, source
from gpu_rsfd.backends.reference import CASES

pytestmark = [needs_nvrtc, pytest.mark.usefixtures("standin")]

REPORT = Path(__file__).parents[2] / "benchmarks" / "kernel_report.py"
_spec = importlib.util.spec_from_file_location("kernel_report", REPORT)
report = sys.modules[_spec.name] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(report)

ORDERS = [(0,), (1, 2, 3)]  # forwards; backwards and two shuffles, launch by launch


def quick(case):
    """Few kernels: each size takes the compiler seconds."""
    return case.users in (333, 334, 402, 500)


@pytest.mark.parametrize("orders", ORDERS, ids=["forwards", "shuffled"])
@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=() if quick(c) else pytest.mark.slow) for c in CASES],
    ids=lambda c: f"{c.users}-{c.domain[0]}",
)
def test_every_case_of_the_self_test(standin, case, orders):
    standin._reset(orders=orders, **PTX)
    assert first_difference([case]) == ""


@pytest.mark.slow
def test_all_kernels_are_translated(standin):
    from cupy import _compile

    kernels = _compile.kernels(source(*KERNELS), "80", OPTIONS)
    assert set(kernels) == set(KERNELS)
    used = {op for kernel in kernels.values() for block in kernel.blocks for op in block}
    assert {"lop3.b32", "bar.sync", "atom.shared.add.u32", "mul.hi.u64"} <= used
    assert {report.kind_of(op) for op in used} == set(report.KINDS)


@pytest.mark.slow
def test_the_instruction_mix():
    """A process of its own: the script puts the stand-in in CuPy's place."""
    done = subprocess.run([sys.executable, REPORT, "--mix"], capture_output=True, text=True, timeout=200, check=True)
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    mix = {name: dict(zip(head[2:], map(float, numbers), strict=False)) for name, *numbers in rows}
    assert set(mix) == {"draw_codes", "assign", "count_sampled", "count_values", "count_unary_13", "sum"}
    assert 25 < mix["count_unary_13"]["all"] < 42
    # 13 thresholds x 24 digits x 2 halves a group of 64, the functions of three words alone
    assert 13 * 24 * 2 / 64 < mix["count_unary_13"]["logic"] < 25
    assert mix["count_unary_13"]["atomic"] == pytest.approx(26 / 64, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["75", "90", "120"])
def test_the_ptx_of_other_architectures(standin, arch):
    """The source asks for the architecture in places."""
    standin._reset(ptx=arch, flags=("-O1",))
    assert first_difference([c for c in CASES if c.users in (63, 1000)]) == ""


@pytest.mark.slow
@pytest.mark.parametrize("old,new,which,message", [
    ("(a), \"r\"(b)", "(b), \"r\"(a)", 0, None),  # operands of lop3 swapped
    ("\"r\"(b), \"r\"(c)", "\"r\"(c), \"r\"(b)", 0, None),
    ("atomicAdd(ones + t / STEP * 64, sum)", "ones[t / STEP * 64] += sum", 0, "race in shared memory"),
    ("atomicAdd(ones + t / STEP * 64 + 32, random_sum)", "ones[t / STEP * 64 + 32] += random_sum", 0,
     "race in shared memory"),
    ("if (sum) atomicAdd(&counts_cells_repetitions_k[(u64)i * columns + column], sum)",
     "if (sum) counts_cells_repetitions_k[(u64)i * columns + column] += sum", 0, "race in global memory"),
    ("if (shared) atomicAdd(&shared[row * messages + message], (u32)change)",
     "if (shared) shared[row * messages + message] += (u32)change", 0, "race in shared memory"),
    ("else atomicAdd(&global[(u64)row * stride + message], (u64)(long long)change)",
     "else global[(u64)row * stride + message] += (u64)(long long)change", 0, "race in global memory"),
    ("atomicAdd(&bins.global[(u64)(i / messages) * bins.stride + i % messages], (u64)(long long)(int)shared_bins[i])",
     "bins.global[(u64)(i / messages) * bins.stride + i % messages] += (u64)(long long)(int)shared_bins[i]", 0,
     "race in global memory"),
    ("atomicAdd(&total, sum)", "total += sum", 0, "race in shared memory"),
    ("group * LANES + lane + i < users", "group * LANES + lane + i <= users", 0, "outside every array"),
])  # fmt: skip
def test_a_mutant_is_caught(standin, monkeypatch, old, new, which, message):
    """Each of these once passed every test."""
    mutate(monkeypatch, old, new, which)
    standin._reset(**PTX)
    if "else atomicAdd" in old:  # counts too many for shared memory; many users of few values
        monkeypatch.setattr("gpu_rsfd.backends.cuda.runner.SHARED_BYTES", 0)
    elif "bins.global" in old or "counts_cells" in old:  # several tiles on the same counts
        monkeypatch.setattr("gpu_rsfd.backends.cuda.runner.TILE", 4)
    if message is None:
        assert first_difference(MUTANT_CASES)
    else:
        with pytest.raises(RuntimeError, match=message):
            first_difference(MUTANT_CASES)


# The translator itself, instruction by instruction, on PTX written by hand.

HEAD = """
.visible .entry probe(
\t.param .u64 probe_param_0,
\t.param .u64 probe_param_1
)
{
\t.reg .pred %p<4>;
\t.reg .b16 %rs<4>;
\t.reg .b32 %r<8>;
\t.reg .b64 %rd<16>;
\t.shared .align 8 .b8 local[8];
\tld.param.u64 %rd1, [probe_param_0];
\tld.param.u64 %rd2, [probe_param_1];
\tcvta.to.global.u64 %rd3, %rd1;
\tcvta.to.global.u64 %rd4, %rd2;
\tld.global.u64 %rd5, [%rd3];
\tld.global.u64 %rd6, [%rd3+8];
\tld.global.u64 %rd7, [%rd3+16];
\tcvt.u32.u64 %r5, %rd5;
\tcvt.u32.u64 %r6, %rd6;
\tcvt.u32.u64 %r7, %rd7;
"""
TAIL = """
\tst.global.u64 [%rd4], %rd8;
\tret;

}
"""


def module(*bodies):
    """A kernel for each: probe0, probe1, …"""
    parts = [
        (HEAD + body + TAIL).replace("probe", f"probe{i}").replace("$L1", f"$L{i}") for i, body in enumerate(bodies)
    ]
    return ".version 8.0\n.target sm_80\n.address_size 64\n" + "".join(parts)


@functools.lru_cache(maxsize=1)
def all_probes():
    """One library for all that these tests run: a compiler takes its time to start."""
    from cupy import _compile

    bodies = [body for body, _ in SEMANTICS] + [body for body, *_ in FORBIDDEN] + [ALLOWED, LOOP]
    return _compile.ptx_library(module(*bodies), ("-O0", "-DCOUNT_BLOCKS")), bodies


def probe(body, a=0, b=0, c=0, threads=1):
    """The word that the instructions leave in %rd8, from a, b, c in %rd5 … 7 and (the low halves) %r5 … 7."""
    from cupy import _compile

    library, bodies = all_probes()
    words, out = np.array([a % 2**64, b % 2**64, c % 2**64], np.uint64), np.zeros(1, np.uint64)
    values = [np.array([words.ctypes.data], np.uint64), np.array([out.ctypes.data], np.uint64)]
    arrays = [(words.ctypes.data, words.nbytes), (out.ctypes.data, out.nbytes)]
    _compile.launch(library, f"probe{bodies.index(body)}", 1, threads, 0, values, 0, arrays)
    return int(out[0])


MINUS = 2**64 - 5
SEMANTICS = [
    ("shl.b32 %r1, %r5, %r6; cvt.u64.u32 %rd8, %r1;", [((3, 31), 2**31), ((3, 32), 0), ((3, 200), 0)]),
    ("shl.b64 %rd8, %rd5, %r6;", [((3, 63), 2**63), ((3, 64), 0)]),
    ("shr.u64 %rd8, %rd5, %r6;", [((2**63, 63), 1), ((2**63, 64), 0)]),
    ("shr.s64 %rd8, %rd5, %r6;", [((MINUS, 1), 2**64 - 3), ((MINUS, 99), 2**64 - 1), ((5, 99), 0)]),
    ("shr.s32 %r1, %r5, %r6; cvt.u64.u32 %rd8, %r1;", [((2**32 - 5, 1), 2**32 - 3), ((2**32 - 5, 40), 2**32 - 1)]),
    ("shf.l.wrap.b32 %r1, %r5, %r6, %r7; cvt.u64.u32 %rd8, %r1;",
     [((0x80000001, 5, 4), 0x58), ((0x80000001, 5, 36), 0x58), ((1, 5, 0), 5)]),
    ("shf.r.clamp.b32 %r1, %r5, %r6, %r7; cvt.u64.u32 %rd8, %r1;",
     [((0x80000001, 5, 4), 0x58000000), ((1, 5, 36), 5), ((1, 5, 0), 1)]),
    ("mul.hi.u64 %rd8, %rd5, %rd6;", [((2**63, 6), 3), ((2**64 - 1, 2**64 - 1), 2**64 - 2)]),
    ("mul.lo.s64 %rd8, %rd5, %rd6;", [((2**63 + 1, 6), 6)]),
    ("mul.wide.u32 %rd8, %r5, %r6;", [((2**32 - 1, 2**32 - 1), (2**32 - 1) ** 2)]),
    ("mul.wide.s32 %rd8, %r5, %r6;", [((2**32 - 1, 7), 2**64 - 7)]),
    ("mad.lo.s32 %r1, %r5, %r6, %r7; cvt.u64.u32 %rd8, %r1;", [((2**31, 2, 9), 9)]),
    ("setp.lt.s64 %p1, %rd5, %rd6; selp.b64 %rd8, 1, 2, %p1;", [((MINUS, 1), 1), ((1, MINUS), 2), ((1, 1), 2)]),
    ("setp.lt.u64 %p1, %rd5, %rd6; selp.b64 %rd8, 1, 2, %p1;", [((MINUS, 1), 2), ((1, MINUS), 1), ((1, 1), 2)]),
    ("setp.ge.u32 %p1, %r5, %r6; not.pred %p2, %p1; selp.b64 %rd8, 1, 2, %p2;", [((2**32, 1), 1), ((1, 1), 2)]),
    ("bfi.b32 %r1, %r5, %r6, 8, 4; cvt.u64.u32 %rd8, %r1;", [((0xAB, 0xFFFF), 0xFBFF), ((0, 0xFFFF), 0xF0FF)]),
    ("bfi.b64 %rd8, %rd5, %rd6, 32, 32;", [((0x1234, 7), 0x1234 << 32 | 7)]),
    ("lop3.b32 %r1, %r5, %r6, %r7, 0x10; cvt.u64.u32 %rd8, %r1;", [((12, 10, 9), 12 & ~10 & ~9)]),
    ("lop3.b32 %r1, %r5, %r6, %r7, 212; cvt.u64.u32 %rd8, %r1;", [((0xF0, 0xCC, 0xAA), 212)]),
    ("popc.b64 %r1, %rd5; cvt.u64.u32 %rd8, %r1;", [((MINUS,), 63)]),
    ("cvt.s64.s32 %rd8, %r5;", [((2**32 - 1,), 2**64 - 1), ((2**31 - 1,), 2**31 - 1)]),
    ("neg.s32 %r1, %r5; cvt.u64.u32 %rd8, %r1;", [((1,), 2**32 - 1)]),
    ("not.b32 %r1, %r5; cvt.u64.u32 %rd8, %r1;", [((1,), 2**32 - 2)]),
    ("rem.u64 %rd8, %rd5, %rd6;", [((MINUS, 10), MINUS % 10)]),
    ("div.u32 %r1, %r5, %r6; cvt.u64.u32 %rd8, %r1;", [((2**32 - 1, 10), (2**32 - 1) // 10)]),
    ("add.s64 %rd8, %rd5, -3;", [((1,), 2**64 - 2)]),
    ("sub.s32 %r1, %r5, %r6; cvt.u64.u32 %rd8, %r1;", [((1, 2), 2**32 - 1)]),
    ("mov.b64 {%r1, %r2}, %rd5; mov.b64 %rd8, {%r2, %r1};", [((7 << 32 | 5,), 5 << 32 | 7)]),
    ("mov.b64 {_, %r2}, %rd5; cvt.u64.u32 %rd8, %r2;", [((7 << 32 | 5,), 7)]),
    ("ld.global.u16 %rs1, [%rd3+2]; cvt.u64.u16 %rd8, %rs1;", [((0xABCD1234,), 0xABCD)]),
    ("ld.global.v2.u32 {%r1, %r2}, [%rd3]; cvt.u64.u32 %rd8, %r2;", [((7 << 32,), 7)]),
    ("mov.u64 %rd8, 1; setp.eq.s64 %p1, %rd5, 0; @%p1 bra $L1; mov.u64 %rd8, 2;\n$L1:", [((0,), 1), ((1,), 2)]),
    ("st.shared.u64 [local], %rd5; bar.sync 0; atom.shared.add.u32 %r1, [local+4], 3; ld.shared.u64 %rd8, [local];",
     [((5,), 3 << 32 | 5)]),
]  # fmt: skip


@pytest.mark.parametrize(
    "body,cases", SEMANTICS, ids=[body.split()[0] + f"-{i}" for i, (body, _) in enumerate(SEMANTICS)]
)
def test_an_instruction_means_what_the_manual_says(body, cases):
    for given, wanted in cases:
        assert probe(body, *given) == wanted, (body, given)


@pytest.mark.parametrize("body", [
    "prmt.b32 %r1, %r5, %r6, %r7;",
    "add.sat.s32 %r1, %r5, %r6;",
    "add.f32 %f1, %f2, %f3;",
    "shl.b128 %rd8, %rd5, %r6;",
    "ld.global.v4.u32 {%r1, %r2}, [%rd3];",
    "ld.u32 %r1, [%rd3];",  # a generic address
    "bar.sync 1;",
    "mov.b32 {%rs1, %rs2}, %r5;",
    "shfl.sync.idx.b32 %r1, %r5, 0, 31, -1;",
    "mov.u32 %r1, %laneid.y;",
    "mov.u32 %r1, nowhere;",
])  # fmt: skip
def test_what_is_not_known_is_an_error(body):
    with pytest.raises(ptx.Unknown):
        ptx.translate(module(body))


def test_functions_that_are_called_are_an_error():
    with pytest.raises(ptx.Unknown):
        ptx.translate(module("mov.u64 %rd8, 1;") + ".func helper()\n{\nret;\n}\n")


FORBIDDEN = [
    ("ld.global.u64 %rd8, [%rd3+24];", "global access outside every array", 1),
    ("ld.global.u64 %rd8, [%rd3+-8];", "global access outside every array", 1),
    ("ld.global.u64 %rd8, [%rd3+4];", "misaligned global access", 1),
    ("ld.shared.u32 %r1, [local+16];", "outside shared memory", 1),
    ("mov.u64 %rd9, probe_param_0; ld.param.u64 %rd8, [%rd9+16];", "outside parameters", 1),
    ("mov.u64 %rd8, 1;", "race in global memory", 2),
    ("st.shared.u64 [local], %rd5;", "race in shared memory", 2),
    ("mov.u32 %r1, %tid.x; setp.eq.s32 %p1, %r1, 0; @%p1 bra $L1; ld.shared.u64 %rd8, [local]; ret;\n"
     "$L1: st.shared.u64 [local], %rd5;", "race in shared memory", 2),
]  # fmt: skip
ALLOWED = (
    "atom.shared.add.u64 %rd8, [local], %rd5; bar.sync 0; mov.u32 %r1, %tid.x; setp.ne.s32 %p1, %r1, 0;\n"
    "@%p1 bra $L1; ld.shared.u64 %rd8, [local]; st.global.u64 [%rd4], %rd8;\n$L1: ret;"
)
LOOP = "mov.u64 %rd8, 0;\n$L1: add.s64 %rd8, %rd8, 1; setp.lt.u64 %p1, %rd8, %rd5; @%p1 bra $L1;"


@pytest.mark.parametrize("body,message,threads", FORBIDDEN)
def test_what_a_kernel_must_not_do_is_an_error(body, message, threads):
    with pytest.raises(RuntimeError, match=message):
        probe(body, threads=threads)


def test_a_barrier_or_atomics_are_no_race():
    assert probe(ALLOWED, 21, threads=2) == (0xCDCDCDCDCDCDCDCD + 42) % 2**64


def test_basic_blocks_are_counted():
    from cupy import _compile

    library, bodies = all_probes()
    name = f"probe{bodies.index(LOOP)}"
    blocks = ptx.translate(module(*bodies))[name].blocks
    loop = next(i for i, block in enumerate(blocks) if block["add.s64"])

    def executed(of):
        return _compile.executed(library, name, len(blocks), of)[loop]

    before = executed("threads"), executed("warps")
    assert probe(LOOP, 10) == 10
    assert (executed("threads") - before[0], executed("warps") - before[1]) == (10, 10)
