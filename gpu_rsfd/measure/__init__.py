"""What is recorded for each repetition.  A measurement is one file, and a line here."""

from gpu_rsfd.measure.base import Measurement
from gpu_rsfd.measure.frequencies import Frequencies
from gpu_rsfd.measure.inference import Inference
from gpu_rsfd.measure.rounds import Rounds

MEASUREMENTS: dict[str, type[Measurement]] = {kind.name: kind for kind in (Frequencies, Inference, Rounds)}

__all__ = ["MEASUREMENTS", "Frequencies", "Inference", "Measurement", "Rounds"]
