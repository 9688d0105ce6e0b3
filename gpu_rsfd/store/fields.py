"""The fields of an HDF5 file, taken out one by one: what gpu-rsfd can't have written is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import h5py
import numpy as np

from gpu_rsfd.errors import InputError
from gpu_rsfd.store.files import StoreError
from gpu_rsfd.store.identity import digest_of
from gpu_rsfd.untrusted import one_value, stored_fault

T = TypeVar("T")
Shape = tuple[int | None, ...]  # None: any size


class Fields:
    """The fields of a file, or of a group in it."""

    def __init__(self, path: Path, node: Any, size: int, name: str = "") -> None:
        self.path, self.node, self.size, self.name = path, node, size, name

    def refuse(self, field: str, why: str) -> NoReturn:
        raise InputError(f"{self.path} is damaged: {self.name}{'/' * bool(self.name)}{field} {why}")

    def read(self, field: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except (MemoryError, InputError):
            raise
        except Exception as error:  # a damaged file makes HDF5 and h5py raise errors of almost any class
            if isinstance(error, OSError) and error.errno is not None:
                raise unreadable(self.path, error) from error
            self.refuse(field, f"can't be read ({first_line(error)})")

    def checked(self, field: str, check: Callable[[], T]) -> T:
        """What a check of ours says, with the file and the field in front."""
        try:
            return check()
        except InputError as error:
            self.refuse(field, f"is not valid: {error}")

    # ------------------------------------------------------------------------------------------------- attributes

    def attribute(self, field: str) -> Any:
        value = self.read(field, lambda: one_value(self.node, field))
        return self.read(field, value.decode) if isinstance(value, bytes) else value

    def attributes(self, names: Sequence[str]) -> dict[str, Any]:
        """All attributes of a file or a group, which have one checksum."""
        found = {name: self.attribute(name) for name in names}
        found = {name: int(value) if isinstance(value, np.integer) else value for name, value in found.items()}
        if self.read("sha256", lambda: digest_of(found)) != self.attribute("sha256"):
            self.refuse("sha256", "does not fit the attributes: they have changed since the file was written")
        return found

    def whole(self, field: str, low: int, high: int) -> int:
        value = self.attribute(field)
        if not isinstance(value, (int, np.integer)) or not low <= value <= high:
            self.refuse(field, f"is {shown(value)}; a whole number from {low} to {high} is needed")
        return int(value)

    def text(self, field: str) -> str:
        value = self.attribute(field)
        if not isinstance(value, str) or not encodable(value):
            self.refuse(field, f"is {shown(value)}; text is needed")
        return str(value)

    def json(self, field: str) -> dict[str, Any]:
        text = self.text(field)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            self.refuse(field, f"is not JSON ({error})")
        if not isinstance(value, dict):
            self.refuse(field, f"is {shown(value)}; a JSON object is needed")
        return value

    # ----------------------------------------------------------------------------------------------------- arrays

    def has(self, field: str) -> bool:
        return self.read(field, lambda: field in self.node)

    def numbers(self, field: str, kinds: str, shape: Shape) -> Any:
        """An array of numbers of these kinds and this shape, read."""
        node = self.array(field, kinds, shape)
        return self.read(field, lambda: node[()])

    def array(self, field: str, kinds: str, shape: Shape) -> Any:
        """The same, not read yet."""
        node = self._array(field, shape)
        dtype = self.read(field, lambda: node.dtype)
        if dtype.kind not in kinds or dtype.itemsize > 8:
            self.refuse(field, f"has dtype {dtype}; {'whole ' * ('f' not in kinds)}numbers are needed")
        return node

    def texts(self, field: str, shape: Shape) -> Any:
        """An array of text of a fixed length, as nested lists."""
        node = self._array(field, shape)
        if (dtype := self.read(field, lambda: node.dtype)).kind != "S":
            self.refuse(field, f"has dtype {dtype}; text of a fixed length is needed")
        found = self.read(field, lambda: np.char.decode(node[()], "utf-8", "surrogatepass"))
        return found.tolist()

    def _array(self, field: str, shape: Shape) -> Any:
        node = self.read(field, lambda: self.node[field])
        if not isinstance(node, h5py.Dataset):
            self.refuse(field, "is not a data set of HDF5")
        sizes = self.read(field, lambda: node.shape) or ()
        if len(sizes) != len(shape) or any(want not in (None, size) for size, want in zip(sizes, shape, strict=True)):
            valid = ", ".join("any" if size is None else str(size) for size in shape)
            self.refuse(field, f"has shape {node.shape}; ({valid}{',' * (len(shape) == 1)}) is needed")
        fault = self.read(field, lambda: stored_fault(node, self.size))
        if fault is not None:
            self.refuse(field, fault)
        return node


def unreadable(path: Path, error: OSError) -> InputError | StoreError:
    """What the machine refuses; nothing is wrong with the file."""
    if isinstance(error, PermissionError):
        return InputError(f"{path} can't be read: permission denied")
    kind = InputError if isinstance(error, FileNotFoundError) else StoreError
    return kind(f"{path} can't be read: {error.strerror or error}")


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def encodable(text: str) -> bool:
    """No lone surrogates, which h5py and JSON let through, but no terminal or figure can show."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def shown(value: object) -> str:
    """For people, short and in ASCII."""
    text = ascii(value).replace("\\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."
