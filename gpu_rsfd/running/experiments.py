"""The public functions: `run` any measurement, `simulate` in memory, `sweep` and `attack`, `merge`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpu_rsfd.backends.base import Backend, Progress, noises_of
from gpu_rsfd.backends.engine import Local
from gpu_rsfd.datasets import as_dataset, is_frame
from gpu_rsfd.datasets.base import Dataset, check_rows
from gpu_rsfd.datasets.options import OPTIONS as TABLE
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure import Frequencies, Inference, Measurement, Rounds
from gpu_rsfd.measure.base import check_measurement, options_of, used_by
from gpu_rsfd.options import with_keywords
from gpu_rsfd.results.estimate import errors_of
from gpu_rsfd.results.result import Header, Result, Results
from gpu_rsfd.running import collect
from gpu_rsfd.running.collect import Run, Silent
from gpu_rsfd.spec import FIELDS, SAVE_EVERY, Spec

Data = Dataset | str | os.PathLike[str]
KEYWORDS = (  # of every run, in Python or on the command line, which no field of a measurement may be called
    *("data", "spec", "output", "overwrite", "backend", "workers", "devices", "save_every", "part", "cluster"),
    *("progress", "reporter", "patience", "dataset", "protocol", "epsilon", "device", "plot", "dry_run", "quiet"),
    "allow_code",
    *("data_dir", "users", "domain", "attributes", "values", "distribution", "data_seed", "protocol_from"),
    *(option.name for option in TABLE),
)


def check_datasets(datasets: object, sampler: str) -> list[Dataset]:
    """One data set or several, each as such, by its name or as a table's path; with different names."""
    single = is_frame(datasets) or isinstance(datasets, (str, np.ndarray)) or not isinstance(datasets, Iterable)
    found = [as_dataset(datasets)] if single else [as_dataset(data) for data in datasets]  # type: ignore[attr-defined]
    if not found:
        raise InputError("no data set given; at least one is needed")
    for number, data in enumerate(found):
        check_rows(data, sampler)
        if data.name in [other.name for other in found[:number]]:
            raise InputError(f"data set {data.name!r} is given twice; rename one of them, or give each an output")
        if "/" in data.name or data.name in ("", ".", ".."):
            raise InputError(f"data set {data.name!r} can't be a group of a results file; its name must not contain /")
    return found


def engine_for(
    run: Run, backend: str | Backend, workers: Any, devices: Any, cluster: str | None, patience: Any, say: Any
) -> Any:
    """What does the work: this machine, or a Dask cluster."""
    noises = noises_of(attribute for plan in run.plans for attribute in plan.attributes)
    what, asked = run.measurement, getattr(backend, "name", backend)
    asked = "cupy" if asked == "auto" and devices is not None else asked
    if what.backends and asked not in ("auto", *what.backends):
        known = ", ".join(what.backends)
        raise InputError(f"backend={asked} can't be used in {what.command}; available: auto, {known}")
    if cluster is None:
        engine = Local(backend, workers, devices, run.spec.sampler, noises)
        engine.say = say
        if what.counts_first or run.spec.sampler != "users":
            engine.open()
        return engine
    if not isinstance(backend, str):
        raise InputError(f"cluster={cluster} and an open backend exclude each other")
    if workers is not None or devices is not None:
        raise InputError("workers and devices can't be given for a cluster, which has its own")
    from gpu_rsfd.backends.cluster import Cluster

    return Cluster(cluster, backend, run.spec.sampler, patience, say, noises)


