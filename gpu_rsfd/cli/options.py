"""Command-line options that are not fields of `Spec`, and the decorator that turns declarations into a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gpu_rsfd.backends import BACKENDS
from gpu_rsfd.datasets import available
from gpu_rsfd.datasets.options import BY_NAME
from gpu_rsfd.datasets.options import OPTIONS as TABLE
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure import Measurement
from gpu_rsfd.measure.base import options_of, used_by
from gpu_rsfd.options import MACHINE, OUTPUT, SIMULATION, F, Option
from gpu_rsfd.results.estimate import ALIASES, POSTPROCESS
from gpu_rsfd.results.metrics import metric_names
from gpu_rsfd.spec import FIELDS, SAVE_EVERY

SYNTHETIC = (
    Option("users", "LIST", "Number of users of a synthetic data set; a list is a sweep over n.", "1e4,1e5", many=True,
           defaults={"plan": "10,000, or the data set's own"}),
    Option("domain", "LIST", "Domain sizes of a synthetic data set; 10x5 means five times 10.", "10,10,20", many=True),
    Option("attributes", "LIST", "Numbers of attributes, with --values: a data set for each pair.", "5,10,20",
           many=True),
    Option("values", "LIST", "Numbers of values of each of these attributes.", "10,100", many=True),
    Option("distribution", "NAME", "Distribution of a synthetic data set: uniform or zipf:S.", "zipf:1.2",
           default_text="uniform", known=("uniform", "zipf:")),
)  # fmt: skip
SELECTION = (
    Option("dataset", "LIST", "Data sets by name or file.", "syn1,my.csv", many=True, default_text="syn1",
           defaults={"plan": "none"}, known=available, unused=("paper",), in_python=False),
    Option("data_dir", "FOLDER", "Folder with the paper's original files (or GPU_RSFD_DATA).", "~/uci",
           in_python=False),
    *(replace(option, unused=("paper",), in_python=False) for option in SYNTHETIC),
    Option("data_seed", "N", "Seed of synthetic data.", "7", default=0, default_text="0", in_python=False),
    *(replace(option, unused=("paper",)) for option in TABLE),
)  # fmt: skip
PROTOCOL_FROM = Option(
    "protocol_from", "LIST", "Python files that define protocols, and are executed; without --protocol, all are run.",
    "mine.py", many=True, panel=SIMULATION, in_python=False,
)  # fmt: skip
File = Annotated[  # as --dataset
    Path | None, typer.Argument(help="Table, or the name of a data set.", show_default=False, metavar="FILE")
]
SPEC_FILE = (
    Option("spec", "FILE", "TOML file with the options above; the command line takes precedence.", "sweep.toml",
           panel=SIMULATION, unused=("paper",), kind=Path, in_python=False),
    Option("allow_code", "", "Execute the Python files that the spec file names, also with --dry-run.",
           panel=SIMULATION, unused=("paper",), kind=bool, default=False, in_python=False),
)  # fmt: skip
RUN = (
    Option("backend", "NAME", "auto, cupy, native or numpy.", "numpy", panel=MACHINE, kind=str, default="auto",
           default_text="auto", known=BACKENDS),
    Option("workers", "N", "Threads (native) or processes (NumPy).", "4", panel=MACHINE,
           default_text="one per core"),
    Option("devices", "LIST", "CUDA devices of the CuPy backend.", "0,1", panel=MACHINE, many=True, option="device",
           default_text="all that work"),
    Option("cluster", "PLACE", "Dask cluster: address or file of its scheduler, or local:4.", "tcp://head:8786",
           panel=MACHINE),
    Option("patience", "SECONDS", "Give up if the cluster returns nothing for this long.", "600", panel=MACHINE,
           kind=float, default_text="never", in_python=False),
    Option("part", "PART", "Compute only this part, for `gpu-rsfd merge`.", "3/16", panel=MACHINE),
    Option("output", "FILE", "Results file; the same command resumes it.", "syn3.h5", panel=OUTPUT, kind=Path,
           default=Path("results.h5"), default_text="results.h5", defaults={"paper": Path("paper.h5")}),
    Option("overwrite", "", "Replace the results file.", panel=OUTPUT, kind=bool, default=False),
    Option("plot", "", "Draw the figure beside the results file.", panel=OUTPUT, kind=bool, default=True,
           default_text="plot", in_python=False),
    Option("save_every", "SECONDS", "Seconds of work between saves.", "30", panel=OUTPUT, kind=float,
           default=SAVE_EVERY, default_text=f"{SAVE_EVERY:g}"),
    Option("dry_run", "", "Print the size of the work, the expected time and disk space; run nothing.", panel=OUTPUT,
           kind=bool, default=False, in_python=False),
    Option("quiet", "", "Print only errors.", panel=OUTPUT, kind=bool, default=False, in_python=False),
)  # fmt: skip
FILTERS = (  # what is shown of a results file
    Option("dataset", "LIST", "Only these data sets.", "syn1", many=True, default_text="all", panel=None),
    Option("protocol", "LIST", "Only these protocols.", "rsfd-adp,smp-adp", many=True, default_text="all", panel=None,
           known=FIELDS[0].known),
    Option("epsilon", "LIST", "Only these epsilons.", "ln2,1", many=True, default_text="all", panel=None),
)  # fmt: skip
SHOWN_COUNT = replace(BY_NAME["min_count"], kind=int, panel=None)
SHOWN_POSTPROCESS = Option(
    "postprocess", "LIST", f"Post-processings of the estimates: {', '.join(POSTPROCESS)}.", "norm-sub,mle", many=True,
    default_text="clip-normalize", known=lambda: [*POSTPROCESS, *ALIASES], panel=None,
)  # fmt: skip
SHOWN_METRIC = Option(
    "metric", "LIST", f"Errors of the estimates: {', '.join(metric_names())}.", "mse,mae", many=True,
    default_text="mse", known=metric_names, panel=None,
)  # fmt: skip


def inputs_of(command: str, kind: type[Measurement] = Measurement) -> tuple[Option, ...]:
    """The options that say what is run, which a spec file may have, too."""
    return used_by((*SELECTION, *FIELDS, PROTOCOL_FROM, *options_of(kind)), command, kind)


def running_of(command: str, kind: type[Measurement]) -> tuple[Option, ...]:
    """All options of a command that runs a measurement."""
    return (*inputs_of(command, kind), *used_by((*SPEC_FILE, *RUN), command, kind))


def option(
    name: str, help: str, panel: str | None = None, metavar: str = "", known: Callable[[], Sequence[str]] | None = None
) -> Any:
    """`metavar` stands for the value in `--help`; the default is part of the text, since not all are values.

    `known` are the values that a shell completes.
    """
    complete = None if known is None else lambda incomplete: completed(known(), incomplete)
    return typer.Option(
        name, help=help, rich_help_panel=panel, show_default=False, metavar=metavar, autocompletion=complete
    )


def switch(name: str, help: str, default: bool = False) -> Option:
    """An option without a value."""
    return Option(name, "", help, panel=None, kind=bool, default=default, default_text=name if default else "")


def completed(known: Sequence[str], incomplete: str) -> list[str]:
    """What may follow, in a list as well: `rsfd-grr,sm` is completed to `rsfd-grr,smp-adp` and others."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in known if name.startswith(last) and name not in taken]


