"""A results file, checked when it is opened: what is wrong with it is one line with file and field.

What takes no time to read is read and checked at once; large arrays are, when they are first asked for.  Files of
format 1 are read as well (`old.py`).
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from gpu_rsfd.checks import MAX_USERS
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure import Frequencies
from gpu_rsfd.measure.base import Array, Measurement
from gpu_rsfd.results.result import Header, Measured, NotKept, Results
from gpu_rsfd.running.command import command_of
from gpu_rsfd.store.fields import Fields, shown, unreadable
from gpu_rsfd.store.format import FORMAT
from gpu_rsfd.store.header import HeaderReader
from gpu_rsfd.store.identity import digest_of, key_of
from gpu_rsfd.store.specs import check_spec
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.untrusted import check_links, open_regular

AT_ONCE = 32 << 20  # bytes of a file that are read when it is opened
ATTRIBUTES = (  # of the file, all of them under one checksum
    *("format", "spec", "complete", "stream_version", "package_version", "numpy_version", "backend", "device"),
    "wall_time",
)

SIGNATURE = b"\x89HDF\r\n\x1a\n"  # an HDF5 file begins with it


def open_results(path: str | os.PathLike[str]) -> Results:
    """Open a results file; of an unfinished run, the repetitions that are done.

    Parameters
    ----------
    path : str or path-like
        A file that `sweep`, `attack` or the command line wrote.

    Returns
    -------
    Results
        A `Result` for each data set of a sweep, an `AttackResult` for each of an attack.
    """
    with opened(Path(path)) as reader:
        return reader.results()


def check_results_file(path: Path) -> None:
    """Refuses what is not a results file of gpu-rsfd, finished or not, damaged or not."""
    with opened(path):
        pass


def read_header(path: Path, spec: Mapping[str, Any], dataset: dict[str, Any]) -> Header:
    """A data set without repetitions, as it lies beside blocks."""
    with open_hdf5(path) as file:
        return HeaderReader(path, file, dataset, spec).header()


def damaged(path: Path, begin: bytes, error: str) -> str:
    """What is wrong with a file that HDF5 can't open, and what to do."""
    if begin != SIGNATURE:
        return f"{path} is not an HDF5 file; a results file of gpu-rsfd is needed"
    whole = re.search(r"stored_eof = (\d+)", error)
    how = f"it ends after {path.stat().st_size:,} of {int(whole[1]):,} bytes" if whole else error.splitlines()[0]
    remove = shlex.join(["rm", str(path)])
    return (
        f"{path} is damaged: {how}, and its repetitions are lost; after `{remove}` the command that made it starts anew"
    )


@contextlib.contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """An HDF5 file that holds all that it names."""
    with contextlib.ExitStack() as stack:
        try:
            content = stack.enter_context(open_regular(path))
            begin = content.read(len(SIGNATURE))
        except ValueError as error:
            raise InputError(f"{path} {error}; a results file of gpu-rsfd is needed") from None
        except OSError as error:
            raise unreadable(path, error) from None
        try:
            file = stack.enter_context(h5py.File(content, "r"))
        except (OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the machine
                raise unreadable(path, error) from error
            raise InputError(damaged(path, begin, str(error))) from error
        Fields(path, file).read("a name", lambda: check_links(file))
        yield file


def missing(path: Path, command: str = "sweep") -> InputError:
    """What is said of a results file that is not there: the command that makes it, or that continues."""
    from gpu_rsfd.store.folder import NAME, folder_of, parts_of, spec_of

    folder, quoted = folder_of(path), shlex.quote(str(path))
    if not folder.is_dir() or not any(NAME.fullmatch(file.name) for file in folder.iterdir()):
        return InputError(f"{path} does not exist; `gpu-rsfd {command} --output {quoted}` makes it")
    spec = spec_of(folder)
    again = None if spec is None else command_of(spec, output=path)
    how = f"`{again}`" if again is not None else "the command that began it"
    how += f" with each --part, then `gpu-rsfd merge {quoted}`" if parts_of(folder) else ""
    return InputError(f"{path} does not exist yet; {folder} holds finished repetitions of it; to continue: {how}")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[FileReader]:
    if path.is_dir():
        raise InputError(f"{path} is a directory; a results file is needed")
    if not path.exists():
        raise missing(path)
    with open_hdf5(path) as file:
        try:
            ours = "spec" in file.attrs and "stream_version" in file.attrs
        except (OSError, KeyError, RuntimeError):
            ours = False
        if not ours:
            raise InputError(f"{path} is an HDF5 file, but not a results file of gpu-rsfd")
        reader = FileReader(path, file)
        if reader.read("format", lambda: file.attrs.get("format")) == 1:
            from gpu_rsfd.store.old import OldFileReader

            reader = OldFileReader(path, file)
        try:
            yield reader
        except InputError as error:
            if str(error).startswith(f"{path} is damaged: "):
                raise InputError(f"{error}; to make it again, run the command that made it with --overwrite") from None
            raise


class GroupReader(HeaderReader):
    """A data set with its repetitions."""

    def axis(self, field: str) -> int:
        """Of the repetitions; format 1 has another for some fields."""
        return 2

    def variable(self, header: Header, array: Array) -> Any:
        kinds = "iu" if np.dtype(array.dtype).kind == "i" else "f"
        cell = (len(header.protocols), len(header.epsilons))
        return self.array(array.name, kinds, (*cell, None, *array.tail(header)))

    def result(self, measurement: Measurement, room: int) -> tuple[Measured, int]:
        """What was measured, and how many bytes of it were read: all, if there is room for them, or none yet."""
        header, total, arrays = self.header(), range(*self.spec["repetitions"]), measurement.arrays()
        nodes = {array.name: self.variable(header, array) for array in arrays}
        lengths = {field: node.shape[self.axis(field)] for field, node in nodes.items()}
        done, last = min(lengths.values()), list(nodes)[-1]
        if not 1 <= done <= len(total):
            self.refuse(last, f"has {done} repetitions; 1 to {len(total)} are valid")
        for field, length in lengths.items():
            if length != done:
                self.refuse(field, f"has {length} repetitions; {last} has {done}")
        self.check_scales(header, total[:done])
        size = sum(node.size * node.dtype.itemsize for node in nodes.values())
        found: dict[str, Any]
        if size <= room:
            found = self.repetitions(header, measurement, done, list(nodes))
        else:
            size, key = 0, key_of(self.spec, self.dataset)
            found = {field: _LazyArray(self.path.absolute(), header, key, self.name, field, done) for field in nodes}
        if isinstance(measurement, Frequencies):
            found.setdefault("counts", NotKept(str(self.path)))
        plain = {key: value for key, value in self.spec.items() if key != "datasets"}
        return self.measured(measurement, header, total[:done], plain, found), size

    def measured(
        self, measurement: Measurement, header: Header, repetitions: range, spec: dict[str, Any], arrays: dict[str, Any]
    ) -> Measured:
        return measurement.result(header, repetitions, spec, arrays)

    def repetitions(self, header: Header, measurement: Measurement, done: int, fields: Sequence[str]) -> dict[str, Any]:
        """The first repetitions of some arrays, read and checked."""
        found: dict[str, Any] = {}
        for array in measurement.arrays():
            if array.name in fields or (array.name == "reporters" and "counts" in fields):
                node = self.variable(header, array)
                read = self.read(array.name, lambda node=node: node[:, :, :done])  # type: ignore[misc]
                found[array.name] = read.astype(array.dtype, copy=False)
        wrong = measurement.check(header, found)
        if wrong is not None:
            self.refuse(*wrong)
        return {field: found[field] for field in fields}

    def check_scales(self, header: Header, repetitions: range) -> None:
        """What xarray shows beside the arrays is what the spec says."""
        epsilons = self.numbers("epsilon", "fiu", (len(header.epsilons),))
        numbers = self.numbers("repetition", "iu", (len(repetitions),))
        for field, has, wanted in (
            ("protocol", tuple(self.texts("protocol", (len(header.protocols),))), header.protocols),
            ("epsilon", tuple(epsilons.tolist()), header.epsilons),
            ("repetition", tuple(numbers.tolist()), tuple(repetitions)),
        ):
            if has != wanted:
                self.refuse(field, f"is {shown(has)}, but spec says {shown(wanted)}")


class FileReader(Fields):
    """A results file."""

    groups: type[GroupReader] = GroupReader

    def results(self) -> Results:
        version = self.attribute("format")
        if isinstance(version, (int, np.integer)) and version > FORMAT:
            raise InputError(f"{self.path} was written by a newer gpu-rsfd ({self.text('package_version')})")
        self.whole("format", 1, FORMAT)
        stored = {name: self.attribute(name) for name in ATTRIBUTES}
        if self.read("sha256", lambda: attributes_digest(stored)) != self.text("sha256"):
            self.refuse("sha256", "does not fit the attributes: they have changed since the file was written")
        return self.contents(FORMAT)

    def contents(self, version: int) -> Results:
        stream = self.whole("stream_version", 0, MAX_USERS)
        if not 1 <= stream <= STREAM_VERSION:
            self.refuse("stream_version", f"is {stream}, which is unknown; this gpu-rsfd knows 1 to {STREAM_VERSION}")
        spec, room = self.json("spec"), AT_ONCE
        measurement = check_spec(self, spec)
        if spec.get("stream_version", stream) != stream:
            self.refuse("spec", f"says stream_version {shown(spec['stream_version'])}, the file says {stream}")
        results = Results(
            spec=spec,
            complete=bool(self.whole("complete", 0, 1)),
            stream_version=stream,
            package_version=self.text("package_version"),
            backend=self.backend(),
            device=self.text("device"),
            format=version,
        )
        wall_time = self.json("wall_time")
        for dataset in spec["datasets"]:
            name = dataset["name"]
            if self.has(name):
                results[name], read = self.group(dataset, spec).result(measurement, room)
                results.seconds[name] = self.seconds(wall_time, name)
                room -= read
        if not results:
            self.refuse("spec", "names data sets, but the file holds none of them")
        total = len(range(*spec["repetitions"]))
        done = len(results) == len(spec["datasets"]) and all(len(r.repetitions) == total for r in results.values())
        if done != results.complete:
            self.refuse("complete", f"is {int(results.complete)}, but the repetitions say {int(done)}")
        return results

    def group(self, dataset: Mapping[str, Any], spec: Mapping[str, Any]) -> GroupReader:
        name = dataset["name"]
        group = self.read(name, lambda: self.node[name])
        if not isinstance(group, h5py.Group):
            self.refuse(name, "is not a group of HDF5")
        return self.groups(self.path, group, dataset, spec)

    def backend(self) -> str:
        return self.text("backend")

    def seconds(self, wall_time: dict[str, Any], name: str) -> float:
        entry = wall_time.get(name)
        value = entry.get("seconds") if isinstance(entry, dict) else None
        if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            self.refuse("wall_time", f"has no seconds >= 0 for {name}")
        return float(value)


def attributes_digest(attributes: Mapping[str, Any]) -> str:
    """One checksum of all attributes of a file."""
    plain = {name: int(value) if isinstance(value, np.integer) else value for name, value in attributes.items()}
    return digest_of(plain)


@dataclass(frozen=True)
class _LazyArray:
    """Reads a large array when it is asked for, from whatever file is at the path then."""

    path: Path
    header: Header
    key: str
    name: str
    field: str
    done: int

    def __call__(self) -> Any:
        with opened(self.path) as reader:
            spec = reader.json("spec")
            dataset = next((d for d in spec["datasets"] if d["name"] == self.name), None)
            if dataset is None or key_of(spec, dataset) != self.key:
                raise self._another()
            group = reader.group(dataset, spec)
            header = group.header()
            places = self._places(header)
            read = group.repetitions(header, check_spec(reader, spec), self.done, [self.field])[self.field]
            return read[np.ix_(*places)]

    def _places(self, header: Header) -> tuple[list[int], list[int]]:
        """Where the cells are in the file now, which may have grown."""
        mine = self.header
        if not set(mine.protocols) <= set(header.protocols) or not set(mine.epsilons) <= set(header.epsilons):
            raise self._another()
        rows = [header.protocols.index(protocol) for protocol in mine.protocols]
        columns = [header.epsilons.index(epsilon) for epsilon in mine.epsilons]
        for p, row in enumerate(rows):
            for e, column in enumerate(columns):
                if mine.plan.digest(p, e) != header.plan.digest(row, column):
                    raise self._another()
        return rows, columns

    def _another(self) -> InputError:
        return InputError(f"{self.path} holds another run than when it was opened")
