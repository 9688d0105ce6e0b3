"""Terminals: control characters in names and labels are shown, not obeyed; signals are noted."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from gpu_rsfd.errors import note

# all control characters but tab and newline, and those that turn the direction of text
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
STYLE = re.compile("(\x1b\\[[0-9;]*m)")  # colours and weights, which tables have


def escaped(text: str) -> str:
    """A control character as Python would write it."""
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class Guarded:
    """Standard output on a terminal: all but colours is escaped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        pieces = STYLE.split(text)  # every second one is a style
        self._stream.write("".join(piece if i % 2 else escaped(piece) for i, piece in enumerate(pieces)))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Standard output is guarded if it is a terminal; what goes into a file or a pipe is left as it is."""
    if sys.stdout is None or not sys.stdout.isatty():
        yield
        return
    with contextlib.redirect_stdout(Guarded(sys.stdout)):
        yield


@contextlib.contextmanager
def noting_signals() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP are noted; where signals can't be had (in a thread), nothing changes."""
    every = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    numbers = [number for number in every if signal.getsignal(number) is not signal.SIG_IGN]  # nohup
    before: dict[int, Any] = {}
    with contextlib.suppress(ValueError):
        before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
