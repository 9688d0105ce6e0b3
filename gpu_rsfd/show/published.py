"""The paper's own points: MSE_avg of its ten data sets, six methods and six epsilons, as read from its figures.

They agree with balanced assignment and clip-normalize to 8 % (their noise is 1 to 3 %), with two exceptions.
RS+FD[GRR] on syn5, syn6, adult, ms-fimu and census-income agrees with clip: those curves seem to be older than the
authors' renormalisation.  RS+FD[ADP] on adult, ms-fimu and census-income is up to a quarter lower at some epsilons.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from gpu_rsfd.planning import Look
from gpu_rsfd.protocols import PAPER
from gpu_rsfd.results.estimate import Floats, PostprocessLike
from gpu_rsfd.results.metrics import MetricLike, as_metric, mse
from gpu_rsfd.results.result import Result
from gpu_rsfd.spec import PAPER_EPSILONS


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    text = resources.files("gpu_rsfd.show").joinpath("resources/published.json").read_text("utf-8")
    datasets: dict[str, Any] = json.loads(text)["datasets"]
    return datasets


def published(name: str, result: Result, postprocess: PostprocessLike, metric: MetricLike = "mse") -> Floats | None:
    """[protocol, epsilon]: the paper's MSE_avg of a data set, NaN where it has none; None if it has none at all.

    With clip, only the curves that agree with clip; with clip-normalize all, since that is what the paper describes.
    """
    entry = _table().get(name)
    if entry is None or postprocess not in ("clip", "clip-normalize") or as_metric(metric).function is not mse:
        return None
    if (result.n, list(result.domain)) != (entry["users"], entry["domain"]):
        return None  # another data set of the same name
    curves = {m: points for m, points in entry["mse_avg"].items() if postprocess != "clip" or m in entry["clip"]}
    found = np.full((len(result.protocols), len(result.epsilons)), math.nan)
    for p, look in enumerate(result.plan.looks):
        points = curves.get(look.label, ()) if look.name in PAPER else ()
        for e, epsilon in enumerate(result.epsilons):
            for x, point in zip(PAPER_EPSILONS, points, strict=False):
                if math.isclose(x, epsilon, rel_tol=1e-4):
                    found[p, e] = point
    return found if np.isfinite(found).any() else None


def caveats(names: Iterable[str], looks: Sequence[Look]) -> list[str]:
    """What must be said where these data sets' points are drawn beside clip-normalize."""
    said, labels = [], [look.label for look in looks if look.name in PAPER]
    for kind, text in (("clip", "agree with clip instead"), ("partly", "are lower at some epsilons")):
        having: dict[str, list[str]] = {}
        for name in names:
            for method in _table()[name][kind]:
                if method in labels:
                    having.setdefault(method, []).append(name)
        said += [f"those of {method} on {', '.join(sets)} {text}" for method, sets in having.items()]
    return said
