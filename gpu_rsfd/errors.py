"""The two errors that become one line on the command line, and signals that end it; anything else is a bug.

A signal is only noted when it comes.  It ends the work at the next call of `heed_signals`, in code of ours: an
exception that is raised anywhere else may meet a library that can't bear it, or swallows it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

IMPATIENT = 1.0  # seconds without a step after which a second signal ends the process at once


class InputError(ValueError):
    """Bad input.  The message has the parameter, its value and what is valid; the exit code of a command is 2."""


class RunError(RuntimeError):
    """A failure that is not the input's: a full disk, a lost worker or device.  The exit code of a command is 1."""


class Terminated(BaseException):
    """SIGINT, SIGTERM (as a batch system sends it before it kills) or SIGHUP (as a terminal does that is closed)."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


_noted: list[tuple[int, float]] = []  # signals that have not ended the work yet, and when they came
_unfinished: list[None] = []  # an entry for each file that is being written, and each lock that is held


def note(number: int, _: object = None) -> None:
    """The handler of signals.  Where nothing is unfinished, the process ends at once, and nothing is left over."""
    if not _unfinished or (_noted and time.monotonic() - _noted[0][1] > IMPATIENT):
        os._exit(128 + number)
    _noted.append((number, time.monotonic()))


def heed_signals() -> None:
    """Between two steps of the work: ends it if a signal has come."""
    if _noted:
        number, _ = _noted[0]
        _noted.clear()
        raise Terminated(number)


@contextlib.contextmanager
def unfinished() -> Iterator[None]:
    """What is done here has to be ended in order: a signal waits for the next call of `heed_signals`."""
    _unfinished.append(None)
    try:
        yield
    finally:
        _unfinished.pop()
    heed_signals()
