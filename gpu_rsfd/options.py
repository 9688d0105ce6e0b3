"""An option, declared once: in Python, on the command line, in spec files, in results files and in the docs."""

from __future__ import annotations

import csv
import difflib
import fnmatch
import inspect
import io
import math
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, TypeVar

from gpu_rsfd.checks import MAX_ATTRIBUTES, MAX_USERS, check_epsilon, integer, one_of
from gpu_rsfd.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])
DATA, SIMULATION, MACHINE, OUTPUT = "Data", "Simulation", "Machine", "Output"  # panels of `--help`


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Option:
    """One option: `missing_values` in Python, `--missing-values` on the command line, `missing-values` in spec files.

    Attributes
    ----------
    name : str
        The keyword in Python.
    metavar : str
        What stands for the value in `--help`; empty for a switch.
    help : str
        One sentence without the example and the default.
    example : str
        A value as it is written on the command line.
    check : callable
        From the value of a keyword to a checked one; raises `InputError`.
    read : callable
        From the value of the command line (a text, or a list of them) or of a spec file to that of the keyword.
    many : bool
        Whether the option can be repeated on the command line.
    default : object
        The value of the keyword if the option is not given, or a function that returns it.
    default_text : str
        The same in words.
    known : tuple of str, or callable
        The valid values, where they are a fixed list, or a function that returns them.
    type_text : str
        The type of the keyword's value, for the documentation.
    option : str
        The name on the command line, where it is not the keyword: `epsilon` for `epsilons`.
    panel : str
        Where `--help` lists it.
    defaults : mapping of str to object
        Defaults of single commands: `{"attack": 10}`.
    unused : tuple of str
        The commands that have no use for it, and refuse it.
    matters : callable, optional
        Whether it changes anything in a `Spec`.  Default: always.
    needs : callable, optional
        What it needs to matter, in words.
    shared : bool
        Whether all of a results file must have the same value.  Not where the cells' integers tell the difference.
    brief : bool
        Whether the JSON in a results file leaves it out where it has its default value.
    plain : callable
        From a checked value to plain data, as JSON has it.
    kind : type, optional
        What the command line makes of the text.  Default: a text, or a list of them.
    in_python : bool
        Whether there is such a keyword in Python.
    """

    name: str
    metavar: str
    help: str
    example: str = ""
    check: Callable[[Any], Any] = _same
    read: Callable[[Any], Any] = str
    many: bool = False
    default: Any = None
    default_text: str = ""
    known: Sequence[str] | Callable[[], Sequence[str]] = ()
    type_text: str = "str, optional"
    option: str = ""
    panel: str | None = DATA
    defaults: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    matters: Callable[[Any], bool] | None = None
    needs: Callable[[], str] | None = None
    shared: bool = True
    brief: bool = False
    plain: Callable[[Any], Any] = _same
    kind: Any = None
    in_python: bool = True

    @property
    def key(self) -> str:
        """The name in a spec file and, after two hyphens, on the command line."""
        return (self.option or self.name).replace("_", "-")

    @property
    def flag(self) -> str:
        return f"--{self.key}/--no-{self.key}" if self.kind is bool and self.default else f"--{self.key}"

    @property
    def values(self) -> Sequence[str]:
        """The values that a shell completes."""
        return self.known() if callable(self.known) else self.known

    def value(self, command: str = "") -> Any:
        """The default of a command."""
        default = self.default() if callable(self.default) else self.default
        return self.defaults.get(command, default)

    def help_line(self, command: str = "") -> str:
        """The help text with its example and default, as `--help` shows it."""
        example = f"  --{self.key} {self.example}" if self.example else ""
        words = str(self.defaults.get(command, self.default_text))
        return f"{self.help}{example}" + (f"  (default: {words})" if words else "")

    def documented(self, command: str = "") -> str:
        """The option among the Parameters of a NumPy docstring."""
        words = f"  Default: {self.defaults.get(command, self.default_text)}." if self.default_text else ""
        return f"    {self.name} : {self.type_text}\n        {self.help}{words}"

    def given(self, value: Any) -> bool:
        """Whether a value changes anything."""
        return not (value is None or value == self.default or (isinstance(value, (Sequence, Mapping)) and not value))

    def words(self, value: Any) -> list[str]:
        """The option on a command line that gives this stored value."""
        if isinstance(value, Mapping):
            value = [f"{column}={entry}" for column, entry in value.items()]
        if not isinstance(value, (list, tuple)):
            return [f"--{self.key}", *([] if value is True else [str(value)])]
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([str(entry) for entry in value])
        return [f"--{self.key}", line.getvalue()]


