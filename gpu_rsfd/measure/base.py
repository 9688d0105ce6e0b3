"""A measurement: what is recorded for each repetition.  One file has all about it; everything else follows from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from gpu_rsfd.checks import one_of
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import OUTPUT, SIMULATION, Option, choice, entries, option_field, whole
from gpu_rsfd.planning import Plan, plan_for
from gpu_rsfd.results.result import CELL, Column, Header, Layout, Result
from gpu_rsfd.spec import FIELDS, Spec

if TYPE_CHECKING:
    from gpu_rsfd.datasets.base import Dataset
    from gpu_rsfd.measure.view import View

HEADERS = ("attribute", "value")  # dimensions whose sizes are the data set's


@dataclass(frozen=True)
class Measurement:
    """What is recorded for each repetition; subclass it to measure something of your own (docs/own-measurement.md).

    A subclass is a frozen dataclass.  Its fields are its options, in Python and on the command line.  It declares what
    it records and has one method, `measure`.

    Attributes
    ----------
    arrays : mapping of str to tuple of str
        The dimensions of each array after protocol, epsilon and repetition: `value`, `attribute`, or ones of its own.
    columns : mapping of str to str or Column
        What tables and figures show: the arrays, by name, and what they are called.
    about : str, optional
        Its options in words, as tables state them: ``"the attacker knows the {knowledge} marginals"``.  Default: each
        option with its value.
    version : int, optional
        Part of its identity: another number, and files that were made before are not extended.
    name, command : str
        What a results file calls it (default: the name of the class), and the command that runs it.
    defaults : mapping
        Defaults of options of a run that are its own.
    unused : tuple of str
        Options of a run that it has no use for.
    counts_first : bool
        Whether `measure` begins with `view.counts()`: these are then counted while the block before is worked out.
    backends : tuple of str
        The backends that can do it, if not all can.
    examples : tuple of str
        Command lines that `--help` shows.
    """

    arrays: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    columns: ClassVar[Mapping[str, str | Column]] = {}
    about: ClassVar[str | None] = None
    version: ClassVar[int | None] = None
    name: ClassVar[str] = ""
    command: ClassVar[str] = "run"
    defaults: ClassVar[Mapping[str, Any]] = {}
    unused: ClassVar[tuple[str, ...]] = ()
    counts_first: ClassVar[bool] = False
    backends: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def __post_init__(self) -> None:
        for option in options_of(type(self)):
            value = getattr(self, option.name)
            for each in entries(value) if option.known else ():
                one_of(option.name, each, option.values)
            object.__setattr__(self, option.name, option.check(value))

    def prepared(self, spec: Spec, datasets: Sequence[Dataset]) -> tuple[Any, Spec, Sequence[Dataset], list[Plan]]:
        """Itself, the spec, the data sets and their plans, as they are run; an error if they can't be."""
        return self, spec, datasets, [plan_for(spec, data) for data in datasets]

    def coords(self) -> Mapping[str, Sequence[Any]]:
        """The coordinates of each dimension of its own."""
        return {}

    def measure(self, view: View) -> Mapping[str, Any]:
        """Make the arrays, [protocol, epsilon, repetition, …], for some repetitions and cells.

        Parameters
        ----------
        view : View
            What is to be measured: counts, reports, the truth.

        Returns
        -------
        mapping of str to ndarray
            An array of each name in `arrays`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method `measure`")

    def check(self, result: Result) -> tuple[str, str] | None:
        """An array that can't be right, and why; None if all can.  Called when a file is read."""
        return None

    def recorded(self) -> Mapping[str, tuple[str, ...]]:
        """The arrays that these options ask for."""
        return self.arrays

    def described(self) -> dict[str, Any]:
        """Its identity, as plain data: name, version, fields."""
        version = {} if self.version is None else {"measurement_version": self.version}
        return {"measurement": self.name, **version, **{f.name: getattr(self, f.name) for f in fields(self)}}

    def layout(self, header: Header) -> Layout:
        """What it records of a data set, as plain data."""
        shown = {name: Column(c) if isinstance(c, str) else c for name, c in self.columns.items()}
        columns = {x: c._replace(baseline=c.baseline(header)) if callable(c.baseline) else c for x, c in shown.items()}
        coords = {dim: [getattr(x, "item", lambda x=x: x)() for x in values] for dim, values in self.coords().items()}
        about = ", ".join(f"{f.name}={{{f.name}}}" for f in fields(self)) if self.about is None else self.about
        return Layout(self.name, self.command, dict(self.recorded()), coords, columns, about)


