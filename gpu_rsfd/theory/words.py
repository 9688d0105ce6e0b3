"""A decision in sentences that people who have not read the paper understand.  Every number in them is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpu_rsfd.options import counted, show_epsilon
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.theory.choice import EPSILONS, Case, Choice, Column, Decision

MEANING = {  # what epsilon limits
    "user": "epsilon limits what a report reveals about a user as a whole",
    "attribute": "epsilon limits what a report reveals about one column of a user",
    "paper": "epsilon limits different things in different protocols",
}
MOST_COLUMNS = 6  # that a sentence names one by one
LONGEST = 32  # letters of a name
CERTAIN = 4.0  # standard errors: a gain below so many may be chance


def points(share: float) -> str:
    """0.0123 as `1.3`: points with two digits (11.1 with three), rounded up so that what is said of them holds."""
    if not math.isfinite(share):
        return "?"
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


def cut(name: str) -> str:
    """A name that is not too long."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def sentences(
    case: Case, decision: Decision, chosen: Choice | None, alone: Sequence[float] = ()
) -> tuple[tuple[str, ...], str, str]:
    """(which, how accurate, how risky), what more would buy, what is left out.

    `alone`: the margins of the columns that are not left out, if the others are not collected at all.
    """
    if chosen is None:
        return _useless(case, decision), "", ""
    return (
        (_which(case, decision, chosen), _accurate(case, decision), _risky(case, decision, chosen)),
        _more(case, chosen),
        _left_out(decision, alone),
    )


def _under(decision: Decision) -> str:
    return f"the guarantee {decision.guarantee} ({MEANING[decision.guarantee]})"


def _which(case: Case, decision: Decision, chosen: Choice) -> str:
    tried, epsilon = len(case.plan.epsilons), f"epsilon = {_epsilon(decision.epsilon)}"
    if chosen.reached:
        given = "" if case.searched else "of those given "
        why = f"the smallest epsilon {given}that reaches the target with {_users(decision)}"
        if tried == 1:
            why = f"it reaches the target with {_users(decision)}"
    elif chosen.reached is False:
        needed = "which no number of users reaches"
        if decision.users_needed is not None:
            needed = f"which takes {decision.users_needed:,} users, not {decision.users:,}"
        why = f"of what was tried, it comes closest to the target, {needed}"
        if case.searched:
            why = f"no epsilon up to {EPSILONS[1]:g} reaches the target; {why}"
    elif tried == 1:
        protocols = len(case.plan.looks)
        why = f"it has the smallest error of the {protocols:,} protocols tried at this epsilon"
        why = "the only protocol and epsilon tried" if protocols == 1 else why
    else:
        useful, every = len(decision.useful), case.plan.d
        number = f"all {every:,} columns are" if useful == every else f"{useful:,} of {every:,} columns are"
        number = "the column is" if every == 1 else number.replace(" are", " is") if useful == 1 else number
        why = f"the smallest epsilon tried at which {number} useful"
        if useful < every and chosen.epsilon != case.ascending[-1]:
            why += ", no fewer than at the largest"
    return f"Use {decision.label} with {epsilon} under {_under(decision)}: {why}."


def _epsilon(epsilon: float) -> str:
    shown = show_epsilon(epsilon)
    return f"{shown} ({epsilon:.2f})" if shown.startswith("ln") else shown


def _users(decision: Decision) -> str:
    return counted(decision.users, "user")


def _accurate(case: Case, decision: Decision) -> str:
    columns, rest = decision.useful or decision.columns, ""
    if case.targets:
        columns = tuple(column for column in decision.columns if column.target is not None)
    if len(columns) <= MOST_COLUMNS:
        said = "; ".join(_margin(column) for column in columns)
    else:
        ranked = sorted(columns, key=lambda column: column.margin)
        ends = [f"± {points(column.margin)} points ({cut(column.name)})" for column in (ranked[0], ranked[-1])]
        said, rest = f"between {' and '.join(ends)} in {len(columns):,} columns", _hidden(columns, "; ")
        if points(ranked[0].margin) == points(ranked[-1].margin):
            said = f"± {points(ranked[-1].margin)} points in all {len(columns):,} columns"
    truth = "the truth" if case.setting.against == "users" else "the population's"
    return f"With {_users(decision)}, 95 % of the estimated shares are this close to {truth}: {said}{rest}."


def _margin(column: Column) -> str:
    return f"{cut(column.name)} ± {points(column.margin)} points{_hidden([column], ', ')}"


def _hidden(columns: Sequence[Column], before: str) -> str:
    hidden, held = (sum(getattr(column, name) for column in columns) for name in ("hidden", "held"))
    return f"{before}{hidden:,} of {held:,} values can't be distinguished from zero" if hidden else ""


