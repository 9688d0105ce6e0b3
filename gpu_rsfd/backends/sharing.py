"""A data set for many processes on a machine: large arrays are in one temporary file, which all of them map."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import pickle
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

MAPPED_BYTES = 1 << 20  # smaller arrays are sent as they are
ALIGNED = mmap.ALLOCATIONGRANULARITY


@dataclass(frozen=True)
class Mapped:
    """Where in the file an array is."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    writeable: bool

    def array(self) -> npt.NDArray[Any]:
        """Shared with all who map it; what is written to it, if anything may be, is this process's alone."""
        mode: Any = "c" if self.writeable else "r"
        return np.asarray(np.memmap(self.path, np.dtype(self.dtype), mode, self.offset, self.shape))


class Shared:
    """An object as bytes that another process can make it from, its large arrays being in a file."""

    def __init__(self, thing: object) -> None:
        self._path: Path | None = None
        self.content, self.mapped = b"", False
        try:
            self.content = self._written(thing)
        except OSError:  # no room for the file: everybody gets a copy
            self.forget()
            self.content = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)

    def _written(self, thing: object) -> bytes:
        shared, image = self, io.BytesIO()
        file: Any = None
        known: dict[int, Mapped] = {}

        class Pickler(pickle.Pickler):
            def persistent_id(self, obj: Any) -> Mapped | None:
                nonlocal file
                if type(obj) is not np.ndarray or obj.nbytes < MAPPED_BYTES or obj.dtype.hasobject:
                    return None
                if not obj.flags.c_contiguous:
                    return None
                if id(obj) not in known:
                    if file is None:
                        number, name = tempfile.mkstemp(prefix="gpu-rsfd-", suffix=".data")
                        shared._path, file = Path(name), os.fdopen(number, "wb")
                    offset = -(-file.tell() // ALIGNED) * ALIGNED
                    file.seek(offset)
                    file.write(obj.data.cast("B") if obj.ndim else obj.tobytes())
                    name = str(shared._path)
                    known[id(obj)] = Mapped(name, obj.dtype.str, obj.shape, offset, obj.flags.writeable)
                return known[id(obj)]

        try:
            Pickler(image, pickle.HIGHEST_PROTOCOL).dump(thing)
        finally:
            if file is not None:
                file.close()
        self.mapped = file is not None
        return image.getvalue()

    def forget(self) -> None:
        """Removes the file's name.  Who has mapped it keeps it; where that can't be, it goes when all have ended."""
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                try:
                    self._path.unlink()
                except PermissionError:  # still mapped, on systems that mind
                    return
            self._path = None

    @property
    def forgotten(self) -> bool:
        """Whether nobody else can map it any more, though there was something to map."""
        return self.mapped and self._path is None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Mapped) -> npt.NDArray[Any]:
        return pid.array()


def received(content: bytes) -> Any:
    """What `Shared` was made of."""
    return _Unpickler(io.BytesIO(content)).load()
