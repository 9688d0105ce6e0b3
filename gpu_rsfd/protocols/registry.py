"""Every protocol of the tool, one entry each.  All else (backends, theory, plots, docs, help) follows from these."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import chains
from gpu_rsfd.protocols.adaptive import Variant, choose, switches
from gpu_rsfd.protocols.budgets import AMPLIFIED, SPLIT, WHOLE, Budget, check_guarantee, largest
from gpu_rsfd.protocols.form import Recipe, Thresholds, Unsampled
from gpu_rsfd.protocols.loss import Likelihoods, losses
from gpu_rsfd.protocols.mechanism import Mechanism
from gpu_rsfd.protocols.noise import BLH, GRR, HR, OLH, OUE, PGR, RUE, SS, SUE, THE, NoiseRule

OWN, NOTHING, ZERO, FAKE = Unsampled.OWN, Unsampled.NOTHING, Unsampled.ZERO, Unsampled.FAKE


@dataclass(frozen=True, eq=False, repr=False)
class Protocol:
    """A protocol as data.  Two are the same if they are one object: a name is only a shortcut for it."""

    name: str
    label: str  # the paper's name
    budget: Budget
    variants: tuple[Variant, ...]  # one, or two of which the better is taken for each attribute; the last wins a tie
    summary: str  # one sentence for people
    colour: str = ""  # as #rrggbb, and a marker of Matplotlib, if it has its own
    marker: str = ""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Protocol({self.name!r})"

    @property
    def adaptive(self) -> bool:
        return len(self.variants) > 1

    @property
    def partial(self) -> bool:
        """Whether an attribute is reported by those alone who sampled it."""
        return self.variants[0].unsampled is NOTHING

    @property
    def prior(self) -> bool:
        """Whether fake values follow the prior of the spec."""
        return any(variant.prior for variant in self.variants)

    @property
    def memoised(self) -> bool:
        """Whether it is one report of a longitudinal protocol."""
        return any(variant.noise.chain is not None for variant in self.variants)

    @property
    def claimed(self) -> bool:
        """Whether its loss is what its author states: it can't be computed from p and q."""
        return any(variant.noise.claimed for variant in self.variants)


def _solution(prefix: str, title: str, budget: Budget, summary: str) -> Callable[..., Protocol]:
    """What makes the entries of a solution; `what` completes its summary."""

    def entry(name: str, label: str, what: str, *variants: Variant) -> Protocol:
        return Protocol(f"{prefix}-{name}", f"{title}[{label}]", budget, variants, summary.format(what))

    return entry


_fd = _solution("rsfd", "RS+FD", AMPLIFIED, "{}.")
_rfd = _solution("rsrfd", "RS+RFD", AMPLIFIED, "{} from a prior for the rest.")
_spl = _solution("spl", "Spl", SPLIT, "{} of every attribute, epsilon / d each.")
_smp = _solution("smp", "Smp", WHOLE, "{} of one sampled attribute only.")


def _both(*noises: tuple[str, str, str, NoiseRule]) -> list[Protocol]:
    """Noises for Spl, then for Smp."""
    return [one(*about, Variant(rule, sent)) for one, sent in ((_spl, OWN), (_smp, NOTHING)) for *about, rule in noises]


