"""What the tests of the paper's data share: real rows where they are at hand, and a data set as text."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

SHARED = Path(os.environ.get("GPU_RSFD_SHARED", Path(__file__).parents[2] / "shared")) / "data"


def shared_rows(name):
    path = SHARED / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"not checked against real rows: {path} is not there (GPU_RSFD_SHARED names another folder)")
    with np.load(path) as file:
        return file["codes"], file["attributes"].tolist(), json.loads(str(file["labels_json"]))


def as_csv(data):
    columns = [np.array(labels)[data.column(j, 0, data.n)] for j, labels in enumerate(data.labels)]
    return "".join(",".join(row) + "\n" for row in zip(*columns, strict=True))
