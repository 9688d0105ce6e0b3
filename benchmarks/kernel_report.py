"""What the CUDA kernels cost on real GPUs, found without one: NVRTC compiles, nvdisasm shows the instructions.

    python benchmarks/kernel_report.py [ARCH …]      (pip install -e ".[test]"; default: 75 80 90 100 120)

For each architecture and kernel: registers, spills, static instructions; for the unary kernels also the instructions
that one position (user x attribute x value) takes in the hot loop, with k = d = 10.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpu_rsfd.backends.cuda.kernels import OPTIONS, source

ARCHITECTURES = ("75", "80", "90", "100", "120")
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
    program = compiler._NVRTCProgram(text or source(), "gpu_rsfd.cu", method="cubin")
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


def main(architectures: list[str]) -> None:
    print(f"{'arch':8}{'kernel':18}{'registers':>10}{'spilled':>9}{'instructions':>14}{'a position':>12}")
    for arch in architectures:
        for name, kernel in sorted(build(arch).items()):
            hot = f"{kernel.per_position():.1f}" if name.startswith(("count_unary", "count_paired")) else ""
            print(
                f"{'sm_' + arch:8}{name:18}{kernel.registers:>10}{kernel.spilled:>9}{kernel.instructions:>14}{hot:>12}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:] or list(ARCHITECTURES))
