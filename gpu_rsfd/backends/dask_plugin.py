"""Brings a data set to every worker of a Dask cluster once, also to those who join later.  Needs Dask."""

from __future__ import annotations

import pickle
from typing import Any

from distributed import WorkerPlugin

from gpu_rsfd.backends import cluster


class HasData(WorkerPlugin):
    """Workers find the data set by its key."""

    def __init__(self, key: str, content: bytes) -> None:
        self.key, self.content, self.name = key, content, key

    def setup(self, worker: Any) -> None:
        cluster.data_here[self.key] = pickle.loads(self.content)

    def teardown(self, worker: Any) -> None:
        cluster.data_here.pop(self.key, None)
        cluster.columns_here.pop(self.key, None)
