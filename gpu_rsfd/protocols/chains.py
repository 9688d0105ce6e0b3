"""Longitudinal protocols: both steps at two budgets, and what m reports of one memo lose (docs/rounds.md).

A value that a user holds is randomised once, with the budget e of all reports together, and remembered: the memo.  Each
report is the memo, randomised again, so that the first one loses e1, a share of e.  Thresholds are rounded towards
privacy: the second step's are the most telling integers with which the realised loss of one report is at most e1.

`mechanisms(protocol, epsilon, domain, settings)` makes recipes whose noise is a `Chain` if `settings.memo` is True (or
False: nothing is remembered, so that every report is randomised afresh; None, the default, is one report alone).
Estimators, variances and exact losses of one round follow from p and q of the chain as they do for any noise.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.protocols.form import Bits, Chain, Keep, Noise
from gpu_rsfd.protocols.noise import BLH, GRR, OLH, OUE, SUE, NoiseRule, keep_threshold
from gpu_rsfd.tape import KEEP_ONE, ONE

LEAST = 1e-300  # stands for the probability 0
Floats = npt.NDArray[np.float64]
Chained = Callable[[float, float, int], Chain]  # (e, e1, k)


def log(x: npt.ArrayLike) -> Any:
    """The logarithm; of 0 a number that is small enough."""
    return np.log(np.maximum(x, LEAST))


def of_bit(chain: Chain, k: int, ones: Any, reports: Any) -> tuple[Floats, Floats]:
    """Logs of the likelihoods of reports in which a bit is set so often: if it is the held value's, and if not."""
    p1, q1, p2, q2 = chain.steps(k)
    with np.errstate(divide="ignore"):
        set_, clear = (ones * log(x) + (reports - ones) * log(1 - x) for x in (p2, q2))
        own, other = (np.logaddexp(np.log(x) + set_, np.log1p(-x) + clear) for x in (p1, q1))
    return own, other


