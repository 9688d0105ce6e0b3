"""Expected errors of a protocol's estimates, in closed form.

`against="users"`: the data set is fixed, as in a simulation; the expectation is over the protocol's randomness, the
sampling of attributes included.  `against="population"`: the n users are drawn from a population with the given
frequencies, and estimates are compared with these.  With few users, an attribute of Smp may have no reports; its error
is then conditional on having some.

`Accuracy` is the one place where an error is computed: that of the estimates of one column under one mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import check_epsilon, check_users
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import DEFAULT_SETTINGS, Mechanism, PrivacySettings, Protocol, Unsampled, group_size, mechanisms
from gpu_rsfd.results.aggregate import AGAINST
from gpu_rsfd.tape import check_assignment

Floats = npt.NDArray[np.float64]

POSTPROCESS = ("none", "clip")  # clip-normalize and simplex depend on all values of an attribute at once
ENOUGH_REPORTS = 20  # of a value, expected: from here on the clipped error is good to 1 %
LEVEL = 0.95  # of estimates within the margin
TWO_SIDED = 1.959963984540054  # standard deviations of a normal distribution that LEVEL is within
STEPS = 24  # bisections: the margin is then exact to 1e-6 of itself
SURVEY = 100  # people; a column that tells less than a survey of so many is not useful,
FINE = 0.01  # unless its margin is at most this


class Terms(NamedTuple):
    """What an error depends on besides the mechanism and the frequencies."""

    n: int
    assignment: str = "uniform"
    postprocess: str = "none"
    against: str = "users"
    survey: float = SURVEY  # from how many people on a column is useful

    def check(self) -> Terms:
        """Raises `InputError` where there is no theory for them."""
        if not 0 < self.survey < math.inf:
            raise InputError(f"survey={self.survey} must be finite and > 0: a number of people")
        check_assignment(self.assignment)
        if self.against not in AGAINST:
            raise InputError(f"unknown against {self.against!r}; available: {', '.join(AGAINST)}")
        if self.postprocess not in POSTPROCESS:
            raise InputError(f"no theory for postprocess {self.postprocess!r}; available: {', '.join(POSTPROCESS)}")
        return self


class Truth:
    """The frequencies of one column, equal ones together: a column of 50,000 values has few different ones."""

    def __init__(self, frequencies: npt.ArrayLike) -> None:
        self.all: Floats = np.array(frequencies, np.float64)
        self.k = len(self.all)
        self.distinct, self.places, self.times = np.unique(self.all, return_inverse=True, return_counts=True)


class Moments(NamedTuple):
    """Of the estimates of an attribute's values: cumulants are those of the estimate, in units of its deviation."""

    bias: Floats
    variance: Floats
    skewness: Floats
    kurtosis: Floats  # excess


def expected_mse(
    protocol: str | Protocol,
    epsilon: float,
    n: int,
    domain: Sequence[int],
    frequencies: npt.ArrayLike | None = None,
    assignment: str = "uniform",
    postprocess: str = "none",
    against: str = "users",
    settings: PrivacySettings = DEFAULT_SETTINGS,
) -> float:
    """The expected MSE_avg of a protocol, from theory.

    Parameters
    ----------
    protocol : str or Protocol
        Name of a protocol, or a user-defined protocol.
    epsilon : float
        The total budget.
    n : int
        Number of users.
    domain : sequence of int
        Number of values of each attribute.
    frequencies : array_like, optional
        Frequencies of the values of all attributes, in order.  Default: uniform.
    assignment : {'uniform', 'balanced'}
        How users sample an attribute.
    postprocess : {'none', 'clip'}
        `none` is exact.  `clip` is an Edgeworth expansion around the normal distribution: good to 1 % where every value
        has at least 20 expected reports, rough below; never above the error of the raw estimates, since clipping moves
        no estimate away from the truth.
    against : {'users', 'population'}
        What estimates are compared with: the frequencies of these n users, or of the population that they are drawn
        from.
    settings : PrivacySettings
        The guarantee, the prior of fake values, and the first report of longitudinal protocols.

    Returns
    -------
    float
        The expected MSE_avg; NaN if balanced groups leave an attribute of Smp without users.
    """
    attributes = attributes_of(Domain.of(domain), frequencies)
    ms = mechanisms(protocol, check_epsilon(epsilon), Domain.of(domain), settings)
    return mse_of(ms, attributes, Terms(check_users(n), assignment, postprocess, against))


def attributes_of(domain: Sequence[int], frequencies: npt.ArrayLike | None) -> tuple[Truth, ...]:
    """Each attribute's frequencies from those of all values in order, uniform by default; one object for equal ones."""
    domain = Domain.of(domain)
    given = np.concatenate([np.full(k, 1 / k) for k in domain]) if frequencies is None else frequencies
    flat = np.asarray(given, float)
    if flat.shape != (domain.total,):
        raise InputError(f"frequencies has shape {flat.shape}; one for each of the {domain.total} values is needed")
    parts = [flat[columns] for columns in domain.slices]
    for j, part in enumerate(parts):
        total, least = math.fsum(part.tolist()), min(part.tolist())
        if not least >= 0 or not abs(total - 1) <= 1e-9:
            raise InputError(
                f"frequencies of attribute {j} sum to {total}, least {least}; they must be >= 0 and sum to 1"
            )
    keys = [part.tobytes() for part in parts]
    truths = {key: Truth(part) for key, part in dict(zip(keys, parts, strict=True)).items()}
    return tuple(truths[key] for key in keys)


