"""Signals that end the work early, as an exception where Python can bear one."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

AGAIN = 0.01  # seconds until a signal that came at a bad moment is sent again


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
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [n for n in numbers if signal.getsignal(n) is not signal.SIG_IGN]  # nohup

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

    before = {}
    try:
        for number in numbers:
            before[number] = signal.signal(number, end)
    except ValueError:
        yield came
        return
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _unheard(frame: FrameType | None) -> bool:
    """Whether an exception would be lost: objects are being removed, or HDF5 is calling back."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or os.path.basename(code.co_filename) == "weakref.py":
            return True
        if type(frame.f_locals.get("self")).__name__ == "FileImage":
            return True
        frame = frame.f_back
    return False
