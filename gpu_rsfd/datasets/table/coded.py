"""Tables that hold codes already: NumPy's .npz and HDF5."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from gpu_rsfd.errors import InputError

_WANTED = ("codes", "domain", "k", "names", "attributes", "labels_json")  # nothing else is read
_WHAT = "an array `codes` [users, attributes], with `domain`, `names` and `labels_json` if wanted"


def read_npz(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {key: file[key] for key in _WANTED if key in file.files}
    except (OSError, EOFError, ValueError, AttributeError, TypeError, zlib.error, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not a readable .npz file ({error}); valid: {_WHAT}") from None


def read_hdf5(path: Path) -> dict[str, Any]:
    import h5py  # not needed for anything else here, and slow to import

    from gpu_rsfd.untrusted import open_regular, stored_fault

    try:
        with open_regular(path) as content, h5py.File(content, "r") as file:
            arrays = {}
            for key in _WANTED:
                if (link := file.get(key, getlink=True)) is None:
                    continue
                if not isinstance(link, h5py.HardLink):
                    raise ValueError(f"{key} is a link")
                if isinstance(node := file[key], h5py.Dataset):
                    if (fault := stored_fault(node, path.stat().st_size)) is not None:
                        raise ValueError(f"{key} {fault}")
                    arrays[key] = node[()]
            return arrays
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"{path} is not a readable HDF5 file ({error}); valid: {_WHAT}") from None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def coded_table(path: Path, arrays: dict[str, Any]) -> tuple[Any, list[int], list[str], list[list[str]] | None]:
    """(codes, domain sizes, attribute names, labels) of a file; what it leaves out is taken from the codes."""
    if "codes" not in arrays:
        raise InputError(f"{path} has no `codes`; valid: {_WHAT}")
    codes = np.asarray(arrays["codes"])
    if codes.ndim != 2 or codes.dtype.kind not in "iu" or not codes.size:
        raise InputError(f"{path}: codes has shape {codes.shape} and dtype {codes.dtype}; valid: {_WHAT}")
    d = codes.shape[1]
    domain = np.ravel(arrays.get("domain", arrays.get("k", codes.max(axis=0).astype(np.int64) + 1)))
    if domain.dtype.kind not in "iu":
        raise InputError(f"{path}: domain has dtype {domain.dtype}; valid: whole numbers, one for each attribute")
    labels = None
    try:
        names = [_text(x) for x in np.ravel(arrays.get("names", arrays.get("attributes", [])))]
        if "labels_json" in arrays:
            labels = json.loads(_text(np.asarray(arrays["labels_json"]).item()))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: names and labels_json must be UTF-8 text ({error})") from None
    except ValueError as error:
        raise InputError(f"{path}: labels_json is not a list of lists of labels ({error})") from None
    if "labels_json" in arrays and (not isinstance(labels, list) or not all(isinstance(part, list) for part in labels)):
        raise InputError(f"{path}: labels_json is not a list of lists of labels")
    if "names" not in arrays and "attributes" not in arrays:
        names = [f"A{j + 1}" for j in range(d)]
    for what, entries in (("domain", domain), ("names", names), ("labels_json", labels)):
        if entries is not None and len(entries) != d:
            raise InputError(f"{path}: {what} has {len(entries)} entries, but codes has {d} columns")
    return codes, domain.tolist(), names, labels