def mse_of(ms: Sequence[Mechanism], attributes: Sequence[Truth], terms: Terms) -> float:
    """`expected_mse`, with the mechanism and the frequencies of each attribute."""
    return float(np.mean([accuracy.mse for accuracy in accuracies(ms, attributes, terms)]))


def accuracies(ms: Sequence[Mechanism], attributes: Sequence[Truth], terms: Terms) -> list[Accuracy]:
    """Of each attribute; equal ones (under balanced assignment: with groups of equal size) share one."""
    terms.check()
    kinds: dict[Any, Accuracy] = {}
    found = []
    for j, (truth, m) in enumerate(zip(attributes, ms, strict=True)):
        kind = truth, m.recipe, group_size(terms.n, m.d, j) if terms.assignment == "balanced" else -1
        if kind not in kinds:
            kinds[kind] = Accuracy(m, truth, j, terms)
        found.append(kinds[kind])
    return found


class Accuracy:
    """How accurate the estimates of one column under a mechanism are: in points, and against its signal.

    Its margin is the smallest number within which 95 % of its estimated frequencies are expected to be from the truth:
    the mean over its values of P(|estimate - truth| <= margin) is 0.95, each estimate taken as normal with its exact
    mean and variance, none if nobody reports the column.  Clipping moves no estimate further away, and none below 0.
    All is NaN where balanced groups leave nobody to report the column.
    """

    def __init__(self, m: Mechanism, truth: Truth, attribute: int, terms: Terms) -> None:
        self.truth, self.postprocess, self.terms = truth, terms.postprocess, terms
        self.alike = m.recipe.prior is None  # else values of equal frequency have different errors
        self.f = truth.distinct if self.alike else truth.all
        self.times = truth.times if self.alike else np.ones(truth.k, np.int64)
        given = m, self.f, terms.n, terms.assignment, attribute
        self.moments = estimate_moments(*given, terms.against)
        self.raw = squared_error(self.f, estimate_moments(*given), "none")
        alone = m.recipe.unsampled is Unsampled.NOTHING and terms.assignment == "uniform"
        self.silent = (1 - 1 / m.d) ** terms.n if alone else 0.0  # P(nobody reports the column)
        self.deviation = np.maximum(np.sqrt(self.moments.variance), 1e-150)

    @cached_property
    def mse(self) -> float:
        """The expected mean squared error."""
        each = squared_error(self.f, self.moments, self.postprocess)
        return float((each[self.truth.places] if self.alike else each).mean())

    def coverage(self, width: float) -> float:
        """The expected share of the estimates that are within `width` of the truth."""
        above = upper_tail((width - self.moments.bias) / self.deviation)
        below = upper_tail((width + self.moments.bias) / self.deviation)
        if self.postprocess == "clip":
            below = np.where(self.f <= width, 0.0, below)
        return float((self.times / self.truth.k * (1 - above - below)).sum()) * (1 - self.silent)

    @cached_property
    def margin(self) -> float:
        """The smallest width within which 95 % of the estimates are; infinite if nobody may report the column."""
        low, high = 0.0, float((np.abs(self.moments.bias) + 6 * self.deviation).max())
        if not math.isfinite(high):
            return math.nan
        if 1 - self.silent < LEVEL:
            return math.inf
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.coverage(middle) >= LEVEL else (middle, high)
        return high

    @property
    def unseen(self) -> npt.NDArray[np.bool_]:
        """Values that somebody has, but whose 95 % interval is expected to include 0."""
        return (self.f > 0) & (self.f < TWO_SIDED * self.deviation)

    @property
    def hidden(self) -> int:
        """How many these are."""
        return int(self.times[self.unseen].sum())

    @property
    def seen(self) -> float:
        """The share of users who hold one of the other values."""
        return float((self.times * self.f)[~self.unseen].sum())

    @property
    def survey(self) -> float:
        """How many people, asked without privacy, would tell as much: sum f (1 - f) / m is the squared error then.

        The error is that of the raw estimates against the population.  NaN if all users hold the same value.
        """
        spread = float((self.times * self.f * (1 - self.f)).sum())
        return spread / (float(self.times @ self.raw) + spread / self.terms.n) if spread > 0 else math.nan

    @cached_property
    def useful(self) -> bool:
        """Whether the column is worth estimating: as good as a survey of so many people, or to a point."""
        return self.survey >= self.terms.survey or self.coverage(FINE) >= LEVEL


