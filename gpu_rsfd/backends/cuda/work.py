"""Who does what: repetitions given out in batches, as devices ask for them."""

from __future__ import annotations

import threading


class Work:
    """The repetitions first … last - 1 of a job that nobody has taken yet.  Devices may ask at the same time."""

    def __init__(self, first: int, last: int, devices: int = 1, least: int = 1) -> None:
        """With several devices, a batch is at most a fair part of what is left, but at least `least`."""
        self._left = [(first, last)] if first < last else []
        self._devices, self._least = devices, least
        self._lock = threading.Lock()

    @property
    def done(self) -> bool:
        """Whether everything is taken."""
        return not self._left

    def take(self, most: int) -> tuple[int, int] | None:
        """The next repetitions, at most so many; None if there are no more.

        The parts get smaller towards the end, so that a slow device does not keep the others waiting.
        """
        with self._lock:
            if not self._left:
                return None
            left = sum(last - first for first, last in self._left)
            fair = left if self._devices == 1 else max(self._least, -(-left // (2 * self._devices)))
            first, last = self._left.pop()
            stop = min(first + max(1, min(most, fair)), last)
            if stop < last:
                self._left.append((stop, last))
            return first, stop

    def give_back(self, first: int, last: int) -> None:
        """Taken, but not done."""
        with self._lock:
            self._left.append((first, last))

    def stop(self) -> None:
        """Nobody gets anything more."""
        with self._lock:
            self._left.clear()
