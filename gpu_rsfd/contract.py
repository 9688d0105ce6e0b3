"""The contract of every protocol, user-defined ones included: `check` tests it in a few seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from statistics import NormalDist
from typing import Any

import numpy as np

from gpu_rsfd.backends import BACKENDS, BackendUnavailable, open_backend
from gpu_rsfd.backends.base import Backend, lacking
from gpu_rsfd.backends.exact.samplers import SAMPLERS
from gpu_rsfd.backends.literal import reports
from gpu_rsfd.backends.reference import Case, ReferenceBackend, difference
from gpu_rsfd.datasets.synthetic import SyntheticDataset
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure.reports import report_chunks
from gpu_rsfd.planning import Floats, Plan
from gpu_rsfd.protocols import Mechanism, PrivacySettings, Protocol, as_protocol, mechanism, mechanisms
from gpu_rsfd.protocols.form import Bits, Keep, Sets, Subsets, Unsampled, implementation, prior_frequencies
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.results import estimate
from gpu_rsfd.spec import PAPER_EPSILONS
from gpu_rsfd.tape import ASSIGNMENTS
from gpu_rsfd.theory.expected import estimate_moments

ALPHA = 1e-6  # false-alarm rate of each statistical check
SIZES = (2, 3, 10, 100, 1000)
ATTRIBUTES = (1, 3, 10)
CASES = ((1, (2,), 1.0), (66, (3, 2), 0.5), (129, (33, 2, 5), math.log(7)))  # users, domain sizes, epsilon
USERS, DOMAIN, REPETITIONS = 510, (2, 3, 5), 1000  # of the statistical checks
EPSILON = math.log(4)
SMALL = ((2,), (3,), (2, 3), (3, 2, 2))  # domains whose reports are enumerated
ROUNDING = 1e-9


def check(protocol: str | Protocol, *, echo: Callable[[str], None] = print) -> None:
    """Test a protocol: its probabilities, reports, estimates and loss.

    The counts of every backend of this machine must equal those of the literal reports, which are made user by user.
    Estimates must be unbiased with the stated variance.  The loss must equal that of all possible reports, enumerated
    on small domains, and must not exceed the budget.

    Parameters
    ----------
    protocol : str or Protocol
        A user-defined protocol, or the name of a protocol.
    echo : callable
        Called with a line for each check.

    Raises
    ------
    InputError
        At the first check that fails.  Statistical checks have a false-alarm rate of 1e-6 and fixed seeds, so the
        outcome is always the same.

    Examples
    --------
    >>> import math
    >>> def twice(e, k):
    ...     return 0.5, 1 / (math.exp(2 * e) + 1)
    >>> greedy = gpu_rsfd.protocol("greedy", solution="smp", bits=twice)
    >>> gpu_rsfd.check(greedy)
    Traceback (most recent call last):
        ...
    gpu_rsfd.errors.InputError: greedy loses 1.386 with k=2 values at a budget of 0.6931 (epsilon=0.6931, d=1)
    """
    entry = as_protocol(protocol)
    for number, step in enumerate((_budgets, _reports, _estimates, _samplers, _losses)):
        for line in step(entry):
            echo(f"{entry}: {line}" if number == 0 else f"{' ' * len(entry.name)}  {line}")


def _budgets(entry: Protocol) -> Iterator[str]:
    """Probabilities that are never certain; a loss of one attribute that is at most its budget."""
    for epsilon, d, k in product(PAPER_EPSILONS, ATTRIBUTES, _domain(entry, SIZES)):
        _check_budget(entry, epsilon, mechanism(entry, epsilon, d, k))
    yield "probabilities: rounded towards privacy, never certain; the loss of an attribute is at most its budget"


def _check_budget(entry: Protocol, epsilon: float, m: Mechanism) -> None:
    where = f"with k={m.k} values at a budget of {m.spent:.4g} (epsilon={epsilon:.4g}, d={m.d})"
    if not (m.p < 1 and m.q > 0):
        raise InputError(f"{entry} is certain {where}: p={m.p}, q={m.q}")
    if m.loss > m.spent * (1 + ROUNDING):
        raise InputError(f"{entry} loses {m.loss:.4g} {where}")
    # Whether a value is supported follows from what is sent, so that alone can't lose more.
    least = max(math.log(m.p / m.q), math.log((1 - m.q) / (1 - m.p)))
    if m.claimed and least > m.loss * (1 + ROUNDING):
        raise InputError(f"{entry} claims a loss of {m.loss:.4g} {where}, but one bit alone loses {least:.4g}")


def _domain(entry: Protocol, sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes that the protocol has: a table of message sets is for so many values."""
    most = min(variant.noise.most_values for variant in entry.variants)
    return tuple(min(k, most) for k in sizes)


def engines() -> Iterator[tuple[str, Backend | str]]:
    """Every backend by its name, or why this machine does not have it."""
    for name in reversed(BACKENDS):
        if name != "auto":
            try:
                yield name, open_backend(name)[0]
            except BackendUnavailable as reason:
                yield name, str(reason)


