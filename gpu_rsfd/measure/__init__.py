"""What is recorded for each repetition: a measurement makes named arrays, and reads them back as a result."""

from collections.abc import Mapping
from typing import Any

from gpu_rsfd.measure.base import Measurement
from gpu_rsfd.measure.frequencies import Frequencies
from gpu_rsfd.measure.inference import Inference

MEASUREMENTS: dict[str, type[Any]] = {kind.kind: kind for kind in (Frequencies, Inference)}


def measurement_of(spec: Mapping[str, Any]) -> Measurement:
    """The measurement that a spec, as plain data, describes."""
    kind = MEASUREMENTS[spec.get("measurement", "frequencies")]
    given = {name: spec[name] for name in kind.__dataclass_fields__ if name in spec}
    measurement: Measurement = kind(**given)
    return measurement


__all__ = ["MEASUREMENTS", "Frequencies", "Inference", "Measurement", "measurement_of"]
