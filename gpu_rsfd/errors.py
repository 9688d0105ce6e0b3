"""The two errors that become one line on the command line.  Anything else is a bug, and shows its traceback."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input: what, its value, what is valid.  Exit code 2 on the command line."""


class RunError(RuntimeError):
    """The input is good, but the work can't go on: a full disk, a lost worker or device.  Exit code 1."""
