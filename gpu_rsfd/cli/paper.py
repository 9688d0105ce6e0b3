"""`gpu-rsfd paper`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gpu_rsfd.cli.inputs import data_seed as seed_of_data
from gpu_rsfd.cli.inputs import datasets_of, read_spec, spec_of
from gpu_rsfd.cli.options import (
    OUTPUT,
    SIMULATION,
    Backend,
    Cluster,
    DataDir,
    DataSeed,
    DeviceNumbers,
    DryRun,
    Epsilon,
    Keep,
    Overwrite,
    Part,
    Plot,
    Protocol,
    Quiet,
    Repetitions,
    Sampler,
    SaveEvery,
    Seed,
    Text,
    Workers,
    Yes,
    option,
)
from gpu_rsfd.cli.program import app
from gpu_rsfd.cli.running import DEFAULT_POSTPROCESS, Run, carry_out, check_files, input_files
from gpu_rsfd.datasets import available
from gpu_rsfd.errors import InputError
from gpu_rsfd.results import Results

QUICK_REPETITIONS = 10


@app.command(epilog="Examples:  gpu-rsfd paper --quick  ·  gpu-rsfd paper --data-dir originals/ --output with_rows.h5")
def paper(
    quick: Annotated[bool, option("--quick", "10 repetitions instead of 100.", SIMULATION)] = False,
    data_dir: DataDir = None,
    data_seed: DataSeed = None,
    epsilon: Epsilon = None,
    protocol: Protocol = None,
    repetitions: Repetitions = None,
    seed: Seed = None,
    assignment: Annotated[
        Text,
        option(
            "--assignment",
            "uniform, or as the authors.  --assignment uniform  (default: balanced)",
            SIMULATION,
            "NAME",
        ),
    ] = None,
    sampler: Sampler = None,
    backend: Backend = "auto",
    workers: Workers = None,
    device: DeviceNumbers = None,
    output: Annotated[
        Path, option("--output", "Results file; the same command continues it.  (default: paper.h5)", OUTPUT, "FILE")
    ] = Path("paper.h5"),
    overwrite: Overwrite = False,
    plot: Plot = True,
    save_every: SaveEvery = 2.0,
    keep: Keep = "counts",
    part: Part = None,
    cluster: Cluster = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce the paper: its ten data sets, six epsilons, six methods; a figure for each and one page of all."""
    given = {
        "data-dir": data_dir,
        "data-seed": data_seed,
        "epsilon": epsilon,
        "protocol": protocol,
        "repetitions": repetitions,
        "seed": seed,
        "assignment": assignment,
        "sampler": sampler,
    }
    how = Run(backend, workers, device, output, overwrite, plot, save_every, dry_run, yes, quiet, keep, part, cluster)
    options = {"assignment": "balanced", **read_spec(None, given)}  # as the authors' experiments
    if quick:
        if "repetitions" in options:
            raise InputError("--quick and --repetitions exclude each other")
        options["repetitions"] = QUICK_REPETITIONS
    spec = spec_of(options)
    check_files(how, input_files(options, None), available())
    datasets = datasets_of({**options, "dataset": list(available()), "data-seed": seed_of_data(options)})
    carry_out(datasets, spec, how, lambda results, missing: figures(results, output, missing))


def figures(results: Results, file: Path, missing: bool) -> list[Path]:
    """One figure per data set, and all of them on one page; only those missing or older, if so asked for."""
    from gpu_rsfd.show import plots

    pages = {plots.beside(file): list(results), **{plots.beside(file, name): [name] for name in results}}
    wanted = {path: names for path, names in pages.items() if not missing or plots.outdated(path, file)}
    for path, names in wanted.items():
        plots.save_figure(plots.figure_of(results.only(names), DEFAULT_POSTPROCESS, "epsilon"), path)
    return list(wanted)
