"""The commands that run something: one for each measurement, one for those of one's own, `paper`, and `merge`."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from gpu_rsfd.cli import progress
from gpu_rsfd.cli.commands import Command
from gpu_rsfd.cli.inputs import datasets_of, measurement_of, read_options, spec_of
from gpu_rsfd.cli.options import File, running_of, with_options
from gpu_rsfd.cli.program import command, epilog
from gpu_rsfd.cli.terminal import escaped
from gpu_rsfd.datasets import DATA_VARIABLE, available
from gpu_rsfd.datasets.paper import ORIGINALS
from gpu_rsfd.errors import InputError, RunError, Terminated
from gpu_rsfd.measure import MEASUREMENTS, Frequencies, Measurement
from gpu_rsfd.measure.base import check_kind, check_measurement
from gpu_rsfd.options import SIMULATION, Option, counted, entries, exclusive, split_list, unknown_name, whole
from gpu_rsfd.results.result import Results
from gpu_rsfd.running import experiments
from gpu_rsfd.running.collect import Run, check_part, collect
from gpu_rsfd.store.contents import check_output, journal_of
from gpu_rsfd.textfiles import imported, telling

QUICK = Option("quick", "", "10 repetitions instead of 100.", panel=SIMULATION, kind=bool, default=False)
OTHERS = typer.Argument(
    help="The same file name in other folders, whose parts are read as well.", show_default=False, metavar="OTHERS..."
)
Class = Annotated[str, typer.Argument(help="Python file and class in it.", show_default=False, metavar="FILE.py:CLASS")]

# -------------------------------------------------------------------------------------------------------- the commands


def _of_measurement(kind: type[Measurement]) -> Callable[..., None]:
    @with_options(kind.command, *running_of(kind.command, kind))
    def measure(file: File = None, **options: Any) -> None:
        carry_out(kind.command, kind, {**options, "file": file})

    return measure


for _kind in MEASUREMENTS.values():
    command(_kind.command, *_kind.examples, help=_kind.__doc__)(_of_measurement(_kind))


def _of_class(kind: type[Measurement]) -> Callable[..., None]:
    @with_options("run", *running_of("run", kind))
    def measure(measurement: Class, **options: Any) -> None:
        with telling(str(Path(measurement.rpartition(":")[0]))):
            carry_out("run", load_class(measurement), options)

    return measure


class Own(Command):
    """`run`, which has the options of the class that is named, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = [argument for argument in args if ".py:" in argument]
        if named and not ctx.resilient_parsing:
            kind, alone = load_class(named[0]), typer.Typer(add_completion=False)
            alone.command("run", cls=Command, help=kind.__doc__, epilog=epilog(kind.examples))(_of_class(kind))
            vars(self).update(vars(typer.main.get_command(alone)))
        return super().parse_args(ctx, args)


run = _of_class(Measurement)
run.__doc__ = """Run a measurement of your own: a class in a Python file, whose fields are options.

gpu-rsfd run mine.py:Growing --help lists them, too.
"""
_example = "gpu-rsfd run mine.py:Growing --dataset nursery --steps 2 --output mine.h5"
command("run", _example, cls=Own, no_args_is_help=True)(run)


@command("paper", "gpu-rsfd paper --quick", "gpu-rsfd paper --data-dir originals/ --output with_rows.h5")
@with_options("paper", QUICK, *running_of("paper", Frequencies))
def paper(quick: bool, **options: Any) -> None:
    """Reproduce the paper: ten data sets, six epsilons, six methods; a figure for each data set and one with all."""
    exclusive(quick=quick, repetitions=options["repetitions"])
    fixed: dict[str, Any] = {"repetitions": 10} if quick else {}
    carry_out("paper", Frequencies, options, each=True, dataset=list(available()), **fixed)


