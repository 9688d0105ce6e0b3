"""Protocols as data: `registry` has an entry for each, everything else follows from its normal form (`form`)."""

from gpu_rsfd.protocols.form import Bits as Bits
from gpu_rsfd.protocols.form import Chain as Chain
from gpu_rsfd.protocols.form import Keep as Keep
from gpu_rsfd.protocols.form import Recipe as Recipe
from gpu_rsfd.protocols.form import Sets as Sets
from gpu_rsfd.protocols.form import Subsets as Subsets
from gpu_rsfd.protocols.form import Unsampled as Unsampled
from gpu_rsfd.protocols.form import prior_frequencies as prior_frequencies
from gpu_rsfd.protocols.mechanism import Mechanism as Mechanism
from gpu_rsfd.protocols.mechanism import group_size as group_size
from gpu_rsfd.protocols.registry import DEFAULT_SETTINGS as DEFAULT_SETTINGS
from gpu_rsfd.protocols.registry import PAPER as PAPER
from gpu_rsfd.protocols.registry import PROTOCOLS as PROTOCOLS
from gpu_rsfd.protocols.registry import REGISTRY as REGISTRY
from gpu_rsfd.protocols.registry import PrivacySettings as PrivacySettings
from gpu_rsfd.protocols.registry import Protocol as Protocol
from gpu_rsfd.protocols.registry import as_protocol as as_protocol
from gpu_rsfd.protocols.registry import label as label
from gpu_rsfd.protocols.registry import mechanism as mechanism
from gpu_rsfd.protocols.registry import mechanisms as mechanisms