# fmt: off
# ruff: noqa: E501  (a table: one protocol, one line)
_ENTRIES = (
    # the six methods that the paper evaluates
    _fd("grr", "GRR", "GRR of one attribute, fake values for the rest", Variant(GRR, FAKE)),
    _fd("oue-z", "OUE-z", "OUE of one attribute, of zeros for the rest", Variant(OUE, ZERO)),
    _fd("oue-r", "OUE-r", "OUE of one attribute, of fake values for the rest", Variant(OUE, FAKE)),
    _fd("adp", "ADP", "GRR or OUE-z, whichever has the smaller variance", Variant(OUE, ZERO), Variant(GRR, FAKE)),
    _spl("adp", "ADP", "GRR or OUE", Variant(GRR, OWN), Variant(OUE, OWN)),
    _smp("adp", "ADP", "GRR or OUE", Variant(GRR, NOTHING), Variant(OUE, NOTHING)),
    # the same solutions with SUE, and without the adaptive choice
    _fd("sue-z", "SUE-z", "SUE of one attribute, of zeros for the rest", Variant(SUE, ZERO)),
    _fd("sue-r", "SUE-r", "SUE of one attribute, of fake values for the rest", Variant(SUE, FAKE)),
    *_both(("grr", "GRR", "GRR", GRR), ("oue", "OUE", "OUE", OUE), ("sue", "SUE", "SUE", SUE)),
    # fake data that follow a prior (Arcolezi, Gambs, Couchot, Palamidessi, PVLDB 16(5), 2023); with a uniform one they are RS+FD
    _rfd("grr", "GRR", "GRR of one attribute, fake values", Variant(GRR, FAKE, prior=True)),
    _rfd("oue-r", "OUE-r", "OUE of one attribute, of fake values", Variant(OUE, FAKE, prior=True)),
    _rfd("sue-r", "SUE-r", "SUE of one attribute, of fake values", Variant(SUE, FAKE, prior=True)),
    # local hashing, histogram encoding and other unary encodings
    *_both(("olh", "OLH", "Local hashing", OLH)),
    *_both(("blh", "BLH", "Binary local hashing", BLH)),
    *_both(("the", "THE", "Thresholded histogram", THE)),
    *_both(("rue", "RUE", "Least-error unary encoding", RUE)),
    # message sets
    *_both(("hr", "HR", "Hadamard response", HR)),
    _fd("hr", "HR", "Hadamard response of one attribute, random messages for the rest", Variant(HR, FAKE)),
    *_both(("pgr", "PGR", "Projective geometry", PGR)),
    _fd("pgr", "PGR", "Projective geometry of one attribute, random messages for the rest", Variant(PGR, FAKE)),
    # subset selection
    *_both(("ss", "SS", "Subset selection", SS)),
    # one report of a longitudinal protocol: epsilon is what all reports together lose, the first one loses a share of it
    *_both(
        ("l-grr", "L-GRR", "One L-GRR report", chains.L_GRR),
        ("l-sue", "L-SUE", "One RAPPOR report", chains.L_SUE),
        ("l-osue", "L-OSUE", "One L-OSUE report", chains.L_OSUE),
    ),
    _fd("l-grr", "L-GRR", "One L-GRR report of one attribute, fake values for the rest", Variant(chains.L_GRR, FAKE)),
    _fd("l-osue-z", "L-OSUE-z", "One L-OSUE report of one attribute, of zeros for the rest", Variant(chains.L_OSUE, ZERO)),
    _fd("l-osue-r", "L-OSUE-r", "One L-OSUE report of one attribute, of fake values for the rest", Variant(chains.L_OSUE, FAKE)),
    _fd("l-sue-z", "L-SUE-z", "One RAPPOR report of one attribute, of zeros for the rest", Variant(chains.L_SUE, ZERO)),
    _fd("l-sue-r", "L-SUE-r", "One RAPPOR report of one attribute, of fake values for the rest", Variant(chains.L_SUE, FAKE)),
    _rfd("l-osue-r", "L-OSUE-r", "One L-OSUE report of one attribute, of fake values", Variant(chains.L_OSUE, FAKE, prior=True)),
    _rfd("l-sue-r", "L-SUE-r", "One RAPPOR report of one attribute, of fake values", Variant(chains.L_SUE, FAKE, prior=True)),
    *_both(("l-oue", "L-OUE", "One L-OUE report", chains.L_OUE)),
    *_both(("l-soue", "L-SOUE", "One L-SOUE report", chains.L_SOUE)),
    *_both(("biloloha", "BiLOLOHA", "One BiLOLOHA report", chains.BILOLOHA)),
    *_both(("ololoha", "OLOLOHA", "One OLOLOHA report", chains.OLOLOHA)),
    *_both(("l-grr-published", "L-GRR, published", "One L-GRR, published report", chains.L_GRR_PUBLISHED)),
    *_both(("ololoha-published", "OLOLOHA, published", "One OLOLOHA, published report", chains.OLOLOHA_PUBLISHED)),
)
# fmt: on
REGISTRY: dict[str, Protocol] = {entry.name: entry for entry in _ENTRIES}
LABELS = {entry.label: entry.name for entry in _ENTRIES}
PROTOCOLS: tuple[str, ...] = tuple(REGISTRY)
PAPER: tuple[str, ...] = PROTOCOLS[:6]  # the six methods that the paper evaluates


