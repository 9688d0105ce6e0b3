"""The exact privacy loss of a protocol, as its integer thresholds realise it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import check_epsilon, check_seed
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import REGISTRY, Terms, check_protocol, mechanisms
from gpu_rsfd.protocols.budgets import check_guarantee
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.protocols.priors import Prior


def privacy_loss(
    protocol: str,
    epsilon: float,
    domain: Sequence[int],
    guarantee: str = "paper",
    prior: object = None,
    prior_seed: int = 0,
) -> npt.NDArray[np.float64]:
    """[d]: entry m - 1 is the worst log-likelihood ratio of a report between two users who differ in m attributes.

    Worst over the set of attributes, the users' values and the report.  `guarantee`: what epsilon bounds (`paper`,
    `user`, `attribute`).  `prior`: the law of fake values of RS+RFD (`uniform`, `dirichlet:A`, `zipf:S`, a JSON file,
    or frequencies, a sequence for each attribute).  Longitudinal protocols: the loss of their first report.
    """
    sizes, law = Domain.of(domain), Prior.of(prior)
    if prior is not None and not REGISTRY[check_protocol(protocol)].prior:
        raise InputError(f"prior={law.short} is for RS+RFD; {protocol} has no prior")
    terms = Terms(priors=law.thresholds(sizes, None, check_seed(prior_seed)), guarantee=check_guarantee(guarantee))
    return losses(mechanisms(check_protocol(protocol), check_epsilon(epsilon), sizes, terms))