@command("merge", "gpu-rsfd merge results.h5", "gpu-rsfd merge attack.h5 other/attack.h5")
def merge(
    file: Annotated[Path, typer.Argument(help="The --output of the parts.", show_default=False, metavar="FILE")],
    others: Annotated[list[Path] | None, OTHERS] = None,
) -> None:
    """Merge the parts of a run (`--part 3/16`) into its results file, or report what is missing."""
    results = experiments.merge(file, others or [])
    repetitions = len(next(iter(results.values())).repetitions)
    print(f"{file} is complete: {counted(len(results), 'data set')}, {counted(repetitions, 'repetition')}")


# ------------------------------------------------------------------------------------------------------ one's own class


@cache
def load_class(text: str) -> type[Measurement]:
    """The class that `mine.py:Growing` names."""
    file, _, name = text.rpartition(":")
    if not file or not name:
        raise InputError(f"measurement={text} must be a Python file and a class in it, such as mine.py:Growing")
    found = vars(imported(Path(file)))
    classes = [key for key, value in found.items() if isinstance(value, type) and value.__module__ == found["__name__"]]
    if name not in found:
        raise InputError(f"{file}: {unknown_name(name, classes, 'class')}")
    kind = found[name]
    if not isinstance(kind, type) or not issubclass(kind, Measurement):
        raise InputError(f"{text} is not a subclass of gpu_rsfd.Measurement")
    check_kind(kind, [o.name for o in running_of("sweep", Frequencies)])
    return kind


# --------------------------------------------------------------------------------------------------------- what they do


def carry_out(name: str, kind: type[Measurement], options: Mapping[str, Any], each: bool = False, **fixed: Any) -> None:
    """Runs a measurement, shows its table and draws its figure.

    `fixed` are inputs that the command sets itself; with `each`, every data set has a figure of its own as well.
    """
    given = {**read_options(name, options, kind), **fixed}
    spec, measurement = spec_of(given, name, kind), measurement_of(given, kind)
    check_measurement(measurement, ())
    output, quiet, patience = options["output"], options["quiet"], options["patience"]
    quoted = shlex.quote(str(output))
    if not 0 <= options["save_every"] < math.inf:
        raise InputError(f"save-every={options['save_every']} must be a number of seconds >= 0")
    exclusive(**{"dry-run": options["dry_run"], "quiet": quiet})
    if patience is not None and (options["cluster"] is None or not 0 < patience < math.inf):
        raise InputError(f"patience={patience} must be a number of seconds > 0, and needs --cluster")
    part = None if options["part"] is None else _part(options["part"])
    workers = None if options["workers"] is None else whole("workers", options["workers"])
    devices = [whole("device", text) for text in split_list(options["device"] or [], "device")] or None
    _check_files(options, _input_files(given, options.get("spec")), available() if each else ())
    what = Run.of(measurement, spec, experiments.check_datasets(datasets_of(given, quiet), spec.sampler))
    machine = options["backend"], workers, devices, options["cluster"], patience
    with progress.reporter(quiet) as reporter:
        with experiments.engine_for(what, *machine, reporter.say) as engine:
            if options["dry_run"]:
                from gpu_rsfd.cli import dryrun

                dryrun.dry_run(what, engine, output, part or (1, 1))
                return
            short = engine.reason.partition(": ")[0]  # `gpu-rsfd doctor` says the rest
            reporter.say(f"backend {engine.name} ({engine.device}): {short}")
            started = time.monotonic()
            before = output.stat() if output.exists() else None
            kept = {"overwrite": options["overwrite"], "save_every": options["save_every"], "part": part}
            try:
                results = collect(what, output, engine, **kept, reporter=reporter)
            except (Terminated, RunError, MemoryError) as error:  # Ctrl-C; a full disk, a lost worker or device
                reporter.end()
                _end_early(error, output, options["overwrite"], before, part)
        elapsed, worked = time.monotonic() - started, results.computed > 0
        if part is not None:
            done = f"{counted(results.computed, 'repetition')} done" if worked else "nothing was left to do"
            reporter.say(f"part {part[0]} of {part[1]} is done: {done}; when all parts are: gpu-rsfd merge {quoted}")
            return
        try:
            if worked and not quiet:
                from gpu_rsfd.show import tables

                tables.show(results)
                sys.stdout.flush()  # before the figure is drawn, which takes longer than the rest
        finally:  # also if nobody reads the table: `sweep | head -1`
            figures = _draw(results, output, each, not worked) if options["plot"] else []
        drawn = ", ".join(map(str, figures))
        if not worked:
            look = f"nothing to do (gpu-rsfd show {quoted}, gpu-rsfd plot {quoted})"
            reporter.say(f"{output} is complete{f'; {drawn} drawn from it' if figures else f': {look}'}")
        elif not quiet:
            after = f", {drawn} after {time.monotonic() - started:.1f} s" if figures else ""
            print(f"{output} written after {elapsed:.1f} s{after}")