def fewest_reports(ms: Sequence[Mechanism], attributes: Sequence[Truth], terms: Terms) -> float:
    """How often the value that is reported least is expected to be reported, over all attributes."""
    d, fewest = len(attributes), math.inf
    smallest = terms.n / d if terms.assignment == "uniform" else group_size(terms.n, d, d - 1)
    for m, truth in dict.fromkeys(zip(ms, attributes, strict=True)):
        reporters = smallest if m.recipe.unsampled is Unsampled.NOTHING else terms.n
        fewest = min(fewest, reporters * float(np.min(m.base + m.gain * truth.all)))
    return fewest


def is_rough(ms: Sequence[Mechanism], attributes: Sequence[Truth], terms: Terms) -> bool:
    """Whether `mse_of` is rough: a clipped error where some value has few expected reports."""
    return terms.postprocess == "clip" and fewest_reports(ms, attributes, terms) < ENOUGH_REPORTS


def estimate_moments(
    m: Mechanism, f: Floats, n: int, assignment: str = "uniform", attribute: int = 0, against: str = "users"
) -> Moments:
    """Bias and variance of the raw estimate of each value, exactly; skewness and kurtosis nearly.

    A count is a sum of independent reports, and cumulants add up over them.  Users fixed: of `size` sampled users, some
    hold v (hypergeometric, with variance `spread`); given how many, their reports have the rate p, those of the other
    sampled ones q and, for RS+FD, the rest that of a fake.  Users drawn from a population with frequencies f: variances
    are the paper's, f (1 - f) / n more (Smp and balanced groups: to a part in n).
    """
    others, balanced = m.recipe.unsampled, assignment == "balanced"
    size: float = group_size(n, m.d, attribute) if balanced else n / m.d
    if size == 0 and others is Unsampled.NOTHING:  # nobody reports it
        return Moments(*(np.full(len(f), math.nan) for _ in Moments._fields))
    p, q, gain, fakes = m.p, m.q, m.p - m.q, []
    if not others.samples or (others.hides and not balanced):  # all users are alike
        size, p, q, gain = n, m.base + m.gain, m.base, m.gain
    elif others.hides:
        fakes = [(n - size, m.fake_rate)]
    scale = (n if others.hides else size) * m.gain
    third: Any = 0.0
    if against == "population":
        reports: Any = [(size, q + f * gain), *fakes]
        variance = m.variance(f, n)
        if balanced:
            variance = sum(users * r * (1 - r) for users, r in reports) / scale**2
    else:
        reports = [(size * f, p), (size * (1 - f), q), *fakes]
        variance = m.fixed_variance(f, n, assignment, attribute)
        spread = size * f * (1 - f) * (n - size) / max(n - 1, 1)
        third = 3 * gain * (p * (1 - p) - q * (1 - q)) * spread
        third += gain**3 * spread * (1 - 2 * f) * (1 - 2 * size / n)
    third = third + sum(users * r * (1 - r) * (1 - 2 * r) for users, r in reports)
    fourth = sum(users * r * (1 - r) * (1 - 6 * r * (1 - r)) for users, r in reports)
    unit = np.maximum(scale * np.sqrt(variance), 1e-9)
    return Moments(m.bias(f, n, assignment, attribute), variance, third / unit**3, fourth / unit**4)


def upper_tail(z: Floats) -> Floats:
    """P(Z > z) of a normal distribution."""
    return np.array([math.erfc(x / math.sqrt(2)) / 2 for x in z.tolist()])


def squared_error(f: Floats, moments: Moments, postprocess: str) -> Floats:
    """The expected squared error of each value's estimate.

    Clipped, it is E (max(X, 0) - f)^2 in closed form, over the Edgeworth density of X = f + bias + deviation Z.
    Density: phi(z) (1 + g/6 He3 + h/24 He4 + g^2/72 He6) with skewness g and kurtosis h, a polynomial times phi; and
    M_j = int_a^oo z^j phi = a^(j - 1) phi(a) + (j - 1) M_(j - 2).
    """
    raw = moments.variance + moments.bias**2
    if postprocess == "none":
        return raw
    _, _, g, h = moments
    deviation = np.maximum(np.sqrt(moments.variance), 1e-150)
    a = np.clip(-(f + moments.bias) / deviation, -40, 40)  # X > 0 is Z > a
    phi = np.exp(-(a**2) / 2) / math.sqrt(2 * math.pi)
    upper: list[Any] = [upper_tail(a), phi]
    for j in range(2, 9):
        upper.append(a ** (j - 1) * phi + (j - 1) * upper[j - 2])
    gg = g**2 / 72
    density = [1 + h / 8 - 15 * gg, -g / 2, 45 * gg - h / 4, g / 6, h / 24 - 15 * gg, 0.0, gg]
    square = [moments.bias**2, 2 * moments.bias * deviation, deviation**2]  # (X - f)^2
    positive = sum(c * u for c, u in zip(density, upper, strict=False))
    error = sum(c * s * upper[i + j] for i, c in enumerate(density) for j, s in enumerate(square))
    # few reports: the expansion can leave the range of any distribution
    return np.clip(f**2 * (1 - positive) + error, 0, raw)
