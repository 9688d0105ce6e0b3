"""Every protocol of the tool, one entry each.  All else (backends, theory, plots, docs, help) follows from these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols.adaptive import Way, choose
from gpu_rsfd.protocols.budgets import AMPLIFIED, SPLIT, WHOLE, Budget
from gpu_rsfd.protocols.form import Others, Recipe, Thresholds
from gpu_rsfd.protocols.mechanism import Mechanism
from gpu_rsfd.protocols.noise import BLH, GRR, L_GRR, L_OSUE, L_SUE, OLH, OUE, RUE, SUE, THE

OWN, NOTHING, ZERO, FAKE = Others.OWN, Others.NOTHING, Others.ZERO, Others.FAKE


@dataclass(frozen=True)
class Protocol:
    name: str
    label: str  # the paper's name
    colour: str
    marker: str  # of matplotlib
    budget: Budget
    ways: tuple[Way, ...]  # one, or two of which the better is taken for each attribute; the last wins a tie
    summary: str  # one sentence for people

    @property
    def adaptive(self) -> bool:
        return len(self.ways) > 1

    @property
    def samples(self) -> bool:
        """Whether a user samples an attribute."""
        return self.ways[0].others.samples

    @property
    def partial(self) -> bool:
        """Whether an attribute is reported by those alone who sampled it."""
        return self.ways[0].others is NOTHING

    @property
    def memoised(self) -> bool:
        """Whether it is one report of a longitudinal protocol."""
        return any(way.noise.memoised for way in self.ways)


def _fd(name: str, label: str, colour: str, marker: str, summary: str, *ways: Way) -> Protocol:
    return Protocol(f"rsfd-{name}", f"RS+FD[{label}]", colour, marker, AMPLIFIED, ways, summary)


def _spl(name: str, label: str, colour: str, marker: str, summary: str, *ways: Way) -> Protocol:
    return Protocol(f"spl-{name}", f"Spl[{label}]", colour, marker, SPLIT, ways, summary)


def _smp(name: str, label: str, colour: str, marker: str, summary: str, *ways: Way) -> Protocol:
    return Protocol(f"smp-{name}", f"Smp[{label}]", colour, marker, WHOLE, ways, summary)


# fmt: off
# ruff: noqa: E501  (a table: one protocol, one line)
_ENTRIES = (
    # the six methods that the paper evaluates
    _fd("grr", "GRR", "#1b1b1b", "o", "GRR on one sampled attribute, uniform fake values for the others.", Way(GRR, FAKE)),
    _fd("oue-z", "OUE-z", "#d1495b", "^", "OUE on one sampled attribute, randomised zero vectors for the others.", Way(OUE, ZERO)),
    _fd("oue-r", "OUE-r", "#2e86ab", "s", "OUE on one sampled attribute, randomised fake one-hot vectors for the others.", Way(OUE, FAKE)),
    _fd("adp", "ADP", "#edae49", "D", "GRR or OUE-z for each attribute, whichever has the smaller variance.", Way(OUE, ZERO), Way(GRR, FAKE)),
    _spl("adp", "ADP", "#7a7a7a", "v", "GRR or OUE on every attribute, whichever has the smaller variance.", Way(GRR, OWN), Way(OUE, OWN)),
    _smp("adp", "ADP", "#3c9d63", "P", "GRR or OUE on one sampled attribute, whichever has the smaller variance.", Way(GRR, NOTHING), Way(OUE, NOTHING)),
    # the same solutions with SUE, and without the adaptive choice
    _fd("sue-z", "SUE-z", "#8e5ea2", "X", "SUE on one sampled attribute, randomised zero vectors for the others.", Way(SUE, ZERO)),
    _fd("sue-r", "SUE-r", "#a65628", "<", "SUE on one sampled attribute, randomised fake one-hot vectors for the others.", Way(SUE, FAKE)),
    _spl("grr", "GRR", "#1b1b1b", ">", "GRR on every attribute.", Way(GRR, OWN)),
    _spl("oue", "OUE", "#d1495b", "*", "OUE on every attribute.", Way(OUE, OWN)),
    _spl("sue", "SUE", "#2e86ab", "h", "SUE on every attribute.", Way(SUE, OWN)),
    _smp("grr", "GRR", "#edae49", "p", "GRR on one sampled attribute.", Way(GRR, NOTHING)),
    _smp("oue", "OUE", "#7a7a7a", "d", "OUE on one sampled attribute.", Way(OUE, NOTHING)),
    _smp("sue", "SUE", "#3c9d63", "8", "SUE on one sampled attribute.", Way(SUE, NOTHING)),
    # local hashing, histogram encoding and other unary encodings
    _spl("olh", "OLH", "#0f4c5c", "1", "Local hashing with the best number of hashes, on every attribute.", Way(OLH, OWN)),
    _smp("olh", "OLH", "#9b2226", "2", "Local hashing with the best number of hashes, on one sampled attribute.", Way(OLH, NOTHING)),
    _spl("blh", "BLH", "#0f4c5c", "3", "Local hashing to one bit, on every attribute.", Way(BLH, OWN)),
    _smp("blh", "BLH", "#9b2226", "4", "Local hashing to one bit, on one sampled attribute.", Way(BLH, NOTHING)),
    _spl("the", "THE", "#0f4c5c", "+", "Histogram encoding with a threshold, on every attribute.", Way(THE, OWN)),
    _smp("the", "THE", "#9b2226", "x", "Histogram encoding with a threshold, on one sampled attribute.", Way(THE, NOTHING)),
    _spl("rue", "RUE", "#0f4c5c", "|", "The unary encoding of least total error, on every attribute.", Way(RUE, OWN)),
    _smp("rue", "RUE", "#9b2226", "_", "The unary encoding of least total error, on one sampled attribute.", Way(RUE, NOTHING)),
    # one report of a longitudinal protocol: epsilon is what all reports together lose, the first one loses a share of it
    _spl("l-grr", "L-GRR", "#5f0f40", "o", "One report of GRR on a memoised GRR, on every attribute.", Way(L_GRR, OWN)),
    _spl("l-sue", "L-SUE", "#5f0f40", "^", "One report of SUE on a memoised SUE (basic RAPPOR), on every attribute.", Way(L_SUE, OWN)),
    _spl("l-osue", "L-OSUE", "#5f0f40", "D", "One report of SUE on a memoised OUE, on every attribute.", Way(L_OSUE, OWN)),
    _smp("l-grr", "L-GRR", "#6a994e", "s", "One report of GRR on a memoised GRR, on one sampled attribute.", Way(L_GRR, NOTHING)),
    _smp("l-sue", "L-SUE", "#6a994e", "v", "One report of SUE on a memoised SUE (basic RAPPOR), on one sampled attribute.", Way(L_SUE, NOTHING)),
    _smp("l-osue", "L-OSUE", "#6a994e", "P", "One report of SUE on a memoised OUE, on one sampled attribute.", Way(L_OSUE, NOTHING)),
)
# fmt: on
REGISTRY: dict[str, Protocol] = {entry.name: entry for entry in _ENTRIES}
PROTOCOLS: tuple[str, ...] = tuple(REGISTRY)
PAPER: tuple[str, ...] = PROTOCOLS[:6]  # the six methods that the paper evaluates


def check_protocol(protocol: object) -> str:
    if str(protocol) not in REGISTRY:
        raise InputError(f"unknown protocol {protocol!r}; available: {', '.join(REGISTRY)}")
    return str(protocol)


def label(protocol: str) -> str:
    """The paper's name of a protocol: `RS+FD[OUE-z]` for `rsfd-oue-z`."""
    return REGISTRY[check_protocol(protocol)].label


