"""A results file that grows: blocks are added beside it, and now and then it is brought up to date with them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_rsfd.results import Result, Results
from gpu_rsfd.store.blocks import Blocks, Found
from gpu_rsfd.store.files import StoreError
from gpu_rsfd.store.hdf5 import Part, Run, write
from gpu_rsfd.store.pieces import OnDisk, OpenFiles, Piece, first_ones


class Store:
    """What is done of a sweep, on disk; nothing that grows with it is in memory."""

    def __init__(
        self,
        target: Path,
        want: Mapping[str, Any],
        heads: Sequence[Result],
        rows: Sequence[int],
        existing: Results | None = None,
    ) -> None:
        self.target, self.want, self.heads, self.rows = target, want, heads, rows
        self.blocks = Blocks(target, want)
        self.counts = want.get("keep", "counts") == "counts"
        self.backend, self.device = ("", "") if existing is None else (existing.backend, existing.device)
        self._names = [dataset["name"] for dataset in want["datasets"]]
        self._written = {} if existing is None else {name: len(r.repetitions) for name, r in existing.items()}
        self._seconds = {} if existing is None else dict(existing.seconds)
        self._spec = None if existing is None else existing.spec

    def ranges(self, index: int) -> list[tuple[int, int]]:
        """Repetitions of a data set that are done: first and stop of each run of them, in order."""
        found = [(b.first, b.stop) for b in self.blocks.found() if b.number == index]
        written = self._written.get(self._names[index], 0)
        joined: list[tuple[int, int]] = []
        for first, stop in sorted([*found, *([(0, written)] if written else [])]):
            if joined and first <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
            else:
                joined.append((first, stop))
        return joined

    def missing(self, index: int, first: int, stop: int) -> list[tuple[int, int]]:
        """Of repetitions `first` … `stop` - 1, those that are still to be done."""
        gaps, at = [], first
        for a, b in self.ranges(index):
            if a > at:
                gaps.append((at, min(a, stop)))
            at = max(at, b)
            if at >= stop:
                break
        if at < stop:
            gaps.append((at, stop))
        return [(a, b) for a, b in gaps if a < b]

    @property
    def outdated(self) -> bool:
        """Whether the file would say more, or another spec, if it were written now."""
        if self._spec is not None and self._spec["repetitions"] != self.want["repetitions"]:
            return True
        return any(b.first <= self._written.get(self._names[b.number], 0) for b in self.blocks.found())

    def bring_up_to_date(self) -> bool:
        """Puts the blocks into the file, as far as none is missing before them; says whether that is all."""
        found = self.blocks.found()
        run = Run(self.want, self.backend, self.device)
        with OpenFiles() as files:
            used: dict[str, list[Found]] = {}
            for index, (name, head) in enumerate(zip(self._names, self.heads, strict=True)):
                own = {b.path: b for b in found if b.number == index}
                pieces: list[Piece] = [
                    OnDisk(b.path, "/", b.first, b.stop, head, files, self.blocks.key) for b in own.values()
                ]
                if written := self._written.get(name, 0):
                    pieces.append(OnDisk(self.target, name, 0, written, head, files))
                chosen, end = first_ones(pieces)
                used[name] = [b for b in own.values() if b.stop <= end]
                fresh = [p for p, _, _ in chosen if isinstance(p, OnDisk) and p.path in own]
                seconds = self._seconds.get(name, 0.0) + sum(p.seconds for p in fresh)
                if fresh and not run.backend:  # parts are joined: say what made one of them
                    run.backend, run.device = (str(fresh[0].attribute(name)) for name in ("backend", "device"))
                run.parts[name] = Part(head, pieces, self.rows[index], self.counts, seconds)
            if not any(part.end for part in run.parts.values()):
                return False
            complete = write(self.target, run)
        for name, part in run.parts.items():
            self._written[name], self._seconds[name] = part.end, part.seconds
            for block in used[name]:
                with contextlib.suppress(OSError):
                    block.path.unlink()
        self._spec = dict(self.want)
        return complete

    def keep_what_is_done(self) -> None:
        """After something went wrong: blocks that can't be put into the file now stay where they are."""
        with contextlib.suppress(StoreError, MemoryError):
            if self.outdated:
                self.bring_up_to_date()
            self.blocks.end()
