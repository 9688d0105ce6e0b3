"""The spec in a results file or beside blocks, checked: every part that is used further on."""

from __future__ import annotations

from typing import Any, TypeGuard

from gpu_rsfd.checks import MAX_USERS, check_epsilon
from gpu_rsfd.domain import Domain
from gpu_rsfd.measure import MEASUREMENTS, measurement_of
from gpu_rsfd.measure.base import Measurement
from gpu_rsfd.store.fields import Fields, encodable, shown


def check_spec(fields: Fields, spec: dict[str, Any]) -> Measurement:
    """Refuse a spec that gpu-rsfd can't have written; what it measures."""

    def refuse(key: str, value: object, needed: str) -> None:
        fields.refuse("spec", f"has {key} {shown(value)}; {needed} needed")

    for key in ("datasets", "protocols", "epsilons", "repetitions"):
        if not isinstance(spec.get(key), list) or not spec[key]:
            refuse(key, spec.get(key), "a list is")
    for key, valid in (("protocols", _name), ("epsilons", _number)):
        for i, value in enumerate(spec[key]):
            if not valid(value) or value in spec[key][:i]:
                refuse(key, value, "different names or numbers are")
    for epsilon in spec["epsilons"]:
        fields.checked("spec", lambda epsilon=epsilon: check_epsilon(epsilon))  # type: ignore[misc]
    bounds = spec["repetitions"]
    if len(bounds) != 3 or not all(_whole(b) and 0 <= b < 2**63 for b in bounds) or bounds[2] < 1:
        refuse("repetitions", bounds, "first, end and step are")
    if not range(*bounds):
        refuse("repetitions", bounds, "at least one is")
    for key in ("seed", "stream_version"):
        if not _whole(spec.get(key, 0)):
            refuse(key, spec.get(key), "a whole number is")
    for key in ("assignment", "sampler", "guarantee", "knowledge", "keep", "measurement"):
        if not isinstance(spec.get(key, ""), str):
            refuse(key, spec.get(key), "a name is")
    names: list[str] = []
    for dataset in spec["datasets"]:
        if not isinstance(dataset, dict):
            refuse("a data set", dataset, "a JSON object is")
        name, users = dataset.get("name"), dataset.get("users")
        if not _name(name) or name in names:
            refuse("a data set named", name, "different names are")
        if not _whole(users) or not 1 <= users <= MAX_USERS:
            fields.refuse("spec", f"has users {shown(users)} for {name}; a whole number is needed")
        if not isinstance(dataset.get("domain"), list):
            fields.refuse("spec", f"has domain {shown(dataset.get('domain'))} for {name}; a list is needed")
        fields.checked("spec", lambda sizes=dataset["domain"]: Domain.of(sizes))  # type: ignore[misc]
        names.append(str(name))
    if spec.get("measurement", "frequencies") not in MEASUREMENTS:
        fields.refuse("spec", f"has measurement {shown(spec['measurement'])}; known: {', '.join(MEASUREMENTS)}")
    return fields.checked("spec", lambda: measurement_of(spec))


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, float) or (_whole(value) and abs(value) < 2**63)


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value) and encodable(value)