def _parameter(declared: Option, command: str) -> inspect.Parameter:
    text = (list[str] if declared.many else str) if declared.kind is None else declared.kind
    default = None if declared.kind is None else declared.value(command)
    known = (lambda: declared.values) if declared.known else None
    shown = option(declared.flag, declared.help_line(command), declared.panel, declared.metavar, known)
    annotation: Any = Annotated[text if default is not None else text | None, shown]
    return inspect.Parameter(_word(declared), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _word(declared: Option) -> str:
    """What the parameter of a command is called."""
    return declared.key.replace("-", "_")


def with_options(command: str, *declared: Option) -> Callable[[F], F]:
    """A command whose options are these: parameters of these names, and `**options` for the others."""

    def made(function: F) -> F:
        signature = inspect.signature(function, eval_str=True)
        found = {each.name: each for each in (_parameter(option, command) for option in declared)}
        others = (p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD and p.name not in found)
        parameters = [*(p.replace(kind=p.KEYWORD_ONLY) for p in others), *found.values()]
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        function.__annotations__ = {p.name: p.annotation for p in parameters}
        return function

    return made


def given(options: Mapping[str, Any], declared: Sequence[Option]) -> dict[str, Any]:
    """What was given of the options that are texts or switches, by their keys; an empty text is an error."""
    found = {o.key: options[_word(o)] for o in declared if o.kind is None}
    found |= {o.key: options[_word(o)] for o in declared if o.kind is bool and options[_word(o)] != o.value()}
    found = {key: value for key, value in found.items() if value not in (None, [])}
    for key, value in found.items():
        if value == "" or (isinstance(value, str) and key != "delimiter" and not value.strip()):
            raise InputError(f"{key}={value!r} is empty; leave it out, or give a value")
    return found
