"""Terminals: control characters in names and labels are shown, not obeyed; signals end the work as exceptions do."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, TextIO

# all control characters but tab and newline, and those that turn the direction of text
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
STYLE = re.compile("(\x1b\\[[0-9;]*m)")  # colours and weights, which tables have
AGAIN = 0.01  # seconds until a signal that came at a bad moment is sent again


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


class Terminated(KeyboardInterrupt):
    """SIGTERM, as a batch system sends it before it kills, or SIGHUP, as a terminal does that is closed."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.number = number


@contextlib.contextmanager
def ended_by_signals() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP end the work as Ctrl-C does; where signals can't be had (in a thread), nothing changes.

    Gives a list, of those that came.
    """
    came: list[int] = []
    every = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    numbers = [number for number in every if signal.getsignal(number) is not signal.SIG_IGN]  # nohup

    def end(number: int, frame: FrameType | None) -> None:
        if _unheard(frame):
            again = threading.Timer(AGAIN, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        came.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        for each in numbers:
            if each != signal.SIGINT:
                signal.signal(each, signal.SIG_IGN)  # once is enough: what is under way is being ended
        raise Terminated(number)

    try:
        before = {number: signal.signal(number, end) for number in numbers}
    except ValueError:
        yield came
        return
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _unheard(frame: FrameType | None) -> bool:
    """Whether an exception would be lost: objects are being removed, or HDF5 is calling back to write its file."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or os.path.basename(code.co_filename) == "weakref.py":
            return True
        if type(frame.f_locals.get("self")).__name__ == "FileImage":
            return True
        frame = frame.f_back
    return False
