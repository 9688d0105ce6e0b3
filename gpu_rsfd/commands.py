"""What each command does, from parsed options to printed lines."""

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
from typing import TYPE_CHECKING, Any

from gpu_rsfd import parse, progress
from gpu_rsfd.datasets import DATA_VARIABLE, Dataset, available
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.estimate import check_postprocess
from gpu_rsfd.options import data_seed, datasets_of, read_spec, spec_of
from gpu_rsfd.simulate import open_engine
from gpu_rsfd.spec import Spec

if TYPE_CHECKING:
    from gpu_rsfd.store import Results

DEFAULT_POSTPROCESS = "clip-normalize"  # the paper's figures
QUICK_REPETITIONS = 10


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


def sweep(given: Mapping[str, Any], spec_file: Path | None, how: Run) -> None:
    options = read_spec(spec_file, given)
    spec = spec_of(options)
    _check_files(how, _inputs(options, spec_file))
    _simulate(datasets_of(options), spec, how, lambda missing: sweep_figures(how.output, missing))


def paper(given: Mapping[str, Any], quick: bool, how: Run) -> None:
    """All ten data sets, six epsilons, six methods, 100 repetitions, balanced, as the paper's Section 4."""
    options = {"assignment": "balanced", **read_spec(None, given)}
    if quick:
        if "repetitions" in options:
            raise InputError("--quick and --repetitions exclude each other")
        options["repetitions"] = QUICK_REPETITIONS
    spec = spec_of(options)
    _check_files(how, _inputs(options, None), available())
    datasets = datasets_of({**options, "dataset": list(available()), "data-seed": data_seed(options)})
    _simulate(datasets, spec, how, lambda missing: paper_figures(how.output, missing))


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


def _inputs(options: Mapping[str, Any], spec_file: Path | None) -> list[Path]:
    """The files that a sweep reads, as far as the options name them."""
    named = options.get("dataset", [])
    texts = [str(text) for text in (named if isinstance(named, (list, tuple)) else [named])]
    paths = [Path(name) for text in texts for name in (text, *text.split(","))]
    paths += [Path(str(options["domain-file"]))] if "domain-file" in options else []
    paths += [spec_file] if spec_file is not None else []
    folder = str(options.get("data-dir") or os.environ.get(DATA_VARIABLE) or "")
    if folder and Path(folder).is_dir():
        paths += Path(folder).iterdir()
    return paths


def _check_files(how: Run, inputs: Sequence[Path], datasets: Sequence[str] = ()) -> None:
    """Refuses to replace what gpu-rsfd did not make, before any work."""
    from gpu_rsfd import plots
    from gpu_rsfd.sweep import check_output

    check_output(how.output, inputs)
    if how.plot and not how.dry_run:
        for name in ("", *datasets):
            plots.check_target(plots.beside(how.output, name), hint="move it away, or give --no-plot")