def as_protocol(protocol: object) -> Protocol:
    """A protocol by its name or label; an object is taken as it is."""
    if isinstance(protocol, Protocol):
        return protocol
    wanted = LABELS.get(str(protocol), str(protocol))
    if wanted not in REGISTRY:
        close = difflib.get_close_matches(wanted, REGISTRY, 5)
        close.sort(key=lambda name: wanted not in (name[: len(wanted)], name.partition("-")[2]))  # half of a name
        hint = f"did you mean {close[0]}? " if close else ""
        raise InputError(f"unknown protocol {protocol!r}; {hint}available: {', '.join(REGISTRY)}")
    return REGISTRY[wanted]


def label(protocol: str | Protocol) -> str:
    """The label of a protocol in tables and figures.

    Parameters
    ----------
    protocol : str or Protocol
        Name of a protocol, or a user-defined protocol.

    Returns
    -------
    str
        The paper's label, or that of a user-defined protocol.

    Examples
    --------
    >>> gpu_rsfd.label("rsfd-oue-z")
    'RS+FD[OUE-z]'
    """
    return as_protocol(protocol).label


@dataclass(frozen=True)
class PrivacySettings:
    """Settings of all protocols of a run, besides epsilon.

    `Spec.settings_for` makes them for a data set.

    Attributes
    ----------
    first_report : float
        Share of epsilon that the first report of a longitudinal protocol spends.
    priors : tuple, optional
        Integer thresholds of the distribution of each attribute's fake values.  Default: uniform.
    guarantee : {'paper', 'user', 'attribute'}
        What epsilon bounds.
    memo : bool or None
        Over rounds, whether users remember what they randomised; None for one report.
    """

    first_report: float = 0.5
    priors: tuple[Thresholds | None, ...] | None = None
    guarantee: str = "paper"
    memo: bool | None = None

    def under(self, guarantee: str | None) -> PrivacySettings:
        """The same under a guarantee, if one is given."""
        return self if guarantee is None else replace(self, guarantee=check_guarantee(guarantee))


DEFAULT_SETTINGS = PrivacySettings()


def mechanism(protocol: str | Protocol, epsilon: float, d: int, k: int) -> Mechanism:
    """The mechanism of a protocol for one attribute, under the paper's guarantee.

    Parameters
    ----------
    protocol : str or Protocol
        Name of a protocol, or a user-defined protocol.
    epsilon : float
        The total budget.
    d : int
        Number of attributes.
    k : int
        Number of values of this attribute.

    Returns
    -------
    Mechanism
        Integer thresholds, the p and q that they realise, estimator, variances, loss.

    Examples
    --------
    >>> m = gpu_rsfd.mechanism("smp-oue", 1.0, d=4, k=10)
    >>> m.p, round(m.q, 4), m.loss <= 1.0
    (0.5, 0.2689, True)
    """
    entry = as_protocol(protocol)
    return _mechanism(entry, epsilon, *_budgets(entry, epsilon, d, DEFAULT_SETTINGS), d, k, None, None)


def mechanisms(
    protocol: str | Protocol,
    epsilon: float,
    domain: Sequence[int],
    settings: PrivacySettings = DEFAULT_SETTINGS,
    guarantee: str | None = None,
) -> tuple[Mechanism, ...]:
    """The mechanisms of a protocol for the attributes of a domain.

    Parameters
    ----------
    protocol : str or Protocol
        Name of a protocol, or a user-defined protocol.
    epsilon : float
        The total budget.
    domain : sequence of int
        Number of values of each attribute.
    settings : PrivacySettings
        The guarantee, the prior of fake values, and the first report of longitudinal protocols.
    guarantee : {'paper', 'user', 'attribute'}, optional
        What epsilon bounds.  Default: the guarantee of `settings`, which is `paper` unless set; `plan` assumes `user`.

    Returns
    -------
    tuple of Mechanism
        One for each attribute.

    Examples
    --------
    >>> [m.name for m in gpu_rsfd.mechanisms("smp-adp", 1.0, (3, 50))]
    ['grr', 'oue']
    """
    sizes, d, entry, settings = Domain.of(domain), len(domain), as_protocol(protocol), settings.under(guarantee)
    priors = settings.priors if settings.priors is not None and entry.prior else (None,) * d
    if len(priors) != d:
        raise InputError(f"settings have the priors of {len(priors)} attributes, but domain has {d}")
    if settings.guarantee != "paper" and entry.claimed:
        raise InputError(
            f"guarantee={settings.guarantee!r} can't be given for {entry}: its loss is claimed, not computed; use 'paper'"
        )
    if settings.memo is not None and not entry.memoised:
        names = ", ".join(name for name, other in REGISTRY.items() if other.memoised)
        raise InputError(f"{entry} has no second step, so it can't be collected in rounds; available: {names}")
    if entry.budget.by(settings.guarantee) is None:
        shares = 1.0, settings.first_report if entry.memoised else 1.0
        e, spent = (_largest_budget(entry, epsilon * a, sizes, priors, settings.guarantee) for a in shares)
    else:
        e, spent = _budgets(entry, epsilon, d, settings)
    kinds = dict.fromkeys(zip(sizes, priors, strict=True))
    made = {kind: _mechanism(entry, epsilon, e, spent, d, *kind, settings.memo) for kind in kinds}
    return tuple(made[kind] for kind in zip(sizes, priors, strict=True))


