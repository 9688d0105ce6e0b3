"""Protocols as data: `registry` has an entry for each, everything else follows from its normal form (`form`)."""

from gpu_rsfd.protocols.form import Bits, Keep, Others, Recipe, prior_frequencies
from gpu_rsfd.protocols.mechanism import Mechanism, group_size, mean_inverse_binomial
from gpu_rsfd.protocols.registry import (
    PAPER,
    PROTOCOLS,
    REGISTRY,
    TERMS,
    Protocol,
    Terms,
    check_protocol,
    label,
    mechanism,
    mechanisms,
)

__all__ = [
    "PAPER",
    "PROTOCOLS",
    "REGISTRY",
    "TERMS",
    "Bits",
    "Keep",
    "Mechanism",
    "Others",
    "Protocol",
    "Recipe",
    "Terms",
    "check_protocol",
    "group_size",
    "label",
    "mean_inverse_binomial",
    "mechanism",
    "mechanisms",
    "prior_frequencies",
]