def keep_field(default: str, other: str) -> Any:
    """The option of what a results file stores."""
    what = "What the results file stores: counts, or only the errors (mse), in a much smaller file."
    return option_field("NAME", what, other, default=default, panel=OUTPUT, **choice("keep", ("counts", "mse")))


def options_of(kind: type[Measurement]) -> tuple[Option, ...]:
    """The options that a measurement's fields are: declared like those of a spec, or derived from type and default."""
    return tuple(
        replace(f.metadata["option"], name=f.name) if "option" in f.metadata else _derived(f) for f in fields(kind)
    )


def used_by(declared: Sequence[Option], command: str, kind: type[Measurement]) -> tuple[Option, ...]:
    """Those that a command and its measurement have a use for, with the measurement's defaults."""
    used = (o for o in declared if command not in o.unused and o.name not in kind.unused)
    own = kind.defaults
    return tuple(replace(o, defaults={**o.defaults, command: own[o.name]}) if o.name in own else o for o in used)


def _derived(field: Field[Any]) -> Option:
    default = None if field.default is MISSING else field.default
    kinds = {"int": int, "float": float, "str": str, "bool": bool}
    kind = kinds.get(str(getattr(field.type, "__name__", field.type)), type(default))
    example = "" if default is None else str(default)

    def read(value: Any) -> Any:
        if kind is int:
            return whole(field.name, value)
        try:
            return kind(value)
        except (TypeError, ValueError):
            raise InputError(f"{field.name}={value} must be a number") from None

    switch = kind is bool
    return Option(
        field.name,
        "" if switch else {int: "N", float: "X"}.get(kind, "TEXT"),
        str(field.metadata.get("help", f"Option {field.name!r} of the measurement.")),
        "" if switch else example,
        read=read,
        default=default,
        default_text=example,
        panel=SIMULATION,
        kind=bool if switch else None,
    )


def check_kind(kind: type[Measurement], taken: Collection[str]) -> None:
    """Refuses a class whose fields can't be options; `taken`: names of options that every run has."""
    if kind.measure is Measurement.measure:
        raise InputError(f"{kind.__name__} has no method `measure`")
    own = any("ClassVar" not in str(annotation) for annotation in kind.__annotations__.values())
    if own and "__dataclass_fields__" not in vars(kind):
        raise InputError(f"{kind.__name__} has fields, but is no dataclass; put @dataclass(frozen=True) before it")
    for f in fields(kind):
        if f.name in taken or f.name in {option.name for option in FIELDS}:
            raise InputError(
                f"the field {f.name!r} of {kind.__name__} is named like an option of sweep; give it another name"
            )


def check_measurement(measurement: Measurement, taken: Collection[str]) -> None:
    """Refuses a measurement that can't be run or stored; `taken`: names of options that every run has."""
    kind = type(measurement).__name__
    if not isinstance(measurement, Measurement):
        raise InputError(f"measurement={measurement!r} must be an instance of a subclass of gpu_rsfd.Measurement")
    check_kind(type(measurement), taken)
    arrays, coords = measurement.recorded(), measurement.coords()
    if not arrays:
        raise InputError(f"{kind}.arrays is empty; at least one array is needed")
    for name, dims in arrays.items():
        if not name.isidentifier() or (name != "mse" and name in (*dir(Result), *Result.__dataclass_fields__)):
            raise InputError(f"{kind}.arrays names {name!r}, which can't be the name of an array; give it another name")
        for dim in dims:
            if dim not in (*HEADERS, *coords) or dim in CELL:
                raise InputError(f"{kind}.coords() has no {dim!r}, a dimension of {name!r}; known: value, attribute")
    for name, column in measurement.columns.items():
        if name not in arrays and name != "error" and (isinstance(column, str) or column.of is None):
            raise InputError(f"{kind}.columns names {name!r}, which is not among its arrays: {', '.join(arrays)}")
        c = column if isinstance(column, Column) else Column(column)
        if isinstance(c.baseline, str) and c.of is None and arrays.get(c.baseline, ())[-1:] != (c.over,):
            raise InputError(f"{kind}.columns: the array baseline={c.baseline!r} of {name!r} must end with {c.over!r}")
