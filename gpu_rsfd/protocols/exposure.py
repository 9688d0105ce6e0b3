"""The exact privacy loss of a protocol, as its integer thresholds realise it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import check_epsilon, check_seed
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import PrivacySettings, Protocol, as_protocol, mechanisms
from gpu_rsfd.protocols.budgets import check_guarantee
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.protocols.priors import Prior


def privacy_loss(
    protocol: str | Protocol,
    epsilon: float,
    domain: Sequence[int],
    guarantee: str = "paper",
    prior: object = None,
    prior_seed: int = 0,
) -> npt.NDArray[np.float64]:
    """The exact privacy loss of a protocol, as its integer thresholds realise it.

    The worst log-likelihood ratio of a whole report between two users: over the attributes in which they differ, their
    values and the report.  For longitudinal protocols, that of the first report.  If a user-defined
    protocol claims its loss (`loss=`), the result is only as reliable as that claim.

    Parameters
    ----------
    protocol : str or Protocol
        Name of a protocol, or a user-defined protocol.
    epsilon : float
        The total budget.
    domain : sequence of int
        How many values each attribute has.
    guarantee : {'paper', 'user', 'attribute'}
        What epsilon bounds.
    prior : str, path or frequencies, optional
        The distribution of fake values of RS+RFD: `uniform`, `dirichlet:A`, `zipf:S`, a JSON file, or frequencies, a
        sequence for each attribute.
    prior_seed : int
        Seed of a random prior.

    Returns
    -------
    array of float, [d]
        Entry m - 1 is the loss between users who differ in m attributes.

    Raises
    ------
    InputError
        If a guarantee can't be given, or the budget can't be spent.

    Examples
    --------
    >>> gpu_rsfd.privacy_loss("smp-grr", 1.0, (4, 10)).round(3).tolist()
    [1.0, 1.0]
    """
    sizes, fakes = Domain.of(domain), Prior.of(prior)
    if prior is not None and not as_protocol(protocol).prior:
        raise InputError(f"prior={fakes.short} is for RS+RFD; {protocol} has no prior")
    settings = PrivacySettings(
        priors=fakes.thresholds(sizes, None, check_seed(prior_seed)), guarantee=check_guarantee(guarantee)
    )
    return losses(mechanisms(protocol, check_epsilon(epsilon), sizes, settings))
