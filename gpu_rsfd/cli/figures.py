"""The figures of a run.  Many are shared with a second process, which gets ready while the run is under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpu_rsfd.backends.pool import Worker
from gpu_rsfd.cli import render
from gpu_rsfd.errors import RunError
from gpu_rsfd.results.result import Results
from gpu_rsfd.store.reading import open_results

_opened = lru_cache(maxsize=1)(open_results)  # in the second process, which lives as long as one run


class Painter:
    """Draws figures beside a results file, each once, in this process and in the second one if there is one."""

    def __init__(self, second: Worker | None, threads: ThreadPoolExecutor) -> None:
        self._second, self._threads = second, threads

    def draw(self, results: Results, file: Path, each: bool, missing: bool) -> list[Path]:
        """The figure of results, and with `each` one per data set; or only those missing or older than the file."""
        from gpu_rsfd.show import plots

        pages = {plots.beside(file): list(results)}
        pages |= {plots.beside(file, name): [name] for name in results} if each else {}
        wanted = {path: names for path, names in pages.items() if not missing or plots.outdated(path, file)}
        x = "epsilon" if each else "auto"
        left = deque(wanted.items())  # the largest first
        there = None if self._second is None else self._threads.submit(self._draw_there, self._second, file, left, x)
        try:
            for path, names in _taken(left):
                plots.save_figure(render.figure(results.only(names), x=x), path)
        finally:
            left.clear()  # after a failure the others are not wanted
        if there is not None:
            there.result()
        return list(wanted)

    def _draw_there(self, second: Worker, file: Path, left: deque[tuple[Path, list[str]]], x: str) -> None:
        for path, names in _taken(left):
            second.run(None, draw_here, (file, names, path, x))


def _taken(left: deque[tuple[Path, list[str]]]) -> Iterator[tuple[Path, list[str]]]:
    """What nobody else has taken."""
    with suppress(IndexError):
        while True:
            yield left.popleft()


@contextmanager
def painter(second: bool) -> Iterator[Painter]:
    """A painter; with `second`, a process starts at once and imports what it will need."""
    worker = Worker() if second else None
    with ThreadPoolExecutor(1, "gpu-rsfd-figures") as threads:
        try:
            if worker is not None:
                threads.submit(worker.run, None, get_ready, ())
            yield Painter(worker, threads)
        finally:
            if worker is not None:
                worker.close()  # ends what is under way, so that the thread ends


def get_ready(_: Any) -> None:
    """Imports that take long."""
    import matplotlib.backends.backend_agg  # noqa: F401

    import gpu_rsfd.show.plots  # noqa: F401


def draw_here(_: Any, file: Path, names: list[str], path: Path, x: str) -> None:
    """A figure of some data sets of a file, in the second process."""
    from gpu_rsfd.show import plots

    try:
        plots.save_figure(render.figure(_opened(file).only(names), x=x), path)
    except OSError as error:
        raise RunError(error.strerror or str(error)) from None
