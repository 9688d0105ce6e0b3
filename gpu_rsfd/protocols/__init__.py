"""Protocols as data: `registry` has an entry for each, everything else follows from its normal form (`form`)."""

from gpu_rsfd.protocols.form import Bits, Chain, Keep, Recipe, Sets, Subsets, Unsampled, prior_frequencies
from gpu_rsfd.protocols.mechanism import Mechanism, group_size
from gpu_rsfd.protocols.registry import (
    DEFAULT_SETTINGS,
    PAPER,
    PROTOCOLS,
    REGISTRY,
    PrivacySettings,
    Protocol,
    as_protocol,
    label,
    mechanism,
    mechanisms,
)

__all__ = [
    "DEFAULT_SETTINGS",
    "PAPER",
    "PROTOCOLS",
    "REGISTRY",
    "Bits",
    "Chain",
    "Keep",
    "Mechanism",
    "PrivacySettings",
    "Protocol",
    "Recipe",
    "Sets",
    "Subsets",
    "Unsampled",
    "as_protocol",
    "group_size",
    "label",
    "mechanism",
    "mechanisms",
    "prior_frequencies",
]
