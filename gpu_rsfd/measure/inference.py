"""`attack`: how often the attacker who knows the marginals is right, from every user's report on the tape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_rsfd.backends.base import check_noises
from gpu_rsfd.domain import Domain
from gpu_rsfd.measure.base import Measurement
from gpu_rsfd.measure.guesses import LOOKS, right
from gpu_rsfd.options import choice, option_field
from gpu_rsfd.planning import Floats, Plan
from gpu_rsfd.protocols import Unsampled
from gpu_rsfd.results.estimate import postprocess
from gpu_rsfd.results.result import Column

if TYPE_CHECKING:
    from gpu_rsfd.measure.reports import Chunk
    from gpu_rsfd.measure.view import View
    from gpu_rsfd.results.result import Result

Marginals = list[Floats]  # of each attribute, [recipe, value]: what the attacker goes by


def most_frequent(frequencies: Floats, domain: Domain) -> float:
    """How many values are guessed by naming each attribute's most frequent one."""
    return float(np.mean([frequencies[columns].max() for columns in domain.slices]))


@dataclass(frozen=True)
class Inference(Measurement):
    """Simulate an attacker who knows the marginals and guesses sampled attributes and values from the reports."""

    knowledge: str = option_field(
        "NAME",
        "The marginals that the attacker knows: true, or estimated from the reports.",
        "estimated",
        default="true",
        **choice("knowledge", ("true", "estimated")),
    )

    name = "inference"
    command = "attack"
    arrays = {"sampled_success": (), "value_success": ()}
    columns = {
        "sampled_success": Column(
            "share of users whose sampled attribute is guessed",
            baseline=lambda header: 1 / len(header.domain),
            short="sampled attribute guessed",
            axis="share",
            field="sampled",
        ),
        "value_success": Column(
            "share of values that are guessed",
            baseline=lambda header: most_frequent(header.frequencies, header.domain),
            short="value guessed",
            axis="share",
            field="value",
        ),
    }
    about = "the attacker knows the {knowledge} marginals"
    defaults = {"repetitions": 10, "output": "attack.h5"}
    unused = ("sampler",)
    examples = (
        "gpu-rsfd attack --dataset nursery --epsilon 1,2,4",
        "gpu-rsfd attack --dataset adult --protocol rsfd-grr,rsrfd-grr --prior noisy:0.5 --output adult.h5",
        "gpu-rsfd attack --users 1e4 --domain 10x5 --guarantee attribute --knowledge estimated",
    )

    def measure(self, view: View) -> Mapping[str, Any]:
        check_noises(view.plan, "attack", LOOKS)
        if self.knowledge == "true":
            known = [np.tile(view.truth[a.columns], (len(a.recipes), 1)) for a in view.plan.attributes]
            sampled, values = view.sums(partial(_hits, known=known))
        else:
            sampled, values = view.sums(_hits, _estimated(view))
        users = view.data.n
        found = np.moveaxis(sampled, 0, 2) / users
        found[~np.array(view.plan.samples)] = np.nan
        return {
            "sampled_success": found,
            "value_success": np.moveaxis(values.sum(axis=-1), 0, 2) / (users * view.data.d),
        }

    def check(self, result: Result) -> tuple[str, str] | None:
        for name in result.arrays:
            share = result[name]
            if not (np.isnan(share) | ((share >= 0) & (share <= 1))).all():
                return name, "has numbers outside 0 … 1"
        return None


def _hits(chunk: Chunk, known: Marginals) -> tuple[Any, Any]:
    return right(chunk.plan, chunk, lambda j, r: known[j][r])


def _estimated(view: View) -> Sequence[Marginals]:
    """For each repetition, the marginals that the server estimates from these reports; uniform if nobody reported."""
    plan: Plan = view.plan
    tables: list[Any] = []
    counts, sampled = view.tallies()
    for a, table in zip(plan.attributes, counts, strict=True):
        f = np.empty(table.shape)
        for r, recipe in enumerate(a.recipes):
            m = sampled[:, a.index] if recipe.unsampled is Unsampled.NOTHING else np.full(table.shape[1], view.data.n)
            raw = a.estimate(r, table[r], np.where(m > 0, m, np.nan)[:, None])
            f[r] = postprocess("clip-normalize", raw, Domain((a.k,)))
        tables.append(np.where(np.isfinite(f), f, 1 / a.k))
    return [[table[:, row] for table in tables] for row in range(len(view.repetitions))]
