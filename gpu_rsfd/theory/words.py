"""A decision, and sentences that say it to people who have not read the paper.  Every number in them is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpu_rsfd.options import counted, show_epsilon
from gpu_rsfd.theory.attacked import OverRounds
from gpu_rsfd.theory.expected import TWO_SIDED
from gpu_rsfd.theory.needs import LARGEST, Candidates, Choice, below, digits

MEANING = {  # what epsilon limits
    "user": "epsilon limits what {} about a user as a whole",
    "attribute": "epsilon limits what {} about one column of a user",
    "paper": "epsilon limits different things in different protocols",
}
MOST_COLUMNS = 6  # that a sentence names one by one
LONGEST = 32  # letters of a name
SCALES = ((" billion", 10**9), (" million", 10**6))
LIARS = 0.01  # of all users
WEAK = 20.0  # odds above which the sentence warns
SUSPECTED = 0.05  # what the warning starts from
CERTAIN = 4.0  # standard errors: a gain below so many may be chance


class Forecast(NamedTuple):
    """What to expect of one column under the recommendation.  Errors are parts of 1: 0.012 is 1.2 points.

    Attributes
    ----------
    name : str
        The column.
    values : int
        Number of its values.
    noise : str
        How it is randomised: `grr`, `oue-z`, …
    margin : float
        95 % of its estimated frequencies are within this of the truth.
    rmse : float
        Root mean square error of its estimated frequencies.
    hidden : int
        Number of its values that can't be distinguished from zero.
    held : int
        Number of its values that anybody holds.
    best : str
        The protocol with the smallest error of this column at the same epsilon.
    useful : bool
        Whether it tells as much as a survey of 100 people, is within 1 point, or meets its target.
    users_needed : int or None
        Where it is not useful: from how many users on it is.
    target : float or None
        The margin that was asked for.
    guessed, guessed_baseline : float
        Share of users whose value an attacker guesses, and what can be guessed without a report; with Smp, of those who
        send the column.
    survey : float
        Number of people who, asked without privacy, would tell as much; NaN if all users hold one value.
    seen : float
        Share of users whose value can be distinguished from zero.
    silent : float
        Probability that nobody reports the column.
    lie : float
        By how much 1 % of the users can raise the share of a value if they lie.
    """

    name: str
    values: int
    noise: str
    margin: float
    rmse: float
    hidden: int
    held: int
    best: str
    useful: bool
    users_needed: int | None = None
    target: float | None = None
    guessed: float = math.nan
    guessed_baseline: float = math.nan
    survey: float = math.nan
    seen: float = math.nan
    silent: float = 0.0
    lie: float = math.nan


@dataclass(frozen=True)
class Decision:
    """A recommendation and the numbers behind it.

    Attributes
    ----------
    dataset : str
        What it is for.
    users : int
        How many users.
    guarantee : str
        What epsilon bounds.
    protocol, label : str
        The recommended protocol; empty if no column is useful.
    epsilon : float
        The recommended epsilon.
    columns : tuple of Forecast
        Every column, also those that are left out (`useful` is False).
    loss_one, loss_all : float
        The exact privacy loss between users who differ in one attribute, and between any two users.
    reached : bool or None
        Whether the targets are met; None without targets.
    users_needed : int or None
        The smallest number of users that meets the targets at this epsilon.
    attacked_users : int
        Users of the simulated attack; 0 if there was none, or what is guessed is exact.
    sensitive : str
        The value whose probability a report raises; empty if none has a label.
    probability : float
        Its probability before.
    bounded : bool
        Whether it may be less, as for a rare value of one's own table.
    raised : float
        At most what it is after a report, as columns may depend on each other.
    rounds : OverRounds or None
        What is spent, and then guessed, over rounds; None if that is not asked for.
    sentences : tuple of str
        Which, how accurate, how risky, how robust; with rounds, what is spent and what is then guessed.
    more : str
        What more users or another epsilon would buy.
    left_out : str
        The columns that are not useful, and why; empty if all are.
    command : str or None
        The sweep that shows the evidence; `rounds.command` simulates what is spent and guessed over rounds.
    """

    dataset: str
    users: int
    guarantee: str
    protocol: str = ""
    label: str = ""
    epsilon: float = math.nan
    columns: tuple[Forecast, ...] = ()
    loss_one: float = math.nan
    loss_all: float = math.nan
    reached: bool | None = None
    users_needed: int | None = None
    attacked_users: int = 0
    sensitive: str = ""
    probability: float = math.nan
    bounded: bool = False
    raised: float = math.nan
    rounds: OverRounds | None = None
    sentences: tuple[str, ...] = ()
    more: str = ""
    left_out: str = ""
    command: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return "\n".join(filter(None, (*self.sentences, self.more, self.left_out)))

    @property
    def useful(self) -> tuple[Forecast, ...]:
        """The columns that the recommendation is for."""
        return tuple(column for column in self.columns if column.useful)


def points(share: float) -> str:
    """0.0123 as `1.3`: points with two digits (11.1 with three), rounded up so that what is said of them holds."""
    if not math.isfinite(share):
        return "∞" if share == math.inf else "?"
    if share <= 0:
        return "0"
    shown, digits = 100 * share, 0
    for _ in range(2):  # rounding up may add a digit: 0.996 becomes 1.0
        digits = 0 if shown >= 100 else max(1, 1 - math.floor(math.log10(shown)))
        shown = math.ceil(round(shown * 10**digits, 6)) / 10**digits
    return f"{shown:,.{digits}f}"


def factor(loss: float) -> str:
    """e^loss, rounded up."""
    if not loss < math.log(1e9):
        return "more than a billion"
    value = round(math.exp(loss), 6)
    digits = 2 if value < 2 else 1 if value < 100 else 0  # e^0.1 is 1.11, not 1.2
    return f"{math.ceil(round(value * 10**digits, 3)) / 10**digits:,.{digits}f}"


def people(number: float) -> str:
    """How many are asked, rounded down to two digits."""
    if not number >= 2:
        return "one person" if number >= 1 else "less than one person" if number > 0 else "–"
    unit = 10 ** max(math.floor(math.log10(number)) - 1, 0)
    return f"{math.floor(number / unit) * unit:,} people"


def about(users: int) -> str:
    """A number that is uncertain, rounded up to two digits."""
    unit = 10 ** max(len(str(users)) - 2, 0)
    shown = -(-users // unit) * unit
    name, size = next(((name, size) for name, size in SCALES if shown >= size), ("", 1))
    return f"about {shown / size:,.{1 if name and shown < 10 * size else 0}f}{name}"


def percent(share: float) -> str:
    """A share in whole percent, rounded down."""
    return f"{math.floor(100 * share + 1e-9)} %" if share >= 0.01 else "less than 1 %"


def cut(name: str) -> str:
    """A name that is not too long."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def said(candidates: Candidates, decision: Decision, alone: Sequence[float]) -> Decision:
    """The decision with its sentences.

    `alone`: the margins of the columns that are not left out, if the others are not collected at all.
    """
    chosen, rounds = candidates.choice, decision.rounds
    over = () if rounds is None else _over_rounds(candidates, decision, rounds)
    if chosen is None:
        return replace(decision, sentences=(*_useless(candidates, decision), *over))
    sentences = *(each(candidates, decision) for each in (_which, _accurate, _risky, _robust)), *over
    more, left_out = _more(candidates, chosen), _left_out(candidates, decision, alone)
    return replace(decision, sentences=sentences, more=more, left_out=left_out)