@with_keywords(FIELDS, "run")
def run(
    measurement: Measurement,
    data: Data | Sequence[Data],
    spec: Spec | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    backend: str | Backend = "auto",
    workers: int | None = None,
    devices: Sequence[int] | None = None,
    save_every: float = SAVE_EVERY,
    part: tuple[int, int] | None = None,
    cluster: str | None = None,
    progress: Progress | None = None,
    reporter: Silent | None = None,
    **fields: Any,
) -> Results:
    """Run a measurement on data sets x protocols x epsilons x repetitions, in memory or into one HDF5 file.

    An existing file that holds a part of this run is resumed or extended, by data sets, protocols, epsilons and
    repetitions.  A complete file is read.  A file of another run is refused unless `overwrite` is given.

    Parameters
    ----------
    measurement : Measurement
        What is recorded for each repetition: one of your own (docs/own-measurement.md).
    data : Dataset, str, path, data frame, or a list of them
        As in `simulate`.
    spec : Spec, optional
        What to run.  Fields that are given as keywords replace its own.
    output : str or path, optional
        The results file; without one, the results are in memory only.
    overwrite : bool
        Replace a file of another run.
    backend : str or backend
        A name, as in `simulate`; or an open backend, which stays open.
    workers, devices, cluster, progress
        As in `simulate`.
    save_every : float
        Seconds of work between saves.
    part : (int, int), optional
        (3, 16) runs the third of sixteen parts into a journal beside the file; `merge` joins them.
    reporter : Silent, optional
        Receives progress and messages.
    **fields
        The fields of `Spec`.

    Returns
    -------
    Results
        A `Result` for each data set.
    """
    check_measurement(measurement, KEYWORDS)
    spec = Spec.of_command(measurement.command, spec, fields, measurement)
    what = Run.of(measurement, spec, check_datasets(data, spec.sampler))
    reporter = reporter or Silent()
    with engine_for(what, backend, workers, devices, cluster, None, reporter.say) as engine:
        if output is None:
            for name, given in (("part", part), ("overwrite", overwrite)):
                if given:
                    raise InputError(f"{name}={given} needs an output")
            return collect.in_memory(what, engine, progress)
        options: dict[str, Any] = {"overwrite": overwrite, "save_every": save_every, "part": part, "reporter": reporter}
        return collect.collect(what, Path(output), engine, **options)


@with_keywords(FIELDS, "simulate")
def simulate(
    data: Data,
    spec: Spec | None = None,
    *,
    backend: str = "auto",
    workers: int | None = None,
    devices: Sequence[int] | None = None,
    progress: Progress | None = None,
    cluster: str | None = None,
    **fields: Any,
) -> Result:
    """Simulate every user's report under each protocol and epsilon, and count the reports.

    Results depend on (data, seed, repetition, protocol, epsilon, assignment, sampler) only: not on what else is
    simulated, nor on the machine.  `repetitions=range(57, 58)` gives repetition 57 of a longer run.

    Parameters
    ----------
    data : Dataset, str, path or data frame
        A data set; the name of one, as in `load_dataset`; or a table or its path, as in `load_table`.
    spec : Spec, optional
        What to run.  Fields that are given as keywords replace its own.
    backend : str
        `auto` uses the fastest backend that works on this machine.
    workers : int, optional
        Processes or threads on the CPU.  Default: one per core.
    devices : list of int, optional
        CUDA device numbers.  Default: all that work.
    progress : callable, optional
        Called with the positions (users x values) just done.
    cluster : str, optional
        A Dask cluster: its scheduler's address (`tcp://…`) or file, or `local:4` for four processes of this machine.
    **fields
        The fields of `Spec`.

    Returns
    -------
    Result
        Counts of each protocol, epsilon and repetition; estimates and errors follow from them.

    Notes
    -----
    Two calls with the same seed read the same random words, user by user, so their errors are correlated.  Where they
    must be independent, as the two phases of an adaptive collection, give each its own seed: `seed=0` and `seed=1`.
    """
    spec, measurement = Spec.of_command("simulate", spec, fields), Frequencies()
    what = Run.of(measurement, spec, check_datasets(as_dataset(data), spec.sampler))
    found, plan = what.datasets[0], what.plans[0]
    with engine_for(what, backend, workers, devices, cluster, None, Silent().say) as engine:
        counts, sampled = engine.count(plan, found, spec.seed, spec.repetitions, progress)
    header = Header.of(found, plan)
    arrays: dict[str, Any] = {"counts": plan.expand(counts), "reporters": plan.reporters(found.n, sampled)}
    arrays["mse"] = lambda: errors_of(plan, header.frequencies, arrays["counts"], arrays["reporters"])
    return Result.made(header, spec.repetitions, what.want.spec, measurement.layout(header), arrays, found.name)


