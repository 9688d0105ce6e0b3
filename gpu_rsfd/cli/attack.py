"""`gpu-rsfd attack`"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated

from gpu_rsfd.cli import parse, progress
from gpu_rsfd.cli.inputs import datasets_of, read_spec, spec_of
from gpu_rsfd.cli.options import (
    OUTPUT,
    SIMULATION,
    Assignment,
    Bins,
    Cluster,
    Columns,
    DataDir,
    DataSeed,
    DatasetNames,
    Delimiter,
    Distribution,
    Domain,
    DomainFile,
    Epsilon,
    FirstReport,
    Guarantee,
    Missing,
    Overwrite,
    Plot,
    Prior,
    PriorSeed,
    Protocol,
    Quiet,
    SaveEvery,
    Seed,
    Text,
    Users,
    Workers,
    option,
)
from gpu_rsfd.cli.program import app
from gpu_rsfd.cli.running import end_early, ended_by_sigterm, input_files
from gpu_rsfd.errors import InputError, RunError


@app.command(
    epilog="Examples:  gpu-rsfd attack --dataset nursery --epsilon 1,2,4  ·  "
    "gpu-rsfd attack --dataset adult --protocol rsfd-grr,rsrfd-grr --prior noisy:0.5 --output adult-attack.h5  ·  "
    "gpu-rsfd attack --users 1e5 --domain 10x5 --guarantee attribute --knowledge estimated"
)
def attack(
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
    repetitions: Annotated[
        Text, option("--repetitions", "Repetitions of each cell.  --repetitions 20  (default: 10)", SIMULATION, "N")
    ] = None,
    seed: Seed = None,
    assignment: Assignment = None,
    first_report: FirstReport = None,
    guarantee: Guarantee = None,
    prior: Prior = None,
    prior_seed: PriorSeed = None,
    knowledge: Annotated[
        str,
        option(
            "--knowledge",
            "The marginals that the attacker knows: true, or estimated from the reports.  (default: true)",
            SIMULATION,
            "NAME",
        ),
    ] = "true",
    workers: Workers = None,
    cluster: Cluster = None,
    output: Annotated[
        Path, option("--output", "File; the same command continues it.  (default: attack.h5)", OUTPUT, "FILE")
    ] = Path("attack.h5"),
    overwrite: Overwrite = False,
    plot: Plot = True,
    save_every: SaveEvery = 2.0,
    quiet: Quiet = False,
) -> None:
    """What the best attacker guesses from every user's report: the sampled attribute, and the values."""
    from gpu_rsfd.privacy.attacking import Attacker, workers_for
    from gpu_rsfd.privacy.files import attack_all, open_attacks
    from gpu_rsfd.show import plots
    from gpu_rsfd.show.privacy import attack_figure, show_attacks
    from gpu_rsfd.sweeping import check_datasets, check_output

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
    }
    options = {"repetitions": "10", **read_spec(None, given)}
    spec = spec_of(options)
    if not 0 <= save_every < math.inf:
        raise InputError(f"save-every={save_every} must be a number of seconds >= 0")
    check_output(output, input_files(options, None))
    figure = plots.beside(output)
    if plot:
        plots.check_target(figure, hint="move it away, or give --no-plot")
    datasets = check_datasets(datasets_of(options), "users")
    processes = None if workers is None else parse.whole("workers", workers)
    if cluster is None:
        processes = workers_for(datasets, processes)
    with ended_by_sigterm(), Attacker(processes, knowledge, cluster) as attacker, progress.reporter(quiet) as reporter:
        reporter.say(f"attack on {attacker.device}; the attacker knows the {attacker.knowledge} marginals")
        started = time.monotonic()
        before = output.stat() if output.exists() else None
        try:
            results = attack_all(datasets, spec, attacker, output, overwrite, save_every, reporter)
        except (KeyboardInterrupt, RunError, MemoryError) as error:
            reporter.end()
            end_early(error, output, overwrite, before, lambda path: bool(open_attacks(path)))
        elapsed = time.monotonic() - started
        drawn = plot and (results.computed > 0 or plots.outdated(figure, output))
        if drawn:
            plots.save_figure(attack_figure(results), figure)
        if results.computed and not quiet:
            show_attacks(results)
            print(f"{', '.join(map(str, [output, *[figure] * drawn]))} written after {elapsed:.1f} s")
        elif not results.computed:
            done = f"{figure} drawn from it" if drawn else f"nothing to do (gpu-rsfd show {output})"
            reporter.say(f"{output} is complete; {done}")
