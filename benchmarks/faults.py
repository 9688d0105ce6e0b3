"""Faults at every file operation, and signals at random moments: nothing is lost, wrong, unreadable or left over.

    python benchmarks/faults.py                          every call of every scenario, every kind of fault
    python benchmarks/faults.py --slice 3/8              an eighth of them
    python benchmarks/faults.py --sample 60 --seed 1     that many of them, drawn at random; a minute
    python benchmarks/faults.py --signals 1000           SIGINT, SIGTERM, SIGHUP and SIGKILL, or two of them, instead

Needs Linux and a C compiler (CC, default cc).  faults.c is built and preloaded; commands run in forked children.  The
Nth call on a file of the output's folder fails, is cut short, or kills the process.  Checked afterwards: the results
file can be read and holds a prefix of the true integers; no repetition that was finished is lost; a file of the user is
untouched; no traceback, no hang, no failure without a word, nothing left over; and the same command again completes the
work with the same integers and no other file.  Violations are printed, then a line of figures; exit code 1 if there are
any.

Faults are walked with a clock that ticks evenly and with blocks written one after the other, so that the Nth call is
the same in every run.  What follows from a folder then depends on its content alone: faults that leave the same folder
share one run again.  Signals come at any time, with the real clock and threads.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import errno
import hashlib
import io
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
KINDS = ("openr", "openw", "read", "write", "trunc", "sync", "rename", "unlink", "mkdir", "rmdir", "close", "lock",
         "chmod", "list", "opena", "link")  # fmt: skip
COUNT, FAIL, FAIL_ON, SHORT, KILL, KILL_AFTER, TORN = range(7)
GROWING = ("openw", "write", "trunc", "mkdir", "rename", "link")
CHANGING = (*GROWING, "opena", "unlink", "rmdir", "chmod")
HUNG = 120.0  # seconds
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
JOURNAL = re.compile(r"r\.h5\.(journal|part-\d+-of-\d+)")
MINE = "not yours\n"


class Fault(NamedTuple):
    """What happens to a call, and to which calls; with FAIL_ON, which fail from then on."""

    mode: int
    kinds: tuple[str, ...]
    code: int = 0
    after: tuple[str, ...] = ()


FAULTS = {
    "no space": Fault(FAIL, (*GROWING, "sync", "close"), errno.ENOSPC),
    "full disk": Fault(FAIL_ON, GROWING, errno.ENOSPC, GROWING),
    "read-only disk": Fault(FAIL_ON, CHANGING, errno.EROFS, CHANGING),
    "write error": Fault(FAIL, (*CHANGING, "sync", "close", "lock"), errno.EIO),
    "read error": Fault(FAIL, ("openr", "read", "list"), errno.EIO),
    "lost disk": Fault(FAIL_ON, KINDS, errno.EIO, KINDS),
    "refused": Fault(
        FAIL, ("openr", "openw", "opena", "rename", "unlink", "mkdir", "chmod", "list", "link"), errno.EACCES
    ),
    "short": Fault(SHORT, ("read", "write")),
    "interrupted": Fault(FAIL, ("openr", "openw", "opena", "read", "write", "sync", "lock"), errno.EINTR),
    "killed before": Fault(KILL, KINDS),
    "killed after": Fault(KILL_AFTER, (*CHANGING, "sync", "lock")),
    "torn write": Fault(TORN, ("write",)),
}
STUCK = {"lost disk", "read-only disk"}  # nothing can be cleaned up

SMALL = ["--domain", "3,4", "--epsilon", "1", "--protocol", "rsfd-grr,smp-adp", "--workers", "1", "--quiet"]


def sweep(repetitions: int, *more: str, output: str = "r.h5", users: str = "300") -> list[str]:
    numbers = ["--users", users, "--repetitions", str(repetitions), "--save-every", "0", "--output", output]
    return ["sweep", *SMALL, *numbers, "--no-plot", *more]


def attack(repetitions: int, output: str = "r.h5") -> list[str]:
    return ["attack", *SMALL, "--users", "300", "--repetitions", str(repetitions), "--no-plot", "--output", output]


class Scenario(NamedTuple):
    """Commands that prepare, the one that is disturbed, what finishes it, and the files that are there at the end."""

    before: list[list[str]]
    command: list[str]
    after: list[list[str]] = []
    files: tuple[str, ...] = ("r.h5",)
    large: bool = False  # read and written as a large file is: piece by piece
    killed: tuple[str, int] | None = None  # the command was killed before, at this call


SCENARIOS = {  # two blocks each, as a rule: one is done when something happens to the other
    "sweep": Scenario([], sweep(1, users="300,400")),
    "large sweep": Scenario([], sweep(1), large=True),
    "mse": Scenario([], sweep(2, "--keep", "mse")),
    "resume": Scenario([], sweep(3), killed=("sync", 4)),
    "pack": Scenario([], sweep(2), killed=("rename", 1)),
    "extend": Scenario([sweep(1)], sweep(3)),
    "large extend": Scenario([sweep(1)], sweep(2), large=True),
    "grow": Scenario([sweep(1)], sweep(2, "--protocol", "spl-grr")),
    "overwrite": Scenario([sweep(1, "--seed", "5")], sweep(2, "--overwrite")),
    "part": Scenario([sweep(3, "--part", f"{i}/3") for i in (1, 3)], sweep(3, "--part", "2/3"), [["merge", "r.h5"]]),
    "merge": Scenario([sweep(3, "--part", f"{i}/3") for i in (1, 2, 3)], ["merge", "r.h5"]),
    "large merge": Scenario([sweep(2, "--part", f"{i}/2") for i in (1, 2)], ["merge", "r.h5"], large=True),
    "others": Scenario(
        [sweep(2, "--part", "1/2"), sweep(2, "--part", "2/2", output="other/r.h5")], ["merge", "r.h5", "other/r.h5"]
    ),
    "attack": Scenario([], attack(2)),
    "plot": Scenario([sweep(2)], ["plot", "r.h5", "--output", "f.png"], files=("r.h5", "f.png")),
    "page": Scenario([sweep(2)], ["page", "r.h5", "--output", "f.html"], files=("r.h5", "f.html")),
    "show": Scenario([sweep(2)], ["show", "r.h5"]),
}


class Ended(NamedTuple):
    """How a command ended."""

    code: int | None  # None: it hung
    said: str
    calls: list[list[str]]  # number among those that the fault is for, else 0; kind, path, to


class Walker:
    """Runs commands in children, disturbs them, and looks at what they leave."""

    def __init__(self, work: Path, library: Path) -> None:
        from gpu_rsfd import files, open_results
        from gpu_rsfd.cli import main
        from gpu_rsfd.measure import view
        from gpu_rsfd.running import collect
        from gpu_rsfd.store import contents, journal

        collect.SHORTEST_BLOCK = 0.0  # a block for each repetition
        self.work, self.faults = work, ctypes.CDLL(str(library))
        self.main, self.open_results = main, open_results
        self.collect, self.view, self.contents, self.journal, self.files = (
            collect,
            view,
            contents,
            journal,
            files,
        )
        self.violations: dict[tuple[str, str], list[str]] = collections.OrderedDict()
        self.injected: collections.Counter[str] = collections.Counter()
        self.known: dict[str, Known] = {}
        self.again: dict[tuple[str, str], list[tuple[str, str]]] = {}  # what running again showed, by folder
        self.warm_up()

    def steady(self) -> None:
        """Has the children that follow do the same calls in the same order, whatever the machine does."""
        self.collect.time = self.view.time = Clock()  # type: ignore[attr-defined]
        self.collect.ThreadPoolExecutor = AtOnce  # type: ignore[attr-defined, misc]

    def warm_up(self) -> None:
        """Has this process import and remember what takes long, for all children; nothing of it touches files."""
        import matplotlib.figure  # noqa: F401

        from gpu_rsfd.show import charts, page, plots  # noqa: F401

        charts.bundle = lambda: "/* Vega */"  # its engine can't be forked
        folder, here = self.work / "warm", os.getcwd()
        folder.mkdir()
        os.chdir(folder)
        for argv in (sweep(1), attack(1, "a.h5"), ["show", "r.h5"], ["plot", "r.h5"], ["page", "r.h5"]):
            sys.argv = ["gpu-rsfd", *argv]
            silent = io.StringIO()  # whether it works is seen later
            with (
                contextlib.suppress(SystemExit),
                contextlib.redirect_stdout(silent),
                contextlib.redirect_stderr(silent),
            ):
                self.main()
        os.chdir(here)

    # ------------------------------------------------------------------------------------------------ commands

    def run(self, folder: Path, argv: Sequence[str], large: bool = False, fault: Fault | None = None, nth: int = 0,
            signalled: Sequence[tuple[int, float]] = ()) -> Ended:  # fmt: skip
        """A command in a child, with a fault at the nth call or with signals after some seconds."""
        out, log = self.work / "out", self.work / "log"
        for path in (out, log):
            path.write_bytes(b"")
        child = os.fork()
        if child == 0:
            self._child(folder, argv, large, fault, nth, out, log)
        began, code = time.monotonic(), None
        while time.monotonic() - began < HUNG:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                break
            if signalled and time.monotonic() - began >= signalled[0][1]:
                os.kill(child, signalled[0][0])
                signalled = signalled[1:]
            time.sleep(0.001)
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        calls = [line.split("\t") for line in log.read_text().splitlines()]
        return Ended(code, out.read_text(errors="replace"), calls)

    def _child(self, folder: Path, argv: Sequence[str], large: bool, fault: Fault | None, nth: int, out: Path,
               log: Path) -> None:  # fmt: skip
        code = 70
        try:
            if large:
                self.files.BUFFERED, self.journal.AT_ONCE, self.journal.TOGETHER = 4096, 4096, 0
            os.chdir(folder)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            number = os.open(out, os.O_WRONLY | os.O_APPEND)
            for stream in (1, 2):
                os.dup2(number, stream)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.argv = ["gpu-rsfd", *argv]
            fault = fault or Fault(COUNT, KINDS)
            listed = os.open(log, os.O_WRONLY | os.O_APPEND)
            self.faults.faults_set(
                str(folder).encode(), fault.mode, _bits(fault.kinds), _bits(fault.after), ctypes.c_long(nth),
                fault.code, listed,
            )  # fmt: skip
            try:
                self.main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            sys.stdout.flush()
            sys.stderr.flush()
        except KeyboardInterrupt:  # before the command has begun
            code = 128 + signal.SIGINT
        except BaseException:
            traceback.print_exc()
        finally:
            self.faults.faults_clear()
            os._exit(code)

    # ------------------------------------------------------------------------------------------------ scenarios

    def prepare(self, name: str) -> Known | None:
        """The folder before the command, and the truth; None if the command fails of itself."""
        if name in self.known:
            return self.known[name]
        scenario, base, sure = SCENARIOS[name], self.work / "base" / name, self.work / "sure"
        (base / "other").mkdir(parents=True)
        (base / "mine.txt").write_text(MINE)
        for argv in scenario.before:
            ended = self.run(base, argv)
            if ended.code != 0:
                raise SystemExit(f"{name}: {argv} failed:\n{ended.said}")
        if scenario.killed is not None:
            kind, nth = scenario.killed
            self.run(base, scenario.command, fault=Fault(KILL, (kind,)), nth=nth)
        shutil.rmtree(sure, ignore_errors=True)
        shutil.copytree(base, sure)
        self.run(sure, scenario.command, scenario.large, Fault(KILL, ("rename",)), 1)  # a part moves nothing
        had, blocks = self.covered(base), [block - self.covered(base) for block in self.blocks(sure)]
        shutil.rmtree(sure)
        shutil.copytree(base, sure)
        began = time.monotonic()
        ended = self.run(sure, scenario.command, scenario.large)
        seconds = time.monotonic() - began
        if ended.code != 0:
            self.violated(name, "fails without a fault", f"exit code {ended.code}", ended.said.strip()[-300:])
            return None
        self.in_order(name, ended.calls)
        whole = self.covered(sure)
        for argv in scenario.after:
            self.run(sure, argv)
        truth = self.content(sure / "r.h5")
        before = self.content(base / "r.h5") if (base / "r.h5").exists() else None
        calls = collections.Counter(call[1] for call in ended.calls)
        self.known[name] = Known(
            base,
            truth,
            before,
            {p.name for p in base.iterdir()},
            had,
            whole,
            [block for block in blocks if block],
            calls,
            seconds,
        )
        print(f"{name}: {sum(calls.values())} calls ({', '.join(f'{n} {k}' for k, n in calls.items())})", flush=True)
        return self.known[name]

    def places(self, names: Sequence[str], faults: Sequence[str]) -> Iterator[tuple[str, str, str, int]]:
        """Every scenario, fault and kind of call, with the number of such calls."""
        for name in names:
            known = self.prepare(name)
            for fault in faults if known is not None else ():
                for kind in FAULTS[fault].kinds:
                    if known.calls[kind]:
                        yield name, fault, kind, known.calls[kind]

    def fresh(self, known: Known) -> Path:
        folder = self.work / "now"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(known.base, folder)
        return folder

    def disturb(self, name: str, what: str, kind: str, nth: int) -> None:
        """One fault at the nth call of a kind, and all checks."""
        known, fault = self.known[name], FAULTS[what]._replace(kinds=(kind,))
        folder = self.fresh(known)
        ended = self.run(folder, SCENARIOS[name].command, SCENARIOS[name].large, fault, nth)
        self.injected[what] += 1
        at = next((i for i, call in enumerate(ended.calls) if int(call[0]) == nth), len(ended.calls))
        path = os.path.relpath(ended.calls[at][2], folder) if at < len(ended.calls) else "there was none"
        killed = fault.mode in (KILL, KILL_AFTER, TORN)
        cleaned = not killed and what not in STUCK and kind not in ("unlink", "rmdir")
        finished = synced(ended.calls[:at])
        codes = (-signal.SIGKILL,) if killed else ()
        self.check(name, f"{what}, {kind} {nth}: {path}", folder, ended, codes, cleaned, finished)

    def signal(self, name: str, signals: Sequence[tuple[int, float]]) -> None:
        """One signal or two, and all checks."""
        folder = self.fresh(self.known[name])
        ended = self.run(folder, SCENARIOS[name].command, signalled=signals)
        what = " and ".join(signal.Signals(number).name for number, _ in signals)
        self.injected[what] += 1
        codes = [code for number, _ in signals for code in (-number, 128 + number)]
        cleaned, finished = ended.code is None or ended.code >= 0, max(0, synced(ended.calls) - 1)
        self.check(name, f"{what} after {signals[0][1]:.3f} s", folder, ended, codes, cleaned, finished)

    def check(self, name: str, where: str, folder: Path, ended: Ended, codes: Sequence[int], cleaned: bool,
              finished: int) -> None:  # fmt: skip
        """All that is promised, after a command and after it has run again."""
        known, scenario = self.known[name], SCENARIOS[name]
        said = " | ".join(ended.said.strip().splitlines()[-3:])[-300:]
        if ended.code is None:
            self.violated(name, "hung", where, said)
        elif "Traceback" in ended.said or "this is a bug" in ended.said or ended.code == 70:
            self.violated(name, "traceback", where, said)
        elif ended.code not in (0, 1, 2, *codes):
            self.violated(name, f"exit code {ended.code}", where, said)
        elif ended.code in (1, 2) and not said:
            self.violated(name, "failed without a word", where)
        files = {p.name for p in folder.iterdir()}
        if ended.code == 0 and not scenario.after and not set(scenario.files) <= files:
            self.violated(name, "exit code 0 without its output", where, str(sorted(files)))
        if ended.code == 0 and name not in ("plot", "page", "show") and not (known.whole <= self.covered(folder)):
            self.violated(name, "exit code 0 with less than was asked for", where)
        if cleaned and (stray := sorted(f for f in files - known.names if f.endswith((".tmp", ".lock")))):
            self.violated(name, "left over after an error", where, str(stray))
        if (folder / "mine.txt").read_text() != MINE:
            self.violated(name, "a file of the user changed", where)
        if name not in ("overwrite", "plot", "page", "show"):
            self.check_kept(name, where, folder, known, finished)
        key = name, digest_of(folder)
        if key not in self.again:
            self.again[key] = [*self.wrong_now(folder / "r.h5", known), *self.wrong_again(folder, scenario, known)]
        for what, detail in self.again[key]:
            self.violated(name, what, where, detail)

    def wrong_now(self, path: Path, known: Known) -> Iterator[tuple[str, str]]:
        """What is wrong with the file that was left."""
        if path.exists() or path.with_name("r.h5.journal").exists():
            try:
                content = self.content(path)
            except Exception as error:
                if path.exists() or "does not exist" not in str(error):  # nothing to see yet
                    yield "unreadable", repr(error)
                return
            if not any(truth is not None and prefix(content, truth) for truth in (known.truth, known.before)):
                yield "other numbers", ""
            if (wrong := unreadable_for_others(path)) is not None:
                yield "unreadable for others", wrong

    def wrong_again(self, folder: Path, scenario: Scenario, known: Known) -> Iterator[tuple[str, str]]:
        """What is wrong when the command has run again."""
        for argv in (scenario.command, *scenario.after):
            again = self.run(folder, argv, scenario.large)
            if again.code != 0:
                yield f"run again: exit code {again.code}", again.said.strip()[-300:]
                return
        try:
            if not same(self.content(folder / "r.h5"), known.truth):
                yield "run again: other numbers", ""
        except Exception as error:
            yield "run again: unreadable", repr(error)
        if (wrong := unreadable_for_others(folder / "r.h5")) is not None:
            yield "run again: unreadable for others", wrong
        left = {str(p.relative_to(folder)) for p in folder.rglob("*") if "other" not in p.parts}
        # a lock that could not be removed is removed when its part is run again
        if stray := {f for f in left if not re.fullmatch(r".*\.part-\d-of-\d\.lock", f)} - {
            *scenario.files,
            "mine.txt",
        }:
            yield "left over after running again", str(sorted(stray))
        if "f.html" in left and not (folder / "f.html").read_text().rstrip().endswith("</html>"):
            yield "torn page", ""

    def check_kept(self, name: str, where: str, folder: Path, known: Known, finished: int) -> None:
        wanted = known.had.union(*known.blocks[:finished])
        if lost := wanted - self.covered(folder):
            self.violated(name, "finished repetitions lost", where, str(sorted(lost)))

    def blocks(self, folder: Path) -> list[set[Cell]]:
        """Cells and repetitions of the blocks in journals, in their order."""
        found = []
        for path in sorted(folder.iterdir()):
            if JOURNAL.fullmatch(path.name):
                with self.contents.open_journal(path) as journal:
                    found += [cells_of(piece) for piece in journal.pieces]
        return found

    def covered(self, folder: Path) -> set[Cell]:
        """Cells and repetitions on disk, in the file or in journals."""
        found = set().union(*self.blocks(folder))
        with contextlib.suppress(Exception), self.contents.open_file(folder / "r.h5") as file:
            found.update(*map(cells_of, file.pieces))
        return found

    def content(self, path: Path) -> dict[str, list[Any]]:
        """The numbers in a file, [protocol, epsilon, repetition, …], per data set."""
        import numpy as np

        results = self.open_results(path).items()
        return {name: [np.array(result[array]) for array in result.arrays] for name, result in results}

    def in_order(self, name: str, calls: Sequence[Sequence[str]]) -> None:
        """A journal and a file are synced before the file is moved, and its folder before a journal is removed."""
        dirty: set[str] = set()
        moved: set[str] = set()
        for _, kind, path, to in calls:
            if kind in ("write", "trunc"):
                dirty.add(path)
            elif kind == "sync":
                dirty.discard(path)
                moved = {p for p in moved if os.path.dirname(p) != path}
            elif kind == "rename":
                for late in dirty & {path, *(p for p in dirty if JOURNAL.fullmatch(os.path.basename(p)))}:
                    self.violated(name, "moved before it was synced", late)
                moved.add(to)
            elif kind == "unlink" and JOURNAL.fullmatch(os.path.basename(path)) and moved:
                self.violated(name, "journal removed before the folder was synced", path)
        for path in (path for path in dirty if JOURNAL.fullmatch(os.path.basename(path)) and os.path.exists(path)):
            self.violated(name, "journal not synced", path)
        for path in moved:
            self.violated(name, "folder not synced after a move", path)

    def violated(self, scenario: str, what: str, where: str, detail: str = "") -> None:
        if (scenario, what) not in self.violations:
            print(f"violation, {scenario}: {what}: {where}: {detail}", flush=True)
        self.violations.setdefault((scenario, what), []).append(f"{where}: {detail}")


Cell = tuple[str, str, float, int]  # data set, protocol, epsilon, repetition


def cells_of(piece: Any) -> set[Cell]:
    return {(piece.dataset, *cell, r) for cell in piece.cells for r in range(piece.first, piece.stop)}


def synced(calls: Sequence[Sequence[str]]) -> int:
    """Blocks that are on disk for good: every sync of a journal but the first, which is of its head."""
    return max(0, sum(c[1] == "sync" and bool(JOURNAL.fullmatch(os.path.basename(c[2]))) for c in calls) - 1)


class Known(NamedTuple):
    """What is known of a scenario."""

    base: Path
    truth: dict[str, list[Any]]
    before: dict[str, list[Any]] | None
    names: set[str]  # of files
    had: set[Cell]
    whole: set[Cell]
    blocks: list[set[Cell]]  # that the command adds, in their order
    calls: collections.Counter[str]
    seconds: float


class Clock:
    """Ticks evenly."""

    def __init__(self) -> None:
        self._ticks = itertools.count()

    def perf_counter(self) -> float:
        return next(self._ticks) / 1024


class AtOnce:
    """A pool that does its work when it gets it."""

    def __init__(self, *_: object) -> None: ...
    def __enter__(self) -> AtOnce:
        return self

    def __exit__(self, *_: object) -> None: ...
    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments))
        except BaseException as error:
            done.set_exception(error)
        return done


def unreadable_for_others(path: Path) -> str | None:
    """What is wrong with the variables of a file that gpu-rsfd itself does not read; each has a checksum."""
    import h5py

    if not path.exists():
        return None
    try:
        with h5py.File(path, "r") as file:
            nodes: list[Any] = []
            file.visititems(lambda _, node: nodes.append(node))
            for node in (node for node in nodes if isinstance(node, h5py.Dataset)):
                node[()]
                if any(len(dim) != 1 for dim in node.dims) and node.name.rpartition("/")[2] in ("counts", "mse"):
                    return f"{node.name} has lost its dimensions"
    except Exception as error:
        return repr(error)
    return None


def digest_of(folder: Path) -> str:
    """Of names, modes and content; temporary files of dead processes are all alike but for their content."""
    lines = []
    for path in sorted(folder.rglob("*")):
        name = re.sub(r"\.[0-9a-f]{16}\.gpu-rsfd\.tmp$", ".tmp", str(path.relative_to(folder)))
        about = path.lstat()
        plain = path.is_file() and path.suffix != ".lock"  # which says who held it, and when
        content = hashlib.sha256(path.read_bytes()).hexdigest() if plain else ""
        lines.append(f"{name} {about.st_mode:o} {content}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _bits(kinds: Sequence[str]) -> int:
    return sum(1 << KINDS.index(kind) for kind in kinds)


def same(a: dict[str, list[Any]], b: dict[str, list[Any]]) -> bool:
    return a.keys() == b.keys() and prefix(a, b) and prefix(b, a)


def prefix(a: dict[str, list[Any]], b: dict[str, list[Any]]) -> bool:
    """Whether all numbers of one are the first of the other."""
    import numpy as np

    def first(x: Any, y: Any) -> bool:
        return bool(np.array_equal(x, y[:, :, : x.shape[2]], equal_nan=x.dtype.kind == "f"))

    return all(name in b and all(map(first, arrays, b[name])) for name, arrays in a.items())


def built(folder: Path) -> Path:
    """The library that is preloaded."""
    library = folder / "faults.so"
    compiler = os.environ.get("CC", "cc")
    if not sys.platform.startswith("linux") or shutil.which(compiler) is None:
        raise SystemExit(f"faults.py needs Linux and a C compiler; there is no {compiler} (set CC)")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(HERE / "faults.c"), "-ldl"], check=True
    )
    return library


def start_again() -> int:
    """This script under LD_PRELOAD."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # what is synced is not waited for
    with tempfile.TemporaryDirectory(prefix="faults-", dir=os.environ.get("TMPDIR", memory)) as folder:
        library = str(built(Path(folder)))
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        environment = {**os.environ, "LD_PRELOAD": library, "FAULTS_LIBRARY": library, "MPLBACKEND": "agg", **threads}
        path = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(path)
        return subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=environment).returncode