def _reports(entry: Protocol) -> Iterator[str]:
    """Every backend counts the literal reports; chunks of reports are the literal ones, bit by bit."""
    cases = [Case(n, _domain(entry, sizes), (epsilon,), (entry,), range(3, 5)) for n, sizes, epsilon in CASES]
    for name, engine in engines():
        if isinstance(engine, str):
            yield f"reports: {name} not checked; {engine}"
            continue
        with engine:
            if lacks := lacking(engine.noises, {variant.noise.form for variant in entry.variants}):
                yield f"reports: {name} not checked; it {lacks}"
                continue
            for case in cases:
                if wrong := difference(engine, case, ReferenceBackend()):
                    raise InputError(f"{entry}: backend {name} does not count the literal reports: {wrong}")
        yield f"reports: {name} counts the literal reports, integer by integer ({2 * len(cases)} cases)"
    for case, assignment in product(cases, ASSIGNMENTS):
        data, epsilon = case.data(assignment), case.epsilons[0]
        literal = reports(data, entry, epsilon, repetition=3, assignment=assignment)
        chunks = list(report_chunks(data, entry, epsilon, repetition=3, assignment=assignment, users=64))
        for j, sent in enumerate(literal.values):
            if not np.array_equal(np.concatenate([chunk.values[j] for chunk in chunks]), sent):
                raise InputError(f"{entry}: report_chunks does not give the literal reports of attribute {j}")
    yield "reports: report_chunks gives the literal reports, bit by bit"


def bound(cells: int) -> float:
    """What none of so many standard normals exceeds, but with probability ALPHA (Bonferroni)."""
    return NormalDist().inv_cdf(1 - ALPHA / (2 * cells))


def _check_moments(entry: Protocol, engine: Any, assignment: str) -> None:
    """The estimates' means and variances are those that the mechanism states."""
    data = SyntheticDataset(USERS, _domain(entry, DOMAIN), "zipf:1.1", seed=1)
    plan = Plan.of(data.domain, [entry], [EPSILON], assignment)
    counts, sampled = engine.count(plan, data, 0, range(REPETITIONS))
    found = estimate.estimates(plan, plan.expand(counts), plan.reporters(data.n, sampled))[0, 0]
    where = f"({engine.name}, {USERS} users, {assignment} assignment, epsilon={EPSILON:.4g})"
    for m, columns, j in zip(plan.mechanisms[0][0], plan.domain.slices, range(plan.d), strict=True):
        f, sample = data.frequencies[columns], found[:, columns]
        bias, variance, skewness, kurtosis = estimate_moments(m, f, USERS, assignment, j)
        most = bound(plan.values)
        z = (sample.mean(axis=0) - f - bias) / np.sqrt(variance / REPETITIONS)
        z /= 1 + np.abs(skewness) / math.sqrt(REPETITIONS) * (most - 1 / most) / 6  # Cornish and Fisher: rare reports
        v = int(np.abs(z).argmax())
        if not abs(z[v]) < most:
            raise InputError(
                f"{entry} is biased: value {v} of attribute {j} has frequency {f[v]:.4g}, but its estimates have a "
                f"mean of {sample.mean(axis=0)[v]:.4g}, z={z[v]:.1f} {where}"
            )
        # Wilson and Hilferty: the cube root of chi-squared is nearly normal; heavy tails make it wider
        ratio, spread = sample.var(axis=0, ddof=1) / variance, 2 / (9 * (REPETITIONS - 1))
        z = (np.cbrt(ratio) - (1 - spread)) / np.sqrt(spread * (1 + np.maximum(kurtosis, 0) / 2)) / 1.1
        v = int(np.abs(z).argmax())
        if not abs(z[v]) < most:
            raise InputError(
                f"{entry} does not have its stated variance: value {v} of attribute {j} has {ratio[v]:.3f} times "
                f"{variance[v]:.4g}, z={z[v]:.1f} {where}"
            )


def _estimates(entry: Protocol) -> Iterator[str]:
    with open_backend("numpy")[0] as engine:
        for assignment in ASSIGNMENTS:
            _check_moments(entry, engine, assignment)
    yield f"estimates: unbiased, with the stated variance ({REPETITIONS:,} repetitions, false-alarm rate {ALPHA:g})"


def _samplers(entry: Protocol) -> Iterator[str]:
    for sampler in SAMPLERS.values():
        with sampler(workers=1) as engine:
            for assignment in ASSIGNMENTS:
                _check_moments(entry, engine, assignment)
    yield f"samplers: {' and '.join(SAMPLERS)} have the same means and variances"


def _value_reports(m: Mechanism) -> Iterator[tuple[Floats, float]]:
    for y, fake in enumerate(prior_frequencies(m.recipe.prior, m.k)):
        yield np.where(np.arange(m.k) == y, m.p, m.q), float(fake)