def _risky(case: Case, decision: Decision, chosen: Choice) -> str:
    ms = case.plan.mechanisms[chosen.protocol][chosen.epsilon]
    report = "The first report" if any(m.spent < m.budget for m in ms) else "A report"
    claimed = ", as its author claims" if any(m.claimed for m in ms) else ""
    odds = f"changes the odds of anything about a user by a factor of at most {factor(decision.loss_all)}{claimed}"
    if decision.guarantee != "user" and decision.loss_one < decision.loss_all * (1 - 1e-3):
        odds += f" (of one column, if the others are known: {factor(decision.loss_one)})"
    if not decision.attacked_users:
        return f"{report} {odds}; what an attacker guesses was not simulated."
    worst = max(decision.columns, key=lambda column: column.guessed - column.guessed_baseline)
    share, before = worst.guessed, worst.guessed_baseline
    error = math.sqrt(max(before * (1 - before), 0.01) / decision.attacked_users)
    who = "Someone who sees a report, and knows only each column's statistics,"
    if share - before < CERTAIN * error:
        low = points(CERTAIN * error)
        gain = f"guesses no value of a user right noticeably more often than without it (by less than {low} points)"
    else:
        digits = 0 if share - before >= 0.02 else 1
        gain = (
            f"guesses a user's {cut(worst.name)} right {100 * share:.{digits}f} % of the time instead of "
            f"{100 * before:.{digits}f} %{', the largest gain of all columns' * (len(decision.columns) > 1)}"
        )
    return f"{who} {gain}; {report[0].lower()}{report[1:]} {odds}."


def _more(case: Case, chosen: Choice) -> str:
    p, e, columns, _ = chosen
    wide = max(columns, key=lambda j: case.accuracy(p, e, j).margin)
    name, now = cut(case.names[wide]), points(case.accuracy(p, e, wide).margin)
    twice = points(case.accuracy(p, e, wide, 2 * case.setting.n).margin)
    what = f"the margin of {name}" if len(columns) == 1 else f"the widest margin, that of {name},"
    said = [f"Twice as many users would narrow {what} from ± {now} to ± {twice} points"]
    place = case.ascending.index(e)
    for step, verb in ((1, "narrow"), (-1, "widen")):
        if not 0 <= place + step < len(case.ascending):
            continue
        other = case.ascending[place + step]
        ms = case.plan.mechanisms[p][other]
        odds = factor(float(losses(ms, [len(ms)])[0]))
        text = f"epsilon = {show_epsilon(case.plan.epsilons[other])} (odds up to {odds}) would {verb} it to "
        text += f"± {points(case.accuracy(p, other, wide).margin)} points"
        lost = [j for j in columns if not case.useful(p, other, j)]
        if lost and not case.targets:
            others = f" and {counted(len(lost) - 1, 'other column')}" if len(lost) > 1 else ""
            text += f", and make {cut(case.names[lost[0]])}{others} useless"
        said.append(text)
    return "; ".join(said) + "."


def _reason(column: Column) -> str:
    text = f"{cut(column.name)} (error {points(column.rmse)} points, signal {points(column.uniform_error)}"
    return text + (f"; useful from {column.users_needed:,} users on)" if column.users_needed is not None else ")")


def _left_out(decision: Decision, alone: Sequence[float]) -> str:
    out = [column for column in decision.columns if not column.useful]
    if not out:
        return ""
    shown = ", ".join(map(_reason, out[:MOST_COLUMNS]))
    more = f" and {counted(len(out) - MOST_COLUMNS, 'more column')}" if len(out) > MOST_COLUMNS else ""
    why = "since the error exceeds the signal, so that guessing equal shares is closer to the truth"
    said = f"Better left out, {why}: {shown}{more}"
    if not alone:
        return f"{said}."
    now = max(column.margin for column in decision.useful)
    them = "it" if len(out) == 1 else "them"
    wide = points(max(alone))
    return f"{said}; without collecting {them}, the widest margin would be ± {wide} points, not {points(now)}."


def _useless(case: Case, decision: Decision) -> tuple[str, ...]:
    reachable = [column for column in decision.columns if column.users_needed is not None]
    first = f"Under {_under(decision)}, no column is worth collecting from {_users(decision)}"
    tried = "" if len(case.plan.epsilons) == 1 else ", the largest tried"
    first += f", not even with epsilon = {show_epsilon(decision.epsilon)}{tried}: every error exceeds its signal."
    if not reachable:
        return (first,)
    easiest = min(reachable, key=lambda column: column.users_needed or 0)
    return first, f"The first to become useful would be {_reason(easiest)}."
