"""The header of a data set, read and checked: all that does not grow with the repetitions (written by format.py)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpu_rsfd.checks import MAX_USERS
from gpu_rsfd.datasets.base import check_labels
from gpu_rsfd.domain import Domain
from gpu_rsfd.planning import Look, Plan, Rates
from gpu_rsfd.protocols import Mechanism, Recipe, Unsampled
from gpu_rsfd.protocols.form import Thresholds, noise_of
from gpu_rsfd.results.estimate import STORED
from gpu_rsfd.results.result import Header
from gpu_rsfd.store.fields import Fields, shown
from gpu_rsfd.store.format import LOOKS, NUMBERS, UNSAMPLED, text_digest
from gpu_rsfd.tape import KEEP_ONE
from gpu_rsfd.untrusted import one_value

SUM_TOLERANCE = 1e-6  # frequencies of an attribute sum to 1
MOST_INTEGERS = 16  # of a noise

Cell = tuple[Recipe, Rates, Mechanism]


class HeaderReader(Fields):
    """The group of a data set; `dataset` is what the spec says of it."""

    def __init__(self, path: Path, group: Any, dataset: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        super().__init__(path, group, dataset["name"])
        self.dataset, self.spec = dataset, spec

    def header(self) -> Header:
        """All about a data set but its repetitions."""
        users, domain = self.users(), self.domain()
        protocols, epsilons, d = tuple(self.spec["protocols"]), tuple(map(float, self.spec["epsilons"])), len(domain)
        shapes: dict[str, tuple[int, ...]] = {
            "protocol": (len(protocols),),
            "postprocess": (len(STORED),),
            "attribute": (d,),
            "value": (domain.total,),
            **{f"protocol_{look}": (len(protocols),) for look in LOOKS},
            "mechanism": (len(protocols), len(epsilons), d),
            **({"label": (domain.total,)} if self.has("label") else {}),
        }
        texts = {field: self.texts(field, shape) for field, shape in shapes.items()}
        noises = self.read("noises", lambda: [str(kind) for kind in json.loads(one_value(self.node, "noises"))])
        if text_digest(users, noises, texts) != self.text("sha256"):
            self.refuse("sha256", "does not fit the text of the group, which has changed since")
        labels = self.labels(texts["label"], domain) if "label" in texts else None
        looks = tuple(Look(*row) for row in zip(protocols, *(texts[f"protocol_{x}"] for x in LOOKS), strict=True))
        plan = self.plan(domain, looks, epsilons, texts["mechanism"], noises)
        return Header(users, domain, tuple(texts["attribute"]), self.frequencies(domain), plan, labels)

    def users(self) -> int:
        users = self.whole("users", 1, MAX_USERS)
        if users != self.dataset["users"]:
            self.refuse("users", f"is {users}, but spec says {self.dataset['users']}")
        return users

    def domain(self) -> Domain:
        sizes = self.numbers("domain", "iu", (len(self.dataset["domain"]),)).tolist()
        if sizes != self.dataset["domain"]:
            self.refuse("domain", f"is {shown(sizes)}, but spec says {shown(self.dataset['domain'])}")
        return Domain(sizes)

    def labels(self, texts: Sequence[str], domain: Domain) -> Any:
        return self.checked("label", lambda: check_labels([texts[columns] for columns in domain.slices], domain))

    def frequencies(self, domain: Domain) -> Any:
        frequencies = self.numbers("frequency", "f", (sum(domain),)).astype(np.float64)
        if not (np.isfinite(frequencies) & (frequencies >= 0) & (frequencies <= 1)).all():
            self.refuse("frequency", "has numbers outside 0 … 1")
        for j, columns in enumerate(domain.slices):
            if abs((total := float(frequencies[columns].sum())) - 1) > SUM_TOLERANCE:
                self.refuse("frequency", f"sums to {total:g} over attribute {j}; it must be 1")
        return frequencies

    def priors(self, domain: Domain) -> tuple[Thresholds | None, ...]:
        """The distribution of fake values, as its thresholds realise it; None where it is uniform."""
        if not self.has("prior"):
            return (None,) * len(domain)
        column = self.numbers("prior", "i", (domain.total,)).tolist()
        rows: list[Thresholds | None] = []
        for j, columns in enumerate(domain.slices):
            row = column[columns]
            uniform = all(t == -1 for t in row)
            if not uniform and (row[-1] != KEEP_ONE or row[0] < 0 or sorted(row) != row):
                self.refuse("prior", f"is {shown(row)} for attribute {j}; ascending thresholds up to 2**32 are needed")
            rows.append(None if uniform else tuple(row[:-1]))
        return tuple(rows)

    def plan(
        self, domain: Domain, looks: tuple[Look, ...], epsilons: tuple[float, ...], mechanisms: Any, noises: list[str]
    ) -> Plan:
        """The plan as its integers and rates say, whatever protocols this installation knows."""
        every = (len(looks), len(epsilons), len(domain))
        count = sum(self.has(f"integer_{i + 1}") for i in range(MOST_INTEGERS))
        columns = [self.numbers(f"integer_{i + 1}", "i", every) for i in range(count)]
        columns += [self.numbers(name, "i" if dtype is np.int8 else "f", every) for name, dtype in NUMBERS.items()]
        rows = iter(zip(*(column.ravel().tolist() for column in columns), strict=True))
        priors = self.priors(domain)
        known: dict[tuple[Any, ...], Cell] = {}

        def cell(row: tuple[Any, ...], j: int, mechanism: str) -> Cell:
            key = (j if priors[j] is not None else -1, domain[j], mechanism, row)
            if key not in known:
                known[key] = self._cell(row[:count], row[count:], mechanism, domain, j, priors[j], noises)
            return known[key]

        table = [
            [[cell(next(rows), j, text) for j, text in enumerate(texts)] for texts in by_epsilon]
            for by_epsilon in mechanisms
        ]
        rates = {(recipe, len(domain), m.k): r for recipe, r, m in known.values()}
        plan = Plan.compiled(
            domain,
            looks,
            epsilons,
            [[[one[0] for one in row] for row in by_epsilon] for by_epsilon in table],
            str(self.spec.get("assignment", "uniform")),
            lambda recipe, d, k: rates[recipe, d, k],
        )
        plan.__dict__["mechanisms"] = tuple(
            tuple(tuple(one[2] for one in row) for row in by_epsilon) for by_epsilon in table
        )
        return plan

    def _cell(
        self,
        integers: Sequence[int],
        row: Sequence[Any],
        mechanism: str,
        domain: Domain,
        j: int,
        prior: Thresholds | None,
        noises: Sequence[str],
    ) -> Cell:
        unsampled, noise, plain, claimed, base, slope, gain, budget, spent, loss, bits = row
        if not 0 <= unsampled < len(UNSAMPLED) or not 0 <= noise < len(noises):
            self.refuse("unsampled", f"has {unsampled}, or noise {noise}, which mean nothing")
        if not (math.isfinite(base) and math.isfinite(slope) and math.isfinite(gain) and gain > 0):
            self.refuse("gain", f"is {gain}, with base {base} and slope {slope}; estimates need gain > 0")
        has_prior = UNSAMPLED[unsampled] == "prior"
        if has_prior and prior is None:
            self.refuse("prior", f"is missing for attribute {j}")
        given = [i for i in integers if i >= 0]
        what = self.read("noise", lambda: noise_of(noises[noise], given))
        others = Unsampled.FAKE if has_prior else Unsampled(UNSAMPLED[unsampled])
        recipe = self.read("noise", lambda: Recipe(others, what, prior if has_prior else None))
        made = Mechanism(
            mechanism, len(domain), domain[j], budget, recipe, spent, loss, bits, bool(plain), bool(claimed)
        )
        return recipe, Rates(base, slope, gain), made
