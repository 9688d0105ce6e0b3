"""What the CUDA kernels cost on real GPUs, found without one: NVRTC compiles, nvdisasm shows the instructions.

    python benchmarks/kernel_report.py [--mix] [ARCH …]      (pip install -e ".[test]"; default: all from 75 to 121)

For each architecture and kernel: registers, spills, static instructions, how many of them are atomic on global and on
shared memory; for the unary kernels also the instructions that one position (user x attribute x value) takes in the hot
loop, with k = d = 10.

--mix: what is executed, not what is there.  NVRTC's PTX runs on the CPU (tests/cuda_ptx.py; needs g++) for the paper's
six methods at its six epsilons, and the instructions of a warp are counted, kind by kind, per position and lane: of
PTX, which for 64-bit operations are several of the GPU's.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpu_rsfd.backends.cuda.kernels import KERNELS, OPTIONS, module_of, source

ARCHITECTURES = ("75", "80", "86", "89", "90", "100", "103", "110", "120", "121")
Mix = dict[str, float]  # kind of instruction -> executed
LANES, BLOCKS = 64, 6  # users of a group; Philox blocks behind their 24 digits
DIGITS = 4  # of a code, for k = 10 values or d = 10 attributes


@dataclass(frozen=True)
class Kernel:
    """One kernel on one architecture."""

    name: str
    registers: int
    spilled: int  # bytes, stores and loads
    code: list[tuple[str, str]]  # opcode, operands
    loops: list[tuple[int, int]]  # first and last instruction, largest first

    @property
    def instructions(self) -> int:
        return len(self.code)

    def atomics(self, shared: bool) -> int:
        """Instructions that add to shared or global memory whatever other threads do."""
        starts = ("ATOMS",) if shared else ("ATOMG", "RED.", "REDG")
        return sum(op.startswith(starts) for op, _ in self.code)

    def per_position(self) -> float:
        """Instructions of the hot loop per position: each inner loop weighted with its number of rounds."""
        hot, *others = self.loops
        inner = [(a, b) for a, b in others if hot[0] <= a and b <= hot[1]]
        total = hot[1] - hot[0] + 1
        for a, b in inner:
            if any((c, d) != (a, b) and c <= a and b <= d for c, d in inner):
                raise ValueError(f"{self.name}: loops nested deeper than expected")
            rounds = DIGITS if any(op.startswith("LDG") for op, _ in self.code[a : b + 1]) else BLOCKS
            total += (rounds - 1) * (b - a + 1)
        return total / LANES


def _nvdisasm() -> str:
    import nvidia  # a namespace package: one folder per site directory

    for folder in nvidia.__path__:
        for tool in Path(folder).glob("*/bin/nvdisasm*"):
            return str(tool)
    raise FileNotFoundError("nvdisasm is missing: pip install nvidia-cuda-nvdisasm")


def build(arch: str, text: str | None = None) -> dict[str, Kernel]:
    """Compiles the kernels for sm_`arch` and takes them apart."""
    from cupy.cuda import compiler

    log = io.StringIO()
    options = (f"-arch=sm_{arch}", *OPTIONS, "--device-as-default-execution-space", "--ptxas-options=-v")
    program = compiler._NVRTCProgram(text or source(*KERNELS), "gpu_rsfd.cu", method="cubin")
    cubin, _ = program.compile(options, log)
    cubin += b"\0" * (-len(cubin) % 8)  # CuPy drops the last byte, and nvdisasm minds
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        listing = subprocess.run([_nvdisasm(), "-c", file.name], capture_output=True, text=True, check=True).stdout
    result = {}
    for name, code, loops in _functions(listing):
        entry = re.search(rf"entry function '{name}'(.*?)Compile time", log.getvalue(), re.S)
        assert entry, f"no statistics for {name}"
        used = re.search(r"Used (\d+) registers", entry[1])
        spilled = re.findall(r"(\d+) bytes spill", entry[1])
        assert used
        assert len(spilled) == 2
        result[name] = Kernel(name, int(used[1]), sum(map(int, spilled)), code, loops)
    return result


def _functions(listing: str) -> list[tuple[str, list[tuple[str, str]], list[tuple[int, int]]]]:
    functions: list[tuple[str, list[tuple[str, str]], list[tuple[int, int]]]] = []
    labels: dict[str, int] = {}
    code: list[tuple[str, str]] = []
    for line in listing.splitlines():
        if m := re.match(r"\.text\.(\w+):", line):
            code = []
            functions.append((m[1], code, []))
        elif m := re.match(r"\.(L_x_\d+):", line):
            labels[m[1]] = len(code)
        elif m := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_.]+)(.*);", line):
            code.append((m[1], m[2].strip()))
    for _, code, loops in functions:
        for i, (op, operands) in enumerate(code):
            target = re.search(r"\(\.(L_x_\d+)\)", operands)
            if op.startswith("BRA") and target and labels[target[1]] < i:
                loops.append((labels[target[1]], i))
        loops.sort(key=lambda loop: loop[0] - loop[1])
    return functions


KINDS = {  # of PTX instructions, by how they begin; the first that fits
    "multiply": ("mul", "mad", "div", "rem"),
    "logic": ("lop3", "and", "or", "xor", "not", "shl", "shr", "shf", "bfi", "popc"),
    "add": ("add", "sub", "neg", "min", "max"),
    "compare": ("setp", "selp"),
    "move": ("mov", "cvt", "cvta"),
    "parameter": ("ld.param",),
    "global": ("ld.global", "st.global"),
    "shared": ("ld.shared", "st.shared"),
    "atomic": ("atom", "red"),
    "control": ("bra", "bar", "ret"),
}
MIX_SHAPE = 128 * 64, (10,) * 10  # users, domain sizes: whole blocks


def kind_of(opcode: str) -> str:
    return next(kind for kind, starts in KINDS.items() if opcode.startswith(starts))


def executed(arch: str = "80", users: int = MIX_SHAPE[0], domain: tuple[int, ...] = MIX_SHAPE[1]) -> dict[str, Mix]:
    """Warp instructions by kernel and kind, per position and lane, of one repetition on the CPU.

    A position is a user x value: all of them for every kernel, so that the sum of the kernels is the whole.
    """
    tests = Path(__file__).parents[1] / "tests"
    for name in [name for name in sys.modules if name == "cupy" or name.startswith("cupy.")]:
        del sys.modules[name]  # the stand-in takes CuPy's place
    sys.path[:0] = [str(tests / "standin"), str(tests)]
    import cupy
    from cupy import _compile

    from gpu_rsfd import PAPER, PAPER_EPSILONS, SyntheticDataset
    from gpu_rsfd.backends.cuda import runner
    from gpu_rsfd.backends.cuda.backend import CupyBackend
    from gpu_rsfd.planning import Plan

    runner._kernels.clear()
    flags = ("-O1", "-DCOUNT_BLOCKS")
    cupy._reset(ptx=arch, flags=flags)
    plan = Plan.of(domain, PAPER, PAPER_EPSILONS)
    result = {}
    with CupyBackend() as backend:
        backend.count(plan, SyntheticDataset(users, domain), 1, range(1))
    for _, name in runner._kernels:
        text = source(*module_of(name))
        library, kernel = _compile.library(text, flags, arch, OPTIONS), _compile.kernels(text, arch, OPTIONS)[name]
        mix = dict.fromkeys(KINDS, 0.0)
        for times, opcodes in zip(_compile.executed(library, name, len(kernel.blocks)), kernel.blocks, strict=True):
            for opcode, count in opcodes.items():
                mix[kind_of(opcode)] += 32 * times * count / plan.positions(users)
        if any(mix.values()):
            result[name] = mix
    return result


def print_mix(arch: str) -> None:
    mixes = executed(arch)
    print(f"{'PTX ' + arch:18}{'all':>10}" + "".join(f"{kind:>11}" for kind in KINDS))
    for name, mix in mixes.items():
        print(f"{name:18}{sum(mix.values()):>10.3f}" + "".join(f"{mix[kind]:>11.3f}" for kind in KINDS))
    print(f"{'sum':18}{sum(sum(mix.values()) for mix in mixes.values()):>10.3f}")


def main(architectures: list[str]) -> None:
    head = ("registers", "spilled", "instructions", "atomic", "shared", "a position")
    print(f"{'arch':8}{'kernel':18}" + "".join(f"{name:>13}" for name in head))
    for arch in architectures:
        for name, k in sorted(build(arch).items()):
            numbers = [k.registers, k.spilled, k.instructions, k.atomics(shared=False), k.atomics(shared=True)]
            hot = f"{k.per_position():>13.1f}" if name.startswith(("count_unary", "count_paired")) else ""
            print(f"{'sm_' + arch:8}{name:18}" + "".join(f"{number:>13}" for number in numbers) + hot, flush=True)


if __name__ == "__main__":
    wanted = [arch for arch in sys.argv[1:] if arch != "--mix"]
    if "--mix" in sys.argv:
        for arch in wanted or ["80"]:
            print_mix(arch)
    else:
        main(wanted or list(ARCHITECTURES))