def _slice(text: str) -> tuple[int, int]:
    number, parts = map(int, text.split("/"))
    if not 1 <= number <= parts:
        raise ValueError
    return number, parts


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, help="faults, drawn at random (default: all)", metavar="N")
    parser.add_argument("--slice", type=_slice, help="only one of N equal parts, such as 3/8", metavar="I/N")
    parser.add_argument("--signals", type=int, help="signals at random moments instead of faults", metavar="N")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (default: 1)")
    parser.add_argument("--seconds", type=float, help="stop after so long; faults then come in random order")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="only this; repeatable")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="only this; repeatable")
    return parser.parse_args()


def main() -> int:
    options = parsed()
    if "FAULTS_LIBRARY" not in os.environ:
        return start_again()
    library = Path(os.environ["FAULTS_LIBRARY"])
    walker, rng = Walker(library.parent, library), random.Random(options.seed)
    names, end = options.scenario or list(SCENARIOS), time.monotonic() + (options.seconds or float("inf"))
    if options.signals is None:
        walker.steady()
        groups = list(walker.places(names, options.fault or list(FAULTS)))
        places = [(*place, nth) for *place, number in groups for nth in range(1, number + 1)]
        every = len(places)
        if options.sample is not None and options.sample < every:  # every kind of call alike: most are small reads
            drawn: dict[tuple[Any, ...], None] = {}
            while len(drawn) < options.sample:
                *place, number = rng.choice(groups)
                drawn[(*place, rng.randint(1, number))] = None
            places = list(drawn)
        todo: list[Any] = [(walker.disturb, place) for place in places]
    else:
        able = [name for name in names if walker.prepare(name) is not None]
        every, todo = options.signals, []
        for _ in range(options.signals):
            name = rng.choice(able)
            delay = rng.uniform(0, 1.1 * walker.known[name].seconds)
            signals = [(rng.choice(SIGNALS), delay)]
            if rng.random() < 0.3:  # another one soon after
                signals.append((rng.choice(SIGNALS[:3]), delay + rng.uniform(0, 0.05)))
            todo.append((walker.signal, (name, signals)))
    if options.slice is not None:
        todo = todo[options.slice[0] - 1 :: options.slice[1]]
    if options.seconds is not None:
        rng.shuffle(todo)
    for action, arguments in todo:
        if time.monotonic() > end:
            break
        action(*arguments)
    for (scenario, what), cases in walker.violations.items():
        print(f"VIOLATION {scenario}: {what} ({len(cases)} times)")
        for case in cases[:3]:
            print(f"    {case}")
    done, bad = sum(walker.injected.values()), sum(map(len, walker.violations.values()))
    kinds = ", ".join(f"{number} {kind}" for kind, number in walker.injected.items())
    folders = f"; {len(walker.again)} different folders left" if options.signals is None else ""
    print(f"{done} injected of {every} ({kinds}){folders}; {bad} violations")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
