"""The figures of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_rsfd.cli import render
from gpu_rsfd.results.result import Results


class Painter:
    """Draws figures beside a results file."""

    def draw(self, results: Results, file: Path, each: bool, missing: bool) -> list[Path]:
        """The figure of results, and with `each` one per data set; or only those missing or older than the file."""
        from gpu_rsfd.show import plots

        pages = {plots.beside(file): list(results)}
        pages |= {plots.beside(file, name): [name] for name in results} if each else {}
        wanted = {path: names for path, names in pages.items() if not missing or plots.outdated(path, file)}
        for path, names in wanted.items():
            plots.save_figure(render.figure(results.only(names), x="epsilon" if each else "auto"), path)
        return list(wanted)


@contextmanager
def painter(second: bool) -> Iterator[Painter]:
    """A painter."""
    yield Painter()
