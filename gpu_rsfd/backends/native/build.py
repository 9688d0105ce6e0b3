"""Compiles counts.c on first use, into the user's cache, and loads it; or says in one line why not.

What was compiled is compared with NumPy before the cache gets it, so that code which counts wrong is never used.

A file of the cache is named after what it was made from: source, flags, and every macro that the compiler defines for
this CPU, so that machines that share a home folder don't share a file that one of them can't run.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gpu_rsfd.backends.native.tables import declare
from gpu_rsfd.cache import CacheError, Kept, cache_folder, kept, last_line

SOURCE = Path(__file__).with_name("counts.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-std=gnu11", "-shared", "-fPIC", "-Wno-psabi")
TARGETS = (("-march=native",), ("-mcpu=native",), ())  # the first that the compiler knows: ARM has the second
BUILD_SECONDS = 120.0


class NotBuilt(Exception):  # noqa: N818  (it says what is the matter)
    """Why there is no compiled code."""


@dataclass(frozen=True)
class Compiler:
    """A compiler with its flags, and what it says of itself and the CPU."""

    command: tuple[str, ...]
    target: tuple[str, ...]
    macros: str

    @property
    def version(self) -> str:
        for line in self.macros.splitlines():
            if line.startswith("#define __VERSION__ "):
                text = line.removeprefix("#define __VERSION__ ").strip('"')
                return text if "clang" in text.lower() else f"GCC {text}"
        return "unknown"

    @property
    def flags(self) -> tuple[str, ...]:
        return (*FLAGS, *self.target)

    def key(self, source: str) -> str:
        """Names what is built from this source by this compiler for this CPU."""
        return hashlib.sha256("\0".join([source, *self.flags, self.macros]).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Built:
    """The code, loaded and checked."""

    library: ctypes.CDLL
    compiler: Compiler
    path: Path

    @property
    def width(self) -> str:
        return str(self.library.rsfd_build().decode())


def built() -> Built:
    """The compiled code, made once per process; `NotBuilt` if it can't be had, which is found out once, too."""
    found = _built()
    if isinstance(found, NotBuilt):
        raise found
    return found


def forget() -> None:
    """Look again the next time."""
    _built.cache_clear()


def describe() -> dict[str, str]:
    """The compiler, its version and flags, the width of a vector and the file in the cache; or why there is none."""
    try:
        found = built()
    except NotBuilt as error:
        return {"available": f"no, since {error}"}
    return {
        "available": "yes",
        "compiler": shlex.join(found.compiler.command),
        "version": found.compiler.version,
        "flags": shlex.join(found.compiler.flags),
        "vectors": found.width,
        "cache": str(found.path),
    }


@lru_cache(maxsize=1)
def _built() -> Built | NotBuilt:
    try:
        if os.environ.get("GPU_RSFD_NATIVE", "").strip() == "0":
            raise NotBuilt("GPU_RSFD_NATIVE=0 turns the native backend off")
        compiler = find_compiler()
        found = in_cache(compiler, SOURCE.read_text(encoding="utf-8"), cache_folder())
        library = load(*found)
    except NotBuilt as error:
        return error
    except CacheError as error:
        return NotBuilt(str(error))
    except (OSError, subprocess.SubprocessError) as error:
        return NotBuilt(f"the native backend can't be built: {last_line(error)}")
    return Built(library, compiler, found.path)


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=BUILD_SECONDS
    )


def find_compiler() -> Compiler:
    """$CC, else the first of cc, gcc and clang; else the one in the Python package ziglang."""
    if os.environ.get("CC", "").strip():
        try:
            command = shlex.split(os.environ["CC"])
        except ValueError:
            command = [os.environ["CC"]]
        if shutil.which(command[0]) is None:
            raise NotBuilt(f"no C compiler was found: CC={os.environ['CC']!r} is not a program")
    elif found := next(filter(shutil.which, COMPILERS), None):
        command = [found]
    elif importlib.util.find_spec("ziglang") is not None:
        command = [sys.executable, "-m", "ziglang", "cc"]
    else:
        raise NotBuilt(f"no C compiler was found ({', '.join(COMPILERS)})")
    for target in TARGETS:
        told = _run([*command, *target, "-dM", "-E", "-x", "c", os.devnull])
        if told.returncode == 0:
            return Compiler(tuple(command), target, told.stdout)
    raise NotBuilt(f"the C compiler {shlex.join(command)} does not work: {last_line(told.stderr)}")


def in_cache(compiler: Compiler, source: str, folder: Path) -> Kept:
    """The compiled source; compiles and checks it unless the cache has it."""

    def make(where: Path) -> Path:
        command = shlex.join(compiler.command)
        print(
            f"gpu-rsfd: compiling the native backend with {command}, once (some seconds)", file=sys.stderr, flush=True
        )
        path = compiled(compiler, source, where)
        if wrong := wrong_counts(load(path)):
            raise NotBuilt(f"what {command} made gives wrong counts ({wrong}): a fault of the compiler or the machine")
        return path

    return kept(folder, f"native-{compiler.key(source)}", make)


def compiled(compiler: Compiler, source: str, folder: Path) -> Path:
    """Compiles a source in a folder."""
    text, made = folder / "counts.c", folder / "counts.so"
    text.write_text(source, encoding="utf-8")
    done = _run([*compiler.command, *compiler.flags, "-o", str(made), str(text)])
    if done.returncode or not made.is_file():
        raise NotBuilt(f"the C compiler {shlex.join(compiler.command)} failed: {_error_line(done.stderr)}")
    return made


def _error_line(text: str) -> str:
    """The first line that speaks of an error: what follows it is its place."""
    return last_line(next((line for line in text.splitlines() if "error" in line.lower()), text))


def load(path: Path, content: bytes | None = None) -> ctypes.CDLL:
    """Loads what was compiled: these very bytes, where they can be had as a file that nobody else can reach."""
    try:
        place = str(path)
        if content is not None and hasattr(os, "memfd_create"):
            number = os.memfd_create(path.name)  # stays open: libraries of one name are one library
            with os.fdopen(number, "wb", closefd=False) as file:
                file.write(content)
            place = f"/proc/self/fd/{number}"
        return declare(ctypes.CDLL(place))
    except (OSError, AttributeError) as error:  # a folder from which nothing may be run, a file for another machine
        raise NotBuilt(f"{path} can't be loaded: {last_line(error)}") from None


def wrong_counts(library: ctypes.CDLL) -> str:
    """Where the compiled code does not count what NumPy counts; empty if it does."""
    from gpu_rsfd.backends.cpu.backend import NumpyBackend
    from gpu_rsfd.backends.native.backend import NativeBackend  # which needs this module
    from gpu_rsfd.backends.reference import FIRST_USE, difference

    with NativeBackend(1, library) as ours, NumpyBackend(1) as right:
        return next(filter(None, (difference(ours, case, right) for case in FIRST_USE)), "")
