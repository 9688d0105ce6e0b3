"""What to decide by before a collection: the error of each protocol, what its reports give away, a recommendation."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpu_rsfd.checks import check_users, integer
from gpu_rsfd.command import command_of, own_data
from gpu_rsfd.datasets import as_dataset
from gpu_rsfd.datasets.base import MIN_COUNT, MOST_ROUNDS, Dataset, Labels, publishable
from gpu_rsfd.datasets.table import looks_personal
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.late import provided
from gpu_rsfd.measure import Rounds
from gpu_rsfd.options import whole, with_keywords
from gpu_rsfd.planning import Plan, plan_for
from gpu_rsfd.protocols import PrivacySettings, Protocol, mechanisms
from gpu_rsfd.running.collect import Silent
from gpu_rsfd.spec import FIELDS, Spec
from gpu_rsfd.theory.attacked import Guessed, OverRounds, guessed, over_rounds, passes, risk_of, work_of
from gpu_rsfd.theory.expected import SURVEY, Accuracy, Floats, Terms, Truth, accuracies, attributes_of
from gpu_rsfd.theory.needs import LARGEST, Candidates, PlanRow, digits, reached, read_targets
from gpu_rsfd.theory.words import LIARS, Decision, Forecast, cut, posterior, said

TIE = 1e-3  # relative: errors and losses closer than this are equal, as thresholds are rounded
LONGITUDINAL = ("*-l-grr", "*-l-osue*")  # what is planned for rounds, if no protocol is given
MANY = 1 << 26  # users x values; the evidence for more comes from the exact distribution of the counts
LONG = 1 << 23  # bits that are drawn for reports; a plan that attacks with more says how far it is


class Planned(list[PlanRow]):
    """The rows of a plan, and a decision for each number of users.

    Attributes
    ----------
    decisions : tuple of Decision
        In the order of the numbers of users.
    """

    def __init__(self, rows: list[PlanRow], decisions: list[Decision], candidates: list[Candidates]) -> None:
        super().__init__(rows)
        self.decisions, self.candidates = tuple(decisions), tuple(candidates)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.decisions))

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences of the first decision."""
        return self.decisions[0].sentences

    @property
    def columns(self) -> tuple[Forecast, ...]:
        """What to expect of each column, by the first decision."""
        return self.decisions[0].columns

    def plot(self) -> Any:
        """The figure of `gpu-rsfd plan --plot`, a Matplotlib figure."""
        return provided("planned").figure(self)


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
    survey: float = SURVEY,
    sensitive: str | None = None,
    rounds: int | None = None,
    change: float | None = None,
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
        Margins to reach, for all columns or by name: `0.01`, `"1%"`, `"sex=1%,city=0.5%"` or `{"sex": 0.01}`.  95 % of
        the estimated frequencies of a column are within its margin.  Without `epsilons`, the smallest epsilon that
        reaches them is looked for; rows have the users that they take.
    target_rmse : float, optional
        Find the users needed for this root mean square error over all columns instead.
    against : {'users', 'population'}
        What errors are measured against: the frequencies of these users, or of the population that they are drawn from.
    postprocess : {'none', 'clip'}
        Post-processing of the estimates.
    attack : bool
        Simulate an attacker's guesses, unless the domains are too large for that.
    survey : float
        A column is useful if it tells as much as asking so many people without privacy, or is within 1 point.
    sensitive : str, optional
        The value whose probability a report raises, as `"HIV=yes"`.  Default: the rarest one that has a label.
    rounds : int, optional
        Say what users have spent after so many rounds of a longitudinal protocol, and what an attacker then guesses.
    change : float, optional
        With ``rounds``, the probability that a user draws a new value of a column before a round.  Default: 0.
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
    >>> two = ["rsfd-adp", "smp-adp"]
    >>> found = gpu_rsfd.plan("nursery", epsilons=[1.0, 3.0], protocols=two, attack=False)
    >>> [row.protocol for row in found if row.epsilon == 1.0]
    ['rsfd-adp', 'smp-adp']
    >>> found.decisions[0].label, found.decisions[0].epsilon
    ('Smp[ADP]', 3.0)
    """
    free = spec is None and "epsilons" not in fields
    fields = fields if rounds is None or spec is not None else {"protocols": LONGITUDINAL, **fields}
    return planned(
        as_dataset(data),
        Spec.of_command("plan", spec, fields),
        Question(users, target, target_rmse, against, postprocess, attack, free, survey, sensitive, rounds, change),
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
    survey: float = SURVEY
    sensitive: str | None = None
    rounds: Any = None
    change: Any = None

    def collection(self, data: Dataset, spec: Spec) -> Rounds | None:
        """The rounds that are asked for; an error if they can't be collected."""
        if self.rounds is None and self.change is None:
            return None
        if self.rounds is None:
            raise InputError(f"change={self.change} needs rounds, such as --rounds 12")
        rounds = integer("rounds", whole("rounds", self.rounds), 1, MOST_ROUNDS)
        if data.rounds > 1:
            raise InputError(f"rounds={rounds}, but {data.name!r} has its own; gpu-rsfd rounds simulates these")
        plan_for(spec, data, memo=True)
        return Rounds(rounds=rounds, change=0.0 if self.change is None else self.change, attack=self.attack)


