"""Progress on the terminal: a live bar, plain lines where there is no terminal, or nothing."""

from __future__ import annotations

import shutil
import sys
import time

from gpu_rsfd.cli.terminal import escaped
from gpu_rsfd.options import amount, duration
from gpu_rsfd.running.collect import Silent

PLAIN_EVERY, LIVE_EVERY = 5.0, 0.1  # seconds between lines
BAR = 30  # characters


class Lines(Silent):
    """On standard error: a line now and then, for logs; or on a terminal, one that is written again and again."""

    def __init__(self, live: bool) -> None:
        self._live, self._start = live, "\r\x1b[K" if live else ""
        self._total, self._done, self._before, self._name = 0, 0, 0, ""
        self._started = self._spoken = time.monotonic()

    def begin(self, positions: int, done: int) -> None:
        self._total, self._done, self._before = positions, done, done
        self._started = time.monotonic()

    def dataset(self, name: str) -> None:
        self._name = name

    def advance(self, positions: int) -> None:
        self._done += positions
        now = time.monotonic()
        if now - self._spoken >= (LIVE_EVERY if self._live else PLAIN_EVERY):
            self._spoken = now
            self._show("" if self._live else "\n")

    def _show(self, end: str) -> None:
        share = self._done / self._total
        speed = (self._done - self._before) / max(time.monotonic() - self._started, 1e-9)
        left = (self._total - self._done) / speed if speed else 0
        bar = f"{'━' * round(BAR * share):·<{BAR}} " if self._live else ""
        line = f"{bar}{100 * share:3.0f} %  {self._name}  {amount(speed)} positions/s  {duration(left)} left"
        width = shutil.get_terminal_size().columns - 1 if self._live else None
        print(f"{self._start}{escaped(line)[:width]}", end=end, file=sys.stderr, flush=True)

    def say(self, line: str) -> None:
        print(f"{self._start}{escaped(line)}", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._total:  # there was something to do
            self._show("\n")


def reporter(quiet: bool) -> Silent:
    """The one that fits where the output goes."""
    return Silent() if quiet else Lines(sys.stderr.isatty())
