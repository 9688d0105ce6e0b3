"""The tables of `gpu-rsfd show` in LaTeX, with the rules of booktabs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpu_rsfd.options import show_epsilon
from gpu_rsfd.results.estimate import PostprocessLike
from gpu_rsfd.results.metrics import MetricLike
from gpu_rsfd.results.result import Result, Results
from gpu_rsfd.show.comparison import among_best
from gpu_rsfd.show.privacy import SHARES, means
from gpu_rsfd.show.summary import summary
from gpu_rsfd.show.tables import concise, heading, marked, scientific, stated, unit_of

SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
}


def escaped(text: str) -> str:
    """Text that LaTeX shows as it is."""
    return "".join(SPECIAL.get(character, character) for character in text)


def document(results: Results, postprocess: PostprocessLike, metric: MetricLike = "mse") -> str:
    """A table for each data set, and for each goal of an attack."""
    return "\n\n".join(["% needs \\usepackage{booktabs}", *_tables(results, postprocess, metric)])


def _tables(results: Results, postprocess: PostprocessLike, metric: MetricLike) -> Iterator[str]:
    brackets = "In brackets: standard error of the last digits."
    for name, result in results.items():
        if not result.has_errors:
            for goal, words in SHARES.items():
                baseline = result.columns[f"{goal}_success"].baseline
                about = f"the attacker knows the {result.spec['knowledge']} marginals; share of {words}"
                shown = heading(results, name, f"{about}; without a report: {baseline:.4f}")
                yield _table(result, f"{name}-{goal}", f"{shown}. {brackets}", *means(result, goal), None, 0)
        else:
            bold = marked(results, "column", metric).replace("* ", "", 1)
            caption = f"{heading(results, name, stated(postprocess, metric))}. {brackets} Bold: {bold}."
            mean, error = summary(result, postprocess, metric)
            best = among_best(result, postprocess, metric)
            yield _table(result, name, caption, mean, error, best, unit_of(mean))


def _cell(mean: float, error: float, exponent: int | None) -> str:
    """A number with its standard error; without a common power of ten, with its own."""
    if exponent is not None:
        return escaped(concise(mean / 10.0**exponent, error / 10.0**exponent))
    digits, _, power = scientific(mean, error).partition("e")
    return f"${digits} \\cdot 10^{{{int(power)}}}$" if power else escaped(digits)


def _table(result: Result, name: str, caption: str, mean: Any, error: Any, best: Any, exponent: int | None) -> str:
    unit = f" $[10^{{{exponent}}}]$" if exponent else ""
    heads = [f"$\\varepsilon = {show_epsilon(e).replace('ln', chr(92) + 'ln')}$" for e in result.epsilons]
    lines = []
    for p, look in enumerate(result.plan.looks):
        cells = []
        for e in range(len(result.epsilons)):
            cell = _cell(float(mean[p, e]), float(error[p, e]), exponent)
            cells.append(f"\\textbf{{{cell}}}" if best is not None and best[p, e] else cell)
        label = escaped(look.label)
        lines.append(" & ".join([f"{{{label}}}" if label.startswith("[") else label, *cells]) + r" \\")
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            f"\\caption{{{escaped(caption)}}}",
            f"\\label{{tab:{re.sub(r'[^0-9A-Za-z]+', '-', name).strip('-').lower()}}}",
            f"\\begin{{tabular}}{{l{'r' * len(heads)}}}",
            r"\toprule",
            " & ".join([f"protocol{unit}", *heads]) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )
