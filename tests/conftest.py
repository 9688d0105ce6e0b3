"""Fixtures and helpers that several rooms' tests share; the helpers are modules of this folder."""

import os
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# Every core has its tests: libraries with threads of their own would only spin.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

# What the native backend compiles is kept from run to run, but not among the user's files.
os.environ.setdefault("GPU_RSFD_CACHE", str(Path(tempfile.gettempdir(), f"gpu-rsfd-tests-{os.getuid()}")))

from cuda_standin import no_cupy, standin  # noqa: F401

# Started by nohup or in the background, these signals are ignored, and so would be those of the programs under test.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)