def _part(text: str) -> tuple[int, int]:
    """`3/16` as (3, 16)."""
    number, slash, parts = text.partition("/")
    if not slash or not number.strip().isdecimal() or not parts.strip().isdecimal():
        raise InputError(f"part={text} must be a part and the number of parts, such as 3/16")
    return check_part(int(number), int(parts))


def _input_files(options: Mapping[str, Any], spec_file: Path | None) -> list[Path]:
    """The files that a command reads, as far as the options name them."""
    texts = [str(text) for key in ("dataset", "protocol-from") for text in entries(options.get(key, []))]
    paths = [Path(name) for text in texts for name in (text, *text.split(",")) if name not in available()]
    others = options.get("domain-file"), options.get("prior"), spec_file
    paths += [Path(other) for other in others if isinstance(other, (str, Path))]
    folder = str(options.get("data-dir") or os.environ.get(DATA_VARIABLE) or "")
    return paths + [Path(folder, file) for files in ORIGINALS.values() for file in files if folder]


def _check_files(options: Mapping[str, Any], inputs: Sequence[Path], datasets: Sequence[str]) -> None:
    """Refuses to replace what gpu-rsfd did not make, before any work."""
    from gpu_rsfd.show import plots

    check_output(options["output"], inputs)
    if options["plot"] and not options["dry_run"] and options["part"] is None:
        for name in ("", *datasets):
            plots.check_target(plots.beside(options["output"], name), hint="move it away, or give --no-plot")


def _draw(results: Results, file: Path, each: bool, missing: bool) -> list[Path]:
    """The figure of results, and with `each` one per data set; or only those missing or older than the file."""
    from gpu_rsfd.show import plots
    from gpu_rsfd.show.rows import How

    pages = {plots.beside(file): list(results)}
    pages |= {plots.beside(file, name): [name] for name in results} if each else {}
    try:
        wanted = {path: names for path, names in pages.items() if not missing or plots.outdated(path, file)}
        for path, names in wanted.items():
            plots.save_figure(plots.figure_of(results.only(names), How.of(), "epsilon" if each else "auto"), path)
    except (InputError, RunError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RunError(f"{file} is complete, but its figure can't be written: {why}") from error
    return list(wanted)


def _end_early(
    error: BaseException, output: Path, overwrite: bool, before: os.stat_result | None, part: tuple[int, int] | None
) -> NoReturn:
    """Says what ended the work, what is kept of it, and how to continue.  `before`: the output as it was."""
    saved = output.exists() and output.stat() != before
    journal = journal_of(output, part)
    places = [str(output)] if output.exists() and (saved or not overwrite) else []
    places += [str(journal)] if journal.exists() else []
    kept = f"what is done is kept in {' and '.join(places)}" if places else "nothing was finished yet"
    arguments = [a for a in sys.argv[1:] if a != "--overwrite" or not saved]
    known = shutil.which("gpu-rsfd") or sys.argv[0].endswith("__main__.py")
    again = shlex.join(["gpu-rsfd" if known else sys.argv[0], *arguments])
    what, code = f"gpu-rsfd: {'out of memory: ' * isinstance(error, MemoryError)}{error}".removesuffix(": "), 1
    if isinstance(error, Terminated):
        what, code = "\ninterrupted" if error.number == signal.SIGINT else "terminated", 128 + error.number
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(escaped(f"{what}; {kept}; to continue:\n  {again}"), file=sys.stderr, flush=True)
    raise SystemExit(code) from None
