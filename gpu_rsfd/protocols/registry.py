"""Every protocol of the tool, one entry each.  All else (backends, theory, plots, docs, help) follows from these."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols.adaptive import Way, choose
from gpu_rsfd.protocols.budgets import AMPLIFIED, SPLIT, WHOLE, Budget, largest
from gpu_rsfd.protocols.form import Others, Recipe, Thresholds
from gpu_rsfd.protocols.loss import Likelihoods
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
    def prior(self) -> bool:
        """Whether fake values follow the prior of the spec."""
        return any(way.prior for way in self.ways)

    @property
    def memoised(self) -> bool:
        """Whether it is one report of a longitudinal protocol."""
        return any(way.noise.memoised for way in self.ways)


def _fd(name: str, label: str, colour: str, marker: str, summary: str, *ways: Way) -> Protocol:
    return Protocol(f"rsfd-{name}", f"RS+FD[{label}]", colour, marker, AMPLIFIED, ways, summary)


def _rfd(name: str, label: str, colour: str, marker: str, summary: str, *ways: Way) -> Protocol:
    return Protocol(f"rsrfd-{name}", f"RS+RFD[{label}]", colour, marker, AMPLIFIED, ways, summary)


def _spl(name: str, label: str, colour: str, marker: str, summary: str, *ways: Way) -> Protocol:
    return Protocol(f"spl-{name}", f"Spl[{label}]", colour, marker, SPLIT, ways, summary)


def _smp(name: str, label: str, colour: str, marker: str, summary: str, *ways: Way) -> Protocol:
    return Protocol(f"smp-{name}", f"Smp[{label}]", colour, marker, WHOLE, ways, summary)


# fmt: off
# ruff: noqa: E501  (a table: one protocol, one line)
_ENTRIES = (
    # the six methods that the paper evaluates
    _fd("grr", "GRR", "#1b1b1b", "o", "GRR of one attribute; fakes: random values.", Way(GRR, FAKE)),
    _fd("oue-z", "OUE-z", "#d1495b", "^", "OUE of one attribute; fakes: OUE of zeros.", Way(OUE, ZERO)),
    _fd("oue-r", "OUE-r", "#2e86ab", "s", "OUE of one attribute; fakes: OUE of random values.", Way(OUE, FAKE)),
    _fd("adp", "ADP", "#edae49", "D", "GRR or OUE-z for each attribute, by variance.", Way(OUE, ZERO), Way(GRR, FAKE)),
    _spl("adp", "ADP", "#7a7a7a", "v", "All attributes, epsilon / d each; GRR or OUE.", Way(GRR, OWN), Way(OUE, OWN)),
    _smp("adp", "ADP", "#3c9d63", "P", "One attribute, and it alone; GRR or OUE.", Way(GRR, NOTHING), Way(OUE, NOTHING)),
    # the same solutions with SUE, and without the adaptive choice
    _fd("sue-z", "SUE-z", "#8e5ea2", "X", "SUE of one attribute; fakes: SUE of zeros.", Way(SUE, ZERO)),
    _fd("sue-r", "SUE-r", "#a65628", "<", "SUE of one attribute; fakes: SUE of random values.", Way(SUE, FAKE)),
    _spl("grr", "GRR", "#1b1b1b", ">", "All attributes, epsilon / d each; GRR.", Way(GRR, OWN)),
    _spl("oue", "OUE", "#d1495b", "*", "All attributes, epsilon / d each; OUE.", Way(OUE, OWN)),
    _spl("sue", "SUE", "#2e86ab", "h", "All attributes, epsilon / d each; SUE.", Way(SUE, OWN)),
    _smp("grr", "GRR", "#edae49", "p", "One attribute, and it alone; GRR.", Way(GRR, NOTHING)),
    _smp("oue", "OUE", "#7a7a7a", "d", "One attribute, and it alone; OUE.", Way(OUE, NOTHING)),
    _smp("sue", "SUE", "#3c9d63", "8", "One attribute, and it alone; SUE.", Way(SUE, NOTHING)),
    # fake data that follow a prior; with a uniform one they are RS+FD
    _rfd("grr", "GRR", "#00798c", "o", "GRR of one attribute; fakes: values of a prior.", Way(GRR, FAKE, prior=True)),
    _rfd("oue-r", "OUE-r", "#00798c", "s", "OUE of one attribute; fakes: OUE of prior values.", Way(OUE, FAKE, prior=True)),
    _rfd("sue-r", "SUE-r", "#00798c", "<", "SUE of one attribute; fakes: SUE of prior values.", Way(SUE, FAKE, prior=True)),
    # local hashing, histogram encoding and other unary encodings
    _spl("olh", "OLH", "#0f4c5c", "1", "All attributes, epsilon / d each; local hashing.", Way(OLH, OWN)),
    _smp("olh", "OLH", "#9b2226", "2", "One attribute, and it alone; local hashing.", Way(OLH, NOTHING)),
    _spl("blh", "BLH", "#0f4c5c", "3", "All attributes, epsilon / d each; one-bit hashing.", Way(BLH, OWN)),
    _smp("blh", "BLH", "#9b2226", "4", "One attribute, and it alone; one-bit hashing.", Way(BLH, NOTHING)),
    _spl("the", "THE", "#0f4c5c", "+", "All attributes, epsilon / d each; noisy histogram.", Way(THE, OWN)),
    _smp("the", "THE", "#9b2226", "x", "One attribute, and it alone; noisy histogram.", Way(THE, NOTHING)),
    _spl("rue", "RUE", "#0f4c5c", "|", "All attributes, epsilon / d each; least-error UE.", Way(RUE, OWN)),
    _smp("rue", "RUE", "#9b2226", "_", "One attribute, and it alone; least-error UE.", Way(RUE, NOTHING)),
    # one report of a longitudinal protocol: epsilon is what all reports together lose, the first one loses a share of it
    _spl("l-grr", "L-GRR", "#5f0f40", "o", "All attributes, epsilon / d each; L-GRR, once.", Way(L_GRR, OWN)),
    _spl("l-sue", "L-SUE", "#5f0f40", "^", "All attributes, epsilon / d each; RAPPOR, once.", Way(L_SUE, OWN)),
    _spl("l-osue", "L-OSUE", "#5f0f40", "D", "All attributes, epsilon / d each; L-OSUE, once.", Way(L_OSUE, OWN)),
    _smp("l-grr", "L-GRR", "#6a994e", "s", "One attribute, and it alone; L-GRR, once.", Way(L_GRR, NOTHING)),
    _smp("l-sue", "L-SUE", "#6a994e", "v", "One attribute, and it alone; RAPPOR, once.", Way(L_SUE, NOTHING)),
    _smp("l-osue", "L-OSUE", "#6a994e", "P", "One attribute, and it alone; L-OSUE, once.", Way(L_OSUE, NOTHING)),
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
    guarantee: str = "paper"  # what epsilon bounds: budgets.GUARANTEES


TERMS = Terms()


def mechanism(protocol: str, epsilon: float, d: int, k: int) -> Mechanism:
    """What `protocol` does to an attribute of k values among d, at a total budget of epsilon (paper's guarantee)."""
    e = _budget(check_protocol(protocol), epsilon, d, TERMS.guarantee)
    return _mechanism(protocol, epsilon, e, d, k, TERMS.first_report, None)


def mechanisms(protocol: str, epsilon: float, domain: Sequence[int], terms: Terms = TERMS) -> tuple[Mechanism, ...]:
    """What a protocol does to each attribute."""
    sizes, d, entry = Domain.of(domain), len(domain), REGISTRY[check_protocol(protocol)]
    priors = terms.priors if terms.priors is not None and entry.prior else (None,) * d
    if len(priors) != d:
        raise InputError(f"terms have the priors of {len(priors)} attributes, but domain has {d}")
    if entry.budget.by(terms.guarantee) is None:
        e = _largest_budget(protocol, epsilon, sizes, terms.first_report, priors)
    else:
        e = _budget(protocol, epsilon, d, terms.guarantee)
    return tuple(
        _mechanism(protocol, epsilon, e, d, k, terms.first_report, prior)
        for k, prior in zip(sizes, priors, strict=True)
    )


@lru_cache(maxsize=1 << 12)
def _budget(protocol: str, epsilon: float, d: int, guarantee: str) -> float:
    """What an attribute's randomiser may spend, if that depends on epsilon and d alone."""
    rule = REGISTRY[protocol].budget.by(guarantee)
    assert rule is not None
    try:
        return rule(epsilon, d)
    except OverflowError:
        raise _too_large(protocol, epsilon, d) from None


@lru_cache(maxsize=1 << 10)
def _largest_budget(
    protocol: str, epsilon: float, domain: Domain, first_report: float, priors: tuple[Thresholds | None, ...]
) -> float:
    """The largest budget whose exact loss for one attribute is at most epsilon, over the whole domain."""
    entry, d = REGISTRY[protocol], len(domain)
    kinds = Counter(zip(domain, priors, strict=True))

    def fits(e: float) -> bool:
        try:
            found = [_built(entry, e, d, k, first_report, prior) for k, prior in kinds]
        except OverflowError:
            return False
        except ZeroDivisionError:
            return True
        if not all(m.recipe.noise.informative for m in found):
            return True  # too small a budget to tell anything: more of it fits
        return Likelihoods.of_kinds(found, list(kinds.values())).one() <= epsilon

    return largest(fits, epsilon, smooth=not entry.adaptive)


def _built(entry: Protocol, e: float, d: int, k: int, first_report: float, prior: Thresholds | None) -> Mechanism:
    if not math.exp(e) < math.inf:
        raise OverflowError
    way = choose(entry.ways, e, d, k)
    spent = e * first_report if way.noise.memoised else e
    recipe = Recipe(way.others, way.noise.thresholds(spent, k), prior if way.prior else None)
    return Mechanism(way.name, d, k, e, recipe, way.noise, spent)


def _too_large(protocol: str, epsilon: float, d: int) -> InputError:
    return InputError(f"epsilon={epsilon} is too large for {protocol} with d={d}: e^epsilon overflows")


@lru_cache(maxsize=1 << 16)
def _mechanism(
    protocol: str, epsilon: float, e: float, d: int, k: int, first_report: float, prior: Thresholds | None
) -> Mechanism:
    try:
        built = _built(REGISTRY[protocol], e, d, k, first_report, prior)
        if built.recipe.noise.informative:
            return built
    except OverflowError:
        raise _too_large(protocol, epsilon, d) from None
    except ZeroDivisionError:  # the budget rounds to nothing inside a formula
        pass
    raise InputError(
        f"epsilon={epsilon} is too small for {protocol} with d={d} and k={k}: at a budget of {e:.3g} per attribute "
        "the report no longer depends on the value (p = q after rounding towards privacy)"
    )
