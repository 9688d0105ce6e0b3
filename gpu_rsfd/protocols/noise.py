"""How one value is randomised at a budget e: ideal probabilities, integer thresholds, the loss that they realise.

Thresholds are evaluated with Python floats exactly as written here, so that everybody gets the same integers, and
rounded towards privacy; no report is ever certain, so every loss is finite.  p is P(report v | v), q is
P(report v | not v); for local hashing and message sets, P(support v | …).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpu_rsfd.checks import MAX_DOMAIN
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols.designs import Design, field_order, hadamard, projective, projective_shape
from gpu_rsfd.protocols.form import Bits, Chain, Keep, Noise, Sets, Subsets
from gpu_rsfd.tape import KEEP_ONE, ONE


def bits_loss(noise: Noise, e: float, k: int) -> float:
    """ln of the odds that one bit set and one bit clear give: the worst pair of values of a unary encoding."""
    p, q = noise.p(k), noise.q(k)
    return math.log(p) + math.log1p(-q) - math.log(q) - math.log1p(-p) if p < 1 else math.inf


@dataclass(frozen=True)
class NoiseRule:
    """From a budget and a domain size to a noise of the normal form."""

    name: str
    form: type[Keep | Sets | Bits | Subsets]
    ideal: Callable[[float, int], tuple[float, float]]  # (e, k) -> p, q
    thresholds: Callable[[float, int], Noise]  # (e, k)
    bits: Callable[[float, int], float]  # (e, k): bits in the report of one attribute
    p_star: str  # in LaTeX, with E = e to the power of the budget
    q_star: str
    source: str
    loss: Callable[[Noise, float, int], float] = bits_loss  # (noise, e, k): worst log-likelihood ratio, as realised
    # of a longitudinal protocol: (e of all reports together, e of the first one, k); the rest is one report's
    chain: Callable[[float, float, int], Chain] | None = None
    claimed: bool = False  # the loss is what the author states: it can't be computed from p and q
    fakes: Callable[[float, int], float] = lambda e, k: 1 / k  # (e, k): P(a uniform fake supports v)
    most_values: int = MAX_DOMAIN  # of an attribute

    @property
    def plain(self) -> bool:
        """Whether what is sent is the message or the bits themselves, so that the noise says all about a report."""
        return self.form is not Bits or self.loss is bits_loss


# ------------------------------------------------------------------------------------------- GRR, Section 2.2.1


def keep_threshold(keep: float) -> int:
    """A probability to keep, out of 2**32 and never all of it."""
    return min(math.floor(keep * KEEP_ONE), KEEP_ONE - 1)


def keep_loss(noise: Noise, e: float, k: int) -> float:
    """ln of p / q: the worst pair of values of a value that is sent as it is."""
    return math.log(noise.p(k) / noise.q(k)) if noise.q(k) > 0 else math.inf


def value_kept(
    name: str,
    ideal: Callable[[float, int], tuple[float, float]],
    keep: Callable[[float, int], float],
    p_star: str,
    q_star: str,
    source: str,
) -> NoiseRule:
    """A noise from P(keep) = p - q; not kept means uniform over all k values."""

    def thresholds(e: float, k: int) -> Keep:
        return Keep(keep_threshold(keep(e, k)))

    return NoiseRule(name, Keep, ideal, thresholds, lambda e, k: math.log2(k), p_star, q_star, source, keep_loss)


def grr_ideal(e: float, k: int) -> tuple[float, float]:
    total = math.exp(e) + k - 1
    return math.exp(e) / total, 1 / total


def grr_keep(e: float, k: int) -> float:
    return (math.exp(e) - 1) / (math.exp(e) + k - 1)


GRR = value_kept(
    "grr", grr_ideal, grr_keep, r"\frac{E}{E + k - 1}", r"\frac{1}{E + k - 1}", "Kairouz et al., ICML 2016"
)

# ---------------------------------------------------------------------------------------------- message sets

Shape = tuple[int, int, int]  # M, s, shared: as in designs.Design


def sets_loss(noise: Noise, e: float, k: int) -> float:
    """ln of the odds of a message in the set of one value and not in that of the other: there is one for any pair."""
    assert isinstance(noise, Sets)
    inside, outside = noise.given
    return math.log(inside / outside)


def message_sets(
    name: str,
    shape: Callable[[float, int], Shape],
    design: Callable[[float, int], Design],
    p_star: str,
    q_star: str,
    source: str,
    most_values: int = MAX_DOMAIN,
) -> NoiseRule:
    """A noise from a design: P(keep) makes a message exp(e) times as likely for a value in whose set it is."""

    def ideal(e: float, k: int) -> tuple[float, float]:
        messages, size, shared = shape(e, k)
        keep = kept(e, messages, size)
        return keep + (1 - keep) * size / messages, keep * shared / size + (1 - keep) * size / messages

    def kept(e: float, messages: int, size: int) -> float:
        return 1 / (1 + messages / ((math.exp(e) - 1) * size))

    def thresholds(e: float, k: int) -> Sets:
        chosen = design(e, k)
        return Sets(keep_threshold(kept(e, chosen.messages, chosen.size)), chosen)

    def bits(e: float, k: int) -> float:
        return math.log2(shape(e, k)[0])

    def fakes(e: float, k: int) -> float:
        messages, size, _ = shape(e, k)
        return size / messages

    more = {"loss": sets_loss, "fakes": fakes, "most_values": most_values}
    return NoiseRule(name, Sets, ideal, thresholds, bits, p_star, q_star, source, **more)  # type: ignore[arg-type]


def _hadamard(e: float, k: int) -> Design:
    return hadamard(k)


def _hadamard_shape(e: float, k: int) -> Shape:
    design = hadamard(k)
    return design.messages, design.size, design.shared


HR = message_sets(
    "hr", _hadamard_shape, _hadamard, r"\frac{E}{E + 1}", "1/2", "Acharya et al., AISTATS 2019 (one block)"
)


def _order(e: float, k: int) -> int:
    """q, the size of the field: the least prime from e^e + 1 on, but not above 2**16 + 1, which is one.

    That is a line with more points than any attribute has values: a larger field has more messages and no other use.
    """
    return field_order(min(math.ceil(math.exp(e)), 1 << 16) + 1)


def _projective(e: float, k: int) -> Design:
    try:
        return projective(_order(e, k), k)
    except InputError as error:
        raise InputError(f"pgr with k={k} values at a budget of {e:.4g}: {error}") from None


def _projective_shape(e: float, k: int) -> Shape:
    return projective_shape(_order(e, k), k)[1:]


PGR = message_sets(
    "pgr",
    _projective_shape,
    _projective,
    r"\frac{E s}{(E - 1) s + M}",
    r"\frac{(E - 1) \lambda + s}{(E - 1) s + M}",
    "Feldman et al., ICML 2022",
)

# ------------------------------------------------------------------------------- unary encodings, Section 2.2.2


def one_bit_each(e: float, k: int) -> float:
    return k


def unary_encoding(
    name: str,
    ideal: Callable[[float, int], tuple[float, float]],
    p_star: str,
    q_star: str,
    source: str,
    bits: Callable[[float, int], float] = one_bit_each,
    **more: Any,
) -> NoiseRule:
    """A noise from its ideal probabilities: p down, q up, and never a bit that is certain, an infinite loss."""

    def thresholds(e: float, k: int) -> Bits:
        p, q = ideal(e, k)
        return Bits(min(math.floor(ONE * p), ONE - 1), max(math.ceil(ONE * q), 1))

    return NoiseRule(name, Bits, ideal, thresholds, bits, p_star, q_star, source, **more)


def oue_ideal(e: float, k: int) -> tuple[float, float]:
    return 0.5, 1 / (math.exp(e) + 1)


def sue_ideal(e: float, k: int) -> tuple[float, float]:
    s = math.exp(e / 2)
    return s / (s + 1), 1 / (s + 1)


OUE = unary_encoding("oue", oue_ideal, "1/2", r"\frac1{E + 1}", "Wang et al., USENIX Security 2017")
SUE = unary_encoding(
    "sue",
    sue_ideal,
    r"\frac{\sqrt{E}}{\sqrt{E} + 1}",
    r"\frac{1}{\sqrt{E} + 1}",
    "Erlingsson et al., CCS 2014 (basic RAPPOR)",
)

# -------------------------------------------------------------------------------------------- subset selection


def ss_size(e: float, k: int) -> int:
    return max(1, round(k / (math.exp(e) + 1)))


def ss_ideal(e: float, k: int) -> tuple[float, float]:
    size = ss_size(e, k)
    p = 1 / (1 + (k - size) * math.exp(-e) / size)
    return p, (size - p) / (k - 1)


def ss_thresholds(e: float, k: int) -> Subsets:
    size, most = ss_size(e, k), math.floor(ONE * ss_ideal(e, k)[0])
    return Subsets(min(most, ONE - 1) if most * k > size * ONE else 0, size)


def ss_loss(noise: Noise, e: float, k: int) -> float:
    """ln of the odds of a set with one value and without the other."""
    assert isinstance(noise, Subsets)
    p = noise.p(k)
    return math.log(p) + math.log(k - noise.size) - math.log1p(-p) - math.log(noise.size)


def ss_bits(e: float, k: int) -> float:
    """log2 of the number of sets."""
    size = ss_size(e, k)
    return (math.lgamma(k + 1) - math.lgamma(size + 1) - math.lgamma(k - size + 1)) / math.log(2)


SS = NoiseRule(
    "ss",
    Subsets,
    ss_ideal,
    ss_thresholds,
    ss_bits,
    r"\frac{w E}{w E + k - w}, w = \max\left(1, \text{round}\,\frac{k}{E + 1}\right)",
    r"\frac{w - p^*}{k - 1}",
    "Ye, Barg, IEEE Transactions on Information Theory 2018",
    ss_loss,
)

# ---------------------------------------------------------------------------------- local hashing, ideal hashes


def _local_hashing(name: str, cells: Callable[[float], int], p_star: str, q_star: str) -> NoiseRule:
    """A value's hash is one of g; given the report, any other value's hash is uniform, so it is supported with 1/g."""

    def ideal(e: float, k: int) -> tuple[float, float]:
        g = cells(e)
        return math.exp(e) / (math.exp(e) + g - 1), 1 / g

    def loss(noise: Noise, e: float, k: int) -> float:
        """A hash is sent: p for the user's own, (1 - p) / (g - 1) for any other."""
        p = noise.p(k)
        return math.log(p) + math.log(cells(e) - 1) - math.log1p(-p)

    def bits(e: float, k: int) -> float:
        return math.log2(cells(e))

    return unary_encoding(name, ideal, p_star, q_star, "Wang et al., USENIX Security 2017", bits, loss=loss)


