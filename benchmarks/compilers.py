"""The CUDA kernels compiled by older compilers, which users of the extra cuda12 have; no GPU needed.

    python benchmarks/compilers.py [--versions 12.0,12.4,12.9] [--architectures 70,75,80,90]

One environment holds one NVRTC, so each is installed into a temporary folder of its own (pip, about 25 MB).  Prints
seconds, registers and spills for each version and architecture, beside the NVRTC of this environment; exit code 1 if
one does not compile.  NVRTC 13 has no sm_70.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(1, str(ROOT / "tests"))


def compiled(architectures: list[str]) -> None:
    """In a process of its own: a line of JSON per architecture, with the NVRTC that is found first."""
    import cuda_nvrtc as nvrtc

    from gpu_rsfd.backends.cuda.kernels import BARE, KERNELS, OPTIONS, source

    for arch in architectures:
        start = time.perf_counter()
        result: dict[str, object] = {"version": nvrtc.version(), "arch": arch}
        try:
            text = nvrtc.log(source(*KERNELS, BARE), arch, OPTIONS)
        except RuntimeError as error:
            result["error"] = str(error).splitlines()[0]
        else:
            entries = re.split(r"Compiling entry function '(\w+)'", text)[1:]
            spills = {
                name: sum(map(int, re.findall(r"(\d+) bytes spill", said)))
                for name, said in zip(entries[::2], entries[1::2], strict=True)
            }
            result["kernels"] = len(spills)
            result["registers"] = max(map(int, re.findall(r"Used (\d+) registers", text)))
            result["spills"] = {name: size for name, size in spills.items() if size}
        result["seconds"] = round(time.perf_counter() - start, 1)
        print(json.dumps(result), flush=True)


def results(folder: Path | None, architectures: list[str]) -> list[dict[str, object]]:
    environment = dict(os.environ)
    if folder is not None:
        libraries = next(folder.glob("nvidia/*/lib"))
        environment |= {"PYTHONPATH": str(folder), "LD_LIBRARY_PATH": str(libraries)}
    command = [sys.executable, str(Path(__file__).resolve()), "--compile", ",".join(architectures)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", default="12.0,12.4,12.9")
    parser.add_argument("--architectures", default="70,75,80,90")
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compile:
        compiled(options.compile.split(","))
        return 0
    wanted = options.architectures.split(",")
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for version in [*options.versions.split(","), None]:
            folder = None
            if version is not None:
                folder = Path(temporary, version)
                package = f"nvidia-cuda-nvrtc-cu12=={version}.*"
                pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
                subprocess.run([*pip, "--target", str(folder), package], check=True)
            for r in results(folder, [arch for arch in wanted if version is not None or int(arch) >= 75]):
                said = r.get("error") or (
                    f"{r['kernels']} kernels, at most {r['registers']} registers, spilled: {r['spills'] or 'nothing'}"
                )
                print(f"NVRTC {r['version']:5} sm_{r['arch']}: {said} ({r['seconds']} s)", flush=True)
                failed += "error" in r
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
