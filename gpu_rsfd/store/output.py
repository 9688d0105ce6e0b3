"""Where results are written, checked before any work; and which part of a run is whose."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpu_rsfd.errors import InputError
from gpu_rsfd.store.compact import Store
from gpu_rsfd.store.files import FIGURES
from gpu_rsfd.store.folder import MOST_PARTS, parts_of
from gpu_rsfd.store.pieces import Gap
from gpu_rsfd.store.reading import check_results_file


def check_output(path: Path, inputs: Iterable[Path] = ()) -> Path:
    """The file that is written, a link followed; refused if it holds anything but results of gpu-rsfd."""
    if path.is_dir():
        raise InputError(f"output={path} is a directory; a file name such as {path / 'results.h5'} is needed")
    if path.suffix.lower() in FIGURES:
        raise InputError(
            f"output={path} ends like a figure; a results file, such as {path.with_suffix('.h5')}, is needed"
        )
    if not path.parent.is_dir():
        raise InputError(f"output={path}: the folder {path.parent} does not exist")
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if not target.parent.is_dir():
        raise InputError(f"output={path} is a link into {target.parent}, a folder that does not exist")
    if path.exists():
        for given in inputs:
            if given.exists() and path.samefile(given):
                raise InputError(f"output={path} is {given}, which this command reads; give another --output")
        try:
            check_results_file(path)
        except InputError as error:
            raise InputError(f"output={path} can't be replaced: {error}; give another --output") from None
    return target


def check_part(number: object, parts: object) -> tuple[int, int]:
    """Which of how many parts."""
    if not isinstance(number, int) or not isinstance(parts, int) or not 1 <= number <= parts <= MOST_PARTS:
        raise InputError(f"part={number}/{parts} must be a part and the number of parts, 1 to {MOST_PARTS:,}")
    return number, parts


def shares(sizes: Sequence[int], total: int, number: int, parts: int) -> list[tuple[int, int]]:
    """First and stop of the repetitions of each data set that are part `number` of `parts`: equal amounts of work.

    `sizes` is the work of a repetition of each.  A repetition belongs to the part in which its middle falls.
    """
    work = sum(sizes) * total
    found, before = [], 0
    for size in sizes:
        # the smallest r with before + size * (r + 1/2) >= work * limit / parts
        bounds = [
            min(total, max(0, -((before * 2 * parts + size * parts - 2 * work * limit) // (2 * size * parts))))
            for limit in (number - 1, number)
        ]
        found.append((bounds[0], bounds[1]))
        before += size * total
    return found


def what_is_missing(store: Store, missing: Sequence[Sequence[Gap]]) -> str:
    """For people: the repetitions, and the parts that would bring them."""
    names, total = [dataset["name"] for dataset in store.want["datasets"]], store.total
    lists = [
        f"{name}: {', '.join(f'{g.first} … {g.stop - 1}' if g.stop - g.first > 1 else str(g.first) for g in gaps)}"
        for name, gaps in zip(names, missing, strict=True)
        if gaps
    ]
    line = f"missing repetitions (of 0 … {total - 1}): {'; '.join(lists)}"
    if parts := parts_of(store.blocks.folder):
        sizes = [header.plan.positions(header.n) for header in store.headers]
        numbers = [
            str(number)
            for number in range(1, parts + 1)
            if any(
                first < gap.stop and gap.first < stop
                for gaps, (first, stop) in zip(missing, shares(sizes, total, number, parts), strict=True)
                for gap in gaps
            )
        ]
        line += f"; to be run again: part {', '.join(numbers)} of {parts}"
    return line
