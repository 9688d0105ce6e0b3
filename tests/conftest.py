"""Fixtures and helpers that several rooms' tests share; the helpers are modules of this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cuda_standin import no_cupy, standin  # noqa: F401
