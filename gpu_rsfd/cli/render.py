"""Tables and figures of results, by what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import read_epsilons, split_list
from gpu_rsfd.results.estimate import DEFAULT
from gpu_rsfd.results.result import Results


def selected(file: Path, options: Mapping[str, Any]) -> Results:
    """The results of a file that `--dataset`, `--protocol` and `--epsilon` leave."""
    from gpu_rsfd.show.selection import select
    from gpu_rsfd.store.contents import open_results

    results = open_results(file)
    names = split_list(options["dataset"] or [], "dataset", exact=results)
    protocols, epsilons = split_list(options["protocol"] or [], "protocol"), options["epsilon"]
    return select(results, names, protocols, read_epsilons(epsilons) if epsilons else [])


def _refuse_of_attack(**given: Any) -> None:
    """An attack has no errors."""
    for name, value in given.items():
        if value:
            raise InputError(f"the file holds an attack; --{name} is for the errors of a sweep")


def table(
    results: Results,
    form: str = "table",
    postprocess: str | None = None,
    metric: str | None = None,
    compare: Any = None,
    per: str | None = None,
) -> None:
    """Print a table; `form` is table, csv, json or latex."""
    from gpu_rsfd.show import details, tables
    from gpu_rsfd.show.privacy import show_attacks

    chosen, error = postprocess or DEFAULT, metric or "mse"
    if not results.has_errors:
        _refuse_of_attack(postprocess=postprocess, metric=metric, compare=compare, per=per)
    if form == "latex":
        from gpu_rsfd.show.latex import document

        print(document(results, chosen, error))
    elif not results.has_errors:
        show_attacks(results, form)
    elif compare:
        details.compare(results, compare[0], compare[1], chosen, form, error)
    elif per is not None:
        details.per(results, per, chosen, form, error)
    else:
        tables.show(results, chosen, form, error)


def figure(
    results: Results,
    postprocess: str | None = None,
    metric: str | None = None,
    x: str = "auto",
    attribute: str | None = None,
    tradeoff: bool = False,
) -> Any:
    """A Matplotlib figure."""
    from gpu_rsfd.show import plots, privacy

    chosen, error = postprocess or DEFAULT, metric or "mse"
    if not results.has_errors:
        _refuse_of_attack(
            postprocess=postprocess,
            metric=metric,
            x=x not in ("auto", "epsilon"),
            attribute=attribute,
            tradeoff=tradeoff,
        )
        return privacy.attack_figure(results)
    if tradeoff:
        return privacy.tradeoff(results, chosen, error)
    if attribute is not None:
        return plots.frequencies(results, attribute, chosen)
    return plots.figure_of(results, chosen, x, error)
