"""A few small shapes under a sanitizer: python sanitized.py address|thread [OLD NEW: a mutation of the source]"""

import sys

import cupy  # the stand-in beside this file

from gpu_rsfd.backends.cuda import kernels
from gpu_rsfd.backends.cuda import runner as cuda
from gpu_rsfd.backends.cuda.backend import CupyBackend
from gpu_rsfd.backends.reference import Case
from gpu_rsfd.doctor import compared

kind, *mutation = sys.argv[1:]
WAYS = ("rsfd-grr", "spl-grr", "smp-grr", "rsfd-oue-r", "rsfd-oue-z", "spl-sue", "smp-oue")  # one of each kind
if mutation:
    text = kernels.text
    assert any(mutation[0] in text(name) for name in kernels.FILES)
    kernels.text = lambda name: text(name).replace(*mutation)
threads = 64 if kind == "thread" else 8  # two lanes of a bank of shared memory must meet
cuda.BLOCK, cuda.TILE = threads, 64 if kind == "thread" else 16
cuda.threads_for = lambda groups: threads
cupy._reset(flags=("-O1", "-g", f"-fsanitize={kind}", "-DCPU_THREADS"))
CASES = [
    Case(4500 if kind == "thread" else 1100, (3, 2), (1.0,), WAYS, repetitions=range(1)),
    Case(70, (12,), (1.0, 1.1, 1.2), ("rsfd-grr", "rsfd-oue-r"), range(2)),
]
with CupyBackend() as backend:
    print(next(filter(None, (compared(backend, case) for case in CASES)), "no difference"))
