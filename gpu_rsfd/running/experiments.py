"""The public functions: `simulate` in memory, `sweep` and `attack` into a file, `merge`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_rsfd.backends.base import Backend, Progress, noises_of
from gpu_rsfd.datasets import as_dataset
from gpu_rsfd.datasets.base import Dataset, check_rows
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure import Frequencies, Inference
from gpu_rsfd.measure.inference import Attacker, workers_for
from gpu_rsfd.options import with_keywords
from gpu_rsfd.planning import Plan, plan_for
from gpu_rsfd.results.result import AttackResult, Header, Result, Results
from gpu_rsfd.running.engines import engine_for, open_engine
from gpu_rsfd.spec import FIELDS, SAVE_EVERY, Spec

if TYPE_CHECKING:
    from gpu_rsfd.running.collect import Reporter

Data = Dataset | str | os.PathLike[str]


def check_datasets(datasets: object, sampler: str) -> list[Dataset]:
    """One data set or several, each as such, by its name or as a table's path; with different names."""
    single = isinstance(datasets, (str, os.PathLike, Dataset, np.ndarray)) or not isinstance(datasets, Iterable)
    found = [as_dataset(datasets)] if single else [as_dataset(data) for data in datasets]  # type: ignore[attr-defined]
    if not found:
        raise InputError("no data set given; at least one is needed")
    names = [data.name for data in found]
    for data in found:
        check_rows(data, sampler)
        if names.count(data.name) > 1:
            files = dict.fromkeys(other.origin[0] for other in found if other.name == data.name and other.origin)
            how = f": {' and '.join(files)}; rename one of the files, or give each an output" if len(files) > 1 else ""
            raise InputError(f"data set {data.name!r} is given twice{how}")
        if "/" in data.name or data.name in ("", ".", ".."):
            raise InputError(
                f"data set {data.name!r} can't be a group of the results file; its name must not contain /"
            )
    return found