def planned(data: Dataset, spec: Spec, asked: Question, reporter: Silent | None = None) -> Planned:
    """`plan`; a reporter is told how far a long attack is."""
    sizes = [data.n] if asked.users is None else [asked.users] if isinstance(asked.users, int) else list(asked.users)
    if not sizes:
        raise InputError("users is an empty list; at least one number of users is needed")
    targets = read_targets(asked.target, data.names)
    if targets and asked.target_rmse is not None:
        raise InputError("target and target_rmse exclude each other; give one of them")
    settings, (frequencies, least), collection = spec.settings_for(data), _shown(data), asked.collection(data, spec)
    rows = data if data.has_rows and data.n * data.d <= MANY else None
    searched = bool(targets) and asked.free
    truths = attributes_of(data.domain, frequencies) if searched else ()
    candidates, specs = [], []
    for n in sizes:
        terms = Terms(check_users(n), spec.assignment, asked.postprocess, asked.against, asked.survey).check()
        used, found = spec, 0.0
        if searched:
            found = _smallest_epsilon(spec, data.domain, settings, truths, targets, terms)
            if found > 0 and found not in spec.epsilons:
                used = replace(spec, epsilons=tuple(sorted((*spec.epsilons, found))))
        compiled = Plan.of(data.domain, spec.protocols, used.epsilons, spec.assignment, settings)
        wanted = data.names, targets, asked.target_rmse, found
        candidates.append(Candidates(compiled, frequencies, terms, *wanted))
        specs.append(used)
    epsilons = dict.fromkeys(e for each in candidates for e in each.plan.epsilons)  # each may have one of its own
    every = Plan.of(data.domain, spec.protocols, tuple(epsilons), spec.assignment, settings)
    guesses = _attacked(every, frequencies, rows, reporter or Silent()) if asked.attack else None
    found_rows, decisions = [], []
    for each, used in zip(candidates, specs, strict=True):
        table, risk = each.rows, None
        if guesses is not None:  # the same for any number of users
            table = [_with_attack(row, every, guesses) for row in table]
            if each.choice is not None:
                p, e = each.choice.protocol, every.epsilons.index(each.plan.epsilons[each.choice.epsilon])
                risk = risk_of(every, p, e, frequencies, guesses.get((p, e)), rows)
        found_rows += marked(table)
        value = _sensitive(asked.sensitive, data.names, data.labels, every, frequencies, data.n, least)
        if collection is not None:
            p, e = each.cell
            one = replace(used, protocols=(used.protocols[p],), epsilons=(used.epsilons[e],))
            over = over_rounds(collection, one, data.domain, frequencies)
            value["rounds"] = over._replace(command=_command(data, one, each.terms.n, over))
        about = Decision(data.name, each.terms.n, spec.guarantee, command=_command(data, used, each.terms.n), **value)
        decisions.append(_decided(about, each, risk, _alone(each, spec, settings)))
    return Planned(found_rows, decisions, candidates)


def recommended(
    plan: Plan,
    n: int,
    names: Sequence[str],
    frequencies: Floats,
    dataset: str,
    guarantee: str,
    least: int = MIN_COUNT,
    labels: Labels | None = None,
) -> Decision:
    """The decision among protocols and epsilons that were run, for a table of one's own with these frequencies."""
    frequencies = publishable(np.rint(frequencies * n).astype(np.int64), plan.domain, least)
    candidates = Candidates(plan, frequencies, Terms(n, plan.assignment), names)
    risk = None if candidates.choice is None else risk_of(plan, *candidates.cell, frequencies)
    value = _sensitive(None, names, labels, plan, frequencies, n, least)
    return _decided(Decision(dataset, n, guarantee, **value), candidates, risk)


