"""Files of format 1, which name their protocols and leave it to the registry what those are.  They are only read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gpu_rsfd.checks import MAX_USERS
from gpu_rsfd.datasets.base import check_labels
from gpu_rsfd.estimate import STORED
from gpu_rsfd.measure import Inference
from gpu_rsfd.measure.base import Array
from gpu_rsfd.planning import Plan
from gpu_rsfd.results import AttackResult, Header, Measured
from gpu_rsfd.spec import Spec
from gpu_rsfd.store.reading import Reader

NAMES = {"sampled_success": "sampled", "value_success": "value"}  # of arrays that are called otherwise now


class OldReader(Reader):
    """Format 1: no checksums, no rates; the errors' first axis is the post-processing; attacks have no frequencies."""

    def json(self, field: str) -> dict[str, Any]:
        document = super().json(field)
        if field == "spec" and document.pop("kind", "sweep") == "attack":
            document["measurement"] = "inference"
        return document

    def backend(self) -> str:
        return self.text("backend") if "backend" in self.file.attrs else "attack"

    def axis(self, field: str) -> int:
        return 3 if field == "mse" else 2

    def header(self, group: Any, name: str, dataset: dict[str, Any], spec: dict[str, Any]) -> Header:
        users = self.whole(f"{name}/users", 1, MAX_USERS, group)
        if users != dataset["users"]:
            self.refuse(f"{name}/users", f"is {users}, but spec says {dataset['users']}")
        domain = self.domain(group, name, dataset)
        labels = None
        if self.read(f"{name}/label", lambda: "label" in group):
            parts = [self.texts(group, f"{name}/label", (domain.total,))[columns] for columns in domain.slices]
            labels = self.checked(f"{name}/label", lambda: check_labels(parts, domain))
        whole = self.checked("spec", lambda: _spec_of(spec))
        priors = self.priors(group, name, domain)
        settings = whole.settings_with(None if all(prior is None for prior in priors) else priors)
        plan = self.checked(
            "spec",
            lambda: self.read(
                "spec", lambda: Plan.of(domain, whole.protocols, whole.epsilons, whole.assignment, settings)
            ),
        )
        attack = spec.get("measurement") == "inference"
        truth = np.full(domain.total, np.nan) if attack else self.frequencies(group, name, domain)
        names = tuple(self.texts(group, f"{name}/attribute", (len(domain),)))
        return Header(users, domain, names, truth, plan, labels)

    def variable(self, group: Any, name: str, header: Header, array: Array) -> Any:
        if array.name == "mse":
            cell = (len(header.protocols), len(header.epsilons))
            return self.node(group, f"{name}/mse", "f", (len(STORED), *cell, None))
        return super().variable(group, name, header, replace(array, name=NAMES.get(array.name, array.name)))

    def repetitions(self, group: Any, name: str, header: Header, measurement: Any, done: int, fields: Any) -> Any:
        if "mse" not in fields:
            return super().repetitions(group, name, header, measurement, done, fields)
        rest = [field for field in fields if field != "mse"]
        found = super().repetitions(group, name, header, measurement, done, rest) if rest else {}
        node = self.variable(group, name, header, Array("mse", np.float64))
        return {**found, "mse": np.moveaxis(self.read(f"{name}/mse", lambda: node[..., :done]), 0, -1)}

    def result(
        self, group: Any, measurement: Any, header: Header, repetitions: range, spec: dict[str, Any], arrays: Any
    ) -> Measured:
        if not isinstance(measurement, Inference):
            return super().result(group, measurement, header, repetitions, spec, arrays)
        baselines = {
            field: self.read(field, lambda field=field: float(group.attrs[field]))  # type: ignore[misc]
            for field in ("sampled_baseline", "value_baseline")
        }
        for field, value in baselines.items():
            if not 0 <= value <= 1:
                self.refuse(field, f"is {value}; a number from 0 to 1 is needed")
        return AttackResult.from_header(header, repetitions, spec, **baselines, **arrays)


def _spec_of(spec: Mapping[str, Any]) -> Spec:
    known = (
        "protocols",
        "epsilons",
        "seed",
        "assignment",
        "sampler",
        "first_report",
        "guarantee",
        "prior",
        "prior_seed",
    )
    return Spec.of(repetitions=range(*spec["repetitions"]), **{key: spec[key] for key in known if key in spec})
