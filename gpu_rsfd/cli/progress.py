"""Progress on the terminal: a live bar, plain lines where there is no terminal, or nothing."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
from rich.text import Text

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
        if now - self._spoken >= PLAIN_EVERY:
            self._spoken = now
            self._line()

    def _line(self) -> None:
        speed = (self._done - self._before) / max(time.monotonic() - self._started, 1e-9)
        left = (self._total - self._done) / speed if speed else 0
        share = 100 * self._done / self._total
        self.say(f"{share:3.0f} %  {self._name}  {amount(speed)} positions/s  {duration(left)} left")

    def say(self, line: str) -> None:
        print(escaped(line), file=sys.stderr, flush=True)

    def end(self) -> None:
        self._line()


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{amount(speed)} positions/s" if speed else "")


class _Left(ProgressColumn):
    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        left = task.time_remaining
        return Text("" if left is None or task.finished else f"{duration(left)} left")


class LiveBar(Silent):
    """A live bar over all positions (users x values x repetitions)."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            _Speed(),
            _Left(),
            console=self._console,
        )
        self._task = self._progress.add_task("", total=None, start=False)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, positions: int, done: int) -> None:
        self._progress.start()
        self._progress.start_task(self._task)
        self._progress.update(self._task, total=positions, completed=done)

    def dataset(self, name: str) -> None:
        self._progress.update(self._task, description=escape(escaped(name)))

    def advance(self, positions: int) -> None:
        self._progress.advance(self._task, positions)

    def say(self, line: str) -> None:
        self._console.print(escaped(line), highlight=False, markup=False)

    def end(self) -> None:
        self._progress.stop()


def reporter(quiet: bool) -> Silent:
    """The one that fits where the output goes."""
    if quiet:
        return Silent()
    return LiveBar() if sys.stderr.isatty() else PlainLines()