def _budgets(entry: Protocol, epsilon: float, d: int, settings: PrivacySettings) -> tuple[float, float]:
    """What an attribute's randomiser may spend, and what one report of it spends, which is amplified on its own."""
    e, a = _budget(entry, epsilon, d, settings.guarantee), settings.first_report if entry.memoised else 1.0
    return e, e * a if entry.budget is not AMPLIFIED else _budget(entry, epsilon * a, d, settings.guarantee)


@lru_cache(maxsize=1 << 12)
def _budget(entry: Protocol, epsilon: float, d: int, guarantee: str) -> float:
    """What an attribute's randomiser may spend, if that depends on epsilon and d alone."""
    rule = entry.budget.by(guarantee)
    assert rule is not None
    try:
        return rule(epsilon, d)
    except OverflowError:
        raise _too_large(entry, epsilon, d) from None


@lru_cache(maxsize=1 << 10)
def _largest_budget(
    entry: Protocol, epsilon: float, domain: Domain, priors: tuple[Thresholds | None, ...], guarantee: str
) -> float:
    """The largest budget whose exact loss, if one report spends all of it, is at most epsilon over the whole domain."""
    d, kinds = len(domain), Counter(zip(domain, priors, strict=True))

    def fits(e: float) -> bool:
        try:
            found = {kind: _built(entry, e, e, d, *kind, None) for kind in kinds}
        except OverflowError:
            return False
        except ZeroDivisionError:
            return True
        except InputError:  # a user's own function gives no probabilities here
            if e == epsilon:
                raise
            return False
        if not all(m.recipe.noise.informative for m in found.values()):
            return True  # too small a budget to tell anything: more of it fits
        if guarantee == "attribute" and entry.variants[0].unsampled.hides:
            return Likelihoods.of_kinds(list(found.values()), list(kinds.values())).one() <= epsilon
        every = [found[kind] for kind, count in kinds.items() for _ in range(count)]
        return float(losses(every, [1 if guarantee == "attribute" else d])[0]) <= epsilon

    e = largest(fits, epsilon, sorted({e for k in set(domain) for e in switches(entry.variants, d, k)}))
    if e == 0:
        raise InputError(f"no budget keeps the {guarantee} loss of {entry} within epsilon={epsilon:g}")
    return e


def _built(
    entry: Protocol, e: float, spent: float, d: int, k: int, prior: Thresholds | None, memo: bool | None
) -> Mechanism:
    if not math.exp(e) < math.inf:
        raise OverflowError
    variant = choose(entry.variants, e, d, k)
    rule = variant.noise
    noise, loss, bits = chains.built(rule, e, spent, k, memo)
    recipe = Recipe(variant.unsampled, noise, prior if variant.prior else None)
    return Mechanism(variant.name, d, k, e, recipe, spent, loss, bits, rule.plain, rule.claimed)


def _too_large(protocol: Protocol, epsilon: float, d: int) -> InputError:
    return InputError(f"epsilon={epsilon} is too large for {protocol} with d={d}: e^epsilon overflows")


@lru_cache(maxsize=1 << 16)
def _mechanism(
    entry: Protocol, epsilon: float, e: float, spent: float, d: int, k: int, prior: Thresholds | None, memo: bool | None
) -> Mechanism:
    try:
        made = _built(entry, e, spent, d, k, prior, memo)
        if made.recipe.noise.informative:
            return made
    except OverflowError:
        raise _too_large(entry, epsilon, d) from None
    except ZeroDivisionError:  # the budget rounds to nothing inside a formula
        pass
    raise InputError(
        f"epsilon={epsilon} is too small for {entry} with d={d} and k={k}: at a budget of {spent:.3g} per attribute "
        "the report no longer depends on the value (p = q after rounding towards privacy)"
    )
