"""Files that people write by hand: TOML, which is read, and Python, which is run."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from gpu_rsfd.errors import InputError, RunError


def toml_loads(text: str) -> dict[str, Any]:
    """A TOML document; a ValueError if it is none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def execute(path: Path, space: dict[str, Any]) -> None:
    """Runs somebody's Python file in a namespace; errors are one line, with the place in the file."""
    try:
        text = path.read_bytes()
    except OSError as error:
        why = "does not exist" if isinstance(error, FileNotFoundError) else f"can't be read: {error.strerror}"
        raise InputError(f"{path} {why}") from None
    sys.path.insert(0, str(path.resolve().parent))  # its own helpers
    try:
        exec(compile(text, str(path), "exec"), space)
    except SyntaxError as error:
        raise InputError(f"{error.filename}, line {error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise InputError(told(error, str(path))) from None
    finally:
        sys.path.remove(str(path.resolve().parent))


def told(error: BaseException, path: str | None = None) -> str:
    """An error in somebody's file as one line: where (the last line of `path`, or the last of all), and what."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if path is None or frame.filename == path]
    place = f"{inside[-1].filename}, line {inside[-1].lineno}: " if inside else ""
    words = " ".join(str(error).split())
    return f"{place}{words}" if isinstance(error, InputError) else f"{place}{type(error).__name__}: {words}"


def imported(path: Path) -> ModuleType:
    """A Python file as a module that other processes can import by its name; if another has that name, they can't."""
    place, name = str(path.resolve()), path.stem
    sys.path.append(os.path.dirname(place))  # for as long as this process lives, and for those that it starts
    known = None
    with contextlib.suppress(ImportError, ValueError):
        known = importlib.util.find_spec(name)
    taken = known is None or known.origin != place
    module = ModuleType(f"{name} ({place})" if taken else name)
    module.__file__ = place
    sys.modules[module.__name__] = module  # where dataclasses look for it
    execute(path, module.__dict__)
    if taken:
        del sys.modules[module.__name__]  # pickle refuses what is in no module: it is run in this process, then
    return module


@contextlib.contextmanager
def telling(file: str) -> Iterator[None]:
    """What goes wrong in somebody's file is told in one line, with its line number."""
    try:
        yield
    except (InputError, RunError, MemoryError):
        raise
    except Exception as error:
        if file not in {frame.filename for frame in traceback.extract_tb(error.__traceback__)}:
            raise
        raise InputError(told(error, file)) from error
