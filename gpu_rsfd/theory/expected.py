"""Expected MSE_avg of a protocol, in closed form.

`against="users"`: the data set is fixed, as in a simulation; the expectation is over the protocol's randomness, the
sampling of attributes included.  `against="population"`: the n users are drawn from a population with the given
frequencies, and estimates are compared with these.  With few users, an attribute of Smp may have no reports; its error
is then conditional on having some.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import check_epsilon, check_users
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import (
    DEFAULT_SETTINGS,
    Mechanism,
    PrivacySettings,
    Protocol,
    Recipe,
    Unsampled,
    group_size,
    mechanisms,
)
from gpu_rsfd.tape import check_assignment

Floats = npt.NDArray[np.float64]

Attributes = tuple[tuple[float, ...], ...]  # the frequencies of each attribute's values

POSTPROCESS = ("none", "clip")  # clip-normalize and simplex depend on all values of an attribute at once
AGAINST = ("users", "population")  # whose frequencies an estimate is compared with
ENOUGH_REPORTS = 20  # of a value, expected: from here on the clipped error is good to 1 %


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
    return mse_of(ms, check_users(n), attributes, assignment, postprocess, against)


def attributes_of(domain: Sequence[int], frequencies: npt.ArrayLike | None) -> Attributes:
    """Each attribute's frequencies from those of all values in order; uniform by default."""
    if frequencies is None:
        return tuple((1 / k,) * k for k in domain)
    flat = np.asarray(frequencies, np.float64)
    if flat.shape != (sum(domain),):
        raise InputError(f"frequencies has shape {flat.shape}; one for each of the {sum(domain)} values is needed")
    parts = tuple(tuple(flat[columns].tolist()) for columns in Domain.of(domain).slices)
    for j, part in enumerate(parts):
        if not min(part) >= 0 or not abs(math.fsum(part) - 1) <= 1e-9:
            raise InputError(
                f"frequencies of attribute {j} sum to {math.fsum(part)}, least {min(part)}; "
                "they must be >= 0 and sum to 1"
            )
    return parts


def mse_of(
    ms: Sequence[Mechanism],
    n: int,
    attributes: Attributes,
    assignment: str = "uniform",
    postprocess: str = "none",
    against: str = "users",
) -> float:
    """`expected_mse`, with the mechanism and the frequencies of each attribute."""
    return float(mse_of_each(ms, n, attributes, assignment, postprocess, against).mean())


def mse_of_each(
    ms: Sequence[Mechanism],
    n: int,
    attributes: Attributes,
    assignment: str = "uniform",
    postprocess: str = "none",
    against: str = "users",
) -> Floats:
    """The expected mean squared error of each attribute; NaN for those of Smp that balanced groups leave without users.

    `mse_of` is their mean.
    """
    check_assignment(assignment)
    check_against(against)
    if postprocess not in POSTPROCESS:
        raise InputError(f"no theory for postprocess {postprocess!r}; available: {', '.join(POSTPROCESS)}")
    d = len(attributes)
    # equal attributes (and, under balanced assignment, groups of equal size) have equal errors
    kinds: dict[tuple[tuple[float, ...], Recipe, int], list[int]] = {}
    for j, (f, m) in enumerate(zip(attributes, ms, strict=True)):
        kinds.setdefault((f, m.recipe, group_size(n, d, j) if assignment == "balanced" else -1), []).append(j)
    errors = np.full(d, math.nan)
    for (f, _, group), members in kinds.items():
        m = ms[members[0]]
        if m.recipe.unsampled is Unsampled.NOTHING and group == 0:
            continue
        truth = np.array(f)
        moments = moments_of(m, truth, n, assignment, members[0], against)
        errors[members] = squared_error(truth, moments, postprocess).mean()
    return errors


def moments_of(m: Mechanism, f: Floats, n: int, assignment: str, attribute: int, against: str) -> Moments:
    """Of the raw estimates of an attribute, against the users' own frequencies or those of their population."""
    function = estimate_moments if against == "users" else population_moments
    return function(m, f, n, assignment, attribute)


def fewest_reports(ms: Sequence[Mechanism], n: int, attributes: Attributes, assignment: str = "uniform") -> float:
    """How often the value that is reported least is expected to be reported, over all attributes."""
    d, fewest = len(attributes), math.inf
    smallest = n / d if check_assignment(assignment) == "uniform" else group_size(n, d, d - 1)
    for m, f in dict.fromkeys(zip(ms, attributes, strict=True)):
        reporters = smallest if m.recipe.unsampled is Unsampled.NOTHING else n
        fewest = min(fewest, reporters * float(np.min(m.base + m.gain * np.array(f))))
    return fewest


