"""What the commands show of results files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_rsfd.datasets.options import BY_NAME
from gpu_rsfd.options import distinct, read_epsilons, split_list
from gpu_rsfd.results.result import Results


def selected(files: Sequence[Path], options: Mapping[str, Any]) -> Results:
    """The results of a file, or of several, that `--dataset`, `--protocol` and `--epsilon` leave."""
    from gpu_rsfd.show.rows import compare, select, told_apart
    from gpu_rsfd.store.contents import open_results

    found = {}
    for file in distinct("file", map(str, files)):
        results = open_results(file)
        names = split_list(options["dataset"] or [], "dataset", exact=results)
        protocols, epsilons = split_list(options["protocol"] or [], "protocol"), options["epsilon"]
        found[file] = select(results, names, protocols, read_epsilons(epsilons) if epsilons else [])
        found[file].min_count = BY_NAME["min_count"].check(options["min_count"])
    if len(found) == 1:
        return found[file]
    together = compare(found)
    together.runs = tuple(zip(told_apart(found), found.values(), strict=True))
    return together