OLH = _local_hashing("olh", lambda e: round(math.exp(e)) + 1, r"\frac{E}{E + g - 1}, g = \text{round}(E) + 1", "1/g")

BLH = _local_hashing("blh", lambda e: 2, r"\frac{E}{E + 1}", "1/2")


# ------------------------------------------------------------------------------ more unary encodings


def rue_ideal(e: float, k: int) -> tuple[float, float]:
    """The unary encoding with the least error over all k values of an attribute."""
    h = math.sqrt((k - 1 + math.exp(-e)) / (k - 1 + math.exp(e)))
    return 1 / (h + 1), 1 / (h * math.exp(e) + 1)


RUE = unary_encoding(
    "rue",
    rue_ideal,
    r"\frac{1}{h + 1}, h = \sqrt{\frac{k - 1 + 1/E}{k - 1 + E}}",
    r"\frac{1}{h E + 1}",
    "Further Study on Frequency Estimation under Local Differential Privacy, USENIX Security 2025",
)


# ------------------------------------------------------------------------------ histogram encoding, thresholded


@lru_cache(maxsize=4096)
def the_threshold(e: float) -> float:
    """theta in [1/2, 1] with the least variance, to 1/4096: a grid, so that rounding of floats can't move it."""

    def variance(step: int) -> float:
        p, q = _the(e, step / 4096)
        return q * (1 - q) / (p - q) ** 2

    return min(range(2048, 4097), key=variance) / 4096


def _the(e: float, theta: float) -> tuple[float, float]:
    """Laplace noise of scale 2 / e on each entry of the one-hot vector; a value is supported above theta."""
    return 1 - math.exp(e * (theta - 1) / 2) / 2, math.exp(-e * theta / 2) / 2


def the_ideal(e: float, k: int) -> tuple[float, float]:
    return _the(e, the_threshold(e))


THE = unary_encoding(
    "the",
    the_ideal,
    r"1 - \frac{1}{2} E^{(\theta - 1)/2}, \frac{1}{2} \le \theta \le 1",
    r"\frac{1}{2} E^{-\theta/2}",
    "Wang et al., USENIX Security 2017",
)
