"""What to decide by before a collection: the error of each protocol, what its reports give away, a recommendation."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.datasets import as_dataset
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import with_keywords
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import PrivacySettings, mechanisms
from gpu_rsfd.running.collect import Silent
from gpu_rsfd.running.command import command_of
from gpu_rsfd.spec import FIELDS, Spec
from gpu_rsfd.theory.attacked import Guessed, Risk, guessed, passes, risk_of, work_of
from gpu_rsfd.theory.choice import Case, Choice, Decision, choose, decide, smallest_epsilon
from gpu_rsfd.theory.columns import Accuracy, Setting, Truth, read_targets
from gpu_rsfd.theory.expected import attributes_of
from gpu_rsfd.theory.needs import PlanRow, plan_table
from gpu_rsfd.theory.words import sentences

TIE = 1e-3  # relative: errors and losses closer than this are equal, as thresholds are rounded
MANY = 1 << 26  # users x values; the evidence for more comes from the exact distribution of the counts
LONG = 1 << 23  # bits that are drawn for reports; a plan that attacks with more says how far it is


class Planned(list[PlanRow]):
    """The rows of a plan, and a decision for each number of users.

    Attributes
    ----------
    decisions : tuple of Decision
        In the order of the numbers of users.
    """

    def __init__(
        self, rows: Sequence[PlanRow], decisions: Sequence[Decision], cases: Sequence[tuple[Case, Choice | None]]
    ) -> None:
        super().__init__(rows)
        self.decisions, self.cases = tuple(decisions), tuple(cases)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.decisions))

    @property
    def sentences(self) -> tuple[str, ...]:
        """Which, how accurate, how risky: of the first decision."""
        return self.decisions[0].sentences

    @property
    def columns(self) -> tuple[Any, ...]:
        """What to expect of each column: of the first decision."""
        return self.decisions[0].columns

    def plot(self) -> Any:
        """The figure of `gpu-rsfd plan --plot`, a Matplotlib figure."""
        import importlib

        return importlib.import_module("gpu_rsfd.show.planned").figure(self)


@with_keywords(FIELDS, "plan")
def plan(
    data: Dataset | str | os.PathLike[str],
    spec: Spec | None = None,
    *,
    users: int | Sequence[int] | None = None,
    target: Any = None,
    target_rmse: float | None = None,
    against: str = "users",
    postprocess: str = "none",
    attack: bool = True,
    **fields: Any,
) -> Planned:
    """Plan a collection: a recommendation in sentences, and the numbers behind it.

    Errors come from theory; the attack is simulated.

    Parameters
    ----------
    data : Dataset, str or path
        The frequencies to plan for: a data set, the name of one, or the path of a table.
    spec : Spec, optional
        What to run.  Fields that are given as keywords replace its own.
    users : int or list of int, optional
        Numbers of users with these frequencies.  Default: the data set's own.
    target : float, str or mapping, optional
        Margins to reach, for all columns or by name: 0.01, "1%", "sex=1%,city=0.5%" or {"sex": 0.01}.  95 % of the
        estimated frequencies of a column are within its margin.  Without `epsilons` the smallest epsilon that reaches
        them is looked for; rows have the users that they take.
    target_rmse : float, optional
        Find the users needed for this root mean square error over all columns instead.
    against : {'users', 'population'}
        What errors are measured against: the frequencies of these users, or of the population that they are drawn from.
    postprocess : {'none', 'clip'}
        Post-processing of the estimates.
    attack : bool
        Simulate an attacker's guesses, unless the domains are too large for that.
    **fields
        The fields of `Spec`.

    Returns
    -------
    Planned
        A list with a `PlanRow` for each number of users, protocol and epsilon; its `decisions` have the recommendation
        for each number of users: `sentences`, `more`, `left_out` and `columns`.

    Raises
    ------
    InputError
        If an option or its value is not valid.

    Examples
    --------
    >>> import gpu_rsfd
    >>> found = gpu_rsfd.plan("nursery", epsilons=[1.0, 3.0], protocols=["rsfd-adp", "smp-adp"], attack=False)
    >>> [row.protocol for row in found if row.epsilon == 1.0]
    ['rsfd-adp', 'smp-adp']
    >>> found.decisions[0].label, found.decisions[0].epsilon
    ('Smp[ADP]', 1.0)
    """
    free = spec is None and "epsilons" not in fields
    return planned(
        as_dataset(data),
        Spec.of_command("plan", spec, fields),
        Question(users, target, target_rmse, against, postprocess, attack, free),
    )


class Question(NamedTuple):
    """What is asked of a plan besides its spec."""

    users: int | Sequence[int] | None = None
    target: Any = None
    target_rmse: float | None = None
    against: str = "users"
    postprocess: str = "none"
    attack: bool = True
    free: bool = False  # whether the epsilon for a target may be another than those of the spec


def planned(data: Dataset, spec: Spec, asked: Question, reporter: Silent | None = None) -> Planned:
    """`plan`; a reporter is told how far a long attack is."""
    sizes = [data.n] if asked.users is None else [asked.users] if isinstance(asked.users, int) else list(asked.users)
    if not sizes:
        raise InputError("users is an empty list; at least one number of users is needed")
    targets = read_targets(asked.target, data.names)
    if targets and asked.target_rmse is not None:
        raise InputError("target and target_rmse exclude each other; give one of them")
    settings, frequencies = spec.settings_for(data), data.frequencies
    truths = [Truth(f) for f in attributes_of(data.domain, frequencies)] if targets and asked.free else []
    cases, specs, tables = [], [], []
    for n in sizes:
        setting = Setting(n, spec.assignment, asked.postprocess, asked.against)
        used = spec
        if truths:
            found = smallest_epsilon(spec.protocols, data.domain, settings, truths, targets, setting)
            if found is not None and found not in spec.epsilons:
                used = replace(spec, epsilons=tuple(sorted((*spec.epsilons, found))))
        rest = spec.assignment, asked.target_rmse, asked.postprocess, asked.against, settings, targets
        tables.append(plan_table(n, data.domain, used.epsilons, spec.protocols, frequencies, *rest))
        compiled = Plan.of(data.domain, spec.protocols, used.epsilons, spec.assignment, settings)
        cases.append(Case(compiled, data.names, frequencies, setting, targets, searched=bool(truths)))
        specs.append(used)
    chosen = [choose(case) for case in cases]
    risks: list[Risk | None] = [None] * len(cases)
    if asked.attack:
        tables, risks = _attacked(tables, cases, chosen, spec, settings, reporter or Silent())
    decisions = [
        decided(
            case,
            choice,
            data.name,
            spec.guarantee,
            risk,
            _command(data, used, case.setting.n),
            _alone(case, choice, spec, settings),
        )
        for case, choice, used, risk in zip(cases, chosen, specs, risks, strict=True)
    ]
    rows = [row for rows in tables for row in marked(rows)]
    return Planned(rows, decisions, list(zip(cases, chosen, strict=True)))


def decided(
    case: Case,
    chosen: Choice | None,
    name: str,
    guarantee: str,
    risk: Risk | None,
    command: str | None = None,
    alone: Sequence[float] = (),
) -> Decision:
    """A decision with its sentences."""
    decision = decide(case, chosen, name, guarantee, risk)
    said, more, left_out = sentences(case, decision, chosen, alone)
    return replace(decision, sentences=said, more=more, left_out=left_out, command=command)


def _alone(case: Case, chosen: Choice | None, spec: Spec, settings: PrivacySettings) -> list[float]:
    """The margins of the columns that are not left out, if they alone are collected; none if nothing is left out."""
    if chosen is None or case.targets or len(chosen.columns) == case.plan.d:
        return []
    kept, epsilon = chosen.columns, case.plan.epsilons[chosen.epsilon]
    priors = None if settings.priors is None else tuple(settings.priors[j] for j in kept)
    domain, fewer = [case.plan.domain[j] for j in kept], replace(settings, priors=priors)
    ms = mechanisms(spec.protocols[chosen.protocol], epsilon, domain, fewer)
    return [Accuracy(m, case.truths[j], i, case.setting).margin for i, (m, j) in enumerate(zip(ms, kept, strict=True))]


def _attacked(
    tables: Sequence[Sequence[PlanRow]],
    cases: Sequence[Case],
    chosen: Sequence[Choice | None],
    spec: Spec,
    settings: PrivacySettings,
    reporter: Silent,
) -> tuple[list[list[PlanRow]], list[Risk | None]]:
    """The rows with what is guessed, which is the same for any number of users; and what is guessed of each choice."""
    epsilons = tuple(dict.fromkeys(e for case in cases for e in case.plan.epsilons))
    domain, frequencies = cases[0].plan.domain, cases[0].frequencies
    every = Plan.of(domain, spec.protocols, epsilons, spec.assignment, settings)
    total = sum(users * work_of(part) for users, part in passes(every))
    if total > LONG:
        reporter.begin(total, 0)
        reporter.dataset("attack")
    found = guessed(every, frequencies, advance=reporter.advance if total > LONG else lambda done: None)
    risks = [
        None
        if choice is None
        else risk_of(every, choice.protocol, epsilons.index(case.plan.epsilons[choice.epsilon]), frequencies, found)
        for case, choice in zip(cases, chosen, strict=True)
    ]
    return [[_with_attack(row, every, found) for row in rows] for rows in tables], risks


def _with_attack(row: PlanRow, plan: Plan, found: Guessed) -> PlanRow:
    p, e = plan.protocols.index(row.protocol), plan.epsilons.index(row.epsilon)
    if not np.isfinite(found.values[p, e]).any():
        return row
    return row._replace(
        sampled=float(found.sampled[p, e]),
        sampled_baseline=1 / plan.d,
        value=float(found.values[p, e].mean()),
        value_baseline=float(found.baselines[e].mean()),
        attacked_users=found.users[e],
    )


def _command(data: Dataset, spec: Spec, n: int) -> str | None:
    """The sweep over the same data, protocols and epsilons; None where no command gives these data."""
    if n != data.n:
        return None
    sampler = "marginals" if not data.has_rows else "counts" if n * data.domain.total > MANY else spec.sampler
    run = {**spec.described(), "datasets": [data.describe()], "sampler": sampler}
    text = command_of(run, "sweep", f"{data.name}.h5")
    if text is None or data.origin is None:
        return text
    path, options = data.origin  # where the files are: a results file keeps their names alone
    files = [Path(file) for file in (path, options.get("domain_file")) if file is not None]
    here = Path.cwd()
    places = {file.name: str(file.relative_to(here) if file.is_relative_to(here) else file) for file in files}
    return shlex.join([places.get(word, word) for word in shlex.split(text)])


def marked(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """The rows, each with whether it is Pareto-optimal in error and losses."""
    keys = [(row.rmse, row.loss_one, row.loss_all) for row in rows]
    return [row._replace(non_dominated=not _dominated(key, keys)) for row, key in zip(rows, keys, strict=True)]


def _dominated(key: tuple[float, ...], keys: Sequence[tuple[float, ...]]) -> bool:
    if any(map(math.isnan, key)):
        return True
    return any(
        all(a <= b * (1 + TIE) for a, b in zip(other, key, strict=True))
        and any(a < b * (1 - TIE) for a, b in zip(other, key, strict=True))
        for other in keys
    )
