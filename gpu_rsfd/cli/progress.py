"""Progress on the terminal: a live bar, plain lines where there is no terminal, or nothing."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from gpu_rsfd.cli.terminal import escaped
from gpu_rsfd.running.collect import Silent

PLAIN_EVERY = 5.0  # seconds between plain lines


def amount(number: float) -> str:
    """1.2e+08 as `120 M`."""
    for unit, size in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if float(f"{number:.3g}") >= size:  # as it is shown: 999.9 is 1 k
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """60342697 as `698 days`: the unit that people would take."""
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    for unit, size, most in (("min", 60, 90), ("h", 3600, 48), ("days", 86_400, 730)):
        if seconds < size * most:
            return f"{seconds / size:.1f} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds / (365.25 * 86_400):,.0f} years"


class PlainLines(Silent):
    """A line now and then on standard error, for logs."""

    every = PLAIN_EVERY

    def __init__(self) -> None:
        self._total, self._done, self._before, self._name = 1, 0, 0, ""
        self._started = self._spoken = time.monotonic()

    def begin(self, positions: int, done: int) -> None:
        self._total, self._done, self._before = positions, done, done
        self._started = time.monotonic()

    def dataset(self, name: str) -> None:
        self._name = name

    def advance(self, positions: int) -> None:
        self._done += positions
        now = time.monotonic()
        if now - self._spoken >= self.every:
            self._spoken = now
            self._show()

    def _words(self) -> str:
        """How fast it goes, and how long it will take."""
        speed = (self._done - self._before) / max(time.monotonic() - self._started, 1e-9)
        left = (self._total - self._done) / speed if speed else 0
        return f"{amount(speed)} positions/s  {duration(left)} left"

    def _show(self) -> None:
        self.say(f"{100 * self._done / self._total:3.0f} %  {self._name}  {self._words()}")

    def say(self, line: str) -> None:
        print(escaped(line), file=sys.stderr, flush=True)

    def end(self) -> None:
        self._show()


class LiveBar(PlainLines):
    """A live bar over all positions (users x values x repetitions)."""

    every = 0.1

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(stderr=True)
        words = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[words]}")
        self._bar = Progress(*words, console=self._console)
        self._task = self._bar.add_task("", total=None, words="")

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, positions: int, done: int) -> None:
        super().begin(positions, done)
        self._bar.start()

    def _show(self) -> None:
        self._bar.update(
            self._task,
            total=self._total,
            completed=self._done,
            description=escape(escaped(self._name)),
            words=self._words(),
        )

    def say(self, line: str) -> None:
        self._console.print(escaped(line), highlight=False, markup=False)

    def end(self) -> None:
        self._show()
        self._bar.stop()


def reporter(quiet: bool) -> Silent:
    """The one that fits where the output goes."""
    if quiet:
        return Silent()
    return LiveBar() if sys.stderr.isatty() else PlainLines()
