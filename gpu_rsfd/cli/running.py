"""Running a sweep from the command line: files checked first, progress, early ends that say what is kept."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from gpu_rsfd.cli import parse, progress
from gpu_rsfd.datasets import DATA_VARIABLE, Dataset, available
from gpu_rsfd.datasets.paper.originals import ORIGINALS
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.results import Results
from gpu_rsfd.simulation import open_engine
from gpu_rsfd.spec import UNIFORM, Spec
from gpu_rsfd.store.blocks import folder_of
from gpu_rsfd.store.identity import KEEP
from gpu_rsfd.sweeping import check_output, sweep

DEFAULT_POSTPROCESS = "clip-normalize"  # the paper's figures

Draw = Callable[[Results, bool], list[Path]]  # the figures of results; only those missing or older, if so asked for


@dataclass(frozen=True)
class Run:
    """How a sweep is run, whatever it simulates."""

    backend: str
    workers: str | None
    device: list[str] | None
    output: Path
    overwrite: bool
    plot: bool
    save_every: float
    dry_run: bool
    yes: bool
    quiet: bool
    keep: str = "counts"
    part: str | None = None
    cluster: str | None = None


class Terminated(KeyboardInterrupt):
    """SIGTERM, as a batch system sends it before it kills."""


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the work as Ctrl-C does; where signals can't be had (in a thread), nothing changes."""

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: what is under way is being ended
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _ending(error: BaseException) -> tuple[str, int]:
    """What is said of an early end, and the exit code."""
    if isinstance(error, Terminated):
        return "terminated", 128 + signal.SIGTERM
    if isinstance(error, KeyboardInterrupt):
        return "\ninterrupted", 130
    return f"gpu-rsfd: {'out of memory: ' * isinstance(error, MemoryError)}{error}".removesuffix(": "), 1


def input_files(options: Mapping[str, Any], spec_file: Path | None) -> list[Path]:
    """The files that a sweep reads, as far as the options name them."""
    named = options.get("dataset", [])
    texts = [str(text) for text in (named if isinstance(named, (list, tuple)) else [named])]
    paths = [Path(name) for text in texts for name in (text, *text.split(",")) if name not in available()]
    paths += [Path(str(options["domain-file"]))] if "domain-file" in options else []
    prior = options.get("prior")
    paths += [Path(prior)] if isinstance(prior, str) else []
    paths += [spec_file] if spec_file is not None else []
    folder = str(options.get("data-dir") or os.environ.get(DATA_VARIABLE) or "")
    return paths + [Path(folder, file) for original in ORIGINALS.values() for file in original.files if folder]


def check_files(how: Run, inputs: Sequence[Path], datasets: Sequence[str] = ()) -> None:
    """Refuses to replace what gpu-rsfd did not make, before any work."""
    from gpu_rsfd.show import plots

    check_output(how.output, inputs)
    if how.plot and not how.dry_run and how.part is None:
        for name in ("", *datasets):
            plots.check_target(plots.beside(how.output, name), hint="move it away, or give --no-plot")


def carry_out(datasets: Sequence[Dataset], spec: Spec, how: Run, draw: Draw) -> None:
    """Runs a sweep, shows its table and draws its figures."""
    from gpu_rsfd.show import tables
    from gpu_rsfd.store.reading import open_results

    if not 0 <= how.save_every < math.inf:
        raise InputError(f"save-every={how.save_every} must be a number of seconds >= 0")
    if how.keep not in KEEP:
        raise InputError(f"keep={how.keep} is unknown; available: {', '.join(KEEP)}")
    if how.dry_run and how.quiet:
        raise InputError("--dry-run and --quiet exclude each other")
    part = None if how.part is None else parse.part(how.part)
    workers = None if how.workers is None else parse.whole("workers", how.workers)
    devices = None if not how.device else [parse.whole("device", text) for text in parse.items(how.device, "device")]
    engine, reason = open_engine(how.cluster, how.backend, workers, devices, spec.sampler)
    with ended_by_sigterm(), engine, progress.reporter(how.quiet) as reporter:
        if how.dry_run:
            from gpu_rsfd.cli.dryrun import dry_run

            dry_run(datasets, spec, engine, reason)
            return
        if not how.yes:
            from gpu_rsfd.cli.dryrun import check_size

            check_size(datasets, spec, engine, 1 if part is None else part[1])
        reporter.say(f"backend {engine.name} ({engine.device}): {reason}")
        started = time.monotonic()
        before = how.output.stat() if how.output.exists() else None
        try:
            results = sweep(
                datasets,
                spec.epsilons,
                spec.protocols,
                spec.repetitions,
                spec.seed,
                spec.assignment,
                spec.sampler,
                spec.first_report,
                spec.guarantee,
                spec.prior if spec.prior != UNIFORM else None,
                spec.prior_seed,
                output=how.output,
                overwrite=how.overwrite,
                backend=engine,
                save_every=how.save_every,
                keep=how.keep,
                part=part,
                reporter=reporter,
            )
        except (KeyboardInterrupt, RunError, MemoryError) as error:  # Ctrl-C; a full disk, a lost worker or device
            reporter.end()
            blocks = folder_of(Path(os.path.realpath(how.output)) if how.output.is_symlink() else how.output)
            end_early(error, how.output, how.overwrite, before, lambda path: bool(open_results(path)), blocks)
        elapsed, worked = time.monotonic() - started, results.computed > 0
        if part is not None:
            what = f"{results.computed} repetitions simulated" if worked else "nothing was left to do"
            reporter.say(
                f"part {part[0]} of {part[1]} is done: {what}; when all parts are: gpu-rsfd merge {how.output}"
            )
            return
        try:  # drawn first: printing ends early in `sweep | head`
            figures = draw(results, not worked) if how.plot else []
        finally:
            if worked and not how.quiet:
                tables.show(results, DEFAULT_POSTPROCESS)
        if worked:
            if not how.quiet:
                print(f"{', '.join(map(str, [how.output, *figures]))} written after {elapsed:.1f} s")
        elif figures:
            reporter.say(f"{how.output} is complete; {', '.join(map(str, figures))} drawn from it")
        else:
            reporter.say(
                f"{how.output} is complete: nothing to do (gpu-rsfd show {how.output}, gpu-rsfd plot {how.output})"
            )


def end_early(
    error: BaseException,
    output: Path,
    overwrite: bool,
    before: os.stat_result | None,
    finished: Callable[[Path], bool],
    blocks: Path | None = None,
) -> NoReturn:
    """Says what ended the work, what is kept of it, and how to continue.

    `before`: the output as it was.  `finished`: whether a file holds any finished repetition.  `blocks`: the folder of
    those that are not in the file yet.
    """
    saved = output.exists() and output.stat() != before
    places = []
    with contextlib.suppress(InputError):
        if (saved or not overwrite) and finished(output):
            places = [str(output)]
    places += [str(blocks)] if blocks is not None and any(blocks.glob("*-*-*.h5")) else []
    kept = f"what is done is kept in {' and '.join(places)}" if places else "nothing was finished yet"
    arguments = [a for a in sys.argv[1:] if a != "--overwrite" or not saved]
    known = shutil.which("gpu-rsfd") or sys.argv[0].endswith("__main__.py")
    again = shlex.join(["gpu-rsfd" if known else sys.argv[0], *arguments])
    what, code = _ending(error)
    print(f"{what}; {kept}; to continue:\n  {again}", file=sys.stderr)
    raise SystemExit(code) from None
