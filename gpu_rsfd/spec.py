"""What to run: one frozen, checked object.  Each field is declared once, here, with everything about it.

Keywords in Python, options of the command line, keys of spec files, the JSON in a results file, the command that made
it and the table in the docs all follow from these declarations.  They import no NumPy.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from gpu_rsfd.checks import ASSIGNMENTS, GUARANTEES, MAX_WORD, check_epsilon, check_repetitions, check_share
from gpu_rsfd.errors import InputError
from gpu_rsfd.options import (
    Option,
    choice,
    distinct,
    entries,
    expanded,
    option_field,
    options_in,
    read_epsilons,
    read_list,
    unknown_name,
    whole,
    whole_number,
)

if TYPE_CHECKING:
    from gpu_rsfd.datasets.base import Dataset
    from gpu_rsfd.protocols import PrivacySettings, Protocol
    from gpu_rsfd.protocols.priors import Prior

SAMPLERS = ("users", "counts", "marginals")  # every user's report; or the exact distribution of the counts
PAPER_EPSILONS = tuple(math.log(i) for i in range(2, 8))
SAVE_EVERY = 2.0  # seconds of work that a killed run may lose, as far as blocks can be cut


def _check_protocols(values: Any) -> tuple[Protocol, ...]:
    from gpu_rsfd.protocols import PROTOCOLS, as_protocol

    chosen = tuple(as_protocol(value) for value in expanded(entries(values), PROTOCOLS, "protocol"))
    distinct("protocol", (protocol.name for protocol in chosen))
    return chosen


def _check_epsilons(values: Any) -> tuple[float, ...]:
    each = (read_epsilons(e) if isinstance(e, str) else [check_epsilon(e)] for e in entries(values))
    return distinct("epsilon", (epsilon for some in each for epsilon in some))


def _check_prior(value: Any) -> Prior:
    from gpu_rsfd.protocols.priors import Prior

    return Prior.of(value)


def _late(module: str, name: str) -> Any:
    """What a module has, which is imported when it is asked for."""
    return lambda: getattr(importlib.import_module(f"gpu_rsfd.{module}"), name)


def _protocols_with(feature: str) -> str:
    from gpu_rsfd.protocols import REGISTRY

    return ", ".join(name for name, entry in REGISTRY.items() if getattr(entry, feature))


def _some(feature: str) -> Any:
    """Whether a spec has a protocol with a feature."""
    return lambda spec: any(getattr(protocol, feature) for protocol in spec.protocols)


@dataclass(frozen=True)
class Spec:
    """What to run: protocols x epsilons x repetitions under one seed.

    Make one with `Spec.of`, which checks its fields; they are the keywords of `simulate`.
    """

    protocols: tuple[Protocol, ...] = option_field(
        "LIST",
        "Protocols by name, families such as `smp-*`, or all; `gpu-rsfd protocols` lists them.",
        "rsfd-grr,smp-adp",
        option="protocol",
        many=True,
        check=_check_protocols,
        read=read_list("protocol"),
        default=_late("protocols", "PAPER"),
        default_text="the paper's six",
        known=_late("protocols", "PROTOCOLS"),
        plain=lambda protocols: [protocol.name for protocol in protocols],
        shared=False,
        type_text="str, Protocol, or list of them, optional",
    )
    epsilons: tuple[float, ...] = option_field(
        "LIST",
        "Privacy budgets; 0.5:5:0.5 is a range.",
        "0.5,1,ln2",
        option="epsilon",
        many=True,
        check=_check_epsilons,
        read=read_epsilons,
        default=PAPER_EPSILONS,
        default_text="ln2,…,ln7",
        plain=list,
        shared=False,
        type_text="float, str, or list of them, optional",
    )
    repetitions: range = option_field(
        "N",
        "Repetitions of each cell.",
        "20",
        check=check_repetitions,
        read=lambda value: whole("repetitions", value),
        default=100,
        unused=("plan",),
        plain=lambda repetitions: [repetitions.start, repetitions.stop, repetitions.step],
        shared=False,
        type_text="int or range, optional",
    )
    seed: int = option_field(
        "N",
        "Seed of the simulation, 0 … 2**64 - 1; runs with the same seed read the same random words.",
        "42",
        default=0,
        unused=("plan",),
        **whole_number("seed", 0, MAX_WORD),
    )
    assignment: str = option_field(
        "NAME",
        "How users sample an attribute: uniform, or balanced (groups of equal size, as in the authors' experiments).",
        "balanced",
        default="uniform",
        defaults={"paper": "balanced"},
        **choice("assignment", ASSIGNMENTS),
    )
    sampler: str = option_field(
        "NAME",
        "Simulate every report (users), or draw from the exact distribution of the counts (counts, marginals).",
        "counts",
        default="users",
        unused=("plan",),
        **choice("sampler", SAMPLERS),
    )
    first_report: float = option_field(
        "SHARE",
        "Share of epsilon that the first report of a longitudinal protocol spends.",
        "0.3",
        check=lambda value: check_share("first_report", value),
        default=0.5,
        matters=_some("memoised"),
        needs=lambda: f"a longitudinal protocol; available: {_protocols_with('memoised')}",
        shared=False,
        type_text="float, optional",
    )
    guarantee: str = option_field(
        "NAME",
        "What epsilon bounds: paper, user (any two users) or attribute (two users who differ in one attribute).",
        "user",
        default="paper",
        defaults={"plan": "user"},
        brief=True,
        **choice("guarantee", GUARANTEES),
    )
    prior: Prior = option_field(  # noqa: RUF009  (a field, made when it is asked for)
        "PRIOR",
        "Distribution of the fake values of rsrfd-…: uniform, true, noisy:EPS, dirichlet:A, zipf:S or a JSON file.",
        "noisy:0.5",
        check=_check_prior,
        read=lambda value: value,
        default="uniform",
        known=("uniform", "true", "noisy:", "dirichlet:", "zipf:"),
        matters=_some("prior"),
        needs=lambda: f"a protocol whose fakes follow a prior; available: {_protocols_with('prior')}",
        brief=True,
        plain=lambda prior: prior.plain,
        shared=False,
        type_text="str, path or list of lists of float, optional",
    )
    prior_seed: int = option_field(
        "N",
        "Seed of a random prior (noisy, dirichlet).",
        "7",
        default=0,
        matters=lambda spec: spec.prior.needs_seed,
        needs=lambda: "a prior that is drawn at random: noisy:EPS or dirichlet:A",
        shared=False,
        **whole_number("prior_seed", 0, MAX_WORD),
    )

    @classmethod
    def of(cls, spec: Spec | None = None, **given: Any) -> Spec:
        """Check fields and make a spec of them.

        Parameters
        ----------
        spec : Spec, optional
            Provides the fields that are not given.  Default: the defaults.
        **given
            Fields, as in `simulate`.

        Returns
        -------
        Spec
            The spec.

        Raises
        ------
        InputError
            If a field is unknown or not valid, or has no effect on any of the protocols.
        """
        if spec is not None and not isinstance(spec, cls):
            raise InputError(f"spec={spec!r} must be a Spec; pass epsilons, protocols and other fields by keyword")
        for name in given:
            if name not in cls.__dataclass_fields__:
                raise InputError(unknown_name(name, cls.__dataclass_fields__))
        made = replace(spec or cls(), **{f.name: f.check(given[f.name]) for f in FIELDS if f.name in given})
        for f in FIELDS:
            value = getattr(made, f.name)
            if f.matters is not None and f.needs is not None and not f.matters(made) and value != f.check(f.value()):
                raise InputError(f"{f.name}={getattr(value, 'short', value)} needs {f.needs()}")
        return made

    @classmethod
    def of_command(cls, command: str, spec: Spec | None, given: Mapping[str, Any], kind: Any = None) -> Spec:
        """The spec of a command or a measurement, which may have its own defaults, and fields that it does not use."""
        for f in FIELDS:
            if f.name in given and (command in f.unused or (kind is not None and f.name in kind.unused)):
                raise InputError(f"{f.name}={given[f.name]} can't be used in {command}; leave it out")
        if unknown := given.keys() - cls.__dataclass_fields__.keys():
            known: Any = *fields(kind or cls), *FIELDS
            raise InputError(unknown_name(min(unknown), dict.fromkeys(f.name for f in known)))
        if spec is not None:
            return cls.of(spec, **given)
        own = {f.name: f.defaults[command] for f in FIELDS if command in f.defaults} | getattr(kind, "defaults", {})
        return cls.of(cls(**{f.name: f.check(own[f.name]) for f in FIELDS if f.name in own}), **given)

    def settings_for(self, data: Dataset) -> PrivacySettings:
        """The settings of its protocols for a data set, on which a prior may depend."""
        from gpu_rsfd.protocols import PrivacySettings

        counts = data.counts if self.prior.needs_data else None
        priors = self.prior.thresholds(data.domain, counts, self.prior_seed)
        return PrivacySettings(self.first_report, priors, self.guarantee)

    def described(self) -> dict[str, Any]:
        """As plain data.  What only some protocols need is left out where it means nothing."""
        kept = [f for f in FIELDS if f.matters is None or f.matters(self)]
        kept = [f for f in kept if not f.brief or getattr(self, f.name) != f.check(f.value())]
        return {f.name: f.plain(getattr(self, f.name)) for f in kept}


FIELDS: tuple[Option, ...] = options_in(Spec)