def engine_of(
    measurement: Frequencies | Inference,
    datasets: Sequence[Dataset],
    spec: Spec,
    backend: str = "auto",
    workers: int | None = None,
    devices: Sequence[int] | None = None,
    cluster: str | None = None,
    plans: Sequence[Plan] = (),
) -> tuple[Any, str]:
    """What makes the arrays of a measurement, and one line that says why it is this."""
    if isinstance(measurement, Frequencies):
        noises = noises_of(attribute for plan in plans for attribute in plan.attributes)
        return open_engine(cluster, backend, workers, devices, spec.sampler, noises)
    processes = workers if cluster is not None else workers_for(datasets, workers)
    return Attacker(processes, cluster), f"the attacker knows the {measurement.knowledge} marginals"


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
    data : Dataset, str or path
        A data set; the name of one, as in `load_dataset`; or the path of a table, as in `load_table`.
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
    """
    spec, data = Spec.of_command("simulate", spec, fields), as_dataset(data)
    check_rows(data, spec.sampler)
    plan = plan_for(spec, data)
    noises = noises_of(plan.attributes)
    with engine_for(data, spec.sampler, backend, workers, devices, cluster, noises) as engine:
        counts, sampled = engine.count(plan, data, spec.seed, spec.repetitions, progress)
    header = Header.of(data, plan)
    return Frequencies().simulated(header, spec.repetitions, spec.described(), counts, sampled)


@with_keywords(FIELDS, "sweep")
def sweep(
    data: Data | Sequence[Data],
    spec: Spec | None = None,
    *,
    output: str | os.PathLike[str],
    overwrite: bool = False,
    backend: str | Backend = "auto",
    workers: int | None = None,
    devices: Sequence[int] | None = None,
    save_every: float = SAVE_EVERY,
    keep: str = "counts",
    part: tuple[int, int] | None = None,
    cluster: str | None = None,
    reporter: Reporter | None = None,
    **fields: Any,
) -> Results:
    """Simulate data sets x protocols x epsilons x repetitions into one HDF5 file.

    An existing file that holds a part of this sweep is resumed or extended, by data sets, protocols, epsilons and
    repetitions.  A complete file is read.  A file of another sweep is refused unless `overwrite` is given.

    Parameters
    ----------
    data : Dataset, str, path, or a list of them
        As in `simulate`.
    spec : Spec, optional
        What to run.  Fields that are given as keywords replace its own.
    output : str or path
        The results file.
    overwrite : bool
        Replace a file of another sweep.
    backend : str or backend
        A name, as in `simulate`; or an open backend, which stays open.
    workers, devices, cluster
        As in `simulate`.
    save_every : float
        Seconds of work between saves.
    keep : {'counts', 'mse'}
        `mse` stores only the errors, in a much smaller file.
    part : (int, int), optional
        (3, 16) simulates the third of sixteen parts into blocks beside the file, which `merge` joins.
    reporter : Reporter, optional
        Receives progress and messages.
    **fields
        The fields of `Spec`.

    Returns
    -------
    Results
        A `Result` for each data set.
    """
    from gpu_rsfd.running.collect import collect

    spec, measurement = Spec.of_command("sweep", spec, fields), Frequencies(keep)
    found = check_datasets(data, spec.sampler)
    if cluster is not None and not isinstance(backend, str):
        raise InputError(f"cluster={cluster} and an open backend exclude each other")
    options: dict[str, Any] = {"overwrite": overwrite, "save_every": save_every, "part": part, "reporter": reporter}
    if not isinstance(backend, str):
        return collect(measurement, found, spec, Path(output), backend, **options)
    plans = [plan_for(spec, each) for each in found]
    with engine_of(measurement, found, spec, backend, workers, devices, cluster, plans)[0] as engine:
        return collect(measurement, found, spec, Path(output), engine, plans=plans, **options)


@with_keywords(FIELDS, "attack")
def attack(
    data: Any,
    spec: Spec | None = None,
    *,
    knowledge: str = "true",
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    save_every: float = SAVE_EVERY,
    part: tuple[int, int] | None = None,
    cluster: str | None = None,
    progress: Progress | None = None,
    reporter: Reporter | None = None,
    attacker: Attacker | None = None,
    **fields: Any,
) -> Any:
    """Simulate an attacker who knows the marginals and guesses sampled attributes and values from the reports.

    The reports are those that `simulate` counts.  For the sampled attribute, no attacker does better.  For values, an
    attacker who knows the joint distribution of correlated attributes does.

    Parameters
    ----------
    data : Dataset, str, path, or (with `output`) a list of them
        As in `simulate`.
    spec : Spec, optional
        What to run.  Fields that are given as keywords replace its own.
    knowledge : {'true', 'estimated'}
        The attacker knows the true marginal frequencies, or those that the server estimates from these reports.
    output : str or path, optional
        A file, resumed and extended as in `sweep`; without one, the result is in memory only.
    overwrite, workers, save_every, part, cluster, progress, reporter
        As in `sweep` and `simulate`.
    attacker : Attacker, optional
        An open attacker, which stays open.
    **fields
        The fields of `Spec`.

    Returns
    -------
    AttackResult or Results
        The shares guessed correctly; with `output`, a result for each data set.
    """
    measurement = Inference(knowledge)
    spec = Spec.of_command("attack", spec, fields)
    if spec.sampler != "users":
        raise InputError(f"sampler={spec.sampler!r} has no reports to attack; available: users")
    found = check_datasets(data, "users")
    if attacker is None:
        opened: Any = engine_of(measurement, found, spec, workers=workers, cluster=cluster)[0]
    else:
        opened = nullcontext(attacker)
    with opened as engine:
        if output is not None:
            from gpu_rsfd.running.collect import collect

            options: dict[str, Any] = {"overwrite": overwrite, "save_every": save_every, "part": part}
            return collect(measurement, found, spec, Path(output), engine, reporter=reporter, **options)
        if len(found) != 1:
            raise InputError(f"{len(found)} data sets need a file: output='attack.h5'")
        return attacked(measurement, found[0], spec, engine, progress)


def attacked(
    measurement: Inference, data: Dataset, spec: Spec, engine: Attacker, progress: Progress | None = None
) -> AttackResult:
    """An attack in memory."""
    header = Header.of(data, plan_for(spec, data))
    made = measurement.make(header, data, spec.seed, spec.repetitions, engine, progress)
    each = [arrays for _, arrays in made]
    arrays = {name: np.stack([one[name] for one in each]) for name in each[0]}
    return measurement.result(header, spec.repetitions, {**spec.described(), **measurement.described()}, arrays)


def merge(output: str | os.PathLike[str], others: Sequence[str | os.PathLike[str]] = ()) -> Results:
    """Merge the parts of a run (`part=`) into its results file.

    Parameters
    ----------
    output : str or path
        The `output` of the parts.
    others : list of str or path
        The same output in other folders, whose blocks are copied first.

    Returns
    -------
    Results
        What the file holds.

    Raises
    ------
    RunError
        If something is missing; the message names it.  The file then holds the repetitions before the first gap.
    """
    from gpu_rsfd.running import collect

    return collect.merge(Path(output), [Path(other) for other in others])