def option_field(metavar: str, help: str, example: str, **more: Any) -> Any:
    """A field of a dataclass that is an option, with all that is said of it; `options_in` gives it its name."""
    words = "" if callable(more.get("default")) else str(more.get("default"))
    option = Option("", metavar, help, example, **{"panel": SIMULATION, "default_text": words, **more})
    return field(default_factory=lambda: option.check(option.value()), metadata={"option": option})


def options_in(kind: Any) -> tuple[Option, ...]:
    """The options that the fields of a dataclass are."""
    return tuple(replace(f.metadata["option"], name=f.name) for f in fields(kind))


def unknown_name(name: str, known: Iterable[str], what: str = "option", where: str = "") -> str:
    """What is said of a name that nobody knows: the nearest one that somebody does, and all of them."""
    names = list(known)
    hint = "".join(f"did you mean {near}? " for near in difflib.get_close_matches(name, names, 1))
    return f"unknown {what} {name!r}{where}; {hint}available: {', '.join(names)}"


def with_keywords(options: Iterable[Option], command: str = "", like: Any = None) -> Callable[[F], F]:
    """The signature and the docstring of a function with `**options` or `**fields` name every option.

    `like`: a function that it passes the rest of its keywords on to, but for options that are not used.
    """
    used = [option for option in options if command not in option.unused]

    def named(function: F) -> F:
        signature = inspect.signature(function)
        fixed = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        others = [] if like is None else inspect.signature(like).parameters.values()
        passed = [p for p in others if p.name in like.__kwdefaults__]  # not its options
        own = [inspect.Parameter(o.name, inspect.Parameter.KEYWORD_ONLY, default=o.value(command)) for o in used]
        named = {p.name: p for p in (*passed, *own, *fixed)}
        parameters = [*fixed, *(p for p in named.values() if p not in fixed)]
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        if function.__doc__ is not None:  # not with python -OO
            told = "\n".join(option.documented(command) for option in used)
            function.__doc__ = re.sub(r" {4}\*\*\w+\n {8}.*", lambda _: told, function.__doc__)
        return function

    return named


def entries(values: Any) -> list[Any]:
    """A list of what is given as one, or as a single text, number or table; NumPy's scalars become Python's."""
    single = isinstance(values, (str, Mapping)) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0
    found = [values] if single else list(values)
    return [value.item() if getattr(value, "ndim", None) == 0 else value for value in found]