def is_rough(
    ms: Sequence[Mechanism], n: int, attributes: Attributes, assignment: str = "uniform", postprocess: str = "none"
) -> bool:
    """Whether `mse_of` is rough: a clipped error where some value has few expected reports."""
    return postprocess == "clip" and fewest_reports(ms, n, attributes, assignment) < ENOUGH_REPORTS


def check_against(against: object) -> str:
    if against not in AGAINST:
        raise InputError(f"unknown against {against!r}; available: {', '.join(AGAINST)}")
    return str(against)


def population_moments(m: Mechanism, f: Floats, n: int, assignment: str = "uniform", attribute: int = 0) -> Moments:
    """`estimate_moments` around a population's frequencies f, the n users drawn from it independently.

    Every report is then independent of all others, so the variances are the paper's: f (1 - f) / n more than with the
    users fixed (Smp and balanced groups: to a part in n).
    """
    bias = m.bias(f, n, assignment, attribute)
    rate = m.base + f * m.gain
    if assignment == "uniform":
        size = n / m.d if m.recipe.unsampled is Unsampled.NOTHING else float(n)
        return _moments(bias, m.variance(f, n), [(np.full_like(f, size), rate)], size * m.gain)
    size = float(group_size(n, m.d, attribute) if m.recipe.unsampled.samples else n)
    classes = [(np.full_like(f, size), m.q + f * (m.p - m.q))]
    scale = size * m.gain
    if m.recipe.unsampled.hides:
        classes.append((np.full_like(f, n - size), np.full_like(f, m.fake_rate)))
        scale = n * m.gain
    variance: Floats = np.sum([users * r * (1 - r) for users, r in classes], axis=0) / scale**2
    return _moments(bias, variance, classes, scale)


def estimate_moments(m: Mechanism, f: Floats, n: int, assignment: str = "uniform", attribute: int = 0) -> Moments:
    """Bias and variance of the raw estimate of each value, exactly; skewness and kurtosis nearly.

    Of `size` sampled users, some hold v: hypergeometric, with variance `spread`.  Given how many, the count is a sum of
    independent reports with rates p (those), q (the other sampled ones) and, for RS+FD, that of a fake.
    """
    bias, variance = m.bias(f, n, assignment, attribute), m.fixed_variance(f, n, assignment, attribute)
    p, q, others = m.p, m.q, m.recipe.unsampled
    if not others.samples or (others.hides and assignment == "uniform"):
        classes = [(n * f, m.base + m.gain), (n * (1 - f), m.base)]
        return _moments(bias, variance, classes, n * m.gain)
    size = n / m.d if assignment == "uniform" else float(group_size(n, m.d, attribute))
    classes = [(size * f, p), (size * (1 - f), q)]
    scale = size * m.gain
    if others.hides:
        classes.append((np.full_like(f, n - size), m.fake_rate))
        scale = n * m.gain
    spread = size * f * (1 - f) * (n - size) / max(n - 1, 1)
    third = 3 * (p - q) * (p * (1 - p) - q * (1 - q)) * spread
    third += (p - q) ** 3 * spread * (1 - 2 * f) * (1 - 2 * size / n)
    return _moments(bias, variance, classes, scale, third)


def _moments(
    bias: Floats,
    variance: Floats,
    classes: Sequence[tuple[Floats, Floats | float]],
    scale: float,
    third: Floats | float = 0.0,
) -> Moments:
    """Cumulants add up over independent reports, `users` of them with rate r."""
    third = third + sum(users * r * (1 - r) * (1 - 2 * r) for users, r in classes)
    fourth = sum(users * r * (1 - r) * (1 - 6 * r * (1 - r)) for users, r in classes)
    unit = np.maximum(scale * np.sqrt(variance), 1e-9)
    return Moments(bias, variance, third / unit**3, fourth / unit**4)


def squared_error(f: Floats, moments: Moments, postprocess: str) -> Floats:
    """The expected squared error of each value's estimate, of `POSTPROCESS`."""
    return _raw_error(moments) if postprocess == "none" else _clipped_error(f, moments)


def upper_tail(z: Floats) -> Floats:
    """P(Z > z) of a normal distribution."""
    return np.array([math.erfc(x / math.sqrt(2)) / 2 for x in z.tolist()])


def _raw_error(moments: Moments) -> Floats:
    return moments.variance + moments.bias**2


def _clipped_error(f: Floats, moments: Moments) -> Floats:
    """E (max(X, 0) - f)^2 in closed form, over the Edgeworth density of X = f + bias + deviation Z.

    Density: phi(z) (1 + g/6 He3 + h/24 He4 + g^2/72 He6) with skewness g and kurtosis h, a polynomial times phi; and
    M_j = int_a^oo z^j phi = a^(j - 1) phi(a) + (j - 1) M_(j - 2).
    """
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
    return np.clip(f**2 * (1 - positive) + error, 0, _raw_error(moments))