def _under(candidates: Candidates, decision: Decision) -> str:
    what = "all reports of one value reveal" if candidates.row(*candidates.cell).first_report else "a report reveals"
    return f"the guarantee {decision.guarantee} ({MEANING[decision.guarantee].format(what)})"


def _which(candidates: Candidates, decision: Decision) -> str:
    chosen = candidates.choice
    assert chosen is not None
    tried, shown = len(candidates.plan.epsilons), show_epsilon(decision.epsilon)
    epsilon = f"{shown} ({decision.epsilon:.2f})" if shown.startswith("ln") else shown
    if chosen.reached:
        which = "it" if tried == 1 or candidates.searched else "the smallest epsilon of those given that"
        why = f"{which} reaches the target with {counted(decision.users, 'user')}"
        if candidates.searched == decision.epsilon:
            why += f", and epsilon = {below(decision.epsilon):g} does not with any protocol tried"
    elif chosen.reached is False:
        needed = "which no number of users reaches"
        if decision.users_needed is not None:
            needed = f"which takes {about(decision.users_needed)} users, not {decision.users:,}"
        why = f"of what was tried, it comes closest to the target, {needed}"
        if candidates.searched:
            why = f"epsilon = {digits(LARGEST):g} does not reach the target either; {why}"
    elif tried == len(candidates.plan.looks) == 1:
        why = "the only protocol and epsilon tried"
    else:
        useful, every = len(decision.useful), candidates.plan.d
        number = f"all {every:,} columns are" if useful == every else f"{useful:,} of {every:,} columns are"
        number = "the column is" if every == 1 else number.replace(" are", " is") if useful == 1 else number
        why = f"the smallest epsilon tried at which {number} useful"
        if tried == 1:
            why = f"{number} useful, and of the protocols tried that achieve this, it has the smallest error there"
        elif useful < every and chosen.epsilon != candidates.ascending[-1]:
            why += ", no fewer than at the largest"
    return f"Use {decision.label} with epsilon = {epsilon} under {_under(candidates, decision)}: {why}."