def _measured(kind: type[Measurement], data: Any, spec: Spec | None, options: dict[str, Any]) -> Any:
    """The results of a file; without one, the result of the only data set."""
    own = {option.name: options.pop(option.name) for option in options_of(kind) if option.name in options}
    results = run(kind(**own), data, spec, **options)
    if options.get("output") is not None:
        return results
    if len(results) != 1:
        raise InputError(f"{len(results)} data sets need a file: output={kind.defaults['output']!r}")
    return next(iter(results.values()))


@with_keywords((*FIELDS, *options_of(Frequencies)), "sweep", run)
def sweep(
    data: Data | Sequence[Data], spec: Spec | None = None, *, output: str | os.PathLike[str], **options: Any
) -> Results:
    """Simulate data sets x protocols x epsilons x repetitions into one HDF5 file: `run` with counts and errors.

    Parameters
    ----------
    data : Dataset, str, path, data frame, or a list of them
        As in `simulate`.
    spec : Spec, optional
        What to run.  Fields that are given as keywords replace its own.
    output : str or path
        The results file, resumed and extended as in `run`.
    overwrite, backend, workers, devices, save_every, part, cluster, progress, reporter
        As in `run`.
    **options
        The fields of `Spec`.

    Returns
    -------
    Results
        A `Result` for each data set.
    """
    return _measured(Frequencies, data, spec, {"output": output, **options})


@with_keywords(used_by((*FIELDS, *options_of(Inference)), "attack", Inference), "attack", run)
def attack(data: Any, spec: Spec | None = None, **options: Any) -> Any:
    """Simulate an attacker who knows the marginals and guesses sampled attributes and values from the reports.

    The reports are those that `simulate` counts.  For the sampled attribute, no attacker does better.  For values, an
    attacker who knows the joint distribution of correlated attributes does.

    Parameters
    ----------
    data : Dataset, str, path, data frame, or a list of them
        As in `simulate`; several need `output`.
    spec : Spec, optional
        What to run.  Fields that are given as keywords replace its own.
    output, overwrite, backend, workers, devices, save_every, part, cluster, progress, reporter
        As in `run`.
    **options
        The fields of `Spec`.

    Returns
    -------
    Result or Results
        The shares guessed correctly; with `output`, a result for each data set.
    """
    return _measured(Inference, data, spec, options)


@with_keywords(used_by((*FIELDS, *options_of(Rounds)), "rounds", Rounds), "rounds", run)
def rounds(data: Any, spec: Spec | None = None, **options: Any) -> Any:
    """Simulate a collection over rounds, in which users remember what they randomised (docs/rounds.md).

    Parameters
    ----------
    data : Dataset, str, path, data frame, or a list of them
        As in `simulate`; several need `output`.  Users of an `EvolvingDataset` hold other values in later rounds.
    spec : Spec, optional
        What to run.  Fields that are given as keywords replace its own.
    output, overwrite, backend, workers, devices, save_every, part, cluster, progress, reporter
        As in `run`.
    **options
        The fields of `Spec`, and the options of the collection.

    Returns
    -------
    Result or Results
        Errors of each round and of the mean over rounds; with `output`, a result for each data set.
    """
    return _measured(Rounds, data, spec, options)


def merge(output: str | os.PathLike[str], others: Sequence[str | os.PathLike[str]] = ()) -> Results:
    """Merge the parts of a run (`part=`) into its results file.

    Parameters
    ----------
    output : str or path
        The `output` of the parts.
    others : list of str or path
        The same output in other folders, whose parts are read as well.

    Returns
    -------
    Results
        What the file holds.

    Raises
    ------
    RunError
        If something is missing; the message names it.  The file then holds the repetitions before the first gap.
    """
    return collect.merge(Path(output), [Path(other) for other in others])
