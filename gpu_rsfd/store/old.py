"""Files of format 1, which name their protocols and leave it to the registry what those are.  They are only read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gpu_rsfd.measure import Inference
from gpu_rsfd.measure.base import Array
from gpu_rsfd.planning import Plan
from gpu_rsfd.results.estimate import STORED
from gpu_rsfd.results.result import AttackResult, Header, Measured, Results
from gpu_rsfd.spec import Spec
from gpu_rsfd.store.fields import Fields
from gpu_rsfd.store.reading import FileReader, GroupReader

NAMES = {"sampled_success": "sampled", "value_success": "value"}  # of arrays that are called otherwise now
KNOWN = (
    *("protocols", "epsilons", "seed", "assignment", "sampler", "first_report", "guarantee", "prior", "prior_seed"),
)


class OldGroupReader(GroupReader):
    """No checksums, no rates; the errors' first axis is the post-processing; attacks have no frequencies."""

    def header(self) -> Header:
        users, domain, file = self.users(), self.domain(), Fields(self.path, None)
        labels = self.labels(self.texts("label", (domain.total,)), domain) if self.has("label") else None
        whole = file.checked("spec", lambda: _spec_of(self.spec))
        priors = self.priors(domain)
        settings = whole.settings_with(None if all(prior is None for prior in priors) else priors)
        plan = file.checked(
            "spec",
            lambda: file.read(
                "spec", lambda: Plan.of(domain, whole.protocols, whole.epsilons, whole.assignment, settings)
            ),
        )
        attack = self.spec.get("measurement") == "inference"
        truth = np.full(domain.total, np.nan) if attack else self.frequencies(domain)
        return Header(users, domain, tuple(self.texts("attribute", (len(domain),))), truth, plan, labels)

    def axis(self, field: str) -> int:
        return 3 if field == "mse" else 2

    def variable(self, header: Header, array: Array) -> Any:
        if array.name == "mse":
            return self.array("mse", "f", (len(STORED), len(header.protocols), len(header.epsilons), None))
        return super().variable(header, replace(array, name=NAMES.get(array.name, array.name)))

    def repetitions(self, header: Header, measurement: Any, done: int, fields: Any) -> Any:
        if "mse" not in fields:
            return super().repetitions(header, measurement, done, fields)
        rest = [field for field in fields if field != "mse"]
        found = super().repetitions(header, measurement, done, rest) if rest else {}
        node = self.variable(header, Array("mse", np.float64))
        return {**found, "mse": np.moveaxis(self.read("mse", lambda: node[..., :done]), 0, -1)}

    def measured(
        self, measurement: Any, header: Header, repetitions: range, spec: dict[str, Any], arrays: Any
    ) -> Measured:
        if not isinstance(measurement, Inference):
            return super().measured(measurement, header, repetitions, spec, arrays)
        baselines = {
            field: self.read(field, lambda field=field: float(self.node.attrs[field]))  # type: ignore[misc]
            for field in ("sampled_baseline", "value_baseline")
        }
        for field, value in baselines.items():
            if not 0 <= value <= 1:
                self.refuse(field, f"is {value}; a number from 0 to 1 is needed")
        return AttackResult.from_header(header, repetitions, spec, **baselines, **arrays)


class OldFileReader(FileReader):
    """No checksum of its attributes; an attack says so in its spec, and names no backend."""

    groups = OldGroupReader

    def results(self) -> Results:
        return self.contents(1)

    def json(self, field: str) -> dict[str, Any]:
        document = super().json(field)
        if field == "spec" and document.pop("kind", "sweep") == "attack":
            document["measurement"] = "inference"
        return document

    def backend(self) -> str:
        return self.text("backend") if "backend" in self.node.attrs else "attack"


def _spec_of(spec: Mapping[str, Any]) -> Spec:
    return Spec.of(repetitions=range(*spec["repetitions"]), **{key: spec[key] for key in KNOWN if key in spec})
