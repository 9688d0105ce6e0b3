"""Running a measurement from the command line: files checked first, progress, early ends that say what is kept."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from gpu_rsfd.cli import options as declared
from gpu_rsfd.cli import parse, progress, render
from gpu_rsfd.cli.inputs import datasets_of, measurement_of, read_options, spec_of
from gpu_rsfd.cli.signals import Terminated
from gpu_rsfd.cli.terminal import escaped
from gpu_rsfd.datasets import DATA_VARIABLE, available
from gpu_rsfd.datasets.paper import ORIGINALS
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.measure import Measurement
from gpu_rsfd.options import counted, entries, split_list, whole
from gpu_rsfd.results.result import Results
from gpu_rsfd.running.collect import Run, collect
from gpu_rsfd.running.experiments import check_datasets, engine_for
from gpu_rsfd.store.contents import check_output, journal_of


def _ending(error: BaseException) -> tuple[str, int]:
    """What is said of an early end, and the exit code."""
    if isinstance(error, Terminated):
        return "terminated", 128 + error.number
    if isinstance(error, KeyboardInterrupt):
        return "\ninterrupted", 130
    return f"gpu-rsfd: {'out of memory: ' * isinstance(error, MemoryError)}{error}".removesuffix(": "), 1


def input_files(options: Mapping[str, Any], spec_file: Path | None) -> list[Path]:
    """The files that a command reads, as far as the options name them."""
    texts = [str(text) for key in ("dataset", "protocol-from") for text in entries(options.get(key, []))]
    paths = [Path(name) for text in texts for name in (text, *text.split(",")) if name not in available()]
    paths += [Path(str(options["domain-file"]))] if "domain-file" in options else []
    prior = options.get("prior")
    paths += [Path(prior)] if isinstance(prior, str) else []
    paths += [spec_file] if spec_file is not None else []
    folder = str(options.get("data-dir") or os.environ.get(DATA_VARIABLE) or "")
    return paths + [Path(folder, file) for files in ORIGINALS.values() for file in files if folder]


def check_files(options: Mapping[str, Any], inputs: Sequence[Path], datasets: Sequence[str] = ()) -> None:
    """Refuses to replace what gpu-rsfd did not make, before any work."""
    from gpu_rsfd.show import plots

    check_output(options["output"], inputs)
    if options["plot"] and not options["dry_run"] and options["part"] is None:
        for name in ("", *datasets):
            plots.check_target(plots.beside(options["output"], name), hint="move it away, or give --no-plot")


def carry_out(
    command: str,
    options: Mapping[str, Any],
    fixed: Mapping[str, Any] = MappingProxyType({}),
    *,
    each: bool = False,
    kind: type[Measurement] | None = None,
) -> None:
    """Runs the measurement of a command, shows its table and draws its figure.

    `fixed` are inputs that the command sets itself; with `each`, every data set has a figure of its own as well.
    """
    kind = kind or declared.COMMANDS[command]
    given = {**read_options(command, options, kind), **fixed}
    spec, measurement = spec_of(given, command, kind), measurement_of(given, kind)
    output, quiet = options["output"], options["quiet"]
    quoted = shlex.quote(str(output))
    if not 0 <= options["save_every"] < math.inf:
        raise InputError(f"save-every={options['save_every']} must be a number of seconds >= 0")
    if options["dry_run"] and quiet:
        raise InputError("--dry-run and --quiet exclude each other")
    part = None if options["part"] is None else parse.part(options["part"])
    workers = None if options["workers"] is None else whole("workers", options["workers"])
    devices = [whole("device", text) for text in split_list(options["device"] or [], "device")] or None
    check_files(options, input_files(given, options.get("spec")), available() if each else ())
    run = Run.of(measurement, spec, check_datasets(datasets_of(given, quiet), spec.sampler))
    patience = options["patience"]
    if patience is not None and (options["cluster"] is None or not 0 < patience < math.inf):
        raise InputError(f"patience={patience} must be a number of seconds > 0, and needs --cluster")
    with contextlib.ExitStack() as stack:
        reporter = stack.enter_context(progress.reporter(quiet))
        engine = stack.enter_context(
            engine_for(run, options["backend"], workers, devices, options["cluster"], patience, reporter.say)
        )
        if options["dry_run"]:
            from gpu_rsfd.cli import dryrun

            dryrun.dry_run(run, engine, output, part or (1, 1))
            return
        short = engine.reason.partition(": ")[0]  # `gpu-rsfd doctor` says the rest
        reporter.say(f"backend {engine.name} ({engine.device}): {short}")
        started = time.monotonic()
        before = output.stat() if output.exists() else None
        try:
            results = collect(
                run,
                output,
                engine,
                overwrite=options["overwrite"],
                save_every=options["save_every"],
                part=part,
                reporter=reporter,
            )
        except (KeyboardInterrupt, RunError, MemoryError) as error:  # Ctrl-C; a full disk, a lost worker or device
            reporter.end()
            end_early(error, output, options["overwrite"], before, part)
        elapsed, worked = time.monotonic() - started, results.computed > 0
        if part is not None:
            what = f"{counted(results.computed, 'repetition')} done" if worked else "nothing was left to do"
            reporter.say(f"part {part[0]} of {part[1]} is done: {what}; when all parts are: gpu-rsfd merge {quoted}")
            return
        unread: BaseException | None = None
        try:
            if worked and not quiet:
                render.table(results)
                sys.stdout.flush()  # before the figure is drawn, which takes longer than the rest
        except (BrokenPipeError, SystemExit) as error:  # `sweep | head -1`: Rich gives up by itself
            unread = error
        figures: list[Path] = []
        try:
            if options["plot"]:
                figures = draw(results, output, each, not worked)
        except (InputError, RunError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise RunError(f"{output} is complete, but its figure can't be written: {why}") from error
        if unread is not None:
            raise unread
        if worked:
            if not quiet:
                drawn = f", {', '.join(map(str, figures))} after {time.monotonic() - started:.1f} s" if figures else ""
                print(f"{output} written after {elapsed:.1f} s{drawn}")
        elif figures:
            reporter.say(f"{output} is complete; {', '.join(map(str, figures))} drawn from it")
        else:
            reporter.say(f"{output} is complete: nothing to do (gpu-rsfd show {quoted}, gpu-rsfd plot {quoted})")


def draw(results: Results, file: Path, each: bool, missing: bool) -> list[Path]:
    """The figure of results, and with `each` one per data set; or only those missing or older than the file."""
    from gpu_rsfd.show import plots

    pages = {plots.beside(file): list(results)}
    pages |= {plots.beside(file, name): [name] for name in results} if each else {}
    wanted = {path: names for path, names in pages.items() if not missing or plots.outdated(path, file)}
    for path, names in wanted.items():
        plots.save_figure(render.figure(results.only(names), x="epsilon" if each else "auto"), path)
    return list(wanted)


def end_early(
    error: BaseException, output: Path, overwrite: bool, before: os.stat_result | None, part: tuple[int, int] | None
) -> NoReturn:
    """Says what ended the work, what is kept of it, and how to continue.  `before`: the output as it was."""
    saved = output.exists() and output.stat() != before
    target = Path(os.path.realpath(output)) if output.is_symlink() else output
    journal = journal_of(target, part)
    places = [str(output)] if output.exists() and (saved or not overwrite) else []
    places += [str(journal)] if journal.exists() else []
    kept = f"what is done is kept in {' and '.join(places)}" if places else "nothing was finished yet"
    arguments = [a for a in sys.argv[1:] if a != "--overwrite" or not saved]
    known = shutil.which("gpu-rsfd") or sys.argv[0].endswith("__main__.py")
    again = shlex.join(["gpu-rsfd" if known else sys.argv[0], *arguments])
    what, code = _ending(error)
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(escaped(f"{what}; {kept}; to continue:\n  {again}"), file=sys.stderr, flush=True)
    raise SystemExit(code) from None