def _simulate(datasets: Sequence[Dataset], spec: Spec, how: Run, draw: Callable[[bool], list[Path]]) -> None:
    from gpu_rsfd.sweep import sweep as run_sweep

    if not 0 <= how.save_every < math.inf:
        raise InputError(f"save-every={how.save_every} must be a number of seconds >= 0")
    if how.dry_run and how.quiet:
        raise InputError("--dry-run and --quiet exclude each other")
    workers = None if how.workers is None else parse.whole("workers", how.workers)
    devices = None if not how.device else [parse.whole("device", text) for text in parse.items(how.device)]
    engine, reason = open_engine(spec.sampler, how.backend, workers, devices)
    with ended_by_sigterm(), engine, progress.reporter(how.quiet) as reporter:
        if how.dry_run:
            from gpu_rsfd.dryrun import dry_run

            dry_run(datasets, spec, engine, reason)
            return
        if not how.yes:
            from gpu_rsfd.dryrun import check_size

            check_size(datasets, spec, engine)
        reporter.say(f"backend {engine.name} ({engine.device}): {reason}")
        started = time.monotonic()
        before = how.output.stat() if how.output.exists() else None
        try:
            worked = run_sweep(datasets, spec, how.output, engine, reporter, how.overwrite, how.save_every)
        except (KeyboardInterrupt, RunError, MemoryError) as error:  # Ctrl-C; a full disk, a lost worker or device
            reporter.end()
            saved = how.output.exists() and how.output.stat() != before
            kept = "nothing was finished yet"
            if (saved or not how.overwrite) and _has_results(how.output):
                kept = f"what is done is kept in {how.output}"
            arguments = [a for a in sys.argv[1:] if a != "--overwrite" or not saved]
            known = shutil.which("gpu-rsfd") or sys.argv[0].endswith("__main__.py")
            again = shlex.join(["gpu-rsfd" if known else sys.argv[0], *arguments])
            what, code = _ending(error)
            print(f"{what}; {kept}; to continue:\n  {again}", file=sys.stderr)
            raise SystemExit(code) from None
        elapsed = time.monotonic() - started
        try:  # drawn first: printing ends early in `sweep | head`
            figures = draw(not worked) if how.plot else []
        finally:
            if worked and not how.quiet:
                show(how.output, DEFAULT_POSTPROCESS, csv=False, json=False)
        if worked:
            if not how.quiet:
                print(f"{', '.join(map(str, [how.output, *figures]))} written after {elapsed:.1f} s")
        elif figures:
            reporter.say(f"{how.output} is complete; {', '.join(map(str, figures))} drawn from it")
        else:
            reporter.say(
                f"{how.output} is complete: nothing to do (gpu-rsfd show {how.output}, gpu-rsfd plot {how.output})"
            )


def plan(given: Mapping[str, Any], target_rmse: float | None, postprocess: str, against: str, *, json: bool) -> None:
    """What to expect of each protocol, from theory alone."""
    from gpu_rsfd import planning, tables

    options = read_spec(None, given)
    spec = spec_of(options)
    sizes: list[int] | None = None
    if "dataset" not in options:  # any n will do: no user is needed
        options = {"users": "10000", **options, "sampler": "marginals"}
    elif "users" in options:  # these frequencies, another n
        sizes = parse.users(options.pop("users"))
    plans = [
        tables.Planned(
            data,
            n,
            planning.plan_table(
                n,
                data.domain,
                spec.epsilons,
                spec.protocols,
                data.frequencies,
                spec.assignment,
                target_rmse,
                postprocess,
                against,
            ),
        )
        for data in datasets_of(options)
        for n in ([data.n] if sizes is None else sizes)
    ]
    if not plans:
        raise InputError("users is empty; give a number of users, such as --users 1e6")
    tables.show_plan(plans, target_rmse, postprocess, against, json=json)


def show(file: Path, postprocess: str, *, csv: bool, json: bool) -> None:
    from gpu_rsfd import tables
    from gpu_rsfd.store import open_results

    check_postprocess(postprocess)
    if csv and json:
        raise InputError("--csv and --json exclude each other")
    tables.show(open_results(file), postprocess, "csv" if csv else "json" if json else "table")


def _has_results(path: Path) -> bool:
    """Whether a file holds any finished repetition."""
    from gpu_rsfd.store import open_results

    try:
        return bool(open_results(path))
    except InputError:
        return False