def _accurate(candidates: Candidates, decision: Decision) -> str:
    columns = decision.useful or decision.columns
    if candidates.targets:
        columns = tuple(column for column in decision.columns if column.target is not None)
    if len(columns) <= MOST_COLUMNS:
        said = "; ".join(_column(c, first=c is columns[0]) for c in columns)
    else:
        ranked = sorted(columns, key=lambda column: column.margin)
        ends = [f"± {points(column.margin)} points ({cut(column.name)})" for column in (ranked[0], ranked[-1])]
        said = f"between {' and '.join(ends)} in {len(columns):,} columns"
        if points(ranked[0].margin) == points(ranked[-1].margin):
            said = f"± {points(ranked[-1].margin)} points in all {len(columns):,} columns"
        if asked := [c.survey for c in columns if not math.isnan(c.survey)]:
            numbers = dict.fromkeys(map(people, (min(asked), max(asked))))
            said += f", as accurate as asking {' to '.join(numbers).replace(' people to', ' to')} without privacy"
        seen = _seen(columns, f"in each column those of at least {percent(min(c.seen for c in columns))} of users")
        said += f"; {seen}" if seen else ""
    truth = "the truth" if candidates.terms.against == "users" else "the population's"
    return f"With {counted(decision.users, 'user')}, 95 % of the estimated shares are this close to {truth}: {said}."


def _column(column: Forecast, first: bool) -> str:
    asked = f", as {'accurate as ' * first}asking {people(column.survey)}{' without privacy' * first}"
    asked = ", all users hold one value" if math.isnan(column.survey) else asked
    seen = _seen([column], f"those of {percent(column.seen)} of users")
    seen = f"nobody reports it with a chance of {percent(column.silent)}" if math.isinf(column.margin) else seen
    return f"{cut(column.name)} ± {points(column.margin)} points{asked}{f' ({seen})' if seen else ''}"


def _seen(columns: Sequence[Forecast], whose: str) -> str:
    hidden, held = (sum(getattr(column, name) for column in columns) for name in ("hidden", "held"))
    if hidden == held:
        return "no value can be distinguished from zero"
    return f"{held - hidden:,} of {held:,} values can be distinguished from zero, {whose}" if hidden else ""