def _message_reports(m: Mechanism) -> Iterator[tuple[Floats, float]]:
    noise = m.recipe.noise
    assert isinstance(noise, Sets)
    inside, outside = noise.given
    sets = [members.tolist() for members in noise.design.sets(m.k)]
    for y in range(noise.design.messages):
        yield np.array([inside if y in members else outside for members in sets]), 1 / noise.design.messages


def _bit_reports(m: Mechanism) -> Iterator[tuple[Floats, float]]:
    fakes = prior_frequencies(m.recipe.prior, m.k)
    for bits in product((True, False), repeat=m.k):
        none = np.where(bits, m.q, 1 - m.q)
        own = np.where(bits, m.p, 1 - m.p)
        given = np.array([np.prod(np.where(np.arange(m.k) == v, own, none)) for v in range(m.k)])
        yield given, float(np.prod(none)) if m.recipe.unsampled is Unsampled.ZERO else float(fakes @ given)


def _subset_reports(m: Mechanism) -> Iterator[tuple[Floats, float]]:
    assert isinstance(m.recipe.noise, Subsets)
    inside, outside = m.recipe.noise.given(m.k)
    for members in combinations(range(m.k), m.recipe.noise.size):
        yield np.where(np.isin(np.arange(m.k), members), inside, outside), math.nan


# noise class -> every report of an attribute: its probability given each value, and if the attribute is not sampled
ALL_REPORTS: dict[type, Callable[[Mechanism], Iterator[tuple[Floats, float]]]] = {
    Keep: _value_reports,
    Sets: _message_reports,
    Bits: _bit_reports,
    Subsets: _subset_reports,
}


def _different(reports: Iterator[tuple[Floats, float]]) -> list[tuple[Floats, float]]:
    """Reports that say the same need be looked at once."""
    return list({(*given.tolist(), fake): (given, fake) for given, fake in reports}.values())


def enumerated(ms: Sequence[Mechanism]) -> Floats:
    """The loss over all reports and pairs of users, by the number of attributes in which they differ."""
    d, others = len(ms), ms[0].recipe.unsampled
    users = list(product(*(range(m.k) for m in ms)))
    differing = np.array([[sum(a != b for a, b in zip(x, z, strict=True)) for z in users] for x in users])
    every = [_different(implementation(ALL_REPORTS, m.recipe.noise, "the enumeration")(m)) for m in ms]
    worst = np.zeros(d)

    def see(probabilities: Sequence[float]) -> None:
        logs = np.log(probabilities)
        ratios = logs[:, None] - logs[None, :]
        for m in range(1, d + 1):
            worst[m - 1] = max(worst[m - 1], ratios[differing == m].max())

    if others is Unsampled.NOTHING:
        for j, sent in enumerate(every):
            for given, _ in sent:
                see([given[x[j]] for x in users])
        return worst
    for whole in product(*every):
        if others is Unsampled.OWN:
            see([math.prod(given[v] for (given, _), v in zip(whole, x, strict=True)) for x in users])
            continue
        fake = [f for _, f in whole]
        rest = [math.prod(fake[:t] + fake[t + 1 :]) for t in range(d)]
        see([sum(whole[t][0][x[t]] * rest[t] for t in range(d)) for x in users])
    return worst


def _losses(entry: Protocol) -> Iterator[str]:
    if entry.claimed:
        (most,) = {float(f"{losses(mechanisms(entry, EPSILON, DOMAIN))[-1]:.4g}")}
        yield f"loss: claimed, not computed: {most:g} at epsilon={EPSILON:.4g}, domain={DOMAIN}; one bit loses no more"
        return
    if not all(variant.noise.plain for variant in entry.variants):
        yield "loss: that of the message, from its own formula; its bits are not enumerated"
        return
    for domain, epsilon in product((_domain(entry, sizes) for sizes in SMALL), (math.log(2), 2.0)):
        for guarantee in ("paper", "user", "attribute"):
            ms = mechanisms(entry, epsilon, Domain.of(domain), PrivacySettings(guarantee=guarantee))
            stated, right = losses(ms), enumerated(ms)
            where = f"epsilon={epsilon:.4g}, domain={domain}, guarantee={guarantee}"
            for m, (a, b) in enumerate(zip(stated, right, strict=True), start=1):
                if not abs(a - b) <= ROUNDING:
                    raise InputError(
                        f"{entry} states a loss of {a:.6g} between users who differ in {m} attribute(s), but "
                        f"all reports together show {b:.6g} ({where})"
                    )
            promised = {"user": right[-1], "attribute": right[0]}.get(guarantee, 0.0)
            if promised > epsilon * (1 + ROUNDING):
                raise InputError(f"{entry} loses {promised:.6g}, more than epsilon ({where})")
    yield f"loss: equals that of all reports, enumerated on {len(SMALL)} small domains, for every guarantee"