def plot(
    file: Path | None,
    postprocess: str | None,
    output: list[Path],
    x: str,
    attribute: str | None,
    *,
    surface: bool,
    datasets: Sequence[str] = (),
    each: bool = False,
    overwrite: bool = False,
) -> None:
    from gpu_rsfd import plots

    if postprocess is not None:
        check_postprocess(postprocess)
    if attribute is not None and x != "auto":
        raise InputError("--attribute and --x exclude each other")
    if attribute is not None and each:
        raise InputError("--attribute and --each exclude each other; --dataset NAME chooses a data set")
    if surface:
        if file is not None or attribute is not None or postprocess is not None or x != "auto" or datasets or each:
            raise InputError("--surface needs no results file and no other option but --output; formulas alone draw it")
        written = [plots.check_target(path, overwrite) for path in output or [Path("surface.png")]]
        figure = plots.surface()
        for path in written:
            plots.save_figure(figure, path, overwrite)
    elif file is None:
        raise InputError("plot needs a results file (gpu-rsfd plot results.h5) or --surface")
    else:
        written = plot_results(
            file, output, postprocess or DEFAULT_POSTPROCESS, x, attribute, datasets, each, overwrite
        )
    print("\n".join(f"{path} written" for path in written))


def plot_results(
    file: Path,
    targets: Sequence[Path],
    postprocess: str = DEFAULT_POSTPROCESS,
    x: str = "auto",
    attribute: str | None = None,
    datasets: Sequence[str] = (),
    each: bool = False,
    overwrite: bool = False,
) -> list[Path]:
    """One figure of the data sets (default: all), or one of each; every figure in every target's format."""
    from gpu_rsfd import plots
    from gpu_rsfd.store import open_results

    for path in targets:  # before the work of reading
        if path.exists() and file.exists() and path.samefile(file):
            raise InputError(f"figure={path} is the results file itself; give another --output")
        plots.check_target(path, overwrite or each)
    results = open_results(file)
    for name in datasets:
        if name not in results:
            raise InputError(f"no data set {name!r} in {file}; data sets: {', '.join(results)}")
    chosen = list(dict.fromkeys(datasets)) or list(results)
    pages = {name: [name] for name in chosen} if each else {"-".join(datasets): chosen}
    figures = {
        target: names
        for infix, names in pages.items()
        for target in (
            [plots.beside(file, infix)]
            if not targets
            else [path.with_name(f"{path.stem}-{infix.replace('/', '_')}{path.suffix}") for path in targets]
            if each
            else targets
        )
    }
    for path in figures:
        plots.check_target(path, overwrite)
    for path, names in figures.items():
        part = _only(results, names)
        if attribute is None:
            figure = plots.figure_of(part, postprocess, x)
        else:
            figure = plots.frequencies(part, attribute, postprocess)
        plots.save_figure(figure, path, overwrite)
    return list(figures)


def _only(results: Results, names: Sequence[str]) -> Results:
    """The results of some data sets."""
    from gpu_rsfd.store import Results

    return Results({name: results[name] for name in names}, spec=results.spec)


def sweep_figures(file: Path, missing: bool = False) -> list[Path]:
    """The figure beside a results file; only if it is missing or older, if so asked for."""
    from gpu_rsfd import plots

    path = plots.beside(file)
    return plot_results(file, [path]) if not missing or _outdated(path, file) else []


def paper_figures(file: Path, missing: bool = False) -> list[Path]:
    """One figure per data set, and all of them on one page; only those missing or older, if so asked for."""
    from gpu_rsfd import plots
    from gpu_rsfd.store import open_results

    pages = {plots.beside(file): list(available()), **{plots.beside(file, name): [name] for name in available()}}
    wanted = {path: names for path, names in pages.items() if not missing or _outdated(path, file)}
    if wanted:
        results = open_results(file)
        for path, names in wanted.items():
            plots.save_figure(plots.figure_of(_only(results, names), DEFAULT_POSTPROCESS, "epsilon"), path)
    return list(wanted)


def _outdated(figure: Path, file: Path) -> bool:
    """Not drawn from what the file holds now."""
    return not figure.exists() or figure.stat().st_mtime_ns < file.stat().st_mtime_ns


def doctor(*, self_test: bool) -> bool:
    """What this machine has; and, if asked for, whether its backends give the right integers."""
    from gpu_rsfd import doctor as checks

    for line in checks.report():
        print(line)
    return checks.self_test(lambda line: print(line, flush=True)) if self_test else True