def odds(chain: Chain, k: int, reports: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Logs of the likelihoods of m reports of one memo, of a value that all of them support and of one that none does.

    They are relative to a value drawn at random, or with bits, of which each counts alone, to no value at all.
    """
    m, (p1, q1, p2, q2) = np.asarray(reports, np.float64), chain.steps(k)
    if isinstance(chain.memo, Bits):
        high, low = (np.subtract(*of_bit(chain, k, ones, m)) for ones in (m, 0 * m))
        return high, low
    size, none = chain.cells or k, m * (log(q2) - log(p2))
    with np.errstate(divide="ignore"):
        share = np.log(p1 - q1) - np.log1p((size - 1) * np.exp(none))
        high, low = (np.logaddexp(np.log(q1), x) + math.log(size) for x in (share, share + none))
    return high, low


def loss(chain: Chain, k: int, reports: npt.ArrayLike = 1) -> Any:
    """What m reports of one memo lose: the worst log-likelihood ratio between two values; with no end of reports, e."""
    high, low = odds(chain, k, reports)
    return high - low


def built(rule: NoiseRule, e: float, e1: float, k: int, memo: bool | None) -> tuple[Noise, float, float]:
    """A noise, the loss of one report of it and the bits that this takes; `memo` as in `PrivacySettings`."""
    if rule.chain is None or (memo is None and rule.thresholds is not _no_rule):
        noise = rule.thresholds(e1, k)
        return noise, rule.loss(noise, e1, k) if noise.informative else 0.0, rule.bits(e1, k)
    chain = rule.chain(e, e1, k)
    bits = k if isinstance(chain.memo, Bits) else math.log2(chain.cells or k)
    if not chain.informative or memo:
        return chain, float(loss(chain, k)) if chain.informative else 0.0, bits
    if memo is None and chain.cells:  # one report as a noise of its own: what it says of values, not of cells
        one = Bits(math.floor(ONE * chain.p(k)), math.ceil(ONE * chain.q(k)))
        return one, math.log(one.tp / (ONE - one.tp) * (chain.cells - 1)), bits
    apart = afresh(chain, k)
    return apart.second if memo is None else apart, float(loss(apart, k)), bits


def afresh(chain: Any, k: int) -> Chain:
    """A chain without a memo, whose reports are each like the first one, rounded towards privacy."""
    if isinstance(chain.memo, Bits):
        return Chain(Bits(ONE, 0), Bits(math.floor(ONE * chain.p(k)), math.ceil(ONE * chain.q(k))))
    return Chain(Keep(KEEP_ONE), Keep(chain.memo.threshold * chain.second.integers[0] // KEEP_ONE), chain.cells)


# ---------------------------------------------------------------------------------------------------- both steps


def _of_kept(cells: Callable[[float, float], int] = lambda e, e1: 0, published: bool = False) -> Chained:
    """Two steps of GRR, on values or on hash cells."""

    def chain(e: float, e1: float, k: int) -> Chain:
        g = cells(e, e1)
        memo: Any = GRR.thresholds(e, g or k)

        if e1 == e:
            second = KEEP_ONE
        elif published:
            ratio = math.expm1(e + e1) / (math.exp(e) - math.exp(e1))
            second = keep_threshold((ratio - 1) / (ratio + (g or k) - 1))
        else:
            second = bisect_left(range(KEEP_ONE), True, key=lambda x: loss(Chain(memo, Keep(x), g), k) > e1) - 1
        return Chain(memo, Keep(second), g)

    return chain


def _of_bits(rule: NoiseRule, half: bool = False) -> Chained:
    """A unary encoding, then a symmetric step, or one that keeps a set bit with probability 1/2."""

    def chain(e: float, e1: float, k: int) -> Chain:
        memo: Any = rule.thresholds(e, k)

        def second(tq: int) -> Bits:
            return Bits(ONE // 2 if half else ONE - tq, tq)

        if e1 == e:
            return Chain(memo, Bits(ONE, 0))
        private = bisect_left(range(1, ONE // 2), True, key=lambda tq: loss(Chain(memo, second(tq)), k) <= e1)
        return Chain(memo, second(1 + private))

    return chain


def _published_cells(e: float, e1: float) -> int:
    """The g of OLOLOHA's authors; that of OLH where there is no second step, which is its limit."""
    if e1 == e:
        return round(math.exp(e)) + 1
    a, b = math.exp(-e), math.exp(e1 - e)
    more = 12 * b - 12 * b**2 - 14 * a**2 + 12 * a**2 * b + a**4  # than 1, under the root
    return max(2, round((more / (math.sqrt(1 + more) + 1) + 6 * a * (1 - b) + a**2) / (6 * a * (1 - b))))


# --------------------------------------------------------------------------------------------------------- rules


def _no_rule(e: float, k: int) -> Any:
    """For chains whose one report is no plain noise at e1: both budgets are needed."""
    raise TypeError("one report of this chain depends on both budgets: built() makes it")


def _longitudinal(name: str, rule: NoiseRule, chain: Chained, source: str, second: str = "") -> NoiseRule:
    """Both steps together are the plain rule at e1, so one round is simulated by that rule.

    A chain of two GRRs is a GRR, and the second step is chosen so that one report loses exactly e1.  With another
    second step, which is described, one report has probabilities of its own.
    """
    stars = [text.replace("E", "E_1") for text in (rule.p_star, rule.q_star)]  # of the first report
    if second:
        rule = replace(rule, ideal=_no_rule, thresholds=_no_rule)
        stars = [rf"q_2 + p_1 (p_2 - q_2), {second}", stars[1] if "g" in stars[1] else "q_2 + q_1 (p_2 - q_2)"]
    return replace(rule, name=name, p_star=stars[0], q_star=stars[1], source=source, chain=chain)


_DCN = "Arcolezi et al., Digital Communications and Networks 2022"
_EDBT = "Arcolezi et al., EDBT 2023"
_RATIO = r"\frac{p_2}{q_2} = \frac{E E_1 - 1}{E - E_1}"
L_GRR = _longitudinal("l-grr", GRR, _of_kept(), f"after {_DCN}; for k > 2 with another second step")
L_SUE = _longitudinal("l-sue", SUE, _of_bits(SUE), "Erlingsson et al., CCS 2014 (RAPPOR, one report)")
L_OSUE = _longitudinal("l-osue", OUE, _of_bits(OUE), _DCN)
BILOLOHA = _longitudinal("biloloha", BLH, _of_kept(lambda e, e1: 2), _EDBT)
_OLH_CELLS = _of_kept(lambda e, e1: round(math.exp(e1)) + 1)
OLOLOHA = _longitudinal("ololoha", OLH, _OLH_CELLS, f"after {_EDBT}; with the cells of OLH and another second step")
L_OUE = _longitudinal("l-oue", OUE, _of_bits(OUE, half=True), _DCN, "p_2 = 1/2")
L_SOUE = _longitudinal("l-soue", SUE, _of_bits(SUE, half=True), _DCN, "p_2 = 1/2")
L_GRR_PUBLISHED = _longitudinal("l-grr-published", GRR, _of_kept(published=True), _DCN, _RATIO)
OLOLOHA_PUBLISHED = _longitudinal("ololoha-published", OLH, _of_kept(_published_cells, True), _EDBT, _RATIO)
