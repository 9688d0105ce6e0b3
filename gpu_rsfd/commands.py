"""What each command does, from parsed options to printed lines."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_rsfd import parse, progress
from gpu_rsfd.backends.numpy import NumpyBackend
from gpu_rsfd.datasets import Dataset, SyntheticDataset, load_dataset
from gpu_rsfd.estimate import check_postprocess
from gpu_rsfd.protocols import PAPER
from gpu_rsfd.spec import PAPER_EPSILONS, Spec, check_seed

DEFAULT_DATASET = "syn1"
SPEC_KEYS = (
    "dataset",
    "users",
    "domain",
    "distribution",
    "data-seed",
    "epsilon",
    "protocol",
    "repetitions",
    "seed",
    "assignment",
)


def read_spec(path: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a TOML file, overridden by those given; lists stay lists, single values become one-item lists."""
    options: dict[str, Any] = {}
    if path is not None:
        try:
            options = parse.toml_loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"spec={path} can't be read: {error.strerror}") from None
        except ValueError as error:
            raise ValueError(f"spec={path} is not a TOML file: {error}") from None
        options = {key.replace("_", "-"): value for key, value in options.items()}
        unknown = [key for key in options if key not in SPEC_KEYS]
        if unknown:
            raise ValueError(f"spec={path} has an unknown key {unknown[0]!r}; valid: {', '.join(SPEC_KEYS)}")
    options.update({key: value for key, value in given.items() if value not in (None, [])})
    return options


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def spec_of(options: Mapping[str, Any]) -> Spec:
    return Spec.of(
        protocols=parse.items(_list(options["protocol"])) if "protocol" in options else PAPER,
        epsilons=parse.epsilons(_list(options["epsilon"])) if "epsilon" in options else PAPER_EPSILONS,
        repetitions=parse.whole("repetitions", options.get("repetitions", 100)),
        seed=parse.whole("seed", options.get("seed", 0)),
        assignment=options.get("assignment", "uniform"),
    )


def datasets_of(options: Mapping[str, Any]) -> list[Dataset]:
    """Named data sets, or synthetic ones by size."""
    data_seed = check_seed(parse.whole("data-seed", options.get("data-seed", 0)))
    by_size = [key for key in ("users", "domain", "distribution") if key in options]
    if by_size and "dataset" in options:
        raise ValueError(f"--dataset and --{by_size[0]} exclude each other; give a name, or a size")
    if not by_size:
        names = parse.items(_list(options.get("dataset", DEFAULT_DATASET)))
        found = [load_dataset(name, seed=data_seed) for name in names]
    else:
        for key in ("users", "domain"):
            if key not in options:
                raise ValueError(f"a synthetic data set needs --users and --domain; --{key} is missing")
        domain = parse.domain(_list(options["domain"]))
        law = str(options.get("distribution", "uniform"))
        found = []
        for n in parse.users(_list(options["users"])):
            name = f"{law.replace(':', '')}-n{n}-d{len(domain)}"
            found.append(SyntheticDataset(n, domain, law, seed=data_seed, name=name))
    names = [dataset.name for dataset in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"data set {name!r} is given twice")
    return found


def sweep(
    given: Mapping[str, Any],
    spec_file: Path | None,
    backend: str,
    workers: str | None,
    output: Path,
    *,
    overwrite: bool,
    plot: bool,
    save_every: float,
    dry_run: bool,
    quiet: bool,
) -> None:
    from gpu_rsfd.sweep import sweep as run_sweep

    options = read_spec(spec_file, given)
    spec = spec_of(options)
    datasets = datasets_of(options)
    if not save_every >= 0:
        raise ValueError(f"save-every={save_every} must be a number of seconds >= 0")
    with open_backend(backend, workers) as (engine, reason), progress.reporter(quiet) as reporter:
        if dry_run:
            from gpu_rsfd.dryrun import dry_run as print_plan

            print_plan(datasets, spec, engine, reason)
            return
        reporter.say(f"backend {engine.name} ({engine.device}): {reason}")
        started = time.monotonic()
        try:
            worked = run_sweep(datasets, spec, output, engine, reporter, overwrite=overwrite, save_every=save_every)
        except KeyboardInterrupt:
            again = shlex.join(["gpu-rsfd", *(a for a in sys.argv[1:] if a != "--overwrite")])
            kept = f"what is done is kept in {output}" if output.exists() else "nothing was finished yet"
            reporter.end()
            print(f"\ninterrupted; {kept}; to continue:\n  {again}", file=sys.stderr)
            raise
        if not worked:
            reporter.say(f"{output} is complete: nothing to do (see gpu-rsfd show {output})")
            return
        elapsed = time.monotonic() - started
        figure = output.with_suffix(".png")
        if plot:
            plot_results(output, [figure])
        if not quiet:
            show(output, "clip-normalize", csv=False, json=False)
            print(f"{output}{f' and {figure}' if plot else ''} written after {elapsed:.1f} s")


class open_backend:  # noqa: N801 - used like a function, in a with statement
    """The backend asked for, and why this one."""

    def __init__(self, name: str, workers: str | None) -> None:
        if name not in ("auto", "numpy"):
            raise ValueError(f"unknown backend {name!r}; available: auto, numpy")
        self._engine = NumpyBackend(None if workers is None else parse.whole("workers", workers))
        self._reason = "asked for" if name == "numpy" else "the only backend"

    def __enter__(self) -> tuple[NumpyBackend, str]:
        return self._engine, self._reason

    def __exit__(self, *_: object) -> None:
        self._engine.close()


def show(file: Path, postprocess: str, *, csv: bool, json: bool) -> None:
    from gpu_rsfd import tables
    from gpu_rsfd.store import open_results

    check_postprocess(postprocess)
    if csv and json:
        raise ValueError("--csv and --json exclude each other")
    tables.show(open_results(file), postprocess, "csv" if csv else "json" if json else "table")


def plot(file: Path | None, postprocess: str, output: list[Path], x: str, *, surface: bool) -> None:
    from gpu_rsfd import plots

    check_postprocess(postprocess)
    if surface:
        if file is not None:
            raise ValueError(f"--surface needs no results file; {file} given")
        targets = [plots.check_target(path) for path in output or [Path("surface.png")]]
        figure = plots.surface()
        for path in targets:
            plots.save_figure(figure, path)
    elif file is None:
        raise ValueError("plot needs a results file (gpu-rsfd plot results.h5) or --surface")
    else:
        targets = output or [file.with_suffix(".png")]
        plot_results(file, targets, postprocess, x)
    print("\n".join(f"{path} written" for path in targets))


def plot_results(file: Path, targets: list[Path], postprocess: str = "clip-normalize", x: str = "auto") -> None:
    from gpu_rsfd import plots
    from gpu_rsfd.store import open_results

    for path in targets:
        plots.check_target(path)
    figure = plots.figure_of(open_results(file), postprocess, x)
    for path in targets:
        plots.save_figure(figure, path)