def distinct(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """Values of which there is at least one, and none twice."""
    result = tuple(values)
    if not result:
        raise InputError(f"no {name} given; at least one is needed")
    for i, value in enumerate(result):
        if value in result[:i]:
            raise InputError(f"{name} {value!r} is given twice")
    return result


def exclusive(**given: Any) -> None:
    """Refuses two options that are both given."""
    if len(names := [name for name, value in given.items() if value]) > 1:
        raise InputError(f"--{names[0]} and --{names[1]} exclude each other")


def split_list(texts: Iterable[object], name: str = "list", exact: Container[str] = ()) -> list[str]:
    """Repeated options and comma lists, flattened: ["a,b", "c"] -> [a, b, c].  An empty text is an error.

    A text in `exact` is one item as it is; quotes keep a comma within an item: 'a,"b, c"' -> [a, b, c].
    """
    found: list[str] = []
    for given in texts:
        if isinstance(given, Mapping):
            raise InputError(f"{name}={given} is a table; valid: one value, or a list")
        text = str(given)
        if text in exact:
            found.append(text)
            continue
        cut = text.split(",") if '"' not in text else next(csv.reader([text], skipinitialspace=True), [])
        parts = [part.strip() for part in cut if part.strip()]
        if not parts:
            raise InputError(f"{name}={text!r} is an empty list; at least one entry is needed")
        found += parts
    return found


def expanded(entries: Iterable[Any], known: Iterable[str], name: str) -> list[Any]:
    """A list in which `all` and families such as `smp-*` stand for the names that they match; each name once, then.

    Whatever is no pattern is left as it is.
    """
    given, names = list(entries), list(known)
    found: list[Any] = []
    for entry in given:
        pattern = "*" if entry == "all" else entry if isinstance(entry, str) and set(entry) & set("*?") else None
        matches = [entry] if pattern is None else fnmatch.filter(names, pattern)
        if not matches:
            raise InputError(f"{name}={entry} matches none; available: {', '.join(names)}")
        found += matches
    return found if found == given else list(dict.fromkeys(found))


def read_list(name: str) -> Callable[[Any], list[str]]:
    """Lists, cut at their commas."""
    return lambda value: split_list(entries(value), name)


def whole(name: str, text: object) -> int:
    """A count such as 1000, 1e6 or 1_000_000."""
    plain = str(text).replace("_", "")
    try:
        number = float(plain)
        value = int(plain) if plain.lstrip("+-").isdigit() else int(number)
        if value != number and not plain.lstrip("+-").isdigit():
            raise ValueError
    except (ValueError, OverflowError):
        raise InputError(f"{name}={text} must be a whole number, such as 1000, 1e6 or 1_000_000") from None
    return value


def whole_number(name: str, low: int, high: int) -> dict[str, Any]:
    """What an option says that has a whole number, also as 1e6."""
    read, check = partial(whole, name.replace("_", "-")), partial(integer, name, low=low, high=high)
    return {"read": read, "check": check, "type_text": "int, optional"}


def read_epsilons(value: Any) -> list[float]:
    """Numbers, logarithms and ranges: 0.5, ln2, ln(2), 0.5:5:0.5."""
    return [epsilon for text in split_list(entries(value), "epsilon") for epsilon in _epsilons(text)]


def _epsilons(text: str) -> list[float]:
    parts = [_epsilon(part) for part in text.split(":")]
    if len(parts) == 3 and 0 <= (number := (parts[1] - parts[0]) / parts[2]) < 1000:
        return [round(parts[0] + i * parts[2], 12) for i in range(int(number + 1e-9) + 1)]
    if len(parts) > 1:
        raise InputError(f"epsilon={text} must be first:last:step, of at most 1000 numbers, such as 0.5:5:0.5")
    return parts


def _epsilon(text: str) -> float:
    logarithm = re.fullmatch(r"ln\s*\(?\s*([0-9.eE+]+)\s*\)?", text)
    try:
        value = math.log(float(logarithm[1])) if logarithm else float(text)
    except ValueError:
        raise InputError(f"epsilon={text} must be a number > 0 or a logarithm such as ln2") from None
    return check_epsilon(value)


def read_sizes(name: str, value: Any, low: int, high: int) -> list[int]:
    """Numbers of attributes, of values or of users."""
    return [integer(name, whole(name, text), low, high) for text in split_list(entries(value), name)]


read_users = partial(read_sizes, "users", low=1, high=MAX_USERS)


def read_domain(value: Any) -> list[int]:
    """Domain sizes: 10,10,20, or 10x5 for five times 10, or both mixed."""
    sizes: list[int] = []
    for text in split_list(entries(value), "domain"):
        match = re.fullmatch(r"([0-9]{1,9})(?:x([0-9]{1,9}))?", text)
        size, times = (int(part or 1) for part in match.groups()) if match else (0, 0)
        if match is None or times < 1:
            valid = "domain sizes such as 10,10,20 or 10x5 (five attributes of 10 values)"
            raise InputError(f"domain={text} must be {valid}")
        if times > MAX_ATTRIBUTES:
            raise InputError(f"domain={text} has {times:,} attributes; valid: 1 to {MAX_ATTRIBUTES:,}")
        sizes += [size] * times
    return sizes


def counted(number: int, noun: str) -> str:
    """`1 repetition`, `2 repetitions`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def show_epsilon(epsilon: float) -> str:
    """`ln 2` for logarithms of whole numbers, else the number."""
    power = round(math.exp(epsilon)) if epsilon < 10 else 0
    if power >= 2 and math.isclose(epsilon, math.log(power), rel_tol=1e-12):
        return f"ln {power}"
    return f"{epsilon:g}"


def choice(name: str, known: Sequence[str]) -> dict[str, Any]:
    """What an option says that has one of some names."""
    text = ", ".join(map(repr, known))
    return {"check": partial(one_of, name, known=known), "known": known, "type_text": f"{{{text}}}, optional"}


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
