"""Fixtures that several rooms' tests share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cuda_standin import no_cupy, standin  # noqa: F401


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than a few seconds")
