"""What needs Dask's own classes: a data set brought to every worker once, and the processes of a local cluster."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from distributed import Scheduler, Security, Worker, WorkerPlugin

from gpu_rsfd.backends.cluster.local import ADDRESS, STARTING_SECONDS
from gpu_rsfd.backends.cluster.worker import columns_here, data_here


class HasData(WorkerPlugin):
    """Workers find the data set by its key, also those who join later."""

    def __init__(self, key: str, content: bytes) -> None:
        self.key, self.content, self.name = key, content, key

    def setup(self, worker: Any) -> None:
        data_here[self.key] = pickle.loads(self.content)

    def teardown(self, worker: Any) -> None:
        data_here.pop(self.key, None)
        columns_here.pop(self.key, None)


# ------------------------------------------------------------------------------------------- a cluster of this machine


class _NoWebServer:
    """Dask's processes serve web pages, on every interface if nobody says otherwise; these don't."""

    def start_http_server(self, *_: object, **__: object) -> None: ...


class LocalScheduler(_NoWebServer, Scheduler):
    """A scheduler that only this machine, and only holders of the run's certificate, can talk to."""


class LocalWorker(_NoWebServer, Worker):
    """The same of a worker."""


def serve(role: str, folder: str) -> None:
    """A process of a local cluster.  It gets its certificate on standard input, and ends when that does."""
    tempfile.tempdir = folder
    security = Security(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    asyncio.run(_scheduler(folder, security) if role == "scheduler" else _worker(folder, security))


def _end_with_parent(folder: str) -> None:
    """Also where the parent was killed: no process and no folder is left."""
    sys.stdin.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


async def _scheduler(folder: str, security: Any) -> None:
    scheduler = LocalScheduler(host="127.0.0.1", port=0, protocol="tls", security=security, dashboard=False)
    async with scheduler:
        beside = Path(folder, "address.new")
        beside.write_text(scheduler.address)
        beside.replace(Path(folder, ADDRESS))
        await scheduler.finished()


async def _worker(folder: str, security: Any) -> None:
    address, deadline = Path(folder, ADDRESS), time.monotonic() + STARTING_SECONDS
    while not address.exists():
        if time.monotonic() > deadline:
            return
        await asyncio.sleep(0.02)
    worker = LocalWorker(
        address.read_text(), nthreads=1, host="127.0.0.1", protocol="tls", security=security, memory_limit=0,
        local_directory=folder, death_timeout=STARTING_SECONDS, dashboard=False,
    )  # fmt: skip
    async with worker:
        await worker.finished()
