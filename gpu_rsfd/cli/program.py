"""The program: how it ends, whatever a command does."""

from __future__ import annotations

import contextlib
import difflib
import errno
import io
import os
import platform
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer

from gpu_rsfd.cli.commands import COMMANDS, SEPARATOR, Group, load
from gpu_rsfd.cli.terminal import escaped, guarded
from gpu_rsfd.errors import InputError, RunError, Terminated
from gpu_rsfd.version import __version__

# What the machine refuses, whatever the program does: full, read-only or broken disks, permissions, limits.
REFUSALS = {
    *(errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM),
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EDQUOT),
}

app = typer.Typer(
    name="gpu-rsfd", cls=Group, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich"
)


def command(name: str, *examples: str, **more: Any) -> Callable[[Any], Any]:
    """A command with examples in its help; the panel is that in `COMMANDS`."""
    return app.command(name, epilog=epilog(examples), rich_help_panel=COMMANDS[name][0], **more)


def epilog(examples: Sequence[str]) -> str | None:
    """What stands below the help of a command."""
    return f"Examples:  {SEPARATOR.join(examples)}" if examples else None


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gpu-rsfd {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True, metavar=""),
    ] = False,
) -> None:
    """Simulate multidimensional frequency estimation under local differential privacy: RS+FD, Spl and Smp."""


def fail(line: str, code: int) -> NoReturn:
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"gpu-rsfd: {escaped(line)}", file=sys.stderr)
    raise SystemExit(code)


def _warning(message: Warning | str, category: type[Warning], *where: Any, usual: Any = warnings.formatwarning) -> str:
    """What we have to say needs no place in a file."""
    return f"gpu-rsfd: {escaped(str(message))}\n" if category is UserWarning else usual(message, category, *where)


def bug(error: BaseException) -> NoReturn:
    """Nothing that a user did: all that is needed to find it."""
    import numpy as np

    traceback.print_exception(error)
    where = f"{__version__}, Python {platform.python_version()}, NumPy {np.__version__}, {platform.platform()}"
    fail(f"this is a bug in gpu-rsfd ({where}); please report it with the lines above", 1)


def main() -> None:
    """Bad input: one clear line and exit code 2.  Ctrl-C: 130.  What can't be written or computed: 1.

    Anything else is a bug, and shows its traceback.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names that the terminal can't show
    warnings.formatwarning = _warning  # type: ignore[assignment]
    try:
        with guarded():
            code = app(standalone_mode=False)
            sys.stdout.flush()
    except (InputError, RunError, UserWarning) as error:  # a warning: with -W error
        fail(str(error), 2 if isinstance(error, InputError) else 1)
    except BrokenPipeError:  # `gpu-rsfd show … | head`
        _give_up_output()
        raise SystemExit(1) from None
    except MemoryError as error:
        fail(f"out of memory{f': {error}' if str(error) else ''}", 1)
    except Terminated as error:
        raise SystemExit(128 + error.number) from None
    except OSError as error:
        if error.errno not in REFUSALS:
            bug(error)
        _give_up_output()
        fail(f"{error.filename or 'output'}: {error.strerror}", 1)
    except Exception as error:
        if type(error).__name__ in ("Abort", "Exit") and not isinstance(error.__cause__, EOFError):
            raise SystemExit(getattr(error, "exit_code", 130)) from None
        if not hasattr(error, "format_message"):
            bug(error)
        if hasattr(error, "possibilities"):
            fail(_no_such_option(error), 2)
        if not error.format_message().strip():  # no command was given, and the help has been printed
            raise SystemExit(2) from None
        fail(f"{error.format_message()} ({_see()})", 2)
    raise SystemExit(code if isinstance(code, int) else 0)


def _no_such_option(error: Any) -> str:
    """What is said of an option that a command lacks: the nearest that it has, and the commands that have it."""
    name, near = error.option_name, difflib.get_close_matches(error.option_name, error.possibilities or [], 1)
    having = [f"gpu-rsfd {c}" for c in COMMANDS if any(name in (*p.opts, *p.secondary_opts) for p in load(c).params)]
    hints = [f"did you mean {one}?" for one in near if not having]
    hints += [f"{name} is an option of {', '.join(having)}"] if having else []
    return f"no such option: {name}; {' '.join(hints) or _see()}"


def _see() -> str:
    """Where to read what is valid: in the help of the command, if one was given."""
    return " ".join(["see gpu-rsfd", *(word for word in sys.argv[1:2] if word in COMMANDS), "--help"])


def _give_up_output() -> None:
    """What is still to be written goes nowhere: Python would try again at its end, and complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
