"""`gpu-rsfd sweep`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gpu_rsfd.cli.inputs import datasets_of, read_spec, spec_of
from gpu_rsfd.cli.options import (
    OUTPUT,
    Assignment,
    Backend,
    Bins,
    Cluster,
    Columns,
    DataDir,
    DataSeed,
    DatasetNames,
    Delimiter,
    DeviceNumbers,
    Distribution,
    Domain,
    DomainFile,
    DryRun,
    Epsilon,
    FirstReport,
    Guarantee,
    Keep,
    Missing,
    Overwrite,
    Part,
    Plot,
    Prior,
    PriorSeed,
    Protocol,
    Quiet,
    Repetitions,
    Sampler,
    SaveEvery,
    Seed,
    SpecFile,
    Users,
    Workers,
    Yes,
    option,
)
from gpu_rsfd.cli.program import app
from gpu_rsfd.cli.running import DEFAULT_POSTPROCESS, Run, carry_out, check_files, input_files
from gpu_rsfd.results import Results


@app.command(
    epilog="Examples:  gpu-rsfd sweep  ·  gpu-rsfd sweep --dataset syn3 --dataset adult --repetitions 10  ·  "
    "gpu-rsfd sweep --users 1e4,1e5,1e6 --domain 10x5 --epsilon ln3 --output over_n.h5  ·  "
    "gpu-rsfd sweep --dataset people.csv --columns sex,age --bins age=10 --output people.h5"
)
def sweep(
    dataset: DatasetNames = None,
    data_dir: DataDir = None,
    users: Users = None,
    domain: Domain = None,
    distribution: Distribution = None,
    data_seed: DataSeed = None,
    delimiter: Delimiter = None,
    columns: Columns = None,
    bins: Bins = None,
    missing: Missing = None,
    domain_file: DomainFile = None,
    epsilon: Epsilon = None,
    protocol: Protocol = None,
    repetitions: Repetitions = None,
    seed: Seed = None,
    assignment: Assignment = None,
    sampler: Sampler = None,
    first_report: FirstReport = None,
    guarantee: Guarantee = None,
    prior: Prior = None,
    prior_seed: PriorSeed = None,
    spec: SpecFile = None,
    backend: Backend = "auto",
    workers: Workers = None,
    device: DeviceNumbers = None,
    output: Annotated[
        Path,
        option(
            "--output",
            "Results file; the same command continues it.  --output syn3.h5  (default: results.h5)",
            OUTPUT,
            "FILE",
        ),
    ] = Path("results.h5"),
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
    """Simulate data sets x protocols x epsilons x repetitions into one HDF5 file, with a table and a figure."""
    given = {
        "dataset": dataset,
        "data-dir": data_dir,
        "users": users,
        "domain": domain,
        "distribution": distribution,
        "data-seed": data_seed,
        "delimiter": delimiter,
        "columns": columns,
        "bins": bins,
        "missing": missing,
        "domain-file": domain_file,
        "epsilon": epsilon,
        "protocol": protocol,
        "repetitions": repetitions,
        "seed": seed,
        "assignment": assignment,
        "first-report": first_report,
        "guarantee": guarantee,
        "prior": prior,
        "prior-seed": prior_seed,
        "sampler": sampler,
    }
    how = Run(backend, workers, device, output, overwrite, plot, save_every, dry_run, yes, quiet, keep, part, cluster)
    options = read_spec(spec, given)
    chosen = spec_of(options)
    check_files(how, input_files(options, spec))
    carry_out(datasets_of(options), chosen, how, lambda results, missing: figures(results, output, missing))


def figures(results: Results, file: Path, missing: bool) -> list[Path]:
    """The figure beside a results file; only if it is missing or older, if so asked for."""
    from gpu_rsfd.show import plots

    path = plots.beside(file)
    if missing and not plots.outdated(path, file):
        return []
    plots.save_figure(plots.figure_of(results, DEFAULT_POSTPROCESS), path)
    return [path]