def _risky(candidates: Candidates, decision: Decision) -> str:
    row, others = candidates.row(*candidates.cell), candidates.plan.partial[candidates.cell[0]]
    report = "The first report" if row.first_report else "A report"
    claimed = ", as its author claims" if row.claimed else ""
    odds = f"changes the odds of anything about a user by a factor of at most {factor(decision.loss_all)}{claimed}"
    if decision.guarantee != "user" and decision.loss_one < decision.loss_all * (1 - 1e-3):
        odds += f" (of one column, if the others are known: {factor(decision.loss_one)})"
    if decision.loss_all > math.log(WEAK) + 1e-6:
        after = posterior(SUSPECTED, decision.loss_all)
        odds += f", which is weak protection: what was {100 * SUSPECTED:.0f} % likely can become {rising(after)} likely"
    if not row.first_report:
        odds += "; every further report, say each month, costs as much again"
    raised = f" {_raised(decision, report if row.first_report else 'It')}" if decision.sensitive else ""
    if math.isnan(decision.columns[0].guessed):
        return f"{report} {odds}; what an attacker guesses was not simulated.{raised}"
    worst = max(decision.columns, key=lambda column: column.guessed - column.guessed_baseline)
    share, before, users = worst.guessed, worst.guessed_baseline, decision.attacked_users
    error = math.sqrt(max(share * (1 - share), 0.01) / users) if users else 0.0
    who = "Someone who sees a report, and knows only each column's statistics,"
    if share - before <= max(CERTAIN * error, 1e-9):
        low = max(share - before, 0) + CERTAIN * error
        gain = "guesses no value of a user right more often than without it"
        gain = gain.replace("more", "noticeably more") + f" (by less than {points(low)} points)" if users else gain
    else:
        digits = 0 if share - before >= 0.02 else 1
        now, blind = (f"{min(100 * x, 100 - 10.0**-digits if x < 1 else 100):.{digits}f} %" for x in (share, before))
        one = len(decision.columns) == 1
        where = ", if it is the column that is sent," * (others and not one)
        good = f" (± {points(TWO_SIDED * error)})" * (users > 0)
        gain = f"guesses a user's {cut(worst.name)}{where} right {now}{good} of the time instead of {blind}"
        gain += ", the largest gain of all columns" * (not one)
    return f"{who} {gain}; {report[0].lower()}{report[1:]} {odds}.{raised}"


def _over_rounds(candidates: Candidates, decision: Decision, found: OverRounds) -> tuple[str, ...]:
    """What users have spent after all rounds, and what an attacker then guesses."""
    (p, e), plan = candidates.cell, candidates.plan
    hides, most = plan.mechanism(p, e, 0).recipe.unsampled.hides, [max(truth.all) for truth in candidates.truths]
    mean, nine = (math.ceil(100 * x) / 100 for x in (found.spent, found.spent_nine_tenths))
    odds = f", nine in ten at most {nine:.2f}, a factor of {factor(nine)} in odds," * (nine > mean)
    spent = f"With {plan.looks[p].label} and epsilon = {show_epsilon(plan.epsilons[e])}, users have spent "
    spent += f"{'at most ' * hides}{mean:.2f} on average{odds} after {counted(found.rounds, 'round')}"
    spent += f", before each of which a value is drawn anew with probability {found.change:g}" * (found.change > 0)
    if decision.guarantee != "user" and decision.loss_one < decision.loss_all * (1 - 1e-3):
        spent += " (of one column, if the others are known)"
    spent += "; every further value that a user holds is paid for again, and reports show when it changes."
    spent += " The margins, and which columns are useful, are those of one round."
    if not found.users:
        return spent, "What an attacker guesses from all these reports was not simulated."
    of_all = f"of a user's values{', sent or not,' * plan.partial[p]} right"
    what = of_all, "of the surest guesses (one a user)", "of the sampled columns"
    pairs = (found.value, sum(most) / plan.d), (found.claim, max(most)), (found.sampled, 1 / plan.d)
    said = [f"{100 * a:.0f} % {of} instead of {100 * b:.0f} %" for of, (a, b) in zip(what, pairs, strict=True)]
    who = "Someone who sees all these reports, and knows each column's statistics and when values change,"
    return spent, f"{who} guesses {', '.join(said[: 2 + hides])} (of {found.users:,} simulated users)."


def posterior(share: float, loss: float) -> float:
    """What a probability is at most after a report with this loss: f E / (1 + f (E - 1)) with E = e^loss."""
    return share / (share + (1 - share) * math.exp(-loss)) if share > 0 else share


def rising(share: float) -> str:
    """A probability in percent, rounded up, but never to certainty."""
    return f"{points(share)} %" if share < 0.999 else "more than 99.9 %"


def _raised(decision: Decision, report: str) -> str:
    start = f"{decision.sensitive} from {'at most ' * decision.bounded}{points(decision.probability)} %"
    text = f"{report} can raise the probability of {start} to at most {rising(decision.raised)}"
    alone = posterior(decision.probability, decision.loss_one)
    less = f" ({rising(alone)} if no other column tells anything about it)"
    return f"{text}{less * (alone < decision.raised * (1 - 1e-3))}."