def _shown(data: Dataset) -> tuple[Floats, int]:
    """The frequencies to decide by, and the smallest count that is said; one's own table gives no rare value away."""
    if data.name not in own_data({"datasets": [data.describe()]}):
        return data.frequencies, 0
    least = int(data.origin[1].get("min_count", MIN_COUNT)) if data.origin else MIN_COUNT
    return publishable(data.counts, data.domain, least), least


def _sensitive(
    wanted: str | None, names: Sequence[str], labels: Labels | None, plan: Plan, frequencies: Floats, n: int, least: int
) -> dict[str, Any]:
    """The value that is asked for, else the rarest one that has a label to show, and its frequency or a bound of it."""
    found = []
    for name, columns, row in zip(names, plan.domain.slices, labels or map(range, plan.domain), strict=True):
        texts, shares = [*map(str, row)], frequencies[columns]
        if wanted or (labels and not looks_personal(texts, np.rint(shares * n).astype(np.int64))):
            found += [(f, name, text) for f, text in zip(shares.tolist(), texts, strict=True)]
    some = [each for each in found if ("=".join(each[1:]) == wanted if wanted else each[0] > 0)]
    if wanted and not some:
        raise InputError(
            f"sensitive={wanted} names no value of a column; one such as {'='.join(found[0][1:])} is needed"
        )
    if not some:
        return {}
    share, name, text = min(some, key=lambda each: each[0])
    said = f"{cut(name)} {cut(text)}" if text[0] in "<≥" else f"{cut(name)} = {cut(text)}"
    return {"sensitive": said, "probability": max(share, least / n), "bounded": share * n <= least}


def _decided(about: Decision, candidates: Candidates, risk: Guessed | None, alone: Sequence[float] = ()) -> Decision:
    """A decision with its numbers and sentences; if no column is useful, with those of the largest epsilon."""
    row, look, chosen = candidates.row(*candidates.cell), candidates.plan.looks[candidates.cell[0]], candidates.choice
    decision = replace(
        about,
        epsilon=row.epsilon,
        columns=tuple(_forecast(candidates, j, risk) for j in range(candidates.plan.d)),
        loss_one=row.loss_one,
        loss_all=row.loss_all,
        users_needed=row.users_needed if candidates.targets else None,
        attacked_users=risk.users if risk else 0,
        raised=posterior(about.probability, row.loss_all),
    )
    if chosen is not None:
        decision = replace(decision, protocol=look.name, label=look.label, reached=chosen.reached)
    return said(candidates, decision, alone)


def _forecast(candidates: Candidates, j: int, risk: Guessed | None) -> Forecast:
    """What to expect of one column."""
    (p, e), plan, truth, target = candidates.cell, candidates.plan, candidates.truths[j], candidates.targets.get(j)
    accuracy = candidates.accuracy(p, e, j)
    useful = accuracy.useful or (target is not None and accuracy.margin <= target)
    best = plan.protocols[candidates.smallest(e, range(len(plan.looks)), [j])]
    needed = None if useful else candidates.users_to_be_useful(p, e, j)
    guesses = (float(risk.values[j]), float(risk.baselines[j])) if risk else (math.nan, math.nan)
    errors = accuracy.margin, math.sqrt(accuracy.mse), accuracy.hidden, int((truth.all > 0).sum())
    told = accuracy.survey, accuracy.seen, accuracy.silent, _lie(candidates, j)
    about = candidates.names[j], truth.k, plan.mechanism(p, e, j).name
    every: Any = *about, *errors, best, useful, needed, target, *guesses, *told
    return Forecast(*every)


def _lie(candidates: Candidates, j: int) -> float:
    """By how much users who lie, LIARS of all, can raise the share of a value of a column.

    They replace honest users and say what supports that value.  With Smp, all of them can say it of this column,
    unless the server assigns the columns.
    """
    (p, e), plan = candidates.cell, candidates.plan
    m, together = plan.mechanism(p, e, j), plan.partial[p] and plan.assignment == "uniform"
    share = plan.d * LIARS / (1 + (plan.d - 1) * LIARS) if together else LIARS
    return share * float(np.max((1 - m.base) / m.gain - candidates.truths[j].all))


