"""The attacker who knows the marginals, read straight from its definition: user by user, slow and obvious on purpose.

The attacker knows the protocol and each attribute's marginal frequencies, takes attributes for independent, and guesses
what is most probable given a report.  The fast attacker (guesses.py) must agree with this one, user by user.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends.literal import Reports
from gpu_rsfd.measure.guesses import TIE
from gpu_rsfd.protocols import Bits, Keep, Mechanism, Sets, Subsets, Unsampled, prior_frequencies
from gpu_rsfd.protocols.form import implementation

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def best(scores: Floats) -> int:
    """The most probable one; ties are broken by the smallest index."""
    return int(np.argmax(scores >= scores.max() * (1 - TIE)))


def given_value(m: Mechanism, y: Any) -> Floats:
    """P(y | the encoded value is v), for each v."""
    return implementation(GIVEN, m.recipe.noise, "the literal attack")[0](m, y)


def given_fake(m: Mechanism, y: Any) -> float:
    """P(y | the attribute was not sampled)"""
    return implementation(GIVEN, m.recipe.noise, "the literal attack")[1](m, y)


def _value_given_value(m: Mechanism, y: Any) -> Floats:
    return np.where(np.arange(m.k) == y, m.p, m.q)


def _value_given_fake(m: Mechanism, y: Any) -> float:
    return float(prior_frequencies(m.recipe.prior, m.k)[y])


def _message_given_value(m: Mechanism, y: Any) -> Floats:
    noise = m.recipe.noise
    assert isinstance(noise, Sets)
    inside, outside = noise.given
    return np.array([inside if y in members else outside for members in noise.design.sets(m.k)])


def _message_given_fake(m: Mechanism, y: Any) -> float:
    assert isinstance(m.recipe.noise, Sets)
    return 1 / m.recipe.noise.design.messages


def _bits_given_value(m: Mechanism, y: Any) -> Floats:
    return np.array([_bits(m, y, v) for v in range(m.k)])


def _bits_given_fake(m: Mechanism, y: Any) -> float:
    if m.recipe.unsampled is Unsampled.ZERO:
        return _bits(m, y, None)
    return float(prior_frequencies(m.recipe.prior, m.k) @ _bits_given_value(m, y))


def _bits(m: Mechanism, y: Any, v: int | None) -> float:
    rates = [m.p if u == v else m.q for u in range(m.k)]
    return math.prod(rate if bit else 1 - rate for bit, rate in zip(y, rates, strict=True))


def _subset_given_value(m: Mechanism, y: Any) -> Floats:
    assert isinstance(m.recipe.noise, Subsets)
    return np.where(y, *m.recipe.noise.given(m.k))


def _no_fake(m: Mechanism, y: Any) -> float:
    raise TypeError(f"{m.name} has no fakes")


# noise class -> (P(report | value) for each value, P(report | not sampled))
GIVEN: dict[type, tuple[Callable[[Mechanism, Any], Floats], Callable[[Mechanism, Any], float]]] = {
    Keep: (_value_given_value, _value_given_fake),
    Sets: (_message_given_value, _message_given_fake),
    Bits: (_bits_given_value, _bits_given_fake),
    Subsets: (_subset_given_value, _no_fake),
}


def literal_guesses(reports: Reports, frequencies: Sequence[Floats]) -> tuple[Indices | None, Indices]:
    """(sampled attribute of each user [n], or None for Spl; values [n, d]) as the attacker guesses them."""
    ms = reports.mechanisms
    n, d, others = len(reports.sampled), len(ms), ms[0].recipe.unsampled
    values = np.empty((n, d), np.int64)
    sampled = np.empty(n, np.int64)
    place = [dict(zip(users.tolist(), range(len(users)), strict=True)) for users in reports.users]
    for i in range(n):
        sent = {j: reports.values[j][place[j][i]] for j in range(d) if i in place[j]}
        own = {j: given_value(ms[j], y) for j, y in sent.items()}
        if not others.hides:  # Spl: every attribute on its own; Smp: the sampled one, which is told
            for j, f in enumerate(frequencies):
                values[i, j] = best(f * own[j]) if j in own else best(f)
            sampled[i] = next(iter(sent))
            continue
        fake = [given_fake(ms[j], sent[j]) for j in range(d)]
        rest = [math.prod(fake[:j] + fake[j + 1 :]) for j in range(d)]  # P(all other reports | j was sampled)
        joint = [float(f @ own[j]) * rest[j] for j, f in enumerate(frequencies)]  # P(report, j was sampled) d
        sampled[i] = best(np.array(joint))
        for j, f in enumerate(frequencies):
            elsewhere = sum(joint[:j] + joint[j + 1 :])  # another attribute was sampled: x_j did not matter
            values[i, j] = best(f * (own[j] * rest[j] + elsewhere))
    return (sampled if others.samples else None), values