@dataclass(frozen=True)
class Terms:
    """What protocols are run under, besides epsilon."""

    first_report: float = 0.5  # longitudinal protocols: the share of epsilon that the first report loses
    priors: tuple[Thresholds | None, ...] | None = None  # of fake values, per attribute; None: uniform


TERMS = Terms()


def mechanism(protocol: str, epsilon: float, d: int, k: int) -> Mechanism:
    """What `protocol` does to an attribute of k values among d, at a total budget of epsilon."""
    return _mechanism(check_protocol(protocol), epsilon, d, k, TERMS.first_report, None)


def mechanisms(protocol: str, epsilon: float, domain: Sequence[int], terms: Terms = TERMS) -> tuple[Mechanism, ...]:
    """What a protocol does to each attribute."""
    sizes, d = Domain.of(domain), len(domain)
    priors = terms.priors or (None,) * d
    return tuple(
        _mechanism(protocol, epsilon, d, k, terms.first_report, prior) for k, prior in zip(sizes, priors, strict=True)
    )


@lru_cache(maxsize=1 << 16)
def _mechanism(
    protocol: str, epsilon: float, d: int, k: int, first_report: float, prior: Thresholds | None
) -> Mechanism:
    entry, e = REGISTRY[protocol], 0.0
    try:
        e = entry.budget.rule(epsilon, d)
        if not math.exp(e) < math.inf:
            raise OverflowError
        way = choose(entry.ways, e, d, k)
        spent = e * first_report if way.noise.memoised else e
        noise = way.noise.thresholds(spent, k)
        informative = noise.informative
    except OverflowError:
        raise InputError(f"epsilon={epsilon} is too large for {protocol} with d={d}: e^epsilon overflows") from None
    except ZeroDivisionError:  # the budget rounds to nothing inside a formula
        informative = False
    if not informative:
        raise InputError(
            f"epsilon={epsilon} is too small for {protocol} with d={d} and k={k}: at a budget of {e:.3g} per attribute "
            "the report no longer depends on the value (p = q after rounding towards privacy)"
        )
    return Mechanism(way.name, d, k, e, Recipe(way.others, noise, prior if way.prior else None), way.noise, spent)