def _alone(candidates: Candidates, spec: Spec, settings: PrivacySettings) -> list[float]:
    """The margins of the columns that are not left out, if they alone are collected; none if nothing is left out."""
    chosen, plan = candidates.choice, candidates.plan
    if chosen is None or candidates.targets or len(chosen.columns) == plan.d:
        return []
    kept = chosen.columns
    priors = None if settings.priors is None else tuple(settings.priors[j] for j in kept)
    domain, fewer = [plan.domain[j] for j in kept], replace(settings, priors=priors)
    ms = mechanisms(spec.protocols[chosen.protocol], plan.epsilons[chosen.epsilon], domain, fewer)
    return [a.margin for a in accuracies(ms, [candidates.truths[j] for j in kept], candidates.terms)]


def _attacked(plan: Plan, frequencies: Floats, rows: Dataset | None, reporter: Silent) -> dict[Any, Guessed]:
    """What is guessed; a long attack says how far it is."""
    total = sum(users * work_of(part) for users, part in passes(plan))
    reporter = reporter if total > LONG else Silent()
    reporter.begin(total, 0)
    reporter.dataset("attack")
    return guessed(plan, frequencies, advance=reporter.advance, rows=rows)


def _with_attack(row: PlanRow, plan: Plan, guesses: Mapping[tuple[int, int], Guessed]) -> PlanRow:
    found = guesses.get((plan.protocols.index(row.protocol), plan.epsilons.index(row.epsilon)))
    if found is None:
        return row
    sampled: Any = {"sampled": found.sampled, "sampled_baseline": 1 / plan.d, "attacked_users": found.users}
    return row._replace(value=float(found.values.mean()), value_baseline=float(found.baselines.mean()), **sampled)


def _command(data: Dataset, spec: Spec, n: int, over: OverRounds | None = None) -> str | None:
    """The sweep of the same data, protocols and epsilons, or its rounds; None where no command gives these data."""
    if n != data.n:
        return None
    sampler = "marginals" if not data.has_rows else "counts" if n * data.domain.total > MANY else spec.sampler
    run = {**spec.described(), "datasets": [data.describe()], "sampler": sampler}
    if over is not None:
        run |= {"measurement": "rounds", "sampler": "users", "repetitions": (0, 10, 1), "attack": over.users > 0}
        run |= {"rounds": over.rounds, "change": over.change}
    text = command_of(run, output=f"{data.name}{'-rounds' * (over is not None)}.h5")
    if text is None or data.origin is None:
        return text
    path, options = data.origin  # where the files are: a results file keeps their names alone
    files = [Path(file) for file in (path, options.get("domain_file")) if file is not None]
    here = Path.cwd()
    places = {file.name: str(file.relative_to(here) if file.is_relative_to(here) else file) for file in files}
    return shlex.join([places.get(word, word) for word in shlex.split(text)])


def marked(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """The rows, each with whether it is Pareto-optimal in error and losses."""
    keys = np.array([(row.rmse, row.loss_one, row.loss_all) for row in rows])
    marks = []
    for key in keys:
        beaten = (keys <= key * (1 + TIE)).all(axis=1) & (keys < key * (1 - TIE)).any(axis=1)
        marks.append(not beaten.any() and not np.isnan(key).any())
    return [row._replace(non_dominated=bool(mark)) for row, mark in zip(rows, marks, strict=True)]


def _smallest_epsilon(
    spec: Spec, domain: Domain, settings: PrivacySettings, truths: Sequence[Truth], targets: Any, terms: Terms
) -> float:
    """An epsilon of three digits at which a protocol meets all targets, and none does at the next smaller one."""

    def fits(protocol: str | Protocol, place: int) -> bool:
        try:
            ms = mechanisms(protocol, digits(place), domain, settings)
        except InputError:  # too small, or too large, for this protocol
            return False
        return reached(lambda j: Accuracy(ms[j], truths[j], j, terms), targets)

    best = LARGEST + 1
    for protocol in spec.protocols:
        low, high = -1, min(best, LARGEST)
        if not fits(protocol, high):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(protocol, middle) else (middle, high)
        best = high
    while 0 < best <= LARGEST and any(fits(protocol, best - 1) for protocol in spec.protocols):
        best -= 1  # an error may rise with epsilon where a protocol changes its noise
    return digits(best) if best <= LARGEST else math.nan
