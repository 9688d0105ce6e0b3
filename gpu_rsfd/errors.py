"""The two errors that become one line on the command line.  Anything else is a bug, and shows its traceback."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input.  The message has the parameter, its value and what is valid; the exit code of a command is 2."""


class RunError(RuntimeError):
    """A failure that is not the input's: a full disk, a lost worker or device.  The exit code of a command is 1."""
