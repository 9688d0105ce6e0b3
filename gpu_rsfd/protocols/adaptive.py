"""The adaptive choice between two ways to report an attribute: the smaller variance at f = 0, ideal probabilities."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_rsfd.protocols.form import Bits, Others
from gpu_rsfd.protocols.mechanism import support
from gpu_rsfd.protocols.noise import NoiseRule

TIE = 1e-9  # variances closer than this, relatively, are equal: floating-point noise must not decide


@dataclass(frozen=True)
class Way:
    """A noise, and what is sent for attributes that were not sampled."""

    noise: NoiseRule
    others: Others
    prior: bool = False  # fakes follow the prior of the spec, if it has one

    @property
    def name(self) -> str:
        """grr, oue, …; -z for fake zero vectors, -r for fake random one-hot vectors."""
        return self.noise.name + ("-z" if self.others is Others.ZERO else "-r" if self._random else "")

    @property
    def _random(self) -> bool:
        return self.others is Others.FAKE and self.noise.form is Bits

    def variance_at_zero(self, e: float, d: int, k: int, n: int = 1) -> float:
        """Variance of the estimate of a value that nobody holds, at budget e with uniform fakes: eq. (12)."""
        p, q = self.noise.ideal(e, k)
        base, gain = support(self.others, self.noise.form is Bits, p, q, d, 1 / k)
        return float(base * (1 - base) / gain**2) / n


def choose(ways: tuple[Way, ...], e: float, d: int, k: int) -> Way:
    """The way that a protocol takes for an attribute; `ways[-1]` wins a tie.

    Spl and Smp: GRR if k < 3 e^e + 2, which is the same comparison.  RS+FD: eq. (12).
    """
    if len(ways) == 1:
        return ways[0]
    first, last = ways
    a, b = first.variance_at_zero(e, d, k), last.variance_at_zero(e, d, k)
    return first if a < b and b - a > TIE * b else last