def _robust(candidates: Candidates, decision: Decision) -> str:
    columns = decision.columns if candidates.targets else decision.useful
    worst, several = max(columns, key=lambda column: column.lie), candidates.plan.d > 1
    lie, name, rise = f"If {100 * LIARS:.0f} % of the users lie", cut(worst.name), f"{points(worst.lie)} points"
    if several and candidates.plan.partial[candidates.cell[0]] and candidates.plan.assignment == "uniform":
        return f"{lie}, and all of them send {name}, they can raise the share of one of its values by up to {rise}."
    everywhere = ", and one in each other column at the same time" * several
    return f"{lie}, they can raise the share of a value of {name} by up to {rise}{everywhere}."


def _more(candidates: Candidates, chosen: Choice) -> str:
    p, e, columns, _ = chosen
    wide = max(columns, key=lambda j: candidates.accuracy(p, e, j).margin)
    name, now = cut(candidates.names[wide]), points(candidates.accuracy(p, e, wide).margin)
    twice = points(candidates.accuracy(p, e, wide, 2 * candidates.terms.n).margin)  # never wider
    what = f"the margin of {name}" if len(columns) == 1 else f"the widest margin, that of {name},"
    then = f"leave {what} at ± {now}" if twice == now else f"narrow {what} from ± {now} to ± {twice}"
    said = [f"Twice as many users would {then} points"]
    place, ascending = candidates.ascending.index(e), candidates.ascending
    for other in (ascending[i] for i in (place + 1, place - 1) if 0 <= i < len(ascending)):
        row, wider = candidates.row(p, other), candidates.accuracy(p, other, wide).margin
        verb = "widen" if wider > candidates.accuracy(p, e, wide).margin else "narrow"
        text = f"epsilon = {show_epsilon(row.epsilon)} (odds up to {factor(row.loss_all)}) would "
        text += f"leave it at ± {now} points" if points(wider) == now else f"{verb} it to ± {points(wider)} points"
        lost = [j for j in columns if not candidates.accuracy(p, other, j).useful]
        if lost and not candidates.targets:
            others = f" and {counted(len(lost) - 1, 'other column')}" if len(lost) > 1 else ""
            text += f", and make {cut(candidates.names[lost[0]])}{others} useless"
        said.append(text)
    return "; ".join(said) + "."


def _reason(column: Forecast) -> str:
    text = f"± {points(column.margin)} points"
    text += ", all users hold one value" if math.isnan(column.survey) else f", as asking {people(column.survey)}"
    if math.isinf(column.margin):
        text = f"nobody reports it with a chance of {percent(column.silent)}"
    needed = f"; useful from {about(column.users_needed)} users on" if column.users_needed is not None else ""
    return f"{cut(column.name)} ({text}{needed})"


def _less(candidates: Candidates) -> str:
    return f"less than asking {candidates.terms.survey:,g} people without privacy"


def _left_out(candidates: Candidates, decision: Decision, alone: Sequence[float]) -> str:
    out = [column for column in decision.columns if not column.useful]
    if not out:
        return ""
    shown = ", ".join(map(_reason, out[:MOST_COLUMNS]))
    more = f" and {counted(len(out) - MOST_COLUMNS, 'more column')}" if len(out) > MOST_COLUMNS else ""
    said = f"Better left out, since it would tell {_less(candidates)}: {shown}{more}"
    if not alone:
        return f"{said}."
    now = max(column.margin for column in decision.useful)
    them = "it" if len(out) == 1 else "them"
    wide = points(max(alone))
    return f"{said}; without collecting {them}, the widest margin would be ± {wide} points, not {points(now)}."


def _useless(candidates: Candidates, decision: Decision) -> tuple[str, ...]:
    reachable = [column for column in decision.columns if column.users_needed is not None]
    users, tried = counted(decision.users, "user"), ", the largest tried" * (len(candidates.plan.epsilons) > 1)
    first = f"Under {_under(candidates, decision)}, no column is worth collecting from {users}, not even with "
    first += f"epsilon = {show_epsilon(decision.epsilon)}{tried}: each would tell {_less(candidates)}."
    if not reachable:
        return (first,)
    easiest = min(reachable, key=lambda column: column.users_needed or 0)
    return first, f"The first to become useful would be {_reason(easiest)}."
