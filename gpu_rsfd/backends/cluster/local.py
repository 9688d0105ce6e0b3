"""A cluster of this machine: its processes, which listen on the loopback interface alone."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu_rsfd.errors import InputError, RunError

STARTING_SECONDS = 60.0  # of the scheduler
ADDRESS = "address"  # file of the scheduler
START = """
import sys
sys.path[:] = {path!r}
from gpu_rsfd.backends.cluster.dask_side import serve
serve({role!r}, {folder!r})
"""


class LocalCluster:
    """A scheduler and some workers of one thread, processes of this machine, to try things out.

    They listen on the loopback interface alone, and talk to holders of a certificate that is made for the run.
    """

    def __init__(self, workers: int, distributed: Any) -> None:
        try:
            self.security = distributed.Security.temporary()
        except ImportError as error:
            raise InputError(
                f"a local cluster needs the extra `cluster`: pip install gpu-rsfd[cluster] ({error})"
            ) from None
        self._folder = tempfile.TemporaryDirectory(prefix="gpu-rsfd-", ignore_cleanup_errors=True)
        self._address = Path(self._folder.name, ADDRESS)
        fields = (
            "ca_file",
            *(f"{role}_{what}" for role in ("client", "scheduler", "worker") for what in ("key", "cert")),
        )
        secret = {f"tls_{field}": getattr(self.security, f"tls_{field}") for field in fields}
        line = json.dumps({"require_encryption": True, **secret}) + "\n"
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for role in ("scheduler", *["worker"] * workers):
                self._processes.append(self._start(role))
                pipe: Any = self._processes[-1].stdin
                pipe.write(line.encode())
                pipe.flush()
        except BaseException:
            self.close()
            raise

    def _start(self, role: str) -> subprocess.Popen[bytes]:
        path = [str(p) or os.getcwd() for p in sys.path]  # as worker processes of our own, from nowhere else
        code = START.format(path=path, role=role, folder=self._folder.name)
        nothing = subprocess.DEVNULL
        return subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, start_new_session=True
        )

    def address(self) -> str:
        """Of the scheduler, once it is there."""
        deadline = time.monotonic() + STARTING_SECONDS
        while not self._address.exists():
            if time.monotonic() > deadline or self._processes[0].poll() is not None:
                raise RunError("the scheduler of a local cluster did not start")
            time.sleep(0.02)
        return self._address.read_text()

    def close(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
        self._folder.cleanup()
