"""The registry for people."""

from __future__ import annotations

from gpu_rsfd.protocols.form import Bits, Sets, Unsampled
from gpu_rsfd.protocols.registry import Protocol

_SENT = {
    Unsampled.OWN: "every attribute",
    Unsampled.NOTHING: "the sampled attribute, and which it is",
    Unsampled.ZERO: "every attribute: noise on zero vectors for those not sampled",
    Unsampled.FAKE: "every attribute: fake values for those not sampled",
}


def noises(protocol: Protocol) -> str:
    return " or ".join(dict.fromkeys(variant.noise.name for variant in protocol.variants))


def sends(protocol: Protocol) -> str:
    """What is sent."""
    kinds = []
    for variant in protocol.variants:
        text = _SENT[variant.unsampled]
        if variant.unsampled is Unsampled.FAKE and variant.noise.form is Bits:
            text = text.replace("fake values", "randomised fake one-hot vectors")
        elif variant.unsampled is Unsampled.FAKE and variant.noise.form is Sets:
            text = text.replace("fake values", "uniform messages")
        kinds.append(text + ", drawn from a prior" * variant.prior)
    return "; or ".join(dict.fromkeys(kinds))
